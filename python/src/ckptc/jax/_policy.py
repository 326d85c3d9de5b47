"""A plan's choice of values by name, for jax.checkpoint."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax

from .._chain import Chain
from .._errors import UsageError
from .._reports import Residual


def policy(names: Iterable[Any]) -> Callable[..., Any]:
    """Returns a policy of jax.checkpoint that keeps exactly the values of these NAMES.

    names  as jax.ad_checkpoint.checkpoint_name gives them; or what ckptc.Chain.residuals returns, for the named ones

        f = jax.checkpoint(f, policy=ckptc.jax.policy(["h", "scores"]))
        f = jax.checkpoint(f, policy=ckptc.jax.policy(chain.residuals(x, policy="dots")))
    """
    if isinstance(names, str):
        raise UsageError(f"names: '{names}' is one name; write [{names!r}]")
    found: dict[str, None] = {}
    for name in names:
        if isinstance(name, Residual):
            if name.kind == "named" and name.name is not None:
                found[name.name] = None
        elif isinstance(name, str):
            found[name] = None
        else:
            raise UsageError(f"names: {name!r} is no name")
    return jax.checkpoint_policies.save_only_these_names(*found)


def kept_names(chain: Chain, x: Any = None, /, policy: str | None = None, **options: Any) -> list[str]:
    """Returns the names of the values that CHAIN keeps under a policy or within `memory`, in the order of the chain.

    x, policy, and OPTIONS such as memory= and params  as in ckptc.Chain.residuals

    Raises UsageError if the plan keeps a value that has no name, since JAX could not be asked for it.
    """
    names: dict[str, None] = {}
    for row in chain.residuals(x, policy=policy, **options):
        if row.kind == "output":
            raise UsageError(f"the plan keeps a value without a name, {row}; give it one by `name`")
        if row.kind == "named" and row.name is not None:
            names[row.name] = None
    return list(names)
