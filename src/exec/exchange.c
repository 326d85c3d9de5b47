/*
 * The arrays that the machine exchanges in a gradient run: the input, the value, the cotangent, and the gradient of the
 * input. In tiles they are rows of a worker's blocks. Without tiles they are read and written where they lie in the slab.
 * Tests: tests/cases/grad.test
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"

static enum status read_input(struct worker *worker, void *to, const struct type *type)
{
	struct run *run = worker->run;
	if (run->tiles->tiled)
		memcpy(to, worker->input + worker->tile * run->tiles->tile * run->tiles->input_row, (size_t)type_bytes(type));
	else if (run->conditions.input.block)
		conditions_take_input(run, to, (size_t)type_bytes(type));
	else
		TRY(reader_read(run->reader, to, type->dtype, shape_count(&type->shape), worker->diags));
	TRY(resume_open(worker, type, to));
	return run->tiles->tiled ? STATUS_OK : rows_out_begin(run, worker->diags);
}

/*
 * Sets TO, of TYPE, to elements of the cotangent from FIRST on. A window that goes around the end of the array has rows
 * of it first, and then the array's first rows.
 */
static enum status read_cotangent(const struct run *run, int64_t first, void *to, const struct type *type,
                                  struct diags *diags)
{
	const struct array *cotangent = &run->gradient->cotangent;
	const enum dtype held = dtype_compute(cotangent->type.dtype);
	const int64_t count = shape_count(&type->shape), all = shape_count(&run->whole->output.shape);
	const int64_t behind = lesser(count, all - first);
	char *const around = (char *)to + behind * (int64_t)dtype_size(type->dtype);
	if (job_reads_cotangent(run->gradient->job)) {
		const struct reader *seed = &run->gradient->seed;
		TRY(reader_read_at(seed, first, to, type->dtype, behind, diags));
		return count > behind ? reader_read_at(seed, 0, around, type->dtype, count - behind, diags) : STATUS_OK;
	}
	if (!cotangent->data) {
		kernels_get(type->dtype)->loops->fill(to, 1.0, (size_t)count);
		return STATUS_OK;
	}
	const char *from = cotangent->data;
	convert_to_file(to, type->dtype, from + first * (int64_t)dtype_size(held), held, (size_t)behind);
	convert_to_file(around, type->dtype, from, held, (size_t)(count - behind));
	return STATUS_OK;
}

enum status exchange_read_cotangent(const struct worker *worker, void *to, const struct type *type)
{
	const struct run *run = worker->run;
	const bool sliced = run->tiles->tiled && run->tiles->output_row > 0;
	const int64_t row = sliced && !run->tiles->flat ? shape_count(&type->shape) / type->shape.dim[0] : 1;
	return read_cotangent(run, sliced ? worker->first_row * row : 0, to, type, worker->diags);
}

enum status exchange_read_whole_cotangent(const struct run *run, void *to, const struct type *type)
{
	return read_cotangent(run, 0, to, type, run->context.diags);
}

/* Writes zeros to OUTPUT, an array of TYPE. */
static enum status write_zeros(const struct worker *worker, enum output_index output, const struct type *type)
{
	enum { PIECE = 512 };
	static const double zeros[PIECE];
	const int64_t count = shape_count(&type->shape);
	for (int64_t at = 0; at < count; at += PIECE)
		TRY(rows_out_put(worker->run, output, &(struct elements){at, lesser(count - at, PIECE), zeros, type->dtype},
		                 worker->diags));
	return STATUS_OK;
}

/* Writes OUTPUT, an array FROM of TYPE. FROM is NULL if a gradient is zero. */
static enum status write_output(const struct worker *worker, enum output_index output, const char *from,
                                const struct type *type)
{
	if (!rows_out_wants(worker->run, output))
		return STATUS_OK;
	if (worker->run->tiles->tiled) {
		if (worker->run->outputs[output].row > 0) /* else a tile has left a state instead */
			rows_out_take(worker, output, from, type);
		return STATUS_OK;
	}
	const struct elements all = {0, shape_count(&type->shape), from, type->dtype};
	return from ? rows_out_put(worker->run, output, &all, worker->diags) : write_zeros(worker, output, type);
}

enum status exchange_array(void *context, enum machine_input_output which, int64_t offset, const struct type *type)
{
	struct worker *worker = context;
	wave_run(worker->wave);
	TRY(offset < 0 ? STATUS_OK : watched_reach(worker, offset + type_bytes(type)));
	char *const at = offset < 0 ? NULL : worker->slab.base + offset;
	switch (which) {
	case MACHINE_INPUT:
		neighbours_written(worker->neighbours, at, true);
		return read_input(worker, at, type);
	case MACHINE_SEED:
		neighbours_written(worker->neighbours, at, true);
		return exchange_read_cotangent(worker, at, type);
	case MACHINE_OUTPUT:
		return write_output(worker, OUTPUT_VALUE, at, type);
	case MACHINE_GRADIENT:
		return write_output(worker, OUTPUT_GRADIENT, at, type);
	}
	return STATUS_OK;
}

enum status exchange_load_cotangent(struct run *run)
{
	const struct gradient_options *options = run->gradient->options;
	struct array *array = &run->gradient->cotangent;
	const struct type *want = &run->whole->output;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	struct loader loader = {
		.special = options->special, .cast = options->cast, .missing = options->missing, .context = &run->context};
	const bool rows = job_reads_cotangent(run->gradient->job);
	if (rows && !run->gradient->seed_open) {
		struct loader kept = loader;
		const struct context context = {run->context.allocator, run->gradient->arena, run->context.diags};
		kept.context = &context; /* the file stays open for later arrays */
		run->gradient->seed_open =
			array_open_rows(&kept, &run->gradient->seed_input, &run->gradient->seed, options->cotangent);
		if (!run->gradient->seed_open)
			return diag_file(run->context.diags, STATUS_DATA, options->cotangent, -1,
			                 "the file changed while it was read");
		array->type = run->gradient->seed.type;
	}
	if (options->cotangent && !rows && !array->data) /* it is loaded once, since it may be a FIFO */
		TRY(array_load(&loader, array, options->cotangent, NULL));
	if (options->cotangent_array && !array->data)
		TRY(array_copy(&loader, array, options->cotangent_array));
	if ((!rows && !array->data) || array_fit(array, &want->shape))
		return STATUS_OK;
	return diag_file(run->context.diags, STATUS_DATA, options->cotangent, -1,
	                 "the cotangent is %s and the chain's output is %s", type_format(&array->type, a),
	                 type_format(want, b));
}

void exchange_close_cotangent(struct run *run)
{
	struct gradient_pass *gradient = run->gradient;
	if (gradient->seed_open) {
		reader_free(&gradient->seed);
		input_close(&gradient->seed_input);
	}
	gradient->seed_open = false;
	array_free(&gradient->cotangent, run->context.allocator);
}
