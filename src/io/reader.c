/*
 * The reader. npy and raw stream; text, csv and arrays in Fortran order are held
 * whole, since their shape or their order is known only at the end.
 */
#include "io/npy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 64 << 10 };

void reader_init(struct reader *reader, struct input *input, const struct reader_options *options, struct arena *arena)
{
	*reader = (struct reader){
		.input = input, .options = *options, .arena = arena, .format = options->format, .declared = DTYPE_COUNT};
}

void reader_declare(struct reader *reader, enum dtype dtype) { reader->declared = dtype; }

void reader_free(struct reader *reader)
{
	if (reader->held)
		allocator_put(reader->arena->allocator, reader->held, reader->held_size);
	reader->held = NULL;
	reader->held_size = 0;
}

static enum status data_error(const struct reader *r, int64_t offset, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_DATA, r->input->name, offset, "%s", what);
}

/* Text. */

struct scan {
	struct reader *reader;
	const char *text;
	size_t length;
	double *values;
	size_t count, capacity;
	int64_t rows, columns, in_row;
	uint32_t line;
	struct diags *diags;
};

/*
 * An error at the bytes from BEGIN to END. Of the text, which is freed, only the
 * surroundings of the place are kept for the message to show.
 */
__attribute__((format(printf, 4, 5))) static enum status text_error(struct scan *s, size_t begin, size_t end,
                                                                    const char *format, ...)
{
	enum { AROUND = 4096 };
	size_t line = begin, first, last = end;
	while (line > 0 && s->text[line - 1] != '\n')
		line--;
	first = begin - line > AROUND ? begin - AROUND : line;
	while (last < s->length && s->text[last] != '\n' && last - begin < AROUND)
		last++;
	if (last - first > 2 * AROUND) /* a long row */
		last = first + 2 * AROUND;
	struct source *source = arena_alloc(s->reader->arena, sizeof *source);
	char *copy = arena_strndup(s->reader->arena, s->text + first, last - first);
	va_list arguments;
	va_start(arguments, format);
	char message[160];
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	if (!source || !copy)
		return diag_memory(s->diags);
	size_t column = begin - line + 1;
	*source = (struct source){s->reader->input->name, copy, last - first};
	struct span span = {(uint32_t)(begin - first), (uint32_t)((end < last ? end : last) - first), s->line,
	                    column < UINT32_MAX ? (uint32_t)column : UINT32_MAX};
	return diag_at(s->diags, STATUS_DATA, source, span, "%s", message);
}

static enum status end_row(struct scan *s, size_t at)
{
	if (s->in_row == 0)
		return STATUS_OK;
	if (s->rows > 0 && s->in_row != s->columns) {
		size_t begin = at;
		while (begin > 0 && s->text[begin - 1] != '\n')
			begin--;
		return text_error(s, begin, at, "a row of %lld numbers after rows of %lld", (long long)s->in_row,
		                  (long long)s->columns);
	}
	s->columns = s->in_row;
	s->rows++;
	s->in_row = 0;
	return STATUS_OK;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

/* What control characters hint at. */
static const char *binary_hint(const struct scan *s)
{
	static const char zip[] = "PK\3\4";
	const bool archive = s->length >= 4 && !memcmp(s->text, zip, 4);
	const bool tensors = s->length > 8 && s->text[8] == '{' && !memcmp(s->text + 5, "\0\0\0", 3);
	return archive || tensors
	           ? "npz and safetensors hold params, for load() and --param: the input is one array"
	           : "npy data begins with \\x93NUMPY, text holds numbers; --from raw reads plain binary values";
}

/* Whether C can begin a column's name, as a number's letters or signs cannot. */
static bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '"'; }

/* For more than the READ bytes of what is held whole there is no memory. */
static enum status no_room(const struct input *input, size_t read, struct diags *diags)
{
	diag_file(diags, STATUS_LIMIT, input->name, (int64_t)read, "out of memory: it is read whole, and goes on here");
	diag_hint(diags, "npy, and raw data with --shape, are read in parts where the chain works row by row");
	return STATUS_LIMIT;
}

