/*
 * Decides how a forward run is cut up. Three nested pieces of the streamed axis:
 *
 *     chunk   what a worker reads, computes and writes at a time: sized for I/O
 *     tile    what the program runs on: sized for the second-level cache
 *     block   where there is a sum, or the like, over the axis: what is summed on its
 *             own; then the tile is the block, and depends on the chain and its types
 *             alone, so that no option changes a bit of the sum
 *
 * Where both ends can be read and written anywhere, chunks go in any order and
 * workers never wait for one another; else the end that is a stream goes in order.
 * What follows such a sum runs once, on its result (exec/tail.h). A chain that is
 * not streamable else is one chunk and one tile, the whole array.
 * Everything is allocated before the first byte of output, and an array of the
 * same type as the one before finds all of it ready.
 */
#include "exec/run.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/checked.h"
#include "exec/pipeline.h"
#include "exec/slab.h"
#include "exec/tail.h"
#include "plan/tile.h"

enum {
	STREAM_CHUNK = 128 << 10, /* bytes of input or output, whichever is more: as much as cat writes at a time */
	FILE_CHUNK = 1 << 20,
	TILE_CACHE = 256 << 10, /* bytes of a tile's values */
	PRODUCT_CACHE = 8 << 20,
	PRODUCT_LEAST = 64, /* rows of a matrix */
	PRODUCT_MOST = 512,
	PARTIALS = 1 << 18, /* bytes of partial sums in a chunk */
};

/* One size of tile, compiled. */
struct tile_program {
	int64_t rows;
	struct lowered lowered;
	struct program program;
	bool passes; /* the output is the input itself */
};

/* A worker's memory. */
struct forward_lane {
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
	struct portion portion; /* of the chain: without the slice that the window is */
	struct type input;      /* of the window: all rows, or those that a chain begins with */
	bool windowed;
	int64_t first; /* element of the array that the window begins with */
	struct arena arena;
	struct lowered whole;
	struct tile_program tile, rest; /* rest.rows 0: the rows divide */
	bool tiled, flat, folds;
	int64_t rows;            /* of the streamed axis, or elements; 1 where not tiled */
	int64_t chunk;           /* rows; a multiple of tile.rows but where it is all of them */
	int64_t in_row, out_row; /* elements */
	struct tail tail;        /* where FOLDS */
	struct slab tail_slab;
	double *state; /* of all tiles so far */
	void *tail_memory;
	struct team *team; /* who share each operation, where there are no tiles */
	struct bound_param *params;
	struct forward_lane *lanes;
	int lane_count;
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

/* Bytes of COUNT elements of TYPE, as they are computed. */
static int64_t held_bytes(const struct type *type, int64_t count)
{
	return count * (int64_t)dtype_size(dtype_compute(type->dtype));
}

/* Pieces. */

static bool only_elements(const struct body *body)
{
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_OP && op_table[instr->op].scope != SCOPE_ELEM)
			return false;
	}
	return true;
}

/* Rows of a tile that stays in cache while a chain of row-wise operations runs on it. */
static int64_t cached_rows(const struct setup *setup)
{
	const struct body *body = setup->whole.whole;
	struct tile_row row = {0};
	double widest = (double)type_bytes(&setup->whole.input);
	tile_measure(&row, body);
	for (size_t i = 0; i < body->value_count; i++)
		if (body->values[i].streamed && (double)type_bytes(body->values[i].type) > widest)
			widest = (double)type_bytes(body->values[i].type);
	const double rows = (row.products ? PRODUCT_CACHE : TILE_CACHE) / (3 * widest / (double)setup->rows);
	const int64_t least = tile_rows_of_products(&row, PRODUCT_LEAST);
	const int64_t most = least ? tile_rows_of_products(&row, PRODUCT_MOST) : setup->rows;
	return (int64_t)fmax(fmin(rows, (double)most), (double)(least ? least : 1));
}

/*
 * Rows of a block of sums. That of a gradient where it has the same; else so many that
 * putting a block's state to the total is little beside making it.
 */
static int64_t fold_block(const struct setup *setup)
{
	enum { TIMES = 16 };
	const struct lowered *whole = &setup->whole;
	const int64_t block = tile_block_of(whole, whole->whole_rows);
	const double row = (double)type_bytes(&whole->input) / (double)whole->whole_rows;
	const double least =
		fmin(TIMES * (double)sizeof(double) * (double)setup->tail.size / row, (double)whole->whole_rows);
	return whole->streamable || (double)block > least ? block : (int64_t)least;
}

