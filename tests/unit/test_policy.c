/* Policies as text and as rules over values. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "failing.h"
#include "schedule/policy.h"
#include "scratch.h"
#include "suite.h"

static struct policy parse(const char *text)
{
	struct policy policy;
	ck_assert_msg(policy_parse(&scratch, &policy, text) == STATUS_OK, "%s", text);
	return policy;
}

START_TEST(canonical_text)
{
	static const char *const cases[][2] = {
		{"save-all", "save-all"},
		{"nothing", "nothing"},
		{"dots", "dots"},
		{"dots-no-batch", "dots-no-batch"},
		{"names:a,b", "names:a,b"},
		{"names-but:h1", "names-but:h1"},
		{"all-but:_x", "all-but:_x"},
		{"dots+names:a", "dots+names:a"},
		{"dots+names:a+nothing", "dots+names:a+nothing"},
		{"every:004", "every:4"},
		{"sqrt", "sqrt"},
		{"recursive", "recursive"},
		{"revolve:3", "revolve:3"},
		{"budget:64MiB", "budget:64MiB"},
		{"budget:67108864", "budget:67108864"},
		{"budget:64M", "budget:64M"},
		{"budget:1500", "budget:1500"},
		{"disk-revolve:2", "disk-revolve:2"},
		{"online:7", "online:7"},
		{"auto", "auto"},
		{"everything_saveable", "save-all"},
		{"nothing_saveable", "nothing"},
		{"dots_saveable", "dots"},
		{"checkpoint_dots", "dots"},
		{"dots_with_no_batch_dims_saveable", "dots-no-batch"},
		{"checkpoint_dots_with_no_batch_dims", "dots-no-batch"},
		{"save_only_these_names:a,b", "names:a,b"},
		{"save_any_names_but_these:dots_saveable", "names-but:dots_saveable"},
		{"save_anything_except_these_names:h1", "all-but:h1"},
		{"names:a+checkpoint_dots+save_only_these_names:b+nothing_saveable", "names:a+dots+names:b+nothing"},
		{"every-3", "every:3"},
		{"every=03", "every:3"},
		{"every(3)", "every:3"},
		{"disk-revolve-0", "disk-revolve:0"},
		{"budget(1.5GiB)", "budget:1.5GiB"},
		{"names-but=a,b", "names-but:a,b"},
		{"names(a)+checkpoint_dots+save_only_these_names(b)", "names:a+dots+names:b"},
		{"sqrt(N)", "sqrt"},
		{"sqrt(20)", "every:5"},
		{"sqrt(1)", "every:1"},
		{"recursive-binary", "recursive"},
		{"binomial:4", "revolve:4"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct policy policy = parse(cases[i][0]);
		ck_assert_str_eq(policy.text, cases[i][1]);
		struct policy again = parse(policy.text);
		ck_assert_int_eq(again.kind, policy.kind);
		ck_assert_int_eq(again.number, policy.number);
	}
}
END_TEST

START_TEST(wrong_text)
{
	static const char *const cases[][2] = {
		{"revolv:2", "'revolve'"},
		{"evry:4", "'every'"},
		{"dot", "'dots'"},
		{"every(3", "'every(3'"},
		{"every()", "needs a number"},
		{"every-", "'every'"},
		{"every=x", "'x'"},
		{"sqrt(0)", "'sqrt' takes no argument"},
		{"sqrt(n)", "'sqrt' takes no argument"},
		{"sqrt(3)+dots", "'every:2' cannot be joined"},
		{"dots-2", "'dots'"},
		{"names-a", "'names'"},
		{"saveall", "'save-all'"},
		{"dots_savable", "'dots_saveable'"},
		{"save_only_these_names", "'names' needs names"},
		{"dots_saveable:1", "'dots' takes no argument"},
		{"revolve", "needs a number"},
		{"revolve:", "needs a number"},
		{"revolve:0", "at least 1"},
		{"revolve:-1", "'-1'"},
		{"every:4x", "'4x'"},
		{"every:99999999999999999999", "cannot take"},
		{"sqrt:3", "takes no argument"},
		{"names", "needs names"},
		{"names:a,,b", "empty name"},
		{"names:a b", "'a b'"},
		{"names:a,", "empty name"},
		{"dots+revolve:2", "'revolve:2' cannot be joined"},
		{"every:2+dots", "'every:2' cannot be joined"},
		{"dots+", "unknown policy ''"},
		{"budget", "needs a size"},
		{"budget:0", "at least 1 byte"},
		{"budget:12Q", "'12Q' is not a number of bytes"},
		{"", "unknown policy"},
		{"dots+nams:a", "'names'"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct policy policy;
		ck_assert_msg(policy_parse(&scratch, &policy, cases[i][0]) == STATUS_USAGE, "%s", cases[i][0]);
		ck_assert_msg(strstr(diags.last->message, cases[i][1]) != NULL, "%s: %s", cases[i][0], diags.last->message);
	}
}
END_TEST

START_TEST(numbers_of_bytes)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} cases[] = {{"1500", 1500},     {"64K", 64000},      {"64k", 64000},      {"64KB", 64000},
	             {"64KiB", 65536},   {"1.5KiB", 1536},    {"2M", 2000000},     {"2MiB", 2 << 20},
	             {"1G", 1000000000}, {"2GiB", 2LL << 30}, {"1TiB", 1LL << 40}, {"0.5T", 500000000000},
	             {"0", 0},           {"12B", 12},         {".5KiB", 512},      {"0.1M", 100000}};
	static const char *const wrong[] = {"",    "x",   "-1",  "1e3", "0x10", "1 K",
	                                    "1Ki", "1KK", "nan", ".",   "1,5K", "99999999T"};
	int64_t bytes;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		ck_assert_msg(bytes_parse(cases[i].text, &bytes, &diags) == STATUS_OK, "%s", cases[i].text);
		ck_assert_int_eq(bytes, cases[i].bytes);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		ck_assert_msg(bytes_parse(wrong[i], &bytes, &diags) == STATUS_USAGE, "%s", wrong[i]);
}
END_TEST

START_TEST(saved_values)
{
	/* A sine; a product; a batched product; the values named a and c; a product that is named a. */
	static const struct policy_value values[] = {{"sin", false, false, NULL, 0},  {"matmul", true, false, NULL, 0},
	                                             {"matmul", true, true, NULL, 0}, {NULL, false, false, "a", 0},
	                                             {NULL, false, false, "c", 0},    {"dot", true, false, "a", 0}};
	static const struct {
		const char *text, *saved; /* by value: + or - */
	} cases[] = {{"save-all", "++++++"},
	             {"nothing", "------"},
	             {"dots", "-++--+"},
	             {"dots-no-batch", "-+---+"},
	             {"names:a,b", "---+-+"},
	             {"names-but:a,b", "----+-"},
	             {"all-but:a,b", "+++-+-"},
	             {"dots+names:a", "-+++-+"},
	             {"names:a+names:c", "---+++"},
	             {"save-all+nothing", "++++++"},
	             {"nothing+dots+names:c", "-++-++"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct policy policy = parse(cases[i].text);
		for (size_t k = 0; k < sizeof values / sizeof *values; k++)
			ck_assert_msg(policy_saves(&policy, &values[k]) == (cases[i].saved[k] == '+'), "%s, value %zu",
			              cases[i].text, k);
	}
}
END_TEST

