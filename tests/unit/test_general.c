/*
 * The general operations. Every row of ops.def is differentiated against central
 * differences in double, on every instruction set; forward results are compared
 * with NumPy's, torch's and JAX's in tests/golden/ops/general.txt, stencils.txt and windows.txt (made by
 * tests/golden/make_ops.py, make_stencils.py and make_windows.py). Tiles, empty arrays and broadcasting have tests of
 * their own. Each array is a block of exactly its size, so that a sanitizer sees an
 * access beyond its end.
 */
#include "ops/general.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "ops/lines.h"
#include "samples.h"
#include "suite.h"

struct arrays {
	void *v, *a, *y, *k, *g, *dv, *da;
};

/* Returns element I of an array of noise or, if they are INDICES, an index of an axis of 4 or a class. */
static double element(const struct setup *s, bool indices, size_t i, uint64_t *seed)
{
	const double drawn = noise(seed);
	return !indices ? drawn : op_has_classes(s->op) ? (double)(i % 4) : floor(4 * drawn);
}

/* Adds to the diagonals of square matrices, so that they have inverses and factors. */
static void widen_diagonals(const struct type *type, void *array)
{
	const size_t n = type->shape.ndim > 1 ? (size_t)type->shape.dim[type->shape.ndim - 1] : 0;
	for (size_t i = 0; i < count_of(type); i++)
		if (i / n % n == i % n)
			set(type, array, i, get(type, array, i) + 4);
}

static struct arrays arrays_of(const struct setup *s, uint64_t seed)
{
	struct arrays x = {block_of(&s->v), block_of(&s->a), block_of(&s->y), block_of(&s->k),
	                   block_of(&s->y), block_of(&s->v), block_of(&s->a)};
	for (size_t i = 0; i < count_of(&s->v); i++)
		set(&s->v, x.v, i, element(s, op_indices(s->op) == NEED_V, i, &seed));
	for (size_t i = 0; i < count_of(&s->a); i++)
		set(&s->a, x.a, i, element(s, op_indices(s->op) == NEED_A, i, &seed));
	for (size_t i = 0; i < count_of(&s->y); i++)
		set(&s->y, x.g, i, noise(&seed));
	if (op_libraries(s->op) & LIBRARY_LAPACK && !op_is_tridiagonal(s->op))
		widen_diagonals(s->op == OP_solve ? &s->a : &s->v, s->op == OP_solve ? x.a : x.v);
	return x;
}

static void arrays_free(struct arrays *x)
{
	void *all[] = {x->v, x->a, x->y, x->k, x->g, x->dv, x->da};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

/* ---- derivatives ---- */

/* <g, f(v, a)> with element I of X moved by STEP. */
static long double moved(const struct setup *s, const struct arrays *x, void *moving, size_t i, double step)
{
	double *at = (double *)moving + i, old = *at;
	long double sum = 0;
	double *y = block_of(&s->y);
	*at = old + step;
	forward(s, y, x->v, x->a, NULL);
	*at = old;
	for (size_t j = 0; j < count_of(&s->y); j++)
		sum += (long double)y[j] * ((double *)x->g)[j];
	free(y);
	return sum;
}

static void check_slopes(const struct setup *s, const struct arrays *x, const struct type *type, void *moving,
                         const double *slope, const char *text)
{
	const double step = 1e-5;
	for (size_t i = 0; i < count_of(type); i++) {
		double difference = (double)((moved(s, x, moving, i, step) - moved(s, x, moving, i, -step)) / (2 * step));
		ck_assert_msg(fabs(difference - slope[i]) <= 2e-7 * (1 + fabs(difference)),
		              "%s (%s): slope %zu is %.12g, not %.12g", text, s->kernels->isa, i, slope[i], difference);
		/* a large one is sampled */
		i += count_of(type) > 500 ? 97 : 0;
	}
}

static void check_sample(const struct sample *sample, uint64_t seed)
{
	const struct kernels *tables[4];
	size_t count = kernels_all(DTYPE_F64, tables);
	for (size_t k = 0; k < count; k++) {
		struct setup s;
		ck_assert_msg(begin(&s, sample, tables[k]), "%s", sample->text);
		struct arrays x = arrays_of(&s, seed);
		bool right = op_table[s.op].operand_differentiable;
		forward(&s, x.y, x.v, x.a, keeps(&s) ? x.k : NULL);
		vjp(&s, x.dv, right ? x.da : NULL, x.g, x.v, x.a, x.y, x.k);
		for (size_t i = 0; i < count_of(&s.v) && op_indices(s.op) == NEED_V; i++)
			ck_assert_msg(get(&s.v, x.dv, i) == 0, "%s", sample->text);
		if (op_indices(s.op) != NEED_V)
			check_slopes(&s, &x, &s.v, x.v, x.dv, sample->text);
		if (right) {
			check_slopes(&s, &x, &s.a, x.a, x.da, sample->text);
			/* each gradient alone is the same */
			double *alone = block_of(&s.v), *other = block_of(&s.a);
			vjp(&s, alone, NULL, x.g, x.v, x.a, x.y, x.k);
			vjp(&s, NULL, other, x.g, x.v, x.a, x.y, x.k);
			ck_assert_mem_eq(alone, x.dv, (size_t)type_bytes(&s.v));
			ck_assert_mem_eq(other, x.da, (size_t)type_bytes(&s.a));
			free(alone);
			free(other);
		}
		arrays_free(&x);
		arena_free(&s.arena);
	}
}

START_TEST(test_slopes) { check_sample(&samples[_i], 5 + (uint64_t)_i); }
END_TEST

START_TEST(test_slopes_of_blas)
{
	struct arena arena;
	if (load_blas(&arena))
		for (int i = 0; i < SAMPLES; i++)
			if (op_table[op_named(samples[i].text)].flops == 2 && op_table[op_named(samples[i].text)].operands)
				check_sample(&samples[i], 5);
	arena_free(&arena);
}
END_TEST

START_TEST(test_all_rows_have_samples)
{
	for (int op = 0; op < OP_COUNT; op++) {
		bool found = op_table[op].class != OP_CLASS_GENERAL;
		size_t length = strlen(op_table[op].name);
		for (int i = 0; i < SAMPLES; i++)
			found |= !strncmp(samples[i].text, op_table[op].name, length) && strchr(" ", samples[i].text[length]);
		ck_assert_msg(found, "'%s' has no sample in this test: add one", op_table[op].name);
		ck_assert_int_eq(op_table[op].class == OP_CLASS_GENERAL, op_forward_get((enum op)op) != NULL);
		ck_assert_int_eq(op_table[op].class == OP_CLASS_GENERAL, op_vjp_get((enum op)op) != NULL);
	}
}
END_TEST

static bool is_product(enum op op) { return op_is_product(op); }

enum agreement { SAME, NEAR, ANY };

/*
 * All sets have the bits of the first table, except for products and for exp, which differ
 * by a few ulp. The portable set has the C library's exp of doubles. Sets without FMA compute
 * that of floats in double lanes.
 */
static enum agreement agreement_of(enum op op, enum dtype dtype, const char *isa)
{
	if (is_product(op) || op == OP_attention)
		return ANY;
	if (!strstr("softmax logsumexp log_softmax cross_entropy", op_table[op].name))
		return SAME;
	return !strcmp(isa, "portable") || (dtype == DTYPE_F32 && !strcmp(isa, "baseline")) ? NEAR : SAME;
}

static bool agree(enum agreement agreement, const struct type *type, const void *x, const void *y)
{
	const double most = type->dtype == DTYPE_F64 ? 2e-15 : 1e-6;
	bool good = true;
	if (agreement == SAME)
		return !memcmp(x, y, (size_t)type_bytes(type));
	for (size_t i = 0; agreement == NEAR && i < count_of(type); i++)
		good &= fabs(get(type, x, i) - get(type, y, i)) <= most * (1 + fabs(get(type, x, i)));
	return good;
}

/* Every instruction set gives the same, with kept values or without. f32 is near f64. */
START_TEST(test_sets_agree)
{
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		size_t count = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
		struct setup s, t, d;
		if (type == 0 && !strncmp(samples[_i].text, "cast", 4))
			continue;
		begin(&s, &samples[_i], tables[0]);
		struct arrays x = arrays_of(&s, 11);
		forward(&s, x.y, x.v, x.a, x.k);
		vjp(&s, x.dv, op_table[s.op].operand_differentiable ? x.da : NULL, x.g, x.v, x.a, x.y, x.k);
		for (size_t k = 0; k < count; k++) {
			begin(&t, &samples[_i], tables[k]);
			struct arrays z = arrays_of(&t, 11);
			forward(&t, z.y, z.v, z.a, NULL);
			vjp(&t, z.dv, op_table[s.op].operand_differentiable ? z.da : NULL, x.g, x.v, x.a, x.y, x.k);
			const enum agreement agreement = agreement_of(s.op, type ? DTYPE_F64 : DTYPE_F32, tables[k]->isa);
			ck_assert_msg(agree(agreement, &s.y, x.y, z.y), "%s on %s", samples[_i].text, tables[k]->isa);
			ck_assert_msg(agree(agreement, &s.v, x.dv, z.dv), "slope of %s on %s", samples[_i].text, tables[k]->isa);
			arrays_free(&z);
			arena_free(&t.arena);
		}
		/* f32 against f64 */
		const struct kernels *doubles[4];
		kernels_all(DTYPE_F64, doubles);
		begin(&d, &samples[_i], doubles[0]);
		struct arrays w = arrays_of(&d, 11);
		for (size_t i = 0; i < count_of(&s.v); i++)
			set(&d.v, w.v, i, get(&s.v, x.v, i));
		for (size_t i = 0; i < count_of(&s.a); i++)
			set(&d.a, w.a, i, get(&s.a, x.a, i));
		for (size_t i = 0; i < count_of(&s.y); i++)
			set(&d.y, w.g, i, get(&s.y, x.g, i));
		forward(&d, w.y, w.v, w.a, w.k);
		vjp(&d, w.dv, op_table[s.op].operand_differentiable ? w.da : NULL, w.g, w.v, w.a, w.y, w.k);
		for (size_t i = 0; i < count_of(&s.y); i++)
			ck_assert_msg(fabs(get(&s.y, x.y, i) - get(&d.y, w.y, i)) <= 2e-5 * (1 + fabs(get(&d.y, w.y, i))),
			              "%s: %zu: %g %g", samples[_i].text, i, get(&s.y, x.y, i), get(&d.y, w.y, i));
		for (size_t i = 0; i < count_of(&s.v); i++)
			ck_assert_msg(fabs(get(&s.v, x.dv, i) - get(&d.v, w.dv, i)) <= 2e-5 * (1 + fabs(get(&d.v, w.dv, i))),
			              "slope of %s: %zu: %g %g", samples[_i].text, i, get(&s.v, x.dv, i), get(&d.v, w.dv, i));
		arrays_free(&w);
		arrays_free(&x);
		arena_free(&s.arena);
		arena_free(&d.arena);
	}
}
END_TEST

