/* Records in their four formats: unknown figures, groups, columns, quotes, lists. */
#include "report/record.h"

#include <math.h>
#include <string.h>

#include "scratch.h"
#include "suite.h"

enum { PLAIN = 1, EXTRA = 2 };

struct row {
	const char *name;
	int64_t count;
	double share;
	bool best;
	int64_t extra;
	struct field_list words, sizes;
};

static const struct field fields[] = {
	{"name", NULL, IN_ALL | IN_FIGURES, 0, FIELD(row, TEXT, name)},
	{"count", "how many", IN_ALL | IN_FIGURES, PLAIN, FIELD(row, WHOLE, count)},
	{"share", NULL, IN_ALL, PLAIN, FIELD(row, NUMBER, share), "%.1f", true, .unknown = "-"},
	{"best", NULL, IN_JSON | IN_LINES, 0, FIELD(row, FLAG, best)},
	{"extra", NULL, IN_ALL, EXTRA, FIELD(row, WHOLE, extra)},
	{"words", NULL, IN_JSON, EXTRA, FIELD(row, TEXTS, words)},
	{"sizes", NULL, IN_JSON, EXTRA, FIELD(row, WHOLES, sizes)},
};
static const struct record_kind kind = RECORD_KIND("rows", fields, NULL);
static const char *const words[] = {"a", "b\"c"};
static const int64_t sizes[] = {1, -2};
static const struct row rows[] = {{"one", 1, 0.1, true, 0, {0}, {0}},
                                  {"t,wo", NO_WHOLE, NAN, false, 0, {0}, {0}},
                                  {NULL, 30, 1e300, false, 7, {words, 2}, {sizes, 2}}};

static char out[4096];

static void append(void *context, const char *text, size_t length)
{
	(void)context;
	ck_assert_uint_lt(strlen(out) + length, sizeof out);
	strncat(out, text, length);
}

static const struct text text = {append, NULL};

static struct report begin(enum report_format format)
{
	out[0] = '\0';
	return (struct report){.text = &text, .format = format, .arena = scratch.arena};
}

/* The first COUNT rows, of which only the third has EXTRA. */
static const char *report_rows(enum report_format format, size_t count)
{
	struct report report = begin(format);
	struct records records;
	report_open(&report, NULL, '{');
	records_begin(&records, &report, &kind, PLAIN | (count > 2 ? EXTRA : 0));
	for (size_t i = 0; i < count; i++)
		records_put(&records, &rows[i], i == 2 ? PLAIN | EXTRA : PLAIN);
	records_end(&records);
	ck_assert(!scratch.arena->failed);
	report_whole(&report, "total", 3);
	report_close(&report, '}');
	return out;
}

static const struct {
	enum report_format format;
	size_t count;
	const char *want;
} formats[] = {
	{REPORT_JSON, 0, "{\"rows\":[],\"total\":3}\n"},
	{REPORT_JSON, 3,
     "{\"rows\":[{\"name\":\"one\",\"count\":1,\"share\":0.1,\"best\":true},"
     "{\"name\":\"t,wo\",\"count\":null,\"share\":null,\"best\":false},"
     "{\"name\":null,\"count\":30,\"share\":1e+300,\"best\":false,\"extra\":7,\"words\":[\"a\",\"b\\\"c\"],"
     "\"sizes\":[1,-2]}],\"total\":3}\n"},
	{REPORT_CSV, 2, "name,count,share\none,1,0.1\n\"t,wo\",,\n"},
	{REPORT_TABLE, 2, "name  how many  share\none          1    0.1\nt,wo                -\n"},
	{REPORT_HTML, 2,
     "<table>\n<tr><th>name</th><th class=\"number\">how many</th><th class=\"number\">share</th></tr>\n"
     "<tr><td>one</td><td class=\"number\">1</td><td class=\"number\">0.1</td></tr>\n"
     "<tr><td>t,wo</td><td class=\"number\"></td><td class=\"number\">-</td></tr>\n</table>\n"},
	{REPORT_LINES, 2, "one count=1 share=0.1 best\nt,wo\n"},
};

START_TEST(each_format) { ck_assert_str_eq(report_rows(formats[_i].format, formats[_i].count), formats[_i].want); }
END_TEST

/* A column of a group stands where one record has it, and is empty in others. */
START_TEST(columns_of_groups)
{
	ck_assert_ptr_nonnull(strstr(report_rows(REPORT_CSV, 3), "name,count,share,extra\none,1,0.1,\n"));
	ck_assert_ptr_nonnull(strstr(report_rows(REPORT_TABLE, 3), "extra\none "));
	ck_assert_ptr_nonnull(strstr(out, "      7\n"));
}
END_TEST

START_TEST(figures)
{
	static const int widths[2] = {9, 4};
	const void *const both[] = {&rows[0], &rows[1]};
	struct report report = begin(REPORT_TABLE);
	report_figures(&report, &kind, PLAIN, both, 2, widths);
	ck_assert_str_eq(out, "name       one t,wo\nhow many     1\n");
	report = begin(REPORT_CSV);
	report_figures(&report, &kind, PLAIN, both, 2, widths);
	ck_assert_str_eq(out, "name,one,\"t,wo\"\ncount,1,\n");
}
END_TEST

static void put_own_line(const void *record, const struct text *to)
{
	text_printf(to, "<%s>\n", ((const struct row *)record)->name);
}

/* Lines of a kind's own take the place of a table that has no columns. */
START_TEST(own_lines)
{
	static const struct field only_json[] = {{"name", NULL, IN_JSON, 0, FIELD(row, TEXT, name)}};
	static const struct record_kind own = RECORD_KIND(NULL, only_json, put_own_line);
	static const enum report_format both[] = {REPORT_TABLE, REPORT_LINES};
	struct report report = begin(both[_i]);
	struct records records;
	records_begin(&records, &report, &own, 0);
	records_put(&records, &rows[0], 0);
	records_end(&records);
	ck_assert(!scratch.arena->failed);
	ck_assert_str_eq(out, "<one>\n");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("records");
	TCase *tcase = suite_make_case(suite, "records");
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_loop_test(tcase, each_format, 0, sizeof formats / sizeof *formats);
	tcase_add_test(tcase, columns_of_groups);
	tcase_add_test(tcase, figures);
	tcase_add_loop_test(tcase, own_lines, 0, 2);
	return suite_run(suite);
}
