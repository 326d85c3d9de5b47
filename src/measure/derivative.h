/*
 * Checks a derivative against values of the function. Central differences give the reference; smaller steps follow if
 * they disagree. At a kink, any value between the one-sided derivatives is right.
 */
#ifndef MEASURE_DERIVATIVE_H
#define MEASURE_DERIVATIVE_H

#include "base/diag.h"

#include <stdbool.h>

/* A function of one variable, which may fail. */
typedef enum status derivative_function(void *context, double x, double *value);

struct slope {
	double want;        /* the derivative; at a kink, the value nearest to HAVE between LEFT and RIGHT */
	double error;       /* |want - have|, relative to the largest of both and of max(1, |F|) / 1000 */
	bool kink;          /* the one-sided derivatives differ; false if the first step ends the check */
	double left, right; /* the one-sided derivatives at a kink; else 0 */
};

/* Checks HAVE as F's derivative at X. An error of at most MOST at the first step ends the check. Fails as F does. */
enum status derivative_judge(derivative_function *f, void *context, double x, double have, double most,
                             struct slope *slope);

#endif