/* Sets chunk, and returns the rows of a tile. */
static int64_t choose_pieces(struct setup *setup)
{
	const struct forward_run *run = setup->run;
	int64_t in = held_bytes(&setup->input, setup->in_row);
	int64_t out = held_bytes(&setup->whole.output, setup->out_row);
	int64_t row = in > out ? in : out, wanted = run->options->tile;
	if (wanted >= setup->input.shape.dim[0])
		wanted = setup->rows;
	else if (setup->flat)
		wanted *= setup->rows / setup->input.shape.dim[0];
	int64_t bytes =
		reader_seekable(run->reader) && (setup->folds || writer_seekable(run->writer)) ? FILE_CHUNK : STREAM_CHUNK;
	int64_t chunk = bytes / (row > 0 ? row : 1), tile;
	if (chunk < 1)
		chunk = 1;
	if (setup->folds)
		tile = fold_block(setup);
	else if (wanted && !tile_multiplies(setup->whole.whole))
		tile = chunk = wanted;
	else
		tile = only_elements(setup->whole.whole) ? chunk : cached_rows(setup);
	if (wanted)
		chunk = wanted;
	if (tile > setup->rows)
		tile = setup->rows;
	if (chunk > setup->rows)
		chunk = setup->rows;
	int64_t tiles = (chunk + tile - 1) / tile;
	const int64_t most = setup->folds ? PARTIALS / (int64_t)sizeof(double) / (setup->tail.size + 1) : tiles;
	if (tiles > most)
		tiles = most > 1 ? most : 1;
	setup->chunk = tiles * tile;
	return tile;
}

static const struct value *output_value(const struct body *body) { return &body->values[body->outs[0].value]; }

/* Set-up. */

static enum status compile(struct setup *setup, struct tile_program *tile, int64_t rows, struct diags *diags)
{
	struct type input = setup->input;
	if (setup->flat) {
		input.shape.ndim = 1;
		input.shape.dim[0] = setup->rows;
	}
	tile->rows = rows;
	enum status status = STATUS_OK;
	if (setup->tiled)
		status = lower_tile(&tile->lowered, &setup->whole, &input, LOWER_RUN, rows, &setup->arena, diags);
	else
		tile->lowered = setup->whole;
	if (status)
		return status;
	const struct body *body = tile->lowered.whole;
	if (setup->folds)
		body = tail_head(body, setup->whole.fold, &setup->arena);
	if (!body)
		return diag_memory(diags);
	tile->passes = output_value(body)->from == FROM_PORT;
	return program_compile(&tile->program, body, NULL, &setup->arena, diags);
}

static enum status open_tail(struct setup *setup, struct diags *diags)
{
	enum status status = tail_compile(&setup->tail, &setup->whole, &setup->arena, diags);
	if (status)
		return status;
	const int64_t state = round_up(setup->tail.size * (int64_t)sizeof(double), ARRAY_ALIGN);
	const int64_t bytes = state + tail_bytes(&setup->tail);
	status = slab_get(&setup->tail_slab, bytes, setup->run->options->allocator, diags);
	if (status)
		return status;
	setup->state = (double *)(void *)setup->tail_slab.base;
	setup->tail_memory = setup->tail_slab.base + state;
	setup->bytes += bytes;
	return STATUS_OK;
}

static enum status open_lane(struct setup *setup, struct forward_lane *lane, struct diags *diags)
{
	const struct program *a = &setup->tile.program, *b = &setup->rest.program;
	int64_t in = round_up(held_bytes(&setup->input, setup->chunk * setup->in_row), ARRAY_ALIGN);
	int64_t out = round_up(held_bytes(&setup->whole.output, setup->chunk * setup->out_row), ARRAY_ALIGN);
	if (setup->folds) /* the evaluator is given a place for the result, though its state goes elsewhere */
		out = round_up(type_bytes(&setup->tail.folded), ARRAY_ALIGN);
	int64_t workspace = round_up(a->workspace > b->workspace ? a->workspace : b->workspace, ARRAY_ALIGN);
	int64_t folds = setup->folds ? setup->chunk / setup->tile.rows * setup->tail.size * (int64_t)sizeof(double) : 0;
	size_t ports = setup->tile.lowered.whole->in_count + 1;
	lane->ins = arena_array(&setup->arena, ports, sizeof *lane->ins);
	lane->outs = arena_array(&setup->arena, 1, sizeof *lane->outs);
	if (!lane->ins || !lane->outs)
		return diag_memory(diags);
	enum status status = slab_get(&lane->slab, in + out + workspace + folds, setup->run->options->allocator, diags);
	if (status && setup->tiled)
		diag_hint(diags, "smaller tiles (--tile ROWS) may fit");
	if (status)
		return status;
	lane->in = lane->slab.base;
	lane->out = lane->in + in;
	lane->workspace = lane->out + out;
	lane->folds = (double *)(void *)(lane->workspace + workspace);
	setup->bytes += in + out + workspace + folds;
	return STATUS_OK;
}

