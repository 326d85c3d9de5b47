"""fit: a model whose blocks run within a number of bytes."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from .._errors import UsageError
from .._sizes import parse_bytes
from ._blocks import Between, Fit
from ._surroundings import Generators, buffers, swapped_buffers

_SHARDED = {"FSDPModule", "FullyShardedDataParallel"}
_CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Chain(nn.Module):
    """Modules that run one after another. A tuple becomes the arguments of the next; each gets the same keywords."""

    def __init__(self, modules: Iterable[Any]):
        super().__init__()
        for number, module in enumerate(modules):
            self.add_module(str(number), module if isinstance(module, nn.Module) else Function(module))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        value: Any = args
        for module in self._modules.values():
            own = value if isinstance(value, tuple) else (value,)
            value = module(*own, **kwargs)  # type: ignore[misc]
        return value


class Fitted:
    """What fit adds to the class of a model."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        own = getattr(type(self), "__getstate__", None)
        state = self.__dict__ if own in (None, getattr(object, "__getstate__", None)) else own(self)
        return _remake, (_base(type(self)),), state


def _base(fitted: type) -> type:
    return fitted.__bases__[1]


@functools.cache
def _class(base: type) -> type:
    """Returns the class of fitted models of the class BASE."""

    @functools.wraps(base.forward)  # type: ignore[attr-defined]
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        fit = self.__dict__.get("ckptc")
        if fit is None or not torch.is_grad_enabled():
            return base.forward(self, *args, **kwargs)  # type: ignore[attr-defined]
        if torch.compiler.is_compiling():
            raise UsageError("a fitted model cannot be compiled; compile its blocks, and then fit it")
        with fit.session(self):
            result = base.forward(self, *args, **kwargs)  # type: ignore[attr-defined]
        for leaf in tree_leaves(result):
            if isinstance(leaf, Between):
                leaf.refuse("return")
        return result

    return type(base.__name__, (Fitted, base), {"forward": forward, "__module__": base.__module__,
                                                "__qualname__": base.__qualname__, "__doc__": base.__doc__})


def _remake(base: type) -> Any:
    return _class(base).__new__(_class(base))


def _copy(model: nn.Module) -> Any:
    """Returns a fitted model that has everything of MODEL."""
    cls = _class(type(model))
    made = cls.__new__(cls)
    made.__dict__.update(model.__dict__)
    return made


def _names(model: nn.Module, blocks: Any) -> list[str]:
    """Returns the names of the blocks of MODEL."""
    if not isinstance(blocks, str):
        names = [str(name) for name in blocks]
    elif blocks and not isinstance(_find(model, blocks), _CONTAINERS):
        raise UsageError(f"blocks: '{blocks}' is a {type(_find(model, blocks)).__name__} and no list of modules; "
                         "give the name of a ModuleList or a Sequential, or a list of names")
    else:
        container = _find(model, blocks)
        names = [f"{blocks}.{own}" if blocks else own for own in container._modules]
    for name in names:
        _find(model, name)
    if not names:
        raise UsageError(f"blocks: {blocks!r} has no blocks")
    return names


