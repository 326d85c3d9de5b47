/*
 * npy against files that NumPy made (tests/golden/make_npy.py): every type, order and
 * version, through a pipe and a file. Also wrong and mutated headers, and conversions of
 * all halves.
 */
#include "io/formats.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "scratch.h"
#include "suite.h"

static char names[200][40];
static int name_count;

enum { MUCH = 1 << 20 };

static size_t read_golden(const char *name, const char *suffix, char *to)
{
	return file_read(golden(name, suffix), to, MUCH);
}

static void read_names(void)
{
	FILE *f = fopen(golden("cases", ""), "r");
	while (f && name_count < 200 && fscanf(f, "%39s", names[name_count]) == 1)
		name_count++;
	if (f)
		fclose(f);
}

/* An input of bytes in memory, as a pipe's (read once) or a file's. */
static FILE *backing;

static void open_bytes(struct input *input, const char *bytes, size_t length, bool file)
{
	if (!file) {
		char *copy = arena_alloc(&arena, length + 1);
		memcpy(copy, bytes, length);
		*input = (struct input){.fd = -1,
		                        .name = "in.npy",
		                        .size = -1,
		                        .eof = true,
		                        .buffer = (unsigned char *)copy,
		                        .end = length,
		                        .arena = &arena};
		return;
	}
	backing = tmpfile();
	ck_assert_uint_eq(fwrite(bytes, 1, length, backing), length);
	fflush(backing);
	*input = (struct input){.fd = fileno(backing), .name = "in.npy", .size = (int64_t)length, .arena = &arena};
	lseek(input->fd, 0, SEEK_SET);
}

static void close_bytes(struct input *input)
{
	if (input->fd < 0) /* COPY is the test's */
		input->buffer = NULL;
	input_close(input);
	if (backing)
		fclose(backing);
	backing = NULL;
}

static const struct reader_options plain = {.assume = DTYPE_COUNT, .raw = {.shape = {.ndim = -1}}};

/* Reads all arrays of INPUT, PIECE elements at a time, in HOW's way, and writes them to OUT. */
static enum status pass(struct input *input, const struct reader_options *options, int64_t piece, bool anywhere,
                        FILE *out)
{
	struct reader reader;
	struct writer writer;
	struct output output = {.fd = fileno(out), .name = "out.npy", .seekable = true, .arena = &arena};
	struct writer_options to = {.format = FORMAT_NPY};
	bool end = false;
	enum status status;
	reader_init(&reader, input, options, &arena);
	writer_init(&writer, &output, &to, &arena);
	while ((status = reader_next(&reader, &end, &diags)) == STATUS_OK && !end) {
		struct type type = reader.type;
		if (type.dtype > DTYPE_F64)
			type.dtype = DTYPE_F64;
		enum dtype compute = dtype_compute(type.dtype);
		bool at = anywhere && reader_seekable(&reader);
		double *block = malloc((size_t)piece * sizeof *block);
		status = writer_begin(&writer, &type, &diags);
		/* Backwards, where order does not matter. */
		for (int64_t done = 0, n; !status && done < reader.count; done += n) {
			n = reader.count - done < piece ? reader.count - done : piece;
			int64_t first = at ? reader.count - done - n : done;
			status = at ? reader_read_at(&reader, first, block, compute, n, &diags)
			            : reader_read(&reader, block, compute, n, &diags);
			if (!status)
				status = at ? writer_write_at(&writer, first, block, compute, n, &diags)
				            : writer_write(&writer, block, compute, n, &diags);
		}
		free(block);
		if (!status && at)
			status = reader_skip(&reader, &diags);
		if (!status)
			status = writer_end(&writer, &diags);
		if (status)
			break;
	}
	if (!status)
		status = writer_finish(&writer, &diags);
	reader_free(&reader);
	writer_free(&writer);
	return status;
}

static char in[2 * MUCH], want[2 * MUCH], got[2 * MUCH];

