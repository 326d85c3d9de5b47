/*
 * The arrays that a run reads and writes: input and cotangent, value and gradient. Chunks go between the stream and a
 * worker's blocks, in order or, in files, in any order. A gradient that is not tiled has one chunk without blocks: the
 * machine's exchanges read and write the arrays where they lie in the slab.
 *
 * Invariant: a gradient run begins its outputs only after it has read the cotangent and a first chunk. Without tiles it
 * has read the whole input, which a journal must know. So a run that cannot begin writes nothing.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

/* Returns the place of the worker's tile in BLOCK, whose rows have ROW bytes. */
static char *tile_in(const struct worker *worker, char *block, int64_t row)
{
	return block + worker->tile * worker->run->tiles->tile * row;
}

static enum status read_input(struct worker *worker, void *to, const struct type *type)
{
	struct run *run = worker->run;
	if (run->tiles->tiled) {
		memcpy(to, tile_in(worker, worker->input, run->tiles->input_row), (size_t)type_bytes(type));
		return resume_wanted(run) ? resume_open(worker, type, to) : STATUS_OK;
	}
	if (run->conditions.input.block)
		conditions_take_input(run, to, (size_t)type_bytes(type));
	else
		TRY(reader_read(run->reader, to, type->dtype, shape_count(&type->shape), worker->diags));
	if (run->gradient->options->journal)
		TRY(resume_open(worker, type, to));
	return input_output_begin_outputs(run, worker->diags);
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

enum status input_output_read_seed(const struct worker *worker, void *to, const struct type *type)
{
	const struct run *run = worker->run;
	const bool sliced = run->tiles->tiled && run->tiles->output_row > 0;
	const int64_t row = sliced && !run->tiles->flat ? shape_count(&type->shape) / type->shape.dim[0] : 1;
	return read_cotangent(run, sliced ? worker->first_row * row : 0, to, type, worker->diags);
}

enum status input_output_read_whole_seed(const struct run *run, void *to, const struct type *type)
{
	return read_cotangent(run, 0, to, type, run->context.diags);
}

void input_output_copy_owned(const struct worker *worker, char *to, const char *from, const struct type *type)
{
	const int64_t rows = type->shape.dim[0], row = rows ? type_bytes(type) / rows : 0;
	const struct owned_rows owned = tiles_owned(worker->run->tiles, worker->tile_row, rows);
	memcpy(to, from + owned.first * row, (size_t)(owned.count * row));
}

/* Writes the input's gradient. FROM NULL: it is zero. */
static enum status write_gradient(struct worker *worker, const void *from, const struct type *type)
{
	enum { PIECE = 512 };
	static const double zeros[PIECE];
	const struct run *run = worker->run;
	struct writer *writer = run->gradient->options->gradient;
	const int64_t count = shape_count(&type->shape);
	if (!writer)
		return STATUS_OK;
	if (run->tiles->tiled) {
		char *to = tile_in(worker, worker->gradient, run->tiles->input_row);
		if (from)
			input_output_copy_owned(worker, to, from, type);
		else
			memset(to, 0,
			       (size_t)(tiles_owned(run->tiles, worker->tile_row, worker->rows).count * run->tiles->input_row));
		return STATUS_OK;
	}
	if (from)
		return writer_write(writer, from, type->dtype, count, worker->diags);
	for (int64_t left = count; left > 0; left -= PIECE)
		TRY(writer_write(writer, zeros, type->dtype, left < PIECE ? left : PIECE, worker->diags));
	return STATUS_OK;
}

enum status input_output_exchange(void *context, enum machine_input_output which, int64_t offset,
                                  const struct type *type)
{
	struct worker *worker = context;
	const struct run *run = worker->run;
	wave_run(worker->wave);
	TRY(offset < 0 ? STATUS_OK : watched_reach(worker, offset + type_bytes(type)));
	char *at = offset < 0 ? NULL : worker->slab.base + offset;
	if (which == MACHINE_INPUT || which == MACHINE_SEED)
		neighbours_written(worker->neighbours, at, true);
	if (which == MACHINE_INPUT)
		return read_input(worker, at, type);
	if (which == MACHINE_GRADIENT)
		return write_gradient(worker, at, type);
	if (which == MACHINE_SEED)
		return input_output_read_seed(worker, at, type);
	else if (!run->tiles->tiled)
		return writer_write(run->options->value, at, type->dtype, shape_count(&type->shape), worker->diags);
	else if (run->tiles->output_row > 0) /* else a tile has left a state instead */
		input_output_copy_owned(worker, tile_in(worker, worker->value, run->tiles->output_row), at, type);
	return STATUS_OK;
}

/* Returns the elements, in TYPE's computing type, of ROWS rows of ROW bytes. */
static int64_t elements(const struct type *type, int64_t rows, int64_t row)
{
	return rows * (row / (int64_t)dtype_size(dtype_compute(type->dtype)));
}

static int64_t first_row_of_chunk(const struct tiles *tiles, int64_t chunk)
{
	return chunk * tiles->per_chunk * tiles->tile;
}

enum status input_output_read_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct run *run = context;
	const struct worker *worker = &run->workers[index];
	const struct tiles *tiles = run->tiles;
	const enum dtype dtype = dtype_compute(run->input.dtype);
	const int64_t count = elements(&run->input, tiles_rows_of(tiles, chunk), tiles->input_row);
	if (!worker->input || tiles->carries)
		return STATUS_OK;
	if (tiles->windows)
		return windows_read(context, index, chunk, diags);
	struct input_copy *copy = run->passes.levels && run->passes.copy.fd >= 0 ? &run->passes.copy : NULL;
	const int64_t size = (int64_t)dtype_size(dtype);
	if (copy && copy->complete)
		return input_copy_read(copy, first_row_of_chunk(tiles, chunk) * tiles->input_row, worker->input, count * size,
		                       diags);
	if (!run->read_anywhere)
		TRY(reader_read(run->reader, worker->input, dtype, count, diags));
	if (!run->read_anywhere)
		return copy ? input_copy_write(copy, worker->input, count * size, diags) : STATUS_OK;
	const int64_t first =
		run->input_part.first + elements(&run->input, first_row_of_chunk(tiles, chunk), tiles->input_row);
	return reader_read_at(run->reader, first, worker->input, dtype, count, diags);
}

