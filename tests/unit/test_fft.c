/*
 * Transforms of lines of many lengths, on every instruction set and in both types, against sums in long double. The bits of a
 * line depend neither on the lines beside it, nor on where they lie, nor on the instruction set.
 */
#include "ops/general.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/fft.h"
#include "samples.h"
#include "suite.h"

/* Every way, radix and edge of a block: primes, their products, powers, and lengths around the longest direct one. */
static const int lengths[] = {1,   2,   3,   4,   5,   6,   7,   8,   9,   11,  12,   13,   15,   16,  17,  19,
                              21,  23,  25,  27,  29,  31,  32,  35,  37,  41,  53,   64,   77,   81,  96,  100,
                              101, 120, 125, 127, 128, 129, 130, 132, 135, 143, 144,  169,  202,  211, 243, 256,
                              289, 307, 343, 480, 512, 625, 720, 841, 961, 997, 1000, 1024, 1155, 1331};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LONGEST = 1331 };

/* Returns the norm of the error of the transform Y of X, both N pairs, over its own norm. */
static double error_of(const struct type *type, const void *y, const void *x, int n, bool back)
{
	static long double roots[LONGEST][2];
	const long double turn = 2 * 3.14159265358979323846264338327950288L / n;
	long double error = 0, norm = 0;
	for (int k = 0; k < n; k++) {
		roots[k][0] = cosl(turn * k);
		roots[k][1] = back ? sinl(turn * k) : -sinl(turn * k);
	}
	for (int k = 0; k < n; k++) {
		long double re = 0, im = 0;
		for (int j = 0; j < n; j++) {
			const long double *const w = roots[(int64_t)j * k % n];
			const long double a = get(type, x, 2 * (size_t)j), b = get(type, x, 2 * (size_t)j + 1);
			re += a * w[0] - b * w[1];
			im += a * w[1] + b * w[0];
		}
		const long double by = back ? 1 / (long double)n : 1;
		const long double d_re = get(type, y, 2 * (size_t)k) - re * by,
						  d_im = get(type, y, 2 * (size_t)k + 1) - im * by;
		error += d_re * d_re + d_im * d_im;
		norm += (re * re + im * im) * by * by;
	}
	return (double)sqrtl(error / norm);
}

static void fill(const struct type *type, void *array, uint64_t seed)
{
	for (size_t i = 0; i < count_of(type); i++)
		set(type, array, i, noise(&seed));
}

START_TEST(lines_are_sums)
{
	const int n = lengths[_i];
	for (int back = 0; back < 2; back++)
		for (int wide_type = 0; wide_type < 2; wide_type++) {
			const struct sample sample = {back ? "ifft" : "fft", SHAPE(2, n, 2), SHAPE0};
			const struct kernels *tables[4];
			const size_t count = kernels_all(wide_type ? DTYPE_F64 : DTYPE_F32, tables);
			const double unit = wide_type ? 0x1p-53 : 0x1p-24;
			struct setup s;
			ck_assert(begin(&s, &sample, tables[0]));
			void *const x = block_of(&s.v), *const y = block_of(&s.y), *const other = block_of(&s.y);
			fill(&s.v, x, 5);
			forward(&s, y, x, NULL, NULL);
			const double error = error_of(&s.v, y, x, n, back);
			/* a convolution has three transforms of more than twice the length */
			ck_assert_msg(error <= unit * (3 + log2(n)), "%s of %d: %g units", sample.text, n, error / unit);
			for (size_t k = 1; k < count; k++) {
				s.kernels = tables[k];
				forward(&s, other, x, NULL, NULL);
				ck_assert_msg(!memcmp(y, other, (size_t)type_bytes(&s.y)), "%s of %d: %s", sample.text, n,
				              tables[k]->isa);
			}
			free(x);
			free(y);
			free(other);
			arena_free(&s.arena);
		}
}
END_TEST

