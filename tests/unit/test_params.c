/* Params and consts: every form of init, declared types, weak ones, bindings, messages. */
#include "load/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failing.h"
#include "save.h"
#include "scratch.h"
#include "suite.h"

static struct source source;
static struct chain chain;
static struct params params;
static char folder[] = "/tmp/test_params.XXXXXX";

static struct failing counts;
static const struct allocator counting = {.resize = failing_resize, .context = &counts};

static void setup(void)
{
	memset(&counts, 0, sizeof counts);
	scratch_setup();
	memset(&params, 0, sizeof params);
}

static void teardown(void)
{
	params_free(&params);
	scratch_teardown();
	ck_assert_int_eq(counts.live, 0);
}

static void resolve(const char *text)
{
	struct syntax syntax;
	source = (struct source){"test.ck", text, strlen(text)};
	ck_assert_int_eq(syntax_parse(&scratch, &syntax, &source), STATUS_OK);
	ck_assert_int_eq(chain_resolve(&scratch, &chain, &syntax), STATUS_OK);
}

static enum status bind_with(const char *text, const struct param_binding *bindings, size_t count, bool data,
                             enum dtype compute)
{
	resolve(text);
	const struct context context = {&counting, &arena, &diags};
	const struct params_options options = {.bindings = bindings,
	                                       .binding_count = count,
	                                       .directory = folder,
	                                       .data = data,
	                                       .compute = compute,
	                                       .dtype = DTYPE_COUNT};
	return params_bind(&context, &params, &chain, &options);
}

static enum status bind(const char *text) { return bind_with(text, NULL, 0, true, DTYPE_F32); }

static void expect_error(enum status got, enum status want, const char *message)
{
	ck_assert_int_eq(got, want);
	ck_assert_ptr_nonnull(diags.last);
	ck_assert_str_eq(diags.last->message, message);
}

/* For an input of the type that it is held in, where it is weak. */
static void expect_type(size_t i, const char *want)
{
	const struct type input = {.dtype = params.bound[i].dtype}, type = chain_param_type(&chain, i, &input);
	char text[TYPE_TEXT];
	ck_assert_str_eq(type_format(&type, text), want);
	ck_assert_int_eq(params.bound[i].dtype, dtype_compute(type.dtype));
	ck_assert(shape_equal(params.bound[i].shape, &type.shape));
}

static double element(size_t i, int64_t k)
{
	const void *data = params.bound[i].data;
	return params.bound[i].dtype == DTYPE_F32 ? (double)((const float *)data)[k] : ((const double *)data)[k];
}

static const char *save(const char *name, const struct type *type, const void *data)
{
	char *path = arena_printf(&arena, "%s/%s", folder, name);
	ck_assert_int_eq(array_save(path, type, data, &arena, &diags), STATUS_OK);
	return path;
}

START_TEST(numbers_are_weak)
{
	ck_assert_int_eq(bind("param a = 0.1; const b = -2"), STATUS_OK);
	expect_type(0, "f32[]");
	ck_assert(chain.params[0].weak);
	ck_assert(chain.params[1].weak);
	ck_assert_double_eq(element(0, 0), (double)0.1f);
	ck_assert_double_eq(element(1, 0), -2);
	const struct type before = *chain.params[0].type;
	params_settle(&params, &chain, DTYPE_F64);
	expect_type(0, "f64[]");
	ck_assert(type_equal(chain.params[0].type, &before)); /* the chain is as it was, whatever array comes */
	ck_assert_double_eq(element(0, 0), 0.1);              /* not 0.1f widened */
	params_settle(&params, &chain, DTYPE_F32);
	ck_assert_double_eq(element(0, 0), (double)0.1f);
}
END_TEST

START_TEST(declared_numbers_are_not)
{
	ck_assert_int_eq(bind("param a: f64[] = 0.1; param b: f16[] = 0.1"), STATUS_OK);
	expect_type(0, "f64[]");
	ck_assert(!chain.params[0].weak);
	ck_assert_double_eq(element(0, 0), 0.1);
	expect_type(1, "f16[]");
	ck_assert_double_eq(element(1, 0), 0.0999755859375); /* the nearest f16 */
}
END_TEST

START_TEST(lists)
{
	ck_assert_int_eq(
		bind("param a = [[1, 2, 3], [4, 5, 6.5]]; param b: i32[2] = [1.9, -1.9]; param c: bool[3] = [0, 2, -1]"),
		STATUS_OK);
	expect_type(0, "f32[2,3]");
	ck_assert(chain.params[0].weak);
	ck_assert_double_eq(element(0, 5), 6.5);
	expect_type(1, "f64[2]");
	ck_assert_double_eq(element(1, 0), 1);
	ck_assert_double_eq(element(1, 1), -1);
	ck_assert_double_eq(element(2, 0) + 10 * element(2, 1) + 100 * element(2, 2), 110);
}
END_TEST

