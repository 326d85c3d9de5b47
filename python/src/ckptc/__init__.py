"""ckptc: gradients in the memory you have, by libckptc.

    >>> import ckptc, numpy as np
    >>> chain = ckptc.Chain("param W; matmul W; tanh; square; sum")
    >>> value, by_x, by_params = chain.grad(np.ones((4, 3)), W=np.eye(3), policy="sqrt")
    >>> chain.plan("f64[4,3]", W="f64[3,3]")           # what each policy costs
    >>> chain.residuals("f64[4,3]", W="f64[3,3]")      # what is kept, and why

    >>> schedule = ckptc.plan([ckptc.Step(forward=1, backward=2, state_bytes=8, residual_bytes=80, count=100)],
    ...                       memory="2kB")
    >>> for kind, begin, end, slot in schedule: ...
    >>> schedule.execute(callbacks)

`python -m ckptc` is the command line. ckptc.schedules has the classes of the package checkpoint_schedules.
ckptc.torch runs the blocks of PyTorch models within a number of bytes, and ckptc.jax functions of JAX.
"""
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._chain import Chain, Gradient
    from ._counters import Counters
    from ._errors import (ChainError, CheckError, DataError, Error, LimitError, Place, ProgramError, SystemFailure,
                          UsageError)
    from ._reports import Plan, Report, Residual
    from ._schedule import Action, Costs, Schedule, Step, plan, verify

    __version__: str

# The names of a module are read when one is used: the command line needs neither NumPy nor the library.
_MODULES = {
    "_chain": ("Chain", "Gradient"),
    "_counters": ("Counters",),
    "_errors": ("ChainError", "CheckError", "DataError", "Error", "LimitError", "Place", "ProgramError",
                "SystemFailure", "UsageError"),
    "_reports": ("Plan", "Report", "Residual"),
    "_schedule": ("Action", "Costs", "Schedule", "Step", "plan", "verify"),
    "_library": ("__version__",),
}

__all__ = ["Action", "Chain", "ChainError", "CheckError", "Costs", "Counters", "DataError", "Error", "Gradient",
           "LimitError", "Place", "Plan", "ProgramError", "Report", "Residual", "Schedule", "Step", "SystemFailure",
           "UsageError", "plan", "verify"]


def __getattr__(name: str) -> Any:
    from importlib import import_module
    if name in ("schedules",):
        return import_module(f"{__name__}.{name}")
    for module, names in _MODULES.items():
        if name in names:
            values = vars(import_module(f"{__name__}.{module}"))
            globals().update((each, values[each]) for each in names)
            return values[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "schedules", "__version__"])