/* Runs TEXT, the derivative of an op if DERIVATIVE, on SHAPE. Returns what it makes of FROM, which *TYPE describes. */
static void *run(const char *text, struct shape shape, const void *from, bool derivative, struct type *type)
{
	const struct sample sample = {text, shape, SHAPE0};
	struct setup s;
	ck_assert(begin(&s, &sample, kernels_get(DTYPE_F32)));
	*type = derivative ? s.v : s.y;
	void *const to = block_of(type);
	if (derivative)
		vjp(&s, to, NULL, from, NULL, NULL, NULL, NULL);
	else
		forward(&s, to, from, NULL, NULL);
	arena_free(&s.arena);
	return to;
}

/* Compares lines of COUNT, LINES by LINES beside each other, with each alone. UNITS: elements of a number, before and after. */
static void check_lines(const char *text, int numbers, const int units[2], bool derivative)
{
	enum { OUTER = 3, INNER = 7 };
	char there[64];
	struct type type, one;
	struct shape many = {3, {OUTER, numbers, INNER}}, alone = {1, {numbers}};
	if (units[derivative] == 2)
		many.dim[many.ndim++] = alone.dim[alone.ndim++] = 2;
	snprintf(there, sizeof there, "%s axis=1", text);
	const struct sample sample = {there, many, SHAPE0};
	struct setup s;
	ck_assert(begin(&s, &sample, kernels_get(DTYPE_F32)));
	const struct type *const from_type = derivative ? &s.y : &s.v;
	float *const from = block_of(from_type);
	fill(from_type, from, 9);
	float *const all = run(there, many, from, derivative, &type);
	const int64_t before = from_type->shape.dim[1], after = type.shape.dim[1];
	float *const line = malloc((size_t)before * 2 * sizeof *line);
	ck_assert_ptr_nonnull(line);
	for (int o = 0; o < OUTER; o++)
		for (int i = 0; i < INNER; i++) {
			for (int64_t j = 0; j < before; j++)
				memcpy(line + j * units[0], from + ((o * before + j) * INNER + i) * units[0],
				       (size_t)units[0] * sizeof *line);
			float *const got = run(text, alone, line, derivative, &one);
			for (int64_t j = 0; j < after; j++)
				ck_assert_msg(!memcmp(got + j * units[1], all + ((o * after + j) * INNER + i) * units[1],
				                      (size_t)units[1] * sizeof *got),
				              "%s of %d: line %d, %d, number %lld", text, numbers, o, i, (long long)j);
			free(got);
		}
	free(line);
	free(from);
	free(all);
	arena_free(&s.arena);
}

START_TEST(lines_are_alone)
{
	static const int pairs[] = {2, 2}, to_pairs[] = {1, 2}, from_pairs[] = {2, 1};
	static const int some[] = {1, 2, 5, 16, 37, 74, 128, 135, 270, 288, 297, 331, 576};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		for (int derivative = 0; derivative < 2; derivative++) {
			check_lines("fft", some[i], pairs, derivative);
			check_lines("rfft", some[i], derivative ? from_pairs : to_pairs, derivative);
			check_lines("irfft n=5", some[i], derivative ? to_pairs : from_pairs, derivative);
			if (some[i] > 1)
				check_lines("irfft", some[i], derivative ? to_pairs : from_pairs, derivative);
			check_lines("irfft n=270", some[i], derivative ? to_pairs : from_pairs, derivative);
		}
}
END_TEST

/* The longest lines: sizes do not overflow. A plan's parts multiply to its length. */
START_TEST(plans_of_long_lines)
{
	static const int64_t some[] = {FFT_MOST, FFT_MOST - 1, 999999937, 1 << 20, 387420489};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		const struct fft_plan plan = fft_plan_of(DTYPE_F64, some[i], i % 2 == 0);
		ck_assert_int_eq(plan.part[0] * plan.part[1], plan.length);
		ck_assert_int_ge(plan.length, plan.way == FFT_CHIRP ? 2 * plan.n - 1 : plan.n);
		ck_assert_int_gt(plan.prepared_end, 0);
		ck_assert_int_gt(plan.memory, plan.length);
		ck_assert_int_lt(plan.prepared_end + plan.memory, 64 * some[i]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fft");
	TCase *tests = suite_make_case(suite, "lines");
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, lines_are_sums, 0, LENGTHS);
	tcase_add_test(tests, lines_are_alone);
	tcase_add_test(tests, plans_of_long_lines);
	return suite_run(suite);
}