START_TEST(fills)
{
	ck_assert_int_eq(
		bind("param a: f32[2,2] = zeros; param b: f64[3] = ones; param c: f32[2,3] = eye; param d: f64[2] = full(0.1)"),
		STATUS_OK);
	for (int i = 0; i < 4; i++)
		ck_assert_double_eq(element(0, i), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_double_eq(element(1, i), 1);
	for (int i = 0; i < 6; i++)
		ck_assert_double_eq(element(2, i), i == 0 || i == 4);
	ck_assert_double_eq(element(3, 1), 0.1);
}
END_TEST

/* The known answer of Philox4x32-10 for counter 0 and key 0 (Random123's kat_vectors). */
START_TEST(uniform_is_philox)
{
	ck_assert_int_eq(bind("param a: f64[3] = uniform(0, 1, 0); param b: f64[2] = uniform(-1, 3, 0)"), STATUS_OK);
	double first = (double)(0xe169c58d6627e8d5u >> 11) / 9007199254740992.0;
	double second = (double)(0x9b00dbd8bc57ac4cu >> 11) / 9007199254740992.0;
	ck_assert_double_eq(element(0, 0), first);
	ck_assert_double_eq(element(0, 1), second);
	ck_assert_double_eq(element(1, 0), -1 + 4 * first);
}
END_TEST

START_TEST(normal_is_normal)
{
	ck_assert_int_eq(bind("param a: f64[100001] = normal(2, 7); param b: f64[100001] = normal(2, 7); param c: "
	                      "f64[100001] = normal(2, 8)"),
	                 STATUS_OK);
	double sum = 0, squares = 0, inside = 0;
	int64_t n = 100001, same = 0;
	for (int64_t i = 0; i < n; i++) {
		double v = element(0, i);
		ck_assert(isfinite(v));
		ck_assert_double_eq(v, element(1, i));
		same += v == element(2, i);
		sum += v;
		squares += v * v;
		inside += fabs(v) < 2;
	}
	ck_assert_int_eq(same, 0);
	ck_assert_double_lt(fabs(sum / (double)n), 0.03);                /* 4.7 standard errors */
	ck_assert_double_lt(fabs(squares / (double)n - 4), 0.09);        /* 5 */
	ck_assert_double_lt(fabs(inside / (double)n - 0.682689), 0.008); /* 5 */
}
END_TEST

START_TEST(files)
{
	const struct type f64x3 = {DTYPE_F64, {1, {3}}}, f32x22 = {DTYPE_F32, {2, {2, 2}}}, zero = {DTYPE_F64, {0, {0}}};
	const double three[3] = {1, 0.1, 1e300}, one = 0.1;
	const float four[4] = {1, 2, 3, 4};
	save("three.npy", &f64x3, three);
	save("four.npy", &f32x22, four);
	save("one.npy", &zero, &one);
	const char *text =
		"param a = load(\"three.npy\"); param b: f32[3] = load(\"three.npy\"); param c: f64[2,2] = load(\"four.npy\");"
		"const d = load(\"one.npy\"); const e: f32[3]";
	const struct param_binding first = {"e", arena_printf(&arena, "%s/three.npy", folder)};
	ck_assert_int_eq(bind_with(text, &first, 1, true, DTYPE_F32), STATUS_OK);
	expect_type(0, "f64[3]");
	ck_assert(!chain.params[0].weak);
	ck_assert_double_eq(element(0, 1), 0.1);
	expect_type(1, "f32[3]");
	ck_assert_double_eq(element(1, 1), (double)0.1f);
	ck_assert(isinf(element(1, 2)));
	expect_type(2, "f64[2,2]");
	ck_assert_double_eq(element(2, 3), 4);
	ck_assert(chain.params[3].weak);
	params_settle(&params, &chain, DTYPE_F64);
	ck_assert_double_eq(element(3, 0), 0.1);
	ck_assert_double_eq(element(4, 1), (double)0.1f);
}
END_TEST

START_TEST(types_alone)
{
	const struct type f64x3 = {DTYPE_F64, {1, {3}}};
	const double three[3] = {1, 2, 3};
	save("three.npy", &f64x3, three);
	const char *text =
		"param a = load(\"three.npy\"); param b: f32[7]; param c = 2; param d: f32[1000000,1000000] = zeros";
	ck_assert_int_eq(bind_with(text, NULL, 0, false, DTYPE_F64), STATUS_OK);
	expect_type(0, "f64[3]");
	expect_type(1, "f32[7]");
	expect_type(2, "f64[]");
	expect_type(3, "f32[1000000,1000000]");
	for (size_t i = 0; i < 4; i++)
		ck_assert_ptr_null(params.bound[i].data);
	ck_assert_int_eq(counts.requests, 0);
	ck_assert_int_eq(params.bytes, 24 + 28 + 16 + INT64_C(4000000000000));
}
END_TEST

START_TEST(bytes_are_those_that_are_held)
{
	ck_assert_int_eq(bind("param a = 1; param b: f64[10] = ones; param c: f32[10] = ones"), STATUS_OK);
	ck_assert_int_eq(counts.live, params.bytes);
	ck_assert_int_eq(params.bytes, 16 + 80 + 40);
}
END_TEST

START_TEST(bindings)
{
	const struct param_binding list[] = {{"a", "3"}, {"b", "-inf"}, {"a", "3.5"}};
	ck_assert_int_eq(bind_with("param a = 1; const b", list, 3, true, DTYPE_F64), STATUS_OK);
	ck_assert_double_eq(element(0, 0), 3.5); /* the last one counts */
	ck_assert_double_eq(element(1, 0), -INFINITY);
}
END_TEST

START_TEST(numbers_fill)
{
	const struct param_binding list[] = {{"b", "3.5"}};
	const char *text = "param a: f16[700] = 0.1; param b: f64[2,2]; const c: i32[1] = -1.5";
	ck_assert_int_eq(bind_with(text, list, 1, true, DTYPE_F64), STATUS_OK);
	expect_type(0, "f16[700]");
	expect_type(1, "f64[2,2]");
	for (int64_t k = 0; k < 700; k++)
		ck_assert_double_eq(element(0, k), 0.0999755859375);
	for (int64_t k = 0; k < 4; k++)
		ck_assert_double_eq(element(1, k), 3.5);
	ck_assert_double_eq(element(2, 0), -1);
	ck_assert(!chain.params[0].weak && !chain.params[1].weak);
}
END_TEST

START_TEST(unknown_binding)
{
	const struct param_binding list[] = {{"weigth", "3"}};
	expect_error(bind_with("param weight = 1", list, 1, true, DTYPE_F64), STATUS_USAGE,
	             "--param weigth: the chain has no param or const of that name");
	ck_assert_str_eq(diags.last->hint, "did you mean 'weight'?");
}
END_TEST

static const struct {
	const char *text, *message;
} wrong[] = {
	{"param a: f32[256]", "param 'a' has no value"},
	{"const a", "const 'a' has no value"},
	{"param a = zeros", "param 'a' needs a type: 'zeros' has no shape of its own"},
	{"param a = normal(1, 2)", "param 'a' needs a type: 'normal' has no shape of its own"},
	{"param a: f32[3] = [1, 2]", "param 'a' is f32[3], but its list is [2]"},
	{"param a: f32[] = [2]", "param 'a' is f32[], but its list is [1]"},
	{"param W: f32[256,256] = load(\"w.npy\")", "param 'W' is f32[256,256], but %s/w.npy holds f64[3]"},
	{"param a: f32[2] = eye", "'eye' makes a matrix, and 'a' has 1 dimension"},
	{"param a: f32[2] = tril", "'tril' makes a matrix, and 'a' has 1 dimension"},
	{"param a: f32[2,2] = arange", "'arange' makes a vector, and 'a' has 2 dimensions"},
	{"param a: f32[2] = normal(1, 0.5)", "the seed of param 'a' is not a whole number of at most 2^53"},
};

START_TEST(wrong_types)
{
	const struct type f64x3 = {DTYPE_F64, {1, {3}}};
	const double three[3] = {1, 2, 3};
	save("w.npy", &f64x3, three);
	char message[200];
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wformat-nonliteral\"")
		snprintf(message, sizeof message, wrong[_i].message, folder);
	_Pragma("GCC diagnostic pop") expect_error(bind(wrong[_i].text), STATUS_CHAIN, message);
	ck_assert_ptr_eq(diags.last->source, &source);
	ck_assert_uint_eq(diags.last->span.line, 1);
	ck_assert_uint_eq(diags.last->span.column, 7); /* the name */
}
END_TEST

