"""Measure a PyTorch model for `ckptc plan --spec costs.json`.

    python3 costs_torch.py > costs.json
    ckptc plan --spec costs.json --sweep memory

Put your own model into main(): an nn.Sequential whose children are the steps, and
one batch. Each step is run a few times, forward and backward, on a device of its
own choice; what autograd keeps is seen by saved_tensors_hooks.
"""
import json
import sys
import time

import torch
from torch import nn


def sync(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def tensor_bytes(t):
    return t.numel() * t.element_size()


def storage(t):
    """Where a tensor's bytes are: storage() warns since torch 2.0, before that is no other."""
    return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()


def measure(step, x, repeats=5):
    """One step: the bytes it keeps, and milliseconds of its forward and backward pass."""
    x = x.detach()
    if x.is_floating_point():
        x.requires_grad_(True)
    kept = {}  # storages by address: a tensor that is kept twice is one
    own = {p.data_ptr() for p in step.parameters()} | {b.data_ptr() for b in step.buffers()}

    def pack(t):
        if t.data_ptr() not in own:
            kept[storage(t).data_ptr()] = storage(t).nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = step(x)
    keeps_input = storage(x).data_ptr() in kept
    keeps_output = storage(y).data_ptr() in kept
    kept.pop(storage(x).data_ptr(), None)

    forward = backward = float("inf")
    for _ in range(repeats):
        step.zero_grad(set_to_none=True)
        sync(x.device)
        begin = time.perf_counter()
        y = step(x)
        sync(x.device)
        middle = time.perf_counter()
        y.backward(torch.ones_like(y))
        sync(x.device)
        end = time.perf_counter()
        forward = min(forward, middle - begin)
        backward = min(backward, end - middle)
    cost = {
        "state_bytes": tensor_bytes(x),
        "residual_bytes": sum(kept.values()),
        "forward": forward * 1e3,
        "backward": backward * 1e3,
        "keeps_input": keeps_input,
        "keeps_output": keeps_output,
    }
    return cost, y.detach()


def costs(model, x):
    steps = []
    for name, step in model.named_children():
        cost, x = measure(step, x)
        steps.append({"name": name, **cost})
    params = sum(tensor_bytes(p) for p in model.parameters())
    return {
        "name": type(model).__name__,
        "time_unit": "ms",
        "fixed_bytes": 2 * params,  # and their gradients
        "output_bytes": tensor_bytes(x),
        "steps": steps,
    }


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    block = lambda: nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.LayerNorm(512))
    model = nn.Sequential(*[block() for _ in range(12)]).to(device)
    json.dump(costs(model, torch.randn(256, 512, device=device)), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