static void check_pass(const struct reader_options *options, size_t length, size_t wanted)
{
	static const int64_t pieces[] = {1 << 20, 7};
	for (int way = 0; way < 8; way++) {
		struct input input;
		FILE *out = tmpfile();
		open_bytes(&input, in, length, way & 1);
		ck_assert_int_eq(pass(&input, options, pieces[way >> 1 & 1], way >> 2, out), STATUS_OK);
		fseek(out, 0, SEEK_SET);
		ck_assert_msg(fread(got, 1, sizeof got, out) == wanted, "way %d", way);
		ck_assert_int_eq(memcmp(got, want, wanted), 0);
		fclose(out);
		close_bytes(&input);
	}
}

START_TEST(as_numpy_saves)
{
	size_t length = read_golden(names[_i], ".npy", in), wanted = read_golden(names[_i], ".want", want);
	check_pass(&plain, length, wanted);
}
END_TEST

/* All golden arrays behind each other make one stream. */
START_TEST(arrays_behind_each_other)
{
	size_t length = 0, wanted = 0;
	for (int i = 0; i < name_count; i++) {
		length += read_golden(names[i], ".npy", in + length);
		wanted += read_golden(names[i], ".want", want + wanted);
	}
	check_pass(&plain, length, wanted);
}
END_TEST

static size_t make_npy(char *to, const char *dict, const char *data, size_t size)
{
	size_t n = strlen(dict);
	memcpy(to, "\x93NUMPY\1\0", 8);
	to[8] = (char)(n & 0xff);
	to[9] = (char)(n >> 8);
	memcpy(to + 10, dict, n);
	memcpy(to + 10 + n, data, size);
	return 10 + n + size;
}

START_TEST(bfloat16)
{
	static const char values[] = "\x80\x3f\x20\xc0"; /* 1, -2.5 */
	struct reader_options options = plain;
	struct input input;
	struct reader reader;
	float two[2];
	bool end;
	size_t n = make_npy(in, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,)}", values, 4);
	open_bytes(&input, in, n, false);
	ck_assert_int_eq(pass(&input, &options, 10, false, stdout), STATUS_DATA);
	ck_assert_str_eq(diags.last->hint, "--assume-dtype bf16 reads it as bfloat16");
	options.assume = DTYPE_BF16;
	open_bytes(&input, in, n, false);
	reader_init(&reader, &input, &options, &arena);
	ck_assert_int_eq(reader_next(&reader, &end, &diags), STATUS_OK);
	ck_assert_int_eq(reader.type.dtype, DTYPE_BF16);
	ck_assert_int_eq(reader_read(&reader, two, DTYPE_F32, 2, &diags), STATUS_OK);
	ck_assert(two[0] == 1 && two[1] == -2.5f);
	/* Out as numpy.save has it of a dtype of V2. */
	size_t length = npy_make_header(&reader.type, want);
	ck_assert_uint_eq(length, 128);
	ck_assert_ptr_nonnull(memmem(want, length, "{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }", 57));
	memcpy(want + length, values, 4);
	check_pass(&options, n, length + 4);
}
END_TEST