/* Says what the bytes from AT to END are instead of a number. */
static enum status not_a_number(struct scan *s, size_t at, size_t end)
{
	const char *zero = memchr(s->text + at, 0, end - at);
	if (zero) /* what no word has */
		at = (size_t)(zero - s->text);
	unsigned char c = (unsigned char)s->text[at];
	enum status status;
	if (c < 0x20 || c == 0x7f) {
		status = text_error(s, at, at + 1, "byte 0x%02x is neither a number nor white space", c);
		diag_hint(s->diags, "%s", binary_hint(s));
		return status;
	}
	size_t shown = end - at > 40 ? 40 : end - at;
	while (shown > 1 && shown < end - at && ((unsigned char)s->text[at + shown] & 0xc0) == 0x80)
		shown--;
	status =
		text_error(s, at, end, "'%.*s%s' is not a number", (int)shown, s->text + at, shown < end - at ? "..." : "");
	if (end - at > 2 && c == '"' && strchr("+-.0123456789", s->text[at + 1]))
		diag_hint(s->diags, "numbers have no quotes, which tr -d '\"' takes away");
	else if (s->line == 1 && s->in_row == 0 && begins_name(s->text[at]))
		diag_hint(s->diags, "a header line of names must be left out, as by: tail -n +2");
	else if (memchr(s->text + at, ';', end - at))
		diag_hint(s->diags, "numbers stand apart by white space or commas");
	return status;
}

static enum status add_number(struct scan *s, size_t *at)
{
	size_t end = *at;
	while (end < s->length && s->text[end] != '\n' && s->text[end] != ',' && !is_blank(s->text[end]))
		end++;
	double value;
	if (number_parse(s->text + *at, end - *at, &value) != end - *at)
		return not_a_number(s, *at, end);
	if (s->count == s->capacity) {
		size_t next = s->capacity ? 2 * s->capacity : 1024;
		const struct allocator *a = s->reader->arena->allocator;
		double *grown = a->resize(a->context, s->values, s->capacity * sizeof *grown, next * sizeof *grown);
		if (!grown)
			return no_room(s->reader->input, *at, s->diags);
		s->values = grown;
		s->capacity = next;
	}
	s->values[s->count++] = value;
	s->in_row++;
	*at = end;
	return STATUS_OK;
}

static enum status scan_text(struct scan *s)
{
	bool csv = s->reader->format == FORMAT_CSV, comma = true; /* a number is wanted before the next comma */
	enum status status = STATUS_OK;
	size_t i = s->length >= 3 && !memcmp(s->text, "\xef\xbb\xbf", 3) ? 3 : 0;
	while (i < s->length && !status) {
		char c = s->text[i];
		if (c == '\n') {
			if (comma && s->in_row)
				return text_error(s, i, i + 1, "a row ends in a comma");
			status = end_row(s, i);
			comma = true;
			s->line++;
			i++;
		} else if (c == ',') {
			if (comma)
				return text_error(s, i, i + 1, "an empty field");
			comma = true;
			i++;
		} else if (is_blank(c)) {
			i++;
		} else {
			if (csv && !comma)
				return text_error(s, i, i + 1, "a comma is wanted before the next number");
			status = add_number(s, &i);
			comma = false;
		}
	}
	if (!status && comma && s->in_row)
		return text_error(s, s->length, s->length, "a row ends in a comma");
	return status ? status : end_row(s, s->length);
}

/*
 * Of text that goes on, the LENGTH bytes that it begins with: what cannot be numbers
 * is refused here, and not when all of it, which may have no end, is in memory. It is
 * cut after a row, or within the first one after a number.
 */
