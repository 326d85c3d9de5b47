/*
 * Values and derivatives at the edges of products, convolutions, stencils, and of operations that move or scale elements,
 * on numbers of any exponent, on every instruction set and in both types. With test_edges (rows of ops.def without a
 * function of their own) and test_edges_lines (edge_lines.h), that is every operation: a row without a sample fails.
 *
 * Each element of a result is a sum of terms c v[j] a[k], c v[j] or c a[k]. The operation itself tells its terms, on arrays of
 * one 1 (test_general compares such results with NumPy's and torch's). The true value and both derivatives follow from these
 * terms, in long double, whose exponents hold every product.
 *
 * The bound (ckptc-chain(5)): a sum of n terms in the type errs by at most n + 4 half units of the last place of the sum of
 * the terms' magnitudes, where that is in the type's range. The sum is then neither infinite nor NaN, and is 0 only where terms cancel.
 */
#include "ops/general.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edge_lines.h"
#include "samples.h"
#include "suite.h"
#include "wide_numbers.h"

/* What test_general has no finite differences for, or takes long to differentiate. */
static const struct sample more_samples[] = {
	{"matmul", SHAPE(2, 2, 700), SHAPE(2, 700, 3)},
	{"matmul", SHAPE(2, 300, 2), SHAPE(2, 2, 40)},
	{"linear", SHAPE(2, 17, 300), SHAPE(2, 2, 300)},
	{"dot", SHAPE(2, 300, 5), SHAPE(2, 3, 300)},
	{"conv2d padding=1", SHAPE(4, 1, 20, 6, 5), SHAPE(4, 3, 20, 3, 3)},
	{"cast f16", SHAPE(1, 100), SHAPE0},
	{"cast bf16", SHAPE(1, 100), SHAPE0},
	{"cast f32", SHAPE(1, 100), SHAPE0},
};
enum { MORE = sizeof more_samples / sizeof *more_samples, ALL_SAMPLES = SAMPLES + MORE };
static const struct sample *sample_at(int i) { return i < SAMPLES ? &samples[i] : &more_samples[i - SAMPLES]; }

/* y[i] has the term c v[j] a[k]; a factor of index NONE is 1. */
enum { NONE = -1 };
struct term {
	int i, j, k;
	double c;
};
struct terms {
	struct term *at;
	size_t count, limit;
};

static void add_term(struct terms *terms, struct term term)
{
	if (terms->count == terms->limit) {
		terms->limit = terms->limit ? 2 * terms->limit : 1024;
		terms->at = realloc(terms->at, terms->limit * sizeof *terms->at);
		ck_assert_ptr_nonnull(terms->at);
	}
	terms->at[terms->count++] = term;
}

/* ---- the terms of an operation ---- */

/* What an operation of doubles makes of probes: Y of zeros, and of V's 1 at one index beside three kinds of A. */
struct probes {
	const struct setup *s;
	double *v, *a, *k, *base, *alone, *ones, *sums, *indices;
	double *a_ones, *a_indices; /* A of ones, and of 1, 2, 3, ... */
};

/* Stores in Y what the operation makes of V and A. A cast's result may be of floats. */
static void probe(const struct probes *p, double *y, const double *a)
{
	forward(p->s, y, p->v, a, p->k);
	for (size_t i = count_of(&p->s->y); !wide(&p->s->y) && i-- > 0;)
		y[i] = get(&p->s->y, y, i);
}

/* Adds the terms of V's element J. Each result has at most one product of that element, which two probes tell. */
static void probe_v(struct probes *p, struct terms *terms, size_t j)
{
	const size_t outs = count_of(&p->s->y);
	p->v[j] = 1;
	probe(p, p->alone, p->a);
	if (p->a_ones) {
		probe(p, p->sums, p->a_ones);
		probe(p, p->indices, p->a_indices);
	}
	p->v[j] = 0;
	for (size_t i = 0; i < outs; i++) {
		const double c = p->alone[i] - p->base[i], all = p->a_ones ? p->sums[i] - p->ones[i] - c : 0;
		if (c != 0)
			add_term(terms, (struct term){(int)i, (int)j, NONE, c});
		if (all != 0)
			add_term(terms, (struct term){(int)i, (int)j, (int)(p->indices[i] / all) - 1, all});
	}
}