/* softmax of lines whose ends a mask hides has the bits of its steps on whole lines. So have lines with NaN and infinities. */
START_TEST(test_hidden_ends)
{
	enum { COUNT = 40, LONGEST = 300 };
	static const int extents[] = {1, 63, 64, 65, 128, LONGEST};
	for (int type = 0; type < 2; type++)
		for (size_t e = 0; e < sizeof extents / sizeof *extents; e++) {
			const struct kernels *tables[4];
			const size_t count = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables), n = (size_t)extents[e];
			for (size_t table = 0; table < count; table++) {
				const struct sample sample = {"softmax", SHAPE(2, COUNT, extents[e]), SHAPE0};
				const struct loops *loops = tables[table]->loops;
				struct setup s;
				double largest[COUNT], sum[COUNT];
				ck_assert(begin(&s, &sample, tables[table]));
				struct arrays x = arrays_of(&s, 3);
				for (size_t line = 0; line < COUNT; line++)
					for (size_t i = n * line / (COUNT - 1); i < n; i++)
						set(&s.v, x.v, line * n + i, -INFINITY);
				set(&s.v, x.v, 20 * n, NAN);
				set(&s.v, x.v, 21 * n, INFINITY);
				set(&s.v, x.v, 22 * n + n / 4, -INFINITY);
				set(&s.v, x.v, 23 * n + n - 1, NAN);
				forward(&s, x.y, x.v, x.a, NULL);
				void *want = malloc((size_t)type_bytes(&s.y));
				ck_assert_ptr_nonnull(want);
				loops->largest(largest, x.v, n, COUNT);
				loops->subtract(want, x.v, largest, n, COUNT);
				tables[table]->forward[OP_exp][0](&(struct kernel_args){.out = want, .v = want, .n = n * COUNT});
				loops->sum.values(sum, NULL, want, n, COUNT);
				loops->divide(want, want, sum, n, COUNT);
				ck_assert_msg(!memcmp(want, x.y, (size_t)type_bytes(&s.y)), "%zu in a line, %s", n, tables[table]->isa);
				free(want);
				arrays_free(&x);
				arena_free(&s.arena);
			}
		}
}
END_TEST

/* Sets one extent after another to 0, where the shapes still fit. No access is out of bounds, and gradients are written. */
START_TEST(test_empty)
{
	for (int type = 0; type < 2; type++)
		for (int axis = 0; axis < samples[_i].v.ndim + samples[_i].a.ndim; axis++)
			for (int both = 0; both < 2; both++) {
				struct sample empty = samples[_i];
				struct setup s;
				int other = empty.a.ndim - (empty.v.ndim - axis);
				if (axis < empty.v.ndim)
					empty.v.dim[axis] = 0;
				else
					empty.a.dim[axis - empty.v.ndim] = 0;
				/* the axis that goes with it */
				if (both && axis < empty.v.ndim && other >= 0)
					empty.a.dim[other] = 0;
				if (both && axis == empty.v.ndim - 1 && empty.a.ndim)
					empty.a.dim[empty.a.ndim == 1 ? 0 : empty.a.ndim - 2] = 0;
				if (!begin(&s, &empty, kernels_get(type ? DTYPE_F64 : DTYPE_F32)))
					continue;
				struct arrays x = arrays_of(&s, 3);
				/* a band's derivative has the result's shape */
				bool right = op_table[s.op].operand_differentiable && !op_is_tridiagonal(s.op);
				forward(&s, x.y, x.v, x.a, x.k);
				vjp(&s, x.dv, right ? x.da : NULL, x.g, x.v, x.a, x.y, x.k);
				for (size_t i = 0; i < count_of(&s.a) && right && !count_of(&s.y) && count_of(&s.v) == 0; i++)
					ck_assert_msg(get(&s.a, x.da, i) == 0, "%s", samples[_i].text);
				arrays_free(&x);
				arena_free(&s.arena);
			}
}
END_TEST

/*
 * Values and cotangents that are no numbers: every operation keeps to its arrays. The bytes beyond the derivative's are
 * looked at here, those beyond others by an instrumented build.
 */
START_TEST(test_no_numbers)
{
	static const double bad[] = {INFINITY, -INFINITY, NAN};
	for (int type = 0; type < 2; type++)
		for (size_t which = 0; which < 6; which++) {
			struct setup s;
			if (!begin(&s, &samples[_i], kernels_get(type ? DTYPE_F64 : DTYPE_F32)))
				continue;
			struct arrays x = arrays_of(&s, 3);
			const size_t bytes = (size_t)type_bytes(&s.v), guard = 4096;
			const struct type *of = which < 3 ? &s.y : &s.v;
			unsigned char *dv = malloc(bytes + guard);
			ck_assert_ptr_nonnull(dv);
			memset(dv, 0xa5, bytes + guard);
			for (size_t i = 0; i < count_of(of); i += 5)
				set(of, which < 3 ? x.g : x.v, i, bad[which % 3]);
			forward(&s, x.y, x.v, x.a, x.k);
			vjp(&s, dv, op_table[s.op].operand_differentiable ? x.da : NULL, x.g, x.v, x.a, x.y, x.k);
			for (size_t i = 0; i < guard; i++)
				ck_assert_msg(dv[bytes + i] == 0xa5, "%s: byte %zu beyond the derivative", samples[_i].text, i);
			free(dv);
			arrays_free(&x);
			arena_free(&s.arena);
		}
}
END_TEST

