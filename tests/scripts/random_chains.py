"""Random chains over the whole language, whose shapes are known and whose values stay small.

Generator makes chains that need no files. WideGenerator's chains load params from files too.
"""
import json
import random
import re
import subprocess
import zipfile

from array_files import npy, npz, safetensors

BOUNDED = ["exp", "expm1", "sinh", "cosh", "square", "asin", "acos", "tan", "exp2", "atanh"]
POSITIVE = ["sqrt", "log", "rsqrt", "reciprocal", "log1p", "log2", "log10", "cbrt", "lgamma"]
OWN = {"acosh": "square; add 1.5; acosh", "logit": "sigmoid; logit; mul 0.1"}
ARGUMENTS = {"clip": " -0.7 0.8"}
ZERO_DERIVATIVE = ["sign", "floor", "ceil", "round", "trunc", "isnan", "isfinite", "stop_gradient"]
DEFS = """def mix(a, s) { add a; leaky_relu slope=s; mul { tanh } }
def twice(b) { add b; mul 0.5; sub b; tanh }
"""


def table(program):
    """The rows of PROGRAM's table of operations, as dictionaries by name."""
    printed = subprocess.run([program, "ops", "--format", "json"], capture_output=True, check=True).stdout
    return {row["name"]: row for row in json.loads(printed)["ops"]}


def safe_names(rows):
    """Operations of one value that takes any, and gives a small one. A new row of ops.def joins by itself."""
    return [name for name, row in rows.items() if row["scope"] == "element" and row["operands"] == 0
            and row["group"] != "random" and name not in ("cast", *BOUNDED, *POSITIVE, *OWN)]


def broadcast(a, b):
    out = []
    for i in range(max(len(a), len(b))):
        p = a[-1 - i] if i < len(a) else 1
        q = b[-1 - i] if i < len(b) else 1
        if p != q and p != 1 and q != 1:
            return None
        out.insert(0, max(p, q) if 0 not in (p, q) else 0)
    return out


