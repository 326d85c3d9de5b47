/* Tables as other programs write them: each from a file, by rows and at places, and from a pipe. */
#include "io/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "io/formats.h"
#include "scratch.h"
#include "suite.h"

static const double missing_nan = NAN, missing_zero = 0;

enum { MOST = 12 };
static const struct form {
	const char *writer, *text; /* what wrote TEXT */
	const char *columns;       /* --columns, or NULL */
	const double *missing;
	const char *names; /* of the columns that are read, behind each a '|'; NULL: there is no header */
	int64_t rows, columns_read;
	double values[MOST];
	enum format from; /* --from */
	char delimiter;   /* --delimiter */
} forms[] = {
	{"pandas", ",name,x,n\n0,Ann,1.5,1\n1,\"Bob, Jr.\",-2.0,2\n2,\"Cem \"\"C\"\"\",,3\n", "x,n", &missing_nan, "x|n|",
     3, 2, .values = {1.5, 1, -2, 2, NAN, 3}},
	{"pandas index=False", "name,x,n\nAnn,1.5,1\n\"Bob, Jr.\",-2.0,2\n\"Cem \"\"C\"\"\",,3\n", "n,x", &missing_zero,
     "n|x|", 3, 2, .values = {1, 1.5, 2, -2, 3, 0}},
	{"pandas sep=';'", "name;x;n\nAnn;1.5;1\nBob, Jr.;-2.0;2\n\"Cem \"\"C\"\"\";;3\n", "1:", &missing_nan, "x|n|", 3, 2,
     .values = {1.5, 1, -2, 2, NAN, 3}},
	{"pandas sep=tab", "name\tx\tn\nAnn\t1.5\t1\nBob, Jr.\t-2.0\t2\n\"Cem \"\"C\"\"\"\t\t3\n", "x,n", &missing_nan,
     "x|n|", 3, 2, .values = {1.5, 1, -2, 2, NAN, 3}},
	{"pandas na_rep", "name,x,n\nAnn,1.5,1\nBob,-2.0,2\nCem,NA,3\n", "x", &missing_nan, "x|", 3, 1,
     .values = {1.5, -2, NAN}},
	{"pandas QUOTE_NONNUMERIC", "\"name\",\"x\",\"n\"\n\"Ann\",1.5,1\n\"Bob, Jr.\",-2.0,2\n\"Cem\",\"\",3\n", "x,n",
     &missing_nan, "x|n|", 3, 2, .values = {1.5, 1, -2, 2, NAN, 3}},
	{"pandas QUOTE_ALL", "\"name\",\"x\",\"n\"\n\"Ann\",\"1.5\",\"1\"\n\"Bob, Jr.\",\"-2.0\",\"2\"\n", "x,n", NULL,
     "x|n|", 2, 2, .values = {1.5, 1, -2, 2}},
	{"pandas header=False", "Ann,1.5,1\nBob Jr.,-2.0,2\n\"Cem \"\"C\"\"\",,3\n", "1:3", &missing_nan, NULL, 3, 2,
     .values = {1.5, 1, -2, 2, NAN, 3}},
	{"pandas CRLF", "name,x\r\nAnn,1.5\r\nBob,-2.0\r\n", "x", NULL, "x|", 2, 1, .values = {1.5, -2}},
	{"pandas %.3e", "x,n\n1.500e+00,1\n-2.000e+00,2\n", NULL, NULL, "x|n|", 2, 2, .values = {1.5, 1, -2, 2}},
	{"pandas names of two lines", "\"a\nb\",\"c\"\"d\"\n1,2\n3,4\n", NULL, NULL, "a\nb|c\"d|", 2, 2,
     .values = {1, 2, 3, 4}},
	{"pandas dates", "day,x\n2024-01-01,1\n2024-01-02 00:00:00,2\n", "x", NULL, "x|", 2, 1, .values = {1, 2}},
	{"R write.csv", "\"\",\"x\",\"name\"\n\"1\",1.5,\"a\"\n\"2\",NA,\"b\"\n", "x", &missing_nan, "x|", 2, 1,
     .values = {1.5, NAN}},
	{"R write.csv, row names that are numbers", "\"\",\"x\",\"y\"\n\"1\",1.5,2\n\"2\",3,4\n", NULL, NULL, "|x|y|", 2, 3,
     .values = {1, 1.5, 2, 2, 3, 4}},
	{"R write.csv2", "\"name\";\"n\"\n\"a\";1\n\"b\";2\n", "n", NULL, "n|", 2, 1, .values = {1, 2}},
	{"R write.table without row names", "\"x\" \"y z\"\n1 2\n3 NA\n", NULL, &missing_nan, "x|y z|", 2, 2,
     .values = {1, 2, 3, NAN}},
	{"Excel CSV UTF-8", "\xef\xbb\xbfName,Height (cm),Age\r\nAnn,170,30\r\nBob,180.5,25\r\n", "Age,Height (cm)", NULL,
     "Age|Height (cm)|", 2, 2, .values = {30, 170, 25, 180.5}},
	{"Excel, line feed in a cell", "Name,Note,x\r\nAnn,\"one\ntwo, three\",1\r\nBob,\"a \"\"b\"\"\n\n\",2\r\n", "x",
     NULL, "x|", 2, 1, .values = {1, 2}},
	{"Excel sep=", "sep=;\r\na;b\r\n1;2\r\n3;4\r\n", NULL, NULL, "a|b|", 2, 2, .values = {1, 2, 3, 4}},
	{"Excel, empty cells", "a,b,c\r\n1,,3\r\n,5,\r\n", NULL, &missing_zero, "a|b|c|", 2, 3,
     .values = {1, 0, 3, 0, 5, 0}},
	{"Excel, a single column", "Height (cm)\r\n170\r\n180\r\n", NULL, NULL, "Height (cm)|", 2, 1, .values = {170, 180}},
	{"Excel tabs", "a\tb\r\n1\t2\r\n3\t\r\n", NULL, &missing_nan, "a|b|", 2, 2, .values = {1, 2, 3, NAN}},
	{"LibreOffice, all quoted", "\"a\",\"b\"\n\"1\",\"2\"\n\"3\",\"4\"\n", NULL, NULL, "a|b|", 2, 2,
     .values = {1, 2, 3, 4}},
	{"LibreOffice, semicolons", "\"Größe\";b\n1;2\n3;4\n", NULL, NULL, "Größe|b|", 2, 2, .values = {1, 2, 3, 4}},
	{"LibreOffice, data alone", "\"1\",\"2\"\n\"3\",\"4\"\n", NULL, NULL, NULL, 2, 2, .values = {1, 2, 3, 4}},
	{"awk", "1 2.5\n3 4\n", NULL, NULL, NULL, 2, 2, .values = {1, 2.5, 3, 4}},
	{"awk OFS=tab", "x\ty\n1\t2.5\n3\t4\n", NULL, NULL, "x|y|", 2, 2, .values = {1, 2.5, 3, 4}},
	{"awk, a header of words", "x y\n1 2.5\n3 4\n", NULL, NULL, "x|y|", 2, 2, .values = {1, 2.5, 3, 4}},
	{"awk OFS=|", "x|y\n1|2.5\n3|4\n", "y", NULL, "y|", 2, 1, .values = {2.5, 4}, .delimiter = '|'},
	{"awk, words", "Ann 170 x\nBob 180 y\n", "1", NULL, NULL, 2, 1, .values = {170, 180}, .from = FORMAT_CSV},
	{"np.savetxt", "1.000000000000000000e+00 2.500000000000000000e+00\n3.000000000000000000e+00 nan\n", NULL, NULL,
     NULL, 2, 2, .values = {1, 2.5, 3, NAN}},
	{"np.savetxt header", "# x,y\n1,2.5\n3,4\n", NULL, NULL, NULL, 2, 2, .values = {1, 2.5, 3, 4}},
	{"np.savetxt comments=''", "x,y\n1,2.5\n3,4\n", "1,0", NULL, "y|x|", 2, 2, .values = {2.5, 1, 4, 3}},
	{"mlr --ocsv", "a,b c,i\npan,0.5,1\neks,0.25,2\n", "i,b c", NULL, "i|b c|", 2, 2, .values = {1, 0.5, 2, 0.25}},
	{"mlr --otsv", "a\tx\npan\t1\neks\t2\n", "x", NULL, "x|", 2, 1, .values = {1, 2}},
	{"mlr --oxtab", "x 1\ny 2\n", "1", NULL, NULL, 2, 1, .values = {1, 2}, .from = FORMAT_TEXT},
	{"mlr, a field for each name", "a,x\n#pan,1\neks,2\nC# dev,3\n\"#q\",4\n", "x", NULL, "x|", 3, 1,
     .values = {2, 3, 4}},
	{"a spreadsheet of colours", "x,colour,y\n1,#ff0000,2\n3,#00ff00,4 # green\n", "x,y", NULL, "x|y|", 2, 2,
     .values = {1, 2, 3, 4}},
	{"blanks around fields", " a , \"b\" \n 1 ,\t2 \n  3,\"4\" \n", NULL, NULL, "a|b|", 2, 2, .values = {1, 2, 3, 4}},
	{"sqlite3 -csv -header", "id,name,x\r\n1,\"it's\",2\r\n2,,3\r\n", "id,x", NULL, "id|x|", 2, 2,
     .values = {1, 2, 2, 3}},
	{"psql --csv", "id,x\n1,NaN\n2,-Infinity\n", NULL, NULL, "id|x|", 2, 2, .values = {1, NAN, 2, -INFINITY}},
	{"empty lines and comments", "\n# units: cm\n\na,b\n# first\n1,2\n\n3,4 # last\n\n", NULL, NULL, "a|b|", 2, 2,
     .values = {1, 2, 3, 4}},
	{"Na is sodium", "Na,K,Cl\n1,2,3\n", NULL, NULL, "Na|K|Cl|", 1, 3, .values = {1, 2, 3}},
	{"no end of the last line", "a;b\n1;2\n3;4", "b", NULL, "b|", 2, 1, .values = {2, 4}},
};

