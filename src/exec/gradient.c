/*
 * A gradient run: a job plans a schedule, and for each tile the machine walks it. The
 * machine says where arrays lie in the worker's slab, and the hooks here evaluate
 * programs there.
 */
#include <string.h>

#include "base/clock.h"
#include "base/team.h"
#include "exec/run_parts.h"
#include "memory/machine.h"

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

static enum status on_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	const struct body *body = call->program->body;
	const bool swept = call->kind != CALL_BACKWARD && !call->recomputed;
	for (size_t i = 0; i < body->in_count; i++)
		worker->ins[i] = call->ins[i] < 0 ? NULL : worker->slab.base + call->ins[i];
	for (size_t i = 0; i < body->out_count; i++)
		worker->outs[i] = call->outs[i] < 0 ? NULL : worker->slab.base + call->outs[i];
	copy_out_params(worker, call);
	worker_evaluate(worker, &(struct evaluation){.program = call->program,
	                                             .counters = call->counters,
	                                             .workspace = worker->slab.base + call->workspace,
	                                             .fold = swept ? worker_state(worker) : NULL,
	                                             .fold_ends = worker->run->reduction.passes});
	if (call->kind == CALL_BACKWARD)
		return gradient_events_step(worker->run, call->step, worker->diags);
	if (worker->walk.recompute.hashes)
		state_hashes_see(&worker->walk.recompute, call, worker->outs);
	return STATUS_OK;
}

/* Tiles are short, and show their progress by chunks. */
static enum status on_progress(void *context, const struct action *action, int64_t live)
{
	const struct worker *worker = context;
	const struct run *run = worker->run;
	if (!run->options->progress || run->tiles->tiled)
		return STATUS_OK;
	const struct counters *all = &run->gradient->job->predicted;
	if (action->kind == ACT_FORWARD || action->kind == ACT_RECORD || action->kind == ACT_BACKWARD)
		run->gradient->actions_done += (double)(action->end - action->begin);
	const double done = run->gradient->actions_done / (double)(all->evaluations + all->steps + 1);
	run->options->progress(run->options->progress_context, action, done, live, all->peak_bytes);
	return STATUS_OK;
}

static void open_hooks(struct worker *worker)
{
	struct machine_hooks *hooks = &worker->walk.hooks;
	*hooks = (struct machine_hooks){
		.context = worker, .call = on_call, .input_output = input_output_exchange, .progress = on_progress};
	kept_states_hook(hooks);
	if (worker->run->gradient->options->journal)
		resume_hook(worker);
	trace_hook(worker);
}

/* Arrays of one type. */

static enum status make_job(struct run *run)
{
	struct gradient_result *result = run->gradient->result;
	if (result->has_job)
		job_free(&result->job);
	result->has_job = false;
	arena_free(&result->job_arena);
	arena_init(&result->job_arena, run->context.allocator);
	const double begun = clock_seconds();
	enum status status =
		job_make(&result->job, run->chain, &run->input, &run->options->job, &result->job_arena, run->context.diags);
	result->planning += clock_seconds() - begun;
	result->has_job = !status;
	run->tiles = &result->job.tiles;
	run->whole = &result->job.whole;
	return status;
}

static enum status check_params(struct run *run)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < run->whole->distinct_count && status == STATUS_OK; i++)
		status = params_check(run->params, run->whole->distinct[i]->body, run->chain, run->context.diags);
	return status;
}

enum status gradient_prepare(struct run *run)
{
	const struct job *job = run->gradient->job;
	int64_t bytes = 0; /* the job has counted them */
	enum status status = make_job(run);
	if (status == STATUS_OK)
		status = check_params(run);
	if (status == STATUS_OK && job->tile.compiled.uses_gemm)
		status = blas_load(run->context.diags);
	if (status == STATUS_OK)
		status = totals_open(run);
	if (status == STATUS_OK && job->tiles.folds)
		status = reduction_open(&run->context, &run->reduction, &job->forward, run->options->value != NULL, &bytes);
	if (status == STATUS_OK)
		status = input_output_load_cotangent(run);
	if (status == STATUS_OK)
		status = gradient_events_open(run);
	allocator_trim();
	if (status)
		return status;
	return team_open(&run->team, job->tiles.tiled ? job->tiles.workers : job->team, job->member_bytes,
	                 run->context.allocator, run->context.diags);
}