START_TEST(table)
{
	int unnamed = 0;
	for (int i = 0; i < POLICY_COUNT; i++) {
		const struct policy_info *info = &policy_table[i];
		ck_assert(info->doc && *info->doc);
		if (!info->name) {
			unnamed++;
			continue;
		}
		char text[64];
		const char *argument = !info->argument ? "" : info->argument[0] == 'a' ? ":a" : ":4";
		snprintf(text, sizeof text, "%s%s", info->name, argument);
		struct policy policy = parse(text);
		ck_assert_int_eq(policy.kind, i);
		ck_assert_int_eq(policy_by_value(&policy), (info->traits & TRAIT_BY_VALUE) != 0);
	}
	ck_assert_int_eq(unnamed, 1);
	struct policy either = parse("dots+names:a");
	ck_assert(policy_by_value(&either));
}
END_TEST

START_TEST(allocation_fails)
{
	static const char *const texts[] = {"names:a,b+dots+names:c", "budget:64MiB", "revolv:2", "every:x"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		for (size_t fail = 1;; fail++) {
			struct failing failing = {.fail_at = fail};
			const struct allocator allocator = failing_allocator(&failing);
			struct arena small;
			struct diags list;
			struct policy policy;
			arena_init(&small, &allocator);
			diags_init(&list, &small);
			enum status status = policy_parse(&(struct context){&allocator, &small, &list}, &policy, texts[i]);
			bool failed = small.failed;
			arena_free(&small);
			if (!failed)
				break;
			ck_assert(status == STATUS_LIMIT || status == STATUS_USAGE);
		}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("policy");
	TCase *tcase = suite_make_case(suite, "policy");
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_test(tcase, canonical_text);
	tcase_add_test(tcase, wrong_text);
	tcase_add_test(tcase, numbers_of_bytes);
	tcase_add_test(tcase, saved_values);
	tcase_add_test(tcase, table);
	tcase_add_test(tcase, allocation_fails);
	return suite_run(suite);
}
