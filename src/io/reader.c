/*
 * The reader. It streams npy and raw values, and text and csv by io/read_text.c. Raw values of unknown number and arrays
 * in Fortran order are held whole: only at the end is their shape known, or their first row complete.
 * Tests: tests/unit/test_npy.c, tests/unit/test_text.c
 */
#include "io/foreign.h"
#include "io/formats.h"
#include "io/table.h"

#include <string.h>

enum { BLOCK = 64 << 10, TABLE_LOOK = 64 << 10 };

/* True if the caller keeps the array in memory. */
static bool is_lent(const struct reader *r) { return r->format == FORMAT_MEMORY || r->options.memory; }

void reader_init(struct reader *reader, struct input *input, const struct reader_options *options, struct arena *arena)
{
	*reader = (struct reader){.input = input,
	                          .options = *options,
	                          .arena = arena,
	                          .format = options->format,
	                          .declared = DTYPE_COUNT,
	                          .copy = {.fd = -1}};
}

void reader_free(struct reader *reader)
{
	if (reader->held && !is_lent(reader))
		allocator_put(reader->arena->allocator, reader->held, reader->held_size);
	reader->held = NULL;
	reader->held_size = 0;
	text_close(reader);
	columns_close(reader);
	input_copy_close(&reader->copy);
}

static enum status data_error(const struct reader *r, int64_t offset, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_DATA, r->input->name, offset, "%s", what);
}

/* True if columns of an npy array are chosen. */
static bool picks_columns(const struct reader *r) { return r->format == FORMAT_NPY && r->options.columns; }

static void begin_array(struct reader *r)
{
	r->count = shape_count(&r->type.shape);
	if (!picks_columns(r))
		r->stored = r->count;
	r->done = 0;
	r->data = r->input->offset;
	r->direct = !r->swap && !r->fortran && convert_little_endian() && !picks_columns(r) &&
	            (r->type.dtype == DTYPE_F32 || r->type.dtype == DTYPE_F64);
	r->index++;
}

enum status reader_begin_at(struct reader *reader, const struct type *type, int64_t data, struct diags *diags)
{
	TRY(input_seek(reader->input, data, diags));
	reader->type = *type;
	reader->swap = !convert_little_endian() && dtype_size(type->dtype) > 1;
	begin_array(reader);
	return STATUS_OK;
}

/* Reads the bytes to the end of the stream to r->held. *LENGTH counts them. */
static enum status hold_stream(struct reader *r, size_t *length, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	*length = 0;
	for (size_t size = BLOCK, got;; size *= 2) {
		void *grown = a->resize(a->context, r->held, r->held_size, size);
		if (!grown)
			return scan_out_of_memory(r->input, *length, diags);
		r->held = grown;
		r->held_size = size;
		TRY(input_read(r->input, (char *)r->held + *length, size - *length, &got, diags));
		*length += got;
		if (*length < size)
			return STATUS_OK;
	}
}

static enum status next_text(struct reader *r, bool *end, struct diags *diags)
{
	*end = r->index > 0;
	if (*end)
		return STATUS_OK;
	TRY(text_begin(r, diags));
	begin_array(r);
	return STATUS_OK;
}

/* Refuses an integer beyond 2^53 unless --cast is given. FROM holds COUNT elements from element FIRST on. */
static enum status check_integers(const struct reader *r, const void *from, int64_t first, size_t count,
                                  struct diags *diags)
{
	const enum dtype dtype = r->type.dtype;
	if (r->options.cast || (dtype != DTYPE_I64 && dtype != DTYPE_U64))
		return STATUS_OK;
	size_t i = 0;
	for (; i < count; i++) {
		const uint64_t bits = ((const uint64_t *)from)[i], size = dtype == DTYPE_I64 && bits >> 63 ? -bits : bits;
		if (size > UINT64_C(1) << 53)
			break;
	}
	if (i == count)
		return STATUS_OK;
	const int64_t at = first + (int64_t)i;
	diag_file(diags, STATUS_DATA, r->input->name, r->data + 8 * at,
	          "element %lld is an integer beyond 2^53, which f64 does not hold", (long long)at);
	return diag_hint(diags, diags->library ? "round it to f64 before" : "--cast lets it be rounded");
}

