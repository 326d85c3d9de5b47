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
"""
from ._chain import Chain, Gradient
from ._counters import Counters
from ._errors import (ChainError, CheckError, DataError, Error, LimitError, Place, ProgramError, SystemFailure,
                      UsageError)
from ._library import library as _library
from ._reports import Plan, Report, Residual
from ._schedule import Action, Costs, Schedule, Step, plan, verify

__version__: str = _library.ckptc_version().decode()

__all__ = ["Action", "Chain", "ChainError", "CheckError", "Costs", "Counters", "DataError", "Error", "Gradient",
           "LimitError", "Place", "Plan", "ProgramError", "Report", "Residual", "Schedule", "Step", "SystemFailure",
           "UsageError", "plan", "verify"]
