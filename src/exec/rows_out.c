/*
 * The rows of the outputs: the value of a run, and the gradients of its inputs. Workers leave the rows of a chunk in their
 * blocks. In files with several workers they are written in any order, else in the order of chunks.
 *
 * Invariant: a gradient run begins its outputs only after it has read the cotangent and a first chunk. Without tiles it has
 * read the whole input, which a journal must know. So a run that cannot begin writes nothing.
 * Tests: tests/cases/run.test, tests/cases/grad.test
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"

/* Returns where the gradients of inputs go beside the first's writer; NULL: nowhere. */
static const struct input_gradients *sink_of(const struct run *run)
{
	return run->gradient && run->gradient->options->inputs.put ? &run->gradient->options->inputs : NULL;
}

/* True if INPUT, 0 or 1 + its index in chain->params, has a gradient. */
static bool has_gradient(const struct run *run, size_t input)
{
	return input == 0 || run->chain->params[input - 1].differentiated;
}

/* Puts ELEMENTS of the gradient of INPUT to SINK. Those of integers are zeros, which fewer bytes hold in a shorter type. */
static enum status put_gradient(const struct run *run, const struct input_gradients *sink, size_t input,
                                const struct elements *elements, struct diags *diags)
{
	struct elements typed = *elements;
	if (dtype_is_integer(input ? run->chain->params[input - 1].type->dtype : run->input.dtype))
		typed.dtype = chain_computing_type(run->chain, run->input.dtype);
	return sink->put(sink->context, input, &typed, diags);
}

/* Returns the type of the value whose gradient the run writes: the input, or the value at a place. */
static const struct type *differentiated(const struct run *run)
{
	return run->whole->gradient_at.slot ? &run->whole->gradient_at.type : &run->input;
}

size_t rows_out_values(const struct run *run) { return run->forward ? run->whole->whole->out_count : 1; }

void rows_out_open(struct run *run)
{
	const struct tiles *tiles = run->tiles;
	for (int i = 0; i < OUTPUTS; i++)
		run->outputs[i] = (struct run_output){.writer = NULL};
	run->outputs[OUTPUT_VALUE] = (struct run_output){run->options->value, &run->whole->output, tiles->output_row};
	run->outputs[OUTPUT_GRADIENT] = (struct run_output){run->gradient ? run->gradient->options->gradient : NULL,
	                                                    &run->gradient_type, tiles->gradient_row};
	for (size_t k = 1; k < rows_out_values(run); k++)
		run->outputs[OUTPUT_VALUE + k] =
			(struct run_output){run->options->more[k - 1], &run->more_types[k], rows_out_row(run, k)};
}

int64_t rows_out_row(const struct run *run, size_t k)
{
	const struct tiles *tiles = run->tiles;
	if (k == 0)
		return tiles->output_row;
	const struct body *body = run->whole->whole;
	const struct value *value = &body->values[body->outs[k].value];
	return tiles->tiled && !value->streamed ? 0 : type_bytes(value->type) / tiles->rows;
}

enum status rows_out_begin_array(struct run *run)
{
	const bool several = run->tiles->workers > 1 || shares_rows(run);
	run->outputs_begun = false;
	run->write_anywhere = run->forward && several;
	for (size_t k = 0; k < rows_out_values(run) && run->write_anywhere; k++)
		run->write_anywhere = writer_seekable(run->outputs[OUTPUT_VALUE + k].writer);
	return run->forward && !run->passes.levels ? rows_out_begin(run, run->context.diags) : STATUS_OK;
}

/*
 * Lets csv have a line for each number of output K if that has one for each row of an input of several axes. A square
 * input has as many columns: then the numbers must be those of streamed rows.
 */
static void follow_rows(const struct run *run, size_t k)
{
	const struct run_output *out = &run->outputs[OUTPUT_VALUE + k];
	const struct shape *input = &run->input.shape;
	if (!out->writer || out->writer->options.format != FORMAT_CSV || input->ndim < 2 || out->type->shape.ndim != 1 ||
	    out->type->shape.dim[0] != input->dim[0])
		return;
	const struct body *body = run->forward ? run->whole->whole : NULL;
	if (input->dim[0] != input->dim[input->ndim - 1] || (body && body->values[body->outs[k].value].streamed))
		out->writer->options.layout = LAYOUT_COLUMN;
}

