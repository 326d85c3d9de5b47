/*
 * The writer. It streams npy and raw, formats text and csv in blocks, and holds an array for a terminal whole.
 * Tests: tests/unit/test_npy.c, tests/unit/test_text.c
 */
#include "io/formats.h"
#include "io/table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BLOCK = 64 << 10, VALUE_BLOCK = 8 << 10, NUMBER = 40 };

void writer_init(struct writer *writer, struct output *output, const struct writer_options *options,
                 struct arena *arena)
{
	*writer = (struct writer){.output = output, .options = *options, .arena = arena};
}

void writer_free(struct writer *writer)
{
	if (writer->held)
		allocator_put(writer->arena->allocator, writer->held, (size_t)writer->count * sizeof(double) + 1);
	writer->held = NULL;
}

/* Writes the first LENGTH bytes of the text that is held. */
static enum status write_held_text(struct writer *w, size_t length, struct diags *diags)
{
	if (length == 0)
		return STATUS_OK;
	enum status status = output_write(w->output, w->text, length, diags);
	w->text_used -= length;
	memmove(w->text, w->text + length, w->text_used);
	return status;
}

/*
 * Makes space for LENGTH bytes of text. Deferred text grows. Other text is written up to its last whole line, if it has
 * one, since other writers may put lines between.
 */
static enum status reserve_text(struct writer *w, size_t length, struct diags *diags)
{
	if (!w->text) {
		w->text = arena_alloc(w->arena, TEXT_BLOCK);
		TRY_ALLOC(w->text, diags);
		w->text_size = TEXT_BLOCK;
	}
	while (w->options.deferred && w->text_used + length > w->text_size) {
		char *grown = arena_grow(w->arena, w->text, w->text_size, &w->text_size, 1);
		TRY_ALLOC(grown, diags);
		w->text = grown;
	}
	if (w->text_used + length <= w->text_size)
		return STATUS_OK;
	if (length > w->text_size) { /* a long name */
		TRY(write_held_text(w, w->text_used, diags));
		char *longer = arena_alloc(w->arena, length);
		TRY_ALLOC(longer, diags);
		w->text = longer;
		w->text_size = length;
		return STATUS_OK;
	}
	const char *line = memrchr(w->text, '\n', w->text_used);
	enum status status = write_held_text(w, line ? (size_t)(line - w->text) + 1 : w->text_used, diags);
	return status || w->text_used + length <= w->text_size ? status : write_held_text(w, w->text_used, diags);
}

enum status writer_put_text(struct writer *w, const char *text, struct diags *diags)
{
	const size_t length = strlen(text);
	TRY(reserve_text(w, length, diags));
	memcpy(w->text + w->text_used, text, length);
	w->text_used += length;
	return STATUS_OK;
}

/* Finds the place in memory of the array that begins. */
static enum status begin_memory(struct writer *w, struct diags *diags)
{
	struct kept_array *kept = w->options.memory;
	const size_t size = (size_t)w->count * dtype_size(w->type.dtype);
	char type[TYPE_TEXT];
	kept->type = w->type;
	if (kept->data && kept->size != size)
		return diag_file(diags, STATUS_USAGE, NULL, -1, "the result is %s, of %zu bytes, but its buffer has %zu bytes",
		                 type_format(&w->type, type), size, kept->size);
	if (kept->data && (uintptr_t)kept->data % dtype_size(w->type.dtype) != 0)
		return diag_file(diags, STATUS_USAGE, NULL, -1, "the result is %s, but its buffer is not aligned to an element",
		                 type_format(&w->type, type));
	if (!kept->data)
		kept->data = arena_alloc(w->arena, size + 1);
	kept->size = size;
	w->index++;
	return kept->data ? STATUS_OK : diag_memory(diags);
}

/* Rounds COUNT values to the array's type, to element FIRST of it and the next. */
static void keep_values(const struct writer *w, int64_t first, const void *from, enum dtype compute, int64_t count)
{
	char *to = (char *)w->options.memory->data + (size_t)first * dtype_size(w->type.dtype);
	convert_to_file(to, w->type.dtype, from, compute, (size_t)count);
}

static bool has_plain_values(const struct writer *w)
{
	return w->options.format == FORMAT_NPY || w->options.format == FORMAT_RAW;
}

/*
 * Fails with STATUS_USAGE if the array may overwrite values that options.reader (NULL: none) has yet to read: if it is
 * text, begins after the reader's or has more bytes. Else every byte is read before it is overwritten: both arrays have
 * the same rows, or the reader's is read whole first.
 */
