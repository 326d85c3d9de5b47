/*
 * A lane is a worker with a slab for the machine, blocks for its chunk of input and
 * output, and its own of all that changes while a tile runs. It runs a tile by
 * carrying out the schedule: the machine says what lies where, and the hooks here
 * evaluate programs there.
 *
 * Invariant: all arrays that a lane holds lie in what it had before its first tile, and
 * that is what was planned for it; a tile's bits depend on the tile alone, not on the
 * lane. What grows while tiles run is lists of where arrays lie: the machine's, the
 * tape, and the pieces of a state on disk. They follow from the steps, not from the rows.
 */
#include "exec/lane.h"

#include <string.h>

#include "base/checked.h"

/* Hooks. */

/* Copies the params that are themselves a value of the state. */
static void copy_out_params(const struct lane *lane, const struct machine_call *call)
{
	const struct body *body = call->program->body;
	for (size_t i = 0; i < body->out_count; i++) {
		if (!call->out_params[i] || call->outs[i] < 0)
			continue;
		const struct param_ref *ref = call->out_params[i];
		memcpy(lane->slab.base + call->outs[i],
		       param_place(&lane->params[ref->param], ref, call->counters, lane->first_row),
		       (size_t)type_bytes(body->values[body->outs[i].value].type));
	}
}

static void compute(struct lane *lane, const struct machine_call *call)
{
	const struct run *run = lane->run;
	const struct body *body = call->program->body;
	const void **ins = lane->ins;
	void **outs = lane->outs;
	for (size_t i = 0; i < body->in_count; i++)
		ins[i] = call->ins[i] < 0 ? NULL : lane->slab.base + call->ins[i];
	for (size_t i = 0; i < body->out_count; i++)
		outs[i] = call->outs[i] < 0 ? NULL : lane->slab.base + call->outs[i];
	copy_out_params(lane, call);
	struct evaluation evaluation = {.program = call->program,
	                                .ins = ins,
	                                .outs = outs,
	                                .params = lane->params,
	                                .counters = call->counters,
	                                .workspace = lane->slab.base + call->workspace,
	                                .first_row = lane->first_row,
	                                .whole_rows = run->job->tiled ? run->job->rows : run->job->whole.whole_rows,
	                                .flat = run->job->flat,
	                                .fold = totals_of_call(lane, call),
	                                .fold_ends = run->tail.passes,
	                                .team = run->team,
	                                .kernels = {run->kernels[0], run->kernels[1]}};
	evaluate(&evaluation);
	if (lane->recompute.hashes && call->kind != CALL_BACKWARD)
		recompute_see(&lane->recompute, call, outs);
}

static enum status on_call(void *context, const struct machine_call *call)
{
	struct lane *lane = context;
	compute(lane, call);
	return call->kind == CALL_BACKWARD ? ready_step(lane->run, call->step, lane->diags) : STATUS_OK;
}

/* Where there are several tiles they are short, and progress is made of them. */
static enum status on_progress(void *context, const struct action *action, int64_t live)
{
	const struct lane *lane = context;
	struct run *run = lane->run;
	if (!run->options->progress || run->job->tiled)
		return STATUS_OK;
	const struct counters *all = &run->job->predicted;
	if (action->kind == ACT_FORWARD || action->kind == ACT_RECORD || action->kind == ACT_BACKWARD)
		run->actions_done += (double)(action->end - action->begin);
	run->options->progress(run->options->progress_context, action,
	                       run->actions_done / (double)(all->evaluations + all->steps + 1), live, all->peak_bytes);
	return STATUS_OK;
}

static void open_hooks(struct lane *lane)
{
	lane->hooks = (struct machine_hooks){.context = lane, .call = on_call, .progress = on_progress};
	ends_hook(&lane->hooks);
	store_hook(&lane->hooks);
	if (lane->run->options->journal)
		resume_hook(lane);
	trace_hook(lane);
}

/* Memory. */

/* What a chunk's tiles are cut out of, and what they make. */
static enum status open_blocks(struct lane *lane, struct diags *diags)
{
	const struct run *run = lane->run;
	const struct job *job = run->job;
	const int64_t rows = job->tile.rows * job->per_chunk;
	const bool value = run->options->value && !job->whole.sums;
	const int64_t input = round_up(rows * job->input_row, ARRAY_ALIGN);
	const int64_t output = value ? round_up(rows * job->output_row, ARRAY_ALIGN) : 0;
	const int64_t partials = job->per_chunk * job->partial_bytes;
	const int64_t loss = job->whole.sums ? job->per_chunk * 2 * run->loss_count * (int64_t)sizeof(double) : 0;
	enum status status =
		slab_get(&lane->blocks, 2 * input + output + partials + loss, run->options->job.allocator, diags);
	if (status)
		return status;
	lane->input = lane->blocks.base;
	lane->gradient = lane->input + input;
	lane->value = value ? lane->gradient + input : NULL;
	lane->partials = lane->gradient + input + output;
	lane->loss = job->whole.sums ? (double *)(void *)(lane->partials + partials) : NULL;
	memset(lane->partials, 0, (size_t)partials); /* what no tile ever puts something into */
	return STATUS_OK;
}

