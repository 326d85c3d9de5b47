/* Integer arithmetic for sizes that come from input, orders, and compensated sums. checked_* return false on overflow. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(size_t a, size_t b, size_t *sum) { return !__builtin_add_overflow(a, b, sum); }
static inline bool checked_mul(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }
/* Returns the least multiple of UNIT that is at least SIZE. SIZE is not negative; SIZE + UNIT must not overflow. */
static inline int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }
static inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
/* Returns A / B, rounded up. A is not negative, and B is positive. */
static inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
/* Returns A + B, or INT64_MAX on overflow. A and B are not negative. */
static inline int64_t saturated_add(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }
static inline int64_t saturated(__int128 value) { return value > INT64_MAX ? INT64_MAX : (int64_t)value; }
static inline bool checked_mul_i64(int64_t a, int64_t b, int64_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

/* For qsort and bsearch: the order of two uint32_t, and that of two doubles. */
static inline int compare_indices(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}
static inline int compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/*
 * Adds X + X_LO to the sum *HI + *LO (Neumaier 1974): *LO collects X_LO and the rounding errors of the additions to
 * *HI. If *HI becomes infinite or NaN, *LO does not change.
 */
static inline void sum_add(double *hi, double *lo, double x, double x_lo)
{
	const double sum = *hi + x;
	const double error = fabs(*hi) >= fabs(x) ? (*hi - sum) + x : (x - sum) + *hi;
	*lo += isfinite(sum) ? error + x_lo : 0;
	*hi = sum;
}

/*
 * Returns (HI + LO) / DIVISOR, with an error of half a last place and some 2^-50 of one. So the mean of equal numbers is
 * that number. The error of the first quotient is exact (Dekker 1971) where the quotient is normal.
 */
static inline double sum_quotient(double hi, double lo, double divisor)
{
	if (divisor == 1 || lo == 0 || !isfinite(hi))
		return (hi + lo) / divisor;
	double sum = hi, rest = 0;
	sum_add(&sum, &rest, lo, 0);
	const double quotient = sum / divisor;
	return quotient + (fma(-quotient, divisor, sum) + rest) / divisor;
}

#endif