static enum status check_place(const struct writer *w, size_t header, struct diags *diags)
{
	const struct reader *r = w->options.reader;
	if (!r || r->format == FORMAT_TEXT || r->format == FORMAT_CSV) /* text is read whole first */
		return STATUS_OK;
	const int64_t begin = w->output->base + w->output->offset + (int64_t)header;
	if (has_plain_values(w) && begin <= r->input->base + r->data &&
	    w->count * (int64_t)dtype_size(w->type.dtype) <= r->count * (int64_t)dtype_size(r->type.dtype))
		return STATUS_OK;
	diag_file(diags, STATUS_USAGE, r->input->name, -1, "the output would overwrite values that have not been read");
	return diag_hint(diags, "-o FILE may name the input: the output replaces it when it is complete");
}

/* Writes the header of LENGTH bytes, or keeps it if it may be late. */
static enum status begin_npy(struct writer *w, const char *header, size_t length, struct diags *diags)
{
	if (!w->options.late)
		return output_write(w->output, header, length, diags);
	w->header = w->header ? w->header : arena_alloc(w->arena, NPY_HEADER_MOST);
	TRY_ALLOC(w->header, diags);
	memcpy(w->header, header, length);
	w->header_length = length;
	return STATUS_OK;
}

/* Writes the header, unless that is done. Of several threads, one does. */
static enum status need_header(struct writer *w, struct diags *diags)
{
	const size_t length = w->header_length ? atomic_exchange(&w->header_length, 0) : 0;
	return length ? output_write(w->output, w->header, length, diags) : STATUS_OK;
}

/* Returns the byte between two values of a line of text. */
static char text_delimiter(const struct writer *w)
{
	if (w->options.format != FORMAT_CSV)
		return ' ';
	return w->options.delimiter ? w->options.delimiter : ',';
}

/* Returns the values of a line of text. */
static int64_t values_of_line(const struct writer *w)
{
	const struct shape *shape = &w->type.shape;
	if (shape->ndim > 1)
		return shape->dim[shape->ndim - 1];
	return w->options.layout == LAYOUT_COLUMN ? 1 : w->count;
}

/* Writes the header of csv, if the array has the columns that it names. */
static enum status write_header_line(struct writer *w, struct diags *diags)
{
	const char *const *names = w->options.names;
	const char delimiter = text_delimiter(w);
	if (w->options.format != FORMAT_CSV || w->options.display || !names || w->index > 0 || w->type.shape.ndim > 2 ||
	    values_of_line(w) != w->options.name_count)
		return STATUS_OK;
	for (int64_t i = 0; i < w->options.name_count; i++) {
		TRY(reserve_text(w, 2 * strlen(names[i]) + 4, diags));
		char *text = table_put_name(w->text + w->text_used, names[i], delimiter);
		*text++ = i + 1 < w->options.name_count ? delimiter : '\n';
		w->text_used = (size_t)(text - w->text);
	}
	return STATUS_OK;
}

enum status writer_begin(struct writer *w, const struct type *type, struct diags *diags)
{
	w->type = *type;
	w->count = shape_count(&type->shape);
	w->done = 0;
	if (w->options.format == FORMAT_MEMORY)
		return begin_memory(w, diags);
	char header[NPY_HEADER_MOST];
	const size_t length = w->options.format == FORMAT_NPY ? npy_make_header(type, header) : 0;
	TRY(check_place(w, length, diags));
	TRY(write_header_line(w, diags));
	if (w->options.format == FORMAT_NPY) {
		TRY(begin_npy(w, header, length, diags));
	} else if (w->options.display) {
		w->held = allocator_get(w->arena->allocator, (size_t)w->count * sizeof(double) + 1, 1);
		TRY_ALLOC(w->held, diags);
	}
	if (has_plain_values(w))
		output_reserve(w->output, w->count * (int64_t)dtype_size(type->dtype) + (int64_t)w->header_length);
	w->data = w->output->offset + (int64_t)w->header_length;
	w->index++;
	return STATUS_OK;
}

