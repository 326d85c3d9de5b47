/*
 * A worker is a worker with a slab for the machine, blocks for its chunk of input and
 * output, and its own of all that changes while a tile runs. It runs a tile by
 * carrying out the schedule: the machine says what lies where, and the hooks here
 * evaluate programs there.
 *
 * Invariant: all arrays that a worker holds lie in what it had before its first tile, and
 * that is what was planned for it; a tile's bits depend on the tile alone, not on the
 * worker. What grows while tiles run is lists of where arrays lie: the machine's, the
 * replay, and the pieces of a state on disk. They follow from the steps, not from the rows.
 */
#include "exec/worker.h"

#include <string.h>

#include "base/checked.h"

/* Hooks. */

/* Copies the params that are themselves a value of the state. */
static void copy_out_params(const struct worker *worker, const struct machine_call *call)
{
	const struct body *body = call->program->body;
	for (size_t i = 0; i < body->out_count; i++) {
		if (!call->out_params[i] || call->outs[i] < 0)
			continue;
		const struct param_ref *ref = call->out_params[i];
		memcpy(worker->slab.base + call->outs[i],
		       param_place(&worker->params[ref->param], ref, call->counters, worker->first_row),
		       (size_t)type_bytes(body->values[body->outs[i].value].type));
	}
}

static void compute(struct worker *worker, const struct machine_call *call)
{
	const struct run *run = worker->run;
	const struct body *body = call->program->body;
	const void **ins = worker->ins;
	void **outs = worker->outs;
	for (size_t i = 0; i < body->in_count; i++)
		ins[i] = call->ins[i] < 0 ? NULL : worker->slab.base + call->ins[i];
	for (size_t i = 0; i < body->out_count; i++)
		outs[i] = call->outs[i] < 0 ? NULL : worker->slab.base + call->outs[i];
	copy_out_params(worker, call);
	struct evaluation evaluation = {.program = call->program,
	                                .ins = ins,
	                                .outs = outs,
	                                .params = worker->params,
	                                .counters = call->counters,
	                                .workspace = worker->slab.base + call->workspace,
	                                .first_row = worker->first_row,
	                                .whole_rows =
	                                    run->job->tiles.tiled ? run->job->tiles.rows : run->job->whole.whole_rows,
	                                .flat = run->job->tiles.flat,
	                                .fold = totals_of_call(worker, call),
	                                .fold_ends = run->after.passes,
	                                .team = run->team,
	                                .kernels = {run->kernels[0], run->kernels[1]}};
	evaluate(&evaluation);
	if (worker->recompute.hashes && call->kind != CALL_BACKWARD)
		state_hashes_see(&worker->recompute, call, outs);
}

static enum status on_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	compute(worker, call);
	return call->kind == CALL_BACKWARD ? gradient_events_step(worker->run, call->step, worker->diags) : STATUS_OK;
}

/* Where there are several tiles they are short, and progress is made of them. */
static enum status on_progress(void *context, const struct action *action, int64_t live)
{
	const struct worker *worker = context;
	struct run *run = worker->run;
	if (!run->options->progress || run->job->tiles.tiled)
		return STATUS_OK;
	const struct counters *all = &run->job->predicted;
	if (action->kind == ACT_FORWARD || action->kind == ACT_RECORD || action->kind == ACT_BACKWARD)
		run->actions_done += (double)(action->end - action->begin);
	run->options->progress(run->options->progress_context, action,
	                       run->actions_done / (double)(all->evaluations + all->steps + 1), live, all->peak_bytes);
	return STATUS_OK;
}

static void open_hooks(struct worker *worker)
{
	worker->hooks = (struct machine_hooks){.context = worker, .call = on_call, .progress = on_progress};
	input_output_hook(&worker->hooks);
	store_hook(&worker->hooks);
	if (worker->run->options->journal)
		resume_hook(worker);
	trace_hook(worker);
}

/* Memory. */

/* What a chunk's tiles are cut out of, and what they make. */
static enum status open_blocks(struct worker *worker, struct diags *diags)
{
	const struct run *run = worker->run;
	const struct job *job = run->job;
	const int64_t rows = job->tile.rows * job->tiles.per_chunk;
	const bool value = run->options->value && !job->whole.sums;
	const int64_t input = round_up(rows * job->tiles.input_row, ARRAY_ALIGN);
	const int64_t output = value ? round_up(rows * job->tiles.output_row, ARRAY_ALIGN) : 0;
	const int64_t partials = job->tiles.per_chunk * job->partials.bytes;
	const int64_t loss = job->whole.sums ? job->tiles.per_chunk * 2 * run->loss_count * (int64_t)sizeof(double) : 0;
	enum status status =
		slab_get(&worker->blocks, 2 * input + output + partials + loss, run->options->job.allocator, diags);
	if (status)
		return status;
	worker->input = worker->blocks.base;
	worker->gradient = worker->input + input;
	worker->value = value ? worker->gradient + input : NULL;
	worker->partials = worker->gradient + input + output;
	worker->loss = job->whole.sums ? (double *)(void *)(worker->partials + partials) : NULL;
	memset(worker->partials, 0, (size_t)partials); /* what no tile ever puts something into */
	return STATUS_OK;
}