/* Beside an extent of 0 the others may be huge: no loop counts them. A gradient that has elements is zeros. */
START_TEST(test_empty_and_endless)
{
	const int64_t many = 300000000000;
	static const struct sample endless[] = {
		{"cumsum", SHAPE(2, 9, 0), SHAPE0},
		{"concat axis=1", SHAPE(2, 9, 0), SHAPE(2, 9, 0)},
		{"slice step=2", SHAPE(2, 9, 0), SHAPE0},
		{"slice step=-1", SHAPE(2, 9, 0), SHAPE0},
		{"slice axis=1 step=2", SHAPE(2, 9, 0), SHAPE0},
		{"pad 0 0 axis=1", SHAPE(2, 9, 0), SHAPE0},
		{"roll 1 axis=1", SHAPE(2, 9, 0), SHAPE0},
		{"softmax", SHAPE(2, 9, 0), SHAPE0},
		{"laplacian", SHAPE(2, 9, 0), SHAPE0},
		{"transpose", SHAPE(2, 9, 0), SHAPE0},
		{"matmul", SHAPE(2, 9, 0), SHAPE(2, 0, 0)},
		{"linear", SHAPE(3, 9, 0, 2), SHAPE(2, 3, 2)},
		{"matmul", SHAPE(3, 9, 0, 2), SHAPE(2, 2, 3)},
		{"conv1d", SHAPE(3, 9, 0, 4), SHAPE(3, 0, 0, 2)},
	};
	for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
		struct sample sample = endless[i];
		struct setup s;
		sample.v.dim[0] = many;
		if (sample.a.ndim && sample.a.dim[0] == 9)
			sample.a.dim[0] = many;
		ck_assert_msg(begin(&s, &sample, kernels_get(i % 2 ? DTYPE_F64 : DTYPE_F32)), "%s", sample.text);
		struct arrays x = arrays_of(&s, 3);
		bool right = op_table[s.op].operand_differentiable;
		ck_assert_msg(count_of(&s.y) == 0, "%s", sample.text);
		forward(&s, x.y, x.v, x.a, x.k);
		vjp(&s, x.dv, right ? x.da : NULL, x.g, x.v, x.a, x.y, x.k);
		for (size_t j = 0; right && j < count_of(&s.a); j++)
			ck_assert_msg(get(&s.a, x.da, j) == 0, "%s", sample.text);
		arrays_free(&x);
		arena_free(&s.arena);
	}
}
END_TEST

/* If the result has no elements but the value has some, the gradient is zeros. */
START_TEST(test_gradients_of_empty_results)
{
	static const struct sample nothing[] = {
		{"slice start=3", SHAPE(2, 3, 2), SHAPE0},  {"slice axis=1 start=2 step=3", SHAPE(2, 3, 2), SHAPE0},
		{"matmul", SHAPE(2, 3, 4), SHAPE(2, 4, 0)}, {"linear", SHAPE(2, 3, 4), SHAPE(2, 0, 4)},
		{"dot", SHAPE(2, 4, 3), SHAPE(2, 0, 4)},    {"conv1d", SHAPE(3, 2, 3, 8), SHAPE(3, 0, 3, 3)},
	};
	for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
		for (int type = 0; type < 2; type++) {
			struct setup s;
			ck_assert_msg(begin(&s, &nothing[i], kernels_get(type ? DTYPE_F64 : DTYPE_F32)), "%s", nothing[i].text);
			struct arrays x = arrays_of(&s, 3);
			ck_assert_msg(count_of(&s.y) == 0 && count_of(&s.v) > 0, "%s", nothing[i].text);
			vjp(&s, x.dv, op_table[s.op].operand_differentiable ? x.da : NULL, x.g, x.v, x.a, x.y, x.k);
			for (size_t j = 0; j < count_of(&s.v); j++)
				ck_assert_msg(get(&s.v, x.dv, j) == 0, "%s", nothing[i].text);
			arrays_free(&x);
			arena_free(&s.arena);
		}
}
END_TEST

/* ---- tiles ---- */

static const struct sample folds[] = {
	{"sum", SHAPE(2, 700, 3), SHAPE0},
	{"sum axis=0", SHAPE(2, 700, 3), SHAPE0},
	{"mean", SHAPE(2, 700, 3), SHAPE0},
	{"mean axis=0", SHAPE(3, 700, 2, 3), SHAPE0},
	{"mean axis=0,2", SHAPE(3, 700, 2, 3), SHAPE0},
	{"mse", SHAPE(2, 700, 3), SHAPE(2, 700, 3)},
	{"mae", SHAPE(2, 700, 3), SHAPE(1, 3)},
	{"huber delta=0.5", SHAPE(2, 700, 3), SHAPE(2, 700, 1)},
	{"cross_entropy", SHAPE(2, 700, 5), SHAPE(1, 700)},
	{"cross_entropy ignore=3", SHAPE(2, 700, 5), SHAPE(1, 700)},
	{"cross_entropy ignore=3 reduction=sum", SHAPE(2, 700, 5), SHAPE(1, 700)},
	{"amax", SHAPE(2, 700, 3), SHAPE0},
	{"amin axis=0", SHAPE(2, 700, 3), SHAPE0},
	{"norm axis=0,2", SHAPE(3, 700, 2, 3), SHAPE0},
	{"any axis=0", SHAPE(2, 700, 3), SHAPE0},
	{"all", SHAPE(2, 700, 3), SHAPE0},
	{"prod axis=0", SHAPE(2, 700, 3), SHAPE0},
	{"var axis=0", SHAPE(2, 700, 3), SHAPE0},
	{"std", SHAPE(2, 700, 3), SHAPE0},
	{"logsumexp", SHAPE(2, 700, 3), SHAPE0},
	{"logsumexp axis=0", SHAPE(2, 700, 3), SHAPE0},
};
enum { FOLDS = sizeof folds / sizeof *folds };

START_TEST(test_all_folds_have_samples)
{
	for (int op = 0; op < OP_COUNT; op++) {
		bool found = !op_folds((enum op)op);
		for (int i = 0; i < FOLDS && !found; i++)
			found = !strncmp(folds[i].text, op_table[op].name, strlen(op_table[op].name));
		ck_assert_msg(found, "%s", op_table[op].name);
	}
}
END_TEST

/* The derivative of S in blocks of 128 rows, from statistics of all rows, is that of the whole array, X->dv. */
static void check_back_fold(struct setup *s, const struct arrays *x)
{
	const struct fold_op fold = {s->op, true};
	const bool wide = s->v.dtype == DTYPE_F64;
	const int64_t count = fold_count(s->op, &s->v, &s->y), parts = fold_parts(fold) * count;
	const size_t row = count_of(&s->v) / 700, row_a = count_of(&s->a) / 700, size = wide ? 8 : 4;
	const struct type statistics = fold_type(fold, &s->v, &s->y);
	double *state = calloc((size_t)parts, sizeof *state), *part = calloc((size_t)parts, sizeof *part);
	void *made = block_of(&statistics), *dv = block_of(&s->v);
	fold_begin(fold, state, count);
	for (int pass = 0; pass < 2; pass++) {
		for (int64_t first = 0; first < 700; first += 128) {
			struct setup t = *s;
			t.v.shape.dim[0] = 700 - first < 128 ? 700 - first : 128;
			if (row_a)
				t.a.shape.dim[0] = t.v.shape.dim[0];
			const size_t at = (size_t)first * row * size;
			const void *const needs[MAX_NEEDS] = {(const char *)x->v + at,
			                                      row_a ? (const char *)x->a + (size_t)first * row_a * size : NULL,
			                                      x->y, keeps(s) ? (const char *)x->k + at : NULL, NULL};
			struct op_call call = call_of(&t, true);
			call.whole = 700;
			if (pass)
				fold_apply_back(&call, (char *)dv + at, x->g, needs, made);
			else
				fold_partial_back(&call, part, NULL, needs);
			fold_add(fold, state, part, count);
			free(call.scratch);
		}
		struct op_call call = call_of(s, true);
		if (!pass)
			fold_finish(&call, true, made, state, count);
		free(call.scratch);
	}
	for (size_t i = 0; i < count_of(&s->v); i++)
		ck_assert_msg(fabs(get(&s->v, dv, i) - get(&s->v, x->dv, i)) <=
		                  (wide ? 1e-13 : 1e-5) * (1e-3 + fabs(get(&s->v, x->dv, i))),
		              "%s: element %zu is %g, not %g", op_table[s->op].name, i, get(&s->v, dv, i),
		              get(&s->v, x->dv, i));
	free(dv);
	free(made);
	free(part);
	free(state);
}

