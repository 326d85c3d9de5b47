/*
 * Several inputs and outputs of chains by the library: their names, the values of outputs, gradients of one output or of
 * several, numbers that the caller gives, and the types of a chain that declares them.
 */
#include "ckptc.h"

#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "suite.h"

static const char text[] =
	"input x: f64[2]; input y: f64[2]; param w = [2, 3]; let a = x * y; let b = a * w; output a, b; "
	"use (b * b); sum";
static const double x_values[] = {1, 2}, y_values[] = {3, 5}, ones[] = {1, 1}, tens[] = {10, 20};

static struct ckptc_array pair_of(const double *values)
{
	return (struct ckptc_array){.dtype = CKPTC_F64, .ndim = 1, .shape = {2}, .data = values};
}

static struct ckptc_chain *chain_from(const char *source, const struct ckptc_chain_options *options)
{
	struct ckptc_chain *chain;
	struct ckptc_error error;
	ck_assert_msg(!ckptc_chain_new(&chain, source, strlen(source), options, &error), "%s", error.message);
	return chain;
}

/* Returns the chain of TEXT, with y bound. */
static struct ckptc_chain *bound_chain(void)
{
	struct ckptc_chain *chain = chain_from(text, NULL);
	const struct ckptc_array y = pair_of(y_values);
	ck_assert_int_eq(ckptc_chain_bind(chain, "y", &y, NULL), CKPTC_OK);
	return chain;
}

static void expect_values(int status, const struct ckptc_array *array, double first, double second)
{
	ck_assert_int_eq(status, CKPTC_OK);
	const double *values = array->data;
	ck_assert_double_eq(values[0], first);
	if (array->ndim)
		ck_assert_double_eq(values[1], second);
}

START_TEST(test_names)
{
	struct ckptc_chain *chain = chain_from(text, NULL);
	ck_assert_str_eq(ckptc_chain_input(chain, 0), "x");
	ck_assert_str_eq(ckptc_chain_input(chain, 1), "y");
	ck_assert_ptr_null(ckptc_chain_input(chain, 2));
	ck_assert_str_eq(ckptc_chain_output(chain, 0), "a");
	ck_assert_str_eq(ckptc_chain_output(chain, 1), "b");
	ck_assert_ptr_null(ckptc_chain_output(chain, 2));
	ck_assert_str_eq(ckptc_chain_param(chain, 0), "y");
	ck_assert_str_eq(ckptc_chain_param(chain, 1), "w");
	ckptc_chain_free(chain);
	chain = chain_from("", NULL);
	ck_assert_str_eq(ckptc_chain_input(chain, 0), "x");
	ck_assert_ptr_null(ckptc_chain_input(chain, 1));
	ck_assert_ptr_null(ckptc_chain_output(chain, 0));
	ckptc_chain_free(chain);
}
END_TEST

/* The outputs that are wanted alone have values. A run after that is as if there were none, and the result outlives all. */
START_TEST(test_outputs)
{
	struct ckptc_chain *chain = bound_chain();
	const struct ckptc_array x = pair_of(x_values);
	const char *const both[] = {"b", "a", NULL}, *const one[] = {"a", NULL}, *const none[] = {NULL};
	struct ckptc_result *results[4];
	struct ckptc_array a;
	const struct ckptc_run_options options[] = {
		{.outputs = both}, {.outputs = one}, {.outputs = none}, {.outputs = NULL}};
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ckptc_run(&results[i], chain, &x, &options[i], NULL), CKPTC_OK);
	ckptc_chain_free(chain);
	for (int i = 0; i < 4; i++) {
		expect_values(ckptc_result_value(results[i], &a), &a, 936, 0);
		ck_assert_int_eq(ckptc_result_output(results[i], "b", &a), i == 0 ? CKPTC_OK : CKPTC_USAGE);
		ck_assert_int_eq(ckptc_result_output(results[i], "a", &a), i < 2 ? CKPTC_OK : CKPTC_USAGE);
		ck_assert_int_eq(ckptc_result_output(results[i], "c", &a), CKPTC_USAGE);
		ck_assert_int_eq(ckptc_result_output(results[i], NULL, &a), CKPTC_USAGE);
	}
	expect_values(ckptc_result_output(results[0], "a", &a), &a, 3, 10);
	expect_values(ckptc_result_output(results[0], "b", &a), &a, 6, 30);
	expect_values(ckptc_result_output(results[1], "a", &a), &a, 3, 10);
	for (int i = 0; i < 4; i++)
		ckptc_result_free(results[i]);
}
END_TEST