/* A header: what is said of it, at which byte of the dict, with which status. */
static const struct {
	const char *dict, *message;
	int offset;
	enum status status;
} headers[] = {
	{"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", NULL, 0, STATUS_OK},
	{"{\"shape\":(1,),\"descr\":\"f4\",\"fortran_order\":True}\n", NULL, 0, STATUS_OK},
	{" { 'shape' : ( 1L , 1L ) , 'fortran_order' : False , 'descr' : '=f4' } ", NULL, 0, STATUS_OK},
	{"", "npy header: not a dict", 0, STATUS_DATA},
	{"[]", "npy header: not a dict", 0, STATUS_DATA},
	{"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", "npy header: text after the dict", 58, STATUS_DATA},
	{"{'descr': '<f4', 'fortran_order': False}", "npy header: 'descr', 'fortran_order' and 'shape' must be there", 40,
     STATUS_DATA},
	{"{u'shape': (True, 1_0, 0x1, +1, -0, 2 L,), r\"fortran_order\": False, # of Python\n'descr': U'\\x3c\\146'}", NULL,
     0, STATUS_OK},
	{"{'descr': '|f8', 'shape': (1,), 'descr': '|f4', 'fortran_order': False, 'shape': ()}",
     "npy header: a key is there twice", 32, STATUS_DATA},
	{"{'shape': (2,), u\"shape\": (2,)}", "npy header: a key is there twice", 16, STATUS_DATA},
	{"{'colour': '<f4'}", "npy header: an unknown key", 1, STATUS_DATA},
	{"{'descr' '<f4'}", "npy header: expected a ':'", 9, STATUS_DATA},
	{"{'descr': '<f4' 'shape': (1,)}", "npy header: type '<f4shape' is not supported", 10, STATUS_DATA},
	{"{'descr': (b'<f4', (2, '}')), 'shape': ()}",
     "npy header: a type with a shape of its own is not supported: (b'<f4', (2, '}'))", 10, STATUS_DATA},
	{"{'descr': '<' \"f\" # 4 bytes\n u'4', 'shape': (), 'fortran_order': False}", NULL, 0, STATUS_OK},
	{"{'descr': ('<' 'f4'), 'shape': (), 'fortran_order': False}", NULL, 0, STATUS_OK},
	{"{'descr': '<' 'f4", "npy header: 'descr' must be a short string", 10, STATUS_DATA},
	{"{descr: '<f4'}", "npy header: a key must be a string", 1, STATUS_DATA},
	{"{'descr': '<f4", "npy header: 'descr' must be a short string", 10, STATUS_DATA},
	{"{'descr': '<c8'}", "npy header: type '<c8' (complex numbers) is not supported", 10, STATUS_DATA},
	{"{'descr': '|O'}", "npy header: type '|O' (Python objects) is not supported", 10, STATUS_DATA},
	{"{'descr': '<U5'}", "npy header: type '<U5' (text) is not supported", 10, STATUS_DATA},
	{"{'descr': '|S3'}", "npy header: type '|S3' (byte strings) is not supported", 10, STATUS_DATA},
	{"{'descr': '<M8[ns]'}", "npy header: type '<M8[ns]' (dates) is not supported", 10, STATUS_DATA},
	{"{'descr': '|V8'}", "npy header: type '|V8' (raw bytes) is not supported", 10, STATUS_DATA},
	{"{'descr': '<f16'}", "npy header: type '<f16' is not supported", 10, STATUS_DATA},
	{"{'descr': '<float64'}", "npy header: type '<float64' is not supported", 10, STATUS_DATA},
	{"{'descr': 'g'}", "npy header: type 'g' is not supported", 10, STATUS_DATA},
	{"{'descr': b'<f4'}", "npy header: 'descr' must be a short string", 10, STATUS_DATA},
	{"{'descr': '\\x00'}", "npy header: 'descr' must be a short string", 10, STATUS_DATA},
	{"{'shape': (1__0,)}", "npy header: an extent must be a whole number", 11, STATUS_DATA},
	{"{'shape': (0x,)}", "npy header: an extent must be a whole number", 11, STATUS_DATA},
	{"{'descr': [('a', '<f4')]}", "npy header: a structured type is not supported: [('a', '<f4')]", 10, STATUS_DATA},
	{"{'fortran_order': 0}", "npy header: 'fortran_order' must be True or False", 18, STATUS_DATA},
	{"{'shape': 3}", "npy header: 'shape' must be a tuple", 10, STATUS_DATA},
	{"{'shape': (3)}", "npy header: 'shape' must be a tuple", 12, STATUS_DATA},
	{"{'shape': (-3,)}", "npy header: an extent must be a whole number", 11, STATUS_DATA},
	{"{'shape': (,)}", "npy header: an extent must be a whole number", 11, STATUS_DATA},
	{"{'shape': (3, 06)}", "npy header: an extent begins with 0", 14, STATUS_DATA},
	{"{'shape': (3.0,)}", "npy header: 'shape' must be a tuple", 12, STATUS_DATA},
	{"{'shape': (99999999999999999999,)}", "npy header: an extent beyond 64 bits", 11, STATUS_DATA},
	{"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
     "npy header: the shape has too many elements to address", 75, STATUS_DATA},
	{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4)}",
     "npy header: the shape has too many elements to address", 78, STATUS_DATA},
	{"{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", "more than 32 dimensions", 75,
     STATUS_LIMIT},
};

