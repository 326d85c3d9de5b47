/*
 * The ends of a gradient run: input and cotangent, value and gradient. Where there
 * are tiles the machine's ends are the worker's blocks, which hold a chunk and are
 * read and written in order; where there is one, its input is read straight into
 * the slab, and what it makes is written out of it.
 *
 * Invariant: what is read whole has been read before an output begins: the
 * cotangent, and without tiles the input, which must be the journal's if there is
 * one. So what cannot begin writes nothing.
 */
#include "exec/worker.h"

#include <string.h>

/* The worker's tile in a block of rows of ROW bytes. */
static char *tile_in(const struct worker *worker, char *block, int64_t row)
{
	return block + worker->tile * worker->run->job->tile.rows * row;
}

/* The machine's ends. */

static enum status take_input(struct worker *worker, int64_t offset, const struct type *type)
{
	struct run *run = worker->run;
	void *to = worker->slab.base + offset;
	const size_t size = (size_t)type_bytes(type);
	if (run->job->tiles.tiled) {
		memcpy(to, tile_in(worker, worker->input, run->job->tiles.input_row), size);
		return STATUS_OK;
	}
	enum status status = reader_read(run->reader, to, type->dtype, shape_count(&type->shape), worker->diags);
	if (status == STATUS_OK && run->options->journal)
		status = resume_open(worker, to, size);
	return status ? status : input_output_begin_outputs(run, worker->diags);
}

static enum status give_output(struct worker *worker, int64_t offset, const struct type *type)
{
	const struct run *run = worker->run;
	void *from = worker->slab.base + offset;
	const size_t size = (size_t)type_bytes(type);
	if (!run->job->tiles.tiled)
		return writer_write(run->options->value, from, type->dtype, shape_count(&type->shape), worker->diags);
	if (!run->job->whole.sums) /* else it is partial sums: totals_add */
		memcpy(tile_in(worker, worker->value, run->job->tiles.output_row), from, size);
	return STATUS_OK;
}

/* Elements of the cotangent, which may be of another precision than the array that is seeded, as doubles or floats. */
static void copy_cotangent(const struct array *from, int64_t first, int64_t count, void *to, bool wide)
{
	const enum dtype dtype = dtype_compute(from->type.dtype);
	const char *at = (const char *)from->data + first * (int64_t)dtype_size(dtype);
	if (wide == (dtype == DTYPE_F64))
		memcpy(to, at, (size_t)count * dtype_size(dtype));
	else if (wide)
		kernels_get(DTYPE_F32)->to_f64(to, at, (size_t)count);
	else
		kernels_get(DTYPE_F64)->to_f32(to, at, (size_t)count);
}

static enum status take_seed(const struct worker *worker, int64_t offset, const struct type *type)
{
	const struct run *run = worker->run;
	void *to = worker->slab.base + offset;
	const int64_t count = shape_count(&type->shape);
	if (!run->cotangent) {
		kernels_get(type->dtype)->fill(to, 1.0, (size_t)count);
		return STATUS_OK;
	}
	const bool sliced = run->job->tiles.tiled && !run->job->whole.sums;
	const int64_t first = sliced ? worker->first_row * (count / worker->rows) : 0;
	copy_cotangent(run->cotangent, first, count, to, type->dtype == DTYPE_F64);
	return STATUS_OK;
}

static enum status write_zeros(struct writer *writer, enum dtype dtype, int64_t count, struct diags *diags)
{
	enum { PIECE = 512 };
	static const double zeros[PIECE];
	enum status status = STATUS_OK;
	for (int64_t n; count > 0 && status == STATUS_OK; count -= n) {
		n = count < PIECE ? count : PIECE;
		status = writer_write(writer, zeros, dtype, n, diags);
	}
	return status;
}