static struct reader_options options_of(const struct form *f)
{
	return (struct reader_options){.format = f->from,
	                               .assume = DTYPE_COUNT,
	                               .raw = {.shape = {.ndim = -1}},
	                               .columns = f->columns,
	                               .delimiter = f->delimiter,
	                               .missing = f->missing,
	                               .anywhere = true,
	                               .threads = 2};
}

static void check_values(const struct form *f, const double *values, int64_t first, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		ck_assert_msg(isnan(f->values[first + i]) ? isnan(values[i]) : values[i] == f->values[first + i],
		              "%s: number %lld is %g, not %g", f->writer, (long long)(first + i), values[i],
		              f->values[first + i]);
}

static void check_form(const struct form *f, struct reader *r)
{
	double values[MOST];
	bool end = true;
	const enum status status = reader_next(r, &end, &diags);
	ck_assert_msg(status == STATUS_OK, "%s: %s", f->writer, scratch_message());
	ck_assert_msg(r->count == f->rows * f->columns_read, "%s: %lld numbers", f->writer, (long long)r->count);
	ck_assert_int_eq(r->columns, f->columns_read);
	ck_assert_int_eq(r->names != NULL, f->names != NULL);
	char names[200] = "";
	for (int64_t i = 0; r->names && i < r->columns; i++)
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s|", r->names[i]);
	if (f->names)
		ck_assert_str_eq(names, f->names);
	if (f->names && !f->from)
		ck_assert_int_eq(r->format, FORMAT_CSV);
	for (int64_t first = r->count - 1; r->text && first >= 0; first--)
		for (int64_t count = 1; count <= r->count - first; count++) {
			const enum status read = reader_read_at(r, first, values, DTYPE_F64, count, &diags);
			ck_assert_msg(read == STATUS_OK, "%s: %s", f->writer, scratch_message());
			check_values(f, values, first, count);
		}
	for (int64_t i = 0; i < r->count; i++) {
		ck_assert_int_eq(reader_read(r, values, DTYPE_F64, 1, &diags), STATUS_OK);
		check_values(f, values, i, 1);
	}
	ck_assert_int_eq(reader_skip(r, &diags), STATUS_OK);
	reader_free(r);
}

