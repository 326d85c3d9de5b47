/* Judges derivatives by differences, on functions whose derivatives on both sides are known: on kinks, beside kinks, and without kinks. */
#include "measure/derivative.h"

#include <math.h>
#include <stdlib.h>

#include "suite.h"

static const double MOST = 2e-5;

/* base + a (x - c) + b |x - c| + d (x - c)^2 */
struct bent {
	double base, a, b, c, d;
	int left; /* calls until it fails, where not negative */
};

static enum status bent_at(void *context, double x, double *value)
{
	struct bent *f = context;
	const double u = x - f->c;
	if (f->left-- == 0)
		return STATUS_LIMIT;
	*value = f->base + f->a * u + f->b * fabs(u) + f->d * u * u;
	return STATUS_OK;
}

static struct slope judge(derivative_function *value, void *context, double x, double have)
{
	struct slope slope;
	ck_assert_int_eq(derivative_judge(value, context, x, have, MOST, &slope), STATUS_OK);
	return slope;
}

/* The formula accepts derivatives from LOW to HIGH. The judge must too, and must refuse those that are off by a tenth. */
static void expect_between(struct bent *f, double x, double low, double high, bool kink)
{
	const double middle = (low + high) / 2,
				 wrong[] = {low - 0.1, high + 0.1, -low - high - 1, 2 * high + 1, 0.5 * low - 1};
	for (int i = 0; i <= 4; i++) {
		const double have = low + (high - low) * i / 4;
		const struct slope slope = judge(bent_at, f, x, have);
		ck_assert_msg(slope.error <= MOST, "%g at %g: %g, error %g", have, x, slope.want, slope.error);
		ck_assert(slope.kink == (kink && fabs(have - middle) > 1e-3));
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (wrong[i] > low - 0.09 && wrong[i] < high + 0.09)
			continue;
		const struct slope slope = judge(bent_at, f, x, wrong[i]);
		ck_assert_msg(slope.error > 1e-3, "%g at %g: %g, error %g", wrong[i], x, slope.want, slope.error);
		ck_assert(slope.kink == kink);
	}
}

static double any(void) { return (double)(rand() % 2001 - 1000) / 250; }

START_TEST(on_kinks)
{
	for (int i = 0; i < 2000; i++) {
		struct bent f = {.base = i % 3 * 100, .a = any(), .b = any(), .c = i % 2 ? any() : 0, .d = any(), .left = -1};
		const double low = f.a - fabs(f.b), high = f.a + fabs(f.b);
		if (fabs(f.b) < 0.05)
			continue;
		expect_between(&f, f.c, low, high, true);
		const struct slope slope = judge(bent_at, &f, f.c, high);
		ck_assert(fabs(slope.left - (f.a - f.b)) < 1e-3 && fabs(slope.right - (f.a + f.b)) < 1e-3);
	}
}
END_TEST

/* Beside a kink there is one derivative, as on a smooth curve. Differences resolve no distance below 3e-11. */
START_TEST(beside_kinks)
{
	for (int i = 0; i < 2000; i++) {
		struct bent f = {.a = any(), .b = any(), .d = any(), .left = -1};
		const double off = pow(10, -1 - i % 10) * (i & 16 ? 1 : -1) * (1 + i % 7);
		const double slope = f.a + (off > 0 ? f.b : -f.b) + 2 * f.d * off;
		if (fabs(f.b) > 0.05)
			expect_between(&f, off, slope, slope, false);
	}
}
END_TEST

static enum status jump_at(void *context, double x, double *value)
{
	*value = (x < 0 ? 0 : *(const double *)context) + 3 * x;
	return STATUS_OK;
}

static enum status wave_at(void *context, double x, double *value)
{
	*value = sin(*(const double *)context * x);
	return STATUS_OK;
}

static enum status root_at(void *context, double x, double *value)
{
	*value = sqrt(fabs(x)) + *(const double *)context * x;
	return STATUS_OK;
}

START_TEST(what_is_no_kink)
{
	for (double size = 1e-3; size < 1e4; size *= 10) {
		const double slopes[] = {0, 1, 3, 4, size, -1};
		for (size_t i = 0; i < sizeof slopes / sizeof *slopes; i++) {
			struct slope slope = judge(jump_at, &size, 0, slopes[i]);
			ck_assert(!slope.kink && slope.error > MOST);
			const double right = size * cos(size * 0.7);
			slope = judge(wave_at, &size, 0.7, right + slopes[i] * size);
			ck_assert(!slope.kink && (slope.error <= MOST) == (slopes[i] == 0));
			slope = judge(root_at, &size, 0, size + slopes[i] * slopes[i] + 1);
			ck_assert(!slope.kink && slope.error > MOST);
		}
	}
}
END_TEST

static enum status half_at(void *context, double x, double *value)
{
	(void)context;
	*value = sqrt(x);
	return STATUS_OK;
}

START_TEST(no_numbers)
{
	struct bent f = {.b = 1, .left = -1};
	ck_assert(isnan(judge(half_at, NULL, 0, INFINITY).error));
	ck_assert(isnan(judge(bent_at, &f, 0, NAN).error));
	ck_assert(!(judge(bent_at, &f, 0, INFINITY).error <= MOST));
}
END_TEST

START_TEST(failures_are_passed_on)
{
	for (int left = 0; left < 15; left++) {
		struct bent f = {.b = 1, .left = left};
		struct slope slope;
		ck_assert_int_eq(derivative_judge(bent_at, &f, 0, 1, MOST, &slope), STATUS_LIMIT);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("slope");
	TCase *tcase = suite_make_case(suite, "slope");
	tcase_add_test(tcase, on_kinks);
	tcase_add_test(tcase, beside_kinks);
	tcase_add_test(tcase, what_is_no_kink);
	tcase_add_test(tcase, no_numbers);
	tcase_add_test(tcase, failures_are_passed_on);
	return suite_run(suite);
}
