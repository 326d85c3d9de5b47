/* Tests: tests/scripts/check-passes, tests/cases/folds.test */
#include "exec/passes.h"

#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "evaluate/wave.h"
#include "exec/run_state.h"

static struct pass *current_pass(const struct run *run) { return &run->passes.programs->passes[run->passes.current]; }

bool passes_fold(const struct run *run) { return run->passes.levels && current_pass(run)->fold_count > 0; }

bool passes_write(const struct run *run)
{
	const struct passes *passes = &run->passes;
	if (!passes->levels || (run->gradient && !passes->joint)) /* a schedule makes rows of gradients */
		return true;
	return passes->levels->last && passes->current + 1 == passes->programs->count;
}

bool passes_end_in_fold(const struct run *run)
{
	const struct pass_list *programs = run->passes.programs;
	return programs && programs->passes[programs->count - 1].between.body->out_count == 0;
}

static const struct instr *instr_of(const struct passes *passes, const struct fold *fold)
{
	return &passes->levels->body->instrs[fold->instr];
}

/* Returns the elements of the result, or statistics, of FOLD. */
static int64_t count_of(const struct passes *passes, const struct fold *fold)
{
	const struct instr *instr = instr_of(passes, fold);
	return fold_count(instr->op, instr->of.v, instr->of.y);
}

/* Allocates the results that parts pass on, the states of a pass, and the memory of the programs between passes. */
static enum status allocate(struct run *run)
{
	struct passes *passes = &run->passes;
	const struct pass_list *list = passes->programs;
	const int64_t state = round_up(list->state * (int64_t)sizeof(double), ARRAY_ALIGN);
	const uint32_t count = passes->levels->value_count;
	passes->results = arena_array(run->context.arena, count + 1, sizeof(char *));
	passes->params = arena_array(run->context.arena, run->params->count + 1, sizeof *passes->params);
	TRY_ALLOC(passes->results && passes->params, run->context.diags);
	TRY(slab_get(&passes->slab, pass_list_bytes(list), run->context.allocator, run->context.diags));
	char *at = passes->slab.base + state;
	passes->state = (double *)(void *)passes->slab.base;
	for (uint32_t i = 0; i < count; i++) {
		passes->results[i] = passes->levels->passed[i] ? at : NULL;
		at += pass_list_result(list, i);
	}
	passes->workspace = at;
	run->ordered.values[run->params->count].heads = passes->slab.base;
	return STATUS_OK;
}

enum status passes_open(struct run *run, const struct pass_list *programs, const struct joint_passes *joint)
{
	run->passes = (struct passes){.levels = programs->levels, .programs = programs, .joint = joint};
	return allocate(run);
}

enum status passes_compile(struct run *run, const struct levels *levels, const struct body *tile,
                           const struct pass_list **made)
{
	struct pass_list *programs = arena_alloc(run->context.arena, sizeof *programs);
	TRY_ALLOC(programs, run->context.diags);
	programs->levels = levels;
	*made = programs;
	return pass_list_make(&run->context, programs, tile);
}

void passes_close(struct run *run)
{
	if (!run->passes.levels)
		return;
	slab_put(&run->passes.slab, run->context.allocator);
	run->passes = (struct passes){.levels = NULL};
}

/* Sets *IN to the array of in VALUE of the worker's tile: a result, rows of the cotangent, or rows of the input. */
static enum status find_in(struct worker *worker, const struct joint *joint, uint32_t value, const void **in)
{
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const char *result = run->passes.results[value];
	*in = result ? result : worker->input + worker->tile * tiles->tile * tiles->input_row;
	if (result || !joint || value != joint->cotangent)
		return STATUS_OK;
	char *const seed = worker->slab.base + run->passes.programs->workspace;
	*in = seed;
	const struct value *v = &joint->body->values[value];
	const struct type type = type_of_rows(v->type, v->streamed, worker_fewer_rows(worker));
	return exchange_read_cotangent(worker, seed, &type);
}

/* Returns the output that out VALUE of a tile makes. */
static enum output_index output_of(const struct run *run, const struct joint *joint, uint32_t value)
{
	const struct body *body = run->passes.levels->body;
	size_t k = 0;
	if (joint)
		return value == joint->gradient ? OUTPUT_GRADIENT : OUTPUT_VALUE;
	while (k + 1 < body->out_count && body->outs[k].value != value)
		k++;
	return (enum output_index)(OUTPUT_VALUE + k);
}

