#!/usr/bin/env python3
"""The polynomials of src/ops/vmath_template.h: Remez exchange in 60 digits.

Prints, for each table, the largest weighted error as a power of two and the
coefficients (lowest first) rounded to double, those in sixteen pieces to float. Needs mpmath; a maintainer's tool,
never part of the build. usage: coefficients.py [NAME...]
"""
import re
import sys
from mpmath import (mp, mpf, asin, atan, cbrt, cos, diff, digamma, erf, erfc, exp, findroot, log, log1p, lu_solve, matrix,
                    pi, sin, sqrt, tanh)

mp.dps = 60


def remez(f, weight, low, high, degree):
    """Coefficients c that minimise the largest weight(x) * |f(x) - c(x)|."""
    low, high = mpf(low), mpf(high)
    n = degree + 2
    nodes = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (n - 1)) for i in range(n)]
    grid = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (40 * n)) for i in range(40 * n + 1)]
    fg = [f(x) for x in grid]
    wg = [weight(x) for x in grid]
    best = None
    for _ in range(12):
        a = matrix(n, n)
        b = matrix(n, 1)
        for i, x in enumerate(nodes):
            p = mpf(1)
            for j in range(n - 1):
                a[i, j] = p
                p *= x
            a[i, n - 1] = (-1) ** i / weight(x)
            b[i] = f(x)
        c = lu_solve(a, b)
        coefficients = [c[j] for j in range(n - 1)]
        errors = []
        for x, fx, wx in zip(grid, fg, wg):
            p = mpf(0)
            for cj in reversed(coefficients):
                p = p * x + cj
            errors.append(wx * (fx - p))
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[0]:
            best = (worst, coefficients)
        if worst < abs(c[n - 1]) * mpf('1.001'):
            break
        # one extremum of each run of equal sign
        runs = []
        for x, e in zip(grid, errors):
            if runs and (runs[-1][1] > 0) == (e > 0):
                if abs(e) > abs(runs[-1][1]):
                    runs[-1] = (x, e)
            else:
                runs.append((x, e))
        while len(runs) > n:
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        if len(runs) < n:
            break
        nodes = [x for x, _ in runs]
    return best


def series(terms):
    """sum of terms(i) x^i, for functions with a removable singularity at 0."""
    def f(x):
        total, i = mpf(0), 0
        while True:
            t = terms(i) * x ** i
            total += t
            if i > 4 and abs(t) < mpf(10) ** -50:
                return total
            i += 1
    return f


fac = mp.factorial
one = lambda x: mpf(1)
L2 = log(mpf(2)) / 2 * mpf('1.00001')
Z = L2 * L2
H = pi / 2 * mpf('1.00001')
Q = pi / 4 * mpf('1.00001')
W = pi / 4 * mpf('1.0005')
T = mpf('0.33334')
S = (sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1) * mpf('1.0001')

cosh_tail = series(lambda i: 1 / fac(2 * i + 2))
sinh_tail = series(lambda i: 1 / fac(2 * i + 1))
cosh_fourth = series(lambda i: 1 / fac(2 * i + 4))
sinh_cubic = series(lambda i: 1 / fac(2 * i + 3))
exp_tail = series(lambda i: 1 / fac(i + 2))
sin_tail = series(lambda i: (-1) ** (i + 1) / fac(2 * i + 3))
cos_fourth = series(lambda i: (-1) ** i / fac(2 * i + 4))
cos_tail = series(lambda i: (-1) ** (i + 1) / fac(2 * i + 2))
atanh_tail = series(lambda i: mpf(2) / (2 * i + 3))


def erf_tail(z):  # erf(sqrt z)/sqrt z
    return 2 / sqrt(pi) if z == 0 else erf(sqrt(z)) / sqrt(z)


def erfcx_mapped(a):
    def f(t):  # (1 + 2x) exp(x^2) erfc(x), t = (x - a)/(x + a)
        x = a * (1 + t) / (1 - t)
        return (1 + 2 * x) * exp(x * x) * erfc(x)
    return f


def atan_tail(z):
    return mpf(-1) / 3 if z == 0 else (atan(sqrt(z)) / sqrt(z) - 1) / z


def asin_tail(z):
    return mpf(1) / 6 if z == 0 else (asin(sqrt(z)) / sqrt(z) - 1) / z


def log1p_over(u):
    return mpf(1) if u == 0 else log1p(u) / u