/* Gradients of one output, by ones or by a cotangent; its value; and what the plan says. */
START_TEST(test_of)
{
	struct ckptc_chain *chain = bound_chain();
	const struct ckptc_array x = pair_of(x_values), cotangent = pair_of(tens);
	struct ckptc_run_options options = {.plan = {.of_output = "b", .want_value = 1}, .want_value = 1};
	struct ckptc_counters predicted, measured;
	struct ckptc_result *result;
	struct ckptc_array a;
	struct ckptc_plan *plan;
	for (int i = 0; i < 2; i++) {
		options.cotangent = i ? &cotangent : NULL;
		ck_assert_int_eq(ckptc_grad(&result, chain, &x, &options, NULL), CKPTC_OK);
		expect_values(ckptc_result_value(result, &a), &a, 6, 30);
		expect_values(ckptc_result_gradient(result, &a), &a, i ? 60 : 6, i ? 300 : 15);
		expect_values(ckptc_result_param(result, "w", &a), &a, i ? 30 : 3, i ? 200 : 10);
		expect_values(ckptc_result_param(result, "y", &a), &a, i ? 20 : 2, i ? 120 : 6);
		ckptc_result_counters(result, &measured);
		ckptc_result_free(result);
		ck_assert_int_eq(ckptc_plan_chain(&plan, chain, &x, NULL, &options.plan, NULL), CKPTC_OK);
		ckptc_plan_counters(plan, &predicted);
		ck_assert(i || measured.peak_bytes == predicted.peak_bytes);
		ck_assert_int_eq(measured.steps, predicted.steps);
		ckptc_plan_free(plan);
	}
	ck_assert_int_eq(ckptc_run(&result, chain, &x, &options, NULL), CKPTC_OK);
	expect_values(ckptc_result_value(result, &a), &a, 6, 30);
	ckptc_result_free(result);
	ckptc_chain_free(chain);
}
END_TEST

