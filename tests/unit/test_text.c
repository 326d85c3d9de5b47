/* Numbers, text, csv and displays, against what Python and NumPy print (tests/golden/make_npy.py). */
#include "io/array.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "io/formats.h"
#include "scratch.h"
#include "suite.h"

static char out[1 << 20];

/* Numbers. */

START_TEST(shortest_digits)
{
	char line[200], hex[60], as64[60], as32[60], text[40];
	int count = 0;
	FILE *f = fopen(golden("numbers", ""), "r");
	ck_assert_ptr_nonnull(f);
	for (; fgets(line, sizeof line, f); count++) {
		ck_assert_int_eq(sscanf(line, "%59s %59s %59s", hex, as64, as32), 3);
		double value = strtod(hex, NULL), back;
		size_t n = (size_t)number_format(text, value, DTYPE_F64);
		ck_assert_uint_eq(n, strlen(text));
		ck_assert_str_eq(text, as64);
		ck_assert(number_parse(text, n, &back));
		ck_assert(isnan(value) ? isnan(back) : back == value && !signbit(back) == !signbit(value));
		if (!strcmp(as32, "-"))
			continue;
		number_format(text, value, DTYPE_F32);
		ck_assert_str_eq(text, as32);
	}
	fclose(f);
	ck_assert_int_gt(count, 1000);
}
END_TEST

/* Every half reads back from its digits, and from no fewer. */
START_TEST(halves)
{
	for (int bf = 0; bf < 2; bf++)
		for (unsigned h = 0; h < 65536; h++) {
			uint16_t half = (uint16_t)h, back;
			float value, read;
			double parsed;
			char text[40], fewer[40];
			(bf ? convert_bf16_to_f32 : convert_f16_to_f32)(&value, &half, 1);
			if (!isfinite(value))
				continue;
			size_t n = (size_t)number_format_scientific(text, value, bf ? DTYPE_BF16 : DTYPE_F16);
			ck_assert(number_parse(text, n, &parsed));
			convert_f64_to_f32_odd(&read, &parsed, 1);
			(bf ? convert_f32_to_bf16 : convert_f32_to_f16)(&back, &read, 1);
			ck_assert_uint_eq(back, half);
			int digits = (int)(strchr(text, 'e') ? strcspn(text, "e") : n) - 1 - (value < 0);
			if (digits < 2)
				continue;
			snprintf(fewer, sizeof fewer, "%.*e", digits - 2, (double)value);
			parsed = strtod(fewer, NULL);
			convert_f64_to_f32_odd(&read, &parsed, 1);
			(bf ? convert_f32_to_bf16 : convert_f32_to_f16)(&back, &read, 1);
			ck_assert_uint_ne(back, half);
		}
}
END_TEST

/* Digits that always survive, by type, and the least number whose neighbours are as far as those of greater ones. */
static const struct {
	int digits;
	double normal;
} survive[] = {
	[DTYPE_F16] = {3, 0x1p-14}, [DTYPE_BF16] = {2, 0x1p-126}, [DTYPE_F32] = {6, FLT_MIN}, [DTYPE_F64] = {15, DBL_MIN}};

static bool is_read_as(const char *text, double size, enum dtype dtype)
{
	if (dtype == DTYPE_F32)
		return strtof(text, NULL) == (float)size;
	double value = strtod(text, NULL);
	values_round(&value, DTYPE_F64, 1, dtype);
	return value == size;
}

/* "1.25e-30" to "1.26e-30"; false where all digits are nines. */
static bool increment(char *text)
{
	for (char *p = strchr(text, 'e') - 1; p >= text; p--) {
		if (*p == '.')
			continue;
		if (*p != '9') {
			++*p;
			return true;
		}
		*p = '0';
	}
	return false;
}

/*
 * The fewest of printf's digits that strtod reads back. Below a power of two numbers lie
 * closer, so that the next decimal above may read back where the nearest, below, does not.
 */
static void try_digits(char text[40], double size, enum dtype dtype)
{
	int binary, n = size < survive[dtype].normal ? 1 : survive[dtype].digits;
	const bool narrow = frexp(size, &binary) == 0.5;
	for (;; n++) {
		ck_assert_int_le(n, 17);
		snprintf(text, 40, "%.*e", n - 1, size);
		if (is_read_as(text, size, dtype) || (narrow && increment(text) && is_read_as(text, size, dtype)))
			break;
	}
	char *e = strchr(text, 'e'), *end = e;
	while (strchr(text, '.') && (end[-1] == '0' || end[-1] == '.'))
		if (*--end == '.')
			break;
	memmove(end, e, strlen(e) + 1);
}

/* VALUE, of DTYPE, is printed in the digits of printf's that read back, in either notation. */
static void check_digits(double value, enum dtype dtype)
{
	char text[40], plain[40], tried[40];
	const double size = fabs(value);
	if (!isfinite(value) || value == 0)
		return;
	try_digits(tried, size, dtype);
	ck_assert_int_eq(number_format_scientific(text, value, dtype), (int)strlen(text));
	ck_assert_msg(!strcmp(text + (value < 0), tried), "%a: %s, not %s", value, text, tried);
	ck_assert(text[0] == '-' || value > 0);
	ck_assert_int_eq(number_format(plain, value, dtype), (int)strlen(plain));
	const bool whole = size < 1e15 && size == floor(size); /* which has all its digits */
	ck_assert_msg(strtod(plain, NULL) == (whole ? value : strtod(text, NULL)), "%s, not %s", plain, text);
}