/* Adds the terms of the operand's elements that stand without V, as in concat. */
static void probe_a(struct probes *p, struct terms *terms)
{
	const size_t outs = count_of(&p->s->y);
	bool any = false;
	probe(p, p->ones, p->a_ones);
	for (size_t i = 0; i < outs; i++)
		any |= p->ones[i] != p->base[i];
	for (size_t k = 0; any && k < count_of(&p->s->a); k++) {
		p->a[k] = 1;
		probe(p, p->alone, p->a);
		p->a[k] = 0;
		for (size_t i = 0; i < outs; i++)
			if (p->alone[i] != p->base[i])
				add_term(terms, (struct term){(int)i, NONE, (int)k, p->alone[i] - p->base[i]});
	}
}

static struct terms terms_of(const struct sample *sample)
{
	struct setup s;
	struct terms terms = {0};
	ck_assert_msg(begin(&s, sample, kernels_get(DTYPE_F64)), "%s", sample->text);
	const size_t m = count_of(&s.a), outs = count_of(&s.y);
	const bool operand = op_table[s.op].operands > 0;
	double *memory = calloc(count_of(&s.v) + 3 * m + 5 * outs + count_of(&s.k) + 1, sizeof *memory);
	ck_assert_ptr_nonnull(memory);
	struct probes p = {.s = &s, .v = memory, .a = memory + count_of(&s.v)};
	p.base = p.a + 3 * m;
	p.alone = p.base + outs;
	p.ones = p.alone + outs;
	p.sums = p.ones + outs;
	p.indices = p.sums + outs;
	p.k = p.indices + outs;
	probe(&p, p.base, p.a);
	for (size_t i = 0; i < outs; i++)
		if (p.base[i] != 0)
			add_term(&terms, (struct term){(int)i, NONE, NONE, p.base[i]});
	if (operand) {
		p.a_ones = p.a + m;
		p.a_indices = p.a_ones + m;
		for (size_t k = 0; k < m; k++) {
			p.a_ones[k] = 1;
			p.a_indices[k] = (double)(k + 1);
		}
		probe_a(&p, &terms);
	}
	for (size_t j = 0; j < count_of(&s.v); j++)
		probe_v(&p, &terms, j);
	free(memory);
	arena_free(&s.arena);
	return terms;
}

/* ---- sums of terms ---- */

/* A sum of COUNT terms, SUM, and of their magnitudes, SIZE; the largest number of the type if one of them is beyond. */
struct long_sum {
	real sum, size;
	long count;
};

static real value_at(const struct type *type, const void *array, int i)
{
	return i == NONE ? 1 : (real)get(type, array, (size_t)i);
}

static void sum_term(struct long_sum *to, real x)
{
	to->sum += x;
	to->size += fabsl(x);
	to->count++;
}

struct edge_arrays {
	void *v, *a, *y, *k, *g, *dv, *da;
	struct long_sum *true_y, *true_dv, *true_da;
};

static void sum_terms(const struct setup *s, const struct terms *terms, struct edge_arrays *x)
{
	memset(x->true_y, 0, count_of(&s->y) * sizeof *x->true_y);
	memset(x->true_dv, 0, count_of(&s->v) * sizeof *x->true_dv);
	memset(x->true_da, 0, count_of(&s->a) * sizeof *x->true_da);
	for (const struct term *t = terms->at; t < terms->at + terms->count; t++) {
		const real v = value_at(&s->v, x->v, t->j), a = value_at(&s->a, x->a, t->k), g = value_at(&s->y, x->g, t->i);
		const real c = (real)t->c;
		sum_term(&x->true_y[t->i], c * v * a);
		if (t->j != NONE)
			sum_term(&x->true_dv[t->j], c * g * a);
		if (t->k != NONE)
			sum_term(&x->true_da[t->k], c * g * v);
	}
}

/* ---- numbers and comparisons ---- */

static uint64_t seed;
static double draw(void) { return wide_unit(&seed); }

/* Returns an exponent from one end of TYPE's range to the other. */
static int any_exponent(enum dtype dtype)
{
	const int whole = dtype == DTYPE_F64 ? 1021 : 125;
	return (int)(draw() * (2 * whole + 1)) - whole;
}

