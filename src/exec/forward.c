/*
 * A forward run: the chain is one body, compiled for a tile, and a tile is one evaluation of its program. If
 * tiles fold, each pass has a program of a tile (exec/passes.h).
 * Tests: tests/cases/run.test, tests/unit/test_waves.c
 */
#include <string.h>

#include "base/checked.h"
#include "base/team.h"
#include "exec/run_state.h"

/* True if a worker runs one tile of an array: then nobody reads its input afterwards. */
static bool is_only_tile(const struct tiles *tiles) { return !tiles->tiled || tiles->exchanged; }

static enum status compile_tile(struct run *run)
{
	struct forward_pass *forward = run->forward;
	struct tile_program *tile = &forward->tile;
	struct type input = run->input;
	if (run->tiles->flat) {
		input.shape.ndim = 1;
		input.shape.dim[0] = run->tiles->rows;
	}
	if (tiles_are_whole(run->tiles, &forward->whole))
		tile->lowered = forward->whole;
	else
		TRY(lower_tile(&run->context, &tile->lowered, &forward->whole, &input, LOWER_RUN, run->tiles->window));
	tile->lowered.whole->cut = run->tiles->rest > 0;
	const struct body *body = tile->lowered.whole;
	tile->passes = body->out_count == 1 && body->values[body->outs[0].value].from == FROM_PORT;
	bool *owned = arena_array(&run->arena, body->in_count + 1, sizeof *owned);
	TRY_ALLOC(owned, run->context.diags);
	for (size_t i = 0; i < body->in_count; i++)
		owned[i] = body->in_count == 1 && is_only_tile(run->tiles);
	return program_compile(&run->context, &tile->program, body, owned, NULL);
}

/*
 * If the first stage is a slice of rows, leaves it out of PORTION and reads those rows alone. If the output is written
 * over the input, all rows are read, since the output's rows may be fewer and longer.
 */
static void open_input_part(struct run *run, struct portion *portion)
{
	struct shape *shape = &run->input.shape;
	struct slice rows;
	if (run->ends.in_place || !tiles_first_slice(run->chain, &run->input, &rows))
		return;
	run->in.part = true;
	run->in.first = rows.start * (shape_count(shape) / shape->dim[0]);
	shape->dim[0] = rows.count;
	portion->before = 1;
}

static struct tile_wants wants_of(const struct run *run)
{
	return (struct tile_wants){.rows = run->options->job.tile,
	                           .threads = run->options->job.threads,
	                           .ranks = run->options->job.ranks,
	                           .whole = run->options->job.whole_bytes,
	                           .read_anywhere = run->ends.read_anywhere,
	                           .write_anywhere = run->ends.write_anywhere,
	                           .carries = !run->options->apart && !run->options->more,
	                           .alike = true};
}

/*
 * Compiles the program of a tile, of the cut by WANTS. If tiles carry rows that the program cannot carry, or on windows
 * that have too few rows in common for it, the array is cut again.
 */
static enum status compile_window(struct run *run, struct tile_wants wants)
{
	struct forward_pass *forward = run->forward;
	for (int64_t depth = 0;;) {
		TRY(compile_tile(run));
		if (!run->tiles->carries)
			return STATUS_OK;
		TRY(carried_find_depth(run, &depth));
		if (depth >= 0 && depth <= run->tiles->window - run->tiles->tile)
			return STATUS_OK;
		wants.carries = depth >= 0 && !wants.depth;
		wants.depth = depth;
		tiles_cut(&forward->tiles, &forward->whole, &wants);
	}
}

/* Compiles the programs of the passes of tiles that fold. */
static enum status compile_passes(struct run *run)
{
	const struct lowered *whole = run->whole;
	struct lowered tile = *whole;
	if (!tiles_are_whole(run->tiles, whole))
		TRY(lower_tile(&run->context, &tile, whole, &run->input, LOWER_RUN, run->tiles->window));
	return passes_compile(run, whole->levels, tile.whole, &run->forward->passes);
}