static enum status give_gradient(struct worker *worker, int64_t offset, const struct type *type)
{
	const struct run *run = worker->run;
	const void *from = offset < 0 ? NULL : worker->slab.base + offset;
	if (!run->options->gradient)
		return STATUS_OK;
	if (run->job->tiles.tiled) {
		char *to = tile_in(worker, worker->gradient, run->job->tiles.input_row);
		if (from)
			memcpy(to, from, (size_t)type_bytes(type));
		else
			memset(to, 0, (size_t)type_bytes(type));
		return STATUS_OK;
	}
	const int64_t count = shape_count(&type->shape);
	if (!from)
		return write_zeros(run->options->gradient, type->dtype, count, worker->diags);
	return writer_write(run->options->gradient, from, type->dtype, count, worker->diags);
}

static enum status on_end(void *context, enum machine_input_output end, int64_t offset, const struct type *type)
{
	struct worker *worker = context;
	switch (end) {
	case MACHINE_INPUT:
		return take_input(worker, offset, type);
	case MACHINE_OUTPUT:
		return give_output(worker, offset, type);
	case MACHINE_SEED:
		return take_seed(worker, offset, type);
	case MACHINE_GRADIENT:
		return give_gradient(worker, offset, type);
	}
	return STATUS_OK;
}

void input_output_hook(struct machine_hooks *hooks) { hooks->input_output = on_end; }

/* Chunks. */

enum status input_output_read_rows(struct worker *worker, int64_t rows, struct diags *diags)
{
	const struct run *run = worker->run;
	const enum dtype dtype = dtype_compute(run->job->input.dtype);
	return reader_read(run->reader, worker->input, dtype,
	                   rows * (run->job->tiles.input_row / (int64_t)dtype_size(dtype)), diags);
}

enum status input_output_write_rows(const struct worker *worker, int64_t rows, struct diags *diags)
{
	const struct job *job = worker->run->job;
	const struct grad_options *options = worker->run->options;
	const enum dtype in = dtype_compute(job->input.dtype), out = dtype_compute(job->whole.output.dtype);
	enum status status = STATUS_OK;
	if (options->gradient)
		status = writer_write(options->gradient, worker->gradient, in,
		                      rows * (job->tiles.input_row / (int64_t)dtype_size(in)), diags);
	if (status == STATUS_OK && worker->value)
		status = writer_write(options->value, worker->value, out,
		                      rows * (job->tiles.output_row / (int64_t)dtype_size(out)), diags);
	return status;
}

/* Arrays. */

enum status input_output_open(struct run *run, struct diags *diags)
{
	const char *path = run->options->cotangent;
	struct array *array = run->cotangent;
	const struct type *want = &run->job->whole.output;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	const struct context context = {run->options->job.allocator, &run->scratch, diags};
	struct loader loader = {.special = run->options->special, .cast = run->options->cast, .context = &context};
	enum status status = STATUS_OK;
	if (!array)
		return STATUS_OK;
	if (!array->data) /* it may be a FIFO, which gives it once */
		status = array_load(&loader, array, path, NULL);
	if (status || array_fits(array, &want->shape))
		return status;
	return diag_file(diags, STATUS_DATA, path, -1, "the cotangent is %s and the chain's output is %s",
	                 type_format(&array->type, a), type_format(want, b));
}

enum status input_output_begin_outputs(struct run *run, struct diags *diags)
{
	enum status status = STATUS_OK;
	run->outputs_begun = true;
	if (run->options->gradient)
		status = writer_begin(run->options->gradient, &run->job->input, diags);
	if (status == STATUS_OK && run->options->value)
		status = writer_begin(run->options->value, &run->job->whole.output, diags);
	return status;
}

enum status input_output_finish_outputs(struct run *run, struct diags *diags)
{
	enum status status = run->outputs_begun ? STATUS_OK : input_output_begin_outputs(run, diags);
	if (status == STATUS_OK && run->options->value && run->job->tiles.tiled && run->job->whole.sums)
		status = totals_write_output(run, diags);
	if (status == STATUS_OK && run->options->gradient)
		status = writer_end(run->options->gradient, diags);
	if (status == STATUS_OK && run->options->value)
		status = writer_end(run->options->value, diags);
	return status;
}
