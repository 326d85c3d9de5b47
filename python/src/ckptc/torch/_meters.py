"""Bytes that torch allocates, by phases.

A meter runs a generator. It returns a row for each yield: the bytes held then, and the most since the yield before.
Memory that was held before does not count.
"""
from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Rows = list[tuple[int, int]]
_MARK = "ckptc: yield"


def usage(phases: Iterator[None], device: torch.device) -> Rows:
    """Measures by the allocator of DEVICE, or by the life of storages if it has no counters.

    The collector of cycles is off: what it freed would count.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _usage(phases, device)
    finally:
        if collects:
            gc.enable()


def _usage(phases: Iterator[None], device: torch.device) -> Rows:
    if device.type == "cuda":
        return _by_counters(phases, device)
    if device.type == "cpu" and not torch.autograd._profiler_enabled():
        return _by_profiler(phases)
    return by_storages(phases)


def _by_counters(phases: Iterator[None], device: torch.device) -> Rows:
    rows, base = [], torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    for _ in phases:
        rows.append((torch.cuda.memory_allocated(device) - base, torch.cuda.max_memory_allocated(device) - base))
        torch.cuda.reset_peak_memory_stats(device)
    return rows


def _by_profiler(phases: Iterator[None]) -> Rows:
    """The profiler reports each allocation and release of the CPU's allocator."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    rows, held, most = [], 0, 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in phases:
            with torch.profiler.record_function(_MARK):
                pass
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
        elif event.name() == _MARK:
            rows.append((held, most))
            most = held
    return rows


class Storages(TorchDispatchMode):
    """Counts the storages of the results of operations, as long as they live: `held` and `most` are bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.most, self._live = 0, 0, set[int]()

    def _release(self, key: int, size: int) -> None:
        self._live.discard(key)
        self.held -= size

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        given = {storage._cdata for storage in _storages((args, kwargs))}  # a view allocates nothing
        for storage in _storages(result):
            if (key := storage._cdata) not in self._live and key not in given:
                self._live.add(key)
                size = storage.nbytes()
                self.held += size
                self.most = max(self.most, self.held)
                weakref.finalize(storage, self._release, key, size)
        return result


def _storages(values: Any) -> list[Any]:
    tensors = [v for v in tree_leaves(values) if isinstance(v, torch.Tensor) and v.layout == torch.strided]
    return [v.untyped_storage() for v in tensors]


def by_storages(phases: Iterator[None]) -> Rows:
    rows = []
    with Storages() as storages:
        for _ in phases:
            rows.append((storages.held, storages.most))
            storages.most = storages.held
    return rows


def tensor_bytes(tensors: Any) -> int:
    """Returns the bytes of TENSORS, those of a storage once."""
    return sum({s._cdata: s.nbytes() for s in _storages(list(tensors))}.values())