static enum status truncated(const struct reader *r, int64_t have, struct diags *diags)
{
	int64_t want = r->stored * (int64_t)dtype_size(r->type.dtype);
	return diag_file(diags, STATUS_DATA, r->input->name, r->data + have, "truncated: %lld of %lld bytes of array data",
	                 (long long)have, (long long)want);
}

/* As convert_from_file, but wider values that are declared halves become floats rounded to odd, to round only once. */
static void convert_declared(const struct reader *r, void *to, enum dtype compute, const void *from, size_t count)
{
	enum { PIECE = 512 };
	double wide[PIECE];
	const enum dtype dtype = r->type.dtype;
	if (compute == DTYPE_F64 || dtype <= DTYPE_F32 || r->declared >= DTYPE_F32) {
		convert_from_file(to, compute, from, dtype, count);
		return;
	}
	for (size_t done = 0; done < count; done += PIECE) {
		const size_t n = count - done < PIECE ? count - done : PIECE;
		convert_from_file(wide, DTYPE_F64, (const char *)from + done * dtype_size(dtype), dtype, n);
		convert_f64_to_f32_odd((float *)to + done, wide, n);
	}
}

/* Reads SIZE bytes of the array's values to TO: the next of the stream if IN_ORDER, else those from byte BEGIN on. */
static enum status read_values_as_bytes(const struct reader *r, bool in_order, int64_t begin, void *to, size_t size,
                                        struct diags *diags)
{
	size_t got = 0;
	const int64_t each = (int64_t)dtype_size(r->type.dtype);
	if (picks_columns(r))
		return in_order ? columns_read(r, begin / each, (int64_t)size / each, to, diags)
		                : columns_read_at(r, begin / each, (int64_t)size / each, to, diags);
	if (r->text)
		return size ? text_read(r, begin / (int64_t)sizeof(double), to, size / sizeof(double), diags) : STATUS_OK;
	TRY(in_order ? input_read(r->input, to, size, &got, diags)
	             : input_read_at(r->input, r->data + begin, to, size, &got, diags));
	return got < size ? truncated(r, begin + (int64_t)got, diags) : STATUS_OK;
}

/* A read of the COUNT elements from FIRST on, as COMPUTE, to TO. IN_ORDER: they are the next of the stream. */
struct request {
	int64_t first, count;
	void *to;
	enum dtype compute;
	bool in_order;
};

static enum status read_elements(const struct reader *r, const struct request *q, struct diags *diags)
{
	const enum dtype dtype = r->type.dtype;
	const int64_t size = (int64_t)dtype_size(dtype), width = (int64_t)dtype_size(q->compute);
	_Alignas(64) unsigned char block[BLOCK];
	if (is_lent(r))
		TRY(check_integers(r, (const char *)r->held + q->first * size, q->first, (size_t)q->count, diags));
	if (r->held)
		convert_declared(r, q->to, q->compute, (const char *)r->held + q->first * size, (size_t)q->count);
	else if (r->direct && dtype == q->compute)
		TRY(read_values_as_bytes(r, q->in_order, q->first * size, q->to, (size_t)(q->count * size), diags));
	else
		for (int64_t done = 0, n; done < q->count; done += n) {
			const int64_t left = q->count - done, first = q->first + done;
			n = left < BLOCK / size ? left : BLOCK / size;
			TRY(read_values_as_bytes(r, q->in_order, first * size, block, (size_t)(n * size), diags));
			if (r->swap)
				convert_swap(block, (size_t)size, (size_t)n);
			TRY(check_integers(r, block, first, (size_t)n, diags));
			convert_declared(r, (char *)q->to + done * width, q->compute, block, (size_t)n);
		}
	if (r->declared != DTYPE_COUNT && r->declared != dtype)
		values_round(q->to, q->compute, (size_t)q->count, r->declared);
	return STATUS_OK;
}

