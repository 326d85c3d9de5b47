/*
 * Carries a forward run out, in the tiles that plan/tiles.h cuts it into. Where both
 * ends can be read and written anywhere, chunks go in any order and workers never wait
 * for one another; else the end that is a stream goes in order. What follows a sum of
 * all rows runs once, on its result (exec/after_reduction.h).
 * Everything is allocated before the first byte of output, and an array of the same
 * type as the one before finds all of it ready.
 */
#include "exec/run.h"

#include <pthread.h>
#include <string.h>

#include "base/checked.h"
#include "exec/after_reduction.h"
#include "exec/pipeline.h"
#include "exec/slab.h"
#include "plan/tiles.h"

/* A tile of so many rows, compiled. */
struct tile_program {
	struct lowered lowered;
	struct program program;
	bool passes; /* the output is the input itself */
};

/* A worker's memory. */
struct forward_worker {
	struct slab slab;
	char *in, *out, *workspace;
	double *folds;    /* the state that each tile of a chunk leaves */
	const void **ins; /* by port */
	void **outs;
	const char *result; /* where the chunk's output is: out, or in */
};

/* All that depends on the input's type. */
struct setup {
	struct forward_run *run;
	struct type made_for;
	struct type input; /* of the window: all rows, or those that a chain begins with */
	bool windowed;
	int64_t first; /* element of the array that the window begins with */
	struct arena arena;
	struct lowered whole;
	struct tiles tiles;
	struct tile_program tile, rest; /* REST of the last rows, where tiles do not divide them */
	struct after_reduction after;   /* where they fold */
	struct slab tail_slab;
	double *state; /* of all tiles so far */
	void *after_memory;
	struct team *team; /* who share each operation, where there are no tiles */
	struct bound_param *params;
	struct forward_worker *workers;
	int worker_count;
	int64_t bytes; /* of all array storage, params included */
	bool ready;
};

struct forward_run {
	const struct chain *chain;
	struct params *params;
	struct reader *reader;
	struct writer *writer;
	const struct run_options *options;
	struct run_counters *counters;
	const struct kernels *kernels[2]; /* of F32 and F64, for all tiles */
	struct setup setup;
	bool read_anywhere, write_anywhere;
	pthread_mutex_t progress_lock;
	int64_t rows_done;
};

struct type run_input_type(const struct chain *chain, const struct type *file, enum dtype dtype)
{
	struct type type = *file;
	if (chain->input_type.given)
		type.dtype = chain->input_type.type.dtype;
	if (dtype != DTYPE_COUNT)
		type.dtype = dtype;
	if (type.dtype > DTYPE_F64)
		type.dtype = DTYPE_F64;
	return type;
}

void run_follow_format(struct writer *writer, const struct reader *reader)
{
	if (writer->options.format == FORMAT_AUTO)
		writer->options.format = reader->format;
	writer->options.layout = reader->layout;
}

/* Set-up. */

static enum status compile(struct setup *setup, struct tile_program *tile, int64_t rows, struct diags *diags)
{
	struct type input = setup->input;
	if (setup->tiles.flat) {
		input.shape.ndim = 1;
		input.shape.dim[0] = setup->tiles.rows;
	}
	const struct context context = {setup->arena.allocator, &setup->arena, diags};
	enum status status = STATUS_OK;
	if (setup->tiles.tiled)
		status = lower_tile(&context, &tile->lowered, &setup->whole, &input, LOWER_RUN, rows);
	else
		tile->lowered = setup->whole;
	if (status)
		return status;
	const struct body *body = tile->lowered.whole;
	if (setup->tiles.folds)
		body = after_head(body, setup->whole.fold, &setup->arena);
	if (!body)
		return diag_memory(diags);
	tile->passes = body->values[body->outs[0].value].from == FROM_PORT;
	return program_compile(&context, &tile->program, body, NULL);
}

