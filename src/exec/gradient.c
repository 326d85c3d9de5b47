/*
 * A gradient run: a job plans a schedule, and for each tile the machine walks it. The machine says where arrays lie in
 * the worker's slab, and the hooks here evaluate programs there.
 * Tests: tests/cases/grad.test
 */
#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "base/team.h"
#include "exec/run_state.h"
#include "memory/machine.h"

static enum status on_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	const struct body *body = call->program->body;
	const bool swept = call->kind != CALL_BACKWARD && !call->recomputed;
	const int64_t rows = worker_fewer_rows(worker);
	TRY(watched_reach(worker, call->live));
	for (size_t i = 0; i < body->in_count; i++)
		worker->ins[i] = call->ins[i] < 0 ? NULL : worker->slab.base + call->ins[i];
	for (size_t i = 0; i < body->out_count; i++) {
		const struct param_ref *ref = call->out_params[i];
		worker->outs[i] = call->outs[i] < 0 ? NULL : worker->slab.base + call->outs[i];
		if (!ref || !worker->outs[i])
			continue;
		/* a value of the state that is a param itself */
		wave_run(worker->wave);
		memcpy(worker->outs[i], param_place(&worker->params[ref->param], ref, call->counters, worker->first_row),
		       (size_t)type_bytes(body->values[body->outs[i].value].type));
		neighbours_written(worker->neighbours, worker->outs[i], true);
	}
	TRY(worker_evaluate(worker, &(struct evaluation){.program = call->program,
	                                                 .rows = rows,
	                                                 .own = call->own,
	                                                 .counters = call->counters,
	                                                 .workspace = worker->slab.base + call->workspace,
	                                                 .fold = swept ? worker_state(worker) : NULL,
	                                                 .fold_ends = passes_end_in_fold(worker->run)}));
	if (call->kind == CALL_BACKWARD)
		return gradient_events_step(worker->run, call->step, worker->diags);
	if (worker->walk.recompute.hashes) {
		wave_run(worker->wave);
		state_hashes_see(&worker->walk.recompute, call, worker->outs, rows);
	}
	return STATUS_OK;
}

/* Reports the progress of an array without tiles. With tiles, write_chunk does. */
static enum status on_progress(void *context, const struct action *action, int64_t live)
{
	const struct worker *worker = context;
	const struct run *run = worker->run;
	if (!run->options->progress || run->tiles->tiled)
		return STATUS_OK;
	const struct counters *all = &run->gradient->job->predicted;
	if (action_is_on_steps(action->kind))
		run->gradient->actions_done += (double)(action->end - action->begin);
	const bool known = !run->conditions.watching;
	const double done = known ? run->gradient->actions_done / (double)(all->evaluations + all->steps + 1) : 0;
	run->options->progress(run->options->progress_context, action, done, live, all->peak_bytes);
	return STATUS_OK;
}

enum status gradient_make_job(struct run *run, bool keep)
{
	struct gradient_result *result = run->gradient->result;
	if (result->has_job)
		job_free(&result->job);
	result->has_job = false;
	if (!keep) {
		arena_free(&result->job_arena);
		arena_init(&result->job_arena, run->context.allocator);
	}
	const double begun = clock_seconds();
	const struct context context = {run->context.allocator, &result->job_arena, run->context.diags};
	struct job_options options = run->options->job;
	if (!keep) /* all ranks plan; later rank 0 alone may plan again */
		TRY(ranks_broadcast(run->ranks, &options.memory_available, sizeof options.memory_available));
	if (run->conditions.watching) {
		watched_portion(run, &options);
		options.unpredicted = keep && (!run->gradient->options->spill || run->workers[0].walk.kept.ahead);
	} else if (run->conditions.counted) {
		options.portion.counted = run->conditions.counted;
		options.portion.counted_loops = run->conditions.count;
	}
	enum status status = job_make(&context, &result->job, run->chain, &run->input, &options);
	/* Else the forward pass ran the `repeat while`s in another order than the steps have them. */
	assert(status || run->conditions.watching || !run->conditions.counted ||
	       result->job.whole.conditions == run->conditions.count);
	result->planning += clock_seconds() - begun;
	result->has_job = !status;
	run->tiles = &result->job.tiles;
	run->whole = &result->job.whole;
	return status;
}

/* Fails if a program adds up a gradient: its sums would end with it, and a resumed run would lack them. */
static enum status refuse_sums(const struct run *run)
{
	for (size_t i = 0; i < run->chain->program_count; i++) {
		const struct program_decl *program = &run->chain->programs[i];
		if (!program->traits.sums)
			continue;
		diag_at(run->context.diags, STATUS_USAGE, run->chain->source, program->span,
		        "--journal: the sums that the program '%s' adds up end with it", program->name);
		return diag_hint(run->context.diags, "a program that gives its gradients with each call can be resumed");
	}
	return STATUS_OK;
}