enum status worker_open(struct worker *worker, struct run *run, int index, struct diags *diags)
{
	const struct job *job = run->job;
	const struct allocator *allocator = run->options->job.allocator;
	*worker = (struct worker){.run = run, .index = index, .diags = diags, .spill = {.fd = -1, .allocator = allocator}};
	arena_init(&worker->arena, allocator);
	open_hooks(worker);
	replay_open(worker);
	worker->params = arena_array(&worker->arena, run->params->count + 1, sizeof *worker->params);
	const size_t tile = compiled_ports(&job->tile.compiled), rest = compiled_ports(&job->rest.compiled);
	const size_t ports = tile > rest ? tile : rest;
	worker->ins = arena_array(&worker->arena, ports + 1, sizeof *worker->ins);
	worker->outs = arena_array(&worker->arena, ports + 1, sizeof *worker->outs);
	worker->schedule = schedule_copy(job->schedule);
	enum status status =
		worker->params && worker->ins && worker->outs && worker->schedule ? STATUS_OK : diag_memory(diags);
	if (status == STATUS_OK && run->options->spill)
		status = store_open(worker, diags);
	if (status == STATUS_OK && run->options->compare)
		status = state_hashes_open(&worker->recompute, job->whole.steps, allocator, diags);
	const int64_t slab = job->tile.slab > job->rest.slab ? job->tile.slab : job->rest.slab;
	if (status)
		return status;
	status = slab_get(&worker->slab, slab, allocator, diags);
	if (status == STATUS_OK && job->tiles.tiled)
		status = open_blocks(worker, diags);
	if (status)
		diag_hint(diags, "a policy that keeps less (--memory BYTES)%s may fit",
		          job->tiles.tiled ? " or smaller tiles (--tile ROWS)" : "");
	return status;
}

void worker_close(struct worker *worker)
{
	const struct allocator *allocator = worker->run->options->job.allocator;
	slab_put(&worker->slab, allocator);
	slab_put(&worker->blocks, allocator);
	spill_close(&worker->spill);
	state_hashes_close(&worker->recompute, allocator);
	if (worker->schedule)
		schedule_free(worker->schedule);
	if (worker->ahead)
		schedule_free(worker->ahead);
	arena_free(&worker->arena);
}

/* A tile. */

static void begin_tile(struct worker *worker, int64_t chunk, int64_t tile)
{
	const struct job *job = worker->run->job;
	worker->chunk = chunk;
	worker->tile = tile;
	worker->fetches = 0;
	worker->first_row = (chunk * job->tiles.per_chunk + tile) * job->tile.rows;
	worker->plan = job->tiles.tiled && job->tiles.rows - worker->first_row < job->tile.rows ? &job->rest : &job->tile;
	worker->rows = job->tiles.tiled ? worker->plan->rows : 1;
	totals_aim(worker);
	if (worker->recompute.hashes)
		state_hashes_begin(&worker->recompute);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Of the worker's tiles: what a full one counted, where there is one, as a plan does; and the most that any held. */
static void note_counters(struct worker *worker, const struct counters *counters)
{
	const struct counters before = worker->measured;
	if (worker->plan == &worker->run->job->tile || !worker->counted)
		worker->measured = *counters;
	worker->counted = true;
	/* the rest has fewer rows, and may take more for the holes between its arrays */
	worker->measured.peak_bytes = larger(before.peak_bytes, counters->peak_bytes);
	worker->measured.stored_bytes = larger(before.stored_bytes, counters->stored_bytes);
}

enum status worker_run_tile(struct worker *worker, int64_t chunk, int64_t tile, struct diags *diags)
{
	const struct grad_options *options = worker->run->options;
	const struct machine_options machine = {
		.want_value = options->value != NULL, .store = options->job.store, .hooks = &worker->hooks};
	struct counters counters = {0};
	worker->diags = diags;
	begin_tile(worker, chunk, tile);
	enum status status = trace_begin_tile(worker);
	if (status == STATUS_OK)
		status = replay_run(worker, &machine, &counters, diags);
	if (status == STATUS_OK)
		status = trace_end_tile(worker);
	note_counters(worker, &counters);
	return status;
}