def log1p_cubic(f):  # after f - f^2/2
    return mpf(1) / 3 if abs(f) < mpf(10) ** -20 else (log1p(f) - f + f * f / 2) / f ** 3


def log1p_cubic_weight(f):
    return max(abs(f ** 3 / log1p(f)), mpf(10) ** -9) if f else mpf(10) ** -9


WITH_LOW = ('ERFCX_DOUBLE',)  # tables whose first coefficients have two doubles
ZEROS = {}  # of the tables' functions times their argument
TABLES = {
    # name: (function, weight, low, high, degree)
    'EXP_EVEN': (cosh_tail, lambda z: z if z else mpf(10) ** -30, 0, Z, 2),
    'EXP_ODD': (sinh_tail, lambda z: mpf(1), 0, Z, 3),
    'LOG': (atanh_tail, lambda z: z if z else mpf(10) ** -30, 0, S * S, 3),
    'LOG_FINE': (atanh_tail, lambda z: z if z else mpf(10) ** -30, 0, S * S, 5),
    'SIN_HALF': (sin_tail, lambda z: z / (sin(sqrt(z)) / sqrt(z)) if z else mpf(10) ** -30, 0, H * H, 4),
    'SIN_QUARTER': (sin_tail, lambda z: z if z else mpf(10) ** -30, 0, Q * Q, 3),
    'COS_QUARTER': (cos_tail, lambda z: z / cos(sqrt(z)) if z else mpf(10) ** -30, 0, Q * Q, 3),
    'ATAN': (atan_tail, lambda z: z * sqrt(z) / atan(sqrt(z)) if z else mpf(10) ** -30, 0, 1, 11),
    'ASIN': (asin_tail, lambda z: z * sqrt(z) / asin(sqrt(z)) if z else mpf(10) ** -30, 0, mpf('0.2501'), 8),
    'LOG1P': (log1p_over, lambda u: 1 / log1p_over(u), 0, 1, 12),
    'ERF': (erf_tail, lambda z: 1 / erf_tail(z), 0, 1, 7),
    'ERFCX': (erfcx_mapped(mpf(2)), lambda t: 1 / erfcx_mapped(mpf(2))(t), -1, mpf(9) / 13, 14),
    # in float, coefficients rounded to float: after 1 and 1 - z/2, a little beyond pi/4
    'SIN_FLOAT': (sin_tail, lambda z: z * sqrt(z) / sin(sqrt(z)) if z else mpf(10) ** -30, 0, W * W, 2),
    'COS_FLOAT': (cos_fourth, lambda z: z * z / cos(sqrt(z)) if z else mpf(10) ** -30, 0, W * W, 2),
    'EXP_FLOAT': (exp_tail, lambda x: x * x / exp(x) if x else mpf(10) ** -30, -L2, L2, 4),
    'LOG_FLOAT': (log1p_cubic, log1p_cubic_weight, -T, T, 7),
    'LOG1P_FLOAT': (log1p_cubic, log1p_cubic_weight, mpf('-0.25001'), mpf('0.50001'), 7),
    # in double: sine and cosine to pi/4, as tails after 1 and 1 - z/2
    'SIN_DOUBLE': (sin_tail, lambda z: z if z else mpf(10) ** -30, 0, Q * Q, 5),
    'COS_DOUBLE': (cos_fourth, lambda z: z * z if z else mpf(10) ** -30, 0, Q * Q, 5),
    'EVEN_DOUBLE': (cosh_fourth, lambda z: z * z if z else mpf(10) ** -30, 0, Z, 4),
    'ODD_DOUBLE': (sinh_cubic, lambda z: z if z else mpf(10) ** -30, 0, Z, 4),
    'LOG_DOUBLE': (atanh_tail, lambda z: z if z else mpf(10) ** -30, 0, S * S, 8),
    'ERFCX_DOUBLE': (erfcx_mapped(mpf(4)), lambda t: 1 / erfcx_mapped(mpf(4))(t), mpf('-3.76') / mpf('4.24'),
                     mpf('23.5') / mpf('31.5'), 23),
    'ATAN_DOUBLE': (atan_tail, lambda z: z if z else mpf(10) ** -30, 0, mpf('0.0626'), 10),
    'CBRT': (cbrt, lambda x: 1 / cbrt(x), 1, 8, 3),  # a first value for Halley's method
}


