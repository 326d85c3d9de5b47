/*
 * Chains through ckptc.h alone: bound to arrays in memory, planned, run and differentiated; wrong input, failing
 * allocations and threads.
 */
#include "ckptc.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "api_errors.h"
#include "failing.h"
#include "suite.h"

enum { ROWS = 6, COLUMNS = 4, COUNT = ROWS * COLUMNS, STEPS = 9 };

static const char *const policies[] = {"save-all", "every:3",   "revolve:2",      "recursive", "nothing",
                                       "auto",     "budget:9K", "disk-revolve:1", "online:2"};
enum { POLICIES = sizeof policies / sizeof *policies };

/* Step i makes sin(x) * W[column] + i of x; W is one row. */
static const char text[] = "param W: f64[4]\nconst c = 0.5\nrepeat 9 { sin; mul W; add c }\n";

struct data {
	double x[COUNT], W[COLUMNS], value[COUNT], dx[COUNT], dW[COLUMNS];
};

static void make_data(struct data *d)
{
	for (int i = 0; i < COUNT; i++)
		d->x[i] = 0.1 * i - 1;
	for (int i = 0; i < COLUMNS; i++)
		d->W[i] = 0.7 + 0.1 * i;
	memset(d->dW, 0, sizeof d->dW);
	for (int i = 0; i < COUNT; i++) {
		double v[STEPS + 1] = {d->x[i]}, w = d->W[i % COLUMNS], g = 1;
		for (int s = 0; s < STEPS; s++)
			v[s + 1] = sin(v[s]) * w + 0.5;
		d->value[i] = v[STEPS];
		for (int s = STEPS; s-- > 0;) {
			d->dW[i % COLUMNS] += g * sin(v[s]);
			g *= w * cos(v[s]);
		}
		d->dx[i] = g;
	}
}

static struct ckptc_array array_of(int dtype, int ndim, int64_t rows, int64_t columns, const void *data)
{
	return (struct ckptc_array){.dtype = dtype, .ndim = ndim, .shape = {rows, columns}, .data = data};
}

static struct ckptc_chain *chain_of(const char *source, const struct ckptc_allocator *allocator)
{
	const struct ckptc_chain_options options = {.allocator = allocator};
	struct ckptc_chain *chain;
	struct ckptc_error error;
	ck_assert_msg(!ckptc_chain_new(&chain, source, strlen(source), &options, &error), "%s", error.message);
	return chain;
}

static void near(const double *got, const double *wanted, int count, const char *what)
{
	for (int i = 0; i < count; i++)
		ck_assert_msg(fabs(got[i] - wanted[i]) <= 1e-13 * (1 + fabs(wanted[i])), "%s[%d]: %g, not %g", what, i, got[i],
		              wanted[i]);
}

START_TEST(test_run)
{
	struct data d;
	make_data(&d);
	const struct ckptc_array x = array_of(CKPTC_F64, 2, ROWS, COLUMNS, d.x), W = array_of(CKPTC_F64, 1, 4, 0, d.W);
	struct ckptc_chain *chain = chain_of(text, NULL);
	struct ckptc_result *result;
	struct ckptc_array value;
	struct ckptc_error error;
	double own[COUNT];
	ck_assert_int_eq(ckptc_chain_bind(chain, "W", &W, NULL), CKPTC_OK);
	for (int threads = 1; threads <= 2; threads++) {
		const struct ckptc_run_options options = {.plan = {.threads = threads, .tile = 2}};
		ck_assert_msg(!ckptc_run(&result, chain, &x, &options, &error), "%s", error.message);
		ck_assert_int_eq(ckptc_result_value(result, &value), CKPTC_OK);
		ck_assert_int_eq(ckptc_result_gradient(result, &value), CKPTC_USAGE);
		ck_assert_int_eq(ckptc_result_param(result, "W", &value), CKPTC_USAGE);
		ck_assert_int_eq(value.dtype, CKPTC_F64);
		ck_assert_int_eq(value.ndim, 2);
		ck_assert_int_eq(value.shape[0], ROWS);
		ck_assert_int_eq(value.shape[1], COLUMNS);
		near(value.data, d.value, COUNT, "value");
		ckptc_result_free(result);
	}
	/* The value in the caller's memory. */
	const struct ckptc_run_options into = {.value = {own, sizeof own}}, wrong = {.value = {own, sizeof own - 8}};
	ck_assert_int_eq(ckptc_run(&result, chain, &x, &into, NULL), CKPTC_OK);
	ck_assert_int_eq(ckptc_result_value(result, &value), CKPTC_OK);
	ck_assert_ptr_eq(value.data, own);
	near(own, d.value, COUNT, "value");
	ckptc_result_free(result);
	ck_assert_int_eq(ckptc_run(&result, chain, &x, &wrong, &error), CKPTC_USAGE);
	ck_assert_msg(strstr(error.message, "f64[6,4], of 192 bytes, but its buffer has 184"), "%s", error.message);
	ckptc_chain_free(chain);
}
END_TEST

