/*
 * The reader. npy and raw values are streamed. Text, csv and arrays in Fortran order are
 * held whole: their shape is known, or their first row complete, only at the end.
 */
#include "io/npy.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "io/scan.h"

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

/* Reads to the end of the stream. *TEXT is of *CAPACITY bytes, also where that fails. */
static enum status read_to_end(struct reader *r, char **text, size_t *length, size_t *capacity, struct diags *diags)
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
			status = scan_begin(r, data, used, diags);
		if (status)
			break;
		char *grown = a->resize(a->context, data, size, 2 * size);
		if (!grown) {
			status = scan_out_of_memory(r->input, used, diags);
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
	enum status status = read_to_end(r, &text, &length, &capacity, diags);
	struct numbers s = {0};
	if (!status)
		status = scan_text(r, text, length, &s, diags);
	allocator_put(r->arena->allocator, text, capacity);
	if (status)
		return status;
	if (s.count == 0)
		return data_error(r, (int64_t)length, "no numbers", diags);
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

/* The index of the first of COUNT integers that a double does not hold, or -1. */
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

/* As convert_from_file. Where the values are declared to be halves, the floats are made so that they round once. */
static void convert_declared(const struct reader *r, void *to, enum dtype compute, const void *from, enum dtype dtype,
                             size_t count)
{
	enum { PIECE = 512 };
	double wide[PIECE];
	const bool exact = dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
	if (compute == DTYPE_F64 || exact || (r->declared != DTYPE_F16 && r->declared != DTYPE_BF16)) {
		convert_from_file(to, compute, from, dtype, count);
		return;
	}
	for (size_t done = 0; done < count; done += PIECE) {
		const size_t n = count - done < PIECE ? count - done : PIECE;
		convert_from_file(wide, DTYPE_F64, (const char *)from + done * dtype_size(dtype), dtype, n);
		convert_f64_to_f32_odd((float *)to + done, wide, n);
	}
}

/* A read of the COUNT elements from FIRST on, as COMPUTE, to TO. */
struct request {
	int64_t first, count;
	void *to;
	enum dtype compute;
};

/* Reads SIZE bytes of the array's values: the next of the stream if IN_ORDER, else those from byte BEGIN on. */
static enum status read_values_as_bytes(const struct reader *r, bool in_order, int64_t begin, void *to, size_t size,
                                        struct diags *diags)
{
	size_t got = 0;
	const enum status status = in_order ? input_read(r->input, to, size, &got, diags)
	                                    : input_read_at(r->input, r->data + begin, to, size, &got, diags);
	return !status && got < size ? truncated(r, begin + (int64_t)got, diags) : status;
}

static enum status read_elements(const struct reader *r, bool in_order, const struct request *request,
                                 struct diags *diags)
{
	const enum dtype dtype = r->type.dtype, compute = request->compute;
	const int64_t size = (int64_t)dtype_size(dtype);
	if (r->direct && dtype == compute)
		return read_values_as_bytes(r, in_order, request->first * size, request->to, (size_t)(request->count * size),
		                            diags);
	_Alignas(64) unsigned char block[BLOCK];
	for (int64_t done = 0; done < request->count;) {
		const int64_t left = request->count - done, n = left < BLOCK / size ? left : BLOCK / size;
		const int64_t first = request->first + done;
		enum status status = read_values_as_bytes(r, in_order, first * size, block, (size_t)(n * size), diags);
		if (!status && r->swap)
			convert_swap(block, (size_t)size, (size_t)n);
		if (!status)
			status = check_integers(r, block, first, (size_t)n, diags);
		if (status)
			return status;
		convert_declared(r, (char *)request->to + (size_t)done * dtype_size(compute), compute, block, dtype, (size_t)n);
		done += n;
	}
	return STATUS_OK;
}

/* Arrays in Fortran order are held whole, and transposed. */
static enum status hold_fortran(struct reader *r, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	size_t size = dtype_size(r->type.dtype), bytes = (size_t)r->count * size, got = 0;
	/* Memory is allocated only for what the file can fill. */
	const int64_t left = input_limit(r->input) - r->data;
	if (left < (int64_t)bytes)
		return truncated(r, left, diags);
	char *from = allocator_get(a, bytes, 1), *to = allocator_get(a, bytes, 1);
	enum status status = from && to ? input_read(r->input, from, bytes, &got, diags) : diag_memory(diags);
	if (!status && got < bytes)
		status = truncated(r, (int64_t)got, diags);
	if (!status) {
		npy_transpose(&r->type.shape, size, from, to);
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
	TRY(input_peek(r->input, NPY_MAGIC, &bytes, &got, diags));
	if (got == 0 && r->index > 0) {
		*end = true;
		return STATUS_OK;
	}
	if (got == 0)
		return data_error(r, 0, "no data", diags);
	if (r->index > 0 && !npy_is(bytes, got))
		return data_error(r, r->input->offset, "trailing bytes after the array are not another npy array", diags);
	struct npy_header header;
	TRY(npy_read_header(r->input, r->options.assume, &header, diags));
	r->type = header.type;
	r->assumed |= header.void2;
	r->swap = convert_little_endian() ? header.swap : !header.swap;
	r->fortran = header.fortran && npy_order_matters(&r->type.shape);
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

/* Raw values of a pipe are held whole, since only its end gives their number. */
static enum status hold_raw(struct reader *r, struct diags *diags)
{
	char *data = NULL;
	size_t length = 0, capacity = 0, size = dtype_size(r->type.dtype);
	enum status status = read_to_end(r, &data, &length, &capacity, diags);
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
	TRY(input_peek(r->input, 1, &bytes, &got, diags));
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
	if (!shaped && r->input->size <= r->input->offset) /* a pipe, or a file of /proc, whose size says nothing */
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

/* Compares the array with the type that --shape gives; of text, whose numbers have no type, only the shape. */
static enum status check_type(const struct reader *r, struct diags *diags)
{
	const struct type *wanted = &r->options.raw;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (shape_equal(&r->type.shape, &wanted->shape) && (r->format != FORMAT_NPY || r->type.dtype == wanted->dtype))
		return STATUS_OK;
	return diag_file(diags, STATUS_DATA, r->input->name, -1, "holds %s, but --shape is %s", type_format(&r->type, a),
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

static enum status begin_next(struct reader *r, bool *end, struct diags *diags)
{
	TRY(reader_find_format(r, diags));
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
	enum status status = begin_next(r, end, diags);
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
	enum status status = STATUS_OK;
	if (r->held)
		copy_held(r, r->done, to, compute, count);
	else
		status = read_elements(r, true, &(struct request){r->done, count, to, compute}, diags);
	r->done += count;
	return status;
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
	/* A file that another program appends to ends where it ended when it was opened. */
	return !r->held && !r->fortran && r->input->size >= 0;
}

enum status reader_read_at(const struct reader *r, int64_t first, void *to, enum dtype compute, int64_t count,
                           struct diags *diags)
{
	enum status status = STATUS_OK;
	if (r->held)
		copy_held(r, first, to, compute, count);
	else
		status = read_elements(r, false, &(struct request){first, count, to, compute}, diags);
	if (status == STATUS_OK)
		round_values(r, to, compute, count);
	return status;
}

/* Seeks over BYTES of a file; the look-ahead is dropped, and read again if it lies behind them. */
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
		TRY(input_read(r->input, block, n, &got, diags));
		if (got < n)
			return truncated(r, r->count * (int64_t)dtype_size(r->type.dtype) - left + (int64_t)got, diags);
		left -= (int64_t)n;
	}
	r->done = r->count;
	return STATUS_OK;
}
