/* How figures grow with depth: a power, none, or not at all. */
#include "report/profile.h"

#include "suite.h"

#include <math.h>

enum { MOST = 6 };

START_TEST(growth)
{
	static const struct {
		size_t count;
		double steps[MOST], figures[MOST], power; /* NAN: no power fits */
		bool known;                               /* there are enough depths */
	} rows[] = {
		{4, {16, 32, 48, 64}, {5, 10, 15, 20}, 1, true},
		{4, {16, 32, 64, 128}, {1, 4, 16, 64}, 2, true},
		{4, {16, 32, 64, 128}, {8, 4, 2, 1}, -1, true},
		{4, {16, 32, 48, 64}, {7, 7, 7, 7}, 0, true},
		/* noise: the power would be -0.07 with a good fit, and without one */
		{4, {16, 32, 48, 64}, {1.1, 1.05, 1.02, 1}, 0, true},
		{4, {16, 32, 48, 64}, {1, 1.15, 0.98, 1.1}, 0, true},
		{4, {16, 32, 48, 64}, {3, 1, 9, 2}, (double)NAN, true},
		/* depths that are near each other do not tell that a figure stays */
		{4, {16, 17, 18, 19}, {16, 17, 18, 19}, 1, true},
		/* figures that are 0 or unknown do not count */
		{4, {16, 32, 64, 128}, {2, (double)NAN, 8, 16}, 1, true},
		{3, {16, 32, 64}, {0, 0, 0}, (double)NAN, false},
		{3, {16, 16, 16}, {1, 2, 3}, (double)NAN, false},
		{2, {16, 32}, {1, 2}, (double)NAN, false},
		{0, {0}, {0}, (double)NAN, false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct profile_growth g = profile_fit("time", rows[i].steps, rows[i].figures, rows[i].count);
		ck_assert_msg(isnan(g.power) == isnan(rows[i].power), "row %zu: power %g", i, g.power);
		ck_assert_msg(isnan(rows[i].power) || fabs(g.power - rows[i].power) < 1e-9, "row %zu: power %g", i, g.power);
		ck_assert_msg(isnan(g.r2) != rows[i].known, "row %zu: R2 %g", i, g.r2);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("profile");
	TCase *tcase = suite_make_case(suite, "profile");
	tcase_add_test(tcase, growth);
	return suite_run(suite);
}
