/*
 * Reads the windows of tiles (plan/tiles.h). A file has them at their places; one that goes around the end of the array
 * is read in two parts. A stream is read once, window by window. A window begins with the last rows of the one before,
 * which still lies in its worker's input block. If windows go around the end of the array, a stream is copied to an
 * unnamed file first.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

/* Reads COUNT rows from row FIRST of the array on to TO. */
static enum status read_window_rows(struct run *run, int64_t first, int64_t count, char *to, struct diags *diags)
{
	const enum dtype dtype = dtype_compute(run->input.dtype);
	const int64_t row = run->tiles->input_row / (int64_t)dtype_size(dtype);
	const int64_t bytes = run->tiles->input_row;
	struct input_copy *copy = run->passes.levels && run->passes.copy.fd >= 0 ? &run->passes.copy : NULL;
	if (run->copied || (copy && copy->complete))
		return input_copy_read(run->copied ? &run->copy : copy, first * bytes, to, count * bytes, diags);
	if (!run->read_anywhere)
		TRY(reader_read(run->reader, to, dtype, count * row, diags));
	if (!run->read_anywhere)
		return copy ? input_copy_write(copy, to, count * bytes, diags) : STATUS_OK;
	return reader_read_at(run->reader, run->input_part.first + first * row, to, dtype, count * row, diags);
}

enum status windows_read_rows(struct run *run, int64_t first, int64_t count, char *to, struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	first = (first + tiles->rows) % tiles->rows;
	const int64_t behind = lesser(count, tiles->rows - first);
	TRY(read_window_rows(run, first, behind, to, diags));
	return behind < count ? read_window_rows(run, 0, count - behind, to + behind * tiles->input_row, diags) : STATUS_OK;
}

enum status windows_read(struct run *run, int index, int64_t chunk, struct diags *diags)
{
	const struct tiles *tiles = run->tiles;
	const int64_t begin = tiles_window_begin(tiles, chunk * tiles->tile), row = tiles->input_row;
	char *const to = run->workers[index].input;
	if (run->read_anywhere || run->passes.copy.complete)
		return windows_read_rows(run, begin, tiles->window, to, diags);
	int64_t kept = 0;
	if (chunk > 0) {
		const int64_t before = tiles_window_begin(tiles, (chunk - 1) * tiles->tile);
		kept = before + tiles->window - begin;
		memmove(to, run->workers[run->last_reader].input + (begin - before) * row, (size_t)(kept * row));
	}
	run->last_reader = index;
	return kept < tiles->window ? read_window_rows(run, begin + kept, tiles->window - kept, to + kept * row, diags)
	                            : STATUS_OK;
}

enum status windows_copy(struct run *run)
{
	struct diags *diags = run->context.diags;
	const struct tiles *tiles = run->tiles;
	const enum dtype dtype = dtype_compute(run->input.dtype);
	char *const block = run->workers[0].input;
	TRY(input_copy_open(&run->copy, run->gradient ? run->gradient->options->spill : run->options->spill,
	                    "the first tile reads the last rows", diags));
	run->copied = true;
	for (int64_t row = 0; row < tiles->rows; row += tiles->window) {
		const int64_t bytes = lesser(tiles->window, tiles->rows - row) * tiles->input_row;
		TRY(reader_read(run->reader, block, dtype, bytes / (int64_t)dtype_size(dtype), diags));
		TRY(input_copy_write(&run->copy, block, bytes, diags));
	}
	if (run->gradient)
		run->gradient->result->copied_bytes += run->copy.bytes;
	else
		run->forward->counters->copied_bytes += run->copy.bytes;
	return STATUS_OK;
}

void windows_end(struct run *run)
{
	if (run->copied)
		input_copy_close(&run->copy);
	run->copied = false;
}

enum status windows_begin(struct run *run)
{
	windows_end(run);
	run->read_anywhere |= run->tiles->wraps && run->reader->held;
	if (!run->tiles->wraps)
		return STATUS_OK;
	if (run->read_anywhere) /* the first window has rows of the end */
		return reader_check_size(run->reader, run->context.diags);
	run->read_anywhere = true;
	if (!run->options->one_pass)
		return windows_copy(run);
	diag_file(
		run->context.diags, STATUS_USAGE, run->reader->input->name, -1,
		"the first tile reads the last rows of its input, which --one-pass forbids for one that is read in order");
	return diag_hint(run->context.diags, "a file with -i can, and without --one-pass a copy is made");
}

void windows_aim_params(struct worker *worker)
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