START_TEST(dicts)
{
	struct npy_header header;
	size_t length = strlen(headers[_i].dict);
	char *copy = malloc(length + 1); /* so that the sanitizer sees a byte too many */
	memcpy(copy, headers[_i].dict, length);
	enum status status = npy_parse_dict(&(struct source){"f.npy", copy, length}, 1000, DTYPE_COUNT, &header, &diags);
	free(copy);
	ck_assert_int_eq(status, headers[_i].status);
	if (!status)
		return;
	ck_assert_str_eq(scratch_message(), headers[_i].message);
	ck_assert_str_eq(diags.last->file, "f.npy");
	ck_assert_int_eq(diags.last->offset, 1000 + headers[_i].offset);
}
END_TEST

static enum status read_bytes(size_t length, bool file)
{
	struct input input;
	open_bytes(&input, in, length, file);
	FILE *out = tmpfile();
	enum status status = pass(&input, &plain, 1000, false, out);
	fclose(out);
	close_bytes(&input);
	return status;
}

/* Every proper beginning of a file is an error that says so. */
START_TEST(truncation)
{
	size_t length = read_golden(_i ? "i2-fortran" : "f4-little", ".npy", in);
	for (int file = 0; file < 2; file++)
		for (size_t n = 0; n < length; n++) {
			enum status status = read_bytes(n, file);
			ck_assert_int_eq(status, STATUS_DATA);
			ck_assert_int_le(diags.last->offset, (int64_t)n);
			if (n == 0)
				ck_assert_str_eq(scratch_message(), "no numbers");
			else if (n >= 128)
				ck_assert_str_eq(scratch_message(), arena_printf(&arena, "truncated: %zu of %zu bytes of array data",
				                                                 n - 128, length - 128));
		}
	struct reader_options npy = plain;
	npy.format = FORMAT_NPY;
	struct input input;
	open_bytes(&input, in, 0, false);
	ck_assert_int_eq(pass(&input, &npy, 1, false, stdout), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "no data");
}
END_TEST

START_TEST(trailing_bytes)
{
	size_t length = read_golden("f4-little", ".npy", in);
	in[length] = '\0';
	ck_assert_int_eq(read_bytes(length + 1, _i), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "trailing bytes after the array are not another npy array");
	ck_assert_int_eq(diags.last->offset, (int64_t)length);
}
END_TEST

/* A file that claims more than it has is found out before memory is asked for. */
START_TEST(great_claims)
{
	size_t n = make_npy(in, "{'descr': '<f8', 'fortran_order': True, 'shape': (1000000, 100000)}", "x", 1);
	ck_assert_int_eq(read_bytes(n, true), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "truncated: 1 of 800000000000 bytes of array data");
}
END_TEST

START_TEST(headers_at_the_limit)
{
	static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
	for (size_t length = 65535; length <= 65537; length++) {
		memcpy(in, "\x93NUMPY\2\0", 8);
		for (int i = 0; i < 4; i++)
			in[8 + i] = (char)(length >> 8 * i & 0xff);
		memset(in + 12, ' ', length);
		memcpy(in + 12, dict, strlen(dict));
		enum status status = read_bytes(12 + length + 4, true);
		ck_assert_int_eq(status, length <= 65536 ? STATUS_OK : STATUS_LIMIT);
	}
	ck_assert_str_eq(scratch_message(), "an npy header of 65537 bytes is beyond the limit of 64 KiB");
	memcpy(in, "\x93NUMPY\4\0", 8);
	ck_assert_int_eq(read_bytes(100, true), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "npy version 4.0 is not known");
}
END_TEST

