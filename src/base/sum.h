/* Sums of doubles in two parts. */
#ifndef BASE_SUM_H
#define BASE_SUM_H

#include <math.h>

/*
 * Adds X to the sum *HI, and what that rounds away, with X_LO, to *LO (Neumaier 1974):
 * the sum is *HI + *LO, but where *HI is not finite, when *LO stays as it was.
 */
static inline void sum_add(double *hi, double *lo, double x, double x_lo)
{
	const double sum = *hi + x;
	const double error = fabs(*hi) >= fabs(x) ? (*hi - sum) + x : (x - sum) + *hi;
	*lo += isfinite(sum) ? error + x_lo : 0;
	*hi = sum;
}

#endif