enum status reader_check_size(const struct reader *r, struct diags *diags)
{
	const struct input *input = r->input;
	const int64_t limit = input->pull ? input->limit : input->size >= 0 ? input->size : INT64_MAX;
	const int64_t left = limit - r->data, want = r->stored * (int64_t)dtype_size(r->type.dtype);
	return !r->held && !r->text && left < want ? truncated(r, left, diags) : STATUS_OK;
}

/* Reads a whole array in Fortran order, and holds it in C order, or its chosen columns. */
static enum status hold_fortran(struct reader *r, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	const size_t size = dtype_size(r->type.dtype), bytes = (size_t)r->stored * size;
	struct shape shape = r->type.shape;
	size_t got = 0;
	TRY(reader_check_size(r, diags));
	char *from = allocator_get(a, bytes, 1), *held = allocator_get(a, bytes, 1);
	enum status status = from && held ? input_read(r->input, from, bytes, &got, diags) : diag_memory(diags);
	if (!status && got < bytes)
		status = truncated(r, (int64_t)got, diags);
	if (picks_columns(r))
		shape.dim[shape.ndim - 1] = r->table->fields;
	if (!status)
		npy_transpose(&shape, size, from, held);
	if (!status && picks_columns(r)) {
		char *const all = held;
		columns_gather(r, all, 0, r->count, from);
		held = from;
		from = all;
	}
	if (!status) {
		if (r->swap)
			convert_swap(held, size, (size_t)r->count);
		status = check_integers(r, held, 0, (size_t)r->count, diags);
	}
	r->held = held;
	r->held_size = bytes;
	allocator_put(a, from, bytes);
	return status;
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
	r->stored = shape_count(&r->type.shape);
	if (r->options.columns)
		TRY(columns_begin(r, diags));
	if (r->options.columns && !r->picked)
		TRY_ALLOC(r->picked = arena_alloc(r->arena, sizeof *r->picked), diags);
	begin_array(r);
	r->layout = LAYOUT_ROWS;
	r->held_size = r->fortran ? (size_t)r->stored * dtype_size(r->type.dtype) : 0;
	return STATUS_OK;
}

static enum status next_raw(struct reader *r, bool *end, struct diags *diags)
{
	const struct type *raw = &r->options.raw;
	const bool shaped = raw->shape.ndim >= 0, empty = shaped && shape_count(&raw->shape) == 0;
	const unsigned char *bytes;
	size_t got, length = 0;
	TRY(input_peek(r->input, 1, &bytes, &got, diags));
	if (got == 0 && !(empty && r->index == 0)) {
		*end = true;
		return r->index > 0 ? STATUS_OK : data_error(r, 0, "no data", diags);
	}
	if (got > 0 && empty)
		return data_error(r, r->input->offset, "trailing bytes after an array without elements", diags);
	const enum dtype given = shaped ? raw->dtype : DTYPE_F32;
	const enum dtype dtype = r->options.assume != DTYPE_COUNT ? r->options.assume : given;
	const int64_t size = (int64_t)dtype_size(dtype);
	int64_t left = r->input->size - r->input->offset;
	/* The end of a pipe, or of a file of /proc, whose size says nothing, gives the number of values. */
	const bool whole = !shaped && left <= 0;
	r->assumed = true;
	r->layout = LAYOUT_ROWS;
	r->swap = !convert_little_endian() && size > 1;
	if (whole) {
		TRY(hold_stream(r, &length, diags));
		left = (int64_t)length;
	}
	if (!shaped && left % size)
		return diag_file(diags, STATUS_DATA, r->input->name, left, "%lld bytes are no whole number of %s",
		                 (long long)left, dtype_name(dtype));
	r->type = (struct type){dtype, shaped ? raw->shape : (struct shape){1, {left / size}}};
	begin_array(r);
	if (!whole)
		return STATUS_OK;
	r->data = 0;
	if (r->swap)
		convert_swap(r->held, (size_t)size, (size_t)r->count);
	return check_integers(r, r->held, 0, (size_t)r->count, diags);
}

