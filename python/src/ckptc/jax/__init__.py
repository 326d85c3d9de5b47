"""ckptc.jax: functions that JAX differentiates in the memory you have.

    >>> import ckptc.jax
    >>> run = ckptc.jax.checkpoint_chain([embed, *[block] * 12, loss], memory="2GB")
    >>> value, gradients = jax.jit(jax.value_and_grad(run))(params, tokens)

The params are a list with one pytree for each function.

checkpoint_chain  a list of functions, of which each reads the result of the one before it
checkpoint_scan   a function that runs on each row of stacked params
policy            names that a plan keeps, as a policy of jax.checkpoint
kept_names        the names that a plan of a ckptc.Chain keeps
"""
from ._chain import CheckpointedChain, checkpoint_chain
from ._policy import kept_names, policy
from ._scan import CheckpointedScan, checkpoint_scan

__all__ = ["CheckpointedChain", "CheckpointedScan", "checkpoint_chain", "checkpoint_scan", "kept_names", "policy"]