/* Every policy gives the same bits, and the counters of its plan. */
START_TEST(test_grad)
{
	struct data d;
	make_data(&d);
	const struct ckptc_array x = array_of(CKPTC_F64, 2, ROWS, COLUMNS, d.x), W = array_of(CKPTC_F64, 1, 4, 0, d.W);
	struct ckptc_chain *chain = chain_of(text, NULL);
	double dx[COUNT], dW[COLUMNS];
	ck_assert_int_eq(ckptc_chain_bind(chain, "W", &W, NULL), CKPTC_OK);
	for (int i = 0; i < POLICIES; i++) {
		const struct ckptc_run_options options = {
			.policy = policies[i], .spill = "/tmp", .want_value = 1, .plan = {.tile = ROWS}};
		const struct ckptc_plan_options planned = {.want_value = 1, .tile = ROWS, .on_disk = 1};
		struct ckptc_result *result;
		struct ckptc_plan *plan;
		struct ckptc_array a;
		struct ckptc_counters measured, predicted;
		struct ckptc_error error;
		ck_assert_msg(!ckptc_grad(&result, chain, &x, &options, &error), "%s", error.message);
		ck_assert_msg(!ckptc_plan_chain(&plan, chain, &x, policies[i], &planned, &error), "%s", error.message);
		ckptc_result_counters(result, &measured);
		ckptc_plan_counters(plan, &predicted);
		measured.gap_percent = predicted.gap_percent;
		ck_assert_msg(!memcmp(&measured, &predicted, sizeof measured), "%s: %lld and %lld bytes", policies[i],
		              (long long)measured.peak_bytes, (long long)predicted.peak_bytes);
		ck_assert_int_eq(ckptc_plan_verify(plan, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_result_value(result, &a), CKPTC_OK);
		near(a.data, d.value, COUNT, "value");
		ck_assert_int_eq(ckptc_result_gradient(result, &a), CKPTC_OK);
		ck_assert_int_eq(ckptc_array_bytes(&a), sizeof dx);
		near(a.data, d.dx, COUNT, "dx");
		ck_assert(i == 0 || !memcmp(dx, a.data, sizeof dx));
		memcpy(dx, a.data, sizeof dx);
		ck_assert_int_eq(ckptc_result_param(result, "W", &a), CKPTC_OK);
		ck_assert_int_eq(ckptc_array_bytes(&a), sizeof dW);
		near(a.data, d.dW, COLUMNS, "dW");
		ck_assert(i == 0 || !memcmp(dW, a.data, sizeof dW));
		memcpy(dW, a.data, sizeof dW);
		ck_assert_int_eq(ckptc_result_param(result, "c", &a), CKPTC_USAGE); /* a const */
		ckptc_result_free(result);
		ckptc_plan_free(plan);
	}
	ckptc_chain_free(chain);
}
END_TEST

/* A cotangent, a result in the caller's memory, and none of the input. */
START_TEST(test_cotangent)
{
	const double x[] = {1, 2, 3}, c[] = {10, 20, 30}, w = 5;
	double dx[3];
	const struct ckptc_array input = array_of(CKPTC_F64, 1, 3, 0, x), seed = array_of(CKPTC_F64, 1, 3, 0, c);
	const struct ckptc_array scalar = {.dtype = CKPTC_F64, .data = &w}, bad = array_of(CKPTC_F64, 1, 2, 0, c);
	struct ckptc_chain *chain = chain_of("param w; mul w; square", NULL);
	struct ckptc_run_options options = {.cotangent = &seed, .gradient = {dx, sizeof dx}};
	struct ckptc_result *result;
	struct ckptc_array a;
	struct ckptc_error error;
	ck_assert_int_eq(ckptc_chain_bind(chain, "w", &scalar, NULL), CKPTC_OK);
	ck_assert_msg(!ckptc_grad(&result, chain, &input, &options, &error), "%s", error.message);
	for (int i = 0; i < 3; i++)
		ck_assert(fabs(dx[i] - 50 * x[i] * c[i]) < 1e-9); /* (5 x)^2 has the derivative 50 x */
	ck_assert_int_eq(ckptc_result_param(result, "w", &a), CKPTC_OK);
	ck_assert_int_eq(a.ndim, 0);
	ck_assert(fabs(*(const double *)a.data - 10 * (10 + 80 + 270)) < 1e-9); /* 2 w x^2 */
	ckptc_result_free(result);
	options.no_gradient = 1;
	ck_assert_int_eq(ckptc_grad(&result, chain, &input, &options, NULL), CKPTC_OK);
	ck_assert_int_eq(ckptc_result_gradient(result, &a), CKPTC_USAGE);
	ckptc_result_free(result);
	options.cotangent = &bad;
	ck_assert_int_eq(ckptc_grad(&result, chain, &input, &options, &error), CKPTC_DATA);
	ck_assert_msg(strstr(error.message, "the cotangent is f64[2] and the chain's output is f64[3]"), "%s",
	              error.message);
	ckptc_chain_free(chain);
}
END_TEST

START_TEST(test_dtypes)
{
	static const uint16_t halves[] = {0x3c00, 0x4000, 0xc200}; /* 1, 2, -3 */
	static const float floats[] = {1, 2, -3};
	static const int32_t ints[] = {1, 2, -3};
	static const int8_t bytes[] = {1, 2, -3};
	static const int64_t large[] = {1, 2, ((int64_t)1 << 53) + 1};
	static const struct {
		int dtype, result;
		const void *data;
	} cases[] = {{CKPTC_F16, CKPTC_F16, halves},
	             {CKPTC_F32, CKPTC_F32, floats},
	             {CKPTC_I32, CKPTC_F64, ints},
	             {CKPTC_I8, CKPTC_F64, bytes}};
	struct ckptc_chain *chain = chain_of("mul 2", NULL);
	struct ckptc_result *result;
	struct ckptc_array value;
	struct ckptc_error error;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct ckptc_array x = array_of(cases[i].dtype, 1, 3, 0, cases[i].data);
		ck_assert_int_eq(ckptc_run(&result, chain, &x, NULL, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_result_value(result, &value), CKPTC_OK);
		ck_assert_int_eq(value.dtype, cases[i].result);
		const double third = value.dtype == CKPTC_F64   ? ((const double *)value.data)[2]
		                     : value.dtype == CKPTC_F32 ? (double)((const float *)value.data)[2]
		                                                : ((const uint16_t *)value.data)[2];
		ck_assert(fabs(third - (value.dtype == CKPTC_F16 ? 0xc600 : -6)) < 1e-9);
		ckptc_result_free(result);
	}
	const struct ckptc_array x = array_of(CKPTC_I64, 1, 3, 0, large);
	ck_assert_int_eq(ckptc_run(&result, chain, &x, NULL, &error), CKPTC_DATA);
	ck_assert_msg(strstr(error.message, "beyond 2^53"), "%s", error.message);
	const struct ckptc_array none = array_of(CKPTC_F32, 2, 0, 5, NULL);
	ck_assert_int_eq(ckptc_run(&result, chain, &none, NULL, &error), CKPTC_OK);
	ckptc_result_free(result);
	ckptc_chain_free(chain);
}
END_TEST

START_TEST(test_residuals)
{
	struct ckptc_chain *chain = chain_of("input x: f32[4]\nsin; name s\nmul 2; tanh", NULL);
	const struct ckptc_array x = array_of(CKPTC_F32, 1, 4, 0, NULL);
	const struct ckptc_plan_options options = {.residuals = 1};
	const struct ckptc_residual *rows;
	struct ckptc_plan *plan;
	ck_assert_int_eq(ckptc_plan_chain(&plan, chain, &x, "save-all", &options, NULL), CKPTC_OK);
	ckptc_chain_free(chain); /* a plan outlives it */
	ck_assert_int_eq(ckptc_plan_residuals(plan, &rows), 2);
	ck_assert_str_eq(rows[0].type, "f32[4]");
	ck_assert_str_eq(rows[0].what, "output of cos from <chain>:2:1");
	ck_assert_int_eq(rows[0].bytes, 16);
	ck_assert_str_eq(rows[1].what, "output of tanh from <chain>:3:8");
	ckptc_plan_free(plan);
	chain = chain_of("sin", NULL);
	ck_assert_int_eq(ckptc_plan_chain(&plan, chain, &x, NULL, NULL, NULL), CKPTC_OK);
	ck_assert_int_eq(ckptc_plan_residuals(plan, &rows), 0);
	ckptc_plan_free(plan);
	ckptc_chain_free(chain);
}
END_TEST

/* A chain without steps has a plan without actions, and the gradient of the identity. */
/* Tiles compute some rows twice, which is overhead even if no step is recomputed. Only tiles of large arrays do. */
START_TEST(test_shared_rows)
{
	const struct ckptc_array small = array_of(CKPTC_F64, 2, 400, 4, NULL),
							 large = array_of(CKPTC_F64, 2, 4000000, 4, NULL);
	struct ckptc_chain *chain = chain_of("repeat 20 { add { laplacian; mul 0.1 } }", NULL);
	struct ckptc_counters counters;
	struct ckptc_plan *plan;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ckptc_plan_chain(&plan, chain, i ? &large : &small, "save-all", NULL, NULL), CKPTC_OK);
		ckptc_plan_counters(plan, &counters);
		ck_assert_int_eq(counters.recomputed, 0);
		ck_assert_int_eq(counters.overhead_percent > 0, i);
		ckptc_plan_free(plan);
	}
	ckptc_chain_free(chain);
}
END_TEST