static enum status next_memory(struct reader *r, bool *end, struct diags *diags)
{
	(void)diags;
	*end = r->index > 0;
	if (*end)
		return STATUS_OK;
	r->type = r->options.raw;
	r->layout = LAYOUT_ROWS;
	r->held = (void *)(uintptr_t)r->options.memory; /* only read */
	begin_array(r);
	return STATUS_OK;
}

static enum status next_member(struct reader *r, bool *end, struct diags *diags)
{
	if (r->options.memory)
		return next_memory(r, end, diags);
	*end = r->index > 0;
	if (*end)
		return STATUS_OK;
	r->layout = LAYOUT_ROWS;
	return reader_begin_at(r, &r->options.raw, r->options.values_at, diags);
}

/* Looks at the first lines of a text. They may show that it is csv. */
static enum status look_at_text(struct reader *r, struct diags *diags)
{
	const unsigned char *bytes;
	size_t got;
	const bool csv = r->format == FORMAT_CSV || (r->format == FORMAT_AUTO && table_names_csv(r->input->name));
	TRY(input_peek(r->input, TABLE_LOOK, &bytes, &got, diags));
	TRY_ALLOC(r->table = arena_alloc(r->arena, sizeof *r->table), diags);
	r->table->strict = csv;
	r->table->tabs = table_names_tabs(r->input->name);
	r->table->delimiter = r->options.delimiter;
	table_look(r->table, (const char *)bytes, got, got < TABLE_LOOK);
	if (r->format == FORMAT_AUTO)
		r->format = csv || r->table->header ? FORMAT_CSV : FORMAT_TEXT;
	return STATUS_OK;
}

enum status reader_find_format(struct reader *r, struct diags *diags)
{
	const unsigned char *bytes;
	size_t got;
	if (r->begun || r->format >= FORMAT_RAW)
		return STATUS_OK;
	r->begun = true;
	TRY(input_peek(r->input, NPY_MAGIC, &bytes, &got, diags));
	if (got &&
	    (bytes[0] == 0x89 || memchr(bytes, 0, got))) /* a terminal's first lines may be shorter than more bytes */
		TRY(input_peek(r->input, FOREIGN_BYTES, &bytes, &got, diags));
	const bool npy = r->format == FORMAT_NPY || (r->format == FORMAT_AUTO && got && bytes[0] == 0x93);
	TRY(foreign_refuse(r->input, bytes, got, diags));
	if (!npy)
		return look_at_text(r, diags);
	r->format = FORMAT_NPY;
	return STATUS_OK;
}

/* Refuses options that are for tables if the input is none. */
static enum status check_table_options(const struct reader *r, struct diags *diags)
{
	static const char *const names[] = {
		[FORMAT_NPY] = "npy", [FORMAT_RAW] = "raw data", [FORMAT_MEMBER] = "a member of an archive"};
	const char *what = r->format < FORMAT_MEMBER + 1 ? names[r->format] : NULL;
	if (what && r->options.delimiter)
		return diag_file(diags, STATUS_USAGE, r->input->name, -1, "--delimiter is for text and csv, and this is %s",
		                 what);
	if (what && r->options.columns && r->format != FORMAT_NPY)
		return diag_file(diags, STATUS_USAGE, r->input->name, -1, "--columns is for text, csv and npy, and this is %s",
		                 what);
	return STATUS_OK;
}

