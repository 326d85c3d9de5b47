#!/usr/bin/env python3
"""The step of pendulum.ck as a command, by pipe, in Python without packages."""
import re
import sys
from array import array
from math import cos, sin


def get(count):
    return array("d", sys.stdin.buffer.read(8 * count))


def put(*arrays):
    sys.stdout.buffer.write(b"".join(array("d", a).tobytes() for a in arrays))


n, k = 0, None
for line in iter(sys.stdin.buffer.readline, b""):
    word = line.split()[0]
    if word == b"open":
        n = int(re.search(rb"x=f64\[2,(\d+)\]", line)[1])
        sys.stdout.buffer.write(b"ready 1 backward\n")
    elif word == b"set":
        k = get(n)
    elif word == b"forward":
        x = get(2 * n)
        speed = [0.99 * x[n + i] - 0.01 * k[i] * sin(x[i]) for i in range(n)]
        sys.stdout.buffer.write(b"ok\n")
        put([x[i] + 0.01 * speed[i] for i in range(n)], speed)
    elif word == b"backward":
        x, g = get(2 * n), get(2 * n)
        speed = [g[n + i] + 0.01 * g[i] for i in range(n)]  # the cotangent of the new speed
        sys.stdout.buffer.write(b"ok\n")
        put([g[i] - 0.01 * k[i] * cos(x[i]) * speed[i] for i in range(n)], [0.99 * s for s in speed])
        put([-0.01 * sin(x[i]) * speed[i] for i in range(n)])
    sys.stdout.buffer.flush()