START_TEST(test_folds_by_tiles)
{
	for (int type = 0; type < 2; type++) {
		struct setup s;
		ck_assert(begin(&s, &folds[_i], kernels_get(type ? DTYPE_F64 : DTYPE_F32)));
		struct arrays x = arrays_of(&s, 9);
		size_t size = type ? 8 : 4, row = count_of(&s.v) / 700, outs = count_of(&s.y);
		bool streamed = s.a.shape.ndim && s.a.shape.dim[0] == 700;
		size_t row_a = streamed ? count_of(&s.a) / 700 : 0;
		double state[8 * 3], part[8 * 3];
		fold_begin((struct fold_op){s.op, false}, state, (int64_t)outs);
		unsigned char *kept = block_of(&s.k), *slope = block_of(&s.v);
		forward(&s, x.y, x.v, x.a, keeps(&s) ? x.k : NULL);
		vjp(&s, x.dv, NULL, x.g, x.v, x.a, x.y, x.k);
		for (int64_t first = 0; first < 700; first += 128) {
			struct setup t = s;
			t.v.shape.dim[0] = 700 - first < 128 ? 700 - first : 128;
			if (streamed)
				t.a.shape.dim[0] = t.v.shape.dim[0];
			const unsigned char *v = (unsigned char *)x.v + (size_t)first * row * size;
			const unsigned char *a = (unsigned char *)x.a + (size_t)first * row_a * size;
			struct op_call call = call_of(&t, false);
			call.first = first * (int64_t)row;
			call.whole = 700;
			const size_t at = (size_t)first * row, in_byte = s.k.dtype == DTYPE_SIGNS ? 4 : 0;
			void *const keep[MAX_KEEPS] = {kept + (in_byte ? at / in_byte : at * size), NULL};
			fold_partial(&call, part, v, a, keep);
			fold_add((struct fold_op){s.op, false}, state, part, (int64_t)outs);
			free(call.scratch);
			call = call_of(&t, true);
			call.whole = 700;
			const void *const needs[MAX_NEEDS] = {v, a, x.y, keep[0], NULL};
			op_vjp_get(s.op)(&call, slope + (size_t)first * row * size, NULL, x.g, needs);
			free(call.scratch);
		}
		struct op_call call = call_of(&s, false);
		void *y = block_of(&s.y);
		fold_finish(&call, false, y, state, (int64_t)outs);
		for (size_t i = 0; i < outs; i++)
			ck_assert_double_eq_tol(get(&s.y, y, i), get(&s.y, x.y, i),
			                        (type ? 4e-16 : 1.2e-7) * (1 + fabs(get(&s.y, y, i))));
		if (op_folds_back(s.op))
			check_back_fold(&s, &x);
		/* In the others ties, roundings and counts depend on all rows. */
		if (op_scope(s.op, &s.attrs, &s.v, &s.a, streamed) == SCOPE_SUM)
			ck_assert_mem_eq(slope, x.dv, (size_t)type_bytes(&s.v));
		if (keeps(&s))
			ck_assert_mem_eq(kept, x.k, (size_t)type_bytes(&s.k));
		/* one tile gives the bits of the whole */
		fold_partial(&call, state, x.v, x.a, (void *const[MAX_KEEPS]){NULL, NULL});
		fold_finish(&call, false, y, state, (int64_t)outs);
		ck_assert_mem_eq(y, x.y, (size_t)type_bytes(&s.y));
		free(call.scratch);
		free(y);
		free(kept);
		free(slope);
		arrays_free(&x);
		arena_free(&s.arena);
	}
}
END_TEST

/* ---- neighbours ---- */

#define BOUNDARIES(TEXT, V)                                                                                            \
	{TEXT " boundary=periodic", V, SHAPE0}, {TEXT " boundary=zero", V, SHAPE0}, { TEXT " boundary=reflect", V, SHAPE0 }
static const struct sample neighbours[] = {
	BOUNDARIES("laplacian", SHAPE(1, 40)),
	BOUNDARIES("laplacian", SHAPE(2, 40, 3)),
	BOUNDARIES("laplacian", SHAPE(3, 40, 3, 2)),
	BOUNDARIES("laplacian axes=0", SHAPE(2, 40, 3)),
	BOUNDARIES("laplacian order=4", SHAPE(2, 40, 3)),
	BOUNDARIES("laplacian order=8 dx=0.5,2", SHAPE(2, 60, 20)),
	BOUNDARIES("stencil 1,2,3", SHAPE(1, 40)),
	BOUNDARIES("stencil 1,-2,3,4,5", SHAPE(3, 40, 2, 3)),
	{"roll 3", SHAPE(2, 40, 2), SHAPE0},
	{"roll -4", SHAPE(1, 40), SHAPE0},
	{"roll 79", SHAPE(2, 40, 2), SHAPE0},
	{"roll 80", SHAPE(2, 40, 2), SHAPE0},
	{"pad 2 5", SHAPE(2, 40, 3), SHAPE0},
	{"pad 0 1 value=7", SHAPE(1, 40), SHAPE0},
	{"pad 4 0 value=7", SHAPE(3, 40, 1, 2), SHAPE0},
	{"slice start=3", SHAPE(2, 40, 3), SHAPE0},
	{"slice stop=-2", SHAPE(1, 40), SHAPE0},
	{"slice start=-36 stop=33", SHAPE(3, 40, 2, 1), SHAPE0},
};
enum { NEIGHBOURS = sizeof neighbours / sizeof *neighbours };

START_TEST(test_all_neighbours_have_samples)
{
	for (int op = 0; op < OP_COUNT; op++) {
		bool found = op_table[op].scope != SCOPE_NEIGHBOUR;
		for (int i = 0; i < NEIGHBOURS && !found; i++)
			found = op_named(neighbours[i].text) == (enum op)op;
		ck_assert_msg(found, "'%s' has no sample in this test: add one", op_table[op].name);
	}
}
END_TEST

/* Compares parts of WHOLE, of TYPE, with those that the gather makes of FROM: alone, scaled, and added to. */
static void check_gather(const struct setup *s, bool back, const struct type *type, const void *whole, const void *from,
                         const char *text)
{
	const size_t size = wide(type) ? 8 : 4, count = count_of(type);
	const double factor = 0.3;
	struct op_call call = {.op = s->op, .attrs = &s->attrs, .v = &s->v, .y = &s->y, .kernels = s->kernels};
	char *part = block_of(type), *sums = block_of(type);
	uint64_t state = count;
	for (size_t i = 0; i < count; i++)
		set(type, sums, i, noise(&state));
	for (int trial = 0; trial < 40; trial++) {
		const size_t first = (size_t)((noise(&state) + 1) / 2 * (double)count);
		const size_t n = trial ? (size_t)((noise(&state) + 1) / 2 * (double)(count - first + 1)) : count - first;
		const int way = op_takes_tail(s->op) ? trial % 4 : 0; /* 3: in the place of what is added */
		memcpy(part, sums + first * size, n * size);
		op_gather_get(s->op, &s->attrs)(
			&call, &(struct gather_part){.back = back,
		                                 .to = part,
		                                 .from = from,
		                                 .first = (int64_t)first,
		                                 .n = (int64_t)n,
		                                 .factor = way ? factor : 1,
		                                 .add = way > 1 ? way == 3 ? part : sums + first * size : NULL});
		for (size_t i = 0; i < n; i++) {
			double want = get(type, whole, first + i);
			if (way)
				want = wide(type) ? want * factor : (double)((float)want * (float)factor);
			if (way > 1)
				want = wide(type) ? get(type, sums, first + i) + want
				                  : (double)((float)get(type, sums, first + i) + (float)want);
			ck_assert_msg(get(type, part, i) == want,
			              "%s, %s, back %d, way %d: element %zu of %zu from %zu is %.9g, should be %.9g", text,
			              s->kernels->isa, back, way, i, n, first, get(type, part, i), want);
		}
	}
	free(part);
	free(sums);
}

/* A part of a gather's result is that part of the whole, by every instruction set. */
START_TEST(gathers_make_parts_of_the_whole)
{
	const struct kernels *sets[8];
	size_t set_count = kernels_all(DTYPE_F32, sets);
	set_count += kernels_all(DTYPE_F64, sets + set_count);
	for (size_t i = 0; i < set_count; i++) {
		const struct sample *sample = &samples[_i];
		struct setup s;
		ck_assert(begin(&s, sample, sets[i]));
		if (sample->v.ndim > 0 && op_gather_get(s.op, &s.attrs)) {
			struct arrays x = arrays_of(&s, 11);
			forward(&s, x.y, x.v, NULL, NULL);
			check_gather(&s, false, &s.y, x.y, x.v, sample->text);
			vjp(&s, x.dv, NULL, x.g, NULL, NULL, NULL, NULL);
			check_gather(&s, true, &s.v, x.dv, x.g, sample->text);
			arrays_free(&x);
		}
		arena_free(&s.arena);
	}
}
END_TEST

static int64_t rows_of(const struct type *type) { return type->shape.dim[0]; }
static size_t row_of(const struct type *type) { return count_of(type) / (size_t)rows_of(type); }

/* True if row I of an array of TYPE has a NaN. */
static bool has_nan(const struct type *type, const void *array, int64_t i)
{
	bool found = false;
	for (size_t j = 0; j < row_of(type); j++)
		found |= isnan(get(type, array, (size_t)i * row_of(type) + j));
	return found;
}

/* Of the rows read, the furthest before and after the row that depends on them. */
struct furthest {
	int64_t before, after;
};

/* A NaN in row R of N rows may reach row I of TO, of type TYPE, only if HALO says so. Updates FURTHEST. */
static void check_reach(const struct type *type, const void *to, int64_t r, int64_t n, struct halo halo,
                        struct furthest *furthest, const char *text)
{
	for (int64_t i = 0; i < rows_of(type); i++) {
		int64_t distance = r - i;
		if (halo.wraps && distance > n / 2)
			distance -= n;
		if (halo.wraps && distance < -(n / 2))
			distance += n;
		if (!has_nan(type, to, i))
			continue;
		ck_assert_msg(-halo.before <= distance && distance <= halo.after, "%s: row %d depends on row %d", text, (int)i,
		              (int)r);
		furthest->before = -distance > furthest->before ? -distance : furthest->before;
		furthest->after = distance > furthest->after ? distance : furthest->after;
	}
}