START_TEST(test_identity)
{
	struct ckptc_chain *chain = chain_of("# nothing", NULL);
	static const double values[] = {3, 4};
	const struct ckptc_array x = array_of(CKPTC_F64, 1, 2, 0, values);
	const struct ckptc_callbacks none = {NULL};
	for (int i = 0; i < POLICIES; i++) {
		const struct ckptc_run_options options = {.policy = policies[i], .spill = "/tmp"};
		struct ckptc_plan *plan;
		struct ckptc_result *result;
		struct ckptc_array a;
		ck_assert_int_eq(ckptc_plan_chain(&plan, chain, &x, policies[i], NULL, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_plan_verify(plan, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_execute(plan, &none, NULL, NULL), CKPTC_OK);
		ckptc_plan_free(plan);
		ck_assert_int_eq(ckptc_grad(&result, chain, &x, &options, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_result_gradient(result, &a), CKPTC_OK);
		ck_assert_mem_eq(a.data, ((const double[]){1, 1}), 16);
		ckptc_result_free(result);
	}
	ckptc_chain_free(chain);
}
END_TEST

/* A step of a shell: y is x, and the cotangent passes too. It knows one message each. */
static const char shell[] = "read l; echo ready 1 backward text; while read -r word number; do read -r x; "
							"case $word in backward) read -r x;; esac; echo ok; echo \"$x\"; done";

START_TEST(test_program)
{
	struct ckptc_chain *chain = chain_of("program p(): same\nrepeat 3 { p; mul 2 }", NULL);
	static const double values[] = {1, 2};
	const struct ckptc_array x = array_of(CKPTC_F64, 1, 2, 0, values);
	struct ckptc_result *result;
	struct ckptc_array a;
	struct ckptc_error error;
	struct ckptc_plan *plan;
	struct ckptc_counters c;
	ck_assert_int_eq(ckptc_run(&result, chain, &x, NULL, &error), CKPTC_USAGE);
	ck_assert_msg(strstr(error.message, "nothing computes the program 'p'"), "%s", error.message);
	ck_assert_int_eq(ckptc_chain_program(chain, "q", shell, &error), CKPTC_USAGE);
	ck_assert_msg(strstr(error.message, "the chain has no program 'q'"), "%s", error.message);
	ck_assert_int_eq(ckptc_chain_program(chain, "p", "exit 3", &error), CKPTC_OK);
	ck_assert_int_eq(ckptc_run(&result, chain, &x, NULL, &error), CKPTC_PROGRAM);
	ck_assert_int_eq(ckptc_chain_program(chain, "p", shell, &error), CKPTC_OK);
	ck_assert_int_eq(ckptc_plan_chain(&plan, chain, &x, "revolve:2", NULL, &error), CKPTC_OK);
	ckptc_plan_counters(plan, &c);
	ck_assert_int_eq(c.steps, 6);
	ckptc_plan_free(plan);
	const struct ckptc_run_options options = {.policy = "revolve:2", .want_value = 1};
	ck_assert_msg(!ckptc_grad(&result, chain, &x, &options, &error), "%s", error.message);
	ck_assert_int_eq(ckptc_result_value(result, &a), CKPTC_OK);
	ck_assert_mem_eq(a.data, ((const double[]){8, 16}), 16);
	ck_assert_int_eq(ckptc_result_gradient(result, &a), CKPTC_OK);
	ck_assert_mem_eq(a.data, ((const double[]){8, 8}), 16);
	ckptc_result_free(result);
	ckptc_chain_free(chain);
}
END_TEST

/* The number of iterations of a loop is not known beforehand. */
START_TEST(test_while)
{
	struct ckptc_chain *chain = chain_of("repeat while { sum; rsub 100 } max=50 { mul 2 }", NULL);
	static const double values[] = {1, 2};
	const struct ckptc_array x = array_of(CKPTC_F64, 1, 2, 0, values);
	const struct ckptc_run_options options = {.want_value = 1, .plan = {.max_checkpoints = 2}};
	struct ckptc_result *result;
	struct ckptc_array a;
	struct ckptc_error error;
	ck_assert_msg(!ckptc_grad(&result, chain, &x, &options, &error), "%s", error.message);
	ck_assert_int_eq(ckptc_result_value(result, &a), CKPTC_OK);
	ck_assert_mem_eq(a.data, ((const double[]){64, 128}), 16); /* 3 doubles until it is over 100 */
	ck_assert_int_eq(ckptc_result_gradient(result, &a), CKPTC_OK);
	ck_assert_mem_eq(a.data, ((const double[]){64, 64}), 16);
	/* A plan for as many iterations has the counters of the run, and one for the max has more steps. */
	struct ckptc_counters ran, planned;
	struct ckptc_plan *plan;
	ckptc_result_counters(result, &ran);
	for (int iterations = 0; iterations <= 6; iterations += 6) {
		const struct ckptc_plan_options how = {.max_checkpoints = 2, .want_value = 1, .iterations = iterations};
		ck_assert_msg(!ckptc_plan_chain(&plan, chain, &x, NULL, &how, &error), "%s", error.message);
		ckptc_plan_counters(plan, &planned);
		ck_assert_int_eq(planned.steps, iterations ? ran.steps : 50);
		ck_assert_int_eq(planned.evaluations == ran.evaluations && planned.peak_bytes == ran.peak_bytes,
		                 iterations > 0);
		ckptc_plan_free(plan);
	}
	ckptc_result_free(result);
	const struct ckptc_run_options given = {.plan.iterations = 6};
	expect(ckptc_grad(&result, chain, &x, &given, &error), CKPTC_USAGE, &error, "iterations are for a plan");
	ckptc_chain_free(chain);
}
END_TEST

START_TEST(test_errors)
{
	static const struct ckptc_chain_options named = {.name = "my model", .directory = "/nowhere"};
	static const double x[4] = {1, 2, 3, 4};
	struct ckptc_array input = array_of(CKPTC_F64, 2, 2, 2, x);
	struct ckptc_chain *chain = (struct ckptc_chain *)&chain;
	struct ckptc_result *result = (struct ckptc_result *)&result;
	struct ckptc_plan *plan;
	struct ckptc_error error;
	expect(ckptc_chain_new(&chain, "add 1\ntan 3", 11, &named, &error), CKPTC_CHAIN, &error, "my model:2:");
	ck_assert_ptr_null(chain);
	expect(ckptc_chain_new(&chain, "sinn", 4, NULL, &error), CKPTC_CHAIN, &error, "did you mean 'sin'");
	expect(ckptc_chain_new(&chain, "checkpoint policy=\"names:q\" { sin }", 35, NULL, &error), CKPTC_CHAIN, &error,
	       "'q'");
	ck_assert_int_eq(ckptc_chain_new(&chain, "param W; const t = load(\"t.npy\"); matmul W; sub t", 49, &named, NULL),
	                 0);
	ck_assert_str_eq(ckptc_chain_param(chain, 1), "t");
	ck_assert_ptr_null(ckptc_chain_param(chain, 2));
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_CHAIN, &error, "param 'W' has no value");
	ck_assert_ptr_null(result);
	expect(ckptc_chain_bind(chain, "w", &input, &error), CKPTC_USAGE, &error, "did you mean 'W'");
	ck_assert_int_eq(ckptc_chain_bind(chain, "W", &input, &error), CKPTC_OK);
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_IO, &error, "/nowhere/t.npy");
	input.shape[1] = 1;
	ck_assert_int_eq(ckptc_chain_bind(chain, "t", &input, &error), CKPTC_OK);
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_CHAIN, &error, "[2,1]");
	input.shape[1] = -1;
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_USAGE, &error, "input: extent 1 is -1");
	ck_assert_int_eq(ckptc_array_bytes(&input), -1);
	input.shape[0] = input.shape[1] = INT64_MAX;
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_LIMIT, &error, "too large");
	input.dtype = 99;
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_USAGE, &error, "dtype 99");
	input = array_of(CKPTC_F64, 33, 2, 2, x);
	expect(ckptc_chain_bind(chain, "W", &input, &error), CKPTC_USAGE, &error, "33 dimensions");
	input = array_of(CKPTC_F64, 2, 2, 2, NULL);
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_USAGE, &error, "no data");
	ck_assert_int_eq(ckptc_chain_bind(chain, "W", &input, &error), CKPTC_OK); /* a type is enough to plan */
	ck_assert_int_eq(ckptc_plan_chain(&plan, chain, &input, "sqrt", NULL, &error), CKPTC_OK);
	ckptc_plan_free(plan);
	expect(ckptc_plan_chain(&plan, chain, &input, "names:a", NULL, &error), CKPTC_USAGE, &error, "'a'");
	expect(ckptc_plan_chain(&plan, chain, &input, "budget:1", NULL, &error), CKPTC_LIMIT, &error, "budget:");
	input.data = x;
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_USAGE, &error, "W: the array has no data");
	const struct ckptc_run_options disk = {.policy = "disk-revolve:2"};
	expect(ckptc_grad(&result, chain, &input, &disk, &error), CKPTC_USAGE, &error, "spill");
	const struct ckptc_run_options reserved = {.reserved[0] = 1};
	expect(ckptc_run(&result, chain, &input, &reserved, &error), CKPTC_USAGE, &error, "reserved");
	ckptc_result_free(NULL);
	ckptc_chain_free(chain);
	ckptc_chain_free(NULL);
}
END_TEST

