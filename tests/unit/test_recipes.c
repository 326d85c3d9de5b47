/* Words of other languages: each recipe of the table runs as it stands, and lookups find each word. */
#include "ckptc.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "language/recipes.h"
#include "language/syntax.h"
#include "ops/op.h"

#include "suite.h"

static const struct {
	const char *words, *text, *note;
} rows[] = {
#define RECIPE(WORDS, TEXT, NOTE) {WORDS, TEXT, NOTE},
#include "language/recipes.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Each recipe fits one of these inputs. */
static const struct {
	int dtype, ndim;
	int64_t shape[4];
} inputs[] = {
	{CKPTC_F64, 2, {4, 4}},    {CKPTC_F64, 1, {4}},       {CKPTC_F64, 2, {4, 2}},
	{CKPTC_F64, 2, {4, 3}},    {CKPTC_F64, 3, {2, 3, 8}}, {CKPTC_I64, 1, {4}},
	{CKPTC_F64, 3, {4, 4, 2}}, {CKPTC_F64, 2, {6, 8}},    {CKPTC_F64, 4, {2, 3, 8, 8}},
};
enum { INPUTS = sizeof inputs / sizeof *inputs, ELEMENTS = 2 * 3 * 8 * 8 };

/* Returns the hint for WORD in BUFFER. */
static const char *hint_of(const char *word, struct arena *arena)
{
	const char *hint = recipe_hint_word(arena, word);
	ck_assert_msg(hint, "no hint for %s", word);
	return hint;
}

/* Runs TEXT on input I. Returns the status, and the reason in ERROR. */
static int run_on(const char *text, int i, struct ckptc_error *error)
{
	static double numbers[ELEMENTS];
	static int64_t indices[4] = {2, 0, 3, 1};
	struct ckptc_array x = {.dtype = inputs[i].dtype, .ndim = inputs[i].ndim};
	struct ckptc_chain *chain;
	struct ckptc_result *result;
	x.data = x.dtype == CKPTC_I64 ? (const void *)indices : numbers;
	memcpy(x.shape, inputs[i].shape, sizeof inputs[i].shape);
	for (int k = 0; k < ELEMENTS; k++)
		numbers[k] = 0.5 + (k * 7 % 11) / 4.0 + (k % 5 == 0);
	int status = ckptc_chain_new(&chain, text, strlen(text), &(struct ckptc_chain_options){.allocator = NULL}, error);
	if (status)
		return status;
	status = ckptc_run(&result, chain, &x, NULL, error);
	if (!status)
		ckptc_result_free(result);
	ckptc_chain_free(chain);
	return status;
}

/* The bytes between the backquotes of a hint run as a chain, as a user would paste them. */
START_TEST(recipes_run)
{
	const char *first_word = rows[_i].words;
	struct arena arena;
	char word[64], text[600];
	snprintf(word, sizeof word, "%.*s", (int)strcspn(first_word, " "), first_word);
	char *dot = strchr(word, '.');
	arena_init(&arena, &allocator_system);
	if (dot)
		*dot = '\0';
	else
		*word = (char)toupper((unsigned char)*word); /* Linear is no operation, and linear is */
	const bool renamed = op_find(rows[_i].text) != OP_COUNT && !*rows[_i].note;
	const char *hint = renamed ? NULL : dot ? recipe_hint_use(&arena, word, dot + 1, "2") : hint_of(word, &arena);
	ck_assert(*rows[_i].text || *rows[_i].note);
	ck_assert(renamed || hint);
	if (!*rows[_i].text || !hint) {
		arena_free(&arena);
		return;
	}
	ck_assert_msg(!strncmp(hint, "write `", 7), "%s", hint);
	snprintf(text, sizeof text, "%.*s", (int)strcspn(hint + 7, "`"), hint + 7);
	struct ckptc_error error, last = {.message = ""};
	int i = 0;
	while (i < INPUTS && run_on(text, i, &error)) {
		last = error;
		i++;
	}
	ck_assert_msg(i < INPUTS, "%s: `%s` runs on no input: %s", word, text, last.message);
	arena_free(&arena);
}
END_TEST

/* True if the table has WORD twice, by rows A and later ones. */
static bool is_repeated(const char *word, int a)
{
	int count = 0;
	for (int i = a; i < ROWS; i++)
		for (const char *at = rows[i].words; *at; at += strspn(at, " ")) {
			const size_t length = strcspn(at, " ");
			count += length == strlen(word) && !memcmp(at, word, length);
			at += length;
		}
	return count != 1;
}

START_TEST(words_are_plain)
{
	char word[64];
	for (const char *at = rows[_i].words; *at; at += strspn(at, " ")) {
		const size_t length = strcspn(at, " ");
		snprintf(word, sizeof word, "%.*s", (int)length, at);
		for (const char *c = word; *c; c++)
			ck_assert_msg(islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '.', "%s", word);
		ck_assert_msg(!is_repeated(word, _i), "%s is there twice", word);
		ck_assert_msg(strchr(word, '.') || op_find(word) == OP_COUNT || !strcmp(word, "linear") ||
		                  !strncmp(word, "conv", 4),
		              "%s is an operation", word);
		at += length;
	}
}
END_TEST

START_TEST(hints)
{
	static const struct {
		const char *stage, *want;
	} cases[] = {
		{"np.exp(x)", "a call is a formula: use (exp(x))"},
		{"np.exp", "write `exp`"},
		{"torch.nn.functional.relu(np.sin(x)) + 1", "a call is a formula: use (relu(sin(x)) + 1)"},
		{"x.sum()", "a call is a formula: use (sum(x))"},
		{"x.T", "a call is a formula: use (transpose(x))"},
		{"x.sum(dim=1, keepdim=True)", "a call is a formula: use (sum(x, axis=1, keepdims=true))"},
		{"abs(x).sum()", "a call is a formula: use (sum(abs(x)))"},
		{"np.clip(x, 0, 1)", "a call is a formula: use (clip(x, 0, 1))"},
		{"torch.clamp(x, 0, 1)", "a call is a formula: use (clip(x, 0, 1))"},
		{"ReLU()", "write `relu`"},
		{"nn.ReLU()", "write `relu`"},
		{"Softmax(dim=-1)", "write `softmax axis=-1`"},
		{"nn.Dropout(0.5)", "write `dropout 0.5`"},
		{"sum(axis=(0, 1))", "write `sum axis=[0, 1]`"},
		{"clip(0, 1)", "write `clip 0 1`"},
		{"reshape(3,2)", "write `reshape 3 2`"},
		{"x.reshape(3, 2)", "a call is a formula: use (reshape(x, 3, 2))"},
		{"x.astype(np.float32)", "a call is a formula: use (cast(x, f32))"},
		{"MaxPool2d(2)", "write `maxpool2d 2`"},
		{"Linear(784, 128)",
	     "write `param W: f32[128,784] = normal(0.1, 1); param b: f32[128] = zeros; linear W; add b`"},
		{"Conv2d(3, 16, 5)", "write `param K: f32[16,3,5,5] = normal(0.1, 1); conv2d K`"},
		{"head 5", "write `slice stop=5`"},
		{"tail 1e2; sin", "write `slice start=-1e2`"},
		{"percentile(90)", "write `quantile (90 / 100)`"},
		{"convolve [1, 4, 1]", "write `stencil [1, 4, 1] boundary=zero`: convolve has the weights in reverse order"},
		{"hstack W", "write `concat W axis=1`"},
		{"head n", "write `slice stop=3`"},
		{"z-score", "write `sub { mean axis=0 }; div { std axis=0 }`"},
		{"BatchNorm2d(16)", "write `layernorm axis=[0,2,3]`"},
		{"clamp", "did you mean 'clip'?"},
		{"np.add.reduce(x)", "write `sum`"},
		{"np.maximum.accumulate(x)", "write `cummax`"},
		{"slice(1, 5)", "write `slice start=1 stop=5`"},
		{"round(3)", "write `mul (10 ^ 3); round; div (10 ^ 3)`"},
		{"sin", NULL},
		{"sin(x)", NULL},
		{"frobnicate", NULL},
		{"frobnicate(", NULL},
		{"", NULL},
		{"np.", NULL},
		{"np.sin(", "write `sin`"},
	};
	struct arena arena;
	arena_init(&arena, &allocator_system);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct source source = {"test.ck", cases[i].stage, strlen(cases[i].stage)};
		const char *got = recipe_hint_stage(&arena, &source, 0);
		if (cases[i].want)
			ck_assert_msg(got && !strcmp(got, cases[i].want), "%s: %s", cases[i].stage, got ? got : "nothing");
		else
			ck_assert_msg(!got, "%s: %s", cases[i].stage, got);
	}
	arena_free(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("recipes");
	TCase *tcase = suite_make_case(suite, "recipes");
	tcase_add_loop_test(tcase, recipes_run, 0, ROWS);
	tcase_add_loop_test(tcase, words_are_plain, 0, ROWS);
	tcase_add_test(tcase, hints);
	return suite_run(suite);
}