enum status lane_open(struct lane *lane, struct run *run, int index, struct diags *diags)
{
	const struct job *job = run->job;
	const struct allocator *allocator = run->options->job.allocator;
	*lane = (struct lane){.run = run, .index = index, .diags = diags, .spill = {.fd = -1, .allocator = allocator}};
	arena_init(&lane->arena, allocator);
	open_hooks(lane);
	tape_open(lane);
	lane->params = arena_array(&lane->arena, run->params->count + 1, sizeof *lane->params);
	const size_t tile = units_ports(&job->tile.units), rest = units_ports(&job->rest.units);
	const size_t ports = tile > rest ? tile : rest;
	lane->ins = arena_array(&lane->arena, ports + 1, sizeof *lane->ins);
	lane->outs = arena_array(&lane->arena, ports + 1, sizeof *lane->outs);
	lane->schedule = schedule_copy(job->schedule);
	enum status status = lane->params && lane->ins && lane->outs && lane->schedule ? STATUS_OK : diag_memory(diags);
	if (status == STATUS_OK && run->options->spill)
		status = store_open(lane, diags);
	if (status == STATUS_OK && run->options->compare)
		status = recompute_open(&lane->recompute, job->whole.steps, allocator, diags);
	const int64_t slab = job->tile.slab > job->rest.slab ? job->tile.slab : job->rest.slab;
	if (status)
		return status;
	status = slab_get(&lane->slab, slab, allocator, diags);
	if (status == STATUS_OK && job->tiled)
		status = open_blocks(lane, diags);
	if (status)
		diag_hint(diags, "a policy that keeps less (--memory BYTES)%s may fit",
		          job->tiled ? " or smaller tiles (--tile ROWS)" : "");
	return status;
}

void lane_close(struct lane *lane)
{
	const struct allocator *allocator = lane->run->options->job.allocator;
	slab_put(&lane->slab, allocator);
	slab_put(&lane->blocks, allocator);
	spill_close(&lane->spill);
	recompute_close(&lane->recompute, allocator);
	if (lane->schedule)
		schedule_free(lane->schedule);
	if (lane->ahead)
		schedule_free(lane->ahead);
	arena_free(&lane->arena);
}

/* A tile. */

static void begin_tile(struct lane *lane, int64_t chunk, int64_t tile)
{
	const struct job *job = lane->run->job;
	lane->chunk = chunk;
	lane->tile = tile;
	lane->fetches = 0;
	lane->first_row = (chunk * job->per_chunk + tile) * job->tile.rows;
	lane->plan = job->tiled && job->rows - lane->first_row < job->tile.rows ? &job->rest : &job->tile;
	lane->rows = job->tiled ? lane->plan->rows : 1;
	totals_aim(lane);
	if (lane->recompute.hashes)
		recompute_begin(&lane->recompute);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Of the lane's tiles: what a full one counted, where there is one, as a plan does; and the most that any held. */
static void note_counters(struct lane *lane, const struct counters *counters)
{
	const struct counters before = lane->measured;
	if (lane->plan == &lane->run->job->tile || !lane->counted)
		lane->measured = *counters;
	lane->counted = true;
	/* the rest has fewer rows, and may take more for the holes between its arrays */
	lane->measured.peak_bytes = larger(before.peak_bytes, counters->peak_bytes);
	lane->measured.stored_bytes = larger(before.stored_bytes, counters->stored_bytes);
}

enum status lane_run_tile(struct lane *lane, int64_t chunk, int64_t tile, struct diags *diags)
{
	const struct grad_options *options = lane->run->options;
	const struct machine_options machine = {.want_value = options->value != NULL,
	                                        .store = options->job.store,
	                                        .hooks = &lane->hooks,
	                                        .allocator = options->job.allocator};
	struct counters counters = {0};
	lane->diags = diags;
	begin_tile(lane, chunk, tile);
	enum status status = trace_begin_tile(lane);
	if (status == STATUS_OK)
		status = tape_run(lane, &machine, &counters, diags);
	if (status == STATUS_OK)
		status = trace_end_tile(lane);
	note_counters(lane, &counters);
	return status;
}
