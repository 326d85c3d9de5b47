/*
 * Windows: whatever the tiles, threads, policy and end of the input, a chain of row-wise and neighbouring stages gives
 * the bits of the whole array, and the plan is the run. With folds of rows it gives the bits of other tiles. Chains are random.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "exec/run.h"
#include "scratch.h"
#include "suite.h"
#include "trial.h"

enum { TEXT = 2048, FIELDS = 3 };

struct random_text {
	uint64_t seed;
	char text[TEXT];
	size_t used;
	int64_t rows, columns; /* of the current value */
	bool wraps;            /* stages go around the ends; else they have rules for them */
	bool sums, dropout, product;
	bool
		folds; /* stages may fold the rows: then the blocks, and so the last bits, follow from the limit of a whole array */
};

static int draw(struct random_text *r, int below)
{
	r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
	return (int)((r->seed >> 33) % (uint64_t)below);
}

__attribute__((format(printf, 2, 3))) static void put(struct random_text *r, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	r->used += (size_t)vsnprintf(r->text + r->used, TEXT - r->used, format, arguments);
	va_end(arguments);
	ck_assert_uint_lt(r->used, TEXT);
}

static const char *boundary(struct random_text *r) { return r->wraps ? "periodic" : draw(r, 2) ? "zero" : "reflect"; }

/* KEEP: the stage must keep the number of rows, since it is in a loop. */
static void put_stage(struct random_text *r, bool keep, int depth)
{
	int before, after;
	switch (draw(r, r->folds ? 20 : 13)) {
	case 0:
		put(r, "sin; ");
		break;
	case 1:
		put(r, "laplacian order=%d dx=2 boundary=%s; ", 2 + 2 * draw(r, 4), boundary(r));
		break;
	case 2:
		put(r, "add { laplacian axes=[0] boundary=%s; mul 0.1 }; ", boundary(r));
		break;
	case 3:
		put(r, "stencil [%d, 1, -0.5, 0.25, 2] axis=0 boundary=%s; ", draw(r, 3), boundary(r));
		break;
	case 4:
		put(r, r->wraps ? "roll %d axis=0; " : "mul 0.%d; ", 1 + draw(r, 3));
		break;
	case 5:
		if (keep || r->wraps)
			break;
		before = draw(r, 3), after = draw(r, 3);
		put(r, "pad %d %d value=0.5; ", before, after);
		r->rows += before + after;
		break;
	case 6:
		if (keep || r->wraps)
			break;
		before = draw(r, 3), after = 1 + draw(r, 2);
		put(r, "slice start=%d stop=-%d; ", before, after);
		r->rows -= before + after;
		break;
	case 7:
		put(r, "softmax; ");
		break;
	case 8:
		put(r, "mul b; tanh; ");
		r->sums = true;
		break;
	case 9:
		put(r, "relu; add c; ");
		r->sums = true;
		break;
	case 10:
		if (!r->wraps) {
			put(r, "dropout 0.25 seed=3; ");
			r->dropout = true;
		}
		break;
	case 13:
		put(r, "sub { mean axis=0 }; ");
		break;
	case 14:
		put(r, "layernorm axis=0; ");
		break;
	case 15:
		put(r, "div { std axis=0; add 1 }; ");
		break;
	case 16:
		put(r, "softmax axis=0; mul 100; ");
		break;
	case 17:
		if (depth == 0)
			put(r, "name k; %s axis=0; rsub k; ", draw(r, 2) ? "amax" : "norm");
		break;
	case 18:
		put(r, "sub { sin; logsumexp axis=0; mul 0.2 }; ");
		break;
	case 19:
		put(r, "add { tanh; mul b; sum axis=0; mul 0.001 }; ");
		r->sums = true;
		break;
	case 11:
		if (depth == 0)
			put(r, "name before; sin; add before; ");
		break;
	default:
		if (depth > 1)
			break;
		put(r, "repeat %d { ", 1 + draw(r, 5));
		for (int i = 1 + draw(r, 2); i-- > 0;)
			put_stage(r, true, depth + 1);
		put(r, "}; ");
	}
}

static void make_text(struct random_text *r, unsigned seed)
{
	*r = (struct random_text){.seed = seed * 0x9e3779b97f4a7c15u + 1};
	r->folds = draw(r, 2);
	r->rows = (r->folds ? 700 : 150) + draw(r, 200);
	r->columns = 1 + draw(r, 5);
	r->wraps = draw(r, 3) == 0;
	put(r, "param b: f64[%d] = normal(1, 1); param c: f64[] = 0.5; ", (int)r->columns);
	put(r, "param s: f64[%d,%d] = normal(1, 2); ", (int)r->rows, (int)r->columns);
	static const char *const uses[] = {"mul s; ", "add s; ", "mul s; add s; ", "add s; mul s; sin; add { mul s }; "};
	put(r, "%s", uses[draw(r, 4)]);
	for (int i = 1 + draw(r, 5); i-- > 0;)
		put_stage(r, false, 0);
	if (draw(r, 3))
		return;
	r->sums = true;
	static const char *const losses[] = {"mse", "mae", "huber"};
	put(r, "param t: f64[%d,%d] = normal(1, 5); ", draw(r, 2) ? (int)r->rows : 1, (int)r->columns);
	put(r, "%s t; ", losses[draw(r, 3)]);
}

static bool near(double a, double b, double scale)
{
	return fabs(a - b) <= 1e-12 * fmax(scale, 1) || (isnan(a) && isnan(b));
}