/* Integers that a double does not hold, in every way of reading. */
START_TEST(large_integers)
{
	static const char *const orders[] = {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,2)}",
	                                     "{'descr': '<u8', 'fortran_order': False, 'shape': (2,2)}",
	                                     "{'descr': '<i8', 'fortran_order': True, 'shape': (2,2)}"};
	int64_t values[4] = {1, 2, (INT64_C(1) << 53) + 1, 3};
	for (int d = 0; d < 3; d++)
		for (int way = 0; way < 4; way++) {
			size_t n = make_npy(in, orders[d], (const char *)values, sizeof values);
			struct reader_options options = plain;
			struct input input;
			FILE *out = tmpfile();
			open_bytes(&input, in, n, way & 1);
			ck_assert_int_eq(pass(&input, &options, 1, way >> 1, out), STATUS_DATA);
			ck_assert_str_eq(scratch_message(), d == 2
			                                        ? "element 1 is an integer beyond 2^53, which f64 does not hold"
			                                        : "element 2 is an integer beyond 2^53, which f64 does not hold");
			close_bytes(&input);
			options.cast = true;
			open_bytes(&input, in, n, way & 1);
			ck_assert_int_eq(pass(&input, &options, 1, way >> 1, out), STATUS_OK);
			close_bytes(&input);
			fclose(out);
		}
}
END_TEST

/* Types alone: nothing behind the header is read, Fortran order included. */
START_TEST(headers_alone)
{
	struct input input;
	struct reader reader;
	bool end;
	size_t n = make_npy(in, "{'descr': '<f4', 'fortran_order': True, 'shape': (30,40)}", "", 0);
	open_bytes(&input, in, n, false);
	reader_init(&reader, &input, &plain, &arena);
	ck_assert_int_eq(reader_next(&reader, &end, &diags), STATUS_OK);
	ck_assert(!end);
	ck_assert_int_eq(reader.count, 1200);
	ck_assert_uint_eq(reader.held_size, 4800);
	ck_assert(!reader_seekable(&reader));
	reader_free(&reader);
}
END_TEST

START_TEST(skipping)
{
	for (int way = 0; way < 4; way++) {
		size_t length = read_golden(way & 2 ? "i2-fortran" : "f8-big", ".npy", in);
		length += read_golden("f4-little", ".npy", in + length);
		struct input input;
		struct reader reader;
		double some[3];
		bool end;
		open_bytes(&input, in, length, way & 1);
		reader_init(&reader, &input, &plain, &arena);
		ck_assert_int_eq(reader_next(&reader, &end, &diags), STATUS_OK);
		if (way & 2)
			ck_assert_int_eq(reader_read(&reader, some, DTYPE_F64, 3, &diags), STATUS_OK);
		ck_assert_int_eq(reader_skip(&reader, &diags), STATUS_OK);
		ck_assert_int_eq(reader_next(&reader, &end, &diags), STATUS_OK);
		ck_assert_int_eq(reader.type.dtype, DTYPE_F32);
		ck_assert_int_eq(reader_skip(&reader, &diags), STATUS_OK);
		ck_assert_int_eq(reader_next(&reader, &end, &diags), STATUS_OK);
		ck_assert(end);
		reader_free(&reader);
		close_bytes(&input);
	}
}
END_TEST

