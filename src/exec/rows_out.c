/*
 * The rows of the outputs: the value of a run, and the gradient of its input. Workers leave the rows of a chunk in their
 * blocks. In files with several workers they are written in any order, else in the order of chunks.
 *
 * Invariant: a gradient run begins its outputs only after it has read the cotangent and a first chunk. Without tiles it has
 * read the whole input, which a journal must know. So a run that cannot begin writes nothing.
 * Tests: tests/cases/run.test, tests/cases/grad.test
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"

void rows_out_open(struct run *run)
{
	run->outputs[OUTPUT_VALUE] = (struct run_output){run->options->value, &run->whole->output, run->tiles->output_row};
	run->outputs[OUTPUT_GRADIENT] = (struct run_output){run->gradient ? run->gradient->options->gradient : NULL,
	                                                    &run->gradient_type, run->tiles->input_row};
}

enum status rows_out_begin_array(struct run *run)
{
	const bool several = run->tiles->workers > 1 || shares_rows(run);
	run->outputs_begun = false;
	run->write_anywhere = run->forward && several && writer_seekable(run->options->value);
	return run->forward && !run->passes.levels ? rows_out_begin(run, run->context.diags) : STATUS_OK;
}

enum status rows_out_begin(struct run *run, struct diags *diags)
{
	run->outputs_begun = true;
	for (const struct run_output *out = run->outputs; out < run->outputs + OUTPUTS; out++)
		TRY(out->writer ? writer_begin(out->writer, out->type, diags) : STATUS_OK);
	return STATUS_OK;
}

char *rows_out_of_tile(const struct worker *worker, enum output_index output)
{
	const struct run *run = worker->run;
	return worker->made[output] + worker->tile * run->tiles->tile * run->outputs[output].row;
}

void rows_out_take(const struct worker *worker, enum output_index output, const char *from, const struct type *type)
{
	const int64_t rows = type->shape.dim[0], row = rows ? type_bytes(type) / rows : 0;
	const struct owned_rows owned = tiles_owned(worker->run->tiles, worker->tile_row, rows);
	char *const to = rows_out_of_tile(worker, output);
	if (from)
		memcpy(to, from + owned.first * row, (size_t)(owned.count * row));
	else
		memset(to, 0, (size_t)(owned.count * row));
}

enum status rows_out_write(const struct run *run, enum output_index output, const struct owned_rows *rows,
                           const char *from, struct diags *diags)
{
	const struct run_output *out = &run->outputs[output];
	/* The gradient of integers is zeros, held as they are. */
	const enum dtype dtype = dtype_compute(output == OUTPUT_GRADIENT ? run->input.dtype : out->type->dtype);
	const int64_t row = out->row / (int64_t)dtype_size(dtype), first = rows->first * row, count = rows->count * row;
	return run->write_anywhere || shares_rows(run) ? writer_write_at(out->writer, first, from, dtype, count, diags)
	                                               : writer_write(out->writer, from, dtype, count, diags);
}

/* True if the worker's blocks have rows of OUTPUT. */
static bool has_rows(const struct worker *worker, enum output_index output)
{
	const struct run_output *out = &worker->run->outputs[output];
	return out->writer && worker->made[output] && out->row > 0;
}

/* Returns the rows of OUTPUT that CHUNK has. FIRST is in the worker's block. */
static struct owned_rows rows_of_chunk(const struct run *run, enum output_index output, int64_t chunk)
{
	if (output == OUTPUT_GRADIENT)
		return (struct owned_rows){0, tiles_rows_of(run->tiles, chunk)};
	const struct owned_rows owned = tiles_owned_output(run->tiles, chunk);
	return (struct owned_rows){run->forward ? owned.first : 0, owned.count};
}

enum status rows_out_write_chunk(struct worker *worker, int64_t chunk, struct diags *diags)
{
	const struct run *run = worker->run;
	for (int i = 0; i < OUTPUTS && passes_write(run); i++) {
		if (!has_rows(worker, i))
			continue;
		const struct owned_rows rows = rows_of_chunk(run, i, chunk);
		const struct owned_rows to = {chunk * run->tiles->per_chunk * run->tiles->tile, rows.count};
		TRY(rows_out_write(run, i, &to, worker->made[i] + rows.first * run->outputs[i].row, diags));
	}
	return STATUS_OK;
}

size_t rows_out_pieces(const struct worker *worker, int64_t chunk, struct spill_piece pieces[OUTPUTS])
{
	const struct run *run = worker->run;
	size_t count = 0;
	for (int i = 0; i < OUTPUTS; i++) {
		if (!has_rows(worker, i))
			continue;
		const struct owned_rows rows = rows_of_chunk(run, i, chunk);
		const int64_t row = run->outputs[i].row;
		pieces[count++] = (struct spill_piece){worker->made[i] + rows.first * row, (size_t)(rows.count * row)};
	}
	return count;
}

enum status rows_out_end(struct run *run)
{
	struct diags *diags = run->context.diags;
	if (!run->outputs_begun && run->ranks) /* it computed nothing: the next array's place follows from this one's */
		TRY(rows_out_begin(run, diags));
	for (const struct run_output *out = run->outputs; out < run->outputs + OUTPUTS; out++)
		TRY(out->writer ? writer_end(out->writer, diags) : STATUS_OK);
	return STATUS_OK;
}