/* Compares COUNT elements: their bits, or if NEAR their values. */
static void compare(const struct trial *t, const char *what, const void *got, const void *want, size_t count, bool bits)
{
	const double *a = got, *b = want;
	double scale = 0;
	for (size_t i = 0; i < count; i++)
		scale = fmax(scale, fabs(b[i]));
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(bits ? memcmp(&a[i], &b[i], sizeof *a) == 0 : near(a[i], b[i], scale),
		              "%s of '%s', %s, tile %lld, %d threads, element %zu: %.17g, should be %.17g", what, t->text,
		              t->policy, (long long)t->tile, t->threads, i, a[i], b[i]);
}

static void compare_gradients(const struct trial *t, const struct trial *want, const struct random_text *r,
                              bool same_tiles)
{
	const bool loss = want->value.size == sizeof(double), rowwise = same_tiles || !r->folds;
	compare(t, "value", t->value.data, want->value.data, want->value.size / sizeof(double),
	        same_tiles || (rowwise && !loss));
	compare(t, "gradient", t->gradient.data, want->gradient.data, want->gradient.size / sizeof(double), rowwise);
	for (size_t i = 0; i < want->result.param_count; i++) {
		const struct param_gradient *a = &t->result.params[i], *b = &want->result.params[i];
		const bool rows = b->type.shape.ndim == 2 && b->type.shape.dim[0] > 1;
		if (b->data)
			compare(t, "param", a->data, b->data, b->size / sizeof(double),
			        same_tiles || (rowwise && (rows || !r->sums)));
	}
}

static void check_counters(const struct trial *t)
{
	const struct counters *measured = &t->result.measured, *predicted = &t->result.predicted;
	ck_assert_msg(measured->peak_bytes == predicted->peak_bytes, "%s %s: peak %lld, predicted %lld", t->text, t->policy,
	              (long long)measured->peak_bytes, (long long)predicted->peak_bytes);
	ck_assert_int_eq(measured->stored_bytes, predicted->stored_bytes);
	ck_assert_int_eq(measured->halo_rows, predicted->halo_rows);
	ck_assert_int_eq(measured->halo_rows, t->result.job.tiles.window - t->result.job.tiles.tile);
	ck_assert_int_eq(measured->passes, predicted->passes);
	ck_assert_int_eq(measured->evaluations, predicted->evaluations);
	ck_assert_int_eq(measured->checkpoints, predicted->checkpoints);
}

static double *make_input(const struct random_text *r, struct type *type, const char *text)
{
	int64_t rows = 0, columns = 0;
	ck_assert_int_eq(sscanf(strstr(text, "param s"), "param s: f64[%ld,%ld]", &rows, &columns), 2);
	*type = (struct type){.dtype = DTYPE_F64, .shape = {2, {rows, columns}}};
	double *data = arena_array(&arena, (size_t)(rows * columns), sizeof *data);
	struct random_text noise = *r;
	for (int64_t i = 0; i < rows * columns; i++)
		data[i] = draw(&noise, 2001) / 1000.0 - 1;
	return data;
}

/* Returns the number of tiles of the windowed gradient. Sets *CARRIED if tiles of a forward run carried rows. */
static int64_t check_seed(unsigned seed, bool *carried)
{
	static const char *const policies[] = {"save-all",  "nothing",   "every:2",  "sqrt",
	                                       "recursive", "revolve:2", "revolve:4"};
	struct random_text r;
	make_text(&r, seed);
	struct trial whole = {.text = r.text, .policy = "save-all", .threads = 1, .whole_bytes = INT64_MAX};
	whole.data = make_input(&r, &whole.input, r.text);
	run_trial(&whole);
	struct trial first = {0};
	int64_t tiles = 0;
	for (int i = 0; i < 5; i++) {
		struct trial t = {.text = r.text, .input = whole.input, .data = whole.data, .threads = 1 + draw(&r, 3)};
		t.policy = policies[draw(&r, (int)(sizeof policies / sizeof *policies))];
		t.whole_bytes = 1;
		t.tile = draw(&r, 2) ? 2 + draw(&r, 60) : 0;
		run_trial(&t);
		compare_gradients(&t, &whole, &r, false);
		if (i > 0)
			compare_gradients(&t, &first, &r, r.sums || r.folds);
		else
			first = t;
		check_counters(&t);
		tiles = greater(tiles, t.result.job.tiles.windows ? tiles_chunks(&t.result.job.tiles) : 0);
		struct trial forward = t;
		forward.forward = true;
		forward.value = (struct kept_array){0};
		run_trial(&forward);
		const bool loss = whole.value.size == sizeof(double);
		compare(&forward, "output", forward.value.data, (loss || r.folds ? &first : &whole)->value.data,
		        whole.value.size / sizeof(double), true);
		*carried |= forward.counters.halo_rows > 0 && forward.counters.chunks < forward.counters.tiles;
		if (i > 0)
			gradient_free(&t.result);
	}
	gradient_free(&first.result);
	gradient_free(&whole.result);
	return tiles;
}

START_TEST(random_chains_have_the_bits_of_the_whole_array)
{
	enum { SEEDS = 150 };
	const unsigned from = getenv("WINDOWS_SEED") ? (unsigned)atoi(getenv("WINDOWS_SEED")) : 1;
	int cut = 0, carrying = 0;
	for (unsigned seed = from; seed < from + SEEDS; seed++) {
		bool carried = false;
		cut += check_seed(seed, &carried) > 1;
		carrying += carried;
		arena_free(&arena);
		scratch_teardown();
		scratch_setup();
	}
	ck_assert_int_gt(cut, SEEDS / 3);
	ck_assert_int_gt(carrying, SEEDS / 8);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("windows");
	TCase *tcase = suite_make_case(suite, "windows");
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, random_chains_have_the_bits_of_the_whole_array);
	return suite_run(suite);
}