/* A hint names fields and functions of ckptc.h where the command names its options. */
START_TEST(test_words)
{
	static const double x[COUNT] = {1e9};
	static const int64_t large = INT64_MAX;
	const struct ckptc_array input = array_of(CKPTC_F64, 2, ROWS, COLUMNS, x),
							 wide = array_of(CKPTC_I64, 0, 0, 0, &large);
	const struct ckptc_plan_options small = {.memory = 1};
	const struct ckptc_run_options how = {.plan = {.memory = 600, .threads = 2, .tile = 1}};
	struct ckptc_chain *chain;
	struct ckptc_result *result;
	struct ckptc_plan *plan;
	struct ckptc_error error;
	expect(ckptc_chain_new(&chain, "mul k", 5, NULL, &error), CKPTC_CHAIN, &error, "(ckptc_chain_bind gives a value)");
	chain =
		chain_of("param W; const c = load(\"/dev/null\"); program p(): same; repeat 9 { sin }; mul W; add c; p", NULL);
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_CHAIN, &error, "give one by ckptc_chain_bind");
	ck_assert_int_eq(ckptc_chain_bind(chain, "W", &input, &error), CKPTC_OK);
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_IO, &error, "ckptc_chain_bind takes values");
	ck_assert_int_eq(ckptc_chain_bind(chain, "c", &input, &error), CKPTC_OK);
	expect(ckptc_run(&result, chain, &input, NULL, &error), CKPTC_USAGE, &error, "bind it by ckptc_chain_program");
	expect(ckptc_chain_program(chain, "p", "", &error), CKPTC_USAGE, &error, "'target' is empty");
	expect(ckptc_chain_program(chain, "p", NULL, &error), CKPTC_USAGE, &error, "'target' is NULL");
	expect(ckptc_chain_bind(chain, "c", NULL, &error), CKPTC_USAGE, &error, "'array' is NULL");
	expect(ckptc_chain_bind(chain, NULL, &input, &error), CKPTC_USAGE, &error, "'name' is NULL");
	ckptc_chain_free(chain);
	chain = chain_of("repeat 30 { sin }", NULL);
	expect(ckptc_plan_chain(&plan, chain, &input, NULL, &small, &error), CKPTC_LIMIT, &error, "use a 'memory' of ");
	ck_assert_msg(strstr(error.message, "'on_disk' lowers that to "), "%s", error.message);
	expect(ckptc_grad(&result, chain, &input, &how, &error), CKPTC_LIMIT, &error, "'spill' lowers that to ");
	ck_assert_msg(strstr(error.message, "'threads' = 1 takes less, and a 'tile' "), "%s", error.message);
	ckptc_chain_free(chain);
	chain = chain_of("repeat while { sum } max=3 { mul 2 }", NULL);
	expect(ckptc_plan_chain(&plan, chain, &input, NULL, &small, &error), CKPTC_LIMIT, &error, "use a 'memory' of ");
	expect(ckptc_run(&result, chain, &wide, NULL, &error), CKPTC_DATA, &error, "round it to f64 before");
	ckptc_chain_free(chain);
}
END_TEST

