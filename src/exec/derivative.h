/*
 * Whether a slope is the derivative of a function of which only values are known:
 * by central differences, over smaller steps where they disagree; on a kink by
 * the slopes of both sides.
 */
#ifndef EXEC_DERIVATIVE_H
#define EXEC_DERIVATIVE_H

#include "base/status.h"

#include <stdbool.h>

/* A function of one variable, which may fail. */
struct derivative_function {
	enum status (*value)(void *context, double x, double *value);
	void *context;
};

struct slope {
	double want;        /* the derivative; on a kink, of all between the sides' slopes the nearest to that judged */
	double error;       /* of the slope judged against it, relative to the largest of both and of the value / 1000 */
	bool kink;          /* the sides' slopes differ, however small the step */
	double left, right; /* where they do: what they are */
};

/* Judges HAVE as FUNCTION's slope at X. An error of at most MOST is none: it is not looked at more closely. */
enum status derivative_judge(const struct derivative_function *function, double x, double have, double most,
                             struct slope *slope);

#endif