GELU_LAST = mpf('14.7')
tail = lambda a: erfc(a / sqrt(mpf(2))) / 2 * exp(a * a / 2)  # of the normal distribution, beside exp(-a^2 / 2)
gelu_slope = lambda a: tail(a) - a / sqrt(2 * pi)  # gelu's derivative at -a, likewise
GELU_ZERO = findroot(gelu_slope, mpf('0.75'))
# These numbers make the constant terms nearly floats: 1 and the first coefficient of SLOPE_FLOAT.
GELU_SHIFT, GELU_CENTRE, SLOPE_CENTRE = (mpf(float.fromhex(x)) for x in ('0x1.4c7p+0', '0x1.00d80ap+2', '0x1.0023p+2'))


def centred(f, centre):
    """f of a, as a function of t = (a - centre) / (a + centre)"""
    return lambda t: f(centre * (1 + t) / (1 - t))


def gelu_last(centre):
    return (GELU_LAST - centre) / (GELU_LAST + centre)


def tail_tail(t):  # p of 2 (a + shift) tail(a) = 1 + p t
    f = centred(lambda a: 2 * (a + GELU_SHIFT) * tail(a), GELU_CENTRE)
    return (f(t) - 1) / t if abs(t) > mpf(10) ** -8 else diff(f, mpf(0))


def slope_over_zero(a):
    far = GELU_ZERO - a
    return gelu_slope(a) / far if abs(far) > mpf(10) ** -12 else -diff(gelu_slope, GELU_ZERO)


TABLES['TAIL_FLOAT'] = (tail_tail, lambda t: max(abs(t), mpf(10) ** -4) / (1 + t * tail_tail(t)), -1,
                        gelu_last(GELU_CENTRE), 9)
TABLES['SLOPE_FLOAT'] = (centred(slope_over_zero, SLOPE_CENTRE), lambda t: 1 / centred(slope_over_zero, SLOPE_CENTRE)(t),
                         -1, gelu_last(SLOPE_CENTRE), 9)