START_TEST(missing_and_special_files)
{
	ck_assert_int_eq(bind("param a = load(\"nowhere.npy\")"), STATUS_IO);
	params_free(&params);
	ck_assert_int_eq(bind("param a = load(\"/dev/null\")"), STATUS_IO);
	params_free(&params);
	ck_assert_int_eq(bind("param a = load(\"/dev/null\")"), STATUS_IO);
	params_free(&params);
	ck_assert_int_eq(bind_with("param a = load(\"/dev/zero\")", NULL, 0, false, DTYPE_F32), STATUS_IO);
}
END_TEST

/* Of types alone a file that is not there is no part, where the declaration says one. */
START_TEST(files_yet_to_be_made)
{
	static const char text[] = "param a: f32[2,3] = load(\"nowhere.npz\", \"a\"); const b: i64[2]";
	const struct param_binding binding = {"b", "/nowhere/b.npy"};
	ck_assert_int_eq(bind_with(text, &binding, 1, false, DTYPE_F32), STATUS_OK);
	expect_type(0, "f32[2,3]");
	expect_type(1, "f64[2]");
	ck_assert(!chain.params[0].weak);
	ck_assert_ptr_null(params.bound[0].data);
	ck_assert_int_eq(params.bytes, 24 + 16);
	params_free(&params);
	ck_assert_int_eq(bind_with(text, &binding, 1, true, DTYPE_F32), STATUS_IO);
	params_free(&params);
	ck_assert_int_eq(bind_with("param a = load(\"nowhere.npy\")", NULL, 0, false, DTYPE_F32), STATUS_IO);
	params_free(&params);
	ck_assert_int_eq(bind_with("param a: f32[] = load(\"/dev/zero\")", NULL, 0, false, DTYPE_F32), STATUS_IO);
}
END_TEST