/* Halos are what a NaN in one row reaches: no row further, and none less far. */
START_TEST(test_halos)
{
	const char *text = neighbours[_i].text;
	struct setup s;
	ck_assert(begin(&s, &neighbours[_i], kernels_get(DTYPE_F64)));
	ck_assert_int_eq(op_scope(s.op, &s.attrs, &s.v, NULL, false), SCOPE_NEIGHBOUR);
	const struct halo halo = op_halo(s.op, &s.attrs, &s.v), derivative = halo_of_derivative(halo);
	const int64_t n = rows_of(&s.v), m = rows_of(&s.y);
	struct furthest forwards = {0}, backwards = {0};
	ck_assert_int_eq(m, n + halo.grows);
	for (int64_t r = 0; r < n; r++) {
		struct arrays x = arrays_of(&s, 3);
		set(&s.v, x.v, (size_t)r * row_of(&s.v), NAN);
		forward(&s, x.y, x.v, x.a, NULL);
		check_reach(&s.y, x.y, r, n, halo, &forwards, text);
		arrays_free(&x);
	}
	for (int64_t r = 0; r < m; r++) {
		struct arrays x = arrays_of(&s, 3);
		set(&s.y, x.g, (size_t)r * row_of(&s.y), NAN);
		vjp(&s, x.dv, NULL, x.g, x.v, x.a, x.y, x.k);
		check_reach(&s.v, x.dv, r, m, derivative, &backwards, text);
		arrays_free(&x);
	}
	ck_assert_msg(forwards.before == halo.before && forwards.after == halo.after, "%s", text);
	ck_assert_msg(backwards.before == halo.after && backwards.after == halo.before, "%s", text);
	arena_free(&s.arena);
}
END_TEST

/* True if row I of WINDOW's result, or derivative, depends on rows of the window alone, or on ends of the whole. */
static bool is_inside(int64_t i, struct halo halo, int64_t first, int64_t rows, int64_t n)
{
	return (i - halo.before >= 0 || (first == 0 && !halo.wraps)) &&
	       (i + halo.after < rows || (first + rows == n && !halo.wraps));
}

/* A window of rows computed as if it were the whole array has the whole array's bits in all rows whose halos it has. */
START_TEST(test_windows)
{
	for (int type = 0; type < 2; type++) {
		struct setup s, w;
		enum { ROWS = 20 };
		ck_assert(begin(&s, &neighbours[_i], kernels_get(type ? DTYPE_F64 : DTYPE_F32)));
		const struct halo halo = op_halo(s.op, &s.attrs, &s.v), derivative = halo_of_derivative(halo);
		const size_t size = type ? 8 : 4, row = row_of(&s.v) * size;
		const int64_t n = rows_of(&s.v);
		struct complaint complaint = {.arena = &s.arena};
		struct arrays x = arrays_of(&s, 3);
		forward(&s, x.y, x.v, x.a, NULL);
		vjp(&s, x.dv, NULL, x.g, x.v, x.a, x.y, x.k);
		w = s;
		op_attrs_for_window(w.op, &w.attrs, &s.v);
		w.v.shape.dim[0] = ROWS;
		ck_assert_int_eq(op_infer(w.op, &w.attrs, &w.v, NULL, &w.y, &complaint), STATUS_OK);
		int64_t compared = 0;
		for (int64_t first = 0; first + ROWS <= n; first++) {
			struct arrays part = arrays_of(&w, 5);
			memcpy(part.v, (char *)x.v + (size_t)first * row, ROWS * row);
			forward(&w, part.y, part.v, part.a, NULL);
			for (int64_t i = 0; i < rows_of(&w.y) && first + i < rows_of(&s.y); i++)
				if (is_inside(i, halo, first, ROWS, n)) {
					ck_assert_mem_eq((char *)part.y + (size_t)i * row, (char *)x.y + (size_t)(first + i) * row, row);
					compared++;
				}
			const int64_t have = rows_of(&s.y) - first, rows = rows_of(&w.y) < have ? rows_of(&w.y) : have;
			memcpy(part.g, (char *)x.g + (size_t)first * row, (size_t)rows * row);
			vjp(&w, part.dv, NULL, part.g, part.v, part.a, part.y, part.k);
			for (int64_t i = 0; i < ROWS; i++)
				if (is_inside(i, derivative, first, ROWS, n)) {
					ck_assert_mem_eq((char *)part.dv + (size_t)i * row, (char *)x.dv + (size_t)(first + i) * row, row);
					compared++;
				}
			arrays_free(&part);
		}
		ck_assert_int_ge(compared, n);
		arrays_free(&x);
		arena_free(&s.arena);
	}
}
END_TEST

/* ---- inner loops of each instruction set ---- */

enum { LOOPS_MOST = 10 };

/* Stores the loops of every set for both types. */
static size_t all_loops(const struct loops *loops[LOOPS_MOST])
{
	size_t count = 0;
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		const size_t sets = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
		for (size_t i = 0; i < sets; i++)
			loops[count++] = tables[i]->loops;
	}
	return count;
}

/* The numbers of rows and columns are near those of a vector's lanes. The gaps beside the matrices stay untouched. */
START_TEST(test_transposed_matrices)
{
	static const int64_t extents[] = {1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 70};
	enum { MOST = sizeof extents / sizeof *extents, GAP = 3 };
	const struct loops *loops[LOOPS_MOST];
	const size_t sets = all_loops(loops);
	for (size_t k = 0; k < sets; k++)
		for (int m = 0; m < MOST * MOST; m++) {
			const int64_t rows = extents[m / MOST], columns = extents[m % MOST];
			const size_t size = element_size(loops[k]->dtype);
			const size_t from_count = (size_t)(rows * (columns + GAP) - GAP),
						 to_count = (size_t)(columns * (rows + GAP) - GAP);
			void *from = malloc(from_count * size), *to = malloc(to_count * size);
			for (size_t i = 0; i < from_count; i++)
				element_set(loops[k]->dtype, from, i, (double)(i + 1));
			memset(to, 0, to_count * size);
			loops[k]->transpose(to, rows + GAP, from, columns + GAP, rows, columns);
			for (size_t i = 0; i < to_count; i++) {
				const int64_t c = (int64_t)i / (rows + GAP), r = (int64_t)i % (rows + GAP);
				const double want = r < rows ? (double)(r * (columns + GAP) + c + 1) : 0;
				ck_assert_double_eq(element_get(loops[k]->dtype, to, i), want);
			}
			free(from);
			free(to);
		}
}
END_TEST

enum { SUMMARIES = 8, SOME_LINES = 37 };

/* Stores the sums, extremes and two rests of COUNT lines. Those of one kind begin SOME_LINES after those of the kind before. */
static void summarize(const struct loops *loops, double *out, const void *v, const void *a, const double *p, size_t n,
                      size_t count)
{
	loops->sum.values(out, out + 6 * SOME_LINES, v, n, count);
	loops->sum.squares(out + SOME_LINES, NULL, v, n, count);
	loops->sum.products(out + 2 * SOME_LINES, out + 7 * SOME_LINES, v, a, n, count);
	loops->sum.deviations(out + 3 * SOME_LINES, NULL, v, p, n, count);
	loops->largest(out + 4 * SOME_LINES, v, n, count);
	loops->smallest(out + 5 * SOME_LINES, v, n, count);
}

/* Stores the sums and extremes of one line, by their definitions. */
static void summarize_plainly(enum dtype dtype, double out[SUMMARIES], const void *v, const void *a, double p, size_t n)
{
	memcpy(out, (const double[SUMMARIES]){0, 0, 0, 0, -INFINITY, INFINITY, 0, 0}, SUMMARIES * sizeof *out);
	for (size_t j = 0; j < n; j++) {
		const double x = element_get(dtype, v, j);
		out[0] += x;
		out[1] += x * x;
		out[2] += x * element_get(dtype, a, j);
		out[3] += (x - p) * (x - p);
		out[4] = fmax(out[4], x);
		out[5] = fmin(out[5], x);
	}
}

/*
 * A line has the same bits alone and beside others, whatever zeros and NaN it holds, as tiles and threads decide which
 * lines are computed together. If its sums are exact they are those of the definition.
 */