/* Sets the members of the team: the workers or, if there is one, the threads that share the one program of its tiles. */
static void count_team(const struct run *run, struct forward_pass *forward)
{
	const int workers = run->tiles->workers;
	const struct pass_list *list = forward->passes;
	const struct program *shared = list ? &list->passes[0].tile_program : &forward->tile.program;
	const bool shares = workers == 1 && (!list || list->count == 1);
	forward->member = shares ? round_up(shared->member, ARRAY_ALIGN) : 0;
	forward->members = shares ? team_members(run->options->job.threads, shared->widest, forward->member) : workers;
}

/* Returns the bytes of a worker's slab. */
static int64_t worker_slab_bytes(const struct forward_pass *forward)
{
	return forward->passes ? forward->passes->workspace : round_up(forward->tile.program.workspace, ARRAY_ALIGN);
}

/* Sets the logical types of the values, and which of them are written part by part. */
static void set_value_types(struct run *run)
{
	const struct body *body = run->whole->whole;
	for (size_t k = 0; k < body->out_count; k++) {
		const struct value *value = &body->values[body->outs[k].value];
		run->by_parts[k] = !run->tiles->tiled && body_only_collects(body, k);
		run->more_types[k] = *value->type;
		run->more_types[k].dtype = body_dtype_written(body, body->outs[k].value);
	}
}

enum status forward_plan(struct run *run)
{
	struct forward_pass *forward = run->forward;
	struct portion portion = run->options->job.portion;
	*forward = (struct forward_pass){.counters = forward->counters};
	open_input_part(run, &portion);
	TRY(lower(&run->context, &forward->whole, run->chain, &portion, &run->input, LOWER_RUN));
	const struct tile_wants wants = wants_of(run);
	tiles_cut(&forward->tiles, &forward->whole, &wants);
	run->whole = &forward->whole;
	run->tiles = &forward->tiles;
	set_value_types(run);
	TRY(stored_operands_plan(run, forward->whole.whole));
	TRY(run->tiles->folds ? compile_passes(run) : compile_window(run, wants));
	count_team(run, forward);
	int64_t loaded = 0;
	for (size_t i = 0; i < run->chain->input_count; i++) {
		const struct type type = chain_param_type(run->chain, i, &run->input);
		if (run->chain->params[i].arrives && !tiles_other_row(run->tiles, run->whole, i))
			loaded = saturated_add(loaded, type_bytes(&type));
	}
	const int64_t passes = forward->passes ? pass_list_bytes(forward->passes) : 0;
	const int64_t worker = worker_slab_bytes(forward) + worker_wave_bytes(run) + worker_block_bytes(run);
	forward->bytes = loaded + run->params->bytes - stored_left(run) + stored_bytes(run) + passes +
	                 (forward->members - 1) * forward->member + run->tiles->workers * worker +
	                 tiles_message_bytes(run->tiles);
	return STATUS_OK;
}

static enum status forward_prepare(struct run *run)
{
	const struct forward_pass *forward = run->forward;
	TRY(forward_plan(run));
	TRY(shares_open(run));
	const struct pass_list *list = forward->passes;
	TRY(stored_operands_open(run));
	TRY(params_check(run->params, forward->whole.whole, NULL, run->chain, run->context.diags));
	TRY(list ? passes_open(run, list, NULL) : STATUS_OK);
	TRY(blas_load(list ? list->libraries : forward->tile.program.libraries, run->options->job.threads,
	              run->context.diags));
	return team_open(&run->team, forward->members, forward->member, run->context.allocator, run->context.diags);
}

static enum status forward_open_worker(struct worker *worker, int64_t *slab, size_t *ports)
{
	const struct run *run = worker->run;
	const struct forward_pass *forward = run->forward;
	*slab = worker_slab_bytes(forward);
	*ports = forward->passes ? forward->passes->ports
	                         : (size_t)greater((int64_t)forward->tile.lowered.whole->in_count,
	                                           (int64_t)forward->tile.lowered.whole->out_count);
	if (run->chain->has_conditions) {
		worker->skipped = arena_array(&worker->arena, 1 + run->chain->program_count, sizeof *worker->skipped);
		TRY_ALLOC(worker->skipped, run->context.diags);
	}
	for (size_t i = 0; i < run->params->count; i++) {
		worker->params[i] = run->bound[i];
		worker->params[i].streamed = run->tiles->tiled && forward->whole.streamed_params[i];
	}
	stored_operands_aim(worker);
	return STATUS_OK;
}