/* Fails if ranks that exchange rows do not have the same plan, as they have with the same options. */
static enum status compare_plans(const struct run *run)
{
	const struct job *job = run->gradient->job;
	const struct counters *c = &job->predicted;
	const int64_t exchanged = job->tiles.exchanged;
	const int64_t mine[] = {exchanged, exchanged ? job->tile.slab : 0, exchanged ? c->evaluations : 0,
	                        exchanged ? c->checkpoints : 0, exchanged ? c->spill_writes : 0};
	int64_t first[sizeof mine / sizeof *mine];
	memcpy(first, mine, sizeof first);
	TRY(ranks_broadcast(run->ranks, first, sizeof first));
	if (!memcmp(first, mine, sizeof first))
		return STATUS_OK;
	return diag_file(run->context.diags, STATUS_USAGE, NULL, -1,
	                 "ranks that exchange rows need the same options, and these ranks have other plans");
}

static enum status gradient_prepare(struct run *run)
{
	const struct job *job = run->gradient->job;
	const struct context *context = &run->context;
	const struct pass_list *list = NULL;
	TRY(gradient_make_job(run, false));
	TRY(compare_plans(run));
	if (run->gradient->options->journal) {
		run->points.lie = job->tiles.tiled && !job->tiles.exchanged ? POINTS_BETWEEN_CHUNKS : POINTS_BETWEEN_CALLS;
		TRY(refuse_sums(run));
	}
	TRY(totals_open(run));
	TRY(stored_operands_plan(run, NULL));
	TRY(stored_operands_open(run));
	for (size_t i = 0; i < run->whole->distinct_count; i++)
		TRY(params_check(run->params, run->whole->distinct[i]->body, &run->whole->distinct[i]->own, run->chain,
		                 context->diags));
	TRY(blas_load(job->tile.compiled.libraries | (job->passes ? job->passes->programs.libraries : 0),
	              run->options->job.threads, context->diags));
	TRY(shares_open(run));
	if (job->passes)
		list = &job->passes->programs;
	else if (job->tiles.folds && run->options->value)
		TRY(passes_compile(run, job->forward.levels, NULL, &list));
	TRY(list ? passes_open(run, list, job->passes) : STATUS_OK);
	TRY(exchange_load_cotangent(run));
	TRY(gradient_events_open(run));
	allocator_trim();
	const int members = job->tiles.workers > 1 ? job->tiles.workers : job->team;
	return team_open(&run->team, members, job->member_bytes, context->allocator, context->diags);
}

static enum status gradient_open_worker(struct worker *worker, int64_t *slab, size_t *ports)
{
	const struct run *run = worker->run;
	const struct job *job = run->gradient->job;
	const struct gradient_options *options = run->gradient->options;
	struct walk *walk = &worker->walk;
	*ports = job->passes ? job->passes->programs.ports : (size_t)job->tile.compiled.ports;
	*slab = greater(job->tile.slab, job->tile.rest_slab);
	walk->kept.spill = (struct spill){.fd = -1, .allocator = run->context.allocator};
	walk->hooks = (struct machine_hooks){
		.context = worker, .call = on_call, .input_output = exchange_array, .progress = on_progress};
	if (run->conditions.watching)
		walk->hooks.boundary = watched_boundary;
	kept_states_hook(&walk->hooks);
	resume_hook(worker);
	trace_hook(worker);
	const bool several = run->tiles->tiled && run->tiles->rows >= 2 * run->tiles->tile;
	if (several && !options->trace && !options->spill && job->options.store == DTYPE_COUNT) /* these want other hooks */
		walk->log.arena = &worker->arena;
	walk->schedule = schedule_copy(job->schedule);
	TRY_ALLOC(walk->schedule, run->context.diags);
	if (options->spill && !job->passes)
		TRY(kept_states_open(worker, run->context.diags));
	if (options->compare) {
		const int64_t steps = walk->recompute.steps = job->whole.steps;
		walk->recompute.hashes = arena_array(&worker->arena, (size_t)steps, sizeof *walk->recompute.hashes);
		TRY_ALLOC(walk->recompute.hashes, run->context.diags);
	}
	return STATUS_OK;
}

static void gradient_close_worker(struct worker *worker)
{
	struct walk *walk = &worker->walk;
	spill_close(&walk->kept.spill);
	if (walk->kept.ahead)
		schedule_free(walk->kept.ahead);
	if (walk->schedule)
		schedule_free(walk->schedule);
}