enum status passes_run_tile(struct worker *worker)
{
	static const int64_t counters[MAX_LOOPS];
	const struct run *run = worker->run;
	const struct pass *pass = current_pass(run);
	const struct joint_passes *joints = run->passes.joint;
	const struct body_part *part = &pass->tile;
	const struct program *program = &pass->tile_program;
	const struct joint *joint = joints ? &joints->tile : NULL;
	/* A fold leaves a state and no out, but may use its memory. */
	char *memory = worker->slab.base + round_up(program->workspace, ARRAY_ALIGN);
	for (size_t i = 0; i < part->body->in_count; i++)
		TRY(find_in(worker, joint, part->ins[i], &worker->ins[i]));
	for (size_t i = 0; i < part->body->out_count; i++) {
		const bool apart = pass_out_apart(run->passes.programs, pass, i);
		worker->outs[i] = apart ? memory : rows_out_of_tile(worker, output_of(run, joint, part->outs[i]));
		memory += apart ? pass_out_bytes(part->body, i) : 0;
	}
	rows_in_aim_params(worker);
	struct evaluation evaluation = {.program = program,
	                                .rows = worker_fewer_rows(worker),
	                                .own = joint ? joint->own : NULL,
	                                .counters = counters,
	                                .workspace = worker->slab.base,
	                                .fold = worker_state(worker),
	                                .fold_ends = true};
	const enum status status = worker_evaluate(worker, &evaluation);
	wave_run(worker->wave);
	for (size_t i = pass->fold_count; i < part->body->out_count && run->passes.programs->apart; i++)
		rows_out_take(worker, output_of(run, joint, part->outs[i]), worker->outs[i],
		              part->body->values[part->outs[i]].type);
	return status;
}

/* Returns the number of doubles of the state of FOLD. */
static int64_t state_size(const struct passes *passes, const struct fold *fold)
{
	return instr_state(instr_of(passes, fold));
}

enum status passes_add_chunk(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct passes *passes = &run->passes;
	const struct pass *pass = current_pass(run);
	const uint32_t value = (uint32_t)run->params->count;
	TRY(ordered_begin(&worker->turn, value, NULL));
	for (int64_t tile = 0; tile < tiles_of(run->tiles, worker->chunk); tile++) {
		double *state = passes->state;
		const double *from = worker->states + tile * run->tiles->state;
		for (uint32_t i = 0; i < pass->fold_count; i++) {
			fold_add(instr_fold(instr_of(passes, pass->folds[i])), state, from, count_of(passes, pass->folds[i]));
			state += state_size(passes, pass->folds[i]);
			from += state_size(passes, pass->folds[i]);
		}
	}
	return ordered_end(&worker->turn, value, NULL);
}

static void begin_states(const struct passes *passes, const struct pass *pass)
{
	double *state = passes->state;
	for (uint32_t i = 0; i < pass->fold_count; i++) {
		fold_begin(instr_fold(instr_of(passes, pass->folds[i])), state, count_of(passes, pass->folds[i]));
		state += state_size(passes, pass->folds[i]);
	}
}

/* Stores the results of the folds of PASS, and the values without rows that are computed from them. */
static void finish_pass(struct run *run, const struct pass *pass)
{
	static const int64_t counters[MAX_LOOPS];
	const struct passes *passes = &run->passes;
	const struct body_part *between = &pass->between;
	const void *ins[passes->levels->value_count + 1];
	void *outs[passes->levels->value_count + 1];
	double *state = passes->state;
	for (uint32_t i = 0; i < pass->fold_count; i++) {
		const struct instr *instr = instr_of(passes, pass->folds[i]);
		const struct op_call call = {.op = instr->op,
		                             .attrs = instr->attrs,
		                             .v = instr->of.v,
		                             .a = instr->of.a,
		                             .y = instr->of.y,
		                             .whole = instr->of.v->shape.dim[0],
		                             .kernels = kernels_get(instr->of.y->dtype)};
		fold_finish(&call, instr->kind == INSTR_VJP, passes->results[pass->folds[i]->result], state,
		            count_of(passes, pass->folds[i]));
		state += state_size(passes, pass->folds[i]);
	}
	for (size_t i = 0; i < between->body->in_count; i++)
		ins[i] = passes->results[between->ins[i]];
	for (size_t i = 0; i < between->body->out_count; i++)
		outs[i] = passes->results[between->outs[i]];
	if (between->body->instr_count + between->body->out_count > 0) /* it calls no program, so it cannot fail */
		(void)evaluate(&(struct evaluation){.program = &pass->between_program,
		                                    .ins = ins,
		                                    .outs = outs,
		                                    .params = passes->params,
		                                    .own = passes->joint ? passes->joint->whole.own : NULL,
		                                    .counters = counters,
		                                    .workspace = passes->workspace});
}

