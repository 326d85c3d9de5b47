/*
 * Differences over ever smaller steps. What one is off by falls with the step (as
 * h^2 F'''/6 where it is central, as h F''/2 to one side) until F's rounding, which
 * grows as 1/h, exceeds it: of all steps that is taken at which the difference, and
 * what rounding may make of it, has changed least. On a kink the two sides settle on
 * slopes that are clearly apart; on a bend they close in as the steps do, and on a
 * jump they never settle.
 *
 * Invariant: which step is taken, and whether the point is a kink, does not depend on
 * the slope that is judged, but for whether more than the first step is looked at.
 */
#include "exec/derivative.h"

#include <float.h>
#include <math.h>

enum { STEPS = 7, SHRINK = 8, CLEARLY = 10 };

/* A function F at both ends of a step about a point, and the slopes that its differences are. */
struct derivative_step {
	double low, high, down, up;
	double central, left, right;
	double noise; /* what F's rounding may make of a slope */
};

static enum status take_step(const struct derivative_function *f, double x, double h, struct derivative_step *step)
{
	volatile double high = x + h, low = x - h;
	*step = (struct derivative_step){.low = low, .high = high};
	enum status status = f->value(f->context, high, &step->up);
	if (!status)
		status = f->value(f->context, low, &step->down);
	step->central = (step->up - step->down) / (high - low);
	step->noise = DBL_EPSILON * fmax(fabs(step->up), fabs(step->down)) / h;
	return status;
}

/* MIDDLE is F(X). */
static void take_sides(struct derivative_step *step, double x, double middle)
{
	step->left = (middle - step->down) / (x - step->low);
	step->right = (step->up - middle) / (step->high - x);
}

/* How far HAVE is from the derivative WANT of a function whose value there is VALUE, relative to the largest of them. */
static double error_of(double want, double have, double value)
{
	const double scale = fmax(fmax(fabs(want), fabs(have)), 1e-3 * fmax(1, fabs(value)));
	return fabs(want - have) / (scale > 0 ? scale : 1);
}

static double gap(const struct derivative_step *step) { return fabs(step->right - step->left); }

/* By how much a slope has changed since the step before, with what rounding may have hidden of that. */
static double change(double slope, double before, const struct derivative_step *step)
{
	return fabs(slope - before) + step->noise;
}

static double side_change(const struct derivative_step *step)
{
	return fmax(change(step->left, step[-1].left, step), change(step->right, step[-1].right, step));
}

/* The step from FIRST on whose central difference has changed least. */
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
 * The step at which the sides have settled on slopes that are apart by more than they may be off: on a kink, and else
 * -1. Where smaller steps close that gap the kink lies beside the point: *BESIDE is the first that has closed half
 * of it.
 */
static int find_kink(const struct derivative_step *steps, double most, int *beside)
{
	int best = 1;
	for (int k = 2; k < STEPS; k++)
		if (side_change(&steps[k]) < side_change(&steps[best]))
			best = k;
	const struct derivative_step *at = &steps[best];
	if (!(gap(at) > CLEARLY * side_change(at) && error_of(at->left, at->right, at->up) > most))
		return -1;
	for (int k = best + 1; k < STEPS; k++)
		if (gap(&steps[k]) + steps[k].noise < gap(at) / 2) {
			*beside = k;
			return -1;
		}
	return best;
}

enum status derivative_judge(const struct derivative_function *function, double x, double have, double most,
                             struct slope *slope)
{
	struct derivative_step steps[STEPS];
	double h = 6e-6 * fmax(1, fabs(x)), middle = 0;
	enum status status = take_step(function, x, h, &steps[0]);
	if (status)
		return status;
	*slope = (struct slope){.want = steps[0].central, .error = error_of(steps[0].central, have, steps[0].up)};
	if (!(slope->error > most))
		return STATUS_OK;
	status = function->value(function->context, x, &middle);
	for (int k = 1; k < STEPS && !status; k++)
		status = take_step(function, x, h /= SHRINK, &steps[k]);
	if (status)
		return status;
	for (int k = 0; k < STEPS; k++)
		take_sides(&steps[k], x, middle);
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
