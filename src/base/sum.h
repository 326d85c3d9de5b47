/* Compensated sums of doubles. */
#ifndef BASE_SUM_H
#define BASE_SUM_H

#include <math.h>

/*
 * Adds X + X_LO to the sum *HI + *LO (Neumaier 1974): *LO collects what the additions to
 * *HI round away. Where *HI becomes infinite or NaN, *LO stays as it was.
 */
static inline void sum_add(double *hi, double *lo, double x, double x_lo)
{
	const double sum = *hi + x;
	const double error = fabs(*hi) >= fabs(x) ? (*hi - sum) + x : (x - sum) + *hi;
	*lo += isfinite(sum) ? error + x_lo : 0;
	*hi = sum;
}

#endif