static enum status open_lanes(struct setup *setup, struct diags *diags)
{
	const struct forward_run *run = setup->run;
	int64_t chunks = (setup->rows + setup->chunk - 1) / setup->chunk;
	int count = chunks < run->options->threads ? (int)chunks : run->options->threads;
	if (count < 1)
		count = 1;
	setup->lanes = arena_array(&setup->arena, (size_t)count, sizeof *setup->lanes);
	if (!setup->lanes)
		return diag_memory(diags);
	enum status status = STATUS_OK;
	for (; setup->lane_count < count && status == STATUS_OK; setup->lane_count++)
		status = open_lane(setup, &setup->lanes[setup->lane_count], diags);
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
		setup->params[i].streamed = setup->tiled && setup->whole.streamed_params[i];
	}
	return STATUS_OK;
}

/* What is known of the whole array decides whether there are tiles. */
static void choose_mode(struct setup *setup)
{
	const struct lowered *whole = &setup->whole;
	int64_t in = shape_count(&setup->input.shape), out = shape_count(&whole->output.shape);
	setup->folds = in > 0 && whole->fold != NO_VALUE;
	if (setup->folds)
		tail_find(&setup->tail, whole);
	if (setup->folds && !whole->streamable && fold_block(setup) >= whole->whole_rows)
		setup->folds = false; /* one block is the whole */
	setup->tiled =
		setup->folds || (in > 0 && whole->streamable && !whole->sums && output_value(whole->whole)->from != FROM_PARAM);
	setup->flat = setup->tiled && whole->flat;
	setup->rows = !setup->tiled ? 1 : setup->flat ? in : whole->whole_rows;
	setup->in_row = in / setup->rows;
	setup->out_row = setup->folds ? 0 : out / setup->rows;
}

static void close_setup(struct setup *setup)
{
	const struct allocator *allocator = setup->run->options->allocator;
	for (int i = 0; i < setup->lane_count; i++)
		slab_put(&setup->lanes[i].slab, allocator);
	slab_put(&setup->tail_slab, allocator);
	team_close(setup->team);
	setup->team = NULL;
	arena_free(&setup->arena);
	setup->lane_count = 0;
	setup->ready = false;
}

static enum status open_team(struct setup *setup, struct diags *diags)
{
	const struct forward_run *run = setup->run;
	const struct program *program = &setup->tile.program;
	const int64_t each = round_up(program->member, ARRAY_ALIGN);
	const int members = setup->tiled ? 1 : team_members(run->options->threads, program->widest, each);
	if (members == 1)
		return STATUS_OK;
	setup->team = team_open(members, each, run->options->allocator);
	setup->bytes += (members - 1) * each;
	return setup->team ? STATUS_OK : diag_memory(diags);
}

/* The slice of rows that CHAIN begins with, where it has no other use for an input of NDIM axes nor for how long it is; or NULL. */
static const struct attrs *first_rows(const struct chain *chain, int ndim)
{
	const struct node *first = chain->first;
	const struct declared *declared = &chain->input_type;
	int axis;
	const bool is = first && first->kind == NODE_OP && first->op == OP_slice && !first->late &&
	                first->attrs->step == 1 && axis_resolve(first->attrs->axis[0], ndim, &axis) && axis == 0 &&
	                !chain->names_input && (!declared->given || declared->type.shape.dim[0] == -1);
	return is ? first->attrs : NULL;
}

/*
 * The rows that a chain begins with are all that is read; but all are where the output is
 * written over the input, whose rows may then be fewer and longer.
 */