START_TEST(forms_are_read)
{
	const struct form *f = &forms[_i];
	const struct reader_options options = options_of(f);
	char name[] = "/tmp/ckptc-table-XXXXXX";
	struct reader r;
	struct input input;
	close(mkstemp(name));
	file_write(name, f->text, strlen(f->text));
	ck_assert_int_eq(input_open(&input, name, true, &arena, &diags), STATUS_OK);
	reader_init(&r, &input, &options, &arena);
	check_form(f, &r);
	input_close(&input);
	unlink(name);
	input = (struct input){.fd = -1,
	                       .name = "pipe",
	                       .size = -1,
	                       .eof = true,
	                       .buffer = (unsigned char *)arena_strndup(&arena, f->text, strlen(f->text)),
	                       .end = strlen(f->text),
	                       .arena = &arena};
	reader_init(&r, &input, &options, &arena);
	check_form(f, &r);
}
END_TEST

/* What the csv of a table's names reads back as. */
START_TEST(names_are_written)
{
	static const char *const names[][2] = {{"a", "a"},
	                                       {"height (cm)", "height (cm)"},
	                                       {"a,b", "\"a,b\""},
	                                       {"a;b", "\"a;b\""},
	                                       {"say \"hi\"", "\"say \"\"hi\"\"\""},
	                                       {"2nd", "\"2nd\""},
	                                       {"", "\"\""},
	                                       {"NA", "\"NA\""},
	                                       {"a#", "\"a#\""},
	                                       {"a\nb", "\"a\nb\""},
	                                       {"ends ", "\"ends \""},
	                                       {"_x", "_x"}};
	char text[40];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		ck_assert_ptr_eq(table_put_name(text, names[i][0], ','), text + strlen(text));
		ck_assert_str_eq(text, names[i][1]);
	}
}
END_TEST

/*
 * Large tables, whose number in row R and column C is 10 R + C. Columns 1 and 4 are words, among them quoted ones with
 * delimiters and line ends at the edges of windows and blocks.
 */
enum { ROWS = 120000, FIELDS = 6 };