START_TEST(test_odd_arguments)
{
	static const struct ckptc_chain_options reserved = {.reserved[1] = 1};
	static double x[3] = {1, 2, 3}, room[4];
	const struct ckptc_array input = array_of(CKPTC_F64, 1, 3, 0, x);
	const struct ckptc_run_options askew = {.value = {(char *)room + 4, sizeof x}};
	struct ckptc_chain *chain;
	struct ckptc_result *result;
	struct ckptc_array array;
	struct ckptc_error error;
	expect(ckptc_chain_new(&chain, NULL, 3, NULL, &error), CKPTC_USAGE, &error, "NULL");
	expect(ckptc_chain_new(&chain, "sin", 3, &reserved, &error), CKPTC_USAGE, &error, "reserved");
	ck_assert_int_eq(ckptc_chain_new(&chain, NULL, 0, NULL, &error), CKPTC_OK);
	expect(ckptc_run(&result, chain, &input, &askew, &error), CKPTC_USAGE, &error, "aligned");
	ckptc_chain_free(chain);
	chain = chain_of("param W = [1, 2, 3]; mul W", NULL);
	ck_assert_int_eq(ckptc_grad(&result, chain, &input, NULL, &error), CKPTC_OK);
	ck_assert_int_eq(ckptc_result_param(result, NULL, &array), CKPTC_USAGE);
	ckptc_result_free(result);
	ckptc_chain_free(chain);
}
END_TEST