static enum status check_begin(struct reader *r, const char *text, size_t length, struct diags *diags)
{
	size_t cut = length;
	while (cut > 0 && text[cut - 1] != '\n')
		cut--;
	if (cut == 0) {
		cut = length;
		while (cut > 0 && text[cut - 1] != ',' && !is_blank(text[cut - 1]))
			cut--;
		while (cut > 0 && (text[cut - 1] == ',' || is_blank(text[cut - 1])))
			cut--;
	}
	if (cut == 0 && memchr(text, 0, length))
		cut = length;
	struct scan s = {.reader = r, .text = text, .length = cut, .line = 1, .diags = diags};
	const enum status status = scan_text(&s);
	allocator_put(r->arena->allocator, s.values, s.capacity * sizeof *s.values);
	return status;
}

static enum status read_all(struct reader *r, char **text, size_t *length, size_t *capacity, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	size_t size = BLOCK, used = 0, got = 0;
	char *data = allocator_get(a, size, 1);
	enum status status = data ? STATUS_OK : diag_memory(diags);
	while (!status) {
		status = input_read(r->input, data + used, size - used, &got, diags);
		used += got;
		if (status || used < size)
			break;
		if (size == BLOCK && r->format != FORMAT_RAW)
			status = check_begin(r, data, used, diags);
		if (status)
			break;
		char *grown = a->resize(a->context, data, size, 2 * size);
		if (!grown) {
			status = no_room(r->input, used, diags);
			break;
		}
		data = grown;
		size *= 2;
	}
	*text = data;
	*length = used;
	*capacity = size;
	return status;
}

static enum status next_text(struct reader *r, bool *end, struct diags *diags)
{
	if (r->index > 0) {
		*end = true;
		return STATUS_OK;
	}
	char *text = NULL;
	size_t length = 0, capacity = 0;
	enum status status = read_all(r, &text, &length, &capacity, diags);
	struct scan s = {.reader = r, .text = text, .length = length, .line = 1, .diags = diags};
	if (!status)
		status = scan_text(&s);
	if (text)
		allocator_put(r->arena->allocator, text, capacity);
	if (!status && s.count == 0)
		status = data_error(r, (int64_t)length, "no numbers", diags);
	if (status) {
		allocator_put(r->arena->allocator, s.values, s.capacity * sizeof *s.values);
		return status;
	}
	r->held = s.values;
	r->held_size = s.capacity * sizeof *s.values;
	r->held_dtype = DTYPE_F64;
	r->type = (struct type){.dtype = DTYPE_F64};
	r->layout = s.rows == 1 ? LAYOUT_LINE : s.columns == 1 ? LAYOUT_COLUMN : LAYOUT_ROWS;
	if (r->layout == LAYOUT_ROWS)
		r->type.shape = (struct shape){.ndim = 2, .dim = {s.rows, s.columns}};
	else
		r->type.shape = (struct shape){.ndim = 1, .dim = {(int64_t)s.count}};
	r->count = (int64_t)s.count;
	r->done = 0;
	r->swap = r->fortran = r->direct = false;
	r->index++;
	return STATUS_OK;
}

/* Blocks of file values to computing values. */

/* COUNT file values at FROM, aligned, little-endian, as double or float. */
static void convert_block(void *to, enum dtype compute, const void *from, enum dtype dtype, size_t count)
{
	float *f = to;
	double *d = to;
	bool single = compute == DTYPE_F32;
	float half[512];
	switch (dtype) {
	case DTYPE_F16:
	case DTYPE_BF16:
		if (single) {
			(dtype == DTYPE_F16 ? convert_f16_to_f32 : convert_bf16_to_f32)(f, from, count);
			return;
		}
		for (size_t done = 0; done < count; done += 512) {
			size_t n = count - done < 512 ? count - done : 512;
			(dtype == DTYPE_F16 ? convert_f16_to_f32 : convert_bf16_to_f32)(half, (const uint16_t *)from + done, n);
			for (size_t i = 0; i < n; i++)
				d[done + i] = half[i];
		}
		return;
#define CASE(DTYPE, T)                                                                                                 \
	case DTYPE:                                                                                                        \
		if (single)                                                                                                    \
			for (size_t i = 0; i < count; i++)                                                                         \
				f[i] = (float)((const T *)from)[i];                                                                    \
		else                                                                                                           \
			for (size_t i = 0; i < count; i++)                                                                         \
				d[i] = (double)((const T *)from)[i];                                                                   \
		return;
		CASE(DTYPE_F32, float)
		CASE(DTYPE_F64, double)
		CASE(DTYPE_I8, int8_t)
		CASE(DTYPE_I16, int16_t)
		CASE(DTYPE_I32, int32_t)
		CASE(DTYPE_I64, int64_t)
		CASE(DTYPE_U8, uint8_t)
		CASE(DTYPE_U16, uint16_t)
		CASE(DTYPE_U32, uint32_t)
		CASE(DTYPE_U64, uint64_t)
#undef CASE
	case DTYPE_BOOL:
		for (size_t i = 0; i < count; i++) {
			bool set = ((const unsigned char *)from)[i] != 0;
			if (single)
				f[i] = set;
			else
				d[i] = set;
		}
		return;
	case DTYPE_BITS:
	case DTYPE_COUNT:
		return;
	}
}