struct spill_piece passes_left(const struct run *run)
{
	const struct passes *passes = &run->passes;
	return (struct spill_piece){passes->slab.base, (size_t)(passes->workspace - passes->slab.base)};
}

/* Writes the outputs that have no rows, if they are wanted. The gradient of a place may be one. */
static enum status write_results(struct run *run)
{
	const struct levels *levels = run->passes.levels;
	const struct joint *joint = run->passes.joint ? &run->passes.joint->whole : NULL;
	for (size_t k = 0; k < levels->body->out_count; k++) {
		const uint32_t output = levels->body->outs[k].value;
		const struct type *type = levels->body->values[output].type;
		struct writer *writer = run->outputs[output_of(run, joint, output)].writer;
		if (levels->rows[output] || !writer)
			continue;
		if (!run->outputs_begun)
			TRY(rows_out_begin(run, run->context.diags));
		TRY(writer_write(writer, run->passes.results[output], type->dtype, shape_count(&type->shape),
		                 run->context.diags));
	}
	return STATUS_OK;
}

/* Sets what the programs between passes read and add to, beside results. */
static enum status begin_between(struct run *run)
{
	struct passes *passes = &run->passes;
	const uint32_t seed = passes->joint ? passes->joint->whole.cotangent : NO_VALUE;
	for (size_t i = 0; i < run->params->count; i++)
		passes->params[i] = run->bound[i];
	if (passes->joint)
		totals_aim_all(run, passes->params);
	if (seed != NO_VALUE && passes->results[seed])
		TRY(exchange_read_whole_cotangent(run, passes->results[seed], passes->levels->body->values[seed].type));
	return STATUS_OK;
}

static enum status run_pass(struct run *run, const struct pipeline *pipeline)
{
	struct passes *passes = &run->passes;
	struct pipeline each = *pipeline;
	rows_in_begin_pass(run, passes->current > 0);
	each.read_in_order = !rows_in_anywhere(run);
	each.write_in_order = pipeline->write_in_order || passes_fold(run);
	if (run->begun == 0) /* else the journal has states */
		begin_states(passes, current_pass(run));
	if (passes_write(run) && !run->outputs_begun && !each.write_in_order) /* workers write anywhere */
		TRY(rows_out_begin(run, run->context.diags));
	TRY(run_chunks(run, &each));
	run->begun = 0;
	TRY(passes_fold(run) ? shares_spread_state(run) : STATUS_OK);
	TRY(passes_write(run) ? shares_await_sums(run) : STATUS_OK);
	const unsigned before = flush_begin(pipeline->flush_denormals);
	finish_pass(run, current_pass(run));
	flush_end(before);
	TRY(run->points.lie == POINTS_BETWEEN_CHUNKS ? shares_meet(run)
	                                             : STATUS_OK); /* the next point has all that was added */
	rows_in_end_pass(run);
	passes->steps += current_pass(run)->steps;
	return STATUS_OK;
}

enum status passes_run(struct run *run, const struct pipeline *pipeline)
{
	struct passes *passes = &run->passes;
	TRY(rows_in_begin_passes(run, passes->programs->count));
	const uint32_t begin = run->begun > 0 ? passes->current : 0; /* a run that resumes has a current pass */
	passes->steps = 0;
	for (passes->current = 0; passes->current < begin; passes->current++)
		passes->steps += current_pass(run)->steps;
	TRY(begin_between(run));
	while (passes->current < passes->programs->count) {
		TRY(run_pass(run, pipeline));
		passes->current++;
	}
	passes->current--;
	TRY(write_results(run));
	return rows_in_end_passes(run);
}
