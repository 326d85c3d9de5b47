#!/usr/bin/env python3
"""Makes tests/golden/npy: arrays in every form of npy, and what NumPy makes of them.

    /usr/bin/python3 tests/golden/make_npy.py      (NumPy 1.24.2, Python 3.11.2: Debian 12)

NAME.npy   what is read: every dtype, byte order, memory order and npy version.
NAME.want  what numpy.save writes of the same values in C order, in the type that
           ckptc computes or stores them in: f2, f4 or f8.
NAME.show  (of the show-* arrays) NumPy's str() of the array.
cases      the names, one a line.
numbers    a double in hexadecimal, then the shortest digits of it as f64 and, where
           it is a float, as f32 (else "-"), as repr() has them, without a final ".0".
two.npz, deflated.npz   numpy.savez and savez_compressed of W (f4) and b (f8).
large.npz  an integer that a double does not hold.
"""
import pathlib
import warnings

import numpy as np

OUT = pathlib.Path(__file__).parent / "npy"
rng = np.random.default_rng(20240229)
names = []


def save(name, array, version=(1, 0)):
    with open(OUT / f"{name}.npy", "wb") as f, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(f, array, version=version)
    kind = array.dtype.newbyteorder("=").str[1:]
    held = kind if kind in ("f2", "f4", "f8") else "f8"
    with open(OUT / f"{name}.want", "wb") as f:
        np.save(f, np.ascontiguousarray(array).reshape(array.shape).astype("<" + held))
    names.append(name)


def values(dtype, shape):
    if dtype == "b1":
        return rng.random(shape) > 0.5
    if dtype[0] == "f":
        return (rng.standard_normal(shape) * 50).astype(dtype)
    info = np.iinfo(dtype)
    low, high = max(info.min, -(2**53)), min(info.max, 2**53)
    a = np.asarray(rng.integers(low, high, shape, dtype=dtype, endpoint=True))
    if a.size > 2:
        a.flat[0], a.flat[1] = low, high
    return a


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
for dtype in DTYPES:
    for order, word in (("<", "little"), (">", "big")):
        save(f"{dtype}-{word}", np.asarray(values(dtype, (3, 5))).astype(order + dtype))
    save(f"{dtype}-fortran", np.asfortranarray(values(dtype, (4, 3, 2))))
for i, shape in enumerate([(), (0,), (3, 0, 2), (7,), (1, 7), (7, 1), (1,) * 32, (2, 1, 3)]):
    save(f"shape-{i}", values("f4", shape))
    save(f"shape-{i}-fortran", np.asarray(values("f8", shape), order="F"))
for version in ((1, 0), (2, 0), (3, 0)):
    save(f"version-{version[0]}", values("f4", (2, 3)), version)
save("fortran-squares", np.asfortranarray(values("i2", (67, 3, 41)).astype(">i2")))
save("fortran-long", np.asfortranarray(values("f4", (2, 700))))

shown = {
    "plain": [1.5, 2, -3.25],
    "whole": np.arange(24.0).reshape(2, 3, 4),
    "large": [1e10, 1.5e-5, -2],
    "wide": [1e300, 1e-300, 1],
    "special": [[np.nan, np.inf], [-np.inf, 0.1]],
    "allspecial": [np.nan, -np.inf],
    "zeros": [0.0, -0.0],
    "cut": np.arange(1001.0),
    "cut2": rng.standard_normal((40, 50)),
    "cut3": rng.standard_normal((9, 8, 20)),
    "wrap": rng.standard_normal(30),
    "ratio": [1000.0, 1.0],
    "beyond": [1001.0, 1.0],
    "exact": [99999999.1],
    "single": np.array([0.1, 123.456, 7], "f4"),
    "singlelarge": np.array([0.1, 123456, 7e-6], "f4"),
    "half": np.array([0.1, 2049, 60000], "f2"),
    "halfsmall": np.array([6e-8, 1, 0.3], "f2"),
    "scalar": np.array(2.5),
    "scalarwhole": np.array(3.0, "f4"),
    "scalarlarge": np.array(1e16),
    "scalarsmall": np.array(1e-10),
    "scalarfew": np.array(-2.5e-7),
    "scalarleast": np.array(5e-324),
    "scalarsingle": np.array(1e-4, "f4"),
    "scalarhalf": np.array(6e-5, "f2"),
    "empty": np.zeros((0, 3)),
}
for name, array in shown.items():
    array = np.array(array)
    save(f"show-{name}", array)
    (OUT / f"show-{name}.show").write_text(str(array) + "\n")


def strip(text):
    return text[:-2] if text.endswith(".0") else text


def shortest32(x):
    size = abs(float(x))
    if size == 0 or 1e-4 <= size < 1e16:
        return np.format_float_positional(x, trim="-")
    return np.format_float_scientific(x, trim="-", exp_digits=2)


numbers = [0.0, -0.0, 1.0, -3.0, 0.1, 0.2 + 0.1, 1e-4, 9.999e-5, 1e-5, 1e15, 1e16, 1e17, 123456789012345678.0, 5e-324,
           2.2250738585072014e-308, 1.7976931348623157e308, 1055742800533251.25, 2.0**-44, 2.0**-24, 9007199254740993.0,
           0.5, 1.5, 1e22, 1e23, 4.35, 0.000123, 299792.458, 1e30, -1e-30, float("inf"), float("-inf"), float("nan")]
numbers += [float(x) for x in rng.standard_normal(300) * 10.0 ** rng.integers(-9, 19, 300)]
numbers += [float(x) for x in rng.integers(0, 2**64, 200, dtype="u8").view("f8") if np.isfinite(x)]
numbers += [2.0**k for k in range(-1074, 1024, 7)]
with np.errstate(all="ignore"):
    numbers += [float(np.float32(x)) for x in rng.integers(0, 2**32, 300, dtype="u8").astype("u4").view("f4") if np.isfinite(x)]
    numbers += [float(np.float32(x)) for x in rng.standard_normal(300) * 10.0 ** rng.integers(-9, 19, 300)]
lines = []
for x in numbers:
    with np.errstate(all="ignore"):
        single = np.float32(x)
    whole = np.isfinite(x) and x == int(x) and abs(x) < 1e15  # written out in full
    as32 = "-" if not (float(single) == x or np.isnan(x)) else f"{x:.0f}" if whole else shortest32(single)
    lines.append(f"{x.hex()} {strip(repr(x))} {strip(as32)}\n")
(OUT / "numbers").write_text("".join(lines))

W, b = np.arange(6, dtype="f4").reshape(2, 3), np.float64(2.5)
np.savez(OUT / "two.npz", W=W, b=b)
np.savez(OUT / "large.npz", n=np.array([1, 2**53 + 1]))
np.savez_compressed(OUT / "deflated.npz", W=np.zeros((100, 100)), b=b)
(OUT / "cases").write_text("".join(n + "\n" for n in names))
print(f"NumPy {np.__version__}: {len(names)} arrays, {len(numbers)} numbers")