/* The first of COUNT integers that a double does not hold, or -1. */
static int64_t first_inexact(const void *from, enum dtype dtype, size_t count)
{
	const int64_t most = INT64_C(1) << 53;
	for (size_t i = 0; dtype == DTYPE_I64 && i < count; i++) {
		int64_t v = ((const int64_t *)from)[i];
		if (v > most || v < -most)
			return (int64_t)i;
	}
	for (size_t i = 0; dtype == DTYPE_U64 && i < count; i++)
		if (((const uint64_t *)from)[i] > (uint64_t)most)
			return (int64_t)i;
	return -1;
}

static enum status check_integers(const struct reader *r, const void *from, int64_t first, size_t count,
                                  struct diags *diags)
{
	if (r->options.cast || (r->type.dtype != DTYPE_I64 && r->type.dtype != DTYPE_U64))
		return STATUS_OK;
	int64_t at = first_inexact(from, r->type.dtype, count);
	if (at < 0)
		return STATUS_OK;
	diag_file(diags, STATUS_DATA, r->input->name, r->data + 8 * (first + at),
	          "element %lld is an integer beyond 2^53, which f64 does not hold", (long long)(first + at));
	diag_hint(diags, "--cast lets it be rounded");
	return STATUS_DATA;
}

static enum status truncated(const struct reader *r, int64_t have, struct diags *diags)
{
	int64_t want = r->count * (int64_t)dtype_size(r->type.dtype);
	return diag_file(diags, STATUS_DATA, r->input->name, r->data + have, "truncated: %lld of %lld bytes of array data",
	                 (long long)have, (long long)want);
}

/* As convert_block; where the values are declared to be halves, floats are made so that they are rounded once. */
static void convert_declared(const struct reader *r, void *to, enum dtype compute, const void *from, enum dtype dtype,
                             size_t count)
{
	enum { PIECE = 512 };
	double wide[PIECE];
	const bool exact = dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
	if (compute == DTYPE_F64 || exact || (r->declared != DTYPE_F16 && r->declared != DTYPE_BF16)) {
		convert_block(to, compute, from, dtype, count);
		return;
	}
	for (size_t done = 0; done < count; done += PIECE) {
		const size_t n = count - done < PIECE ? count - done : PIECE;
		convert_block(wide, DTYPE_F64, (const char *)from + done * dtype_size(dtype), dtype, n);
		convert_f64_to_f32_odd((float *)to + done, wide, n);
	}
}

/* COUNT file values at BLOCK, which are element FIRST and on; BLOCK is swapped in place. */
static enum status convert_values(const struct reader *r, void *to, enum dtype compute, void *block, int64_t first,
                                  size_t count, struct diags *diags)
{
	if (r->swap)
		convert_swap(block, dtype_size(r->type.dtype), count);
	enum status status = check_integers(r, block, first, count, diags);
	if (!status)
		convert_declared(r, to, compute, block, r->type.dtype, count);
	return status;
}