/* Fills an array with numbers of exponents around CENTRE, one or few of them zeros. */
static void draw_array(const struct type *type, void *array, int centre)
{
	static const int spreads[] = {0, 2, 20, 200, 2000};
	const int whole = wide(type) ? 1021 : 125, spread = spreads[(int)(draw() * 5)];
	const bool zeros = draw() < 0.3;
	for (size_t i = 0; i < count_of(type); i++) {
		int exponent = centre + (int)(draw() * (2 * spread + 1)) - spread;
		exponent = exponent > whole ? whole : exponent < -whole ? -whole : exponent;
		const double x = (draw() < 0.5 ? -1 : 1) * ldexp(1 + draw(), exponent);
		set(type, array, i, zeros && draw() < 0.3 ? 0 : wide_rounded(dtype_compute(type->dtype), x));
	}
}

/* The halves of a unit in the last place of 1, and the range, of a type that arrays are rounded to. */
struct precision {
	real half_unit, least, most;
};
static struct precision precision_of(enum dtype dtype)
{
	if (dtype == DTYPE_F16)
		return (struct precision){0x1p-11L, 0x1p-14L, 65504};
	if (dtype == DTYPE_BF16)
		return (struct precision){0x1p-8L, (real)FLT_MIN, (real)FLT_MAX};
	return (struct precision){epsilon_of(dtype), least_of(dtype), most_of(dtype)};
}

struct score {
	long compared;
	real worst; /* error over the bound */
};

/* A term may lose what is below the least number of the type, and is then scaled by at most 64. */
static void compare(const struct setup *s, const char *what, const struct type *type, const void *array,
                    const struct long_sum *want, struct score *score)
{
	const struct precision of_v = precision_of(s->v.dtype), of_y = precision_of(s->y.dtype);
	const struct precision p = of_v.half_unit > of_y.half_unit ? of_v : of_y; /* a cast rounds to the shorter one */
	for (size_t i = 0; i < count_of(type); i++) {
		const double have = get(type, array, i);
		const real terms = (real)want[i].count + 4, bound = terms * p.half_unit * (want[i].size + 64 * p.least);
		if (!(want[i].size < p.most / 64))
			continue;
		const real error = fabsl(have - want[i].sum) / bound;
		score->compared++;
		score->worst = fmaxl(score->worst, error);
		ck_assert_msg(error <= 1, "%s of %s, %s %s, element %zu of %ld terms: %a, not %La, magnitudes %Lg", what,
		              op_table[s->op].name, s->kernels->isa, s->v.dtype == DTYPE_F64 ? "f64" : "f32", i, want[i].count,
		              have, want[i].sum, want[i].size);
	}
}

static void check_terms(const struct setup *s, const struct terms *terms, struct edge_arrays *x, struct score score[2])
{
	const enum dtype dtype = s->kernels->dtype;
	const bool both = op_table[s->op].operand_differentiable;
	const int centre = draw() < 0.3 ? 0 : any_exponent(dtype);
	/* products are in range more often if the factors' exponents are of opposite signs */
	draw_array(&s->v, x->v, centre);
	draw_array(&s->a, x->a, draw() < 0.7 ? -centre / 2 : any_exponent(dtype));
	draw_array(&s->y, x->g, draw() < 0.7 ? -centre / 2 : any_exponent(dtype));
	sum_terms(s, terms, x);
	forward(s, x->y, x->v, x->a, keeps(s) ? x->k : NULL);
	vjp(s, x->dv, both ? x->da : NULL, x->g, x->v, x->a, x->y, x->k);
	compare(s, "value", &s->y, x->y, x->true_y, &score[0]);
	compare(s, "dv", &s->v, x->dv, x->true_dv, &score[1]);
	if (both)
		compare(s, "da", &s->a, x->da, x->true_da, &score[1]);
}

/* Returns how many rounds of SAMPLE are worth their time. */
static int rounds_of(const struct terms *terms) { return terms->count > 5000 ? 6 : SANITIZED ? 6 : 40; }