enum status rows_out_begin(struct run *run, struct diags *diags)
{
	run->outputs_begun = true;
	for (size_t k = 0; k < rows_out_values(run); k++)
		follow_rows(run, k);
	for (const struct run_output *out = run->outputs; out < run->outputs + OUTPUTS; out++)
		TRY(out->writer ? writer_begin(out->writer, out->type, diags) : STATUS_OK);
	const struct input_gradients *sink = sink_of(run);
	for (size_t i = 0; sink && i <= (run->inputs ? run->inputs->count : 0); i++) {
		if (!has_gradient(run, i))
			continue;
		const struct type *input = i ? run->chain->params[i - 1].type : &run->input;
		const struct type type = run_gradient_type(run->chain, run->input.dtype, input);
		TRY(sink->begin(sink->context, i, &type, diags));
	}
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

enum status rows_out_put(const struct run *run, enum output_index output, const struct elements *elements,
                         struct diags *diags)
{
	struct writer *writer = run->outputs[output].writer;
	const struct input_gradients *sink = output == OUTPUT_GRADIENT ? sink_of(run) : NULL;
	const bool anywhere = run->write_anywhere || shares_rows(run);
	if (writer && anywhere)
		TRY(writer_write_at(writer, elements->first, elements->from, elements->dtype, elements->count, diags));
	else if (writer)
		TRY(writer_write(writer, elements->from, elements->dtype, elements->count, diags));
	return sink ? put_gradient(run, sink, 0, elements, diags) : STATUS_OK;
}

enum status rows_out_write(const struct run *run, enum output_index output, const struct owned_rows *rows,
                           const char *from, struct diags *diags)
{
	const struct run_output *out = &run->outputs[output];
	/* The gradient of integers is zeros, held as they are. */
	const struct type *of = output == OUTPUT_GRADIENT ? differentiated(run) : out->type;
	const enum dtype dtype = dtype_compute(of->dtype);
	const int64_t row = out->row / (int64_t)dtype_size(dtype);
	return rows_out_put(run, output, &(struct elements){rows->first * row, rows->count * row, from, dtype}, diags);
}

bool rows_out_wants(const struct run *run, enum output_index output)
{
	return run->outputs[output].writer || (output == OUTPUT_GRADIENT && sink_of(run));
}

void rows_out_aim_others(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const int64_t first = worker->chunk * tiles->per_chunk * tiles->tile;
	for (size_t k = 0; k < run->other_count; k++) {
		const struct rows_in *in = &run->others[k];
		struct bound_param *param = &worker->params[in->param];
		const bool tails = job_sums_long(run->gradient->job, in->param);
		param->gradient = worker->others + in->gradient;
		param->tails = tails ? (char *)param->gradient + tiles->tile * tiles->per_chunk * in->row : NULL;
		param->gradient_begins = first;
	}
}

void rows_out_begin_others(struct worker *worker)
{
	const struct run *run = worker->run;
	for (size_t k = 0; run->gradient && k < run->other_count; k++)
		memset(worker->others + run->others[k].gradient, 0,
		       (size_t)job_row_bytes(run->gradient->job, run->others[k].param));
}

/* Writes the rows of CHUNK that the worker has of the gradients of inputs after the first. */
static enum status write_others(const struct worker *worker, int64_t chunk, struct diags *diags)
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const struct input_gradients *sink = sink_of(run);
	for (size_t k = 0; sink && k < run->other_count; k++) {
		const struct rows_in *in = &run->others[k];
		const int64_t row = in->row / (int64_t)dtype_size(in->dtype);
		if (!has_gradient(run, 1 + in->param))
			continue;
		const struct elements rows = {chunk * tiles->per_chunk * tiles->tile * row, tiles_rows_of(tiles, chunk) * row,
		                              worker->others + in->gradient, in->dtype};
		TRY(put_gradient(run, sink, 1 + in->param, &rows, diags));
	}
	return STATUS_OK;
}

/* Puts the gradients of inputs that tiles do not cut, and ends those of all inputs. */
static enum status end_others(const struct run *run, struct diags *diags)
{
	const struct input_gradients *sink = sink_of(run);
	for (size_t i = 0; sink && run->inputs && i < run->inputs->count; i++) {
		const struct type type = bound_type(&run->bound[i]);
		const struct elements all = {0, shape_count(&type.shape), totals_of(run, i)->heads, type.dtype};
		if (has_gradient(run, 1 + i) && !job_row_bytes(run->gradient->job, i) && all.from &&
		    ranks_index(run->ranks) == 0)
			TRY(put_gradient(run, sink, 1 + i, &all, diags));
	}
	for (size_t i = 0; sink && i <= (run->inputs ? run->inputs->count : 0); i++)
		TRY(has_gradient(run, i) ? sink->end(sink->context, i, diags) : STATUS_OK);
	return STATUS_OK;
}

/* True if the worker's blocks have rows of OUTPUT. */
static bool has_rows(const struct worker *worker, enum output_index output)
{
	const struct run_output *out = &worker->run->outputs[output];
	return rows_out_wants(worker->run, output) && worker->made[output] && out->row > 0;
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
	return passes_write(run) ? write_others(worker, chunk, diags) : STATUS_OK;
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
	return end_others(run, diags);
}