/* COUNT rows of an array from row FIRST on, of ROW bytes each: they are in memory AT. */
struct computed_rows {
	const char *at;
	int64_t first, count, row;
};

/* Writes ROWS of an array of TYPE, which are the next in order unless the run writes anywhere. */
static enum status write_rows(const struct run *run, struct writer *writer, const struct type *type,
                              const struct computed_rows *rows, struct diags *diags)
{
	const enum dtype dtype = dtype_compute(type->dtype);
	const int64_t first = elements(type, rows->first, rows->row), count = elements(type, rows->count, rows->row);
	return run->write_anywhere || shares_rows(run) ? writer_write_at(writer, first, rows->at, dtype, count, diags)
	                                               : writer_write(writer, rows->at, dtype, count, diags);
}

size_t input_output_rows(const struct worker *worker, int64_t chunk, struct spill_piece rows[2])
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	size_t count = 0;
	if (run->gradient->options->gradient)
		rows[count++] =
			(struct spill_piece){worker->gradient, (size_t)(tiles_rows_of(tiles, chunk) * tiles->input_row)};
	if (worker->value && tiles->output_row > 0)
		rows[count++] =
			(struct spill_piece){worker->value, (size_t)(tiles_owned_output(tiles, chunk).count * tiles->output_row)};
	return count;
}