/* COUNT elements from the stream, in the file's order. */
static enum status read_stream(struct reader *r, void *to, enum dtype compute, int64_t count, struct diags *diags)
{
	size_t size = dtype_size(r->type.dtype), got = 0;
	int64_t done = r->done * (int64_t)size;
	if (r->direct && r->type.dtype == compute) {
		enum status status = input_read(r->input, to, (size_t)count * size, &got, diags);
		if (!status && got < (size_t)count * size)
			return truncated(r, done + (int64_t)got, diags);
		r->done += count;
		return status;
	}
	_Alignas(64) unsigned char block[BLOCK];
	size_t width = compute == DTYPE_F32 ? 4 : 8;
	while (count > 0) {
		size_t n = (size_t)count < BLOCK / size ? (size_t)count : BLOCK / size;
		enum status status = input_read(r->input, block, n * size, &got, diags);
		if (!status && got < n * size)
			status = truncated(r, r->done * (int64_t)size + (int64_t)got, diags);
		if (!status)
			status = convert_values(r, to, compute, block, r->done, n, diags);
		if (status)
			return status;
		to = (char *)to + n * width;
		r->done += (int64_t)n;
		count -= (int64_t)n;
	}
	return STATUS_OK;
}

/*
 * Fortran order. The array is read whole and transposed by squares of the first
 * and the last axis, so that both the reads and the writes of a square stay in
 * the cache; the axes between are counted through as an odometer does.
 */

enum { SQUARE = 32 };

/* A square plane: to[i * to_step + k] = from[i + k * from_step], for ROWS of i and COLUMNS of k. */
#define TRANSPOSE(NAME, T)                                                                                             \
	static void NAME(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t rows, int64_t columns)    \
	{                                                                                                                  \
		for (int64_t i0 = 0; i0 < rows; i0 += SQUARE)                                                                  \
			for (int64_t k0 = 0; k0 < columns; k0 += SQUARE)                                                           \
				for (int64_t i = i0; i < rows && i < i0 + SQUARE; i++)                                                 \
					for (int64_t k = k0; k < columns && k < k0 + SQUARE; k++)                                          \
						((T *)to)[i * to_step + k] = ((const T *)from)[i + k * from_step];                             \
	}
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)
#undef TRANSPOSE

static void transpose(const struct shape *shape, size_t size, const char *from, char *to)
{
	void (*plane)(void *, int64_t, const void *, int64_t, int64_t, int64_t) = size == 1   ? transpose_1
	                                                                          : size == 2 ? transpose_2
	                                                                          : size == 4 ? transpose_4
	                                                                                      : transpose_8;
	int last = shape->ndim - 1;
	int64_t from_step[MAX_DIMS], to_step[MAX_DIMS], index[MAX_DIMS] = {0}, step = 1;
	for (int i = 0; i <= last; i++, step *= shape->dim[i - 1])
		from_step[i] = step;
	step = 1;
	for (int i = last; i >= 0; step *= shape->dim[i], i--)
		to_step[i] = step;
	int64_t read = 0, write = 0;
	for (;;) {
		plane(to + (size_t)write * size, to_step[0], from + (size_t)read * size, from_step[last], shape->dim[0],
		      shape->dim[last]);
		int i = last - 1;
		for (; i > 0; i--) {
			read += from_step[i];
			write += to_step[i];
			if (++index[i] < shape->dim[i])
				break;
			read -= from_step[i] * shape->dim[i];
			write -= to_step[i] * shape->dim[i];
			index[i] = 0;
		}
		if (i <= 0)
			return;
	}
}

/* The shape without the extents of 1, which move nothing; two axes are left at least. */
static struct shape squeeze(const struct shape *shape)
{
	struct shape squeezed = {.ndim = 0};
	for (int i = 0; i < shape->ndim; i++)
		if (shape->dim[i] != 1)
			squeezed.dim[squeezed.ndim++] = shape->dim[i];
	return squeezed;
}