/* Writes COUNT values from byte OFFSET of the output on, or in order at IO_NEXT. */
static enum status write_values(struct writer *w, int64_t offset, const void *from, enum dtype compute, int64_t count,
                                struct diags *diags)
{
	const size_t size = dtype_size(w->type.dtype), width = dtype_size(compute);
	TRY(need_header(w, diags));
	if (w->type.dtype == compute && convert_little_endian())
		return output_write_at(w->output, offset, from, (size_t)count * size, diags);
	_Alignas(64) double block[VALUE_BLOCK];
	for (int64_t done = 0; done < count;) {
		size_t n = count - done < VALUE_BLOCK ? (size_t)(count - done) : VALUE_BLOCK;
		convert_to_file(block, w->type.dtype, (const char *)from + (size_t)done * width, compute, n);
		if (!convert_little_endian())
			convert_swap(block, size, n);
		TRY(output_write_at(w->output, offset, block, n * size, diags));
		offset += offset == IO_NEXT ? 0 : (int64_t)(n * size);
		done += (int64_t)n;
	}
	return STATUS_OK;
}

/* Returns element I of FROM as a file would hold it, rounded to the array's type: text shows the digits of that. */
static double value_at(const struct writer *w, const void *from, enum dtype compute, int64_t i)
{
	double value = compute == DTYPE_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
	if (w->type.dtype == DTYPE_F32)
		return (float)value;
	if (w->type.dtype < DTYPE_F32)
		values_round(&value, DTYPE_F64, 1, w->type.dtype);
	return value;
}

static enum status format_values(struct writer *w, const void *from, enum dtype compute, int64_t count,
                                 struct diags *diags)
{
	if (count == 0)
		return STATUS_OK;
	const char between = text_delimiter(w);
	const struct shape *shape = &w->type.shape;
	const int64_t line = values_of_line(w);
	const int64_t matrix = shape->ndim > 2 ? shape->dim[shape->ndim - 2] * line : w->count;
	int64_t left = line - w->done % line;
	for (int64_t i = 0; i < count; i++) {
		TRY(reserve_text(w, NUMBER + strlen("\n\n"), diags));
		char *text = w->text + w->text_used;
		text += number_format(text, value_at(w, from, compute, i), w->type.dtype);
		if (--left) {
			*text++ = between;
		} else {
			*text++ = '\n';
			const int64_t done = w->done + i + 1;
			if (done < w->count && done % matrix == 0) /* an empty line separates matrices */
				*text++ = '\n';
			left = line;
		}
		w->text_used = (size_t)(text - w->text);
	}
	return STATUS_OK;
}

enum status writer_write(struct writer *w, const void *from, enum dtype compute, int64_t count, struct diags *diags)
{
	if (w->options.format == FORMAT_MEMORY)
		keep_values(w, w->done, from, compute, count);
	else if (w->held)
		for (int64_t i = 0; i < count; i++)
			((double *)w->held)[w->done + i] = value_at(w, from, compute, i);
	else
		TRY(has_plain_values(w) ? write_values(w, IO_NEXT, from, compute, count, diags)
		                        : format_values(w, from, compute, count, diags));
	w->done += count;
	return STATUS_OK;
}

bool writer_seekable(const struct writer *w)
{
	return w->options.format == FORMAT_MEMORY || (has_plain_values(w) && !w->options.display && w->output->seekable);
}

enum status writer_write_at(struct writer *w, int64_t first, const void *from, enum dtype compute, int64_t count,
                            struct diags *diags)
{
	if (w->options.format == FORMAT_MEMORY) {
		keep_values(w, first, from, compute, count);
		return STATUS_OK;
	}
	return write_values(w, w->data + first * (int64_t)dtype_size(w->type.dtype), from, compute, count, diags);
}

enum status writer_end(struct writer *w, struct diags *diags)
{
	if (w->held) {
		TRY(print_array(w, w->held, diags));
		writer_free(w);
	}
	if (w->options.format == FORMAT_MEMORY) {
		w->options.memory->complete = true;
		return STATUS_OK;
	}
	TRY(need_header(w, diags));
	if (writer_seekable(w) && w->done < w->count) {
		/* Its values were written at their places: the next array goes behind them. */
		int64_t end = w->data + w->count * (int64_t)dtype_size(w->type.dtype);
		w->output->offset = end;
		w->done = w->count;
		if (lseek(w->output->fd, w->output->base + end, SEEK_SET) < 0)
			return diag_file(diags, STATUS_IO, w->output->name, -1, "cannot seek: %s", strerror(errno));
	}
	/* The reader of a stream gets an array as soon as it is complete. */
	return w->options.deferred ? STATUS_OK : write_held_text(w, w->text_used, diags);
}

enum status writer_finish(struct writer *w, struct diags *diags) { return write_held_text(w, w->text_used, diags); }
