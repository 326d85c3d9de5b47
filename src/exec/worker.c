/*
 * A worker has blocks for a chunk of input and output, a slab in which its tiles compute,
 * and its own copy of all that changes while a tile runs.
 *
 * Invariant: all arrays of a worker lie in memory that it had before its first tile, as planned. The bits of a tile
 * depend on the tile alone, not on the worker.
 *
 * While tiles run, only lists of places grow: the machine's buffers and holes, the replay log, the places of states on
 * disk. Their lengths follow from the steps, not from the rows. Long lines of events need memory too. If a request
 * fails, the run fails with a message, or goes on without the replay log.
 * Tests: tests/unit/test_run.c
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"

/* Returns the bytes of a chunk's block of value K. */
static int64_t value_bytes(const struct run *run, size_t k)
{
	if ((run->gradient && !run->options->value) || (run->forward && run->by_parts[k]))
		return 0;
	return round_up(tiles_value_rows(run->tiles, run->gradient) * rows_out_row(run, k), ARRAY_ALIGN);
}

static int64_t values_bytes(const struct run *run)
{
	int64_t bytes = 0;
	for (size_t k = 0; k < rows_out_values(run); k++)
		bytes = saturated_add(bytes, value_bytes(run, k));
	return bytes;
}

/* A forward run of one launch has no groups to join. */
int64_t worker_wave_bytes(const struct run *run)
{
	if (run->gradient)
		return job_wave_bytes(run->gradient->job);
	const struct forward_pass *forward = run->forward;
	const struct program *tile = &forward->tile.program;
	if (run->tiles->carries)
		return wave_window_bytes(tile);
	if (forward->passes)
		return tiles_wave(run->tiles) ? forward->passes->wave : 0;
	return tiles_wave(run->tiles) && tile->launch_count > 1 ? tile->wave : 0;
}

/* The bytes of the blocks of a worker, in their order. */
struct block_bytes {
	int64_t input, gradient, value, apart, others, states, params;
};

static struct block_bytes blocks_of(const struct run *run)
{
	const struct tiles *tiles = run->tiles;
	const int64_t rows = run->gradient ? tiles->tile * tiles->per_chunk : 0;
	return (struct block_bytes){.input = round_up(tiles_input_rows(tiles) * tiles->input_row, ARRAY_ALIGN),
	                            .gradient = round_up(rows * tiles->gradient_row, ARRAY_ALIGN),
	                            .value = values_bytes(run),
	                            .apart = run->gradient ? tiles->per_chunk * run->gradient->job->sums.apart : 0,
	                            .states = tiles->per_chunk * tiles->state * (int64_t)sizeof(double),
	                            .others = tiles_other_bytes(tiles, run->whole) +
	                                      (run->gradient ? job_rows_bytes(run->gradient->job) : 0),
	                            .params = tiles_param_bytes(tiles, run->whole)};
}

int64_t worker_block_bytes(const struct run *run)
{
	const struct block_bytes b = blocks_of(run);
	return b.input + b.gradient + b.value + b.apart + b.states + b.others + b.params;
}

/* Allocates the blocks that a chunk is read to, and the blocks of its tiles' results. */
static enum status open_blocks(struct worker *worker)
{
	struct run *run = worker->run;
	const struct block_bytes bytes = blocks_of(run);
	TRY(slab_get_shared(&worker->blocks, worker_block_bytes(run), run->programs, run->context.allocator,
	                    run->context.diags));
	worker->input = worker->blocks.base;
	char *const gradient = worker->input + bytes.input, *const value = gradient + bytes.gradient;
	char *const apart = value + bytes.value;
	worker->made[OUTPUT_GRADIENT] = run->gradient ? gradient : NULL;
	char *made = value;
	for (size_t k = 0; k < rows_out_values(run); k++) {
		worker->made[OUTPUT_VALUE + k] = run->options->value && !(run->forward && run->by_parts[k]) ? made : NULL;
		made += value_bytes(run, k);
	}
	worker->apart = run->gradient ? apart : NULL;
	worker->others = apart + bytes.apart;
	worker->states = (double *)(void *)(worker->others + bytes.others);
	worker->param_rows = worker->others + bytes.others + bytes.states;
	if (run->forward && run->forward->tile.passes)
		worker->made[OUTPUT_VALUE] = worker->input;
	return STATUS_OK;
}

/* Says how RUN, for which memory was short, might take less, and why it has the whole array in memory if it does. */
static void hint_at_less(const struct run *run)
{
	struct diags *diags = run->context.diags;
	const char *why = NULL, *policies = diags->library ? "'memory'" : "--memory BYTES";
	const char *tiles = diags->library ? "smaller tiles ('tile')" : "smaller tiles (--tile ROWS)";
	if (run->gradient)
		diag_hint(diags, "a policy that keeps less (%s)%s%s may fit", policies, run->tiles->tiled ? " or " : "",
		          run->tiles->tiled ? tiles : "");
	else if (run->tiles->tiled)
		diag_hint(diags, "%s may fit", tiles);
	if (!run->tiles->tiled && because_describe(&run->tiles->because, run->chain->source, diags->arena, &why) && why)
		diag_hint_more(diags, "the whole array is in memory, because of %s", why);
}

/* Lets the worker's tile exchange rows, between arrays of its slab or, in a forward run, of its blocks. */
static enum status open_neighbours(struct worker *worker)
{
	const struct run *run = worker->run;
	worker->neighbours = arena_alloc(&worker->arena, sizeof *worker->neighbours);
	TRY_ALLOC(worker->neighbours, worker->diags);
	*worker->neighbours = (struct neighbours){.ranks = run->ranks,
	                                          .tiles = run->tiles,
	                                          .memory = {{worker->slab.base, (int64_t)worker->slab.size},
	                                                     {worker->blocks.base, (int64_t)worker->blocks.size}},
	                                          .wave = worker->wave};
	return STATUS_OK;
}