static enum status hold_fortran(struct reader *r, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	size_t size = dtype_size(r->type.dtype), bytes = (size_t)r->count * size, got = 0;
	/* What a file cannot hold is not asked memory for. */
	if (r->input->limit - r->data < (int64_t)bytes)
		return truncated(r, r->input->limit - r->data, diags);
	char *from = allocator_get(a, bytes, 1), *to = allocator_get(a, bytes, 1);
	enum status status = from && to ? input_read(r->input, from, bytes, &got, diags) : diag_memory(diags);
	if (!status && got < bytes)
		status = truncated(r, (int64_t)got, diags);
	if (!status) {
		struct shape squeezed = squeeze(&r->type.shape);
		transpose(&squeezed, size, from, to);
		if (r->swap)
			convert_swap(to, size, (size_t)r->count);
		status = check_integers(r, to, 0, (size_t)r->count, diags);
	}
	allocator_put(a, from, bytes);
	if (status) {
		allocator_put(a, to, bytes);
		return status;
	}
	r->held = to;
	r->held_size = bytes;
	r->held_dtype = r->type.dtype;
	return STATUS_OK;
}

/* Headers. */

static void begin_array(struct reader *r)
{
	r->count = shape_count(&r->type.shape);
	r->done = 0;
	r->data = r->input->offset;
	r->direct = !r->swap && !r->fortran && convert_little_endian() &&
	            (r->type.dtype == DTYPE_F32 || r->type.dtype == DTYPE_F64);
	r->index++;
}

void reader_begin_at(struct reader *reader, const struct type *type, int64_t data)
{
	reader->type = *type;
	reader->swap = !convert_little_endian() && dtype_size(type->dtype) > 1;
	begin_array(reader);
	reader->data = data;
}

static enum status next_npy(struct reader *r, bool *end, struct diags *diags)
{
	const unsigned char *bytes;
	size_t got;
	enum status status = input_peek(r->input, NPY_MAGIC, &bytes, &got, diags);
	if (status)
		return status;
	if (got == 0 && r->index > 0) {
		*end = true;
		return STATUS_OK;
	}
	if (got == 0)
		return data_error(r, 0, "no data", diags);
	if (r->index > 0 && !npy_is(bytes, got))
		return data_error(r, r->input->offset, "trailing bytes after the array are not another npy array", diags);
	struct npy_header header;
	status = npy_read_header(r->input, r->options.assume, &header, diags);
	if (status)
		return status;
	r->type = header.type;
	r->assumed |= header.void2;
	r->swap = convert_little_endian() ? header.swap : !header.swap;
	r->fortran = header.fortran && squeeze(&r->type.shape).ndim > 1 && shape_count(&r->type.shape) > 0;
	begin_array(r);
	r->layout = LAYOUT_ROWS;
	r->held_size = r->fortran ? (size_t)r->count * dtype_size(r->type.dtype) : 0;
	return STATUS_OK;
}

static enum status odd_size(const struct reader *r, int64_t bytes, struct diags *diags)
{
	return diag_file(diags, STATUS_DATA, r->input->name, bytes, "%lld bytes are no whole number of %s",
	                 (long long)bytes, dtype_name(r->type.dtype));
}

/* Raw values from a pipe to its end, which gives their number. */
static enum status hold_raw(struct reader *r, struct diags *diags)
{
	char *data = NULL;
	size_t length = 0, capacity = 0, size = dtype_size(r->type.dtype);
	enum status status = read_all(r, &data, &length, &capacity, diags);
	if (!status && length % size)
		status = odd_size(r, (int64_t)length, diags);
	if (!status) {
		r->type.shape = (struct shape){.ndim = 1, .dim = {(int64_t)(length / size)}};
		begin_array(r);
		r->data = 0;
		if (r->swap)
			convert_swap(data, size, length / size);
		status = check_integers(r, data, 0, length / size, diags);
	}
	if (status) {
		allocator_put(r->arena->allocator, data, capacity);
		return status;
	}
	r->held = data;
	r->held_size = capacity;
	r->held_dtype = r->type.dtype;
	return STATUS_OK;
}

