/*
 * online:S without a pass that counts: the first sweep evaluates the condition of a `repeat while` before each
 * iteration. It walks the schedule of a chain with more iterations than have run. Online schedules for any two
 * numbers of steps begin with the same actions, until the shorter chain ends.
 *
 * So when the loop ends, or needs more iterations, the machine continues with the schedule of another chain, and
 * everything that is held stays where it is. At that moment alone the slab may grow. A state that is on disk by then has
 * the arrays of the longer chain, so a fetch reads those that the shorter chain needs.
 *
 * That needs a loop at the top level with a stage after it: the last step of a chain is recorded, and no step runs
 * again to be recorded. Reports of events, a journal and a limit of states on disk want the number of steps before. Else
 * conditions.c counts.
 * Tests: tests/cases/while.test
 */
#include <string.h>

#include "base/checked.h"
#include "base/team.h"
#include "exec/run_state.h"

enum { FIRST_ITERATIONS = 64, MORE = 8 };

/* True if the run's options leave the number of steps open. */
static bool leaves_steps_open(const struct run *run)
{
	const struct job_options *job = &run->options->job;
	const struct gradient_options *gradient = run->gradient->options;
	const bool online = job->policy->kind == POLICY_online || (job->policy->kind == POLICY_auto && job->memory);
	return online && !gradient->journal && !gradient->event && !gradient->trace && !gradient->compare && !job->costs &&
	       !job->disk_bytes;
}

/* Checks that the chain can run on TYPE, and sets *WATCHES if its only `repeat while` can be watched. */
static enum status look_for_loop(struct run *run, const struct context *context, const struct type *type, bool *watches)
{
	struct lowered forward, steps;
	struct portion portion = run->options->job.portion;
	portion.watched = true;
	portion.most = 2;
	TRY(lower(context, &forward, run->chain, &run->options->job.portion, type, LOWER_RUN));
	TRY(params_check(run->params, forward.whole, NULL, run->chain, context->diags));
	if (forward.conditions != 1 || forward.nests)
		return STATUS_OK;
	TRY(lower(context, &steps, run->chain, &portion, type, LOWER_STEPS));
	const struct watched *watched = &steps.watched;
	*watches = watched->node && watched->steps > 0 && watched->start + 2 * watched->steps < steps.steps;
	unsigned libraries = 0;
	for (size_t i = 0; i < forward.whole->instr_count; i++) {
		const struct instr *instr = &forward.whole->instrs[i];
		libraries |= instr->kind == INSTR_OP ? op_libraries(instr->op) : 0;
	}
	return blas_load(libraries, run->options->job.threads, context->diags);
}

enum status watched_begin(struct run *run, const struct type *type, bool *watches)
{
	struct arena arena;
	*watches = false;
	run->conditions.by_pass = true;
	if (!leaves_steps_open(run))
		return STATUS_OK;
	arena_init(&arena, run->context.allocator);
	const struct context context = {run->context.allocator, &arena, run->context.diags};
	run_bind_params(run, chain_computing_type(run->chain, type->dtype));
	const enum status status = look_for_loop(run, &context, type, watches);
	arena_free(&arena);
	watched_close(run);
	run->conditions.watching = *watches;
	run->conditions.by_pass = !*watches;
	run->conditions.iterations = FIRST_ITERATIONS;
	if (run->options->job.policy->kind == POLICY_online) /* beyond these, iterations take no further bytes */
		run->conditions.iterations += 2 * lesser(run->options->job.policy->number, INT32_MAX);
	return status;
}

void watched_portion(const struct run *run, struct job_options *options)
{
	options->portion.watched = true;
	options->portion.most = run->conditions.iterations;
}

void watched_close(struct run *run)
{
	struct conditions *c = &run->conditions;
	for (size_t i = 0; i < c->program_count; i++)
		slab_put(&c->programs[i].slab, run->context.allocator);
	c->program_count = 0;
	c->programs = NULL;
}

enum status watched_reach(struct worker *worker, int64_t end)
{
	const struct allocator *allocator = worker->run->context.allocator;
	struct slab grown, *slab = &worker->slab;
	if (!worker->walk.hooks.boundary || end + (int64_t)ARRAY_ALIGN <= (int64_t)slab->size)
		return STATUS_OK;
	wave_run(worker->wave);
	TRY(slab_get_shared(&grown, end + end / 2, worker->run->programs, allocator, worker->diags));
	memcpy(grown.base, slab->base, slab->programs ? slab->size : slab->size - ARRAY_ALIGN);
	slab_put(slab, allocator);
	*slab = grown;
	return STATUS_OK;
}