/* Gradients of several outputs are the sums of those of each, and the last value may be one of them. */
START_TEST(test_cotangents)
{
	struct ckptc_chain *chain = bound_chain();
	const double one = 1;
	const struct ckptc_array x = pair_of(x_values), of_a = pair_of(tens), of_b = pair_of(ones);
	const struct ckptc_array of_last = {.dtype = CKPTC_F64, .data = &one};
	const struct ckptc_cotangent cotangents[] = {{"a", &of_a}, {"b", &of_b}, {NULL, NULL}};
	const struct ckptc_cotangent last[] = {{"", &of_last}, {"a", &of_a}, {NULL, NULL}};
	struct ckptc_run_options options = {.cotangents = cotangents};
	struct ckptc_result *result;
	struct ckptc_array a;
	const char *const policies[] = {"save-all", "nothing", "sqrt", "revolve:2"};
	for (int i = 0; i < 4; i++) {
		options.policy = policies[i];
		options.cotangents = cotangents;
		ck_assert_int_eq(ckptc_grad(&result, chain, &x, &options, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_result_value(result, &a), CKPTC_USAGE);
		expect_values(ckptc_result_gradient(result, &a), &a, 30 + 6, 100 + 15);
		expect_values(ckptc_result_param(result, "w", &a), &a, 3, 10);
		expect_values(ckptc_result_param(result, "y", &a), &a, 10 + 2, 40 + 6);
		ckptc_result_free(result);
		options.cotangents = last;
		ck_assert_int_eq(ckptc_grad(&result, chain, &x, &options, NULL), CKPTC_OK);
		expect_values(ckptc_result_gradient(result, &a), &a, 2 * 6 * 6 + 30, 2 * 30 * 15 + 100);
		ckptc_result_free(result);
	}
	ckptc_chain_free(chain);
}
END_TEST

/* Expects the status USAGE and a message with PART of ckptc_grad, or of ckptc_run. */
static void expect_usage(struct ckptc_chain *chain, const struct ckptc_run_options *options, bool grad,
                         const char *part)
{
	const struct ckptc_array x = pair_of(x_values);
	struct ckptc_result *result;
	struct ckptc_error error;
	ck_assert_int_eq((grad ? ckptc_grad : ckptc_run)(&result, chain, &x, options, &error), CKPTC_USAGE);
	ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
	ck_assert_ptr_null(result);
}

START_TEST(test_errors)
{
	struct ckptc_chain *chain = bound_chain();
	const struct ckptc_array x = pair_of(x_values);
	const char *const wrong[] = {"out", NULL}, *const twice[] = {"a", "b", "a", NULL}, *const one[] = {"a", NULL};
	const char *many[18] = {NULL};
	struct ckptc_cotangent cotangents[18] = {{"a", &x}};
	expect_usage(chain, &(struct ckptc_run_options){.outputs = wrong}, false, "no output 'out'");
	expect_usage(chain, &(struct ckptc_run_options){.outputs = twice}, false, "'a' is wanted twice");
	expect_usage(chain, &(struct ckptc_run_options){.outputs = one}, true, "'outputs' are for ckptc_run");
	expect_usage(chain, &(struct ckptc_run_options){.outputs = one, .plan = {.of_output = "a"}}, false,
	             "beside the last value");
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents}, false,
	             "'cotangents' are for ckptc_grad");
	expect_usage(chain, &(struct ckptc_run_options){.plan = {.of_output = "c"}}, true, "no output 'c'");
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents, .plan = {.of_output = "a"}}, true,
	             "several");
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents, .want_value = 1}, true, "no one value");
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents, .cotangent = &x}, true, "both given");
	cotangents[1] = cotangents[0];
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents}, true, "'a' has two cotangents");
	cotangents[1] = (struct ckptc_cotangent){"b", NULL};
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents}, true, "of 'b' is NULL");
	cotangents[1] = (struct ckptc_cotangent){"d", &x};
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents}, true, "no output 'd'");
	cotangents[0] = (struct ckptc_cotangent){"", &x};
	cotangents[1].name = NULL;
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents}, true, "no cotangent is of an output");
	ckptc_chain_free(chain);

	/* One more than a run gives, of a chain that has as many. */
	char source[1024] = "let a0 = x";
	char names[17][16];
	for (int i = 0; i < 17; i++) {
		snprintf(names[i], sizeof names[i], "a%d", i);
		if (i)
			snprintf(source + strlen(source), sizeof source - strlen(source), "; let a%d = a%d + 1", i, i - 1);
		many[i] = names[i];
		cotangents[i] = (struct ckptc_cotangent){names[i], &x};
	}
	strcat(source, "; output a0");
	for (int i = 1; i < 17; i++)
		snprintf(source + strlen(source), sizeof source - strlen(source), ", a%d", i);
	chain = chain_from(source, NULL);
	expect_usage(chain, &(struct ckptc_run_options){.outputs = many}, false, "at most 15 outputs");
	expect_usage(chain, &(struct ckptc_run_options){.cotangents = cotangents}, true, "at most 15 outputs");
	ckptc_chain_free(chain);
}
END_TEST

/* Without a type of the input, a plan is for the one that the chain declares. */
START_TEST(test_declared_type)
{
	struct ckptc_chain *chain = chain_from("input x: f32[6,4]; tanh; sum", NULL);
	const struct ckptc_array x = {.dtype = CKPTC_F32, .ndim = 2, .shape = {6, 4}};
	struct ckptc_counters with, without;
	struct ckptc_plan *plan;
	struct ckptc_error error;
	ck_assert_int_eq(ckptc_plan_chain(&plan, chain, &x, NULL, NULL, NULL), CKPTC_OK);
	ckptc_plan_counters(plan, &with);
	ckptc_plan_free(plan);
	ck_assert_int_eq(ckptc_plan_chain(&plan, chain, NULL, NULL, NULL, NULL), CKPTC_OK);
	ckptc_plan_counters(plan, &without);
	ckptc_plan_free(plan);
	ck_assert_mem_eq(&with, &without, sizeof with);
	ckptc_chain_free(chain);
	const char *const open[] = {"tanh", "input x: f32[*,4]; tanh"};
	for (int i = 0; i < 2; i++) {
		chain = chain_from(open[i], NULL);
		ck_assert_int_eq(ckptc_plan_chain(&plan, chain, NULL, NULL, NULL, &error), CKPTC_USAGE);
		ck_assert_ptr_nonnull(strstr(error.message, "does not declare its input's type"));
		ckptc_chain_free(chain);
	}
}
END_TEST