# Around their zeros, as functions of the distance to it: derivatives of gelu, of its form by tanh, and of silu.
CUBIC, SLOPE = mpf('0.044715'), 2 * sqrt(2 / pi)
sigmoid = lambda x: 1 / (1 + exp(-x))
gelu_tanh = lambda x: SLOPE * (x + CUBIC * x ** 3)
DERIVATIVES = {
    'GELU_DOUBLE': lambda x: erfc(-x / sqrt(mpf(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi),
    'GELU_TANH_DOUBLE': lambda x: sigmoid(gelu_tanh(x)) * (1 + x * sigmoid(-gelu_tanh(x)) * SLOPE *
                                                           (1 + 3 * CUBIC * x * x)),
    'SILU_DOUBLE': lambda x: sigmoid(x) * (1 + x * sigmoid(-x)),
    'MISH_DOUBLE': lambda x: tanh(log1p(exp(x))) + x * sigmoid(x) / mp.cosh(log1p(exp(x))) ** 2,
    'DIGAMMA_DOUBLE': digamma,
}


def over_zero(f, zero):
    at = diff(f, zero)
    return lambda t: f(zero + t) / t if abs(t) > mpf(10) ** -20 else at


for name, f in DERIVATIVES.items():
    zero = findroot(f, '1.46' if f is digamma else -1)
    low, high, degree = {'SILU_DOUBLE': ('-2.2', '-0.7', 18), 'MISH_DOUBLE': ('-2.2', '-0.5', 20),
                         'DIGAMMA_DOUBLE': (1, 2, 21), 'GELU_DOUBLE': ('-1.5', '-0.25', 17),
                         'GELU_TANH_DOUBLE': ('-1.5', '-0.25', 19)}[name]
    slope = over_zero(f, zero)
    TABLES[name] = (slope, lambda t, slope=slope: 1 / slope(t), mpf(low) - zero, mpf(high) - zero, degree)
    ZEROS[name] = zero


def nearest_float(x):
    """x rounded to 24 bits, which is a float unless it is denormal or too large."""
    return mpf(0) if x == 0 else mp.ldexp(mp.nint(mp.ldexp(x, 24 - mp.frexp(x)[1])), mp.frexp(x)[1] - 24)


def short(x):
    """As C writes the float next to x."""
    return re.sub(r'\.?0*p', 'p', float(nearest_float(x)).hex()) + 'F' if x else '0'


def off_floats(x):
    """How far x is from a float, in units of the last place."""
    return abs(x - nearest_float(x)) * mpf(2) ** (24 - mp.frexp(x)[1])


def piece(f, low, high, odd):
    """Centre c, f(c) and p of f(c + r) = f(c) + r p(r), lowest first, c such that f(c) and f'(c) are all but floats
    (Gal 1986); where f is ODD, in the pieces next to 0, of f(a) = a + a p(a). And the largest relative error."""
    low, high = low * (1 - mpf(2) ** -20), high * (1 + mpf(2) ** -20)
    if odd:
        at = lambda a: max(a, mpf(10) ** -15)
        worst, p = remez(lambda a: f(at(a)) / at(a) - 1, lambda a: at(a) / f(at(a)), low, high, 5)
        return [mpf(0), mpf(0)] + p, worst
    middle = (low + high) / 2
    if f(low) > 0 > f(high):  # next to the zero, f(c) and r are exact, and r p(r) is all the rest
        c = nearest_float(findroot(f, middle))
        slope = lambda r: (f(c + r) - f(c)) / r if abs(r) > mpf(10) ** -12 else diff(f, c)
        worst, p = remez(slope, lambda r: 1 / abs(slope(r)), low - c, high - c, 5)
        return [c, f(c)] + p, worst
    if f(high) > f(low) * mpf('1.1'):  # where |f(c + r) - f(c)| / f(c + r) is as great at both ends
        middle = findroot(lambda c: f(c) - 2 / (1 / f(low) + 1 / f(high)), middle)
    trials = [nearest_float(middle + (high - low) / 4 * i / 4000) for i in range(-4000, 4001)]
    far = lambda c: off_floats(f(c)) + abs(c - middle) / (high - low)
    nearest = sorted(trials, key=far)[:400]
    c = min(nearest, key=lambda c: far(c) + off_floats(diff(f, c)) / 4)
    value, slope = f(c), nearest_float(diff(f, c))
    rest = lambda r: (f(c + r) - value - slope * r) / r ** 2 if abs(r) > mpf(10) ** -12 else diff(f, c, 2) / 2
    weight = lambda r: max(r ** 2 / abs(f(c + r)), mpf(10) ** -12)
    worst, p = remez(rest, weight, low - c, high - c, 4)
    return [c, value, slope] + p, worst


def print_pieces(name, f, scale, last, odd):
    """The sixteen pieces of [0, LAST] (struct pieces): piece i of t = 1 + SCALE a has t / 2^(i // 4) in
    [1 + i % 4 / 4, 1 + (i % 4 + 1) / 4), in the order of the bits of t >> 21, modulo 16; of an ODD f two next to 0."""
    ends = [(mpf(2) ** (i // 4) * (1 + mpf(i % 4) / 4) - 1) / mpf(scale) for i in range(17)]
    pieces = [piece(f, ends[i], min(ends[i + 1], mpf(last) * mpf('1.001')), odd and i < 2) for i in range(16)]
    print('/* %s: error 2^%s */' % (name, mp.nstr(log(max(worst for _, worst in pieces), 2), 5)))
    first = (127 << 2) % 16
    for row in range(8):
        print('{%s},' % ', '.join(short(pieces[(i - first) % 16][0][row]) for i in range(16)))


PIECES = {
    # name: (function, scale, last, odd)
    'tanh_pieces': (tanh, '1.65', '9.02', True),
    'erf_pieces': (erf, '3.75', '3.97', True),
    'tail_pieces': (tail, '1.03', '14.4', False),
    'slope_pieces': (gelu_slope, '0.83', '14.6', False),
}


def main():
    for name in sys.argv[1:] or [*TABLES, *PIECES]:
        if name in PIECES:
            print_pieces(name, *PIECES[name])
            continue
        function, weight, low, high, degree = TABLES[name]
        worst, c = remez(function, weight, low, high, degree)
        print('/* %s: degree %d on [%s, %s], error 2^%s */' %
              (name, degree, mp.nstr(mpf(low), 6), mp.nstr(mpf(high), 6), mp.nstr(log(worst, 2), 5)))
        if name in ZEROS:
            first = float(ZEROS[name])
            print('/* zero at %s + %s */' % (first.hex(), float(ZEROS[name] - first).hex()))
        print('#define %s(X) %s' % (name, ', '.join('X(%s)' % float(x).hex() for x in c)))
        if name in WITH_LOW:
            print('/* the low parts of the first two: %s, %s */' % tuple(float(x - float(x)).hex() for x in c[:2]))


main()