START_TEST(digits_of_halves)
{
	for (unsigned h = 0; h < 65536; h++) {
		const uint16_t half = (uint16_t)h;
		float value;
		convert_f16_to_f32(&value, &half, 1);
		check_digits((double)value, DTYPE_F16);
		convert_bf16_to_f32(&value, &half, 1);
		check_digits((double)value, DTYPE_BF16);
	}
}
END_TEST

/* SIZE and the numbers next to it. */
static void check_around(double size)
{
	const float single = (float)size;
	check_digits(size, DTYPE_F64);
	check_digits(nextafter(size, INFINITY), DTYPE_F64);
	check_digits(nextafter(size, 0), DTYPE_F64);
	check_digits((double)single, DTYPE_F32);
	check_digits((double)nextafterf(single, INFINITY), DTYPE_F32);
	check_digits((double)nextafterf(single, 0), DTYPE_F32);
}

START_TEST(digits_at_edges)
{
	for (int e = DBL_MIN_EXP - DBL_MANT_DIG; e < DBL_MAX_EXP; e++)
		check_around(ldexp(1, e));
	for (int e = -323; e <= 308; e++) {
		char text[20];
		sprintf(text, "1e%d", e);
		check_around(strtod(text, NULL));
	}
	for (int i = 0; i < 100; i++) {
		check_around(i * 0x1p-1074);
		check_around(i * 0x1p-149);
		check_around(DBL_MIN - i * 0x1p-1074);
		check_around((double)(FLT_MIN - (float)i * 0x1p-149f));
		check_around(0x1p53 - i);
	}
	/* The product that is nearest to a whole number without being one (io/shortest.c). */
	check_around(0x1.f92bacb3cb40cp+716);
}
END_TEST

START_TEST(digits_of_any)
{
	uint64_t state = 3;
	for (int i = 0; i < 100000; i++) {
		double value;
		float single;
		state = state * 6364136223846793005u + 1442695040888963407u;
		const uint64_t bits = state ^ state >> 32;
		const uint32_t few = (uint32_t)(state >> 32);
		memcpy(&value, &bits, sizeof value);
		memcpy(&single, &few, sizeof single);
		check_digits(value, DTYPE_F64);
		check_digits((double)single, DTYPE_F32);
	}
}
END_TEST

static const struct {
	const char *text;
	double value;
} good[] = {{"3", 3},
            {"+1", 1},
            {".5", 0.5},
            {"5.", 5},
            {"-0", -0.0},
            {"1e3", 1000},
            {"1E-3", 0.001},
            {"inf", INFINITY},
            {"-inf", -INFINITY},
            {"Infinity", INFINITY},
            {"nan", NAN},
            {"1e999", INFINITY},
            {"5e-324", 5e-324},
            {"0.1", 0.1},
            {"123456789012345678901234567890", 123456789012345678901234567890.0},
            {"9007199254740993", 9007199254740992.0},
            {"0.000000000000000000000000000001", 1e-30},
            {"-.25e+1", -2.5}};
static const char *const bad[] = {"",    "+",      "-",       ".",  "e5",    "1e",  "1e+", "--1", "+-1", "0x10",
                                  "1p3", "nan(1)", "infinit", "in", "1.2.3", "1-2", "abc", "1,5", "1_0", "\xd9\xa1"};

START_TEST(numbers_are_read)
{
	double value = 99;
	size_t n = strlen(good[_i].text);
	ck_assert(number_parse(good[_i].text, n, &value));
	if (isnan(good[_i].value))
		ck_assert(isnan(value));
	else
		ck_assert(value == good[_i].value && !signbit(value) == !signbit(good[_i].value));
}
END_TEST

START_TEST(other_words_are_not)
{
	double value;
	size_t n = strlen(bad[_i]);
	ck_assert(!number_parse(bad[_i], n, &value));
}
END_TEST

/* The fast way of reading gives what strtod gives. */
START_TEST(reading_is_exact)
{
	uint64_t state = 1;
	for (int i = 0; i < 200000; i++) {
		char text[60];
		double value;
		state = state * 6364136223846793005u + 1442695040888963407u;
		uint64_t a = state >> 11;
		state = state * 6364136223846793005u + 1442695040888963407u;
		int digits = (int)(state >> 60), shift = (int)(state >> 40 & 31);
		for (int k = 0; k < digits; k++)
			a /= 10;
		int n = snprintf(text, sizeof text, "%.*f", shift, (double)a / pow(10, shift % 12));
		ck_assert(number_parse(text, (size_t)n, &value));
		ck_assert_msg(value == strtod(text, NULL), "%s", text);
	}
}
END_TEST

static uint64_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 32 | *state << 32;
}

/* Checks TEXT against strtod. Returns whether number_read, which is fast, did it alone. */
static bool reads_as_strtod(const char *text)
{
	const size_t n = strlen(text);
	const double want = strtod(text, NULL);
	double value, fast;
	ck_assert(number_parse(text, n, &value));
	ck_assert_msg(value == want && !signbit(value) == !signbit(want), "%s: %a", text, value);
	const char *end = number_read(text, text + n, &fast);
	ck_assert_msg(!end || (end == text + n && fast == want), "%s", text);
	return end;
}