static enum status open_tail(struct setup *setup, struct diags *diags)
{
	enum status status = after_compile(&setup->after, &setup->whole, &setup->arena, diags);
	if (status)
		return status;
	const int64_t state = round_up(setup->after.size * (int64_t)sizeof(double), ARRAY_ALIGN);
	const int64_t bytes = state + after_bytes(&setup->after);
	status = slab_get(&setup->tail_slab, bytes, setup->run->options->allocator, diags);
	if (status)
		return status;
	setup->state = (double *)(void *)setup->tail_slab.base;
	setup->after_memory = setup->tail_slab.base + state;
	setup->bytes += bytes;
	return STATUS_OK;
}

static enum status open_worker(struct setup *setup, struct forward_worker *worker, struct diags *diags)
{
	const struct program *a = &setup->tile.program, *b = &setup->rest.program;
	const struct tiles *tiles = &setup->tiles;
	const int64_t chunk = tiles->tile * tiles->per_chunk;
	int64_t in = round_up(chunk * tiles->input_row, ARRAY_ALIGN);
	int64_t out = round_up(chunk * tiles->output_row, ARRAY_ALIGN);
	if (tiles->folds) /* the evaluator is given a place for the result, though its state goes elsewhere */
		out = round_up(type_bytes(&setup->after.folded), ARRAY_ALIGN);
	int64_t workspace = round_up(a->workspace > b->workspace ? a->workspace : b->workspace, ARRAY_ALIGN);
	int64_t folds = tiles->folds ? tiles->per_chunk * setup->after.size * (int64_t)sizeof(double) : 0;
	size_t ports = setup->tile.lowered.whole->in_count + 1;
	worker->ins = arena_array(&setup->arena, ports, sizeof *worker->ins);
	worker->outs = arena_array(&setup->arena, 1, sizeof *worker->outs);
	if (!worker->ins || !worker->outs)
		return diag_memory(diags);
	enum status status = slab_get(&worker->slab, in + out + workspace + folds, setup->run->options->allocator, diags);
	if (status && tiles->tiled)
		diag_hint(diags, "smaller tiles (--tile ROWS) may fit");
	if (status)
		return status;
	worker->in = worker->slab.base;
	worker->out = worker->in + in;
	worker->workspace = worker->out + out;
	worker->folds = (double *)(void *)(worker->workspace + workspace);
	setup->bytes += in + out + workspace + folds;
	return STATUS_OK;
}

static enum status open_workers(struct setup *setup, struct diags *diags)
{
	const int count = setup->tiles.workers;
	setup->workers = arena_array(&setup->arena, (size_t)count, sizeof *setup->workers);
	if (!setup->workers)
		return diag_memory(diags);
	enum status status = STATUS_OK;
	for (; setup->worker_count < count && status == STATUS_OK; setup->worker_count++)
		status = open_worker(setup, &setup->workers[setup->worker_count], diags);
	return status;
}

static enum status aim_params(struct setup *setup, struct diags *diags)
{
	const struct params *params = setup->run->params;
	setup->params = arena_array(&setup->arena, params->count + 1, sizeof *setup->params);
	if (!setup->params)
		return diag_memory(diags);
	for (size_t i = 0; i < params->count; i++) {
		setup->params[i] = params->bound[i];
		setup->params[i].streamed = setup->tiles.tiled && setup->whole.streamed_params[i];
	}
	return STATUS_OK;
}

static void close_setup(struct setup *setup)
{
	const struct allocator *allocator = setup->run->options->allocator;
	for (int i = 0; i < setup->worker_count; i++)
		slab_put(&setup->workers[i].slab, allocator);
	slab_put(&setup->tail_slab, allocator);
	team_close(setup->team);
	setup->team = NULL;
	arena_free(&setup->arena);
	setup->worker_count = 0;
	setup->ready = false;
}

