"""Run a schedule of ckptc on PyTorch steps.

    python3 costs_torch.py > costs.json
    ckptc plan --spec costs.json --policy revolve:4 --schedule --format json | python3 run_torch.py

From your own program, where schedule is that JSON text:

    run(steps, batch, json.loads(schedule)["actions"])

Steps are modules or other callables. A state flows between them: one tensor, or a
tuple of tensors, numbers and None. A tuple becomes positional arguments. With adds
keyword arguments that are the same for every call. Steps may share modules and params.
Gradients are added to .grad, as by backward(). They have the bits of plain autograd if
.grad was None or zero before.

A step runs several times. So

- No step may write over its input: a step cannot begin with nn.ReLU(inplace=True).
- A step that runs again draws the random numbers of the first time. For that run() keeps
  the state of torch's generator before each step that draws: 5056 bytes on a CPU, 16 on
  a GPU. A step that has a generator of its own must restore it itself.
- Buffers, such as the statistics of BatchNorm, change the first time alone. They must
  belong to a step that is a module.
"""
import json
import os
import sys
import tempfile

import torch
from torch import nn


class With(nn.Module):
    """A step with keyword arguments: With(block, mask=mask). They get no gradient."""

    def __init__(self, step, **keywords):
        super().__init__()
        self.step, self.keywords = step, keywords

    def forward(self, *state):
        return self.step(*state, **self.keywords)


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def has_gradient(value):
    if not isinstance(value, (torch.Tensor, int, float, type(None))):
        raise TypeError(f"a state consists of tensors, numbers and None, not of {type(value).__name__}")
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def with_gradient(state):
    return [x for x in state if has_gradient(x)]


def call(step, inputs):
    """Returns STEP's output as a tuple."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    before = [x._version for x in tensors]
    after = as_tuple(step(*inputs))
    if [x._version for x in tensors] != before:
        raise RuntimeError(f"{type(step).__name__} writes over its input, which a checkpoint may hold")
    return after


class Enter(torch.autograd.Function):
    """Begins a step's graph. A leaf would hold its tensor even where the backward pass does not read it."""

    @staticmethod
    def forward(ctx, root, found, *state):
        ctx.found = found
        return tuple(x.view_as(x) for x in state)

    @staticmethod
    def backward(ctx, *cotangents):
        ctx.found[:] = cotangents
        return None, None, *[None] * len(cotangents)


class Leave(torch.autograd.Function):
    """Ends a step's graph. Its result holds the graph, but not the step's output."""

    @staticmethod
    def forward(ctx, given, *state):
        ctx.given = given
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        cotangents, ctx.given[:] = list(ctx.given), ()
        return None, *cotangents


def forward(step, state):
    with torch.no_grad():
        return call(step, state)


def record(step, state):
    """Returns the state after STEP, and what reverse() needs."""
    inputs = with_gradient(state)
    given, found = [], [None] * len(inputs)  # cotangents: of the output, of the input
    with torch.enable_grad():
        entered = iter(Enter.apply(torch.zeros((), requires_grad=True), found, *inputs))
        after = call(step, [next(entered) if has_gradient(x) else x for x in state])
        end = Leave.apply(given, *with_gradient(after))
    return tuple(y.detach() if has_gradient(y) else y for y in after), (end, given, found)


def reverse(recorded, cotangents):
    """Adds to the params' gradients. Returns the cotangents of a step's input from those of its output."""
    end, given, found = recorded
    given[:] = cotangents
    if end.requires_grad and any(c is not None for c in cotangents):
        end.backward()
    return found


class Once:
    """Runs steps, so that one that runs again does as the first time and changes nothing else."""

    def __init__(self, steps, device):
        self.steps, self.generators = steps, {}
        self.get, self.set = torch.get_rng_state, torch.set_rng_state
        if device.type == "cuda":
            self.get = lambda: torch.cuda.get_rng_state(device)
            self.set = lambda state: torch.cuda.set_rng_state(state, device)

    def __call__(self, run, i, state):
        before = self.get()
        if i not in self.generators:
            result = run(self.steps[i], state)
            self.generators[i] = None if torch.equal(before, self.get()) else before
            return result
        if self.generators[i] is not None:
            self.set(self.generators[i])
        result = run(self.with_copied_buffers(self.steps[i]), state)
        self.set(before)
        return result

    @staticmethod
    def with_copied_buffers(step):
        buffers = {n: b.clone() for n, b in step.named_buffers()} if isinstance(step, nn.Module) else {}
        return (lambda *state: torch.func.functional_call(step, buffers, state)) if buffers else step


def ones(*output):
    """The default cotangents, as those of backward() for a loss."""
    return [torch.ones_like(y) for y in with_gradient(output)]


def run(steps, x, actions, cotangent=ones):
    """
    Performs ACTIONS. Returns a list of the gradients of X's floating-point tensors.

    COTANGENT is called once with the output, and returns a list: a cotangent for each
    floating-point tensor of the output. The peak is the plan's if the caller keeps no
    other reference to X, as in run(steps, make_batch(), ...).
    """
    state, slots, recorded, cotangents = as_tuple(x), {}, {}, None
    del x
    device = next((v.device for v in state if isinstance(v, torch.Tensor)), torch.device("cpu"))
    once = Once(steps, device)
    if max((a["end"] for a in actions if a["action"] == "backward"), default=0) != len(steps):
        raise ValueError(f"the schedule is not one of {len(steps)} steps")
    with tempfile.TemporaryDirectory() as disk:
        for a in actions:
            kind, slot = a["action"], a.get("slot")
            file = os.path.join(disk, f"{slot}.pt")
            span = range(a.get("begin", 0), a.get("end", 0))
            if kind == "forward":
                for i in span:
                    state = once(forward, i, state)
            elif kind == "record":
                for i in span:
                    state, recorded[i] = once(record, i, state)
            elif kind == "backward":
                if cotangents is None:
                    cotangents = cotangent(*state)
                state = None
                for i in reversed(span):
                    cotangents = reverse(recorded.pop(i), cotangents)
            elif kind == "save":
                slots[slot] = state
            elif kind == "load":
                state = slots[slot]
            elif kind == "drop":
                del slots[slot]
            elif kind == "spill":
                torch.save(state, file)
            elif kind == "fetch":
                state = None
                state = torch.load(file)
            elif kind == "discard":
                os.remove(file)
    return cotangents


def example():
    """The steps and the input that the two scripts measure and run: put your own model here."""
    torch.manual_seed(1)
    block = lambda: nn.Sequential(
        nn.Linear(512, 2048), nn.GELU(), nn.Dropout(0.1), nn.Linear(2048, 512), nn.LayerNorm(512)
    )
    return [block() for _ in range(12)], torch.randn(256, 512)


def main():
    steps, x = example()
    gradient, = run(steps, x, json.load(sys.stdin)["actions"])
    print("gradient of the input, norm:", gradient.norm().item())
    params = nn.ModuleList(steps).parameters()
    print("gradients of the params, norm:", nn.utils.get_total_norm([p.grad for p in params]).item())


if __name__ == "__main__":
    main()