/* Raw values: to the end of a file or a pipe, or of a given shape, one array after another. */
START_TEST(raw)
{
	static const float values[6] = {1, 2, 3, 4, 5, 6};
	struct reader_options options = plain;
	options.format = FORMAT_RAW;
	struct type line = {DTYPE_F32, {1, {6}}}, pair = {DTYPE_F32, {2, {1, 3}}};
	memcpy(in, values, sizeof values);
	size_t n = npy_make_header(&line, want);
	memcpy(want + n, values, 24);
	check_pass(&options, 24, n + 24);
	options.raw = pair;
	n = npy_make_header(&pair, want);
	memcpy(want + n, values, 12);
	size_t m = npy_make_header(&pair, want + n + 12);
	memcpy(want + n + 12 + m, values + 3, 12);
	check_pass(&options, 24, n + m + 24);
	struct input input;
	for (int file = 0; file < 2; file++) {
		options.raw = (struct type){DTYPE_F64, {0, {0}}};
		options.raw.shape.ndim = -1;
		open_bytes(&input, in, 23, file);
		ck_assert_int_eq(pass(&input, &options, 10, false, stdout), STATUS_DATA);
		ck_assert_str_eq(scratch_message(), "23 bytes are no whole number of f32");
		close_bytes(&input);
		open_bytes(&input, in, 0, file);
		ck_assert_int_eq(pass(&input, &options, 10, false, stdout), STATUS_DATA);
		ck_assert_str_eq(scratch_message(), "no data");
		close_bytes(&input);
		/* An array without elements would be read for ever. */
		options.raw = (struct type){DTYPE_F32, {1, {0}}};
		open_bytes(&input, in, 4, file);
		ck_assert_int_eq(pass(&input, &options, 10, false, stdout), STATUS_DATA);
		close_bytes(&input);
	}
}
END_TEST