enum status gradient_open_worker(struct worker *worker, int64_t *slab, size_t *ports)
{
	const struct run *run = worker->run;
	const struct job *job = run->gradient->job;
	const size_t tile = compiled_ports(&job->tile.compiled), rest = compiled_ports(&job->rest.compiled);
	struct walk *walk = &worker->walk;
	walk->kept.spill = (struct spill){.fd = -1, .allocator = run->context.allocator};
	open_hooks(worker);
	replay_open(worker);
	*ports = tile > rest ? tile : rest;
	*slab = job->tile.slab > job->rest.slab ? job->tile.slab : job->rest.slab;
	walk->schedule = schedule_copy(job->schedule);
	TRY_ALLOC(walk->schedule, run->context.diags);
	enum status status = run->gradient->options->spill ? kept_states_open(worker, run->context.diags) : STATUS_OK;
	if (status == STATUS_OK && run->gradient->options->compare)
		status = state_hashes_open(&walk->recompute, job->whole.steps, run->context.allocator, run->context.diags);
	return status;
}

void gradient_close_worker(struct worker *worker)
{
	struct walk *walk = &worker->walk;
	kept_states_close(&walk->kept);
	state_hashes_close(&walk->recompute, worker->run->context.allocator);
	if (walk->schedule)
		schedule_free(walk->schedule);
}

/* Tiles. */

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Keeps what a full tile counted, where the worker has one, as a plan does; and the most bytes that any tile held. */
static void note_counters(struct worker *worker, const struct counters *counters)
{
	struct walk *walk = &worker->walk;
	const struct counters before = walk->measured;
	if (walk->plan == &worker->run->gradient->job->tile || !walk->counted)
		walk->measured = *counters;
	walk->counted = true;
	/* the rest has fewer rows, but there may be more holes between its arrays */
	walk->measured.peak_bytes = larger(before.peak_bytes, counters->peak_bytes);
	walk->measured.stored_bytes = larger(before.stored_bytes, counters->stored_bytes);
}

enum status gradient_run_tile(struct worker *worker)
{
	const struct run *run = worker->run;
	struct walk *walk = &worker->walk;
	const struct machine_options machine = {
		.want_value = run->options->value != NULL, .store = run->options->job.store, .hooks = &walk->hooks};
	struct counters counters = {0};
	walk->plan = worker->rows < run->tiles->tile ? &run->gradient->job->rest : &run->gradient->job->tile;
	walk->kept.fetches = 0;
	totals_aim(worker);
	if (walk->recompute.hashes)
		state_hashes_begin(&walk->recompute);
	enum status status = trace_begin_tile(worker);
	if (status == STATUS_OK)
		status = replay_run(worker, &machine, &counters);
	if (status == STATUS_OK)
		status = trace_end_tile(worker);
	note_counters(worker, &counters);
	return status;
}

/* Counters. */

void gradient_begin_array(struct run *run)
{
	run->gradient->actions_done = 0;
	for (int i = 0; i < run->open; i++) {
		struct walk *walk = &run->workers[i].walk;
		walk->counted = false;
		walk->measured = (struct counters){0};
		walk->recompute.compared = walk->recompute.differing = 0;
	}
}

void gradient_count_array(struct run *run)
{
	struct gradient_result *result = run->gradient->result;
	const struct job *job = run->gradient->job;
	int64_t peak = 0, stored = 0, staging = 0;
	const struct walk *seen = NULL;
	for (int i = 0; i < run->open; i++) {
		const struct walk *walk = &run->workers[i].walk;
		peak += walk->measured.peak_bytes;
		stored += walk->measured.stored_bytes;
		staging += (int64_t)walk->kept.spill.staging_size;
		state_hashes_add(&result->recomputed, &walk->recompute);
		if (!seen && walk->counted)
			seen = walk;
		if (walk->kept.error > result->store_error)
			result->store_error = walk->kept.error;
	}
	struct counters measured = seen->measured;
	measured.stored_bytes = stored;
	measured.peak_bytes = job->predicted.peak_bytes - job->slabs - job->tiles.workers * job->staging + peak + staging;
	if (result->arrays > 0 && measured.peak_bytes <= result->measured.peak_bytes)
		return;
	result->measured = measured;
	result->predicted = job->predicted;
	result->most = job->input;
}
