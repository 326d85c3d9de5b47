/*
 * The reader. npy and raw stream; text, csv and arrays in Fortran order are held
 * whole, since their shape or their order is known only at the end.
 */
#include "io/npy.h"

#include <string.h>
#include <unistd.h>

#include "base/checked.h"

enum { BLOCK = 64 << 10 };

void reader_init(struct reader *reader, struct input *input, const struct reader_options *options, struct arena *arena)
{
	*reader = (struct reader){.input = input, .options = *options, .arena = arena, .format = options->format};
}

void reader_free(struct reader *reader)
{
	if (reader->held)
		allocator_put(reader->arena->allocator, reader->held, reader->held_size);
	reader->held = NULL;
}

static bool little_endian(void)
{
	const uint16_t one = 1;
	unsigned char first;
	memcpy(&first, &one, 1);
	return first == 1;
}

static enum status data_error(const struct reader *r, int64_t offset, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_DATA, r->input->name, offset, "%s", what);
}

/* Text. */

struct scan {
	struct reader *reader;
	struct source source;
	double *values;
	size_t count, capacity;
	int64_t rows, columns, in_row;
	int64_t line;
	struct diags *diags;
};

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
		char *grown = a->resize(a->context, data, size, 2 * size);
		if (!grown) {
			status = diag_memory(diags);
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

static struct span place(const struct scan *s, size_t begin, size_t end)
{
	size_t line = begin;
	while (line > 0 && s->source.text[line - 1] != '\n')
		line--;
	return (struct span){(uint32_t)begin, (uint32_t)end, (uint32_t)s->line, (uint32_t)(begin - line + 1)};
}

static enum status end_row(struct scan *s, size_t at)
{
	if (s->in_row == 0)
		return STATUS_OK;
	if (s->rows > 0 && s->in_row != s->columns) {
		size_t begin = at;
		while (begin > 0 && s->source.text[begin - 1] != '\n')
			begin--;
		diag_at(s->diags, STATUS_DATA, &s->source, place(s, begin, at), "a row of %lld numbers after rows of %lld",
		        (long long)s->in_row, (long long)s->columns);
		return STATUS_DATA;
	}
	s->columns = s->in_row;
	s->rows++;
	s->in_row = 0;
	return STATUS_OK;
}

static enum status add_number(struct scan *s, size_t *at)
{
	const char *text = s->source.text;
	size_t end = *at;
	while (end < s->source.length && !strchr(" \t\r\n,;\f\v", text[end]))
		end++;
	double value;
	size_t n = number_parse(text + *at, end - *at, &value);
	if (n != end - *at || n == 0) {
		int shown = (int)(end - *at > 40 ? 40 : end - *at);
		diag_at(s->diags, STATUS_DATA, &s->source, place(s, *at, end > *at ? end : *at + 1), "'%.*s' is not a number",
		        shown, text + *at);
		if (s->line == 1)
			diag_hint(s->diags, "a head of column names must be left out; npy data begins with \\x93NUMPY");
		return STATUS_DATA;
	}
	if (s->count == s->capacity) {
		size_t next = s->capacity ? 2 * s->capacity : 1024;
		const struct allocator *a = s->reader->arena->allocator;
		double *grown = a->resize(a->context, s->values, s->capacity * sizeof *grown, next * sizeof *grown);
		if (!grown)
			return diag_memory(s->diags);
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
	const char *text = s->source.text;
	enum status status = STATUS_OK;
	bool comma = true; /* a number is wanted before the next comma */
	size_t i = s->source.length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
	while (i < s->source.length && !status) {
		char c = text[i];
		if (c == '\n') {
			if (comma && s->in_row)
				return diag_at(s->diags, STATUS_DATA, &s->source, place(s, i, i + 1), "a row ends in a comma");
			status = end_row(s, i);
			comma = true;
			s->line++;
			i++;
		} else if (c == ',') {
			if (comma)
				return diag_at(s->diags, STATUS_DATA, &s->source, place(s, i, i + 1), "an empty field");
			comma = true;
			i++;
		} else if (strchr(" \t\r\f\v", c) && c) {
			i++;
		} else {
			status = add_number(s, &i);
			comma = false;
		}
	}
	if (!status && comma && s->in_row)
		return diag_at(s->diags, STATUS_DATA, &s->source, place(s, i, i), "a row ends in a comma");
	return status ? status : end_row(s, s->source.length);
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
	/* Messages show the text, so it lives as long as they do where there are any. */
	struct source *source = arena_alloc(r->arena, sizeof *source);
	struct scan s = {.reader = r, .line = 1, .diags = diags};
	if (!status && !source)
		status = diag_memory(diags);
	if (!status && length > UINT32_MAX)
		status = diag_file(diags, STATUS_LIMIT, r->input->name, -1, "more than 4 GiB of text; npy has no such limit");
	if (!status) {
		s.source = (struct source){r->input->name, text, length};
		int before = diags->errors;
		status = scan_text(&s);
		if (diags->errors > before && diags->last && diags->last->source == &s.source) {
			/* Only the line of the place is kept. */
			size_t n;
			const char *line = source_line(&s.source, diags->last->caret.begin, &n);
			char *copy = arena_strndup(r->arena, line, n);
			uint32_t shift = (uint32_t)(line - text);
			*source = (struct source){r->input->name, copy ? copy : "", copy ? n : 0};
			diags->last->source = source;
			diags->last->caret.begin -= shift;
			diags->last->caret.end -= shift;
		}
	}
	if (text)
		allocator_put(r->arena->allocator, text, capacity);
	if (!status && s.count == 0)
		status = data_error(r, -1, "no numbers", diags);
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
	r->index++;
	return STATUS_OK;
}

/* Blocks of file values to computing values. */

static void swap_bytes(void *data, size_t size, size_t count)
{
	unsigned char *p = data;
	for (size_t i = 0; i < count; i++, p += size)
		for (size_t k = 0; k < size / 2; k++) {
			unsigned char t = p[k];
			p[k] = p[size - 1 - k];
			p[size - 1 - k] = t;
		}
}

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
		if (status)
			return status;
		if (got < n * size)
			return truncated(r, r->done * (int64_t)size + (int64_t)got, diags);
		if (r->swap)
			swap_bytes(block, size, n);
		status = check_integers(r, block, r->done, n, diags);
		if (status)
			return status;
		convert_block(to, compute, block, r->type.dtype, n);
		to = (char *)to + n * width;
		r->done += (int64_t)n;
		count -= (int64_t)n;
	}
	return STATUS_OK;
}