START_TEST(headers_as_numpy_writes_them)
{
	char header[NPY_HEADER_MOST];
	struct type most = {DTYPE_F64, {MAX_DIMS, {0}}};
	for (int i = 0; i < MAX_DIMS; i++)
		most.shape.dim[i] = INT64_MAX;
	size_t n = npy_make_header(&most, header);
	ck_assert_uint_eq(n % 64, 0);
	ck_assert_uint_lt(n, NPY_HEADER_MOST);
	ck_assert_int_eq(header[n - 1], '\n');
	struct type one = {DTYPE_F32, {1, {2}}};
	ck_assert_uint_eq(npy_make_header(&one, header), 128);
	ck_assert_int_eq(memcmp(header, "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 67),
	                 0);
}
END_TEST

/* Mutated files: any outcome but a crash, a hang, or success without a message's absence. */
START_TEST(mutations)
{
	static const char alphabet[] = "{}()[]',:\" 0123456789<>|=fiubcOVLTrueFalse\\\n\x93\xff";
	uint64_t state = 12345;
	static char original[MUCH];
	for (int seed = 0; seed < 3; seed++) {
		size_t length = read_golden(seed == 0 ? "f4-little" : seed == 1 ? "i2-fortran" : "version-3", ".npy", original);
		for (int iteration = 0; iteration < 2000; iteration++) {
			memcpy(in, original, length);
			size_t n = length;
			for (int edits = 0; edits < 1 + iteration % 4; edits++) {
				state = state * 6364136223846793005u + 1442695040888963407u;
				size_t at = (size_t)(state >> 33) % 128;
				char c = alphabet[(state >> 20) % (sizeof alphabet - 1)];
				if (state >> 12 & 1) {
					in[at] = c;
				} else if (state >> 13 & 1) {
					memmove(in + at, in + at + 1, n - at - 1);
					n--;
				} else {
					memmove(in + at + 1, in + at, n - at);
					in[at] = c;
					n++;
				}
			}
			scratch_teardown();
			scratch_setup();
			/* The header alone: what a mutated extent asks for is not what is tested here. */
			struct input input;
			struct reader reader;
			bool end;
			open_bytes(&input, in, n, false);
			reader_init(&reader, &input, &plain, &arena);
			enum status status = reader_next(&reader, &end, &diags);
			ck_assert(status == STATUS_OK || status == STATUS_DATA || status == STATUS_LIMIT);
			ck_assert_int_eq(status != STATUS_OK, diags.errors > 0);
			if (!status && !end && reader.count < 100000) {
				double *values = malloc((size_t)reader.count * sizeof *values + 1);
				status = reader_read(&reader, values, DTYPE_F64, reader.count, &diags);
				ck_assert(status == STATUS_OK || status == STATUS_DATA);
				free(values);
			}
			reader_free(&reader);
		}
	}
}
END_TEST

/* All halves, by what their fields mean. */
static double half_value(unsigned h, int exponent_bits, int fraction_bits)
{
	unsigned fraction = h & ((1u << fraction_bits) - 1), exponent = h >> fraction_bits & ((1u << exponent_bits) - 1);
	int bias = (1 << (exponent_bits - 1)) - 1;
	double sign = h >> 15 ? -1 : 1;
	if (exponent == (1u << exponent_bits) - 1)
		return fraction ? NAN : sign * INFINITY;
	if (exponent == 0)
		return sign * ldexp(fraction, 1 - bias - fraction_bits);
	return sign * ldexp(fraction + (1u << fraction_bits), (int)exponent - bias - fraction_bits);
}

START_TEST(all_halves)
{
	static uint16_t from[65536], back[65536];
	static float to[65536];
	static void (*const widens[])(float *, const uint16_t *, size_t) = {convert_f16_to_f32, convert_bf16_to_f32,
	                                                                    convert_f16_to_f32_plain};
	static void (*const shortens[])(uint16_t *, const float *, size_t) = {convert_f32_to_f16, convert_f32_to_bf16,
	                                                                      convert_f32_to_f16_plain};
	void (*const widen)(float *, const uint16_t *, size_t) = widens[_i];
	void (*const shorten)(uint16_t *, const float *, size_t) = shortens[_i];
	const bool bf = _i == 1;
	for (unsigned h = 0; h < 65536; h++)
		from[h] = (uint16_t)h;
	widen(to, from, 65536);
	shorten(back, to, 65536);
	for (unsigned h = 0; h < 65536; h++) {
		double value = bf ? half_value(h, 8, 7) : half_value(h, 5, 10);
		if (isnan(value)) {
			ck_assert(isnan(to[h]));
			ck_assert(isnan(bf ? half_value(back[h], 8, 7) : half_value(back[h], 5, 10)));
		} else {
			ck_assert(to[h] == (float)value && !signbit(to[h]) == !signbit(value));
			ck_assert_uint_eq(back[h], h);
		}
	}
	/* Between neighbours: to the nearer, halves to the even one. */
	for (unsigned h = 0; h < (bf ? 0x7f7fu : 0x7bffu); h++) {
		float low = to[h], high = to[h + 1], middle = (float)(((double)low + high) / 2);
		float some[6] = {middle,  nextafterf(middle, 0),  nextafterf(middle, INFINITY),
		                 -middle, nextafterf(low, 1e38f), nextafterf(high, 0)};
		uint16_t got6[6];
		shorten(got6, some, 6);
		ck_assert_uint_eq(got6[0], h + (h & 1));
		ck_assert_uint_eq(got6[1], h);
		ck_assert_uint_eq(got6[2], h + 1);
		ck_assert_uint_eq(got6[3], (h + (h & 1)) | 0x8000);
		ck_assert_uint_eq(got6[4], h);
		ck_assert_uint_eq(got6[5], h + 1);
	}
	/* And of doubles, by floats rounded to odd: the middle's neighbours are nearer to it than floats are. */
	for (unsigned h = 0; h <= (bf ? 0x7f7fu : 0x7bffu); h++) {
		const double low = half_value(h, bf ? 8 : 5, bf ? 7 : 10);
		const double high = h < (bf ? 0x7f7fu : 0x7bffu) ? half_value(h + 1, bf ? 8 : 5, bf ? 7 : 10)
		                                                 : low + (low - half_value(h - 1, bf ? 8 : 5, bf ? 7 : 10));
		const double middle = (low + high) / 2;
		const double some[6] = {middle,  nextafter(middle, 0),         nextafter(middle, INFINITY),
		                        -middle, -nextafter(middle, INFINITY), low};
		float odd[6];
		uint16_t got6[6];
		convert_f64_to_f32_odd(odd, some, 6);
		shorten(got6, odd, 6);
		ck_assert_uint_eq(got6[0], h + (h & 1));
		ck_assert_uint_eq(got6[1], h);
		ck_assert_uint_eq(got6[2], h + 1);
		ck_assert_uint_eq(got6[3], (h + (h & 1)) | 0x8000);
		ck_assert_uint_eq(got6[4], (h + 1) | 0x8000);
		ck_assert_uint_eq(got6[5], h);
	}
	const double special[5] = {NAN, INFINITY, -INFINITY, -0.0, 1e300};
	float odd5[5];
	convert_f64_to_f32_odd(odd5, special, 5);
	ck_assert(isnan(odd5[0]) && odd5[1] == INFINITY && odd5[2] == -INFINITY && odd5[3] == 0 && signbit(odd5[3]));
	ck_assert(odd5[4] == FLT_MAX); /* which both halves round to infinity */
	float large[3] = {65519.996f, 65520, 3.4e38f};
	uint16_t got3[3];
	if (!bf) {
		shorten(got3, large, 3);
		ck_assert_uint_eq(got3[0], 0x7bff);
		ck_assert_uint_eq(got3[1], 0x7c00);
		ck_assert_uint_eq(got3[2], 0x7c00);
	}
}
END_TEST

/* The processor's instructions give the bits that the code without them gives: all halves, and one of 251 floats. */
START_TEST(halves_by_processor)
{
	enum { MANY = 65536, STEP = 251 };
	static uint16_t half[MANY], plain_half[MANY];
	static float value[MANY], plain_value[MANY];
	for (unsigned h = 0; h < MANY; h++)
		half[h] = (uint16_t)h;
	convert_f16_to_f32(value, half, MANY);
	convert_f16_to_f32_plain(plain_value, half, MANY);
	ck_assert_mem_eq(value, plain_value, sizeof value);
	uint32_t bits = 0;
	for (int round = 0; round < (int)(UINT32_MAX / MANY / STEP) + 1; round++) {
		for (unsigned i = 0; i < MANY; i++, bits += STEP)
			memcpy(&value[i], &bits, sizeof bits);
		convert_f32_to_f16(half, value, MANY - 5); /* an end that fills no vector */
		convert_f32_to_f16_plain(plain_half, value, MANY - 5);
		ck_assert_mem_eq(half, plain_half, (MANY - 5) * sizeof *half);
	}
}
END_TEST

int main(void)
{
	read_names();
	Suite *suite = suite_create("npy");
	TCase *tcase = suite_make_case(suite, "npy");
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_loop_test(tcase, as_numpy_saves, 0,
	                    name_count > 60 ? name_count : 200); /* too few: the names are missing */
	tcase_add_test(tcase, arrays_behind_each_other);
	tcase_add_test(tcase, bfloat16);
	tcase_add_loop_test(tcase, dicts, 0, sizeof headers / sizeof *headers);
	tcase_add_loop_test(tcase, truncation, 0, 2);
	tcase_add_loop_test(tcase, trailing_bytes, 0, 2);
	tcase_add_test(tcase, great_claims);
	tcase_add_test(tcase, headers_at_the_limit);
	tcase_add_test(tcase, large_integers);
	tcase_add_test(tcase, headers_alone);
	tcase_add_test(tcase, skipping);
	tcase_add_test(tcase, raw);
	tcase_add_test(tcase, headers_as_numpy_writes_them);
	tcase_add_test(tcase, mutations);
	tcase_add_loop_test(tcase, all_halves, 0, 3); /* f16, bf16, f16 without the processor's instructions */
	tcase_add_test(tcase, halves_by_processor);
	return suite_run(suite);
}