/* The evaluator's hook: writes PART, from FROM on, of value OUT, which comes part by part. */
static enum status pass_part_on(void *context, uint32_t out, int64_t part, const void *from, const struct type *type)
{
	const struct worker *worker = context;
	const int64_t count = shape_count(&type->shape);
	return rows_out_put(worker->run, (enum output_index)(OUTPUT_VALUE + out),
	                    &(struct elements){part * count, count, from, type->dtype}, worker->diags);
}

/* Reports the progress of a worker's only tile. A run of several tiles reports their rows. */
static void report_progress(void *context, double done)
{
	const struct run_options *options = ((const struct run *)context)->options;
	options->progress(options->progress_context, NULL, done, 0, 0);
}

enum status forward_run_tile(struct worker *worker)
{
	static const int64_t counters[MAX_LOOPS];
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	if (run->passes.levels)
		return passes_run_tile(worker);
	const struct tile_program *tile = &run->forward->tile;
	if (tile->passes)
		return STATUS_OK;
	for (size_t i = 0; i < tile->lowered.whole->in_count; i++)
		worker->ins[i] = worker->input + worker->tile * tiles->tile * tiles->input_row;
	if (worker->neighbours) {
		neighbours_begin(worker->neighbours, worker->tile_row);
		neighbours_written(worker->neighbours, worker->input, true);
	}
	rows_in_aim_params(worker);
	for (size_t k = 0; k < tile->lowered.whole->out_count; k++)
		worker->outs[k] = run->by_parts[k] ? NULL : rows_out_of_tile(worker, (enum output_index)(OUTPUT_VALUE + k));
	if (worker->skipped)
		memset(worker->skipped, 0, (1 + run->chain->program_count) * sizeof *worker->skipped);
	const bool reports = run->options->progress && is_only_tile(tiles);
	const enum status status =
		worker_evaluate(worker, &(struct evaluation){.program = &tile->program,
	                                                 .rows = worker_fewer_rows(worker),
	                                                 .counters = counters,
	                                                 .workspace = worker->slab.base,
	                                                 .skipped = worker->skipped,
	                                                 .part = pass_part_on,
	                                                 .part_context = worker,
	                                                 .progress = reports ? report_progress : NULL,
	                                                 .progress_context = worker->run,
	                                                 .unfinished = &worker->run->unfinished});
	wave_run(worker->wave);
	return status;
}

enum status forward_count_array(struct run *run)
{
	const struct tiles *tiles = run->tiles;
	struct run_counters *counters = run->forward->counters;
	const int64_t whole = run->forward->whole.whole_rows;
	const int64_t bytes = run->forward->bytes + (run->reader ? (int64_t)reader_memory(run->reader, tiles->workers) : 0);
	counters->arrays++;
	counters->chunks += tiles_chunks(tiles);
	counters->tiles += ceil_div(tiles->rows, tiles->tile);
	counters->tile_rows = tiles->tiled ? ceil_div(tiles->tile, tiles->flat ? tiles->rows / whole : 1) : whole;
	if (tiles->because.reason)
		counters->because = tiles->because;
	counters->passes = greater(counters->passes, tiles->passes > 0 ? tiles->passes : 1);
	counters->halo_rows = tiles_halo(tiles);
	counters->peak_bytes = greater(counters->peak_bytes, bytes);
	return STATUS_OK;
}

static void close_nothing(struct worker *worker MAYBE_UNUSED) {}
static enum status count_copy(struct run *run)
{
	run->forward->counters->copied_bytes += run->reader->copy.bytes;
	return STATUS_OK;
}
static enum status end_nothing(struct run *run MAYBE_UNUSED) { return STATUS_OK; }

const struct run_kind forward_kind = {.prepare = forward_prepare,
                                      .open_worker = forward_open_worker,
                                      .close_worker = close_nothing,
                                      .run_tile = forward_run_tile,
                                      .begin_array = forward_count_array,
                                      .count_array = count_copy,
                                      .end_array = end_nothing};