static enum status gradient_run_tile(struct worker *worker)
{
	const struct run *run = worker->run;
	struct walk *walk = &worker->walk;
	const struct machine_options machine = {.want_value = run->options->value != NULL,
	                                        .store = run->options->job.store,
	                                        .rows = worker_fewer_rows(worker),
	                                        .hooks = &walk->hooks,
	                                        .log = walk->log.arena && !worker_fewer_rows(worker) ? &walk->log : NULL};
	struct counters counters = {0};
	walk->kept.fetches = 0;
	totals_aim(worker);
	stored_operands_aim(worker);
	rows_in_aim_params(worker);
	if (worker->neighbours)
		neighbours_begin(worker->neighbours, worker->tile_row);
	if (walk->recompute.hashes)
		state_hashes_begin(&walk->recompute);
	TRY(trace_tile(worker, false));
	if (run->passes.joint) {
		TRY(passes_run_tile(worker));
		return trace_tile(worker, true);
	}
	const struct context context = {.allocator = run->context.allocator, .diags = worker->diags};
	const enum status status =
		machine_run(&context, &run->gradient->job->tile.compiled, walk->schedule, &machine, &counters);
	wave_run(worker->wave);
	TRY(status);
	evaluate_deferred(&worker->deferred);
	totals_end_blocks(worker);
	/* As in a plan, the counters are a full tile's if the worker has one. The bytes are the most of all its tiles. */
	const struct counters before = walk->measured;
	if (worker->rows == run->tiles->window || !walk->counted)
		walk->measured = counters;
	walk->counted = true;
	/* the rest has fewer rows, but there may be more holes between its arrays */
	walk->measured.peak_bytes = greater(before.peak_bytes, counters.peak_bytes);
	walk->measured.stored_bytes = greater(before.stored_bytes, counters.stored_bytes);
	return trace_tile(worker, true);
}

static enum status gradient_begin_array(struct run *run)
{
	run->gradient->actions_done = 0;
	for (int i = 0; i < run->open; i++) {
		struct walk *walk = &run->workers[i].walk;
		walk->counted = false;
		walk->measured = (struct counters){0};
		walk->recompute.compared = walk->recompute.differing = 0;
	}
	return totals_begin_array(run);
}

/* Sets MEASURED, and the largest error of the store, to the most that any rank has. */
static enum status count_ranks(struct run *run, struct counters *measured)
{
	struct gradient_result *result = run->gradient->result;
	int64_t *const counts[] = {&measured->evaluations,  &measured->executions,  &measured->checkpoints,
	                           &measured->stored_bytes, &measured->peak_bytes,  &measured->spill_writes,
	                           &measured->spill_reads,  &measured->spill_bytes, &measured->spill_state};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		TRY(shares_most(run, counts[i]));
	int64_t bits; /* of numbers that are not negative, the larger has the larger bits */
	memcpy(&bits, &result->store_error, sizeof bits);
	TRY(shares_most(run, &bits));
	memcpy(&result->store_error, &bits, sizeof bits);
	return STATUS_OK;
}

/* Sets what a run in passes has measured: of its steps, and of the bytes of slabs and of results. */
static void measure_passes(const struct run *run, struct counters *measured, int64_t *peak, int64_t *stored)
{
	const struct job *job = run->gradient->job;
	measured->evaluations = measured->steps + run->passes.steps - job->passes->distinct;
	measured->executions = measured->evaluations - job->passes->whole.unread;
	for (int i = 0; i < run->open; i++)
		*peak += (int64_t)run->workers[i].slab.size - ARRAY_ALIGN;
	*peak += (int64_t)run->passes.slab.size - ARRAY_ALIGN -
	         round_up(job->passes->programs.state * (int64_t)sizeof(double), ARRAY_ALIGN);
	*stored = job->passes->programs.results;
}

static enum status gradient_count_array(struct run *run)
{
	struct gradient_result *result = run->gradient->result;
	const struct job *job = run->gradient->job;
	int64_t peak = 0, stored = 0, staging = 0;
	const struct walk *seen = NULL;
	TRY(totals_add_programs(run));
	result->copied_bytes += run->reader->copy.bytes;
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
	struct counters measured = seen ? seen->measured : job->predicted; /* a rank or a run in passes may have no tile */
	job_count_rows(job, &measured);
	if (job->passes)
		measure_passes(run, &measured, &peak, &stored);
	measured.bounded = job->predicted.bounded;
	measured.gap_percent = job->predicted.gap_percent;
	measured.stored_bytes = stored;
	measured.peak_bytes = job->predicted.peak_bytes - job->slabs - job->tiles.workers * job->staging + peak + staging;
	TRY(count_ranks(run, &measured));
	if (result->arrays > 0 && measured.peak_bytes <= result->measured.peak_bytes)
		return STATUS_OK;
	result->measured = measured;
	result->predicted = job->predicted;
	result->most = job->input;
	result->because = job->tiles.because;
	result->portion = job->options.portion;
	result->counted = 0;
	for (size_t i = 0; i < run->conditions.count && run->conditions.by_pass; i++)
		result->counted += run->conditions.counted[i].iterations;
	return STATUS_OK;
}

static enum status gradient_end_array(struct run *run)
{
	TRY(gradient_events_finish(run));
	run->gradient->result->arrays++;
	return STATUS_OK;
}

const struct run_kind gradient_kind = {.prepare = gradient_prepare,
                                       .open_worker = gradient_open_worker,
                                       .close_worker = gradient_close_worker,
                                       .run_tile = gradient_run_tile,
                                       .begin_array = gradient_begin_array,
                                       .count_array = gradient_count_array,
                                       .end_array = gradient_end_array};