/* Decimals of 1 to 19 digits and any exponent are rounded once. Only middles with a negative exponent need strtod. */
START_TEST(decimals_are_rounded_once)
{
	uint64_t state = 2;
	int slow = 0, wide = 0;
	for (int i = 0; i < 300000; i++) {
		char text[60];
		uint64_t mantissa = draw(&state) >> (draw(&state) & 63);
		const int exponent = (int)(draw(&state) % 660) - 345, power = exponent + (int)log10((double)mantissa + 1);
		mantissa = mantissa > UINT64_C(9999999999999999999) ? mantissa / 10 : mantissa;
		snprintf(text, sizeof text, i & 1 ? "-%llue%d" : "%lluE%+d", (unsigned long long)mantissa, exponent);
		const bool normal = exponent >= -292 && power > -290 && power < 300;
		slow += !reads_as_strtod(text) && normal;
		wide += normal;
	}
	ck_assert_int_gt(wide, 200000);
	ck_assert_int_lt(slow, wide / 20000);
}
END_TEST

/* The middle between two doubles, all its digits or the first few, and the decimals next to it. */
START_TEST(middles_are_rounded_to_even)
{
	uint64_t state = 3;
	for (int i = 0; i < 100000; i++) {
		char text[800];
		const int two = (int)(draw(&state) % 2000) - 1020, digits = 15 + (int)(draw(&state) % 8);
		const double least = ldexp((double)(draw(&state) >> 11 | UINT64_C(1) << 52), i % 3 ? two % 60 - 52 : two);
		/* glibc prints a long double exactly, and one has 11 bits more than a double. */
		const long double middle = ((long double)least + nextafter(least, INFINITY)) / 2;
		if (!isfinite((double)middle))
			continue;
		snprintf(text, sizeof text, "%.*Lf", two < 0 ? 60 : 0, middle);
		reads_as_strtod(text);
		snprintf(text, sizeof text, "%.*Le", digits, middle);
		reads_as_strtod(text);
		char *last = strchr(text, 'e') - 1;
		*last = *last == '9' ? '8' : *last + 1;
		reads_as_strtod(text);
	}
}
END_TEST

/* The digits of 2^-1074, the least double, which is 4.94...e-324. */
static const char least[] =
	"4940656458412465441765687928682213723650598026143247644255856825006755072702087518652998363616359923"
	"7979656469544571773092665671035593979639877479601078187812630071319031140452784581716784898210368871"
	"8636056998730723050006387409153564984387312473397273169615140031715385398074126238565591171026658556"
	"6867681870395603106249319452715914924553293054565444011274801297099995419319894090804165633245247571"
	"4786901472678015935523861155013480352649347201937902681071074917033322268447533357208324319360923828"
	"9345836806010601150616980975307834227731832924790498252473077637592724787465608477820373446969953364"
	"7017972677717585125660551199131504891101451037862738167250955837389733598993664809941164205702637090"
	"279242767544565229087538682506419718265533447265625";

/* Words longer than any that a person would write, with values that are known. */
START_TEST(long_numbers)
{
	const size_t digits = sizeof least - 1;
	struct {
		const char *text;
		double value;
	} known[] = {
		{arena_printf(&arena, "%.1s.%se-324", least, least + 1), 0x1p-1074},
		{arena_printf(&arena, "-0.%0323d%s", 0, least), -0x1p-1074},
		{arena_printf(&arena, "0.%0323d%s%05000d", 0, least, 0), 0x1p-1074},
		{arena_printf(&arena, "%se-%zu", least, 324 + digits - 1), 0x1p-1074},
		{arena_printf(&arena, "%s%05000de-%zu", least, 0, 5324 + digits - 1), 0x1p-1074},
		{arena_printf(&arena, "+0.1%0599d", 0), 0.1},
		{arena_printf(&arena, "%0600d.5", 3), 3.5},
		{arena_printf(&arena, "1%0308d", 0), 1e308},
		{arena_printf(&arena, "1%0600d", 0), INFINITY},
		{arena_printf(&arena, "-1%0600d", 0), -INFINITY},
		{arena_printf(&arena, "1%0600de-601", 0), 0.1},
		{arena_printf(&arena, "0.%0700d1", 0), 0},
		{arena_printf(&arena, "0.%0700d1E+0000000700", 0), 0.1},
		{arena_printf(&arena, "-%0600d", 0), -0.0},
		{arena_printf(&arena, "%0600de99", 0), 0},
		{arena_printf(&arena, "1e%0600d", 7), 1e7},
		{arena_printf(&arena, "1e-9%0600d", 7), 0},
		{arena_printf(&arena, "1e9%0600d", 7), INFINITY},
		{arena_printf(&arena, ".%0600d", 0), 0},
		{arena_printf(&arena, "%0600d.", 12), 12},
		/* 2^53 + 1 is half way to the next: of the two the even one, unless there is more, however far. */
		{arena_printf(&arena, "9007199254740993.%01000d", 0), 9007199254740992},
		{arena_printf(&arena, "9007199254740993.%01000d1", 0), 9007199254740994},
		{arena_printf(&arena, "9007199254740993%01000d1e-1001", 0), 9007199254740994},
		{arena_printf(&arena, "9007199254740992.%s", least), 9007199254740992},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		double value = 99;
		size_t n = strlen(known[i].text);
		ck_assert(number_parse(known[i].text, n, &value));
		ck_assert_msg(value == known[i].value && !signbit(value) == !signbit(known[i].value), "%zu: %g", i, value);
	}
	static const char *const wrong[] = {"%0600d1.5.", "%0600d1e", "%0600d1e+", "%0600d-1", "%0600d1e5e5", "%0600d1e1.5",
	                                    "%0600dinf",  "--%0600d", "e%0600d",   "-e%0600d", "inf%0600d",   "%0600d1n"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char text[700];
		double value;
		size_t n = strlen(wrong[i]), at = strcspn(wrong[i], "%");
		n = (size_t)snprintf(text, sizeof text, "%.*s%0600d%s", (int)at, wrong[i], 0, wrong[i] + at + 6);
		ck_assert_msg(!number_parse(text, n, &value), "%s", wrong[i]);
	}
}
END_TEST