static void choose_window(struct setup *setup)
{
	struct shape *shape = &setup->input.shape;
	const struct attrs *attrs = first_rows(setup->run->chain, shape->ndim);
	if (setup->run->writer->options.reader || !attrs)
		return;
	const struct slice slice = slice_of(attrs, shape->dim[0]);
	if (slice.count == 0)
		return;
	setup->windowed = true;
	setup->first = slice.start * (shape_count(shape) / shape->dim[0]);
	shape->dim[0] = slice.count;
	setup->portion.before = 1;
}

static enum status make_setup(struct setup *setup, struct forward_run *run, const struct type *input,
                              struct diags *diags)
{
	*setup = (struct setup){.run = run, .made_for = *input, .input = *input, .portion = run->options->portion};
	arena_init(&setup->arena, run->options->allocator);
	choose_window(setup);
	params_settle(run->params, run->chain, dtype_compute(input->dtype));
	setup->bytes = run->params->bytes;
	enum status status =
		lower(&setup->whole, run->chain, &setup->portion, &setup->input, LOWER_RUN, &setup->arena, diags);
	if (status == STATUS_OK)
		status = params_check(run->params, setup->whole.whole, run->chain, diags);
	if (status)
		return status;
	choose_mode(setup);
	setup->chunk = 1;
	int64_t rows = setup->tiled ? choose_pieces(setup) : 1;
	status = compile(setup, &setup->tile, rows, diags);
	if (status == STATUS_OK && setup->rows % rows)
		status = compile(setup, &setup->rest, setup->rows % rows, diags);
	if (status == STATUS_OK && setup->folds)
		status = open_tail(setup, diags);
	if (status == STATUS_OK)
		status = aim_params(setup, diags);
	if (status == STATUS_OK && (setup->tile.program.uses_gemm || setup->tail.program.uses_gemm))
		status = blas_load(diags);
	if (status == STATUS_OK)
		status = open_lanes(setup, diags);
	if (status == STATUS_OK)
		status = open_team(setup, diags);
	setup->ready = status == STATUS_OK;
	return status;
}

/* The steps of a chunk. */

static int64_t chunk_rows(const struct setup *setup, int64_t chunk)
{
	int64_t left = setup->rows - chunk * setup->chunk;
	return left < setup->chunk ? left : setup->chunk;
}

static enum status take_chunk(void *context, int worker, int64_t chunk, struct diags *diags)
{
	struct forward_run *run = context;
	const struct setup *setup = &run->setup;
	enum dtype compute = dtype_compute(setup->input.dtype);
	int64_t count = chunk_rows(setup, chunk) * setup->in_row;
	if (run->read_anywhere)
		return reader_read_at(run->reader, setup->first + chunk * setup->chunk * setup->in_row, setup->lanes[worker].in,
		                      compute, count, diags);
	return reader_read(run->reader, setup->lanes[worker].in, compute, count, diags);
}

static void run_tile(const struct setup *setup, struct forward_lane *lane, int64_t chunk, int64_t row, int64_t rows)
{
	static const int64_t counters[MAX_LOOPS];
	const struct tile_program *tile = rows == setup->tile.rows ? &setup->tile : &setup->rest;
	const char *in = lane->in + held_bytes(&setup->input, row * setup->in_row);
	char *out = lane->out + held_bytes(&setup->whole.output, row * setup->out_row);
	double *fold = setup->folds ? lane->folds + row / setup->tile.rows * setup->tail.size : NULL;
	if (tile->passes) {
		lane->result = lane->in;
		return;
	}
	lane->result = lane->out;
	for (size_t i = 0; i < tile->lowered.whole->in_count; i++)
		lane->ins[i] = in;
	lane->outs[0] = out;
	struct evaluation evaluation = {.program = &tile->program,
	                                .ins = lane->ins,
	                                .outs = lane->outs,
	                                .params = setup->params,
	                                .counters = counters,
	                                .workspace = lane->workspace,
	                                .first_row = chunk * setup->chunk + row,
	                                .whole_rows = setup->tiled ? setup->rows : setup->whole.whole_rows,
	                                .flat = setup->flat,
	                                .team = setup->team,
	                                .fold = fold,
	                                .fold_ends = true};
	evaluate(&evaluation);
}

static enum status compute_chunk(void *context, int worker, int64_t chunk, struct diags *diags)
{
	(void)diags;
	struct forward_run *run = context;
	const struct setup *setup = &run->setup;
	int64_t all = chunk_rows(setup, chunk);
	for (int64_t row = 0; row < all; row += setup->tile.rows)
		run_tile(setup, &setup->lanes[worker], chunk, row, all - row < setup->tile.rows ? all - row : setup->tile.rows);
	return STATUS_OK;
}