START_TEST(test_lines_together)
{
	static const size_t lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 127, 129, 256, 257, 300};
	static const double special[] = {0.0, -0.0, NAN, -NAN, INFINITY, -INFINITY};
	const struct loops *loops[LOOPS_MOST];
	const size_t sets = all_loops(loops);
	uint64_t seed = 11;
	for (size_t k = 0; k < sets; k++)
		for (size_t l = 0; l < 2 * sizeof lengths / sizeof *lengths; l++) {
			static double v[SOME_LINES * 300], a[SOME_LINES * 300]; /* of either type */
			const size_t n = lengths[l / 2], size = element_size(loops[k]->dtype);
			const bool exact = l % 2 == 0;
			for (size_t i = 0; i < n * SOME_LINES; i++) {
				const double u = fabs(noise(&seed)), x = noise(&seed), w = noise(&seed);
				element_set(loops[k]->dtype, v, i, exact ? floor(16 * x) : u > 0.1 ? x : special[(size_t)(u * 59.9)]);
				element_set(loops[k]->dtype, a, i, exact ? floor(16 * w) : u > 0.1 ? w : -0.0);
			}
			double p[SOME_LINES], together[SUMMARIES][SOME_LINES], alone[SUMMARIES][SOME_LINES], plain[SUMMARIES];
			for (size_t i = 0; i < SOME_LINES; i++)
				p[i] = (double)i - 9;
			summarize(loops[k], together[0], v, a, p, n, SOME_LINES);
			for (size_t i = 0; i < SOME_LINES; i++) {
				const void *line = element_at(v, size, (int64_t)(i * n)), *with = element_at(a, size, (int64_t)(i * n));
				summarize(loops[k], &alone[0][i], line, with, &p[i], n, 1);
				summarize_plainly(loops[k]->dtype, plain, line, with, p[i], n);
				for (int f = 0; exact && f < SUMMARIES; f++)
					ck_assert_msg(plain[f] == alone[f][i], "set %zu: sum or extreme %d of a line of %zu is %g, not %g",
					              k, f, n, alone[f][i], plain[f]);
			}
			for (int f = 0; f < SUMMARIES; f++)
				ck_assert_msg(!memcmp(together[f], alone[f], sizeof alone[f]),
				              "set %zu: sums or extremes %d of lines of %zu differ beside others", k, f, n);
		}
}
END_TEST

/* ---- convolutions of more than one piece ---- */

static void set_whole_numbers(const struct type *type, void *array, uint64_t seed)
{
	for (size_t i = 0; i < count_of(type); i++)
		set(type, array, i, floor(noise(&seed) * 4));
}

/*
 * A convolution by its definition: each pair of an element of V and one of the kernel adds
 * its product to y[n,o,y,x], and to dv and da. All values are small integers, so sums are exact.
 */
static void convolve_plainly(const struct setup *s, const struct arrays *x, double *y, double *dv, double *da)
{
	const bool flat = s->v.shape.ndim == 3; /* conv1d: one row */
	const int64_t *d = s->v.shape.dim, *k_dim = s->a.shape.dim, *result = s->y.shape.dim;
	const int64_t v[4] = {d[0], d[1], flat ? 1 : d[2], d[flat ? 2 : 3]};
	const int64_t a[4] = {k_dim[0], k_dim[1], flat ? 1 : k_dim[2], k_dim[flat ? 2 : 3]};
	const int64_t out[4] = {result[0], result[1], flat ? 1 : result[2], result[flat ? 2 : 3]};
	const int64_t stride[2] = {flat ? 1 : s->attrs.stride[0], s->attrs.stride[flat ? 0 : 1]};
	const int64_t padding[2] = {flat ? 0 : s->attrs.padding[0], s->attrs.padding[flat ? 0 : 1]};
	const int64_t places = out[2] * out[3], under = a[2] * a[3];
	for (int64_t at = 0; at < out[0] * out[1] * places; at++)
		for (int64_t k = 0; k < a[1] * under; k++) {
			const int64_t n = at / places / out[1], o = at / places % out[1], channel = k / under;
			const int64_t row = at % places / out[3] * stride[0] - padding[0] + k % under / a[3];
			const int64_t column = at % out[3] * stride[1] - padding[1] + k % a[3];
			if (row < 0 || row >= v[2] || column < 0 || column >= v[3])
				continue;
			const size_t from = (size_t)(((n * v[1] + channel) * v[2] + row) * v[3] + column);
			const size_t with = (size_t)(o * a[1] * under + k), to = (size_t)at;
			y[to] += get(&s->v, x->v, from) * get(&s->a, x->a, with);
			dv[from] += get(&s->y, x->g, to) * get(&s->a, x->a, with);
			da[with] += get(&s->y, x->g, to) * get(&s->v, x->v, from);
		}
}

static void check_equal(const struct type *type, const void *got, const double *want, const char *what)
{
	for (size_t i = 0; i < count_of(type); i++)
		ck_assert_msg(get(type, got, i) == want[i], "%s: element %zu is %g, not %g", what, i, get(type, got, i),
		              want[i]);
}

START_TEST(test_convolutions_in_pieces)
{
	static const struct sample several[] = {
		{"conv2d padding=1", SHAPE(4, 2, 40, 13, 30),
	     SHAPE(4, 2, 40, 3, 3)}, /* pieces of several rows; the last has fewer */
		{"conv2d stride=1,2 padding=0,3", SHAPE(4, 1, 60, 4, 500), SHAPE(4, 2, 60, 2, 3)}, /* parts of a row */
		{"conv2d stride=2,3 padding=4,200", SHAPE(4, 1, 60, 5, 40),
	     SHAPE(4, 1, 60, 3, 2)},                                             /* some pieces are all padding */
		{"conv2d padding=1", SHAPE(4, 40, 30, 7, 7), SHAPE(4, 3, 30, 3, 3)}, /* several samples */
		{"conv2d stride=2 padding=2", SHAPE(4, 25, 40, 6, 9), SHAPE(4, 2, 40, 3, 3)},
		{"conv1d padding=2", SHAPE(3, 2000, 3, 8), SHAPE(3, 5, 3, 4)},
		/* without columns: blocks of several rows, two blocks of channels, the second with fewer; long rows */
		{"conv2d padding=1", SHAPE(4, 2, 64, 40, 32), SHAPE(4, 37, 64, 3, 3)},
		{"conv2d padding=0,1", SHAPE(4, 1, 60, 21, 30), SHAPE(4, 28, 60, 2, 3)},
		{"conv2d padding=2,0", SHAPE(4, 1, 32, 9, 18), SHAPE(4, 5, 32, 3, 3)},
		{"conv1d padding=2", SHAPE(3, 3, 32, 640), SHAPE(3, 5, 32, 4)},
		{"conv2d padding=4", SHAPE(4, 1, 32, 20, 27), SHAPE(4, 12, 32, 3, 2)}, /* more padding than kernel */
		{"conv2d", SHAPE(4, 2, 300, 25, 20), SHAPE(4, 3, 300, 1, 1)},          /* no columns */
		{"conv2d", SHAPE(4, 70, 300, 2, 3), SHAPE(4, 3, 300, 1, 1)},
	};
	const struct sample *sample = &several[_i];
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		const size_t sets = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
		double *y = NULL, *dv = NULL, *da = NULL;
		for (size_t k = 0; k < sets; k++) {
			struct setup s;
			ck_assert(begin(&s, sample, tables[k]));
			struct arrays x = arrays_of(&s, 1);
			set_whole_numbers(&s.v, x.v, 2);
			set_whole_numbers(&s.a, x.a, 3);
			set_whole_numbers(&s.y, x.g, 4);
			if (!y) {
				y = calloc(count_of(&s.y), sizeof *y);
				dv = calloc(count_of(&s.v), sizeof *dv);
				da = calloc(count_of(&s.a), sizeof *da);
				convolve_plainly(&s, &x, y, dv, da);
			}
			forward(&s, x.y, x.v, x.a, NULL);
			vjp(&s, x.dv, x.da, x.g, x.v, x.a, NULL, NULL);
			check_equal(&s.y, x.y, y, "result");
			check_equal(&s.v, x.dv, dv, "input's gradient");
			check_equal(&s.a, x.da, da, "kernel's gradient");
			/* a piece fits in scratch, so there is more than one piece */
			const int64_t columns =
				shape_count(&s.a.shape) / s.a.shape.dim[0] * (shape_count(&s.y.shape) / s.y.shape.dim[1]);
			ck_assert_int_lt(op_scratch(s.op, &s.attrs, &s.v, &s.a, &s.y, SCRATCH_FORWARD),
			                 columns * (int64_t)element_size(tables[k]->dtype));
			arrays_free(&x);
			arena_free(&s.arena);
		}
		free(y);
		free(dv);
		free(da);
	}
}
END_TEST

