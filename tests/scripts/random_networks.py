"""Random networks of the forms that ckptc computes at once: attention, ends of products, stacked layers, square and wide
products.

A network has two texts of one meaning. JOINED nests its stages, so that neighbours are in one program. SPLIT has each of
them at the top level: where a policy cuts between all steps, each is a program of its own, and nothing is fused.
"""
import random
import re

from array_files import npy, npz
from random_chains import count, repeated, shape_text

ACTIVATIONS = ["gelu", "gelu tanh=true", "silu", "tanh", "relu", "sigmoid", "softplus"]


class Nested:
    """A stage with a block as its operand: v + f(v), v @ f(v) and so on."""

    def __init__(self, operation, items):
        self.operation, self.items = operation, items


class Loop:
    """A loop over the layers of stacked params. VARIABLES has the stack of each variable."""

    def __init__(self, layers, variables, items):
        self.layers, self.variables, self.items = layers, variables, items


def joined(items):
    """The text of ITEMS, nested."""
    made = []
    for item in items:
        if isinstance(item, Nested):
            item = f"{item.operation} {{ {joined(item.items)} }}"
        elif isinstance(item, Loop):
            item = f"for {', '.join(item.variables)} in {', '.join(item.variables.values())} {{ {joined(item.items)} }}"
        made.append(item)
    return "; ".join(made)


def split(items, count_from=0):
    """The stages of ITEMS, each a statement of the top level. Names count from COUNT_FROM on."""
    made = []
    for item in items:
        before, after = f"s{count_from + len(made)}", f"t{count_from + len(made)}"
        if isinstance(item, Nested) and item.operation == "add":
            made += [f"name {before}", *split(item.items, count_from + len(made) + 1), f"add {before}"]
        elif isinstance(item, Nested):
            inner = split(item.items, count_from + len(made) + 1)
            made += [f"name {before}", *inner, f"name {after}", f"use {before}", f"{item.operation} {after}"]
        elif isinstance(item, Loop):
            for layer in range(item.layers):
                for line in split(item.items, count_from + len(made)):
                    for variable, stack in item.variables.items():
                        line = re.sub(rf"\b{variable}\b", f"{stack}[{layer}]", line)
                    made.append(line)
        else:
            made.append(item)
    return made


