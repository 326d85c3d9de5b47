"""Measure PyTorch steps for `ckptc plan --spec costs.json`.

    python3 costs_torch.py > costs.json
    ckptc plan --spec costs.json --sweep memory

Put your own model into example() of run_torch.py, whose head says what a step is. That
script performs the plan, and its forward(), record() and reverse() are measured here.
Measuring changes gradients, buffers and the generator: use a model made for it.

The bytes are those of torch's allocator. On a CPU the profiler reports each allocation
and release; on a GPU the allocator has counters. Memory that libraries allocate
themselves does not count, such as the workspace of a convolution in oneDNN.

    state_bytes         a step's input; a tensor that several states pass on counts in each
    residual_bytes      what a recorded step leaves, without its input. With keeps_output
                        its output is part of that
    forward_temporary_bytes, record_temporary_bytes, backward_temporary_bytes
                        the most that is allocated beside states, residuals and cotangents.
                        A backward pass makes gradients of params before it adds them
    fixed_bytes         params, buffers, .grad of each param from start to end (as after
                        zero_grad(set_to_none=False)), the generator's state for each step
                        that draws random numbers, and the state of the optimiser. For the
                        last, call optimizer.step() once and pass the optimiser to costs().
                        Or add 8 bytes a param for Adam in f32, 4 for SGD with momentum
"""
import json
import os
import sys
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler is quiet
import torch
from torch import nn

from run_torch import Once, as_tuple, example, forward, ones, record, reverse


def usage(phases, device):
    """
    Runs the generator PHASES. Returns for each of its yields the bytes allocated then, and
    the most since the yield before. Memory allocated before the call does not count.
    """
    held, most, rows = 0, 0, []
    if device.type == "cuda":
        base = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        for _ in phases:
            rows.append((torch.cuda.memory_allocated(device) - base, torch.cuda.max_memory_allocated(device) - base))
            torch.cuda.reset_peak_memory_stats(device)
        return rows
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in phases:
            with torch.profiler.record_function("yield"):
                pass
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
        elif event.name() == "yield":
            rows.append((held, most))
            most = held
    return rows


def tensor_bytes(tensors):
    """The bytes of TENSORS, those of a storage once."""
    storages = (t.untyped_storage() for t in tensors if isinstance(t, torch.Tensor))
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


def times(step, state, cotangents, device, repeats=5):
    """Milliseconds of STEP's forward and backward pass: the fastest of REPEATS."""
    best = {"forward": float("inf"), "backward": float("inf")}

    def timed(name, f):
        begin = time.perf_counter()
        f()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best[name] = min(best[name], (time.perf_counter() - begin) * 1e3)

    for _ in range(repeats):
        timed("forward", lambda: forward(step, state))
        recorded = record(step, state)[1]
        timed("backward", lambda: reverse(recorded, cotangents))
    return best


def copy(state):
    return tuple(v.detach().clone() if isinstance(v, torch.Tensor) else v for v in state)


def passes(step, state):
    """Each pass of STEP, for usage()."""
    inputs = copy(state)
    yield
    after = forward(step, inputs)
    yield
    cotangents = ones(*after)
    del after
    yield
    after, recorded = record(step, inputs)
    yield
    del after
    yield
    before = reverse(recorded, cotangents)
    yield
    del before, recorded
    yield
    after, recorded = record(step, inputs)
    del inputs, after
    yield


def measure(step, state, after, device):
    """The costs of STEP, whose input is STATE and whose output is AFTER."""
    held, most = zip(*usage(passes(step, state), device))
    start, ran, seeded, recorded, released, reversed_, clear, kept = range(8)
    state_bytes, after_bytes = tensor_bytes(state), tensor_bytes(after)
    residual_bytes = held[released] - held[seeded]
    is_view = tensor_bytes((*state, *after)) < state_bytes + after_bytes
    return {
        "state_bytes": state_bytes,
        "residual_bytes": residual_bytes,
        "keeps_input": is_view or held[kept] - held[clear] > residual_bytes - held[start],
        "keeps_output": held[recorded] == held[released],
        "forward_temporary_bytes": max(0, most[ran] - held[start] - after_bytes),
        "record_temporary_bytes": most[recorded] - held[recorded],
        "backward_temporary_bytes": max(0, most[reversed_] - held[released] - state_bytes),
        **times(step, state, ones(*after), device),
    }


def costs(name, steps, x, optimizer=None, others=()):
    """
    Returns the spec. OPTIMIZER's state counts if it is given. OTHERS are modules and
    tensors that steps use and that are not in a step that is a module.
    """
    modules = nn.ModuleList(m for m in (*steps, *others) if isinstance(m, nn.Module))
    fixed = [*modules.parameters(), *modules.buffers(), *(t for t in others if isinstance(t, torch.Tensor))]
    for values in optimizer.state.values() if optimizer else ():
        fixed += values.values()
    for p in [t for t in fixed if isinstance(t, nn.Parameter) and t.requires_grad]:
        p.grad = torch.zeros_like(p)
        fixed.append(p.grad)
    state = copy(as_tuple(x))  # X may be part of a larger tensor
    device = next((v.device for v in state if isinstance(v, torch.Tensor)), torch.device("cpu"))
    once, rows = Once(steps, device), []
    for i, step in enumerate(steps):
        after = once(forward, i, state)
        cost = measure(step, state, after, device)
        rows.append({"name": f"{getattr(step, '__name__', type(step).__name__)}.{i}", **cost})
        state = after
    return {
        "name": name,
        "time_unit": "ms",
        "fixed_bytes": tensor_bytes(fixed) + tensor_bytes(once.generators.values()),
        "output_bytes": tensor_bytes(state),
        "steps": rows,
    }


def main():
    steps, x = example()
    json.dump(costs("mlp", steps, x), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