def _find(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise UsageError(f"blocks: the model has no '{name}'{_candidates(model)}") from None


def _candidates(model: nn.Module) -> str:
    found = [f"'{name}' ({len(part)})" for name, part in model.named_modules()
             if name and isinstance(part, _CONTAINERS) and len(part) > 1]
    return f"; its lists of modules are {', '.join(found[:8])}" if found else ""


def fit(modules: Any, memory: int | str, blocks: str | Iterable[str] | None = None, example: Any = None,
        group: Any = None) -> Any:
    """Returns a model that computes what MODULES compute, in MEMORY bytes.

    modules  an nn.Sequential; a list or an nn.ModuleList of modules or functions, which run one after another; or a
             model with `blocks`
    memory   bytes, as in "8GB", for all that the blocks allocate from the begin of their forward pass to the end of
             their backward pass: beside params, gradients of params and the optimiser's state
    blocks   where in the model the blocks are: "h" or "encoder.layers" for the members of an nn.ModuleList or an
             nn.Sequential; or a list of names. Its forward method calls them one after another
    example  arguments of the model, or one argument: they are measured and planned now. Else the first call with
             arguments of new shapes measures
    group    a process group of torch.distributed, for blocks that communicate, such as SyncBatchNorm: its processes
             call the model at the same time, and have the same schedule

    The result has the params, the buffers and the state_dict of MODULES, shares them, and is of their class; that of a
    list is an nn.Module. Its attribute `ckptc` has the plan: `ckptc.schedule`, `ckptc.costs`; `ckptc.memory`.

    Where gradients are not enabled, the blocks run plainly.

    Raises LimitError, which has the least bytes that work as `least`, if MEMORY is too small; UsageError if the blocks
    are no chain.
    """
    size = parse_bytes(memory, "memory")
    if blocks is None and isinstance(modules, nn.Sequential):
        model, names = modules, _names(modules, "")
    elif blocks is not None:
        if not isinstance(modules, nn.Module):
            raise UsageError(f"blocks: {type(modules).__name__} is no nn.Module; `blocks` are names of its parts")
        model, names = modules, _names(modules, blocks)
    elif isinstance(modules, nn.ModuleList) or not isinstance(modules, nn.Module):
        items = list(modules)
        for number, item in enumerate(items):
            if not callable(item):
                raise UsageError(f"modules: number {number} is {type(item).__name__}, which cannot be called")
        model = Chain(items)
        names = _names(model, "")
    else:
        raise UsageError(f"blocks: name the blocks of {type(modules).__name__}{_candidates(modules)}")
    if isinstance(model, (torch.jit.ScriptModule, Fitted)):
        what = "fitted already" if isinstance(model, Fitted) else "a compiled script"
        raise UsageError(f"modules: {type(model).__name__} is {what}")
    if sharded := [name for name, part in model.named_modules() if _SHARDED & {c.__name__ for c in type(part).__mro__}]:
        raise UsageError(f"modules: '{sharded[0]}' has its params sharded by FSDP, which a fitted model does not "
                         "support")
    made = _copy(model)
    made.__dict__["ckptc"] = Fit(size, names, group)
    if example is not None:
        _try(made, example)
    return made


def _arguments(example: Any) -> tuple[Any, Any]:
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example) if isinstance(example, (tuple, list)) else (example,)), {}


def _try(model: Any, example: Any) -> None:
    """Plans for the arguments EXAMPLE."""
    args, kwargs = _arguments(example)
    with _undone(model):
        model(*args, **kwargs)


@contextmanager
def _undone(model: nn.Module) -> Iterator[None]:
    """Leaves buffers and generators as they were."""
    own = buffers(model)
    with torch.enable_grad(), Generators([*model.parameters(), *own.values()]).kept(), swapped_buffers(model, own):
        yield


def check(model: Any, *args: Any, **kwargs: Any) -> None:
    """Runs each block of the fitted MODEL twice on arguments, and compares the bits of its results.

    Raises CheckError, which names the first block from the end whose results differ. Nothing of the model changes.
    """
    if not isinstance(model, Fitted):
        raise UsageError(f"model: {type(model).__name__} is not fitted")
    fit: Fit = model.__dict__["ckptc"]
    fit._check = True
    try:
        with _undone(model):  # type: ignore[arg-type]
            results = [v for v in tree_leaves(model(*args, **kwargs))  # type: ignore[operator]
                       if isinstance(v, torch.Tensor) and v.requires_grad]
            wanted = [p for p in model.parameters() if p.requires_grad]  # type: ignore[attr-defined]
            wanted += [v for v in tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor) and v.requires_grad]
            if results and wanted:
                torch.autograd.grad(results, wanted, [torch.ones_like(v) for v in results], allow_unused=True)
    finally:
        fit._check = False