static enum status open_team(struct setup *setup, struct diags *diags)
{
	const struct forward_run *run = setup->run;
	const struct program *program = &setup->tile.program;
	const int64_t each = round_up(program->member, ARRAY_ALIGN);
	const int members = setup->tiles.tiled ? 1 : team_members(run->options->threads, program->widest, each);
	if (members == 1)
		return STATUS_OK;
	setup->team = team_open(members, each, run->options->allocator);
	setup->bytes += (members - 1) * each;
	return setup->team ? STATUS_OK : diag_memory(diags);
}

/*
 * The rows that a chain begins with are all that is read, and the slice that takes them is
 * left out of PORTION; but all are where the output is written over the input, whose rows
 * may then be fewer and longer.
 */
static void open_window(struct setup *setup, struct portion *portion)
{
	struct shape *shape = &setup->input.shape;
	struct slice rows;
	if (setup->run->writer->options.reader || !tiles_window(setup->run->chain, &setup->input, &rows))
		return;
	setup->windowed = true;
	setup->first = rows.start * (shape_count(shape) / shape->dim[0]);
	shape->dim[0] = rows.count;
	portion->before = 1;
}

static enum status make_setup(struct setup *setup, struct forward_run *run, const struct type *input,
                              struct diags *diags)
{
	*setup = (struct setup){.run = run, .made_for = *input, .input = *input};
	struct portion portion = run->options->portion;
	arena_init(&setup->arena, run->options->allocator);
	open_window(setup, &portion);
	params_settle(run->params, run->chain, dtype_compute(input->dtype));
	setup->bytes = run->params->bytes;
	const struct context context = {setup->arena.allocator, &setup->arena, diags};
	enum status status = lower(&context, &setup->whole, run->chain, &portion, &setup->input, LOWER_RUN);
	if (status == STATUS_OK)
		status = params_check(run->params, setup->whole.whole, run->chain, diags);
	if (status)
		return status;
	const struct tile_wants wants = {.rows = run->options->tile,
	                                 .threads = run->options->threads,
	                                 .read_anywhere = reader_seekable(run->reader),
	                                 .write_anywhere = writer_seekable(run->writer)};
	tiles_cut(&setup->tiles, &setup->whole, &wants);
	const int64_t rest = setup->tiles.rest;
	status = compile(setup, &setup->tile, setup->tiles.tile, diags);
	if (status == STATUS_OK && rest)
		status = compile(setup, &setup->rest, rest, diags);
	if (status == STATUS_OK && setup->tiles.folds)
		status = open_tail(setup, diags);
	if (status == STATUS_OK)
		status = aim_params(setup, diags);
	if (status == STATUS_OK && (setup->tile.program.uses_gemm || setup->after.program.uses_gemm))
		status = blas_load(diags);
	if (status == STATUS_OK)
		status = open_workers(setup, diags);
	if (status == STATUS_OK)
		status = open_team(setup, diags);
	setup->ready = status == STATUS_OK;
	return status;
}

/* The steps of a chunk. */

static enum status take_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct forward_run *run = context;
	const struct setup *setup = &run->setup;
	enum dtype compute = dtype_compute(setup->input.dtype);
	int64_t count = tiles_rows_of(&setup->tiles, chunk) * setup->tiles.input_row / (int64_t)dtype_size(compute);
	if (run->read_anywhere)
		return reader_read_at(run->reader,
		                      setup->first + chunk * setup->tiles.tile * setup->tiles.per_chunk *
		                                         setup->tiles.input_row / (int64_t)dtype_size(compute),
		                      setup->workers[index].in, compute, count, diags);
	return reader_read(run->reader, setup->workers[index].in, compute, count, diags);
}