static enum status next_raw(struct reader *r, bool *end, struct diags *diags)
{
	const unsigned char *bytes;
	size_t got;
	bool shaped = r->options.raw.shape.ndim >= 0;
	bool empty = shaped && shape_count(&r->options.raw.shape) == 0;
	enum status status = input_peek(r->input, 1, &bytes, &got, diags);
	if (status)
		return status;
	if (got == 0 && !(empty && r->index == 0)) {
		*end = true;
		return r->index > 0 ? STATUS_OK : data_error(r, 0, "no data", diags);
	}
	if (got > 0 && empty)
		return data_error(r, r->input->offset, "trailing bytes after an array without elements", diags);
	enum dtype given = shaped ? r->options.raw.dtype : DTYPE_F32;
	r->type = (struct type){.dtype = r->options.assume != DTYPE_COUNT ? r->options.assume : given};
	r->assumed = true;
	r->layout = LAYOUT_ROWS;
	r->swap = !convert_little_endian() && dtype_size(r->type.dtype) > 1;
	if (!shaped && r->input->size <= r->input->offset) /* a pipe, or a file that does not say its size, as in /proc */
		return hold_raw(r, diags);
	if (shaped) {
		r->type.shape = r->options.raw.shape;
	} else {
		int64_t left = r->input->size - r->input->offset, size = (int64_t)dtype_size(r->type.dtype);
		if (left % size)
			return odd_size(r, left, diags);
		r->type.shape = (struct shape){.ndim = 1, .dim = {left / size}};
	}
	begin_array(r);
	return STATUS_OK;
}

/* What the array is has been said elsewhere; of text, whose numbers have no type, its shape. */
static enum status check_type(const struct reader *r, struct diags *diags)
{
	const struct type *wanted = &r->options.raw;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (shape_equal(&r->type.shape, &wanted->shape) && (r->format != FORMAT_NPY || r->type.dtype == wanted->dtype))
		return STATUS_OK;
	return diag_file(diags, STATUS_DATA, r->input->name, -1, "holds %s, and --shape says %s", type_format(&r->type, a),
	                 type_format(wanted, b));
}

enum status reader_find_format(struct reader *r, struct diags *diags)
{
	const unsigned char *bytes;
	size_t got;
	if (r->format != FORMAT_AUTO)
		return STATUS_OK;
	enum status status = input_peek(r->input, NPY_MAGIC, &bytes, &got, diags);
	if (status == STATUS_OK)
		r->format = got && bytes[0] == 0x93 ? FORMAT_NPY : FORMAT_TEXT;
	return status;
}

static enum status next_array(struct reader *r, bool *end, struct diags *diags)
{
	enum status status = reader_find_format(r, diags);
	if (status)
		return status;
	switch (r->format) {
	case FORMAT_NPY:
		return next_npy(r, end, diags);
	case FORMAT_RAW:
		return next_raw(r, end, diags);
	default:
		return next_text(r, end, diags);
	}
}

enum status reader_next(struct reader *r, bool *end, struct diags *diags)
{
	*end = false;
	reader_free(r);
	enum status status = next_array(r, end, diags);
	return status || *end || !r->options.typed || r->format == FORMAT_RAW ? status : check_type(r, diags);
}

static void copy_held(const struct reader *r, int64_t first, void *to, enum dtype compute, int64_t count)
{
	size_t size = dtype_size(r->held_dtype);
	const char *from = (const char *)r->held + (size_t)first * size;
	if (r->held_dtype == compute)
		memcpy(to, from, (size_t)count * size);
	else
		convert_declared(r, to, compute, from, r->held_dtype, (size_t)count);
}

static enum status read_next(struct reader *r, void *to, enum dtype compute, int64_t count, struct diags *diags)
{
	if (count == 0)
		return STATUS_OK;
	if (r->fortran && !r->held) {
		enum status status = hold_fortran(r, diags);
		if (status)
			return status;
	}
	if (!r->held)
		return read_stream(r, to, compute, count, diags);
	copy_held(r, r->done, to, compute, count);
	r->done += count;
	return STATUS_OK;
}