/* In lines of each length, the extreme is at one index after another. Then a NaN is beside it. */
START_TEST(test_extremes)
{
	enum { LONGEST = 300 };
	const struct loops *loops[LOOPS_MOST];
	const size_t sets = all_loops(loops);
	double extreme;
	for (size_t k = 0; k < sets; k++)
		for (size_t n = 1; n <= LONGEST; n++) {
			const enum dtype dtype = loops[k]->dtype;
			void *line = malloc(n * element_size(dtype));
			for (size_t at = 0; at < n; at++) {
				for (size_t i = 0; i < n; i++)
					element_set(dtype, line, i, i == at ? 2 : -1 / (double)(i + 1));
				loops[k]->largest(&extreme, line, n, 1);
				ck_assert_double_eq(extreme, 2);
				element_set(dtype, line, at, -2);
				loops[k]->smallest(&extreme, line, n, 1);
				ck_assert_double_eq(extreme, -2);
				element_set(dtype, line, (at + 1) % n, NAN);
				loops[k]->largest(&extreme, line, n, 1);
				ck_assert(isnan(extreme));
				loops[k]->smallest(&extreme, line, n, 1);
				ck_assert(isnan(extreme));
			}
			free(line);
		}
}
END_TEST

/* ---- random ---- */

/* The known answers of Random123 (philox4x32-10) for counter 0 and key 0, found by the masks of many p. */
START_TEST(test_philox)
{
	static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
	const struct sample sample = {"dropout 0.5", SHAPE(1, 4), SHAPE0};
	const struct kernels *tables[4];
	size_t count = kernels_all(DTYPE_F64, tables);
	for (size_t k = 0; k < count; k++)
		for (int i = 0; i < 4; i++)
			for (int above = 0; above < 2; above++) {
				struct setup s;
				begin(&s, &sample, tables[k]);
				struct arrays x = arrays_of(&s, 1);
				/* an element is kept if its word is at least p * 2^32 */
				s.attrs.p = ((double)zeros[i] + above) / 0x1p32;
				forward(&s, x.y, x.v, NULL, NULL);
				ck_assert_int_eq(((double *)x.y)[i] != 0, !above);
				arrays_free(&x);
				arena_free(&s.arena);
			}
}
END_TEST

/* Philox4x32-10, from the paper: word WORD of counter (COUNTER, STREAM) under KEY. */
static uint32_t philox(uint64_t counter, uint64_t stream, uint64_t key, int word)
{
	uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int round = 0; round < 10; round++, k0 += 0x9e3779b9, k1 += 0xbb67ae85) {
		const uint64_t p0 = 0xd2511f53ull * c[0], p1 = 0xcd9e8d57ull * c[2];
		const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
		                          (uint32_t)p0};
		memcpy(c, next, sizeof c);
	}
	return c[word];
}

/* Every stream of every seed has the words of Philox's counter, of which the stream is the upper half. */
START_TEST(test_dropout_streams)
{
	static const uint64_t streams[] = {0, 1, 2, 12345, 0x9abcdef01, UINT64_MAX};
	const struct sample sample = {"dropout 0.5 seed=-77", SHAPE(1, 300), SHAPE0};
	const struct kernels *tables[4];
	size_t count = kernels_all(_i ? DTYPE_F64 : DTYPE_F32, tables);
	for (size_t k = 0; k < count * 6; k++) {
		struct setup s;
		begin(&s, &sample, tables[k / 6]);
		struct arrays x = arrays_of(&s, 1);
		struct op_call call = call_of(&s, false);
		call.stream = streams[k % 6];
		call.first = ((int64_t)k << 33) + 5;
		op_forward_get(OP_dropout)(&call, x.y, x.v, NULL, NULL);
		for (int i = 0; i < 300; i++) {
			const uint64_t at = (uint64_t)call.first + (uint64_t)i;
			const bool kept = philox(at / 4, call.stream, (uint64_t)-77, at % 4) >= 0x80000000;
			ck_assert_int_eq(kept, _i ? ((double *)x.y)[i] != 0 : ((float *)x.y)[i] != 0);
		}
		free(call.scratch);
		arrays_free(&x);
		arena_free(&s.arena);
	}
}
END_TEST

START_TEST(test_dropout_by_tiles)
{
	const struct sample sample = {"dropout 0.25 seed=-3", SHAPE(1, 1000), SHAPE0};
	struct setup s;
	begin(&s, &sample, kernels_get(DTYPE_F32));
	struct arrays x = arrays_of(&s, 1);
	float *v = x.v, *y = x.y, part[1000];
	int kept = 0;
	v[77] = NAN;
	forward(&s, y, v, NULL, NULL);
	for (int64_t first = 0, n = 1; first < 1000; first += n, n = n * 2 % 61 + 1) {
		struct setup t = s;
		t.v.shape.dim[0] = n = n < 1000 - first ? n : 1000 - first;
		struct op_call call = call_of(&t, false);
		call.first = first;
		op_forward_get(OP_dropout)(&call, part + first, v + first, NULL, NULL);
		free(call.scratch);
	}
	ck_assert_mem_eq(part, y, sizeof part);
	for (int i = 0; i < 1000; i++)
		kept += y[i] != 0;
	ck_assert_int_gt(kept, 700);
	ck_assert_int_lt(kept, 800);
	for (int i = 0; i < 1000; i++)
		ck_assert(y[i] == 0 || i == 77 || y[i] == v[i] * (1 / 0.75F));
	arrays_free(&x);
	arena_free(&s.arena);
}
END_TEST

/* ---- broadcasting ---- */

START_TEST(test_broadcast)
{
	static const struct shape pairs[][2] = {
		{SHAPE(2, 30, 17), SHAPE(1, 17)},
		{SHAPE(2, 30, 17), SHAPE(2, 30, 1)},
		{SHAPE(2, 30, 17), SHAPE0},
		{SHAPE(2, 30, 17), SHAPE(2, 1, 17)},
		{SHAPE(2, 30, 17), SHAPE(2, 30, 17)},
		{SHAPE(3, 4, 5, 6), SHAPE(3, 4, 1, 6)},
		{SHAPE(3, 4, 5, 6), SHAPE(2, 5, 1)},
		{SHAPE(3, 4, 5, 6), SHAPE(3, 1, 5, 1)},
		{SHAPE(4, 2, 3, 4, 5), SHAPE(4, 2, 1, 4, 1)},
		{SHAPE(4, 2, 3, 4, 5), SHAPE(3, 1, 4, 1)},
		{SHAPE(2, 1, 5), SHAPE(1, 5)},
		{SHAPE(2, 700, 600), SHAPE(1, 600)},
		{SHAPE(2, 0, 3), SHAPE(1, 3)},
		{SHAPE(2, 5000, 3), SHAPE(1, 3)},
		{SHAPE0, SHAPE0},
		{SHAPE(2, 0, 3), SHAPE(2, 1, 1)},
	};
	for (int type = 0; type < 2; type++) {
		const struct kernels *kernels = kernels_get(type ? DTYPE_F64 : DTYPE_F32);
		struct type whole = {kernels->dtype, pairs[_i][0]}, small = {kernels->dtype, pairs[_i][1]};
		void *a = block_of(&small), *filled = block_of(&whole), *sums = block_of(&small), *scratch = block_of(&whole);
		size_t n = count_of(&whole), m = count_of(&small);
		long double *expected = calloc(m, sizeof *expected);
		uint64_t seed = 1;
		for (size_t i = 0; i < m; i++)
			set(&small, a, i, (double)i + 1);
		/* in pieces of awkward lengths */
		for (int64_t first = 0, piece = 1; first < (int64_t)n; first += piece, piece = piece * 3 % 1009 + 1) {
			piece = piece < (int64_t)n - first ? piece : (int64_t)n - first;
			broadcast_fill(kernels, (char *)filled + (size_t)first * (type ? 8 : 4),
			               &(struct broadcast){a, &small, &whole}, first, piece);
		}
		for (size_t i = 0; i < n; i++) {
			size_t rest = i, at = 0, stride = 1;
			for (int d = 0; d < whole.shape.ndim; d++) {
				int axis = whole.shape.ndim - 1 - d, own = small.shape.ndim - 1 - d;
				size_t place = rest % (size_t)whole.shape.dim[axis];
				rest /= (size_t)whole.shape.dim[axis];
				if (own >= 0 && small.shape.dim[own] != 1)
					at += place * stride;
				stride *= own >= 0 ? (size_t)small.shape.dim[own] : 1;
			}
			ck_assert_double_eq(get(&whole, filled, i), (double)at + 1);
			set(&whole, filled, i, noise(&seed));
			expected[at] += get(&whole, filled, i);
		}
		sum_to_shape(kernels, sums, &small, filled, &whole, scratch);
		for (size_t i = 0; i < m; i++)
			ck_assert_double_eq_tol(get(&small, sums, i), (double)expected[i],
			                        (type ? 1e-15 : 1e-7) * (1 + fabs((double)expected[i])));
		free(a);
		free(filled);
		free(sums);
		free(scratch);
		free(expected);
	}
}
END_TEST

/* ---- operands ---- */

