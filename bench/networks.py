"""Networks by ckptc, PyTorch, torch.compile and JAX: the cases `networks` of bench/run.

BENCH_PEERS names a Python that has torch and jax; without it bench/run's own is taken. A framework that is missing is
skipped. BENCH_CASES=networks:MLP restricts the rows to names with MLP. BENCH_PREFIX begins all commands that are timed:
on a busy machine `chrt -f 1` lets them run before other programs.

ckptc's time is that of the whole process, files included. A peer has two: that of a step on arrays in memory, in a
process that has compiled it; and the same with the files, which NumPy reads and writes. They take turns. Gradients and
values are compared with those of each peer. Bare programs stand beside them: one for the files alone (files.c), the MLP on
the same files (mlp.c), and the GPT-like networks written by hand (gpt.c): whole; a second step on arrays in memory; and its
products alone.
"""
import os
import resource
import shutil
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.environ.get("BENCH_PREFIX", "").split()
PEERS = ("torch", "torch.compile", "JAX")
HEAD = """
| network | pass, threads | by | least s | median s | processor s | with files, median s | peak RSS MiB | ckptc by it, median ratio | with files | difference |
|---|---|---|---|---|---|---|---|---|---|---|"""

BLOCK = """const mask: f32[{t},{t}]
param g: f32[{n},{d}]; param b: f32[{n},{d}]
param Q: f32[{n},{d},{d}]; param K: f32[{n},{d},{d}]; param V: f32[{n},{d},{d}]; param O: f32[{n},{d},{d}]
param h: f32[{n},{d}]; param c: f32[{n},{d}]
param U: f32[{n},{d},{u}]; param ub: f32[{n},{u}]; param D: f32[{n},{u},{d}]; param db: f32[{n},{d}]
def heads(W) {{ matmul W; reshape -1 {t} {heads} 64; transpose axes=[0,2,1,3] }}
for g, b, q, k, v, o, h, c, up, ub, down, db in g, b, Q, K, V, O, h, c, U, ub, D, db {{
	add {{
		layernorm; mul g; add b; name tokens
		heads q; matmul {{ use tokens; heads k; transpose axes=[0,1,3,2] }}
		div 8; add mask; softmax
		matmul {{ use tokens; heads v }}
		transpose axes=[0,2,1,3]; reshape -1 {t} {d}; matmul o
	}}
	add {{ layernorm; mul h; add c; matmul up; add ub; gelu; matmul down; add db }}
}}"""