class Network:
    """Arrays are lists of floats by name; "x" is the input."""

    def __init__(self, seed):
        self.r = r = random.Random(seed)
        self.dtype = r.choice(["f32", "f32", "f32", "f64", "f16"])
        self.shapes, self.arrays, self.consts = {}, {}, set()
        self.layers, self.variables = 0, {}  # of the loop that is being made
        self.wide = r.random() < 0.2
        if self.wide:
            items = self.wide_layers()
        elif r.random() < 0.1:
            items = self.squares()
        else:
            self.tokens, self.heads = r.choice([7, 33, 64, 100, 100, 128]), r.choice([1, 2, 4, 4, 6])
            self.columns = self.heads * r.choice([4, 8, 12])
            self.put("x", [r.choice([1, 3, 5, 8, 8]), self.tokens, self.columns], 1.2, 0)
            items = [item for _ in range(r.randint(1, 3)) for item in r.choice([self.layer, self.layer, self.loop])()]
        items.append(f"mul {self.param(self.shapes['x'][-1:], 0.5, 1)}")  # so that no gradient is 0 after a layernorm
        self.items = items

    def put(self, name, shape, spread, center, values=None):
        self.shapes[name] = shape
        drawn = [center + self.r.uniform(-spread, spread) for _ in range(min(count(shape), 1009))]
        self.arrays[name] = values or repeated(drawn, count(shape))
        return name

    def param(self, shape, spread, center=0, layers=True):
        """A new param; in a loop, the variable of a stack of such params."""
        name = f"p{len(self.arrays)}"
        if self.r.random() < 0.1:
            self.consts.add(name)
        if not self.layers or not layers:
            return self.put(name, shape, spread, center)
        variable = f"w{len(self.arrays)}"
        self.variables[variable] = self.put(name, [self.layers, *shape], spread, center)
        return variable

    def mask(self):
        """A mask that hides later tokens, distant ones or some; each token sees itself."""
        r, n = self.r, self.tokens
        kind, window = r.choice(["causal", "causal", "window", "some"]), r.randint(1, n)
        hides = {"causal": lambda i, j: j > i, "window": lambda i, j: abs(i - j) > window,
                 "some": lambda i, j: i != j and r.random() < 0.3}[kind]
        values = [float("-inf") if hides(i, j) else r.choice([0.0, 0.0, 0.25]) for i in range(n) for j in range(n)]
        name = f"p{len(self.arrays)}"
        self.consts.add(name)
        return f"add {self.put(name, [n, n], 0, 0, values)}"

    def product(self, rows, columns):
        weight = 1.5 / rows**0.5
        if self.r.random() < 0.2:
            return f"linear {self.param([columns, rows], weight)}"
        return f"matmul {self.param([rows, columns], weight)}"

    def bias(self, columns, chance=0.7):
        return [f"{self.r.choice(['add', 'add', 'sub'])} {self.param([columns], 0.3)}"] if self.r.random() < chance else []

    def norm(self, chance=0.7):
        if self.r.random() > chance:
            return []
        gain = [f"mul {self.param([self.columns], 0.4, 1)}"] if self.r.random() < 0.8 else []
        return [self.r.choice(["layernorm", "layernorm", "layernorm eps=1e-3", "rmsnorm"]), *gain, *self.bias(self.columns)]

    def split_heads(self):
        """A product, and its columns by heads."""
        own = [] if self.r.random() < 0.1 else [self.product(self.columns, self.columns), *self.bias(self.columns, 0.3)]
        return [*own, f"reshape -1 {self.tokens} {self.heads} {self.columns // self.heads}", "transpose axes=[0,2,1,3]"]

    def attention(self):
        r, name = self.r, f"n{len(self.arrays)}"
        keys = Nested("linear", [f"use {name}", *self.split_heads()])
        if r.random() < 0.7:
            keys = Nested("matmul", [*keys.items, "transpose axes=[0,1,3,2]"])
        scale = r.choice([[], ["div 3"], ["mul 0.35"], ["mul (1/4)"]])
        masks = [self.mask()] if r.random() < 0.7 else []
        return [*self.norm(), f"name {name}", *self.split_heads(), keys, *scale, *masks, "softmax",
                Nested("matmul", [f"use {name}", *self.split_heads()]), "transpose axes=[0,2,1,3]",
                f"reshape -1 {self.tokens} {self.columns}", self.product(self.columns, self.columns), *self.bias(self.columns, 0.4)]

    def forward_layer(self):
        between = self.r.choice([1, 2, 4]) * self.columns
        return [*self.norm(), self.product(self.columns, between), *self.bias(between, 0.9), self.r.choice(ACTIVATIONS),
                self.product(between, self.columns), *self.bias(self.columns)]

    def recurrent(self):
        matrix, bias = self.param([self.columns, self.columns], 1 / self.columns**0.5), self.param([self.columns], 0.2)
        return [f"matmul {matrix}", f"add {bias}", "tanh"] * self.r.randint(1, 4)

    def layer(self):
        """A residual block with the norm before or after, or a block alone."""
        inner = self.r.choice([self.attention, self.attention, self.attention, self.forward_layer, self.forward_layer, self.recurrent])()
        return ([Nested("add", inner)] if self.r.random() < 0.75 else inner) + self.norm(0.4)

    def loop(self):
        self.layers, self.variables = self.r.randint(1, 3), {}
        body = [item for _ in range(self.r.randint(1, 2)) for item in self.layer()]
        made = Loop(self.layers, self.variables, body) if self.variables else None
        layers, self.layers = self.layers, 0
        return [made] if made else body * layers

    def squares(self):
        """Products of two matrices that are computed from the same square one. The right factor takes several panels."""
        r, n = self.r, self.r.choice([257, 300])
        self.columns = n
        self.put("x", [r.choice([3, 4, 5]), n, n], 1.2 / n**0.5, 0)
        made = []
        for layer in range(r.randint(1, 2)):
            left, right = ([r.choice(["mul 0.5", "sin", "tanh"])] * r.randint(0, 2) for _ in range(2))
            after = r.choice([[], ["softmax"], [f"mul r{layer}"], ["layernorm", f"add r{layer}"]])
            inner = [f"name l{layer}", "mul 0.9", *right, f"name r{layer}", f"use l{layer}", *left,
                     f"{r.choice(['matmul', 'linear'])} r{layer}", *after, r.choice(ACTIVATIONS)]
            made.append(Nested("add", inner))
        return made

    def wide_layers(self):
        """Products by matrices that `run` leaves in their files. A few rows."""
        return self.wide_loop() if self.r.random() < 0.5 else self.wide_matrices()

    def wide_loop(self):
        """Stacks of more than 1 MiB, of which each tile of a few reads one layer after another."""
        r = self.r
        self.layers, self.columns = r.randint(2, 4), r.choice([256, 300])
        wide = r.choice([520, 768])
        self.put("x", [*r.choice([[1], [5], [16], [3, 7], [500], [1000], [1700], [3, 480], [2500]]), self.columns], 1.2, 0)
        inner = [self.product(self.columns, wide), *self.bias(wide), r.choice(ACTIVATIONS), self.product(wide, self.columns)]
        body = [*self.norm(0.5), *([Nested("add", inner)] if r.random() < 0.5 else inner), *self.norm(0.3)]
        made, self.layers = Loop(self.layers, self.variables, body), 0
        return [made, self.product(self.columns, self.columns)] if r.random() < 0.3 else [made]

    def wide_matrices(self):
        """More than 4 MiB each, which a single tile reads block by block."""
        r = self.r
        rows, columns, wide = r.choice([1, 2, 5, 16, 70]), r.choice([96, 800, 1500]), r.choice([3000, 11008])
        while columns * wide * {"f16": 2, "f32": 4, "f64": 8}[self.dtype] <= 4 << 20:
            wide *= 2
        if columns * wide > 6 << 20:
            columns, wide = 700, 4097
        self.columns = columns
        self.put("x", [rows, columns], 1.2, 0)
        inner = [f"matmul {self.param([columns, wide], 1.5 / columns**0.5)}", *self.bias(wide), r.choice(ACTIVATIONS),
                 f"matmul {self.param([wide, columns], 1.5 / wide**0.5)}", *self.bias(columns)]
        return [*self.norm(0.5), *([Nested("add", inner)] if r.random() < 0.5 else inner), *self.norm(0.3)]

    def declarations(self, dtype):
        return [f"{'const' if name in self.consts else 'param'} {name}: {dtype}[{shape_text(shape)}]"
                for name, shape in self.shapes.items() if name != "x"]

    def joined(self, dtype):
        return "\n".join([*self.declarations(dtype), joined(self.items)]) + "\n"

    def split(self, dtype):
        return "\n".join([*self.declarations(dtype), *split(self.items)]) + "\n"

    def input(self, dtype, arrays=None):
        return npy(dtype, self.shapes["x"], (arrays or self.arrays)["x"])

    def params(self, dtype, arrays=None, method=0):
        arrays = arrays or self.arrays
        return npz({name: npy(dtype, shape, arrays[name]) for name, shape in self.shapes.items() if name != "x"}, method)
