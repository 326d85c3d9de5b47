/*
 * Arrays of text and csv. Their first two rows decide the layout, but only their end gives the number of rows. So a
 * large file is read twice: first its lines are counted, and later its numbers are read in order, as the run wants them.
 * The numbers of a large pipe go to an unnamed file, which is then read as raw values are. Small texts are held. If rows are
 * wanted in any order, the numbers of every text go to such a file.
 */
#include "io/formats.h"

#include <string.h>

enum { SMALL = 1 << 20, FIRST_NUMBERS = 1024 };

/* The numbers of a text that is read at once: COUNT in memory, after those that the copy has, or that are not kept. */
struct numbers {
	double *values;
	size_t count, capacity;
	bool passed; /* numbers do not stay in memory */
};

/* Passes the numbers on that are in memory, once the text is large and need not be held. */
static enum status pass_numbers(struct reader *r, struct numbers *n, struct diags *diags)
{
	const struct reader_options *options = &r->options;
	const bool long_text = scan_bytes(r->scan) > SMALL || options->anywhere;
	if (!n->passed && long_text && (options->types || options->copies)) {
		n->passed = true;
		if (options->one_pass && !options->types) {
			diag_file(diags, STATUS_USAGE, r->input->name, -1,
			          "the rows of a text this long are counted by a copy, which --one-pass forbids");
			return diag_hint(diags, "a file with -i needs no copy");
		}
		if (!options->types)
			TRY(input_copy_open(&r->copy, options->spill, "the rows of a long text are known only at its end", diags));
	}
	if (!n->passed)
		return STATUS_OK;
	if (!options->types)
		TRY(input_copy_write(&r->copy, n->values, (int64_t)(n->count * sizeof *n->values), diags));
	n->count = 0;
	return STATUS_OK;
}

static enum status read_all(struct reader *r, struct numbers *n, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	size_t got;
	while (!scan_done(r->scan)) {
		TRY(pass_numbers(r, n, diags));
		if (n->count == n->capacity) { /* allocator_grow would touch the memory that is not needed yet */
			const size_t next = n->capacity ? 2 * n->capacity : FIRST_NUMBERS;
			double *grown = a->resize(a->context, n->values, n->capacity * sizeof *grown, next * sizeof *grown);
			if (!grown)
				return scan_out_of_memory(r->input, scan_bytes(r->scan), diags);
			n->values = grown;
			n->capacity = next;
		}
		TRY(scan_read(r->scan, n->values + n->count, n->capacity - n->count, &got, diags));
		n->count += got;
	}
	return pass_numbers(r, n, diags);
}

/* Reads all numbers of the text, and holds or copies them. */
static enum status keep_numbers(struct reader *r, struct text_size *size, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	struct numbers n = {.values = NULL};
	const enum status status = read_all(r, &n, diags);
	if (status || n.passed) {
		allocator_put(a, n.values, n.capacity * sizeof *n.values);
		n = (struct numbers){.values = NULL};
	}
	TRY(status);
	*size = scan_size(r->scan);
	scan_close(r->scan);
	r->scan = NULL;
	r->held = n.values;
	r->held_size = n.capacity * sizeof *n.values;
	if (r->copy.fd < 0)
		return STATUS_OK;
	r->copy_input = (struct input){.fd = r->copy.fd, .name = r->input->name, .size = r->copy.bytes, .arena = r->arena};
	r->input = &r->copy_input;
	return STATUS_OK;
}

enum status text_begin(struct reader *r, struct diags *diags)
{
	struct text_size size;
	const struct input *input = r->input; /* keep_numbers may replace it */
	const bool file = input->size - input->offset > SMALL && !r->options.overwritten && !r->options.anywhere;
	TRY(scan_open(&r->scan, r, diags));
	TRY(file ? scan_count(r->scan, &size, diags) : keep_numbers(r, &size, diags));
	if (r->scan)
		r->held_size = scan_memory(r->scan);
	if (size.rows == 0)
		return diag_file(diags, STATUS_DATA, input->name, file ? input->size : input->offset, "no numbers");
	r->layout = size.rows == 1 ? LAYOUT_LINE : size.columns == 1 ? LAYOUT_COLUMN : LAYOUT_ROWS;
	r->type = (struct type){DTYPE_F64, {1, {size.rows * size.columns}}};
	if (r->layout == LAYOUT_ROWS)
		r->type.shape = (struct shape){2, {size.rows, size.columns}};
	return STATUS_OK;
}

enum status text_read(const struct reader *r, int64_t first, double *to, size_t count, struct diags *diags)
{
	size_t got = 0;
	TRY(scan_read(r->scan, to, count, &got, diags));
	if (got == count && (first + (int64_t)count < r->count) == !scan_done(r->scan))
		return STATUS_OK;
	return diag_file(diags, STATUS_DATA, r->input->name, -1, "the file changed while it was read");
}