/*
 * Values that are bound are used where they are, and at any element's place: a run takes less memory than they do, and gives
 * the bits of values at the start of a page. A const of another type is converted.
 */
START_TEST(test_values_in_place)
{
	enum { SIDE = 256, WHOLE = SIDE * SIDE };
	static const char *const chains[] = {"param W; sub W; sin",
	                                     "param W; matmul W",
	                                     "param W: f32[256,256]; mul W; softmax",
	                                     "const W; dot W; sum axis=0",
	                                     "param W; add { use W; cumsum }",
	                                     "param W; for w in W { mul w; add 1 }",
	                                     "param W: f64[256,256]; mul W; sum"};
	static float x[WHOLE], aligned[WHOLE] __attribute__((aligned(4096))), shifted[WHOLE + 1];
	for (int i = 0; i < WHOLE; i++)
		x[i] = sinf((float)i), shifted[i + 1] = aligned[i] = cosf((float)i);
	for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
		struct ckptc_result *results[2];
		struct ckptc_array values[2];
		struct failing failing[2] = {{0}, {0}};
		for (int i = 0; i < 2; i++) {
			const struct ckptc_allocator allocator = {failing_resize, &failing[i]};
			const struct ckptc_array input = array_of(CKPTC_F32, 2, SIDE, SIDE, x);
			const struct ckptc_array W = array_of(CKPTC_F32, 2, SIDE, SIDE, i ? shifted + 1 : aligned);
			struct ckptc_chain *chain = chain_of(chains[k], &allocator);
			ck_assert_int_eq(ckptc_chain_bind(chain, "W", &W, NULL), CKPTC_OK);
			ck_assert_int_eq(ckptc_run(&results[i], chain, &input, NULL, NULL), CKPTC_OK);
			ck_assert_int_eq(ckptc_result_value(results[i], &values[i]), CKPTC_OK);
			ckptc_chain_free(chain);
		}
		ck_assert_mem_eq(values[0].data, values[1].data, (size_t)ckptc_array_bytes(&values[0]));
		ck_assert_uint_eq(failing[0].most, failing[1].most);
		for (int i = 0; i < 2; i++)
			ckptc_result_free(results[i]);
	}
	static double wide[WHOLE];
	struct failing failing[2] = {{0}, {0}};
	for (int i = 0; i < 2; i++) {
		const struct ckptc_allocator allocator = {failing_resize, &failing[i]};
		const struct ckptc_array input = array_of(CKPTC_F32, 2, SIDE, SIDE, x);
		const struct ckptc_array W = array_of(i ? CKPTC_F64 : CKPTC_F32, 2, SIDE, SIDE, i ? (void *)wide : aligned);
		struct ckptc_chain *chain = chain_of("param W: f32[256,256]; sub W; sin", &allocator);
		struct ckptc_result *result;
		ck_assert_int_eq(ckptc_chain_bind(chain, "W", &W, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_run(&result, chain, &input, NULL, NULL), CKPTC_OK);
		ckptc_result_free(result);
		ckptc_chain_free(chain);
	}
	ck_assert_uint_ge(failing[1].most, failing[0].most + sizeof aligned);
}
END_TEST