static void run_tile(const struct setup *setup, struct forward_worker *worker, int64_t chunk, int64_t row, int64_t rows)
{
	static const int64_t counters[MAX_LOOPS];
	const struct tiles *tiles = &setup->tiles;
	const struct tile_program *tile = rows == tiles->tile ? &setup->tile : &setup->rest;
	const struct forward_run *run = setup->run;
	const char *in = worker->in + row * tiles->input_row;
	char *out = worker->out + row * tiles->output_row;
	double *fold = tiles->folds ? worker->folds + row / tiles->tile * setup->after.size : NULL;
	if (tile->passes) {
		worker->result = worker->in;
		return;
	}
	worker->result = worker->out;
	for (size_t i = 0; i < tile->lowered.whole->in_count; i++)
		worker->ins[i] = in;
	worker->outs[0] = out;
	struct evaluation evaluation = {.program = &tile->program,
	                                .ins = worker->ins,
	                                .outs = worker->outs,
	                                .params = setup->params,
	                                .counters = counters,
	                                .workspace = worker->workspace,
	                                .first_row = chunk * tiles->tile * tiles->per_chunk + row,
	                                .whole_rows = tiles->tiled ? tiles->rows : setup->whole.whole_rows,
	                                .flat = tiles->flat,
	                                .team = setup->team,
	                                .fold = fold,
	                                .fold_ends = true,
	                                .kernels = {run->kernels[0], run->kernels[1]}};
	evaluate(&evaluation);
}

static enum status compute_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	(void)diags;
	struct forward_run *run = context;
	const struct setup *setup = &run->setup;
	int64_t all = tiles_rows_of(&setup->tiles, chunk);
	for (int64_t row = 0; row < all; row += setup->tiles.tile)
		run_tile(setup, &setup->workers[index], chunk, row,
		         all - row < setup->tiles.tile ? all - row : setup->tiles.tile);
	return STATUS_OK;
}

static void add_folds(struct setup *setup, const struct forward_worker *worker, int64_t tiles)
{
	const struct after_reduction *after = &setup->after;
	for (int64_t tile = 0; tile < tiles; tile++)
		fold_add(after->fold->op, setup->state, worker->folds + tile * after->size, after->count);
}

static void note_progress(struct forward_run *run, int64_t rows)
{
	if (!run->options->progress)
		return;
	pthread_mutex_lock(&run->progress_lock);
	run->rows_done += rows;
	run->options->progress(run->options->progress_context, run->rows_done, run->setup.tiles.rows);
	pthread_mutex_unlock(&run->progress_lock);
}

static enum status give_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct forward_run *run = context;
	struct setup *setup = &run->setup;
	const struct forward_worker *worker = &setup->workers[index];
	int64_t rows = tiles_rows_of(&setup->tiles, chunk),
			count = rows * setup->tiles.output_row / (int64_t)dtype_size(dtype_compute(setup->whole.output.dtype));
	enum dtype compute = dtype_compute(setup->whole.output.dtype);
	enum status status = STATUS_OK;
	if (setup->tiles.folds)
		add_folds(setup, worker, (rows + setup->tiles.tile - 1) / setup->tiles.tile);
	else if (run->write_anywhere)
		status = writer_write_at(run->writer,
		                         chunk * setup->tiles.tile * setup->tiles.per_chunk * setup->tiles.output_row /
		                             (int64_t)dtype_size(compute),
		                         worker->result, compute, count, diags);
	else
		status = writer_write(run->writer, worker->result, compute, count, diags);
	note_progress(run, rows);
	return status;
}

static enum status write_folded(struct forward_run *run, struct diags *diags)
{
	const struct setup *setup = &run->setup;
	const struct type *type = &setup->after.output;
	const void *out = after_run(&setup->after, setup->state, setup->tiles.rows, setup->params,
	                            run->options->flush_denormals, setup->after_memory);
	return writer_write(run->writer, out, type->dtype, shape_count(&type->shape), diags);
}

/* Reads a stream up to the window, through a worker's memory. */
static enum status pass_rows(struct forward_run *run, struct diags *diags)
{
	const struct setup *setup = &run->setup;
	const int64_t most = setup->tiles.tile * setup->tiles.per_chunk * setup->tiles.input_row /
	                     (int64_t)dtype_size(dtype_compute(setup->input.dtype));
	enum status status = STATUS_OK;
	for (int64_t left = setup->first, count; left > 0 && status == STATUS_OK; left -= count) {
		count = left < most ? left : most;
		status = reader_read(run->reader, setup->workers[0].in, dtype_compute(setup->input.dtype), count, diags);
	}
	return status;
}