/*
 * The middle between two neighbouring doubles, which x87's long doubles hold and printf
 * prints to its last digit. A number just below it reads as the lower double, one just
 * above as the upper, and the middle itself as the even one.
 */
START_TEST(long_halves)
{
	if (LDBL_MANT_DIG < 54 || LDBL_MIN_EXP > -1100)
		return;
	uint64_t state = 3;
	for (int i = 0; i < 1000; i++) {
		static char text[8000];
		state = state * 6364136223846793005u + 1442695040888963407u;
		uint64_t bits = i % 2 ? state >> 2 : state >> (12 + i % 52); /* any below 1, or a denormal */
		double below, above, value;
		memcpy(&below, &bits, 8);
		above = nextafter(below, INFINITY);
		int n = snprintf(text, sizeof text, "%.1080Lf", ((long double)below + (long double)above) / 2);
		ck_assert(number_parse(text, (size_t)n, &value));
		ck_assert_msg(value == (bits % 2 ? above : below), "half way above %a", below);
		memset(text + n, '0', 5000);
		text[n + 5000] = '1';
		ck_assert(number_parse(text, (size_t)n + 5001, &value));
		ck_assert_msg(value == above, "above half way above %a", below);
		int last = n - 1;
		while (text[last] == '0')
			text[last--] = '9';
		text[last]--;
		memset(text + n, '9', 5000);
		text[n + 5000] = '\0';
		ck_assert(number_parse(text, (size_t)n + 5000, &value));
		ck_assert_msg(value == below, "below half way above %a", below);
	}
}
END_TEST

/* A number below the normal doubles, and a little more than half of the way to the next: one bit more, at any place. */
START_TEST(denormals_and_one_bit)
{
	if (LDBL_MANT_DIG < 64 || LDBL_MIN_EXP > -1200)
		return;
	for (int width = 0; width <= 52; width++) {
		for (int bit = 1; bit < 63 - width; bit++) {
			static char text[2000];
			const uint64_t bits = width > 0 ? (UINT64_C(1) << (width - 1) | UINT64_C(1) << width / 2) : 0;
			double below, value;
			memcpy(&below, &bits, 8);
			const int n = snprintf(text, sizeof text, "-%.1200Lf", below + 0x1p-1075L + ldexpl(1, -1075 - bit));
			ck_assert(number_parse(text, (size_t)n, &value));
			ck_assert_msg(value == -nextafter(below, 1), "more than half way above %a by 2^-%d", below, 1075 + bit);
		}
	}
}
END_TEST

/* Streams. */

/* Passes TEXT through a reader and a writer of the reader's layout into OUT; shapes and layout by the reader left behind. */
static struct reader reader;

static enum status pass(const char *text, size_t length, enum format from, const struct writer_options *to,
                        const struct type *as)
{
	static const struct reader_options plain = {.assume = DTYPE_COUNT, .raw = {.shape = {.ndim = -1}}};
	struct reader_options options = plain;
	struct writer_options written = *to;
	struct writer writer;
	FILE *f = tmpfile();
	char *copy = arena_strndup(&arena, text, length);
	struct input *input = arena_alloc(&arena, sizeof *input);
	struct output output = {.fd = fileno(f), .name = "out", .arena = &arena};
	*input = (struct input){.fd = -1,
	                        .name = "in.txt",
	                        .size = -1,
	                        .eof = true,
	                        .buffer = (unsigned char *)copy,
	                        .end = length,
	                        .arena = &arena};
	options.format = from;
	bool end;
	reader_init(&reader, input, &options, &arena);
	enum status status = reader_next(&reader, &end, &diags);
	if (!status && to->format != FORMAT_AUTO) {
		struct type type = as ? *as : reader.type;
		if (type.dtype > DTYPE_F64)
			type.dtype = DTYPE_F64;
		double *values = calloc((size_t)reader.count + 1, sizeof *values);
		written.layout = reader.layout;
		writer_init(&writer, &output, &written, &arena);
		ck_assert_int_eq(reader_read(&reader, values, DTYPE_F64, reader.count, &diags), STATUS_OK);
		ck_assert_int_eq(writer_begin(&writer, &type, &diags), STATUS_OK);
		ck_assert_int_eq(writer_write(&writer, values, DTYPE_F64, reader.count, &diags), STATUS_OK);
		ck_assert_int_eq(writer_end(&writer, &diags), STATUS_OK);
		ck_assert_int_eq(writer_finish(&writer, &diags), STATUS_OK);
		writer_free(&writer);
		free(values);
		ck_assert_int_eq(reader_next(&reader, &end, &diags), STATUS_OK);
		ck_assert(end);
	}
	reader_free(&reader);
	fseek(f, 0, SEEK_SET);
	out[fread(out, 1, sizeof out - 1, f)] = '\0';
	fclose(f);
	return status;
}