/* Uses all of a chain. Returns the first status that is not CKPTC_OK. */
static int use_chain(const struct ckptc_allocator *allocator, const char *policy)
{
	const struct ckptc_chain_options options = {.allocator = allocator, .name = "chain"};
	const struct ckptc_plan_options planned = {.residuals = 1};
	const struct ckptc_run_options how = {.policy = policy, .want_value = 1, .spill = "/tmp"};
	struct data d;
	make_data(&d);
	const struct ckptc_array x = array_of(CKPTC_F64, 2, ROWS, COLUMNS, d.x), W = array_of(CKPTC_F64, 1, 4, 0, d.W);
	struct ckptc_chain *chain = NULL;
	struct ckptc_plan *plan = NULL;
	struct ckptc_result *result = NULL, *grad = NULL;
	struct ckptc_array a;
	int status = ckptc_chain_new(&chain, text, strlen(text), &options, NULL);
	if (!status)
		status = ckptc_chain_bind(chain, "W", &W, NULL);
	if (!status)
		status = ckptc_plan_chain(&plan, chain, &x, policy, &planned, NULL);
	if (!status)
		status = ckptc_run(&result, chain, &x, NULL, NULL);
	if (!status)
		status = ckptc_grad(&grad, chain, &x, &how, NULL);
	ckptc_plan_free(plan);
	ckptc_chain_free(chain);
	if (!status) {
		ck_assert_int_eq(ckptc_result_value(result, &a), CKPTC_OK);
		near(a.data, d.value, COUNT, "value");
		ck_assert_int_eq(ckptc_result_gradient(grad, &a), CKPTC_OK);
		near(a.data, d.dx, COUNT, "dx");
		ck_assert_int_eq(ckptc_result_param(grad, "W", &a), CKPTC_OK);
		near(a.data, d.dW, COLUMNS, "dW");
	}
	ckptc_result_free(grad);
	ckptc_result_free(result);
	return status;
}