def gpt(random, layers, batch, length, width):
    shape = {"n": layers, "t": length, "d": width, "u": 4 * width, "heads": width // 64}
    normal = lambda *s: (random.standard_normal(s) / s[-2] ** 0.5).astype(np.float32)
    params = {key: normal(layers, width, width) for key in "QKVO"}
    params |= {"U": normal(layers, width, 4 * width), "D": normal(layers, 4 * width, width)}
    params |= {key: np.ones((layers, width), np.float32) for key in "gh"}
    params |= {key: 0.1 * normal(layers, n) for key, n in (("b", width), ("c", width), ("ub", 4 * width), ("db", width))}
    params["mask"] = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    return random.standard_normal((batch, length, width), dtype=np.float32), params, BLOCK.format(**shape)


def mlp(random, layers, width, rows, kind="param"):
    params = {f"W{i}": (random.standard_normal((width, width)) / width**0.5).astype(np.float32) for i in range(layers)}
    chain = "".join(f"{kind} W{i}: f32[{width},{width}]\n" for i in range(layers))
    chain += "".join(f"matmul W{i}; tanh\n" for i in range(layers))
    return random.standard_normal((rows, width), dtype=np.float32), params, chain


def product(random, width, rows):
    x, params, _ = mlp(random, 1, width, rows)
    return x, {"W": params["W0"]}, f"param W: f32[{width},{width}]; matmul W"


def rnn(random, steps, rows, width):
    params = {"xs": 0.1 * random.standard_normal((steps, rows, width), dtype=np.float32),
              "W": (random.standard_normal((width, width)) / width**0.5).astype(np.float32)}
    chain = f"const xs: f32[{steps},{rows},{width}]; param W: f32[{width},{width}]; for row in xs {{ matmul W; add row; tanh }}"
    return random.standard_normal((rows, width), dtype=np.float32), params, chain


def resnet(random, blocks, batch, channels, size):
    params = {key: 0.04 * random.standard_normal((blocks, channels, channels, 3, 3), dtype=np.float32) for key in "AB"}
    chain = "".join(f"param {key}: f32[{blocks},{channels},{channels},3,3]\n" for key in "AB")
    chain += "for a, b in A, B { add { conv2d a padding=1; relu; conv2d b padding=1 }; relu }"
    return random.standard_normal((batch, channels, size, size), dtype=np.float32), params, chain


def attention(random, heads, length, width):
    shape = (1, heads, length, width)
    params = {key: random.standard_normal(shape, dtype=np.float32) for key in "KV"}
    text = ",".join(map(str, shape))
    return random.standard_normal(shape, dtype=np.float32), params, f"param K: f32[{text}]; param V: f32[{text}]; attention K V"


def convolution(random, shape, kernel, stage):
    """SHAPE is that of the input. STAGE says what is done with KERNEL, K."""
    params = {"K": (random.standard_normal(kernel) / np.prod(kernel[1:]) ** 0.5).astype(np.float32)}
    return random.standard_normal(shape, dtype=np.float32), params, f"param K: f32[{','.join(map(str, kernel))}]; {stage}"


def pooling(random, shape, stage):
    return random.standard_normal(shape, dtype=np.float32), {}, stage


def heat(random, size, steps):
    """Linear steps: no backward pass reads a state. The peers know the number of steps."""
    assert steps == 200
    return random.standard_normal((size, size), dtype=np.float32), {}, f"repeat {steps} {{ add {{ laplacian; mul 0.1 }} }}; mse 0"


EACH = (("forward", 1), ("forward", 2), ("gradient", 1), ("gradient", 2))
# name, case of networks_peers.py, arrays and chain, (pass, threads), options; the peers' gradients of consts are not compared
CASES = (
    ("GPT-like, 6 layers, 8 x 128 x 256", "gpt", lambda r: gpt(r, 6, 8, 128, 256),
     (("forward", 1), ("forward", 2), ("gradient", 1), ("gradient", 2))),
    ("GPT-like, 6 layers, 4 x 512 x 512", "gpt", lambda r: gpt(r, 6, 4, 512, 512), (("forward", 1), ("gradient", 1))),
    ("MLP 3 x 4096^2, batch 64", "mlp", lambda r: mlp(r, 3, 4096, 64), (("forward", 2), ("gradient", 1), ("gradient", 2))),
    ("the same, weights as consts", None, lambda r: mlp(r, 3, 4096, 64, "const"), (("gradient", 1), ("gradient", 2))),
    ("matmul 4096, 2048 rows", "product", lambda r: product(r, 4096, 2048), (("forward", 1),)),
    ("4 x (matmul 1024, tanh), 4096 rows", "mlp", lambda r: mlp(r, 4, 1024, 4096), (("gradient", 1), ("gradient", 2))),
    ("RNN, 500 steps of 64 x 256", "rnn", lambda r: rnn(r, 500, 64, 256), (("gradient", 1), ("gradient", 2))),
    ("ResNet, 4 blocks, 16 x 64 x 32^2", "resnet", lambda r: resnet(r, 4, 16, 64, 32), (("gradient", 1), ("gradient", 2))),
    ("attention 4 x 8192 x 64", "attention", lambda r: attention(r, 4, 8192, 64), EACH),
    ("conv2d 3 x 3, 8 x 64 x 56^2", "conv", lambda r: convolution(r, (8, 64, 56, 56), (64, 64, 3, 3), "conv2d K padding=1"), EACH),
    ("conv2d 1 x 1, 8 x 256 x 28^2", "conv1x1", lambda r: convolution(r, (8, 256, 28, 28), (256, 256, 1, 1), "conv2d K"), EACH),
    ("conv2d 7 x 7 by 2, 8 x 3 x 224^2", "stem", lambda r: convolution(r, (8, 3, 224, 224), (64, 3, 7, 7), "conv2d K stride=2 padding=3"), EACH),
    ("conv2d 3 x 3 depthwise, 8 x 128 x 56^2", "depthwise",
     lambda r: convolution(r, (8, 128, 56, 56), (128, 1, 3, 3), "conv2d K padding=1 groups=128"), EACH),
    ("conv_transpose2d 4 x 4 by 2, 8 x 64 x 28^2", "transposed",
     lambda r: convolution(r, (8, 64, 28, 28), (64, 32, 4, 4), "conv_transpose2d K stride=2 padding=1"), EACH),
    ("maxpool2d 3 by 2, 8 x 64 x 112^2", "maxpool", lambda r: pooling(r, (8, 64, 112, 112), "maxpool2d 3 stride=2 padding=1"), EACH),
    ("heat 1024^2, 200 steps, revolve:20", "heat", lambda r: heat(r, 1024, 200), (("gradient", 1), ("gradient", 2)),
     "--policy", "revolve:20"),
)


class Peer:
    """A process of networks_peers.py. Not `there` if its framework is missing or fails."""

    def __init__(self, name, python, case, how, threads, folder):
        command = [*PREFIX, python, os.path.join(HERE, "networks_peers.py"), name, case, how, str(threads), folder]
        if name == "JAX":
            command = ["taskset", "-c", ",".join(str(i) for i in sorted(os.sched_getaffinity(0))[:threads]), *command]
        variables = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self.name, self.folder, self.times = name, folder, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env=variables)
        self.there = self.step()

    def step(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        words = self.process.stdout.readline().split()
        self.times.append([float(w) for w in words])
        return len(words) == 3

    def end(self):
        self.process.kill()
        self.process.wait()

    def finish(self):
        """Returns the peak RSS in MiB, and the results of the last step."""
        self.process.stdin.close()
        rest = self.process.stdout.read().split()
        self.process.wait()
        with np.load(os.path.join(self.folder, "peer.npz")) as file:
            return int(rest[0]) / 1024, dict(file)


def run_command(command):
    """Runs COMMAND. Returns its elapsed and its processor seconds: those that it prints, if it is a bare program."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    variables = {**os.environ, "OMP_WAIT_POLICY": "passive"} # a thread that waits takes no time from OpenBLAS's
    printed = subprocess.run([*PREFIX, *command], check=True, stdout=subprocess.PIPE, text=True,
                             env=variables).stdout.split()
    elapsed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if os.path.basename(command[0]).startswith("bare-"):
        return float(printed[0]), float(printed[1])
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours_of(ckptc, folder, how, threads, params):
    """The command, and the files that it makes by the names of a peer's results."""
    path = lambda name: os.path.join(folder, name)
    command = [ckptc, "grad" if how == "gradient" else "run", "--threads", str(threads), "-i", path("x.npy")]
    command += ["--params", path("params.npz")] if "param" in params or "const" in params else []
    command += ["-o", path("y.npy"), *(["--grads", path("g.npz")] if how == "gradient" and "param" in params else [])]
    return [*command, path("net.ck")]


def compiled(name, folder):
    """The bare program that bench/NAME makes; None if it cannot be compiled."""
    made, compiler = os.path.join(folder, "bare-" + name[:-2]), shutil.which("cc")
    flags = ["-O3", "-march=native", *(["-ffast-math", "-fopenmp"] if name == "gpt.c" else [])]
    build = [compiler, *flags, "-o", made, os.path.join(HERE, name), "-l:libopenblas.so.0", "-lm"]
    return made if compiler and subprocess.run(build, stderr=subprocess.DEVNULL, check=False).returncode == 0 else None


def bare_of(case, ours, folder, how, threads):
    """
    By their names, the commands of the bare programs beside OURS: files.c, which reads the same files and writes as many
    bytes; mlp.c on the same files; gpt.c on the same files, or a second step, or its products alone.
    """
    path = lambda name: os.path.join(folder, name)
    run_command(ours)
    ins = [path(name) for name in ("x.npy", "params.npz") if path(name) in ours]
    size = sum(os.path.getsize(path(name)) for name in ("y.npy", "g.npz") if path(name) in ours)
    sizes = [word for word in case.replace(",", "").split() if word.isdigit()]
    wanted = {"files.c, files alone": [path("bare.out"), str(size), *ins]}
    if case.startswith("GPT"):
        network = [path("params.npz"), path("x.npy"), *sizes, str(threads), how]
        kinds = {"products alone": "products", "by hand, a second step": "again", "by hand": "once"}
        wanted |= {f"gpt.c, {name}": [*network, kind, path("bare.out")] for name, kind in kinds.items()}
    if case.startswith("MLP"):
        out = [path("bare.out")] if how == "gradient" else []
        wanted["mlp.c, OpenBLAS"] = [path("params.npz"), path("x.npy"), str(threads), *out]
    programs = {name: compiled(name.split(",")[0], folder) for name in wanted}
    return {name: [programs[name], *wanted[name]] for name in wanted if programs[name]}


def results_of(folder, how):
    found = {"y" if how == "forward" else "x": np.load(os.path.join(folder, "y.npy"))}
    grads = os.path.join(folder, "g.npz")
    if how == "gradient" and os.path.exists(grads):
        with np.load(grads) as file:
            found |= dict(file)
    return found


def bare_results(folder, command, how):
    """What gpt.c wrote: y, or the gradients by x and by the params, in the order of params.npz."""
    run_command(command)
    values = np.fromfile(os.path.join(folder, "bare.out"), np.float32)
    x, found = np.load(os.path.join(folder, "x.npy")), {}
    with np.load(os.path.join(folder, "params.npz")) as file:
        shapes = {"y": x.shape} if how == "forward" else {"x": x.shape} | {k: file[k].shape for k in file if k != "mask"}
    for key, shape in shapes.items():
        found[key], values = values[: np.prod(shape)].reshape(shape), values[np.prod(shape):]
    return found


def difference(ours, theirs):
    """
    The most, over the arrays, of |ours - theirs| / |theirs| as vectors. An element can differ by much where a relu's
    argument is 0 but for rounding.
    """
    norm = lambda a: float(np.linalg.norm(a.ravel().astype(np.float64)))
    return max(norm(ours[key] - theirs[key]) / norm(theirs[key]) for key in theirs if key in ours)


def median(values):
    return sorted(values)[len(values) // 2]


def ratio_of(times, others, i=0):
    """The median by turns of elapsed seconds and number I of the other's."""
    return f"{median([a[0] / b[i] for a, b in zip(times, others)]):.2f}"


def print_row(title, by, times, rss, ratios=("", ""), error=""):
    least, middle, processor = min(t[0] for t in times), median([t[0] for t in times]), min(t[1] for t in times)
    files = f"{median([t[2] for t in times]):.3f}" if len(times[0]) > 2 else ""
    numbers = f"{least:.3f} | {middle:.3f} | {processor:.3f} | {files} | {rss:.0f} | {ratios[0]} | {ratios[1]} | {error}"
    print(f"| {title} | {by} | {numbers} |", flush=True)


def compare(title, how, commands, peers, folder, settings):
    """Runs COMMANDS and steps of PEERS in turn. Prints their rows."""
    times = {by: [] for by in commands}
    for _ in range(settings["runs"] + 1):
        for by, command in commands.items():
            for made in ("y.npy", "g.npz", "bare.out"):
                if os.path.exists(os.path.join(folder, made)):
                    os.unlink(os.path.join(folder, made))
            times[by].append(run_command(command))
        for peer in peers:
            peer.there = peer.there and peer.step()
    run_command(commands["ckptc"])
    results = results_of(folder, how)
    ours = times["ckptc"][1:]
    for by, command in commands.items():
        rss = settings["rss"](" ".join(command)) / 1024
        error = f"{difference(results, bare_results(folder, command, how)):.1e}" if by == "gpt.c, by hand" else ""
        print_row(title, by, times[by][1:], rss, (ratio_of(ours, times[by][1:]) if by != "ckptc" else "", ""), error)
    for peer in peers:
        if not peer.there:
            print(f"| {title} | {peer.name} | missing | | | | | | | |", flush=True)
            continue
        steps = peer.times[2:]
        rss, theirs = peer.finish()
        error = difference(results, theirs)
        print_row(title, peer.name, steps, rss, (ratio_of(ours, steps), ratio_of(ours, steps, 2)), f"{error:.1e}")
        assert error < 1e-2, title


def measure(case, how, threads, folder, settings):
    """The rows of one network, pass and number of threads."""
    name, peer_case, arrays, _, *options = case
    x, params, chain = arrays(np.random.default_rng(6))
    np.save(os.path.join(folder, "x.npy"), x)
    np.savez(os.path.join(folder, "params.npz"), **params)
    with open(os.path.join(folder, "net.ck"), "w", encoding="ascii") as file:
        file.write(chain + "\n")
    commands = {"ckptc": ours_of(settings["ckptc"], folder, how, threads, chain) + options}
    if settings["old"]:
        commands["the other build"] = ours_of(settings["old"], folder, how, threads, chain) + options
    commands |= bare_of(name, commands["ckptc"], folder, how, threads)
    wanted = [] if settings["old"] or not peer_case else PEERS
    peers = [Peer(p, settings["python"], peer_case, how, threads, folder) for p in wanted]
    try:
        compare(f"{name} | {how}, {threads}", how, commands, peers, folder, settings)
    finally:
        for peer in peers:
            peer.end()


def networks(settings):
    """SETTINGS: ckptc, old (a build or None), runs, folder, rss (a function of a command), cases (parts of names)."""
    settings["python"] = os.environ.get("BENCH_PEERS", sys.executable)
    print(HEAD)
    for case in CASES:
        if settings["cases"] and not any(part in case[0] for part in settings["cases"]):
            continue
        for how, threads in case[3]:
            measure(case, how, threads, settings["folder"], settings)