static const struct {
	const char *in, *out;
	enum layout layout;
	struct shape shape;
} layouts[] = {
	{"1 2\n", "1 2\n", LAYOUT_LINE, {1, {2}}},
	{"1 2", "1 2\n", LAYOUT_LINE, {1, {2}}},
	{"7\n", "7\n", LAYOUT_LINE, {1, {1}}},
	{"1\n2\n3\n", "1\n2\n3\n", LAYOUT_COLUMN, {1, {3}}},
	{"1 2\n3 4\n5 6", "1 2\n3 4\n5 6\n", LAYOUT_ROWS, {2, {3, 2}}},
	{"\n\n 1,\t2 \r\n\n3 , 4.50\r\n", "1 2\n3 4.5\n", LAYOUT_ROWS, {2, {2, 2}}},
	{"\xef\xbb\xbf"
     "1 0.1 1e30 -0 nan -inf",
     "1 0.1 1e+30 -0 nan -inf\n",
     LAYOUT_LINE,
     {1, {6}}},
};

START_TEST(layouts_are_kept)
{
	struct writer_options text = {.format = FORMAT_TEXT}, csv = {.format = FORMAT_CSV};
	const char *in = layouts[_i].in;
	ck_assert_int_eq(pass(in, strlen(in), FORMAT_AUTO, &text, NULL), STATUS_OK);
	ck_assert_str_eq(out, layouts[_i].out);
	ck_assert_int_eq(reader.layout, layouts[_i].layout);
	ck_assert(shape_equal(&reader.type.shape, &layouts[_i].shape));
	ck_assert_int_eq(reader.type.dtype, DTYPE_F64);
	/* The same as csv, and back. */
	ck_assert_int_eq(pass(in, strlen(in), FORMAT_TEXT, &csv, NULL), STATUS_OK);
	char *rows = arena_printf(&arena, "%s", out);
	ck_assert_ptr_null(strchr(rows, ' '));
	ck_assert_int_eq(pass(rows, strlen(rows), FORMAT_CSV, &text, NULL), STATUS_OK);
	ck_assert_str_eq(out, layouts[_i].out);
}
END_TEST

/* Output of another shape than the input's. */
static const struct {
	const char *in, *out;
	struct type as;
} shapes[] = {
	{"1 2\n3 4\n", "1 2 3 4\n", {DTYPE_F64, {1, {4}}}},
	{"1\n2\n3\n4\n", "1\n2\n3\n4\n", {DTYPE_F64, {1, {4}}}},
	{"1 2 3 4 5 6 7 8", "1 2\n3 4\n\n5 6\n7 8\n", {DTYPE_F64, {3, {2, 2, 2}}}},
	{"1 2", "1\n2\n", {DTYPE_F64, {2, {2, 1}}}},
	{"5\n", "5\n", {DTYPE_F64, {0, {0}}}},
	{"0.1 3", "0.1 3\n", {DTYPE_F32, {1, {2}}}},
	{"0.1 0.3333333333 65504", "0.1 0.3333 65504\n", {DTYPE_F16, {1, {3}}}},
	{"0.1 0.3333333333", "0.1 0.334\n", {DTYPE_BF16, {1, {2}}}},
	{"0.3333333333333333 1e-5", "0.33333334 1e-05\n", {DTYPE_F32, {1, {2}}}},
};

START_TEST(other_shapes)
{
	struct writer_options text = {.format = FORMAT_TEXT};
	ck_assert_int_eq(pass(shapes[_i].in, strlen(shapes[_i].in), FORMAT_AUTO, &text, &shapes[_i].as), STATUS_OK);
	ck_assert_str_eq(out, shapes[_i].out);
}
END_TEST

static void collect(void *context, const char *text, size_t length)
{
	(void)context;
	strncat(out, text, length);
}