/* Fortran order: the whole array, transposed into r->held. */
static void transpose_held(const struct reader *r, const double *from, double *to)
{
	const struct shape *shape = &r->type.shape;
	int64_t stride[MAX_DIMS], index[MAX_DIMS] = {0}, step = 1, at = 0;
	for (int i = 0; i < shape->ndim; i++) {
		stride[i] = step;
		step *= shape->dim[i];
	}
	for (int64_t n = 0; n < r->count; n++) {
		to[n] = from[at];
		for (int i = shape->ndim - 1; i >= 0; i--) {
			at += stride[i];
			if (++index[i] < shape->dim[i])
				break;
			at -= stride[i] * shape->dim[i];
			index[i] = 0;
		}
	}
}

static enum status hold_fortran(struct reader *r, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	size_t size = (size_t)r->count * sizeof(double);
	double *from = allocator_get(a, (size_t)r->count, sizeof *from),
		   *to = allocator_get(a, (size_t)r->count, sizeof *to);
	enum status status = from && to ? STATUS_OK : diag_memory(diags);
	if (!status)
		status = read_stream(r, from, DTYPE_F64, r->count, diags);
	if (!status)
		transpose_held(r, from, to);
	if (from)
		allocator_put(a, from, size ? size : 1);
	if (status) {
		if (to)
			allocator_put(a, to, size ? size : 1);
		return status;
	}
	r->held = to;
	r->held_size = size ? size : 1;
	r->held_dtype = DTYPE_F64;
	r->done = 0;
	return STATUS_OK;
}

/* Headers. */

static void begin_array(struct reader *r)
{
	r->count = shape_count(&r->type.shape);
	r->done = 0;
	r->data = r->input->offset;
	r->direct =
		!r->swap && !r->fortran && little_endian() && (r->type.dtype == DTYPE_F32 || r->type.dtype == DTYPE_F64);
	r->index++;
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
	r->swap = little_endian() ? header.swap : !header.swap;
	r->fortran = false;
	int wide = 0;
	for (int i = 0; i < r->type.shape.ndim; i++)
		wide += r->type.shape.dim[i] != 1;
	r->fortran = header.fortran && wide > 1 && shape_count(&r->type.shape) > 0;
	begin_array(r);
	r->layout = LAYOUT_ROWS;
	return r->fortran ? hold_fortran(r, diags) : STATUS_OK;
}

