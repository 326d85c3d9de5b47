/*
 * Columns of npy arrays: of each index of the last axis that --columns chooses, in its order. The rest is read from the file,
 * too, and left out here: elements of a row are too near to each other to be read alone.
 *
 * Rows are read at any place of a file, or in order, to a buffer of the reader.
 * Tests: tests/unit/test_table.c, tests/cases/tables.test
 */
#include <string.h>

#include "base/checked.h"
#include "io/formats.h"
#include "io/table.h"

enum { PICK_BLOCK = 64 << 10 };

enum status columns_begin(struct reader *r, struct diags *diags)
{
	const struct context context = {r->arena->allocator, r->arena, diags};
	struct shape *shape = &r->type.shape;
	if (shape->ndim < 2)
		return diag_file(diags, STATUS_DATA, r->input->name, -1,
		                 "--columns chooses along the last of at least two axes, and the array has %d", shape->ndim);
	TRY_ALLOC(r->table = arena_alloc(r->arena, sizeof *r->table), diags);
	r->table->fields = shape->dim[shape->ndim - 1];
	TRY(table_choose(r->table, r->options.columns, r->input->name, &context));
	shape->dim[shape->ndim - 1] = r->table->chosen_count;
	return STATUS_OK;
}

void columns_gather(const struct reader *r, const void *from, int64_t first, int64_t count, void *to)
{
	const struct table *t = r->table;
	const size_t size = dtype_size(r->type.dtype);
	char *out = to;
	for (int64_t i = first; i < first + count; i++, out += size)
		memcpy(out,
		       (const char *)from + (size_t)(i / t->chosen_count * t->fields + t->chosen[i % t->chosen_count]) * size,
		       size);
}

static enum status report_end(const struct reader *r, int64_t have, struct diags *diags)
{
	const int64_t want = r->stored * (int64_t)dtype_size(r->type.dtype);
	return diag_file(diags, STATUS_DATA, r->input->name, r->data + have, "truncated: %lld of %lld bytes of array data",
	                 (long long)have, (long long)want);
}

/* Reads the chosen elements from FIRST on, COUNT of them and of one row, of a row that is longer than a block. */
static enum status read_long_row(const struct reader *r, int64_t first, int64_t count, char *to, struct diags *diags)
{
	const struct table *t = r->table;
	const int64_t size = (int64_t)dtype_size(r->type.dtype), row = first / t->chosen_count;
	_Alignas(8) char block[PICK_BLOCK];
	for (int64_t begin = 0, n; begin < t->fields; begin += n) {
		const int64_t at = (row * t->fields + begin) * size;
		size_t got;
		n = lesser(PICK_BLOCK / size, t->fields - begin);
		TRY(input_read_at(r->input, r->data + at, block, (size_t)(n * size), &got, diags));
		if ((int64_t)got < n * size)
			return report_end(r, at + (int64_t)got, diags);
		for (int64_t i = 0; i < count; i++) {
			const int64_t column = t->chosen[first % t->chosen_count + i] - begin;
			if (column >= 0 && column < n)
				memcpy(to + i * size, block + column * size, (size_t)size);
		}
	}
	return STATUS_OK;
}

enum status columns_read_at(const struct reader *r, int64_t first, int64_t count, char *to, struct diags *diags)
{
	const struct table *t = r->table;
	const int64_t size = (int64_t)dtype_size(r->type.dtype), bytes = t->fields * size;
	_Alignas(8) char block[PICK_BLOCK];
	for (int64_t n; count > 0; first += n, count -= n, to += n * size) {
		const int64_t row = first / t->chosen_count, within = first % t->chosen_count;
		const int64_t rows = lesser(PICK_BLOCK / bytes, (within + count + t->chosen_count - 1) / t->chosen_count);
		size_t got;
		n = lesser(count, greater(rows, 1) * t->chosen_count - within);
		if (rows == 0) {
			TRY(read_long_row(r, first, n, to, diags));
			continue;
		}
		TRY(input_read_at(r->input, r->data + row * bytes, block, (size_t)(rows * bytes), &got, diags));
		if ((int64_t)got < rows * bytes)
			return report_end(r, row * bytes + (int64_t)got, diags);
		columns_gather(r, block, within, n, to);
	}
	return STATUS_OK;
}

/* Reads the next rows to the reader's buffer. */
static enum status read_next_rows(struct picked_rows *rows, const struct reader *r, struct diags *diags)
{
	const int64_t bytes = r->table->fields * (int64_t)dtype_size(r->type.dtype), all = r->stored / r->table->fields;
	size_t got;
	if (!rows->bytes) {
		rows->size = (size_t)greater(PICK_BLOCK / bytes * bytes, bytes);
		rows->bytes = allocator_get(r->arena->allocator, rows->size, 1);
		TRY_ALLOC(rows->bytes, diags);
	}
	rows->first += rows->count;
	rows->count = lesser((int64_t)rows->size / bytes, all - rows->first);
	TRY(input_read(r->input, rows->bytes, (size_t)(rows->count * bytes), &got, diags));
	return (int64_t)got < rows->count * bytes ? report_end(r, rows->first * bytes + (int64_t)got, diags) : STATUS_OK;
}

enum status columns_read(const struct reader *r, int64_t first, int64_t count, void *to, struct diags *diags)
{
	const struct table *t = r->table;
	const int64_t size = (int64_t)dtype_size(r->type.dtype);
	struct picked_rows *rows = r->picked;
	for (int64_t n; count > 0; first += n, count -= n, to = (char *)to + n * size) {
		if (first / t->chosen_count >= rows->first + rows->count)
			TRY(read_next_rows(rows, r, diags));
		n = lesser(count, (rows->first + rows->count) * t->chosen_count - first);
		columns_gather(r, rows->bytes, first - rows->first * t->chosen_count, n, to);
	}
	return STATUS_OK;
}

int64_t columns_left(const struct reader *r)
{
	return (r->stored - (r->picked->first + r->picked->count) * r->table->fields) * (int64_t)dtype_size(r->type.dtype);
}

void columns_close(struct reader *r)
{
	if (r->picked && r->picked->bytes)
		allocator_put(r->arena->allocator, r->picked->bytes, r->picked->size);
	if (r->picked)
		*r->picked = (struct picked_rows){.bytes = NULL};
}
