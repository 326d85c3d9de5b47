"""ckptc.torch: PyTorch models whose blocks run in the memory you have.

    >>> import ckptc.torch
    >>> model = ckptc.torch.fit(model, memory="8GB", blocks="transformer.h")
    >>> loss = model(tokens).sum()
    >>> loss.backward()                 # the loss and the gradients have the bits of the model as it was

fit          measures the blocks, plans, and returns a model that follows the plan
check        finds a block that computes something else when it runs again
recomputing  True while a block runs again
"""
from ._engine import recomputing
from ._fit import check, fit

__all__ = ["check", "fit", "recomputing"]