enum status worker_open(struct worker *worker, struct run *run, int index)
{
	const struct context *context = &run->context;
	const bool tiled = run->tiles->tiled;
	int64_t slab = 0;
	size_t ports = 0;
	*worker = (struct worker){.run = run, .index = index, .diags = context->diags, .walk.kept.spill.fd = -1};
	arena_init(&worker->arena, context->allocator);
	TRY_ALLOC(ordered_open_turn(&worker->turn, &run->ordered, &worker->arena), context->diags);
	const int64_t wave = worker_wave_bytes(run);
	if (wave && !run->options->apart)
		TRY_ALLOC(worker->wave = wave_open(wave, context->allocator), context->diags);
	worker->params = arena_array(&run->arena, run->params->count + 1, sizeof *worker->params);
	worker->rows_bound = arena_array(&run->arena, run->params->count + 1, sizeof *worker->rows_bound);
	worker->rows_shapes = arena_array(&run->arena, run->other_count + 1, sizeof *worker->rows_shapes);
	TRY_ALLOC(worker->params && worker->rows_bound && worker->rows_shapes, context->diags);
	for (size_t i = 0; i < run->params->count; i++) {
		worker->rows_bound[i] = run->params->bound[i];
		worker->rows_bound[i].data = NULL;
	}
	TRY(run->kind->open_worker(worker, &slab, &ports));
	worker->ins = arena_array(&run->arena, ports + 1, sizeof *worker->ins);
	worker->outs = arena_array(&run->arena, ports + 1, sizeof *worker->outs);
	TRY_ALLOC(worker->ins && worker->outs, context->diags);
	enum status status = slab_get_shared(&worker->slab, slab, run->programs, context->allocator, context->diags);
	if (status == STATUS_OK && (run->forward || tiled))
		status = open_blocks(worker);
	if (status)
		hint_at_less(run);
	if (!status && run->tiles->exchanged)
		status = open_neighbours(worker);
	return status;
}

void worker_close(struct worker *worker)
{
	const struct allocator *allocator = worker->run->context.allocator;
	wave_close(worker->wave, allocator);
	slab_put(&worker->slab, allocator);
	slab_put(&worker->blocks, allocator);
	worker->run->kind->close_worker(worker);
	arena_free(&worker->arena);
}

int64_t worker_fewer_rows(const struct worker *worker)
{
	return worker->rows < worker->run->tiles->window ? worker->rows : 0;
}

double *worker_state(const struct worker *worker)
{
	const struct run *run = worker->run;
	return passes_fold(run) ? worker->states + worker->tile * run->tiles->state : NULL;
}

enum status worker_evaluate(struct worker *worker, struct evaluation *evaluation)
{
	const struct run *run = worker->run;
	evaluation->ins = worker->ins;
	evaluation->outs = worker->outs;
	evaluation->params = worker->params;
	evaluation->first_row = worker->first_row;
	evaluation->outside = run->tiles->tiled ? run->tiles->rows - worker->rows : 0;
	evaluation->windows = run->tiles->windows ? run->tiles : NULL;
	evaluation->tile_row = worker->tile_row;
	evaluation->flat = run->tiles->flat;
	evaluation->block = run->tiles->block;
	evaluation->sum_block = run->tiles->sum_block;
	evaluation->blocks = run->tiles->block ? ceil_div(run->whole->whole_rows, run->tiles->block) : 0;
	evaluation->spare = run->gradient ? run->gradient->spare : NULL;
	evaluation->turns = ordered_additions(&worker->turn);
	if (run->gradient) {
		evaluation->written = run->gradient->options->written;
		evaluation->written_context = run->gradient->options->written_context;
		evaluation->unfinished = run->tiles->tiled ? NULL : &worker->run->unfinished; /* tiles have no such loops */
	}
	evaluation->stop = run->options->stop;
	evaluation->wave = worker->wave;
	evaluation->neighbours = worker->neighbours;
	evaluation->team = run->tiles->workers > 1 || run->unteamed ? NULL : run->team;
	evaluation->kernels[0] = run->kernels[0];
	evaluation->kernels[1] = run->kernels[1];
	evaluation->programs = run->programs;
	evaluation->worker = worker->index;
	evaluation->deferred = &worker->deferred;
	evaluation->diags = worker->diags;
	evaluation->chain = run->chain;
	return evaluate(evaluation);
}

enum status worker_run_chunk(void *run, int index, int64_t chunk, struct diags *diags)
{
	struct worker *worker = &((const struct run *)run)->workers[index];
	const struct tiles *tiles = worker->run->tiles;
	const int64_t count = tiles_of(tiles, chunk);
	worker->diags = diags;
	worker->chunk = chunk;
	ordered_begin_chunk(&worker->turn, chunk, diags);
	rows_out_begin_others(worker);
	if (tiles->carries)
		return carried_run_chunk(worker, chunk);
	for (worker->tile = 0; worker->tile < count; worker->tile++) {
		worker->tile_row = (chunk * tiles->per_chunk + worker->tile) * tiles->tile;
		worker->first_row = tiles_window_begin(tiles, worker->tile_row);
		worker->rows = tiles->windows ? tiles->window : lesser(tiles->rows - worker->tile_row, tiles->tile);
		TRY(worker->run->kind->run_tile(worker));
	}
	return ordered_end_chunk(&worker->turn);
}