static void write_large(FILE *f, bool quotes)
{
	static const char *const words[] = {"word", "two words", "it's long", "C#", "", "#f00"};
	static const char *const quoted[] = {"\"a,b\"", "\"two\nlines\"",   "\"say \"\"hi\"\"\"",
	                                     "\"\"",    "\",\n#\n\"\"\n\"", "5\" long"};
	fprintf(f, "\xef\xbb\xbf# a table\n\nc0,\"c,1\",c2,c3,c4,c5\r\n");
	for (int64_t r = 0; r < ROWS; r++)
		fprintf(f, "%lld,%s,%lld,%lld,%s,%lld%s", (long long)(10 * r), quotes ? quoted[r % 6] : words[r % 6],
		        (long long)(10 * r + 2), (long long)(10 * r + 3), words[r % 5], (long long)(10 * r + 5),
		        r % 7    ? "\n"
		        : quotes ? " # 1,\"\r\n\n"
		                 : " # 1,\r\n\n");
}

START_TEST(large_tables)
{
	static const int64_t chosen[] = {3, 0, 5};
	const bool quotes = _i % 2;
	const struct reader_options options = {.assume = DTYPE_COUNT,
	                                       .raw = {.shape = {.ndim = -1}},
	                                       .columns = _i < 2 ? "c3,c0,5" : "c0,c3,c5",
	                                       .copies = true,
	                                       .threads = 3};
	char name[] = "/tmp/ckptc-table-XXXXXX";
	struct reader r;
	struct input input;
	FILE *f = fdopen(mkstemp(name), "w");
	uint64_t state = 5;
	bool end;
	write_large(f, quotes);
	fclose(f);
	ck_assert_int_eq(input_open(&input, name, true, &arena, &diags), STATUS_OK);
	reader_init(&r, &input, &options, &arena);
	const enum status status = reader_next(&r, &end, &diags);
	ck_assert_msg(status == STATUS_OK, "%s", scratch_message());
	ck_assert_ptr_nonnull(r.text);
	ck_assert_int_eq(r.text->quoted, quotes);
	ck_assert_int_eq(r.text->size.rows, ROWS);
	ck_assert_int_eq(r.text->size.columns, 3);
	for (int k = 0; k < 2000; k++) {
		double values[40];
		state = state * 6364136223846793005u + 1442695040888963407u;
		const int64_t count = 1 + (int64_t)(state >> 60) * 2, most = 3 * ROWS - count;
		const int64_t first = (int64_t)((state >> 20) % (uint64_t)most);
		ck_assert_int_eq(reader_read_at(&r, first, values, DTYPE_F64, count, &diags), STATUS_OK);
		for (int64_t i = 0; i < count; i++) {
			const int64_t column = (first + i) % 3,
						  field = _i < 2 ? chosen[column] : chosen[column == 2 ? 2 : 1 - column];
			ck_assert_double_eq(values[i], (double)(10 * ((first + i) / 3) + field));
		}
	}
	reader_free(&r);
	input_close(&input);
	unlink(name);
}
END_TEST

/* A header that is longer than all windows. */
START_TEST(long_headers)
{
	enum { COLUMNS = 60000 };
	char name[] = "/tmp/ckptc-table-XXXXXX";
	const struct reader_options options = {
		.assume = DTYPE_COUNT, .raw = {.shape = {.ndim = -1}}, .columns = "name59999,7", .anywhere = true};
	struct reader r;
	struct input input;
	double values[4];
	bool end;
	FILE *f = fdopen(mkstemp(name), "w");
	for (int row = 0; row < 3; row++)
		for (int i = 0; i < COLUMNS; i++)
			fprintf(f, row ? "%d%c" : "name%d%c", i + row * (row > 0), i + 1 < COLUMNS ? ',' : '\n');
	fclose(f);
	ck_assert_int_eq(input_open(&input, name, true, &arena, &diags), STATUS_OK);
	reader_init(&r, &input, &options, &arena);
	ck_assert_int_eq(reader_next(&r, &end, &diags), STATUS_OK);
	ck_assert_int_eq(r.count, 4);
	ck_assert_int_eq(reader_read(&r, values, DTYPE_F64, 4, &diags), STATUS_OK);
	ck_assert(values[0] == 60000 && values[1] == 8 && values[2] == 60001 && values[3] == 9);
	ck_assert_str_eq(r.names[0], "name59999");
	reader_free(&r);
	input_close(&input);
	unlink(name);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("table");
	TCase *tcase = suite_make_case(suite, "table");
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_loop_test(tcase, forms_are_read, 0, sizeof forms / sizeof *forms);
	tcase_add_test(tcase, names_are_written);
	tcase_add_loop_test(tcase, large_tables, 0, 4);
	tcase_add_test(tcase, long_headers);
	return suite_run(suite);
}
