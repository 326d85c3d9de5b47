"""What a step reads beside its arguments, and what it changes: generators, autocast, buffers, hooks of params.

A step that runs again must find these as it did the first time, and leave them as they are.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn


class Generators:
    """The generators of torch that steps may draw from: that of the CPU, and one of each device."""

    def __init__(self, tensors: Any):
        self.devices = sorted({t.device for t in tensors if t.device.type not in ("cpu", "meta")}, key=str)

    def read(self) -> list[Any]:
        states = [torch.get_rng_state()]
        for device in self.devices:
            module = torch.get_device_module(device)
            states.append(module.get_rng_state() if device.type == "mps" else module.get_rng_state(device))
        return states

    def write(self, states: list[Any]) -> None:
        torch.set_rng_state(states[0])
        for device, state in zip(self.devices, states[1:]):
            module = torch.get_device_module(device)
            if device.type == "mps":
                module.set_rng_state(state)
            else:
                module.set_rng_state(state, device)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Leaves the generators as they were."""
        states = self.read()
        try:
            yield
        finally:
            self.write(states)


def same_states(a: list[Any], b: list[Any]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b))


class Autocast:
    """The state of autocast, for the CPU and each device type of TENSORS."""

    def __init__(self, tensors: Any):
        kinds = sorted({"cpu", *(t.device.type for t in tensors)})
        kinds = [kind for kind in kinds if torch.amp.is_autocast_available(kind)]
        self.kinds = tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds)
        self.caches = torch.is_autocast_cache_enabled()
        self.enabled = any(enabled for _, enabled, _ in self.kinds)

    def key(self) -> Any:
        return self.kinds if self.enabled else None

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Runs a step in this state.

        A cast of a weight is cached for the step alone: one that was made without a graph would serve a step that
        needs it, and one with a graph would hold memory.
        """
        with ExitStack() as stack:
            for kind, enabled, dtype in self.kinds:
                if enabled or torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, dtype, enabled, self.caches))
            if self.enabled:
                torch.clear_autocast_cache()
                stack.callback(torch.clear_autocast_cache)
            yield


def buffers(module: nn.Module) -> dict[tuple[str, str], torch.Tensor]:
    """Returns the buffers of MODULE by the names of their module and of their own."""
    return {(path, name): buffer for path, part in module.named_modules()
            for name, buffer in part._buffers.items() if buffer is not None}


@contextmanager
def swapped_buffers(module: nn.Module, values: dict[tuple[str, str], torch.Tensor] | None) -> Iterator[None]:
    """Puts copies of VALUES into the places of MODULE's buffers. The buffers themselves do not change."""
    if not values:
        yield
        return
    own = []
    for (path, name), value in values.items():
        part = module.get_submodule(path)
        own.append((part, name, part._buffers[name]))
        part._buffers[name] = value.clone()
    try:
        yield
    finally:
        for part, name, buffer in own:
            part._buffers[name] = buffer


def params(module: nn.Module) -> list[torch.Tensor]:
    """Returns the params of MODULE that get gradients, once each. Those of a replica of DataParallel are no leaves."""
    found: dict[int, torch.Tensor] = {}
    for part in module.modules():
        for values in (part._parameters, part.__dict__.get("_former_parameters", {})):
            for value in values.values():
                if value is not None and value.requires_grad:
                    found[id(value)] = value
    return list(found.values())


@contextmanager
def without_hooks(tensors: list[torch.Tensor]) -> Iterator[None]:
    """Takes the hooks of TENSORS away: they fire once, when the outer backward pass has the whole gradient."""
    taken = [(hooks, dict(hooks)) for t in tensors if (hooks := t._backward_hooks)]
    for hooks, _ in taken:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, items in taken:
            hooks.update(items)
