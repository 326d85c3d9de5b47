/*
 * Arrays of text and csv. Their first two rows decide the layout, but only their end gives the number of rows. So a
 * large file is read twice: first its lines are counted, and later its numbers are read, as the run wants them.
 * The numbers of a large pipe go to an unnamed file, which is then read as raw values are. Small texts are held.
 * Tests: tests/unit/test_text.c, tests/cases/text.test
 */
#include "base/checked.h"
#include "io/formats.h"
#include "io/table.h"

#include <pthread.h>
#include <string.h>

enum { SMALL = 1 << 20, FIRST_NUMBERS = 1024, FIRST_GAP = 16 << 10 /* bytes between marks */ };

/* The numbers of a text that is read at once: COUNT in memory, after those that the copy has, or that are not kept. */
struct numbers {
	double *values;
	size_t count, capacity;
	bool passed; /* numbers do not stay in memory */
};

/* Passes the numbers on that are in memory, once the text is large and need not be held. */
static enum status pass_numbers(struct reader *r, const struct scan *scan, struct numbers *n, struct diags *diags)
{
	const struct reader_options *options = &r->options;
	if (!n->passed && scan_bytes(scan) > SMALL && (options->types || options->copies)) {
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

static enum status read_all(struct reader *r, struct scan *scan, struct numbers *n, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	size_t got;
	while (!scan_done(scan)) {
		TRY(pass_numbers(r, scan, n, diags));
		if (n->count == n->capacity) { /* allocator_grow would touch the memory that is not needed yet */
			const size_t next = n->capacity ? 2 * n->capacity : FIRST_NUMBERS;
			double *grown = a->resize(a->context, n->values, n->capacity * sizeof *grown, next * sizeof *grown);
			if (!grown)
				return scan_out_of_memory(r->input, scan_bytes(scan), diags);
			n->values = grown;
			n->capacity = next;
		}
		TRY(scan_read(scan, n->values + n->count, n->capacity - n->count, &got, diags));
		n->count += got;
	}
	return pass_numbers(r, scan, n, diags);
}

/* Reads all numbers of the text, and holds or copies them. */
static enum status keep_numbers(struct reader *r, struct text_size *size, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	struct numbers n = {.values = NULL};
	struct scan *scan;
	enum status status = scan_open(&scan, r, NULL, diags);
	if (!status)
		status = table_begin(r, scan, diags);
	if (!status)
		status = scan_set_table(scan, diags);
	if (!status)
		status = read_all(r, scan, &n, diags);
	if (status || n.passed) {
		allocator_put(a, n.values, n.capacity * sizeof *n.values);
		n = (struct numbers){.values = NULL};
	}
	if (scan) {
		*size = scan_size(scan);
		scan_close(scan);
	}
	TRY(status);
	r->held = n.values;
	r->held_size = n.capacity * sizeof *n.values;
	if (r->copy.fd < 0)
		return STATUS_OK;
	r->copy_input = (struct input){.fd = r->copy.fd, .name = r->input->name, .size = r->copy.bytes, .arena = r->arena};
	r->input = &r->copy_input;
	return STATUS_OK;
}

/* Counts the rows of a text in a file. */
static enum status open_text(struct reader *r, struct text_size *size, struct diags *diags)
{
	struct text_file *text = r->text = allocator_get(r->arena->allocator, sizeof *text, 1);
	TRY_ALLOC(text, diags);
	*text = (struct text_file){.first = r->input->offset, .gap = FIRST_GAP};
	pthread_mutex_init(&text->lock, NULL);
	struct mark next;
	TRY(scan_open(&text->idle, r, text, diags));
	TRY(table_begin(r, text->idle, diags));
	TRY(scan_set_table(text->idle, diags));
	TRY(scan_first_row(text->idle, &next));
	TRY(text_count_rows(r, &next, diags));
	*size = text->size;
	r->held_size = sizeof *text;
	return STATUS_OK;
}

void text_close(struct reader *r)
{
	struct text_file *text = r->text;
	r->text = NULL;
	if (!text)
		return;
	for (struct scan *scan; (scan = text->idle); scan_close(scan))
		text->idle = *scan_link(scan);
	pthread_mutex_destroy(&text->lock);
	allocator_put(r->arena->allocator, text, sizeof *text);
}

enum status text_begin(struct reader *r, struct diags *diags)
{
	struct text_size size = {0, 0};
	const struct input *input = r->input; /* keep_numbers may replace it */
	const bool large = input->size - input->offset > SMALL || (r->options.anywhere && input->size >= 0);
	const bool file = large && !r->options.overwritten;
	TRY(file ? open_text(r, &size, diags) : keep_numbers(r, &size, diags));
	if (size.rows == 0)
		return diag_file(diags, STATUS_DATA, input->name, file ? input->size : input->offset,
		                 r->table->header ? "a header line, and no row after it" : "no numbers");
	r->layout = r->options.columns  ? LAYOUT_ROWS
	            : size.rows == 1    ? LAYOUT_LINE
	            : size.columns == 1 ? LAYOUT_COLUMN
	                                : LAYOUT_ROWS;
	r->type = (struct type){DTYPE_F64, {1, {size.rows * size.columns}}};
	if (r->layout == LAYOUT_ROWS)
		r->type.shape = (struct shape){2, {size.rows, size.columns}};
	r->columns = size.columns;
	r->names = r->table->chosen_names;
	if (r->options.text_shape)
		(void)text_fit(&r->type.shape, r->columns, r->options.text_shape);
	return STATUS_OK;
}

bool text_fit(struct shape *shape, int64_t columns, const struct shape *wanted)
{
	struct shape fitted = *wanted;
	const int64_t count = shape_count(shape);
	const int last = wanted->ndim - 1;
	if (shape_fits(shape, wanted))
		return true;
	if (last >= 0 && wanted->dim[last] != columns)
		return false;
	if (last >= 0 && wanted->dim[0] < 0) {
		fitted.dim[0] = 1;
		const int64_t known = shape_count(&fitted);
		fitted.dim[0] = known > 0 ? count / known : 0;
	}
	if (shape_count(&fitted) != count)
		return false;
	*shape = fitted;
	return true;
}

/* Takes a scan of TEXT that nobody uses, if there is one: that which has number NEXT next, or else any. */
static struct scan *take_scan(struct text_file *text, int64_t next)
{
	struct scan **link = &text->idle;
	pthread_mutex_lock(&text->lock);
	for (struct scan **each = link; *each; each = scan_link(*each))
		if (scan_next(*each) == next)
			link = each;
	struct scan *scan = *link;
	if (scan)
		*link = *scan_link(scan);
	pthread_mutex_unlock(&text->lock);
	return scan;
}

/* Gives SCAN back, which has read the numbers before FAR. */
static void put_scan(struct text_file *text, struct scan *scan, int64_t far)
{
	pthread_mutex_lock(&text->lock);
	*scan_link(scan) = text->idle;
	text->idle = scan;
	text->far = greater(text->far, far);
	pthread_mutex_unlock(&text->lock);
}

static enum status read_from(struct scan *scan, const struct reader *r, int64_t first, double *to, size_t count,
                             struct diags *diags)
{
	size_t got = 0;
	TRY(scan_seek(scan, first, diags));
	TRY(scan_read(scan, to, count, &got, diags));
	if ((first + (int64_t)count) % r->text->size.columns == 0) /* another scan may read the next row */
		TRY(scan_end_row(scan, diags));
	const bool same = got == count && (first + (int64_t)count < r->count) == !scan_done(scan);
	return same ? STATUS_OK : scan_file_changed(r->input, diags);
}

enum status text_read(const struct reader *r, int64_t first, double *to, size_t count, struct diags *diags)
{
	struct scan *scan = take_scan(r->text, first);
	enum status status = scan ? STATUS_OK : scan_open(&scan, r, r->text, diags);
	if (!status)
		status = read_from(scan, r, first, to, count, diags);
	if (scan)
		put_scan(r->text, scan, first + (int64_t)count);
	return status;
}