/* What is wrong, as it is shown. */
#define NOTE "ckptc: note: --missing NUMBER reads missing fields as NUMBER: --missing nan, or --missing 0\n"
static const struct {
	const char *in;
	size_t length; /* 0: to the NUL */
	enum format from;
	const char *shown;
} errors[] = {
	{"", 0, FORMAT_TEXT, "ckptc: in.txt: byte 0: error: no numbers\n"},
	{" \n\t\n", 0, FORMAT_TEXT, "ckptc: in.txt: byte 4: error: no numbers\n"},
	{"1 2\n3 4x 5\n", 0, FORMAT_TEXT, "ckptc: in.txt:2:3: error: '4x' is not a number\n    2 | 3 4x 5\n      |   ^~\n"},
	{"1 2\n3\n", 0, FORMAT_TEXT,
     "ckptc: in.txt:2:1: error: a row of 1 numbers after rows of 2\n    2 | 3\n      | ^\n"},
	{"1\n2\n\n3 4\n5\n", 0, FORMAT_TEXT,
     "ckptc: in.txt:4:1: error: a row of 2 numbers after rows of 1\n    4 | 3 4\n      | ^~~\n"},
	{"1 2\n% 3\n", 0, FORMAT_TEXT, "ckptc: in.txt:2:1: error: '%' is not a number\n    2 | % 3\n      | ^\n"},
	{"1 NA\n", 0, FORMAT_TEXT, "ckptc: in.txt:1:3: error: 'NA' is not a number\n    1 | 1 NA\n      |   ^~\n" NOTE},
	{"a,b\n1,x\n", 0, FORMAT_CSV,
     "ckptc: in.txt:2:3: error: 'x' is not a number in column 'b'\n    2 | 1,x\n      |   ^\n"
     "ckptc: note: to leave that column out, choose others: --columns a\n"},
	{"a,b\n", 0, FORMAT_CSV, "ckptc: in.txt: byte 4: error: a header line, and no row after it\n"},
	{"1,,2\n", 0, FORMAT_CSV, "ckptc: in.txt:1:3: error: an empty field\n    1 | 1,,2\n      |   ^\n" NOTE},
	{",1\n", 0, FORMAT_CSV, "ckptc: in.txt:1:1: error: an empty field\n    1 | ,1\n      | ^\n" NOTE},
	{"1,2,\n", 0, FORMAT_CSV, "ckptc: in.txt:1:5: error: a row ends in a comma\n    1 | 1,2,\n      |     ^\n" NOTE},
	{"1,2,", 0, FORMAT_CSV, "ckptc: in.txt:1:5: error: a row ends in a comma\n    1 | 1,2,\n      |     ^\n" NOTE},
	{"1 2,3\n", 0, FORMAT_CSV,
     "ckptc: in.txt:1:3: error: expected a comma before the next number\n    1 | 1 2,3\n      |   ^\n"},
	{"1 2\n1;2\n", 0, FORMAT_TEXT,
     "ckptc: in.txt:2:1: error: '1;2' is not a number\n    2 | 1;2\n      | ^~~\n"
     "ckptc: note: white space, commas or the delimiter of the first line separate numbers\n"},
	{"1 \0 2", 5, FORMAT_TEXT,
     "ckptc: in.txt:1:3: error: byte 0x00 is neither a number nor white space\n    1 | 1 \\x00 2\n      |   ^~~~\n"
     "ckptc: note: npy data begins with \\x93NUMPY, text holds numbers; --from raw reads plain binary values\n"},
	{"1\n\033[31m\n", 0, FORMAT_TEXT,
     "ckptc: in.txt:2:1: error: byte 0x1b is neither a number nor white space\n    2 | \\x1b[31m\n      | ^~~~\n"
     "ckptc: note: npy data begins with \\x93NUMPY, text holds numbers; --from raw reads plain binary values\n"},
	{"1\n\xff\xfe\n", 0, FORMAT_TEXT,
     "ckptc: in.txt:2:1: error: '\\xff\\xfe' is not a number\n    2 | \\xff\\xfe\n      | ^~~~~~~~\n"},
};

START_TEST(errors_are_shown)
{
	struct writer_options none = {.format = FORMAT_AUTO};
	size_t length = errors[_i].length ? errors[_i].length : strlen(errors[_i].in);
	ck_assert_int_eq(pass(errors[_i].in, length, errors[_i].from, &none, NULL), STATUS_DATA);
	out[0] = '\0';
	diags_render(&diags, false, collect, NULL);
	ck_assert_str_eq(out, errors[_i].shown);
}
END_TEST

/* A wrong word far along a long line is shown with its surroundings alone. */
START_TEST(long_lines)
{
	static char text[300000];
	size_t n = 0;
	while (n < sizeof text - 100)
		n += (size_t)sprintf(text + n, "%zu ", n);
	size_t place = n;
	sprintf(text + n, "oops 1 2 3\n");
	struct writer_options none = {.format = FORMAT_AUTO};
	ck_assert_int_eq(pass(text, strlen(text), FORMAT_TEXT, &none, NULL), STATUS_DATA);
	ck_assert_uint_eq(diags.last->span.column, place + 1);
	out[0] = '\0';
	diags_render(&diags, false, collect, NULL);
	ck_assert_uint_lt(strlen(out), 500);
	const char *word = strstr(out, "oops 1 2 3"), *caret = strstr(out, "^~~~\n");
	ck_assert_ptr_nonnull(word);
	ck_assert_ptr_nonnull(caret);
	const char *first = strstr(out, "    1 | "), *second = strstr(out, "      | ");
	ck_assert_int_eq(word - first, caret - second);
}
END_TEST

/*
 * Texts of more than a piece for each of three threads. Number N of a text is N, so a number that is read shows whether
 * the rows before it were counted right. Line ends lie at the edges of blocks, and next to them.
 */

enum { LARGE = 5 << 20, BLOCK = 64 << 10 };

struct large_text {
	char *text;
	size_t length, first_end; /* FIRST_END: the byte after the first row, where the blocks begin */
	int64_t rows, columns;
	uint64_t state;
};