enum status input_output_put_rows(struct worker *worker, int64_t chunk, struct diags *diags)
{
	struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	struct writer *gradient = worker->gradient ? run->gradient->options->gradient : NULL;
	const struct computed_rows rows = {worker->gradient, first_row_of_chunk(tiles, chunk), tiles_rows_of(tiles, chunk),
	                                   tiles->input_row};
	if (gradient && passes_write(run))
		TRY(write_rows(run, gradient, &run->input, &rows, diags));
	if (!worker->value || !passes_write(run) || tiles->output_row == 0)
		return STATUS_OK;
	const struct owned_rows owned = tiles_owned_output(tiles, chunk);
	const char *value = worker->value + (run->forward ? owned.first * tiles->output_row : 0);
	return input_output_write_rows(run, first_row_of_chunk(tiles, chunk), owned.count, value, diags);
}

enum status input_output_write_rows(struct run *run, int64_t first, int64_t count, const char *from,
                                    struct diags *diags)
{
	const struct computed_rows rows = {from, first, count, run->tiles->output_row};
	return write_rows(run, run->options->value, &run->whole->output, &rows, diags);
}

enum status input_output_write_chunk(struct worker *worker, int64_t chunk, struct diags *diags)
{
	struct run *run = worker->run;
	TRY(input_output_put_rows(worker, chunk, diags));
	if (!passes_fold(run))
		return STATUS_OK;
	TRY(shares_get_state(run, chunk));
	passes_add_chunk(worker, chunk);
	return shares_pass_state(run, chunk);
}

enum status input_output_load_cotangent(struct run *run)
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

void input_output_close_cotangent(struct run *run)
{
	struct gradient_pass *gradient = run->gradient;
	if (gradient->seed_open) {
		reader_free(&gradient->seed);
		input_close(&gradient->seed_input);
	}
	gradient->seed_open = false;
	array_free(&gradient->cotangent, run->context.allocator);
}

/* Reads a stream up to the window, through a worker's memory. */
static enum status reach_window(struct run *run)
{
	const enum dtype dtype = dtype_compute(run->input.dtype);
	const int64_t most = elements(&run->input, tiles_input_rows(run->tiles), run->tiles->input_row);
	for (int64_t left = reader_seekable(run->reader) ? 0 : run->input_part.first; left > 0; left -= most)
		TRY(reader_read(run->reader, run->workers[0].input, dtype, left < most ? left : most, run->context.diags));
	return STATUS_OK;
}

enum status input_output_begin_array(struct run *run)
{
	const bool shared = shares_rows(run), several = run->tiles->workers > 1 || shared;
	const bool seekable = reader_seekable(run->reader);
	TRY(shares_begin_array(run));
	run->read_anywhere = shared || ((run->tiles->windows || tile_journal_wanted(run)) && seekable);
	run->write_anywhere = false;
	if (run->gradient)
		return windows_begin(run);
	run->read_anywhere |= seekable && (run->input_part.part || several);
	run->write_anywhere = several && writer_seekable(run->options->value);
	TRY(reach_window(run));
	TRY(windows_begin(run));
	return run->passes.levels ? STATUS_OK : input_output_begin_outputs(run, run->context.diags);
}

enum status input_output_begin_outputs(struct run *run, struct diags *diags)
{
	run->outputs_begun = true;
	if (run->gradient && run->gradient->options->gradient)
		TRY(writer_begin(run->gradient->options->gradient, &run->input, diags));
	return run->options->value ? writer_begin(run->options->value, &run->whole->output, diags) : STATUS_OK;
}

enum status input_output_end_array(struct run *run)
{
	struct diags *diags = run->context.diags;
	struct writer *gradient = run->gradient ? run->gradient->options->gradient : NULL, *value = run->options->value;
	if (!run->outputs_begun &&
	    shares_rows(run)) /* a rank without a chunk: where the next array goes follows from this one */
		TRY(input_output_begin_outputs(run, diags));
	if (gradient)
		TRY(writer_end(gradient, diags));
	if (value)
		TRY(writer_end(value, diags));
	const bool unread = run->read_anywhere || run->input_part.part || shares_items(run) == 0;
	return unread ? reader_skip(run->reader, diags) : STATUS_OK;
}