static void count_array(const struct forward_run *run)
{
	const struct setup *setup = &run->setup;
	const struct tiles *tiles = &setup->tiles;
	struct run_counters *counters = run->counters;
	const int64_t per_row = tiles->flat ? tiles->rows / setup->whole.whole_rows : 1;
	counters->arrays++;
	counters->tiles += tiles->tiled ? (tiles->rows + tiles->tile - 1) / tiles->tile : 1;
	counters->tile_rows = tiles->tiled ? (tiles->tile + per_row - 1) / per_row : setup->whole.whole_rows;
}

static enum status run_array(struct forward_run *run, struct diags *diags)
{
	struct setup *setup = &run->setup;
	const struct tiles *tiles = &setup->tiles;
	enum status status = writer_begin(run->writer, &setup->whole.output, diags);
	if (status)
		return status;
	int64_t chunks = tiles_chunks(tiles);
	const bool seekable = reader_seekable(run->reader);
	run->read_anywhere = seekable && (setup->windowed || (chunks > 1 && setup->worker_count > 1));
	run->write_anywhere = chunks > 1 && setup->worker_count > 1 && !tiles->folds && writer_seekable(run->writer);
	run->rows_done = 0;
	if (tiles->folds)
		fold_begin(setup->after.fold->op, setup->state, setup->after.count);
	struct pipeline pipeline = {.items = chunks,
	                            .workers = setup->worker_count,
	                            .take_in_order = !run->read_anywhere,
	                            .give_in_order = !run->write_anywhere,
	                            .take = take_chunk,
	                            .compute = compute_chunk,
	                            .give = give_chunk,
	                            .context = run,
	                            .flush_denormals = run->options->flush_denormals,
	                            .allocator = run->options->allocator};
	if (!seekable)
		status = pass_rows(run, diags);
	if (status == STATUS_OK)
		status = pipeline_run(&pipeline, diags);
	if (status == STATUS_OK && tiles->folds)
		status = write_folded(run, diags);
	if (status == STATUS_OK)
		status = writer_end(run->writer, diags);
	if (status == STATUS_OK && (run->read_anywhere || setup->windowed))
		status = reader_skip(run->reader, diags);
	count_array(run);
	return status;
}

static enum status run_arrays(struct forward_run *run, struct diags *diags)
{
	for (;;) {
		bool end = false;
		enum status status = reader_next(run->reader, &end, diags);
		if (status || end)
			return status;
		run_follow_format(run->writer, run->reader);
		struct type input = run_input_type(run->chain, &run->reader->type, run->options->dtype);
		if (!run->setup.ready || !type_equal(&run->setup.made_for, &input)) {
			if (run->setup.ready)
				close_setup(&run->setup);
			status = make_setup(&run->setup, run, &input, diags);
			if (status) {
				close_setup(&run->setup);
				return status;
			}
		}
		int64_t bytes = run->setup.bytes + (int64_t)run->reader->held_size;
		if (bytes > run->counters->peak_bytes)
			run->counters->peak_bytes = bytes;
		status = run_array(run, diags);
		if (status)
			return status;
	}
}

enum status run_forward(const struct chain *chain, struct params *params, struct reader *reader, struct writer *writer,
                        const struct run_options *options, struct run_counters *counters, struct diags *diags)
{
	memset(counters, 0, sizeof *counters);
	struct forward_run run = {.chain = chain,
	                          .params = params,
	                          .reader = reader,
	                          .writer = writer,
	                          .options = options,
	                          .counters = counters,
	                          .kernels = {kernels_get(DTYPE_F32), kernels_get(DTYPE_F64)}};
	pthread_mutex_init(&run.progress_lock, NULL);
	enum status status = run_arrays(&run, diags);
	if (run.setup.ready)
		close_setup(&run.setup);
	pthread_mutex_destroy(&run.progress_lock);
	return status;
}
