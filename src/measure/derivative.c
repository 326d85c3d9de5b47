/*
 * The derivative is estimated by differences over ever smaller steps h. The truncation error falls with h:
 * h^2 F'''/6 for a central difference, h F''/2 for a one-sided one. The error of F's rounding grows as 1/h. The chosen
 * step is the one whose difference changed least from the step before, where the rounding error counts as change too.
 *
 *   kink   the one-sided derivatives settle on clearly different values
 *   bend   the one-sided derivatives approach each other as h shrinks
 *   jump   the one-sided derivatives never settle
 *
 * Invariant: the judged derivative decides whether more than the first step is evaluated.
 * If so, the chosen step and the verdict `kink` do not depend on it.
 * Tests: tests/unit/test_derivative.c
 */
#include "measure/derivative.h"

#include <float.h>
#include <math.h>

enum { STEPS = 7, SHRINK = 8, CLEAR_GAP = 10 };

/* F at both ends of a step about a point, and the difference quotients. */
struct derivative_step {
	double low, high, down, up;
	double central, left, right;
	double noise; /* bound on the error in a quotient if F's values are rounded once */
};

static enum status evaluate_step(derivative_function *f, void *context, double x, double h,
                                 struct derivative_step *step)
{
	volatile double high = x + h, low = x - h;
	*step = (struct derivative_step){.low = low, .high = high};
	TRY(f(context, high, &step->up));
	TRY(f(context, low, &step->down));
	step->central = (step->up - step->down) / (high - low);
	step->noise = DBL_EPSILON * fmax(fabs(step->up), fabs(step->down)) / h;
	return STATUS_OK;
}

/* Returns HAVE's error against WANT, relative to the largest of both and of max(1, |VALUE|) / 1000. VALUE is F's. */
static double error_of(double want, double have, double value)
{
	const double scale = fmax(fmax(fabs(want), fabs(have)), 1e-3 * fmax(1, fabs(value)));
	return fabs(want - have) / (scale > 0 ? scale : 1);
}

static double gap(const struct derivative_step *step) { return fabs(step->right - step->left); }

/* Returns the change of QUOTIENT from BEFORE, its value at the last step, plus the rounding error that may hide it. */
static double change(double quotient, double before, const struct derivative_step *step)
{
	return fabs(quotient - before) + step->noise;
}

static double side_change(const struct derivative_step *step)
{
	return fmax(change(step->left, step[-1].left, step), change(step->right, step[-1].right, step));
}

/* Returns the step after FIRST whose central difference has changed least; FIRST if there is none. */
static int settled(const struct derivative_step *steps, int first)
{
	int best = first;
	double least = INFINITY;
	for (int k = first + 1; k < STEPS; k++) {
		const double changed = change(steps[k].central, steps[k - 1].central, &steps[k]);
		if (changed < least) {
			least = changed;
			best = k;
		}
	}
	return best;
}

/*
 * Returns the step at which the one-sided quotients changed least. Returns -1 unless they differ there by more than
 * CLEAR_GAP times that change, and relatively by more than MOST. If smaller steps close that gap, the kink lies beside
 * the point: returns -1 and sets *BESIDE to the first step that closes half of the gap.
 */
static int find_kink(const struct derivative_step *steps, double most, int *beside)
{
	int best = 1;
	for (int k = 2; k < STEPS; k++)
		if (side_change(&steps[k]) < side_change(&steps[best]))
			best = k;
	const struct derivative_step *at = &steps[best];
	if (!(gap(at) > CLEAR_GAP * side_change(at) && error_of(at->left, at->right, at->up) > most))
		return -1;
	for (int k = best + 1; k < STEPS; k++)
		if (gap(&steps[k]) + steps[k].noise < gap(at) / 2) {
			*beside = k;
			return -1;
		}
	return best;
}

enum status derivative_judge(derivative_function *f, void *context, double x, double have, double most,
                             struct slope *slope)
{
	struct derivative_step steps[STEPS];
	double h = 6e-6 * fmax(1, fabs(x)), middle = 0;
	TRY(evaluate_step(f, context, x, h, &steps[0]));
	*slope = (struct slope){.want = steps[0].central, .error = error_of(steps[0].central, have, steps[0].up)};
	if (!(slope->error > most))
		return STATUS_OK;
	TRY(f(context, x, &middle));
	for (int k = 0; k < STEPS; k++) {
		if (k > 0)
			TRY(evaluate_step(f, context, x, h /= SHRINK, &steps[k]));
		steps[k].left = (middle - steps[k].down) / (x - steps[k].low);
		steps[k].right = (steps[k].up - middle) / (steps[k].high - x);
	}
	int beside = 0;
	const int kink = find_kink(steps, most, &beside);
	const struct derivative_step *at = &steps[kink >= 0 ? kink : settled(steps, beside)];
	slope->want = at->central;
	if (kink >= 0) {
		slope->kink = true;
		slope->left = at->left;
		slope->right = at->right;
		slope->want = fmin(fmax(have, fmin(at->left, at->right)), fmax(at->left, at->right));
	}
	slope->error = error_of(slope->want, have, at->up);
	return STATUS_OK;
}