/* A const that stands where a number must: from the caller, in a chain that is read again for an output too. */
START_TEST(test_numbers)
{
	const char *source = "const n; let a = 3 * x; output a; slice stop=n";
	const struct ckptc_number numbers[] = {{"n", 1}, {NULL, 0}};
	const struct ckptc_chain_options options = {.numbers = numbers};
	const struct ckptc_array x = pair_of(x_values);
	const struct ckptc_number wrong[] = {{"m", 1}, {NULL, 0}};
	const struct ckptc_chain_options others = {.numbers = wrong};
	const char *const names[] = {"a", NULL};
	struct ckptc_chain *chain;
	struct ckptc_result *result;
	struct ckptc_array a;
	ck_assert_int_eq(ckptc_chain_new(&chain, source, strlen(source), NULL, NULL), CKPTC_CHAIN);
	ck_assert_int_eq(ckptc_chain_new(&chain, "sin", 3, &others, NULL), CKPTC_USAGE);
	chain = chain_from(source, &options);
	for (int i = 0; i < 2; i++) {
		const struct ckptc_run_options run = {.outputs = i ? names : NULL};
		ck_assert_int_eq(ckptc_run(&result, chain, &x, &run, NULL), CKPTC_OK);
		ck_assert_int_eq(ckptc_result_value(result, &a), CKPTC_OK);
		ck_assert_int_eq(a.shape[0], 1);
		if (i)
			expect_values(ckptc_result_output(result, "a", &a), &a, 3, 6);
		ckptc_result_free(result);
	}
	ckptc_chain_free(chain);
}
END_TEST

/* One call of each kind. Returns the first failure's status. */
static int select_all(const struct ckptc_allocator *allocator)
{
	const struct ckptc_chain_options options = {.allocator = allocator};
	const struct ckptc_array x = pair_of(x_values), y = pair_of(y_values), of_a = pair_of(tens), of_b = pair_of(ones);
	const struct ckptc_cotangent cotangents[] = {{"a", &of_a}, {"b", &of_b}, {NULL, NULL}};
	const char *const names[] = {"b", "a", NULL};
	const struct ckptc_run_options run = {.outputs = names}, of = {.plan = {.of_output = "b"}},
								   both = {.cotangents = cotangents};
	struct ckptc_chain *chain;
	struct ckptc_result *results[3] = {NULL};
	int status = ckptc_chain_new(&chain, text, strlen(text), &options, NULL);
	if (!status)
		status = ckptc_chain_bind(chain, "y", &y, NULL);
	if (!status)
		status = ckptc_run(&results[0], chain, &x, &run, NULL);
	if (!status)
		status = ckptc_grad(&results[1], chain, &x, &of, NULL);
	if (!status)
		status = ckptc_grad(&results[2], chain, &x, &both, NULL);
	ckptc_chain_free(chain);
	for (int i = 0; i < 3; i++)
		ckptc_result_free(results[i]);
	return status;
}

START_TEST(test_failing_selections)
{
	for (size_t n = 1, failed = 1; failed; n += 1 + (SANITIZED ? n / 100 * 2 : 0)) {
		struct failing failing = {.fail_at = n, .on = n % 2};
		const struct ckptc_allocator allocator = {failing_resize, &failing};
		const int status = select_all(&allocator);
		failed = failing.requests >= n;
		ck_assert(status == CKPTC_OK || (failed && status == CKPTC_LIMIT));
		ck_assert_int_eq(failing.live, 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("api_select");
	TCase *tests = suite_make_case(suite, "api_select");
	tcase_set_timeout(tests, 300);
	tcase_add_test(tests, test_names);
	tcase_add_test(tests, test_outputs);
	tcase_add_test(tests, test_of);
	tcase_add_test(tests, test_cotangents);
	tcase_add_test(tests, test_errors);
	tcase_add_test(tests, test_declared_type);
	tcase_add_test(tests, test_numbers);
	tcase_add_test(tests, test_failing_selections);
	return suite_run(suite);
}