def count(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def shape_text(shape):
    return ",".join(map(str, shape))


def repeated(values, length):
    """As many values as LENGTH says. Drawing each would take longer than the programs do."""
    return (values * (length // max(1, len(values)) + 1))[:length]


def statements(text, at=0):
    """Spans of TEXT's statements from AT to the end of the block, each with its blocks; and where that is."""
    found, start, blocks, square, comment = [], at, [], 0, False

    def close(end):
        if text[start:end].strip():
            found.append((start, end, blocks))

    while at < len(text):
        c = text[at]
        if comment:
            comment = c != "\n"
        if comment:
            pass
        elif c == "#":
            comment = True
        elif c in "[(":
            square += 1
        elif c in "])":
            square -= 1
        elif c == "{":
            inner, at2 = statements(text, at + 1)
            blocks.append((at + 1, at2, inner))
            at = at2
        elif c == "}" or (c in ";\n" and not square):
            close(at)
            if c == "}":
                return found, at
            start, blocks = at + 1, []
        at += 1
    close(at)
    return found, at


def split(body):
    return [body[start:end].strip() for start, end, _ in statements(body)[0]]


class Generator:
    """Chains whose shapes are known, and whose values stay small."""

    def __init__(self, seed, safe):
        self.r = r = random.Random(seed)
        self.safe = safe  # of safe_names()
        self.chooses = "not" in safe  # a program that is compared may be older than these operations
        self.orders = "asinh" in safe
        old = ("exp2", "atanh", "log2", "log10", "cbrt", "lgamma")
        self.bounded, self.positive = ([name for name in names if self.orders or name not in old]
                                       for names in (BOUNDED, POSITIVE))
        self.dtype = r.choice(["f64", "f64", "f64", "f32", "f32", "f16", "bf16"])
        self.shape = [r.choice([1, 2, 3, 5, 8, 33, 300]) for _ in range(r.choice([1, 1, 2, 2, 2, 3, 3, 4]))]
        while count(self.shape) > 3000:
            self.shape[r.randrange(len(self.shape))] = 2
        edge = r.random()
        if edge < 0.1:
            self.shape = [6000 // count(self.shape[1:])] + self.shape[1:]
        elif edge < 0.12:
            self.shape = []
        elif edge < 0.14:
            self.shape[r.randrange(len(self.shape))] = 0
        # Most stages of other chains read the whole array. These have windows, whose sums go by blocks.
        self.neighbours = len(self.shape) > 0 and r.random() < 0.25
        self.output = self.shape  # of the whole chain, once it is made
        self.declared = []
        self.names = {"x": self.shape}
        self.named = []  # all that `name` names, for policies
        self.defs = []
        self.stacked = []  # variables of for loops in reach, with their shapes
        self.stacks = []  # arrays to index: name, extent of the leading axis, shape of an element
        self.count = 0

    def fresh(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def param(self, shape, kind="param", low=-0.9):
        name = self.fresh("p")
        seed = self.r.randrange(1000)
        dtype = self.dtype if self.dtype != "f64" or self.r.random() < 0.85 else "f32"
        self.declared.append(f"{kind} {name}: {dtype}[{','.join(map(str, shape))}] = uniform({low}, 0.9, {seed})")
        return name

    def narrow(self, shape):
        """A shape that broadcasts to SHAPE. Some have all rows and one column: their gradients sum over the others."""
        if len(shape) > 1 and self.r.random() < (0.4 if self.neighbours else 0.2):
            return [shape[0]] + [1] * (len(shape) - 1)
        return [e if self.r.random() < 0.6 else 1 for e in shape][self.r.randint(0, len(shape)):]

    def operand(self, shape):
        """An operand that broadcasts to SHAPE without widening it."""
        r = self.r
        fits = [n for n, s in self.names.items() if broadcast(shape, s) == shape]
        fits += [n for n, s in self.stacked if broadcast(shape, s) == shape]
        fits += [f"{n}[{r.randrange(c)}]" for n, c, s in self.stacks if broadcast(shape, s) == shape]
        kind = r.random()
        if kind < 0.2:
            return f"{r.uniform(-1.5, 1.5):.3g}"
        if kind < 0.23:
            return r.choice(["(pi/4)", "(1 - e^-1)", "(-2*3/5)"])
        if kind < 0.55 and fits:
            return r.choice(fits)
        if kind < 0.62 and shape and not self.neighbours:
            op = r.choice(["mean", "sum", "logsumexp"])
            axis = r.choice(["", f" axis={r.randrange(len(shape))} keepdims=true", " keepdims=true"])
            return f"{{ tanh; {op}{axis}; sin }}"
        if kind < 0.75:
            return f"{{ {self.scope(shape, 0, r.randint(1, 2))} }}"
        return self.param(self.narrow(shape), r.choice(["param", "param", "const"]))

    def choice(self, shape):
        """Stages with conditions and remainders."""
        r = self.r
        condition = f"{{ {r.choice(['lt', 'le', 'gt', 'ge', 'eq', 'ne'])} {self.operand(shape)} }}"
        return r.choice([f"where {condition} {self.operand(shape)}", f"where {self.operand(shape)} {self.operand(shape)}",
                         f"where {condition} {{ square; log; mul 0.1 }}", f"mul {condition}",
                         f"where {{ {r.choice(['and', 'or'])} {condition} }} 0.5",
                         f"mod {r.uniform(0.5, 2):.3g}", f"mod {self.param(self.narrow(shape), 'param', 0.3)}",
                         f"tanh; rpow {r.uniform(0.5, 2):.3g}"])

    def mirrored(self, shape):
        """Moves elements, and keeps the shape."""
        r, axis, new = self.r, self.r.randrange(len(shape)), self.r.randint(0, len(shape))
        moves = [f"flip axis={axis}", "flip", f"stack {self.param(shape)} axis={new}; tanh; sum axis={new}; mul 0.5",
                 f"stack {{ sin }} axis={new}; slice axis={new} start=1; squeeze axis={new}",
                 f"expand_dims {new}; sin; squeeze axis={new}"]
        if len(shape) > 1:
            moves += [f"{r.choice(['tril', 'triu'])} {r.randint(-2, 2)}"] * 3
        return r.choice(moves)

    def selected(self, shape):
        """Selects elements by the indices of extremes, and keeps the shape."""
        r, axis = self.r, self.r.randrange(len(shape))
        index = f"{r.choice(['argmax', 'argmin'])} axis={axis} keepdims=true"
        last = f"{r.choice(['argmax', 'argmin'])} axis=-1"
        rows = self.fresh("i")
        self.declared.append(f"const {rows}: i64[{shape[0]}] = arange")
        return r.choice([f"sub {{ take_along {{ {index} }} axis={axis}; mul 0.1 }}",
                         f"add {{ {index}; take {self.param([shape[axis]])}; sin }}",
                         f"add {{ {last}; one_hot {shape[-1]}; mul 0.3 }}", f"scatter_add {rows} {shape[0]}"])

    def ordered(self, shape):
        """Sorts, runs along axes, normalises over several, or repeats elements; and keeps the shape."""
        r, n, last = self.r, len(shape), self.r.randrange(len(shape))
        some = r.sample(range(-n, 0), r.randint(1, n))
        run = r.choice(["sort", "sort descending=true", "cumprod", "cummax", "cummin", "logcumsumexp"])
        norm = r.choice(["softmax", "log_softmax", "layernorm", "rmsnorm"])
        reduce = r.choice(["median", "any", "all", f"quantile {r.choice([0, 0.3, 1])}"])
        back = f"slice axis={last} step=2"
        ways = [f"tanh; {run} axis={last}; sin", f"{norm} axis={some}", f"sub {{ {reduce} axis={some} keepdims=true }}; tanh",
                f"repeat_each 2 axis={last}; sin; {back}", f"add {{ topk 1 axis={last}; sin }}",
                f"tile {' '.join('2' if i == last else '1' for i in range(n))}; sin; slice axis={last} stop={shape[last]}",
                f"broadcast_to {' '.join(map(str, [2] + shape))}; sin; mean axis=0",
                f"mul {{ {r.choice(['argsort', 'argtopk 1'])} axis={last}; sin }}"]
        pair = f"stack {{ cos }} axis={n}"
        transform = f"{r.choice(['fft', 'ifft'])} axis={last} norm={r.choice(['ortho', 'backward', 'forward'])}"
        ways += [f"rfft axis={last} norm=ortho; sin; irfft axis={last} n={shape[last]}; tanh",
                 f"{pair}; {transform}; tanh; {r.choice(['cmul { sin }', transform])}; mean axis={n}; sin"]
        if n >= 2:
            ways += [f"groupnorm {r.choice([1, shape[1]])}", f"add {{ diag; mean axis=-1 keepdims=true; {'expand_dims -1; ' * (n > 2)}sin }}"]
        return r.choice(ways)

    def windowed(self, shape):
        """Stages with windows, and attention; keeps the shape."""
        r, options = self.r, "stride=1 padding=1"
        pool = r.choice(["max", "avg"])
        stages = [f"add {{ {pool}pool1d 3 {options}; mul 0.3 }}"]
        if shape[-1] % 2 == 0:
            stages.append(f"sub {{ {pool}pool1d 2; upsample 2 axes=-1 mode={r.choice(['nearest', 'linear'])}; mul 0.3 }}")
        if len(shape) > 1:
            stages += [f"add {{ {pool}pool2d 3 {options}; mul 0.3; sin }}"] * 3
        if len(shape) > 1 and count(shape) < 2000:
            causal = r.choice(["true", "false"])
            stages += [f"add {{ attention {{ sin }} {{ {r.choice(['cos', 'mul 0.5', 'tanh'])} }} causal={causal}; mul 0.3 }}"] * 2
            if r.random() < 0.25:
                mask = self.param(*r.choice([(shape[:-1] + shape[-2:-1],), (shape[-2:-1], "const")]))
                return f"add {{ attention {{ sin }} . mask={r.choice([mask, f'({mask} > -0.4)'])} causal={causal}; mul 0.3 }}"
        if 3 <= len(shape) <= 4 and shape[1] < 9:
            kernel = self.param([shape[1], shape[1]] + [3] * (len(shape) - 2))
            stages += [f"conv_transpose{len(shape) - 2}d {kernel} padding=1; tanh"] * 2
        return r.choice(stages)

    def element(self, shape):
        r = self.r
        if self.chooses and r.random() < 0.12:
            return self.choice(shape)
        kind = r.random()
        if kind < 0.35:
            op = r.choice(self.safe)
            return op + ARGUMENTS.get(op, r.choice(["", " tanh=true"]) if op == "gelu" else "")
        if kind < 0.42:
            return "tanh; mul 0.9; " + r.choice(self.bounded)
        if kind < 0.49:
            if self.orders and r.random() < 0.2:
                return r.choice([*OWN.values(), f"atan2 {self.operand(shape)}; mul 0.3", f"hypot {self.operand(shape)}; sin",
                                 f"logaddexp {self.operand(shape)}; tanh", f"prelu {self.operand(shape)}; tanh"])
            return "square; add 0.5; " + r.choice(self.positive)
        if kind < 0.52:
            return f"square; add 0.5; {r.choice(['pow', 'rdiv'])} {self.operand(shape)}"
        if kind < 0.6:
            return r.choice(["pow 2; sin", f"div {r.uniform(0.5, 3):.3g}", "div { square; add 0.5 }",
                             f"div {self.param(self.narrow(shape), 'param', 0.3)}"])
        if kind < 0.66:
            return f"dropout {r.choice([0.1, 0.5])} seed={r.randrange(99)}"
        if kind < 0.69:
            other = r.choice(["f16", "bf16", "f32", "f64"])
            return f"cast {other}; {r.choice(['sin', 'relu', 'mul 0.7'])}; cast {self.dtype}"
        op = r.choice(["add", "sub", "mul", "max", "min", "rsub", "mul", "add"])
        return f"{op} {self.operand(shape)}"

    def row(self, shape):
        """Keeps the shape; works along axes."""
        r = self.r
        if not shape:
            return "tanh"
        if self.chooses and r.random() < 0.15:
            return self.mirrored(shape)
        if self.chooses and 0 not in shape and r.random() < 0.06:
            return self.selected(shape)
        if self.orders and 0 not in shape and not self.neighbours and r.random() < 0.12:
            return self.ordered(shape)
        if self.chooses and 0 not in shape and r.random() < 0.1:
            return self.windowed(shape)
        axis = 0 if self.neighbours and r.random() < 0.6 else r.randrange(-len(shape), len(shape))
        kind = r.choice([3, 4, 4]) if self.neighbours else r.randrange(15)
        if kind < 2:
            return f"{r.choice(['softmax', 'log_softmax', 'layernorm', 'rmsnorm'])} axis={axis}"
        if kind == 2:
            return f"cumsum axis={axis}; tanh"
        if kind == 3:
            return f"roll {r.randint(-3, 3)} axis={axis}"
        if kind == 4:
            axes = r.choice(["", f" axes={axis}"])
            boundary = r.choice(["periodic", "zero", "reflect"])
            if r.randrange(2):
                return f"stencil {r.choice(['[1, -2, 1]', '[0.1, 0.2, 0.3, 0.4, 0.5]'])} axis={axis} boundary={boundary}; mul 0.2; sin"
            return f"laplacian{axes} order={r.choice([2, 4, 8])} boundary={boundary}; mul 0.1; sin"
        if kind == 5 and len(shape) > 1 and shape[-1] < 40:
            lead = r.choice([[], [], shape[:-2]])
            return f"matmul {self.param(lead + [shape[-1], shape[-1]])}; tanh"
        if kind == 6 and len(shape) > 1 and shape[-1] < 40:
            return f"linear {self.param([shape[-1], shape[-1]])}; sin"
        if kind == 7:
            return f"sub {{ mean axis={axis} keepdims=true }}"
        if kind == 8 and len(shape) == 2 and shape[0] < 40:
            return f"dot {self.param([shape[0], shape[0]])}; tanh"
        if len(shape) == 4 and r.random() < 0.25:
            kind = 10  # few shapes have four axes
        if kind == 9:
            there, back, permuted = self.permutation(shape)
            inner, _ = self.block(permuted, 3, True, r.randint(1, 2))
            return f"{there}; {inner}; {back}"
        if kind in (10, 11) and r.random() < 0.6 and 3 <= len(shape) <= 4 and 0 not in shape and shape[1] < 9:
            kernel = [shape[1], shape[1]] + [3] * (len(shape) - 2)
            return f"conv{len(shape) - 2}d {self.param(kernel)} padding=1; tanh"
        if kind == 11 and len(shape) == 3 and 0 not in shape and max(shape[1:]) < 40:
            return self.attention(shape)
        if kind == 12 and len(shape) > 1 and 0 < shape[-1] < 40:
            return self.layer(shape)
        if kind >= 13 and 0 not in shape:
            return self.reshaped(shape)
        return "sin"

    def other_shapes(self, shape):
        """Shapes of as many elements, most of them with an axis more, of extent 1."""
        at = self.r.randint(0, len(shape))
        added = shape[:at] + [1] + shape[at:]
        return [added, added, shape + [1], [count(shape)], [count(shape), 1], [1, count(shape)]]

    def reshaped(self, shape):
        """A few stages on another shape of the same elements; their sums go by that shape."""
        other = self.r.choice(self.other_shapes(shape))
        inner, _ = self.block(other, 3, True, self.r.randint(1, 2))
        return f"reshape {' '.join(map(str, other))}; {inner}; reshape {' '.join(map(str, shape))}"

    def widening(self, shape):
        """An operand that broadcasts the value to more elements, along one of its axes of extent 1."""
        r = self.r
        ones = [axis for axis, extent in enumerate(shape) if extent == 1]
        if not ones:
            return None
        axis = r.choice(ones)
        wide = shape[:axis] + [r.randint(2, 4)] + shape[axis + 1:]
        operand = r.choice([wide, wide[axis:], [wide[axis]] + [1] * (len(wide) - axis - 1)])
        return f"{r.choice(['add', 'mul', 'sub', 'rsub'])} {self.param(operand)}; tanh", wide

    def attention(self, shape):
        """Attention of each element of the first axis, with two heads where that is possible."""
        r = self.r
        _, tokens, columns = shape
        heads, name = 2 - columns % 2, self.fresh("n")
        split = f"reshape -1 {tokens} {heads} {columns // heads}; transpose axes=[0,2,1,3]"
        query, key, value = (r.choice([split, f"matmul {self.param([columns, columns])}; {split}"]) for _ in range(3))
        scores = r.choice([f"matmul {{ use {name}; {key}; transpose axes=[0,1,3,2] }}", f"linear {{ use {name}; {key} }}"])
        scale = r.choice(["", "div 2; ", "mul 0.3; "])
        mask = ""
        if r.random() < 0.6:
            mask = self.fresh("t")
            rows = ", ".join(f"[{', '.join('0' if j <= i else '-inf' for j in range(tokens))}]" for i in range(tokens))
            self.declared.append(f"const {mask}: {self.dtype}[{tokens},{tokens}] = [{rows}]")
            mask = f"add {mask}; "
        return (f"add {{ name {name}; {query}; {scores}; {scale}{mask}softmax; matmul {{ use {name}; {value} }}; "
                f"transpose axes=[0,2,1,3]; reshape -1 {tokens} {columns} }}; tanh")

    def layer(self, shape):
        """Two products with bias and gelu between, a residual addition, and a layernorm."""
        r, between = self.r, self.r.randint(1, 9)
        last = r.choice(["", f"; add {self.param(shape[-1:])}"])
        return (f"add {{ matmul {self.param([shape[-1], between])}; add {self.param([between])}; "
                f"{r.choice(['gelu', 'gelu tanh=true', 'tanh', 'silu'])}; matmul {self.param([between, shape[-1]])}{last} }}; "
                f"{r.choice(['layernorm', 'rmsnorm', 'tanh'])}")

    def permutation(self, shape):
        """A transpose, the one that undoes it, and the shape between."""
        if self.r.random() < 0.5:
            return "transpose", "transpose", shape[::-1]
        axes = self.r.sample(range(len(shape)), len(shape))
        there, back = axes, [axes.index(i) for i in range(len(shape))]
        return (*(f"transpose axes=[{','.join(map(str, a))}]" for a in (there, back)), [shape[i] for i in axes])

    def use(self, shape):
        known = [n for n, s in self.names.items() if s == shape]
        return f"use {self.r.choice(known) if known and self.r.random() < 0.8 else self.param(shape)}"

    def reshaping(self, shape):
        r = self.r
        if not shape:
            return "sin", shape
        kind = r.choice([2, 3]) if self.neighbours else r.randrange(14)
        axis = r.randrange(len(shape))
        if kind == 0:
            return "flatten", [count(shape)]
        if kind == 1:
            there, _, permuted = self.permutation(shape)
            return there, permuted
        if kind == 2 and shape[axis] > 2:
            step = r.choice([1, 1, 2])
            stop = r.randint(1, shape[axis] - 1)
            return (f"slice axis={axis} start=1 stop={stop + 1} step={step}",
                    shape[:axis] + [(stop + step - 1) // step] + shape[axis + 1:])
        if kind == 3:
            a, b = r.randint(0, 2), r.randint(0, 2)
            return f"pad {a} {b} axis={axis} value=0.25", shape[:axis] + [shape[axis] + a + b] + shape[axis + 1:]
        if kind == 4:
            other = shape[:axis] + [r.randint(1, 3)] + shape[axis + 1:]
            return (f"concat {self.param(other)} axis={axis}",
                    shape[:axis] + [shape[axis] + other[axis]] + shape[axis + 1:])
        if kind == 5 and len(shape) > 1:
            n = r.randint(1, 6)
            return f"matmul {self.param([shape[-1], n])}", shape[:-1] + [n]
        if kind == 6 and len(shape) == 2:
            n = r.randint(1, 6)
            return f"dot {self.param([n, shape[0]])}; tanh", [n, shape[1]]
        if kind in (7, 8):
            keep = r.random() < 0.5
            op = r.choice(["sum", "mean", "var", "std", "logsumexp", "norm", "prod"] + ["amax", "amin"] * 2 * (0 not in shape))
            out = shape[:axis] + ([1] if keep else []) + shape[axis + 1:]
            return f"{op} axis={axis} keepdims={str(keep).lower()}; atan", out
        if kind == 9 and len(shape) == 3 and 0 not in shape and shape[1] < 9 and shape[2] > 2:
            n, stride = r.randint(1, 3), r.randint(1, 2)
            return (f"conv1d {self.param([n, shape[1], 3])} stride={stride}; sin",
                    [shape[0], n, (shape[2] - 3) // stride + 1])
        if kind == 10 and len(shape) > 1 and 0 not in shape:
            return f"reshape {shape[0]} -1", [shape[0], count(shape[1:])]
        if kind > 10 and 0 not in shape:
            other = shape if 1 in shape and r.random() < 0.3 else r.choice(self.other_shapes(shape))
            stages, wide = (self.widening(other) if count(shape) < 2000 else None) or (self.element(other), other)
            return f"reshape {' '.join(map(str, other))}; {stages}", wide
        return f"reshape {' '.join(map(str, [1] + shape))}", [1] + shape

    def scope(self, shape, depth, length):
        """A block's body: its names and loop variables end with it."""
        names = dict(self.names)
        body, _ = self.block(shape, depth + 1, True, length)
        self.names = names
        return body

    def loop(self, shape, depth):
        r = self.r
        turns, variables, stacks = r.randint(1, 4), [], []
        for _ in range(r.choice([1, 1, 2])):
            narrow = self.narrow(shape)
            stacks.append(self.param([turns] + narrow, r.choice(["param", "param", "const"])))
            variables.append((self.fresh("w"), narrow))
            self.stacks.append((stacks[-1], turns, narrow))
        self.stacked += variables
        body = self.scope(shape, depth, r.randint(1, 3))
        del self.stacked[-len(variables):]
        uses = "; ".join(f"{r.choice(['mul', 'add', 'max'])} {v}" for v, _ in variables)
        return f"for {', '.join(v for v, _ in variables)} in {', '.join(stacks)} {{ {body}; {uses}; tanh }}"

    def define(self, shape):
        r = self.r
        outer = self.names, self.stacked, self.stacks
        self.names, self.stacked, self.stacks = {}, [], []
        body = self.scope(shape, 2, r.randint(1, 3))
        if self.defs and r.random() < 0.5 and self.defs[-1][1] == shape:
            body += f"; {self.defs[-1][0]} a"
        self.names, self.stacked, self.stacks = outer
        name, exported = self.fresh("f"), self.fresh("n") if r.random() < 0.4 else None
        export = f"name t; export t as {exported}; " if exported else ""
        self.defs.append((name, shape, f"def {name}(a) {{ {body}; {export}{r.choice(['add', 'mul', 'sub'])} a; sin }}"))
        return name, exported

    def nested(self, shape, depth):
        r = self.r
        kind = r.randrange(6)
        if kind == 0:
            return f"repeat {r.choice([1, 2, 3, 7])} {{ {self.scope(shape, depth, r.randint(1, 4))} }}"
        if kind == 1:
            return self.loop(shape, depth)
        if kind == 2:
            known = ",".join(r.sample(self.named, 1)) if self.named else None
            policy = r.choice(["", "", "", "dots", "nothing", '"save-all"', '"dots-no-batch"', "sqrt", "recursive",
                               f'"{r.choice(["every", "revolve", "online"])}:{r.randint(1, 4)}"']
                              + ([f'"names:{known}"', f'"all-but:{known}"', f'"dots+names:{known}"'] if known else []))
            policy = f" policy={policy}" if policy else ""
            return f"checkpoint{policy} {{ {self.scope(shape, depth, r.randint(1, 4))} }}"
        if kind == 3 and depth == 0:
            name, exported = self.define(shape)
            call = f"{name} {r.choice([n for n, s in self.names.items() if s == shape] or ['0.5'])}"
            if exported:
                self.names[exported] = shape
                self.named += [exported]
            return f"repeat 3 {call}" if r.random() < 0.2 else call
        if kind == 4:
            return f"repeat {r.randint(1, 9)} {r.choice(['sin', 'tanh', 'relu', 'cos'])}"
        return self.element(shape)

    def name(self, shape):
        again = [n for n in self.names if n != "x"]
        name = self.r.choice(again) if again and self.r.random() < 0.35 else self.fresh("n")
        if name not in self.named:
            self.named.append(name)
        self.names[name] = shape
        return f"name {name}"

    def block(self, shape, depth, keeps, length):
        r = self.r
        parts = []
        for _ in range(length):
            kind = r.random()
            if kind < 0.45:
                parts.append(self.element(shape))
            elif kind < 0.62:
                parts.append(self.row(shape))
            elif kind < 0.74 and not keeps:
                text, shape = self.reshaping(shape)
                parts.append(text)
            elif kind < 0.9 and depth < 3:
                parts.append(self.nested(shape, depth))
            elif depth < 3:
                parts.append(self.use(shape) if r.random() < 0.25 else self.name(shape))
            else:
                parts.append("sin")
        return "; ".join(parts), shape

    def end(self, shape):
        r = self.r
        if self.neighbours:
            self.output = shape
            return ""
        ends = ["", "", "", "mean", "sum", f"mul 0.3; {r.choice(['logsumexp', 'norm', 'prod'])}"]
        ends += [f"{loss} {self.param(shape, r.choice(['const', 'param']))}" for loss in ("mse", "mae", "huber")]
        if len(shape) == 2 and 0 < count(shape) and shape[0] < 400:
            name = self.fresh("t")
            rows = ", ".join(str(r.randrange(shape[1])) for _ in range(shape[0]))
            self.declared.append(f"const {name}: i64[{shape[0]}] = [{rows}]")
            ends += [f"cross_entropy {name}"] * 2
            if r.random() < 0.6:
                weights = self.param([shape[1]], "const", 0.05)
                options = "".join(option for option in (" ignore=0", f" weight={weights}", " reduction=sum", " label_smoothing=0.2")
                                  if r.random() < 0.4)
                ends = [f"cross_entropy {name}{options}", f"log_softmax; nll {name} weight={weights}"]
        end = r.choice(ends)
        self.output = [] if end else shape
        return r.choice(["", "", "", "cast f32; sin; ", "cast f16; sin; "]) + end

    def chain(self):
        body, shape = self.block(self.shape, 0, False, self.r.randint(1, 12))
        body = "; ".join(filter(None, [body, self.end(shape)]))
        lines = self.declared + [d for _, _, d in self.defs] + split(body)
        return "".join(f"{line}{'  # a note' if self.r.random() < 0.05 else ''}\n" for line in lines)


class WideGenerator(Generator):
    """Chains with more options of operations, and with params that get their values in every way.

    files has the contents of what a chain loads; bindings are the words of the command line that bind other params.
    """

    def __init__(self, seed, rows):
        super().__init__(seed, safe_names(rows))
        self.rows, self.files, self.bindings, self.params = rows, {}, [], []
        if self.r.random() < 0.8:
            self.safe = [name for name in self.safe if name not in ZERO_DERIVATIVE]
        if self.r.random() < 0.03:
            self.shape = self.output = self.names["x"] = self.r.choice([[20000], [4000, 6]])

    def group(self, group):
        return [name for name, row in self.rows.items() if row["group"] == group]

    def numbers(self, low, shape):
        return repeated([self.r.uniform(low, 0.9) for _ in range(min(count(shape), 251))], count(shape))

    def param(self, shape, kind="param", low=-0.9):
        r = self.r
        if r.random() < 0.4:
            name = super().param(shape, kind, low)
        else:
            name = self.fresh("p")
            dtype = r.choice([self.dtype, self.dtype, self.dtype, "f32", "f64"])
            value = r.choice([self.formula, self.nested_list, self.loaded, self.loaded, self.bound])
            self.declared.append(f"{kind} {name}{value(name, shape, low, dtype, f': {dtype}[{shape_text(shape)}]')}")
        if kind == "param":
            self.params.append(name)
        return name

    def formula(self, name, shape, low, dtype, declared):
        r = self.r
        made = ["ones", f"full({r.uniform(low, 0.9):.3f})", f"{r.uniform(low, 0.9):.3f}"]
        if low < 0:
            made += [f"normal(0.3, {r.randrange(1000)})"] * 2 + ["zeros"] + ["eye"] * (len(shape) == 2)
        return f"{declared} = {r.choice(made)}"

    def nested_list(self, name, shape, low, dtype, declared):
        if not 0 < count(shape) <= 40 or not shape:
            return self.loaded(name, shape, low, dtype, declared)

        def nested(axis):
            if axis == len(shape):
                return f"{self.r.uniform(low, 0.9):.4g}"
            return f"[{', '.join(nested(axis + 1) for _ in range(shape[axis]))}]"

        return f"{self.r.choice(['', declared])} = {nested(0)}"

    def loaded(self, name, shape, low, dtype, declared):
        r = self.r
        values = self.numbers(low, shape)
        stored = r.choice([dtype, dtype, "f32", "f64", "f16"])
        kind = r.choice(["npy", "npz", "safetensors"])
        path, member = f"{name}.{kind}", ', "w"'
        if kind == "npy":
            order, member = "<" if stored == "bf16" else r.choice("<<<>"), ""
            self.files[path] = npy(stored, shape, values, order, r.random() < 0.2)
        elif kind == "npz":
            method = r.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            self.files[path] = npz({"a": npy("f32", [2], [1.0, 2.0]), "w": npy(stored, shape, values)}, method)
        else:
            self.files[path] = safetensors({"a": ("f64", [1], [1.0]), "w": (stored, shape, values)})
        return f"{declared if stored != dtype or r.random() < 0.7 else ''} = load(\"{path}\"{member})"

    def bound(self, name, shape, low, dtype, declared):
        if self.r.random() < 0.2:
            self.bindings += ["--param", f"{name}={self.r.uniform(low, 0.9):.3f}"]
            return declared
        self.files[name + ".npy"] = npy(dtype, shape, self.numbers(low, shape))
        self.bindings.append(f"--param={name}={name}.npy")
        return declared

    def options(self, name, axis, axes):
        """Some of the options that the table lists for an operation, with values."""
        r = self.r
        values = {"axis": r.choice([axis, axis, axes]), "keepdims": r.choice(["true", "false"]), "eps": "1e-3",
                  "slope": "0.2", "tanh": "true", "lo": "-0.6", "hi": "0.7", "delta": "0.3", "axes": axes,
                  "dx": f"{r.uniform(0.5, 2):.2f}", "boundary": r.choice(["periodic", "zero", "reflect"])}
        return "".join(f" {option}={values[option]}" for option in self.rows[name]["options"]
                       if option in values and (option in ("lo", "hi") or r.random() < 0.6))

    def element(self, shape):
        r = self.r
        kind = r.random()
        if kind < 0.08:
            name = r.choice([name for name in self.safe if self.rows[name]["group"] == "one value"])
            return name + self.options(name, 0, 0)
        if kind < 0.11:
            return r.choice([f"mix {{ sin }} {r.uniform(0, 1):.2f}", f"mix {self.operand(shape)} s=0.3",
                             f"twice b={r.uniform(-1, 1):.2f}", "twice { mul 0.5; cos }"])
        return super().element(shape)

    def row(self, shape):
        r = self.r
        if not shape or r.random() < 0.7:
            return super().row(shape)
        axis = r.randrange(-len(shape), len(shape))
        axes = f"[{shape_text(sorted(r.sample(range(len(shape)), r.randint(1, len(shape)))))}]"
        kind = r.randrange(4)
        if kind == 0:
            name = r.choice(self.group("along an axis"))
            return f"{name}{self.options(name, axis, axis)}; tanh"
        if kind == 1 and 0 not in shape:
            name = r.choice(self.group("reductions"))
            return f"sub {{ tanh; {name}{self.options(name, axis, axes).replace('false', 'true')}; mean; sin }}"
        if kind == 2:
            name = r.choice([name for name in self.group("stencils") if not self.rows[name]["operands"]])
            return f"{name}{self.options(name, axis, axes)}; mul 0.2; sin"
        return f"roll {r.randint(-9, 9)} axis={axis}; slice axis={axis}; {'neg' if r.random() < 0.5 else 'mul 0.7'}"

    def reshaping(self, shape):
        r = self.r
        if 3 <= len(shape) <= 4 and 0 not in shape and shape[1] < 9 and r.random() < 0.5:
            return self.convolution(shape)
        if not shape or 0 in shape or r.random() < 0.85:
            return super().reshaping(shape)
        axes = sorted(r.sample(range(len(shape)), r.randint(1, len(shape))))
        keep = r.random() < 0.5
        out = [1 if i in axes else extent for i, extent in enumerate(shape) if keep or i not in axes]
        name = r.choice(self.group("reductions"))
        return f"tanh; {name} axis=[{shape_text(axes)}] keepdims={str(keep).lower()}; atan", out

    def convolution(self, shape):
        r = self.r
        images = shape[2:]
        stride, padding = [r.randint(1, 2) for _ in images], [r.randint(0, 1) for _ in images]
        kernel = [r.randint(1, min(3, extent + 2 * pad)) for extent, pad in zip(images, padding)]
        out = [(extent + 2 * pad - k) // step + 1 for extent, pad, k, step in zip(images, padding, kernel, stride)]
        channels = r.randint(1, 3)
        options = "".join(f" {name}={v[0] if len(v) == 1 else v}".replace(", ", ",")
                          for name, v in (("stride", stride), ("padding", padding)))
        weights = self.param([channels, shape[1], *kernel])
        return f"conv{len(images)}d {weights}{options}; tanh", [shape[0], channels, *out]

    def nested(self, shape, depth):
        r = self.r
        kind = r.random()
        if kind < 0.1 and count(shape) <= 300:
            return f"repeat {r.randint(10, 60)} {{ {r.choice(['sin; mul 1.1', 'tanh', 'cos; mul { sin }'])} }}"
        if kind < 0.15 and shape and 0 < shape[0] < 6 and self.names.get("x") == shape:
            return f"for {self.fresh('w')} in x {{ add w{self.count}; sin }}"
        return super().nested(shape, depth)

    def use(self, shape):
        known = [name for name, of in self.names.items() if of == shape]
        return f"use {self.r.choice(known)}" if known and self.r.random() < 0.9 else super().use(shape)

    def end(self, shape):
        r = self.r
        if r.random() < 0.8:
            return super().end(shape)
        self.output = []
        name = r.choice([name for name in self.group("losses") if name not in ("cross_entropy", "nll")])
        low = 0.05 if name in ("bce", "bce_logits", "kl_div") else -0.9
        reduction = r.choice(["", "", " reduction=sum", " reduction=none"])
        if "none" in reduction:
            self.output = shape
        return f"{'sigmoid; ' * (name == 'bce')}{name} {self.param(shape, 'const', low)}{self.options(name, 0, 0)}{reduction}"

    def chain(self):
        r = self.r
        text = super().chain()
        if re.search(r"\b(mix|twice) ", text):
            text = DEFS + text
        if r.random() < 0.05:
            text = text.replace("\n", r.choice(["\r\n", "\n\n", " ;\n"]))
        return text