START_TEST(test_classes)
{
	const struct type v = {DTYPE_F32, SHAPE(2, 3, 5)}, t = {DTYPE_F64, SHAPE(1, 3)};
	struct attrs none = {.keepdims = false}, ignore = {.ignore = {true, -7}};
	struct operand_wrong wrong;
	ck_assert(op_check_operand(OP_cross_entropy, &none, &v, &t, (double[]){0, 4, 2}, &wrong));
	ck_assert(op_check_operand(OP_cross_entropy, &ignore, &v, &t, (double[]){0, -7, 2}, &wrong));
	ck_assert(op_check_operand(OP_mse, &none, &v, &t, (double[]){0, 9, NAN}, &wrong));
	static const double classes[] = {5, -1, 0.5, NAN, INFINITY, -7};
	for (size_t i = 0; i < 6; i++) {
		ck_assert(!op_check_operand(OP_cross_entropy, &none, &v, &t, (double[]){0, classes[i], 2}, &wrong));
		ck_assert_ptr_nonnull(strstr(wrong.message, "element 1"));
		ck_assert_ptr_nonnull(strstr(wrong.message, "0 to 4"));
		ck_assert_int_eq(*wrong.hint != '\0', classes[i] < 0);
	}
	/* a computed class out of range: the loss is NaN, and so is that row of the gradient */
	const struct sample sample = {"cross_entropy", SHAPE(2, 2, 3), SHAPE(1, 2)};
	struct setup s;
	begin(&s, &sample, kernels_get(DTYPE_F64));
	struct arrays x = arrays_of(&s, 2);
	((double *)x.a)[0] = 1.5;
	forward(&s, x.y, x.v, x.a, x.k);
	vjp(&s, x.dv, NULL, x.g, x.v, x.a, x.y, x.k);
	ck_assert(isnan(*(double *)x.y));
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(isnan(((double *)x.dv)[i]), i < 3);
	arrays_free(&x);
	arena_free(&s.arena);
}
END_TEST

START_TEST(test_casts)
{
	static const float values[] = {1.00048828125F, 65520, 1e-8F, NAN, -0.0F, 3.14159274F};
	static const double half[] = {1, INFINITY, 0, NAN, -0.0, 3.140625},
						brain[] = {1, 65536, 0x1.58p-27, NAN, -0.0, 3.140625};
	for (int i = 0; i < 2; i++) {
		struct setup s;
		const struct sample sample = {i ? "cast bf16" : "cast f16", SHAPE(1, 6), SHAPE0};
		for (int type = 0; type < 2; type++) {
			begin(&s, &sample, kernels_get(type ? DTYPE_F64 : DTYPE_F32));
			struct arrays x = arrays_of(&s, 2);
			for (size_t j = 0; j < 6; j++)
				set(&s.v, x.v, j, (double)values[j]);
			forward(&s, x.y, x.v, NULL, NULL);
			for (size_t j = 0; j < 6; j++) {
				double got = get(&s.y, x.y, j), want = i ? brain[j] : half[j];
				ck_assert_msg(isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want), "%d %zu: %a",
				              i, j, got);
			}
			/* a cotangent of that type is a value of that type */
			for (size_t j = 0; j < 6; j++)
				set(&s.y, x.g, j, (double)values[j]);
			vjp(&s, x.dv, NULL, x.g, NULL, NULL, NULL, NULL);
			for (size_t j = 0; j < 6; j++) {
				const double got = get(&s.v, x.dv, j), want = i ? brain[j] : half[j];
				ck_assert_msg(isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want), "%d %zu: %a",
				              i, j, got);
			}
			arrays_free(&x);
			arena_free(&s.arena);
		}
	}
}
END_TEST

/* ---- golden data: lines "type op arguments|shape values|shape values|shape values|ulp" ---- */

static bool read_array(const char **text, struct type *type, void **data)
{
	char *end;
	type->shape.ndim = (int)strtol(*text, &end, 10);
	for (int i = 0; i < type->shape.ndim; i++)
		type->shape.dim[i] = strtol(end, &end, 10);
	*data = block_of(type);
	for (size_t i = 0; i < count_of(type); i++)
		set(type, *data, i, strtod(end, &end));
	end += strspn(end, " ");
	*text = end + (*end == '|');
	return *end == '|';
}

static double distance(const struct type *type, double got, double want)
{
	if (isnan(want) || isnan(got) || isinf(want) || isinf(got))
		return (isnan(want) && isnan(got)) || got == want ? 0 : INFINITY;
	double ulp = wide(type) ? nextafter(fabs(want), INFINITY) - fabs(want)
	                        : (double)(nextafterf((float)fabs(want), INFINITY) - (float)fabs(want));
	return fabs(got - want) / ulp;
}

static void check_golden(const char *line, const struct kernels *kernels)
{
	struct sample sample = {0};
	struct setup s;
	struct type y;
	void *v, *a, *want;
	char text[128];
	const char *bar = strchr(line, '|'), *at = bar + 1;
	snprintf(text, sizeof text, "%.*s", (int)(bar - line - 4), line + 4);
	sample.text = text;
	y.dtype = kernels->dtype;
	struct type v_type = {kernels->dtype, {0}}, a_type = v_type;
	ck_assert_msg(read_array(&at, &v_type, &v) && read_array(&at, &a_type, &a) && read_array(&at, &y, &want), "%s",
	              line);
	double limit = strtod(at, NULL);
	sample.v = v_type.shape;
	sample.a = a_type.shape;
	ck_assert_msg(begin(&s, &sample, kernels), "%s", text);
	ck_assert_msg(shape_equal(&s.y.shape, &y.shape), "%s: the shape of the result", text);
	void *got = block_of(&y);
	forward(&s, got, v, a, NULL);
	for (size_t i = 0; i < count_of(&y); i++)
		ck_assert_msg(distance(&y, get(&y, got, i), get(&y, want, i)) <= limit,
		              "%s %.3s (%s): element %zu is %.17g, not %.17g", text, line, kernels->isa, i, get(&y, got, i),
		              get(&y, want, i));
	free(got);
	free(v);
	free(a);
	free(want);
	arena_free(&s.arena);
}

START_TEST(test_golden)
{
	struct arena arena;
	char path[512], *line = NULL;
	size_t room = 0;
	int lines = 0;
	const char *top = getenv("TOP");
	static const char *const names[] = {"general", "general", "stencils", "windows"};
	snprintf(path, sizeof path, "%s/tests/golden/ops/%s.txt", top ? top : ".", names[_i]);
	FILE *file = fopen(path, "r");
	ck_assert_msg(file != NULL, "%s cannot be read", path);
	arena_init(&arena, &allocator_system);
	if (_i == 1)
		load_blas(&arena);
	while (getline(&line, &room, file) > 0) {
		if (*line == '#')
			continue;
		const struct kernels *tables[4];
		size_t count = kernels_all(strncmp(line, "f64", 3) ? DTYPE_F32 : DTYPE_F64, tables);
		for (size_t k = 0; k < count; k++)
			check_golden(line, tables[k]);
		lines++;
	}
	ck_assert_int_gt(lines, 100);
	free(line);
	fclose(file);
	arena_free(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("general");
	TCase *tests = suite_make_case(suite, "general");
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, test_all_rows_have_samples);
	tcase_add_loop_test(tests, test_slopes, 0, SAMPLES);
	tcase_add_test(tests, test_slopes_of_blas);
	tcase_add_loop_test(tests, test_sets_agree, 0, SAMPLES);
	tcase_add_test(tests, test_hidden_ends);
	tcase_add_loop_test(tests, test_empty, 0, SAMPLES);
	tcase_add_loop_test(tests, test_no_numbers, 0, SAMPLES);
	tcase_add_test(tests, test_empty_and_endless);
	tcase_add_test(tests, test_gradients_of_empty_results);
	tcase_add_test(tests, test_all_folds_have_samples);
	tcase_add_loop_test(tests, test_folds_by_tiles, 0, FOLDS);
	tcase_add_test(tests, test_all_neighbours_have_samples);
	tcase_add_loop_test(tests, test_halos, 0, NEIGHBOURS);
	tcase_add_loop_test(tests, gathers_make_parts_of_the_whole, 0, SAMPLES);
	tcase_add_loop_test(tests, test_windows, 0, NEIGHBOURS);
	tcase_add_test(tests, test_transposed_matrices);
	tcase_add_test(tests, test_lines_together);
	tcase_add_loop_test(tests, test_convolutions_in_pieces, 0, 13);
	tcase_add_test(tests, test_extremes);
	tcase_add_test(tests, test_philox);
	tcase_add_loop_test(tests, test_dropout_streams, 0, 2);
	tcase_add_test(tests, test_dropout_by_tiles);
	tcase_add_loop_test(tests, test_broadcast, 0, 16);
	tcase_add_test(tests, test_classes);
	tcase_add_test(tests, test_casts);
	tcase_add_loop_test(tests, test_golden, 0, 4);
	return suite_run(suite);
}