START_TEST(short_memory)
{
	const struct type f64x3 = {DTYPE_F64, {1, {3}}};
	const double three[3] = {1, 2, 3};
	save("w.npy", &f64x3, three);
	const char *text =
		"param a = load(\"w.npy\"); param b: f32[3] = load(\"w.npy\"); const c = 2; param d: f16[3] = ones";
	for (size_t n = 1;; n++) {
		scratch_teardown();
		scratch_setup();
		counts.requests = 0;
		counts.fail_at = n;
		enum status status = bind(text);
		if (status == STATUS_OK)
			break;
		ck_assert_int_eq(status, STATUS_LIMIT);
		params_free(&params);
		ck_assert_int_eq(counts.live, 0);
		ck_assert_uint_lt(n, 100);
	}
	ck_assert_uint_gt(counts.requests, 4);
}
END_TEST

/* Files whose names have colons; the longest beginning that is a file counts, and without one the last colon. */
START_TEST(splits)
{
	static const struct {
		const char *value, *file, *member;
	} cases[] = {{"w.npz", "w.npz", NULL},
	             {"w.npz:W", "w.npz", "W"},
	             {"w.npz:a:b", "w.npz:a", "b"},
	             {"/dev/null:a:b", "/dev/null", "a:b"},
	             {"/dev/null:", "/dev/null", ""},
	             {":W", "", "W"},
	             {"", "", NULL}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct param_place place;
		ck_assert_int_eq(params_split(cases[i].value, &arena, &diags, &place), STATUS_OK);
		ck_assert_str_eq(place.file, cases[i].file);
		ck_assert_pstr_eq(place.member, cases[i].member);
	}
}
END_TEST

int main(void)
{
	if (!mkdtemp(folder))
		return 1;
	Suite *suite = suite_create("params");
	TCase *tcase = suite_make_case(suite, "params");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, splits);
	tcase_add_test(tcase, numbers_are_weak);
	tcase_add_test(tcase, declared_numbers_are_not);
	tcase_add_test(tcase, lists);
	tcase_add_test(tcase, fills);
	tcase_add_test(tcase, uniform_is_philox);
	tcase_add_test(tcase, normal_is_normal);
	tcase_add_test(tcase, files);
	tcase_add_test(tcase, types_alone);
	tcase_add_test(tcase, bytes_are_those_that_are_held);
	tcase_add_test(tcase, bindings);
	tcase_add_test(tcase, numbers_fill);
	tcase_add_test(tcase, unknown_binding);
	tcase_add_loop_test(tcase, wrong_types, 0, sizeof wrong / sizeof *wrong);
	tcase_add_test(tcase, missing_and_special_files);
	tcase_add_test(tcase, files_yet_to_be_made);
	tcase_add_test(tcase, short_memory);
	const int status = suite_run(suite);
	static const char *const names[] = {"three.npy", "four.npy", "one.npy", "w.npy"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[100];
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
	return status;
}