/* Writes blanks, and lines of blanks, up to a few bytes before or after the edge of a block. */
static void put_blanks(struct large_text *t)
{
	static const char *const blank[] = {"\n", "\r\n", "   \n", " \t\f\v\r\n"};
	if (t->first_end && draw(&t->state) % 4 == 0) {
		const size_t edge = BLOCK - (t->length - t->first_end) % BLOCK;
		if (edge < 400) {
			memset(t->text + t->length, ' ', edge + 3);
			t->length += edge + draw(&t->state) % 4 - 1;
		}
	}
	while (draw(&t->state) % 4 == 0)
		t->length += (size_t)sprintf(t->text + t->length, "%s", blank[draw(&t->state) % 4]);
	if (draw(&t->state) % 4000 == 0) /* lines that have whole blocks */
		for (size_t i = 0, n = draw(&t->state) % (3 * BLOCK); i < n; i++)
			t->text[t->length++] = i % 100 ? ' ' : '\n';
}

static void put_row(struct large_text *t, bool last)
{
	static const char blank[] = " \t\v\f\r";
	for (int64_t i = 0; i < t->columns; i++)
		t->length += (size_t)sprintf(t->text + t->length, "%s%lld%.1s", i ? "," : "",
		                             (long long)(t->rows * t->columns + i), &blank[draw(&t->state) % sizeof blank]);
	t->rows++;
	if (!last || draw(&t->state) % 2)
		t->length += (size_t)sprintf(t->text + t->length, draw(&t->state) % 2 ? "\n" : "\r\n");
	if (t->rows == 1)
		t->first_end = t->length;
}

static void make_large(struct large_text *t)
{
	t->text = malloc(2 * LARGE);
	ck_assert_ptr_nonnull(t->text);
	while (t->length < LARGE - (1 << 20)) {
		put_blanks(t);
		put_row(t, false);
	}
	put_blanks(t);
	put_row(t, true);
}

static void open_large(struct reader *r, const char *name, struct input *input, int threads)
{
	const struct reader_options options = {
		.format = FORMAT_CSV, .assume = DTYPE_COUNT, .raw = {.shape = {.ndim = -1}}, .threads = threads};
	bool end;
	ck_assert_int_eq(input_open(input, name, true, &arena, &diags), STATUS_OK);
	reader_init(r, input, &options, &arena);
	ck_assert_int_eq(reader_next(r, &end, &diags), STATUS_OK);
	ck_assert_ptr_nonnull(r->text);
}

START_TEST(rows_are_counted_by_threads)
{
	static const int64_t columns[] = {1, 2, 7, 300, 20000, 250000};
	struct large_text t = {.columns = columns[_i % 6], .state = 100 + (uint64_t)_i};
	char name[] = "/tmp/ckptc-text-XXXXXX";
	struct reader readers[3];
	struct input inputs[3];
	make_large(&t);
	close(mkstemp(name));
	file_write(name, t.text, t.length);
	free(t.text);
	for (int i = 0; i < 3; i++) {
		struct reader *r = &readers[i];
		const struct text_file *text = (open_large(r, name, &inputs[i], i + 1), r->text), *one = readers[0].text;
		ck_assert_int_eq(text->size.rows, t.rows);
		ck_assert_int_eq(text->size.columns, t.columns);
		ck_assert_uint_eq(text->mark_count, one->mark_count);
		for (size_t m = 0; m < text->mark_count; m++) {
			ck_assert_int_eq(text->marks[m].element, one->marks[m].element);
			ck_assert_int_eq(text->marks[m].at, one->marks[m].at);
			ck_assert_int_eq(text->marks[m].line_begin, one->marks[m].line_begin);
			ck_assert_uint_eq(text->marks[m].line, one->marks[m].line);
		}
		for (int k = 0; k < 300; k++) {
			double values[3];
			const int64_t first = (int64_t)(draw(&t.state) % (uint64_t)(t.rows * t.columns - 3));
			ck_assert_int_eq(reader_read_at(r, first, values, DTYPE_F64, 3, &diags), STATUS_OK);
			for (int v = 0; v < 3; v++)
				ck_assert_double_eq(values[v], (double)(first + v));
		}
	}
	for (int i = 0; i < 3; i++) {
		reader_free(&readers[i]);
		input_close(&inputs[i]);
	}
	unlink(name);
}
END_TEST