static void add_folds(struct setup *setup, const struct forward_lane *lane, int64_t tiles)
{
	const struct tail *tail = &setup->tail;
	for (int64_t tile = 0; tile < tiles; tile++)
		fold_add(tail->fold->op, setup->state, lane->folds + tile * tail->size, tail->count);
}

static void note_progress(struct forward_run *run, int64_t rows)
{
	if (!run->options->progress)
		return;
	pthread_mutex_lock(&run->progress_lock);
	run->rows_done += rows;
	run->options->progress(run->options->progress_context, run->rows_done, run->setup.rows);
	pthread_mutex_unlock(&run->progress_lock);
}

static enum status give_chunk(void *context, int worker, int64_t chunk, struct diags *diags)
{
	struct forward_run *run = context;
	struct setup *setup = &run->setup;
	const struct forward_lane *lane = &setup->lanes[worker];
	int64_t rows = chunk_rows(setup, chunk), count = rows * setup->out_row;
	enum dtype compute = dtype_compute(setup->whole.output.dtype);
	enum status status = STATUS_OK;
	if (setup->folds)
		add_folds(setup, lane, (rows + setup->tile.rows - 1) / setup->tile.rows);
	else if (run->write_anywhere)
		status =
			writer_write_at(run->writer, chunk * setup->chunk * setup->out_row, lane->result, compute, count, diags);
	else
		status = writer_write(run->writer, lane->result, compute, count, diags);
	note_progress(run, rows);
	return status;
}

static enum status write_folded(struct forward_run *run, struct diags *diags)
{
	const struct setup *setup = &run->setup;
	const struct type *type = &setup->tail.output;
	const void *out = tail_run(&setup->tail, setup->state, setup->rows, setup->params, setup->tail_memory);
	return writer_write(run->writer, out, type->dtype, shape_count(&type->shape), diags);
}

/* Reads a stream up to the window, through a worker's memory. */
static enum status pass_rows(struct forward_run *run, struct diags *diags)
{
	const struct setup *setup = &run->setup;
	const int64_t most = setup->chunk * setup->in_row;
	enum status status = STATUS_OK;
	for (int64_t left = setup->first, count; left > 0 && status == STATUS_OK; left -= count) {
		count = left < most ? left : most;
		status = reader_read(run->reader, setup->lanes[0].in, dtype_compute(setup->input.dtype), count, diags);
	}
	return status;
}

static enum status run_array(struct forward_run *run, struct diags *diags)
{
	struct setup *setup = &run->setup;
	enum status status = writer_begin(run->writer, &setup->whole.output, diags);
	if (status)
		return status;
	int64_t chunks = (setup->rows + setup->chunk - 1) / setup->chunk;
	const bool seekable = reader_seekable(run->reader);
	run->read_anywhere = seekable && (setup->windowed || (chunks > 1 && setup->lane_count > 1));
	run->write_anywhere = chunks > 1 && setup->lane_count > 1 && !setup->folds && writer_seekable(run->writer);
	run->rows_done = 0;
	if (setup->folds)
		fold_begin(setup->tail.fold->op, setup->state, setup->tail.count);
	struct pipeline pipeline = {.items = chunks,
	                            .workers = setup->lane_count,
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
	if (status == STATUS_OK && setup->folds)
		status = write_folded(run, diags);
	if (status == STATUS_OK)
		status = writer_end(run->writer, diags);
	if (status == STATUS_OK && (run->read_anywhere || setup->windowed))
		status = reader_skip(run->reader, diags);
	run->counters->arrays++;
	run->counters->tiles += setup->tiled ? (setup->rows + setup->tile.rows - 1) / setup->tile.rows : 1;
	int64_t per_row = setup->flat ? setup->rows / setup->whole.whole_rows : 1;
	run->counters->tile_rows = setup->tiled ? (setup->tile.rows + per_row - 1) / per_row : setup->whole.whole_rows;
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
	struct forward_run run = {
		.chain = chain, .params = params, .reader = reader, .writer = writer, .options = options, .counters = counters};
	pthread_mutex_init(&run.progress_lock, NULL);
	enum status status = run_arrays(&run, diags);
	if (run.setup.ready)
		close_setup(&run.setup);
	pthread_mutex_destroy(&run.progress_lock);
	return status;
}
