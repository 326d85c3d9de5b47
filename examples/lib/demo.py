"""The pendulum of pendulum.c, and, where NumPy is there, a chain on NumPy's arrays."""
import math

import ckptc

DT, STEPS = 0.001, 10000
state, cotangent, recorded, slots = [1.0, 0.0], [1.0, 0.0], {}, {}


def forward(step):
    state[1] -= DT * math.sin(state[0])
    state[0] += DT * state[1]


def record(step):
    recorded[step] = state[0]
    forward(step)


def backward(step):
    cotangent[1] += DT * cotangent[0]
    cotangent[0] -= DT * math.cos(recorded.pop(step)) * cotangent[1]


def save(position, slot):
    slots[slot] = list(state)


def load(position, slot):
    state[:] = slots[slot]


plan = ckptc.Plan(STEPS, "revolve:20", state_bytes=16, residual_bytes=8)
plan.execute(forward=forward, record=record, backward=backward, save=save, load=load)
print(f"derivative {cotangent[0]:.9f}, {plan.counters.evaluations} evaluations")
print(sum(1 for action in plan), "actions, the first", next(iter(plan)))
try:
    ckptc.Plan(STEPS, "revolv:20")
except RuntimeError as error:
    print(str(error).split("; policies")[0])

if ckptc.numpy:
    import numpy
    chain = ckptc.Chain("param W; matmul W; tanh; sum")
    x, W = numpy.linspace(-1, 1, 12).reshape(4, 3), numpy.linspace(0, 1, 6).reshape(3, 2)
    chain.bind("W", W)
    dx, dW = chain.grad(x, "W", policy="sqrt")
    slope = 1 - numpy.tanh(x @ W)**2
    assert numpy.allclose(chain(x), numpy.tanh(x @ W).sum())
    assert numpy.allclose(dx, slope @ W.T) and numpy.allclose(dW, x.T @ slope)
    print("the chain's gradients are NumPy's")