static void round_values(const struct reader *r, void *values, enum dtype compute, int64_t count)
{
	if (r->declared != DTYPE_COUNT && r->declared != r->type.dtype)
		values_round(values, compute, (size_t)count, r->declared);
}

enum status reader_read(struct reader *r, void *to, enum dtype compute, int64_t count, struct diags *diags)
{
	enum status status = read_next(r, to, compute, count, diags);
	if (status == STATUS_OK)
		round_values(r, to, compute, count);
	return status;
}

bool reader_seekable(const struct reader *r)
{
	/* A file that is being written to by somebody else ends where it ended when it was opened. */
	return !r->held && !r->fortran && r->input->size >= 0;
}

static enum status read_at(const struct reader *r, int64_t first, void *to, enum dtype compute, int64_t count,
                           struct diags *diags)
{
	size_t size = dtype_size(r->type.dtype), got = 0, width = compute == DTYPE_F32 ? 4 : 8;
	if (r->held) {
		copy_held(r, first, to, compute, count);
		return STATUS_OK;
	}
	int64_t offset = r->data + first * (int64_t)size;
	if (r->direct && r->type.dtype == compute) {
		enum status status = input_read_at(r->input, offset, to, (size_t)count * size, &got, diags);
		return !status && got < (size_t)count * size ? truncated(r, first * (int64_t)size + (int64_t)got, diags)
		                                             : status;
	}
	_Alignas(64) unsigned char block[BLOCK];
	for (int64_t done = 0; done < count;) {
		size_t n = (size_t)(count - done) < BLOCK / size ? (size_t)(count - done) : BLOCK / size;
		enum status status = input_read_at(r->input, offset + done * (int64_t)size, block, n * size, &got, diags);
		if (!status && got < n * size)
			status = truncated(r, (first + done) * (int64_t)size + (int64_t)got, diags);
		if (!status)
			status = convert_values(r, (char *)to + (size_t)done * width, compute, block, first + done, n, diags);
		if (status)
			return status;
		done += (int64_t)n;
	}
	return STATUS_OK;
}

enum status reader_read_at(const struct reader *r, int64_t first, void *to, enum dtype compute, int64_t count,
                           struct diags *diags)
{
	enum status status = read_at(r, first, to, compute, count, diags);
	if (status == STATUS_OK)
		round_values(r, to, compute, count);
	return status;
}

/* A file is not read to be passed over; what was looked at of it is read again. */
static enum status skip_file(struct reader *r, int64_t bytes, struct diags *diags)
{
	struct input *input = r->input;
	if (lseek(input->fd, input->base + input->offset + bytes, SEEK_SET) < 0)
		return diag_file(diags, STATUS_IO, input->name, input->offset, "cannot seek: %s", strerror(errno));
	input->begin = input->end = 0;
	input->eof = false;
	input->offset += bytes;
	r->done = r->count;
	return STATUS_OK;
}

enum status reader_skip(struct reader *r, struct diags *diags)
{
	if (r->held) {
		r->done = r->count;
		return STATUS_OK;
	}
	int64_t left = (r->count - r->done) * (int64_t)dtype_size(r->type.dtype);
	if (r->input->size >= 0) {
		int64_t have = r->input->size - r->input->offset;
		if (have < left)
			return truncated(r, r->done * (int64_t)dtype_size(r->type.dtype) + (have > 0 ? have : 0), diags);
		return skip_file(r, left, diags);
	}
	char block[4096];
	while (left > 0) {
		size_t n = left < (int64_t)sizeof block ? (size_t)left : sizeof block, got;
		enum status status = input_read(r->input, block, n, &got, diags);
		if (status)
			return status;
		if (got < n)
			return truncated(r, r->count * (int64_t)dtype_size(r->type.dtype) - left + (int64_t)got, diags);
		left -= (int64_t)n;
	}
	r->done = r->count;
	return STATUS_OK;
}