/* Compiles the conditions of WATCHED, those that were not yet. */
static enum status compile_conditions(struct run *run, const struct watched *watched, struct diags *diags)
{
	struct conditions *c = &run->conditions;
	const struct context context = {run->context.allocator, run->gradient->arena, diags};
	if (!c->programs)
		c->programs = arena_array(context.arena, watched->count, sizeof *c->programs);
	TRY_ALLOC(c->programs, diags);
	for (; c->program_count < watched->count; c->program_count++) {
		struct watched_program *p = &c->programs[c->program_count];
		TRY(program_compile(&context, &p->program, watched->conditions[c->program_count].body, NULL, NULL));
		TRY(slab_get(&p->slab, round_up(p->program.workspace, ARRAY_ALIGN) + ARRAY_ALIGN, context.allocator, diags));
	}
	return STATUS_OK;
}

/* Sets *ABOVE if the condition before ITERATION is above 0. */
static enum status evaluate_condition(struct worker *worker, const struct watched *watched, int64_t iteration,
                                      const int64_t *offsets, bool *above)
{
	struct run *run = worker->run;
	size_t i = watched->count - 1;
	TRY(compile_conditions(run, watched, worker->diags));
	while (watched->conditions[i].first > iteration)
		i--;
	const struct watched_program *p = &run->conditions.programs[i];
	const struct body *body = p->program.body;
	const void **ins = allocator_get(run->context.allocator, body->in_count + 1, sizeof *ins);
	TRY_ALLOC(ins, worker->diags);
	void *number = p->slab.base + round_up(p->program.workspace, ARRAY_ALIGN);
	for (size_t k = 0; k < body->in_count; k++)
		ins[k] = worker->slab.base + offsets[body->ins[k].index];
	const enum status status = evaluate(&(struct evaluation){.program = &p->program,
	                                                         .ins = ins,
	                                                         .outs = &number,
	                                                         .params = worker->params,
	                                                         .counters = &iteration,
	                                                         .workspace = p->slab.base,
	                                                         .programs = run->programs,
	                                                         .worker = worker->index,
	                                                         .diags = worker->diags,
	                                                         .chain = run->chain});
	allocator_put(run->context.allocator, ins, (body->in_count + 1) * sizeof *ins);
	const bool wide = body->values[body->outs[0].value].type->dtype == DTYPE_F64;
	*above = wide ? *(const double *)number > 0 : *(const float *)number > 0;
	return status;
}

/* Makes the job again, for the iterations that are known now, or for more. The walk continues with it. */
static enum status continue_loop(struct worker *worker, struct machine_switch *to)
{
	struct run *run = worker->run;
	const struct job *job = run->gradient->job;
	const int64_t member = job->member_bytes;
	struct schedule *before = worker->walk.schedule;
	TRY(gradient_make_job(run, true));
	if (job->member_bytes > member) /* the memory of the team's threads is too small */
		run->unteamed = true;
	const size_t ports = (size_t)job->tile.compiled.ports + 1;
	worker->ins = arena_array(&run->arena, ports, sizeof *worker->ins);
	worker->outs = arena_array(&run->arena, ports, sizeof *worker->outs);
	worker->walk.schedule = schedule_copy(job->schedule);
	schedule_free(before);
	TRY_ALLOC(worker->ins && worker->outs && worker->walk.schedule, worker->diags);
	if (run->gradient->options->spill)
		TRY(kept_states_go_on(worker, worker->diags));
	*to = (struct machine_switch){&job->tile.compiled, worker->walk.schedule};
	return STATUS_OK;
}

/* Keeps COUNT, the iterations that have run. */
static enum status end_watch(struct run *run, uint32_t outermost, int64_t count, struct diags *diags)
{
	struct conditions *c = &run->conditions;
	c->watching = false;
	c->count = 1;
	c->counted = arena_array(run->gradient->arena, 1, sizeof *c->counted); /* reports read it */
	TRY_ALLOC(c->counted, diags);
	*c->counted = (struct counted){count, outermost};
	return STATUS_OK;
}

enum status watched_boundary(void *context, int64_t position, const int64_t *offsets, struct machine_switch *to)
{
	struct worker *worker = context;
	struct run *run = worker->run;
	const struct watched *watched = &run->gradient->job->tile.lowered.watched;
	const int64_t after = position - watched->start;
	if (!run->conditions.watching || after < 0 || after % watched->steps)
		return STATUS_OK;
	const int64_t iteration = after / watched->steps, max = watched->node->count;
	bool above;
	wave_run(worker->wave);
	TRY(evaluate_condition(worker, watched, iteration, offsets, &above));
	if (above && iteration < max) {
		if (iteration + 1 < run->conditions.iterations)
			return STATUS_OK;
		run->conditions.iterations *= MORE;
		return continue_loop(worker, to);
	}
	run->unmet = above ? watched->node : NULL;
	TRY(end_watch(run, watched->outermost, iteration, worker->diags));
	return continue_loop(worker, to);
}