/* The line of an error is known however far the scan has jumped, and the numbers of a row are counted to its end. */
START_TEST(wrong_rows_are_found_after_jumps)
{
	enum { ROWS = 400000, WRONG = 300000 };
	char name[] = "/tmp/ckptc-text-XXXXXX";
	struct reader r;
	struct input input;
	double values[20];
	FILE *f = fdopen(mkstemp(name), "w");
	ck_assert_ptr_nonnull(f);
	for (int i = 0; i < ROWS; i++)
		fprintf(f, i == WRONG ? "1,2,3\n" : i == WRONG + 50 ? "1,x\n" : i % 10 ? "1,2\n" : "\n1,2\n");
	fclose(f);
	open_large(&r, name, &input, 2);
	ck_assert_int_eq(r.text->size.rows, ROWS);
	/* The rows after the wrong ones: only those that are wanted are checked. */
	ck_assert_int_eq(reader_read_at(&r, 2 * (WRONG + 51), values, DTYPE_F64, 4, &diags), STATUS_OK);
	/* The wrong row is the last that is read, and has one number more. */
	ck_assert_int_eq(reader_read_at(&r, 2 * (WRONG - 1), values, DTYPE_F64, 4, &diags), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "a row of 3 numbers after rows of 2");
	ck_assert_uint_eq(diags.last->span.line, WRONG + 1 + WRONG / 10);
	ck_assert_int_eq(reader_read_at(&r, 2 * (WRONG + 45), values, DTYPE_F64, 20, &diags), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "'x' is not a number");
	ck_assert_uint_eq(diags.last->span.line, WRONG + 51 + WRONG / 10 + 4);
	ck_assert_uint_eq(diags.last->span.column, 3);
	reader_free(&r);
	input_close(&input);
	unlink(name);
}
END_TEST

/* Text that has been printed reads back the same, through all blocks. */
START_TEST(round_trip)
{
	char *text = arena_alloc(&arena, 600000);
	size_t n = 0;
	uint64_t state = 7;
	for (int i = 0; i < 20000; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		char number[40];
		number_format(number, ((double)(int64_t)state) * pow(10, (double)(state >> 50 & 31) - 30), DTYPE_F64);
		n += (size_t)sprintf(text + n, "%s%s", number, i % 5 == 4 ? "\n" : " ");
	}
	struct writer_options to = {.format = FORMAT_TEXT};
	ck_assert_int_eq(pass(text, n, FORMAT_AUTO, &to, NULL), STATUS_OK);
	ck_assert_str_eq(out, text);
}
END_TEST

static const char *const shown[] = {
	"plain",       "whole",       "large",       "wide",         "special",    "allspecial",  "zeros",
	"cut",         "cut2",        "cut3",        "wrap",         "ratio",      "beyond",      "exact",
	"single",      "singlelarge", "half",        "halfsmall",    "scalar",     "scalarwhole", "scalarlarge",
	"scalarsmall", "scalarfew",   "scalarleast", "scalarsingle", "scalarhalf", "empty"};

START_TEST(displays)
{
	static char data[1 << 20], want[1 << 16];
	struct writer_options to = {.format = FORMAT_TEXT, .display = true};
	FILE *f = fopen(golden(arena_printf(&arena, "show-%s.npy", shown[_i]), ""), "rb");
	ck_assert_ptr_nonnull(f);
	size_t length = fread(data, 1, sizeof data, f);
	fclose(f);
	f = fopen(golden(arena_printf(&arena, "show-%s.show", shown[_i]), ""), "r");
	ck_assert_ptr_nonnull(f);
	want[fread(want, 1, sizeof want - 1, f)] = '\0';
	fclose(f);
	ck_assert_int_eq(pass(data, length, FORMAT_AUTO, &to, NULL), STATUS_OK);
	ck_assert_str_eq(out, want);
}
END_TEST

/* What a terminal shows is what a file would hold: computed values are rounded to the array's type. */
START_TEST(displays_are_rounded)
{
	const struct type type = {.dtype = DTYPE_F16, .shape = {.ndim = 1, .dim = {3}}};
	struct writer_options to = {.format = FORMAT_TEXT, .display = true};
	static const char in[] = "0.59299 1.3248 1e-9\n";
	ck_assert_int_eq(pass(in, strlen(in), FORMAT_TEXT, &to, &type), STATUS_OK);
	ck_assert_str_eq(out, "[0.593 1.325 0.   ]\n");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("text");
	TCase *tcase = suite_make_case(suite, "text");
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_test(tcase, shortest_digits);
	tcase_add_test(tcase, halves);
	tcase_add_test(tcase, digits_of_halves);
	tcase_add_test(tcase, digits_at_edges);
	tcase_add_test(tcase, digits_of_any);
	tcase_add_loop_test(tcase, numbers_are_read, 0, sizeof good / sizeof *good);
	tcase_add_loop_test(tcase, other_words_are_not, 0, sizeof bad / sizeof *bad);
	tcase_add_test(tcase, reading_is_exact);
	tcase_add_test(tcase, decimals_are_rounded_once);
	tcase_add_test(tcase, middles_are_rounded_to_even);
	tcase_add_test(tcase, long_numbers);
	tcase_add_test(tcase, long_halves);
	tcase_add_test(tcase, denormals_and_one_bit);
	tcase_add_loop_test(tcase, layouts_are_kept, 0, sizeof layouts / sizeof *layouts);
	tcase_add_loop_test(tcase, other_shapes, 0, sizeof shapes / sizeof *shapes);
	tcase_add_loop_test(tcase, errors_are_shown, 0, sizeof errors / sizeof *errors);
	tcase_add_test(tcase, long_lines);
	tcase_add_test(tcase, round_trip);
	tcase_add_loop_test(tcase, rows_are_counted_by_threads, 0, SANITIZED ? 6 : 18);
	tcase_add_test(tcase, wrong_rows_are_found_after_jumps);
	tcase_add_loop_test(tcase, displays, 0, sizeof shown / sizeof *shown);
	tcase_add_test(tcase, displays_are_rounded);
	return suite_run(suite);
}
