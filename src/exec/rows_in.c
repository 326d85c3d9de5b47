/*
 * The rows of the input. A file has them at their places. A stream is read once, in order.
 *
 * A tile that reads neighbouring rows has a window (plan/tiles.h). Of a file, one that goes around the end of the array is
 * read in two parts. Of a stream, a window begins with the last rows of the one before, which still lies in its worker's
 * input block. If windows go around the end of the array, a stream is copied to an unnamed file first. If several passes
 * read the array (exec/passes.h), the first of them copies it.
 * Tests: tests/unit/test_windows.c, tests/cases/windows.test
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"

/* True if the rows that are read now are appended to a copy. */
static bool is_copying(const struct rows_in *in) { return in->copy.fd >= 0 && !in->copy.complete; }

/* Reads COUNT rows from row FIRST of the array on to TO. */
static enum status read_consecutive(struct run *run, int64_t first, int64_t count, char *to, struct diags *diags)
{
	struct rows_in *in = &run->in;
	const enum dtype dtype = dtype_compute(run->input.dtype);
	const int64_t row = run->tiles->input_row, size = (int64_t)dtype_size(dtype), elements = count * (row / size);
	if (in->copy.fd >= 0 && in->copy.complete)
		return input_copy_read(&in->copy, first * row, to, count * row, diags);
	if (in->anywhere)
		return reader_read_at(run->reader, in->first + first * (row / size), to, dtype, elements, diags);
	TRY(reader_read(run->reader, to, dtype, elements, diags));
	return is_copying(in) ? input_copy_write(&in->copy, to, count * row, diags) : STATUS_OK;
}

enum status rows_in_read(struct run *run, int64_t first, int64_t count, char *to, struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	first = (first + tiles->rows) % tiles->rows;
	const int64_t behind = lesser(count, tiles->rows - first);
	TRY(read_consecutive(run, first, behind, to, diags));
	return behind < count ? read_consecutive(run, 0, count - behind, to + behind * tiles->input_row, diags) : STATUS_OK;
}

/* Reads the next window of a stream to the input block of worker INDEX. */
static enum status read_next_window(struct run *run, int index, int64_t chunk, struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	const int64_t begin = tiles_window_begin(tiles, chunk * tiles->tile), row = tiles->input_row;
	char *const to = run->workers[index].input;
	int64_t kept = 0;
	if (chunk > 0) {
		const int64_t before = tiles_window_begin(tiles, (chunk - 1) * tiles->tile);
		kept = before + tiles->window - begin;
		memmove(to, run->workers[run->in.last_reader].input + (begin - before) * row, (size_t)(kept * row));
	}
	run->in.last_reader = index;
	return kept < tiles->window ? read_consecutive(run, begin + kept, tiles->window - kept, to + kept * row, diags)
	                            : STATUS_OK;
}

enum status rows_in_read_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct run *run = context;
	const struct tiles *tiles = run->tiles;
	char *const to = run->workers[index].input;
	const int64_t first = chunk * tiles->per_chunk * tiles->tile;
	if (!to || tiles->carries)
		return STATUS_OK;
	if (!tiles->windows)
		return read_consecutive(run, first, tiles_rows_of(tiles, chunk), to, diags);
	if (!run->in.anywhere)
		return read_next_window(run, index, chunk, diags);
	return rows_in_read(run, tiles_window_begin(tiles, first), tiles->window, to, diags);
}

/* Opens the copy of the array, which must be read again because of WHY. */
static enum status open_copy(struct run *run, const char *why)
{
	const char *const spill = run->gradient ? run->gradient->options->spill : run->options->spill;
	return input_copy_open(&run->in.copy, spill, why, run->context.diags);
}

/* Fails with the message WHY: --one-pass forbids the copy that would be needed. */
static enum status refuse_copy(const struct run *run, const char *why)
{
	struct diags *diags = run->context.diags;
	TRY_ALLOC(why, diags);
	diag_file(diags, STATUS_USAGE, run->reader->input->name, -1, "%s", why);
	return diag_hint(diags, "a file with -i can, and without --one-pass a copy is made");
}