/* The same for a chain with a program, which another process computes or nothing does. */
START_TEST(test_failing_programs)
{
	static const double values[] = {1, 2};
	const struct ckptc_array x = array_of(CKPTC_F64, 1, 2, 0, values);
	for (size_t n = 1, failed = 1; failed; n++) {
		struct failing failing = {.fail_at = n, .on = n % 2};
		const struct ckptc_allocator allocator = {failing_resize, &failing};
		const struct ckptc_chain_options options = {.allocator = &allocator};
		static const char source[] = "program p(): same; p; p";
		struct ckptc_chain *chain;
		struct ckptc_result *result = NULL;
		int status = ckptc_chain_new(&chain, source, strlen(source), &options, NULL);
		if (!status && _i == 1)
			status = ckptc_chain_program(chain, "p", shell, NULL);
		if (!status)
			status = ckptc_grad(&result, chain, &x, NULL, NULL);
		ckptc_result_free(result);
		ckptc_chain_free(chain);
		failed = failing.requests >= n;
		ck_assert_int_eq(failing.live, 0);
		ck_assert_msg(status == CKPTC_LIMIT || status == (_i == 1 ? CKPTC_OK : CKPTC_USAGE), "status %d", status);
		ck_assert(failed || status != CKPTC_LIMIT);
	}
}
END_TEST

/* A request that fails is CKPTC_LIMIT, or goes without what it was for, as a replay log does. */
START_TEST(test_failing_allocations)
{
	/* by odd steps, so that one request or all further ones fail in turn */
	for (size_t n = 1, failed = 1; failed; n += 1 + (SANITIZED ? n / 100 * 2 : 0)) {
		struct failing failing = {.fail_at = n, .on = n % 2};
		const struct ckptc_allocator allocator = {failing_resize, &failing};
		const int status = use_chain(&allocator, policies[_i]);
		failed = failing.requests >= n;
		ck_assert(status == CKPTC_OK || (failed && status == CKPTC_LIMIT));
		ck_assert_int_eq(failing.live, 0);
	}
}
END_TEST

static void *use_in_thread(void *context)
{
	for (int i = 0; i < 5 * POLICIES; i++)
		if (use_chain(NULL, policies[i % POLICIES]))
			return context;
	return NULL;
}

/* Each thread has a chain of its own. */
START_TEST(test_threads)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, use_in_thread, threads), 0);
	for (int i = 0; i < THREADS; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("api_chain");
	TCase *tests = suite_make_case(suite, "api_chain");
	tcase_set_timeout(tests, 300);
	tcase_add_test(tests, test_run);
	tcase_add_test(tests, test_grad);
	tcase_add_test(tests, test_cotangent);
	tcase_add_test(tests, test_dtypes);
	tcase_add_test(tests, test_residuals);
	tcase_add_test(tests, test_shared_rows);
	tcase_add_test(tests, test_identity);
	tcase_add_test(tests, test_program);
	tcase_add_test(tests, test_while);
	tcase_add_test(tests, test_errors);
	tcase_add_test(tests, test_words);
	tcase_add_test(tests, test_odd_arguments);
	tcase_add_test(tests, test_values_in_place);
	tcase_add_loop_test(tests, test_failing_allocations, 0, POLICIES);
	tcase_add_loop_test(tests, test_failing_programs, 0, 2);
	tcase_add_test(tests, test_threads);
	return suite_run(suite);
}