static void check_sample(const struct sample *sample, struct score score[OP_COUNT][2][2], size_t sets_most)
{
	struct terms terms = terms_of(sample);
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		const size_t sets = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
		for (size_t k = 0; k < sets && k < sets_most; k++) {
			struct setup s;
			ck_assert_msg(begin(&s, sample, tables[k]), "%s", sample->text);
			struct edge_arrays x = {.v = block_of(&s.v),
			                        .a = block_of(&s.a),
			                        .y = block_of(&s.y),
			                        .k = block_of(&s.k),
			                        .g = block_of(&s.y),
			                        .dv = block_of(&s.v),
			                        .da = block_of(&s.a)};
			x.true_y = calloc(count_of(&s.y) + count_of(&s.v) + count_of(&s.a), sizeof *x.true_y);
			ck_assert_ptr_nonnull(x.true_y);
			x.true_dv = x.true_y + count_of(&s.y);
			x.true_da = x.true_dv + count_of(&s.v);
			for (int round = 0; round < rounds_of(&terms); round++)
				check_terms(&s, &terms, &x, score[s.op][type]);
			void *all[] = {x.v, x.a, x.y, x.k, x.g, x.dv, x.da, x.true_y};
			for (size_t i = 0; i < sizeof all / sizeof *all; i++)
				free(all[i]);
			arena_free(&s.arena);
		}
	}
	free(terms.at);
}

static bool is_line(enum op op)
{
#define IS_LINE(NAME, ...) op == OP_##NAME ||
	return EDGE_LINES(IS_LINE) false;
}

/* Prints the rows of the table that the environment asks for. */
static void print_scores(struct score score[OP_COUNT][2][2])
{
	for (int op = 0; op < OP_COUNT && getenv("EDGES_TABLE"); op++)
		for (int type = 0; type < 2 && score[op][0][0].compared; type++)
			printf("%-13s %s %7ld values %5.2Lf of the bound %8ld derivatives %5.2Lf\n", op_table[op].name,
			       type ? "f64" : "f32", score[op][type][0].compared, score[op][type][0].worst,
			       score[op][type][1].compared, score[op][type][1].worst);
}

/* True if the result's elements are some of V's or lie between two, which of them following from their values. */
static bool is_choice(enum op op)
{
	return op == OP_maxpool1d || op == OP_maxpool2d || op == OP_sort || op == OP_topk || op == OP_median ||
	       op == OP_quantile || op == OP_cummax || op == OP_cummin;
}
/*
 * True if OP is curved, or is a transform, whose errors go by the whole line and not by terms. test_general alone has values and
 * differences of these, and test_fft.
 */
static bool is_curved(enum op op)
{
	return op_is_transform(op) || op == OP_attention || op == OP_cumprod || op == OP_logcumsumexp ||
	       op == OP_groupnorm || op_libraries(op) & LIBRARY_LAPACK;
}
/* True if OP is no sum of terms, or its terms follow from indices (tests/cases/indices.test). */
static bool is_apart(enum op op)
{
	return is_line(op) || op_indices(op) || is_choice(op) || is_curved(op) || !op_table[op].differentiable;
}

/* Every general operation that is not in edge_lines.h has samples here, of which enough is in range to be compared. */

START_TEST(sums_of_terms)
{
	static struct score score[OP_COUNT][2][2];
	seed = 1;
	for (int i = 0; i < ALL_SAMPLES; i++)
		if (!is_apart(op_named(sample_at(i)->text)))
			check_sample(sample_at(i), score, 4);
	for (int op = 0; op < OP_COUNT; op++)
		for (int type = 0; type < 2 && op_table[op].class == OP_CLASS_GENERAL && !is_apart((enum op)op); type++)
			for (int part = 0; part < 2; part++)
				ck_assert_msg(score[op][type][part].compared > 100, "'%s' has no sample in this test: add one",
				              op_table[op].name);
	print_scores(score);
}
END_TEST

START_TEST(products_of_blas)
{
	static struct score score[OP_COUNT][2][2];
	struct arena arena;
	seed = 2;
	if (load_blas(&arena))
		for (int i = 0; i < ALL_SAMPLES; i++)
			if (op_is_product(op_named(sample_at(i)->text)))
				check_sample(sample_at(i), score, 1);
	print_scores(score);
	arena_free(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("edges_linear");
	TCase *tests = suite_make_case(suite, "terms");
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, sums_of_terms);
	tcase_add_test(tests, products_of_blas);
	return suite_run(suite);
}