/* Copies the current array, all of it in order, by pieces of a worker's input block. */
static enum status copy_array(struct run *run)
{
	struct diags *diags = run->context.diags;
	const struct tiles *tiles = run->tiles;
	TRY(open_copy(run, "the first tile reads the last rows"));
	run->in.anywhere = false;
	for (int64_t row = 0; row < tiles->rows; row += tiles->window)
		TRY(read_consecutive(run, row, lesser(tiles->window, tiles->rows - row), run->workers[0].input, diags));
	run->in.copy.complete = run->in.anywhere = true;
	return STATUS_OK;
}

/* Reads a stream up to the part that the chain reads, through a worker's memory. */
static enum status reach_part(struct run *run)
{
	const enum dtype dtype = dtype_compute(run->input.dtype);
	const int64_t most = tiles_input_rows(run->tiles) * (run->tiles->input_row / (int64_t)dtype_size(dtype));
	for (int64_t left = reader_seekable(run->reader) ? 0 : run->in.first; left > 0; left -= most)
		TRY(reader_read(run->reader, run->workers[0].input, dtype, lesser(left, most), run->context.diags));
	return STATUS_OK;
}

enum status rows_in_begin_array(struct run *run)
{
	struct rows_in *in = &run->in;
	const struct tiles *tiles = run->tiles;
	const bool shared = shares_rows(run), several = tiles->workers > 1 || shared;
	in->anywhere = shared;
	if (reader_seekable(run->reader))
		in->anywhere |=
			tiles->windows || run->points.lie == POINTS_BETWEEN_CHUNKS || (run->forward && (in->part || several));
	TRY(run->forward ? reach_part(run) : STATUS_OK);
	if (!tiles->wraps)
		return STATUS_OK;
	in->anywhere |= run->reader->held != NULL;
	if (in->anywhere) /* the first window has rows of the end */
		return reader_check_size(run->reader, run->context.diags);
	if (run->options->one_pass)
		return refuse_copy(run,
		                   "the first tile reads the last rows of its input, which --one-pass forbids for one that "
		                   "is read in order");
	return copy_array(run);
}

/* True if an output is written over the input. */
static bool is_in_place(const struct run *run)
{
	bool in_place = false;
	for (int i = 0; i < OUTPUTS; i++)
		in_place |= run->outputs[i].writer && run->outputs[i].writer->options.reader;
	return in_place;
}

enum status rows_in_begin_passes(struct run *run, uint32_t times)
{
	struct diags *diags = run->context.diags;
	if (times < 2 || run->in.copy.fd >= 0 || (reader_rereadable(run->reader) && !is_in_place(run)))
		return STATUS_OK;
	if (run->points.lie == POINTS_BETWEEN_CHUNKS)
		return diag_file(diags, STATUS_USAGE, run->reader->input->name, -1,
		                 "--journal: the chain reads its input several times, and the output is written over it");
	if (run->options->one_pass)
		return refuse_copy(run, arena_printf(diags->arena,
		                                     "the chain reads its input %u times, which --one-pass forbids "
		                                     "for one that cannot be read again",
		                                     times));
	if (run->tiles->wraps) /* the first window needs the last rows */
		return copy_array(run);
	return open_copy(run, "the chain reads its input several times");
}

enum status rows_in_end_array(struct run *run)
{
	struct rows_in *in = &run->in;
	if (in->copy.fd >= 0)
		*(run->gradient ? &run->gradient->result->copied_bytes : &run->forward->counters->copied_bytes) +=
			in->copy.bytes;
	input_copy_close(&in->copy);
	const bool unread = in->anywhere || in->part || shares_items(run) == 0;
	return unread ? reader_skip(run->reader, run->context.diags) : STATUS_OK;
}

void rows_in_aim_params(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const int64_t behind = tiles->rows - worker->first_row;
	char *to = worker->param_rows;
	for (size_t i = 0; i < run->params->count && tiles->wraps; i++) {
		struct bound_param *param = &worker->params[i];
		const struct type type = bound_type(param);
		const int64_t row = type_bytes(&type) / greater(tiles->rows, 1);
		const char *from = run->bound[i].data;
		if (!param->streamed)
			continue;
		param->data = from;
		param->begins = 0;
		if (behind >= tiles->window)
			continue;
		memcpy(to, from + worker->first_row * row, (size_t)(behind * row));
		memcpy(to + behind * row, from, (size_t)((tiles->window - behind) * row));
		param->data = to;
		param->begins = worker->first_row;
		to += round_up(tiles->window * row, ARRAY_ALIGN);
	}
}