enum status reader_next(struct reader *r, bool *end, struct diags *diags)
{
	*end = false;
	reader_free(r);
	TRY(reader_find_format(r, diags));
	TRY(check_table_options(r, diags));
	enum status (*const next[])(struct reader *, bool *, struct diags *) = {
		[FORMAT_NPY] = next_npy, [FORMAT_TEXT] = next_text,     [FORMAT_CSV] = next_text,
		[FORMAT_RAW] = next_raw, [FORMAT_MEMORY] = next_memory, [FORMAT_MEMBER] = next_member};
	TRY(next[r->format](r, end, diags));
	/* The array must have the type that --shape gives; for text, whose numbers have no dtype, only its shape. */
	const struct type *have = &r->type, *wanted = &r->options.raw;
	if (*end || !r->options.typed || r->format == FORMAT_RAW ||
	    (shape_equal(&have->shape, &wanted->shape) && (r->format != FORMAT_NPY || have->dtype == wanted->dtype)))
		return STATUS_OK;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	return diag_file(diags, STATUS_DATA, r->input->name, -1, "holds %s, but --shape is %s", type_format(have, a),
	                 type_format(wanted, b));
}

enum status reader_read(struct reader *r, void *to, enum dtype compute, int64_t count, struct diags *diags)
{
	if (count > 0 && r->fortran && !r->held)
		TRY(hold_fortran(r, diags));
	const struct request next = {r->done, count, to, compute, true};
	r->done += count;
	return read_elements(r, &next, diags);
}

bool reader_seekable(const struct reader *r)
{
	/* If another program appends to the file, its end stays where it was when it was opened. */
	return is_lent(r) || (!r->held && !r->fortran && r->input->size >= 0);
}

bool reader_is_last(const struct reader *r)
{
	const int64_t bytes = r->stored * (int64_t)dtype_size(r->type.dtype);
	if (r->format == FORMAT_MEMBER)
		return true;
	return r->format == FORMAT_NPY && r->input->size >= 0 && r->input->size - r->data <= bytes;
}

bool reader_rereadable(const struct reader *r) { return r->held || r->fortran || reader_seekable(r); }

enum status reader_read_at(const struct reader *r, int64_t first, void *to, enum dtype compute, int64_t count,
                           struct diags *diags)
{
	return read_elements(r, &(struct request){first, count, to, compute, false}, diags);
}

size_t reader_memory(const struct reader *r, int readers)
{
	return r->held_size + (r->text ? (size_t)readers * scan_memory() : 0);
}

/* Reads SIZE bytes, from byte AT of the array on, to BLOCK. */
static enum status skip_bytes(const struct reader *r, int64_t at, char *block, size_t size, struct diags *diags)
{
	size_t got;
	TRY(input_read(r->input, block, size, &got, diags));
	return got < size ? truncated(r, at + (int64_t)got, diags) : STATUS_OK;
}

enum status reader_skip(struct reader *r, struct diags *diags)
{
	const int64_t size = (int64_t)dtype_size(r->type.dtype), begin = r->done * size;
	struct input *input = r->input;
	int64_t left = r->held ? 0 : picks_columns(r) ? columns_left(r) : r->count * size - begin;
	if (r->text) /* what has not been read may hold other words than numbers */
		left = (r->count - r->text->far) * size;
	else if (left > 0 && input->size >= 0) {
		const int64_t have = input->size - input->offset;
		if (have < left)
			return truncated(r, r->stored * size - left + (have > 0 ? have : 0), diags);
		TRY(input_seek(input, input->offset + left, diags));
		left = 0;
	}
	_Alignas(8) char block[4096];
	while (left > 0) {
		const size_t n = left < (int64_t)sizeof block ? (size_t)left : sizeof block;
		TRY(r->text ? read_values_as_bytes(r, true, r->count * size - left, block, n, diags)
		            : skip_bytes(r, r->stored * size - left, block, n, diags));
		left -= (int64_t)n;
	}
	r->done = r->count;
	return STATUS_OK;
}