static enum status next_raw(struct reader *r, bool *end, struct diags *diags)
{
	const unsigned char *bytes;
	size_t got;
	enum status status = input_peek(r->input, 1, &bytes, &got, diags);
	if (status)
		return status;
	if (got == 0) {
		*end = true;
		return r->index > 0 ? STATUS_OK : data_error(r, 0, "no data", diags);
	}
	bool shaped = r->options.raw.shape.ndim >= 0;
	r->type = (struct type){.dtype = r->options.assume != DTYPE_COUNT ? r->options.assume
	                                 : shaped                         ? r->options.raw.dtype
	                                                                  : DTYPE_F32};
	size_t size = dtype_size(r->type.dtype);
	r->layout = LAYOUT_ROWS;
	if (shaped) {
		r->type.shape = r->options.raw.shape;
		begin_array(r);
		return STATUS_OK;
	}
	if (r->input->size >= 0) {
		int64_t left = r->input->size - r->input->offset;
		if (left % (int64_t)size)
			return diag_file(diags, STATUS_DATA, r->input->name, -1, "%lld bytes are no whole number of %s",
			                 (long long)left, dtype_name(r->type.dtype));
		r->type.shape = (struct shape){.ndim = 1, .dim = {left / (int64_t)size}};
		begin_array(r);
		return STATUS_OK;
	}
	/* A pipe: its length is known at its end. */
	char *text = NULL;
	size_t length = 0, capacity = 0;
	status = read_all(r, &text, &length, &capacity, diags);
	if (!status && length % size)
		status = diag_file(diags, STATUS_DATA, r->input->name, -1, "%zu bytes are no whole number of %s", length,
		                   dtype_name(r->type.dtype));
	double *held = status ? NULL : allocator_get(r->arena->allocator, length / size + 1, sizeof *held);
	if (!status && !held)
		status = diag_memory(diags);
	if (!status) {
		r->type.shape = (struct shape){.ndim = 1, .dim = {(int64_t)(length / size)}};
		begin_array(r);
		status = check_integers(r, text, 0, length / size, diags);
		convert_block(held, DTYPE_F64, text, r->type.dtype, length / size);
		r->held = held;
		r->held_size = (length / size + 1) * sizeof *held;
		r->held_dtype = DTYPE_F64;
	}
	if (text)
		allocator_put(r->arena->allocator, text, capacity);
	return status;
}

enum status reader_next(struct reader *r, bool *end, struct diags *diags)
{
	*end = false;
	reader_free(r);
	if (r->format == FORMAT_AUTO) {
		const unsigned char *bytes;
		size_t got;
		enum status status = input_peek(r->input, NPY_MAGIC, &bytes, &got, diags);
		if (status)
			return status;
		r->format = got && bytes[0] == 0x93 ? FORMAT_NPY : FORMAT_TEXT;
	}
	switch (r->format) {
	case FORMAT_NPY:
		return next_npy(r, end, diags);
	case FORMAT_RAW:
		return next_raw(r, end, diags);
	default:
		return next_text(r, end, diags);
	}
}

static void copy_held(const struct reader *r, int64_t first, void *to, enum dtype compute, int64_t count)
{
	const double *from = (const double *)r->held + first;
	if (compute == DTYPE_F64)
		memcpy(to, from, (size_t)count * sizeof *from);
	else
		for (int64_t i = 0; i < count; i++)
			((float *)to)[i] = (float)from[i];
}

enum status reader_read(struct reader *r, void *to, enum dtype compute, int64_t count, struct diags *diags)
{
	if (!r->held)
		return read_stream(r, to, compute, count, diags);
	copy_held(r, r->done, to, compute, count);
	r->done += count;
	return STATUS_OK;
}

bool reader_seekable(const struct reader *r)
{
	/* A file that is being written to by somebody else ends where it ended when it was opened. */
	return !r->held && r->input->size >= 0 && r->input->begin == r->input->end;
}

enum status reader_read_at(const struct reader *r, int64_t first, void *to, enum dtype compute, int64_t count,
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
		if (status)
			return status;
		if (r->swap)
			swap_bytes(block, size, n);
		status = check_integers(r, block, first + done, n, diags);
		if (status)
			return status;
		convert_block((char *)to + (size_t)done * width, compute, block, r->type.dtype, n);
		done += (int64_t)n;
	}
	return STATUS_OK;
}

enum status reader_skip(struct reader *r, struct diags *diags)
{
	if (r->held) {
		r->done = r->count;
		return STATUS_OK;
	}
	int64_t left = (r->count - r->done) * (int64_t)dtype_size(r->type.dtype);
	if (r->input->size >= 0 && r->input->begin == r->input->end) {
		int64_t have = r->input->size - r->input->offset;
		if (have < left)
			return truncated(r, r->done * (int64_t)dtype_size(r->type.dtype) + have, diags);
		if (lseek(r->input->fd, r->input->base + r->input->offset + left, SEEK_SET) < 0)
			return diag_file(diags, STATUS_IO, r->input->name, r->input->offset, "cannot seek");
		r->input->offset += left;
		r->done = r->count;
		return STATUS_OK;
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
