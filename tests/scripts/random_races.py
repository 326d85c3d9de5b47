#!/usr/bin/env python3
"""Random chains with several workers, for a build with ThreadSanitizer.

random_races.py CHAINS FIRST_SEED    CKPTC names the program.

Each chain is run and differentiated by four workers. An array is as large as its generator makes it, and then so large that
a team shares operations. A chain fails if ThreadSanitizer reports a race (status 66), or if the bits of one worker differ.
"""
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from array_files import npy
from random_chains import Generator, count, safe_names, table

CKPTC = os.path.abspath(os.environ["CKPTC"])
# A team shares an operation on so many elements; no reshape fits them all, so these chains are a list.
LARGE = ["roll 1 axis=0; softmax; mul x", "roll 1 axis=0; layernorm axis=0; cumsum; sin",
         "param W: f32[499,64] = normal(0.1, 1); roll 1 axis=0; matmul W; tanh; linear {W}",
         "transpose; exp; amax axis=0", "roll 1 axis=0; logsumexp axis=1; sin", "repeat 9 { add { laplacian; mul 0.1 }; sin }",
         "name a; roll 3 axis=1; concat a axis=0; std axis=0", "sub { mean axis=0 }; div { norm axis=0 }; mse 0.5"]
POLICIES = ["save-all", "nothing", "sqrt", "every:2", "revolve:2", "budget:64M"]


def fails(text, extra, options):
    """What is wrong with the chain TEXT, or None."""
    with open("chain.ck", "w") as f:
        f.write(text)
    made = []
    for threads in ("1", "4"):
        for command in (["run", "-o", "y.npy"], ["grad", "-o", "g.npy", *options]):
            done = subprocess.run([CKPTC, command[0], "chain.ck", *extra, *command[1:], "--threads", threads],
                                  capture_output=True)
            if done.returncode not in (0, 6):
                return f"{command} --threads {threads} ends with {done.returncode}\n{done.stderr.decode()}"
        made.append([open(name, "rb").read() for name in ("y.npy", "g.npy") if os.path.exists(name)])
    return None if made[0] == made[1] else "four workers give other bits than one"


def main():
    chains, first = int(sys.argv[1]), int(sys.argv[2])
    safe = safe_names(table(CKPTC))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([CKPTC, "run", "--to", "npy", "-o", "large.npy", "-e",
                        "const u: f32[301,499] = uniform(0.2, 1.2, 5); add u; cast f32"], input=b"0", check=True)
        for seed in range(first, first + chains):
            r = random.Random(seed)
            options = ["--policy", r.choice(POLICIES), *r.choice([[], ["--tile", "1"], ["--tile", "3"]])]
            if seed % 4 == 0:
                text, extra = LARGE[seed // 4 % len(LARGE)].replace("{W}", "W"), ["-i", "large.npy"]
            else:
                g = Generator(seed, safe)
                text = g.chain()
                values = [g.r.uniform(-0.9, 0.9) for _ in range(count(g.shape))]
                with open("x.npy", "wb") as f:
                    f.write(npy(g.dtype, g.shape, values))
                extra = ["-i", "x.npy"] + (["--assume-dtype", "bf16"] if g.dtype == "bf16" else [])
            wrong = fails(text, extra, options)
            if wrong:
                failed += 1
                print(f"seed {seed}, {' '.join(options)}: {wrong}\n{text}\n")
    print(f"{chains - failed} of {chains} chains without a race")
    return failed > 0


sys.exit(main())
