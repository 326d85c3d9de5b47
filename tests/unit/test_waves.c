/*
 * Waves: with every instruction set, number of threads and policy, launches that wait and run a few rows at a time give the bits of
 * the same launches one after another, forward and backward, and the plan is the run. Chains are random.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "exec/run.h"
#include "ops/kernels.h"
#include "scratch.h"
#include "suite.h"
#include "trial.h"

enum { TEXT = 2048, LEAST_ELEMENTS = 110000 /* two thirds of them are enough to wait */ };

struct random_text {
	uint64_t seed;
	char text[TEXT];
	size_t used;
	struct type type;
	bool names; /* the chain binds `before` */
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

static void put_laplacian(struct random_text *r)
{
	static const char *const boundaries[] = {"zero", "periodic", "reflect"}, *const dx[] = {"", " dx=0.5", " dx=3"};
	put(r, "laplacian boundary=%s%s", boundaries[draw(r, 3)], dx[draw(r, 3)]);
	if (draw(r, 5) == 0)
		put(r, " order=%d", 4 + 2 * draw(r, 3));
	if (draw(r, 4) == 0)
		put(r, " axes=[%d]", draw(r, r->type.shape.ndim));
}

/* Puts a stage that reads neighbours and keeps the shape. */
static void put_neighbours(struct random_text *r)
{
	static const char *const boundaries[] = {"zero", "periodic", "reflect"};
	static const char *const weights[] = {"0.25, -0.5, 0.2", "0.1, 0.2, -0.4, 0.1, 0.3", "0.5"};
	const int axis = draw(r, 3) ? 0 : draw(r, r->type.shape.ndim), count = 1 + draw(r, 3), after = draw(r, 3);
	switch (draw(r, 8)) {
	case 0:
	case 1:
		put(r, "stencil [%s] axis=%d boundary=%s", weights[draw(r, 3)], axis, boundaries[draw(r, 3)]);
		break;
	case 2:
		put(r, "roll %d axis=%d", draw(r, 7) - 3, axis);
		break;
	case 3:
		put(r, "pad %d %d axis=%d value=0.5; slice start=%d%s axis=%d", count, after, axis, count + after,
		    draw(r, 2) ? "" : " step=1", axis);
		break;
	case 4:
		put(r, "slice start=%d axis=%d; pad %d 0 axis=%d value=-1", count, axis, count, axis);
		break;
	default:
		put_laplacian(r);
	}
}

/* Puts a stage, a row of whose result follows from the same row alone, if the array has several axes. It is no group. */
static void put_rows(struct random_text *r)
{
	static const char *const along[] = {"softmax", "log_softmax", "layernorm", "rmsnorm", "cumsum"};
	const int axis = r->type.shape.ndim - 1 > 0 ? 1 + draw(r, r->type.shape.ndim - 1) : 0;
	switch (axis ? draw(r, 5) : 3) {
	case 0:
		put(r, "sub { mean axis=%d keepdims=true }; ", axis);
		break;
	case 1:
		put(r, "div { amax axis=%d keepdims=true; abs; add 1 }; ", axis);
		break;
	case 2:
		put(r, "concat { mul 0.5 } axis=%d; slice step=2 axis=%d; ", axis, axis);
		break;
	case 3:
		put(r, "dropout 0.25 seed=%d; ", draw(r, 9));
		break;
	default:
		put(r, "%s axis=%d; mul 0.1; ", along[draw(r, 5)], axis);
	}
}

static void put_stage(struct random_text *r)
{
	static const char *const boundaries[] = {"zero", "periodic", "reflect"};
	const int axis = draw(r, r->type.shape.ndim), count = 1 + draw(r, 3);
	switch (draw(r, 15)) {
	case 0:
	case 1:
	case 2:
		put(r, "add { ");
		put_neighbours(r);
		put(r, draw(r, 2) ? "; mul 0.1 }; " : "; mul 0.05; tanh }; ");
		break;
	case 3:
		put_neighbours(r);
		put(r, "; mul 0.1; ");
		break;
	case 4:
		put(r, draw(r, 2) ? "sin; " : "relu; add c; ");
		break;
	case 5:
		put(r, "stencil [0.25, -0.5, 0.2] axis=%d boundary=%s; ", axis, boundaries[draw(r, 3)]);
		break;
	case 6:
		put(r, "roll %d axis=%d; mul 0.9; ", draw(r, 7) - 3, axis);
		break;
	case 7:
		put(r, "pad %d 1 axis=%d value=0.5; slice start=%d stop=-1 axis=%d; mul 0.7; ", count, axis, count, axis);
		break;
	case 8:
		put(r, "add { roll 1 axis=0; sub { roll -1 axis=0 }; mul 0.1 }; ");
		break;
	case 9:
		put(r, "name q; mul 2; sub before; add { use q; ");
		put_neighbours(r);
		put(r, "; mul 0.25 }; mul 0.3; name z; use q; name before; use z; ");
		break;
	case 10:
		put(r, draw(r, 2) ? "softmax; " : "sub { mean axis=0 }; ");
		break;
	case 11:
	case 12:
	case 13:
		put_rows(r);
		break;
	default:
		put(r, "mul b; ");
	}
}

static void make_text(struct random_text *r, unsigned seed)
{
	*r = (struct random_text){.seed = seed * 0x9e3779b97f4a7c15u + 1};
	struct shape *shape = &r->type.shape;
	r->type.dtype = draw(r, 3) ? DTYPE_F32 : DTYPE_F64;
	shape->ndim = 1 + (draw(r, 8) > 0) + (draw(r, 6) == 0);
	int64_t count = 1;
	for (int i = shape->ndim - 1; i > 0; i--)
		count *= shape->dim[i] = shape->ndim == 3 ? 20 + draw(r, 40)
		                         : draw(r, 6)     ? 100 + draw(r, 400)
		                                          : 30000 - draw(r, 9);
	shape->dim[0] = LEAST_ELEMENTS / count + 1 + draw(r, 9);
	put(r, "param b: f64[%d] = normal(1, 1); param c: f64[] = 0.5; name before; ", (int)shape->dim[shape->ndim - 1]);
	put(r, "repeat %d { ", 1 + draw(r, 12));
	for (int i = 1 + draw(r, 3); i-- > 0;)
		put_stage(r);
	put(r, "}; ");
	for (int i = draw(r, 2); i-- > 0;)
		put_stage(r);
}

static void compare(const struct trial *t, const char *what, const void *got, const void *want, size_t bytes)
{
	const unsigned char *a = got, *b = want;
	for (size_t i = 0; memcmp(a, b, bytes) != 0 && i < bytes; i++)
		ck_assert_msg(a[i] == b[i], "%s of '%s', %s, %s, %d threads differs in byte %zu of %zu", what, t->text,
		              t->forward ? "run" : t->policy, getenv("CKPTC_ISA"), t->threads, i, bytes);
}

static void compare_gradients(const struct trial *t, const struct trial *want)
{
	compare(t, "value", t->value.data, want->value.data, want->value.size);
	compare(t, "gradient", t->gradient.data, want->gradient.data, want->gradient.size);
	for (size_t i = 0; i < want->result.param_count; i++)
		if (want->result.params[i].data)
			compare(t, "param", t->result.params[i].data, want->result.params[i].data, want->result.params[i].size);
	ck_assert_msg(t->result.measured.peak_bytes == t->result.predicted.peak_bytes, "%s %s: peak %lld, predicted %lld",
	              t->text, t->policy, (long long)t->result.measured.peak_bytes,
	              (long long)t->result.predicted.peak_bytes);
}

static void *make_input(struct random_text *r)
{
	const int64_t count = shape_count(&r->type.shape);
	void *data = arena_array(&arena, (size_t)count, sizeof(double));
	for (int64_t i = 0; i < count; i++) {
		const double number = draw(r, 2001) / 1000.0 - 1;
		if (r->type.dtype == DTYPE_F64)
			((double *)data)[i] = number;
		else
			((float *)data)[i] = (float)number;
	}
	return data;
}

/* Marks the operations on neighbours that the chain TEXT has. */
static void note_neighbours(const char *text, bool found[OP_COUNT])
{
	for (int op = 0; op < OP_COUNT; op++)
		found[op] |= op_table[op].scope != SCOPE_NEIGHBOUR || strstr(text, op_table[op].name);
}

/*
 * Runs the chain of R on windows of two thirds of the rows or more, in which groups wait too. Sums over rows go by tiles
 * then, so chains with folds are left out, and gradients of params. Returns true if there were several windows.
 */
static bool check_windows(struct random_text *r, const struct trial *want, const char *policy)
{
	if (strstr(r->text, "mean") || (r->type.shape.ndim == 1 && strstr(r->text, "softmax")))
		return false;
	struct trial t = *want;
	t.policy = policy;
	t.apart = false;
	t.threads = 1 + draw(r, 2);
	t.whole_bytes = 1;
	t.tile = r->type.shape.dim[0] * 2 / 3 + 1;
	t.value = t.gradient = (struct kept_array){0};
	run_trial(&t);
	compare(&t, "value in windows", t.value.data, want->value.data, want->value.size);
	compare(&t, "gradient in windows", t.gradient.data, want->gradient.data, want->gradient.size);
	ck_assert_int_eq(t.result.measured.peak_bytes, t.result.predicted.peak_bytes);
	const bool windows = t.result.job.tiles.windows && tiles_chunks(&t.result.job.tiles) > 1;
	gradient_free(&t.result);
	return windows;
}

/* Returns true if the chain ran in several windows too. */
static bool check_seed(unsigned seed, bool found[OP_COUNT])
{
	static const char *const policies[] = {"save-all",  "nothing",   "every:3",   "sqrt",
	                                       "recursive", "revolve:2", "revolve:4", "auto"};
	const struct kernels *sets[4];
	const int set_count = (int)kernels_all(DTYPE_F32, sets);
	struct random_text r;
	make_text(&r, seed);
	struct trial want = {.text = r.text, .input = r.type, .policy = "save-all", .threads = 1, .apart = true};
	setenv("CKPTC_ISA", sets[draw(&r, 2) ? 0 : draw(&r, set_count)]->isa, 1);
	want.data = make_input(&r);
	run_trial(&want);
	for (int i = 0; i < 3; i++) {
		struct trial t = {.text = r.text, .input = r.type, .data = want.data};
		t.policy = policies[draw(&r, (int)(sizeof policies / sizeof *policies))];
		t.threads = 1 + i % 2 + (draw(&r, 5) == 0);
		run_trial(&t);
		compare_gradients(&t, &want);
		struct trial forward = t;
		forward.forward = true;
		forward.value = (struct kept_array){0};
		run_trial(&forward);
		compare(&forward, "output", forward.value.data, want.value.data, want.value.size);
		gradient_free(&t.result);
	}
	const bool windows = check_windows(&r, &want, policies[draw(&r, (int)(sizeof policies / sizeof *policies))]);
	gradient_free(&want.result);
	note_neighbours(r.text, found);
	return windows;
}

START_TEST(waves_have_the_bits_of_groups_one_after_another)
{
	const char *instrumented = getenv("INSTRUMENTED"); /* empty without sanitizers */
	const int seeds = instrumented && *instrumented ? 12 : 60;
	bool found[OP_COUNT] = {false};
	int windows = 0;
	const unsigned from = getenv("WAVES_SEED") ? (unsigned)atoi(getenv("WAVES_SEED")) : 1;
	for (unsigned seed = from; seed < from + (unsigned)seeds; seed++) {
		windows += check_seed(seed, found);
		arena_free(&arena);
		scratch_teardown();
		scratch_setup();
	}
	ck_assert_int_gt(windows, 0);
	for (int op = 0; op < OP_COUNT; op++)
		ck_assert_msg(found[op], "no chain has '%s': add it", op_table[op].name);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("waves");
	TCase *tcase = suite_make_case(suite, "waves");
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, waves_have_the_bits_of_groups_one_after_another);
	return suite_run(suite);
}
