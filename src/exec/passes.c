#include "exec/passes.h"

#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "exec/run_parts.h"
#include "exec/wave.h"

static struct pass *current_pass(const struct run *run) { return &run->passes.list[run->passes.current]; }

bool passes_fold(const struct run *run)
{
	return run->passes.levels && run->passes.current < run->passes.levels->count;
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

/* Makes PART the rows' part of pass INDEX for tiles of ROWS rows of LOWERED, and compiles it. */
static enum status compile_rows(const struct run *run, uint32_t index, const struct lowered *lowered,
                                struct body_part *part, struct program *program)
{
	TRY_ALLOC(levels_rows(run->passes.levels, lowered->whole, index + 1, run->context.arena, part), run->context.diags);
	return program_compile(&run->context, program, part->body, NULL, NULL);
}

static enum status list_folds(const struct run *run, struct pass *pass, uint32_t index)
{
	const struct levels *levels = run->passes.levels;
	pass->folds = arena_array(run->context.arena, levels->fold_count + 1, sizeof(struct fold *));
	TRY_ALLOC(pass->folds, run->context.diags);
	for (uint32_t i = 0; i < levels->fold_count; i++)
		if (levels->folds[i].level == index + 1)
			pass->folds[pass->fold_count++] = &levels->folds[i];
	return STATUS_OK;
}

/* Returns the bytes of out K of BODY. */
static int64_t out_bytes(const struct body *body, size_t k)
{
	return round_up(type_bytes(body->values[body->outs[k].value].type), ARRAY_ALIGN);
}

static enum status compile_pass(struct run *run, uint32_t index, const struct lowered *tile, const struct lowered *rest)
{
	struct passes *passes = &run->passes;
	struct pass *pass = &passes->list[index];
	TRY(list_folds(run, pass, index));
	TRY(compile_rows(run, index, tile, &pass->tile, &pass->tile_program));
	if (run->tiles->rest)
		TRY(compile_rows(run, index, rest, &pass->rest, &pass->rest_program));
	TRY_ALLOC(levels_between(passes->levels, index + 1, run->context.arena, &pass->between), run->context.diags);
	TRY(program_compile(&run->context, &pass->between_program, pass->between.body, NULL, NULL));
	const struct program *programs[] = {&pass->tile_program, &pass->rest_program};
	for (int i = 0; i < (run->tiles->rest ? 2 : 1); i++) {
		int64_t bytes = round_up(programs[i]->workspace, ARRAY_ALIGN);
		for (size_t k = 0; pass->fold_count && k < programs[i]->body->out_count; k++)
			bytes = saturated_add(bytes, out_bytes(programs[i]->body, k));
		passes->workspace_bytes = greater(passes->workspace_bytes, bytes);
		const size_t ports = greater(programs[i]->body->in_count, programs[i]->body->out_count);
		passes->ports = ports > passes->ports ? ports : passes->ports;
		run->forward->tile.program.uses_gemm |= programs[i]->uses_gemm;
	}
	run->forward->tile.program.uses_gemm |= pass->between_program.uses_gemm;
	return STATUS_OK;
}

/* Returns the bytes of the result VALUE, whose type is that in the body of BETWEEN. */
static int64_t result_bytes(const struct body_part *between, uint32_t value)
{
	return round_up(type_bytes(between->body->values[value].type), ARRAY_ALIGN);
}

/* Allocates the results that parts pass on, the states of a pass, and the memory of the programs between passes. */
static enum status allocate(struct run *run)
{
	struct passes *passes = &run->passes;
	const struct levels *levels = passes->levels;
	const struct body_part *types = &passes->list[0].between;
	int64_t bytes = run->tiles->state * (int64_t)sizeof(double), workspace = 0;
	bytes = round_up(bytes, ARRAY_ALIGN);
	for (uint32_t i = 0; i < levels->value_count; i++)
		bytes = saturated_add(bytes, levels->passed[i] ? result_bytes(types, i) : 0);
	for (uint32_t i = 0; i < passes->count; i++)
		workspace = greater(workspace, passes->list[i].between_program.workspace);
	bytes = saturated_add(bytes, workspace);
	passes->results = arena_array(run->context.arena, levels->value_count + 1, sizeof(char *));
	TRY_ALLOC(passes->results, run->context.diags);
	TRY(slab_get(&passes->slab, bytes, run->context.allocator, run->context.diags));
	char *at = passes->slab.base;
	passes->state = (double *)(void *)at;
	at += round_up(run->tiles->state * (int64_t)sizeof(double), ARRAY_ALIGN);
	for (uint32_t i = 0; i < levels->value_count; i++) {
		passes->results[i] = levels->passed[i] ? at : NULL;
		at += levels->passed[i] ? result_bytes(types, i) : 0;
	}
	passes->workspace = at;
	run->forward->bytes += bytes;
	return STATUS_OK;
}

enum status passes_open(struct run *run)
{
	struct passes *passes = &run->passes;
	const struct lowered *whole = run->whole;
	struct lowered tile, rest = {0};
	*passes = (struct passes){.levels = whole->levels, .count = levels_passes(whole->levels), .copy.fd = -1};
	passes->list = arena_array(run->context.arena, passes->count, sizeof *passes->list);
	TRY_ALLOC(passes->list, run->context.diags);
	TRY(lower_tile(&run->context, &tile, whole, &run->input, LOWER_RUN, run->tiles->tile));
	if (run->tiles->rest)
		TRY(lower_tile(&run->context, &rest, whole, &run->input, LOWER_RUN, run->tiles->rest));
	for (uint32_t i = 0; i < passes->count; i++)
		TRY(compile_pass(run, i, &tile, &rest));
	TRY(allocate(run));
	if (run->forward->tile.program.uses_gemm)
		TRY(blas_load(run->options->job.threads, run->context.diags));
	return team_open(&run->team, run->tiles->workers, 0, run->context.allocator, run->context.diags);
}

void passes_close(struct run *run)
{
	if (!run->passes.levels)
		return;
	slab_put(&run->passes.slab, run->context.allocator);
	input_copy_close(&run->passes.copy);
	run->passes = (struct passes){.levels = NULL};
}

enum status passes_run_tile(struct worker *worker)
{
	static const int64_t counters[MAX_LOOPS];
	const struct run *run = worker->run;
	const struct tiles *tiles = run->tiles;
	const struct pass *pass = current_pass(run);
	const bool full = worker->rows == tiles->tile, folds = passes_fold(run);
	const struct body_part *part = full ? &pass->tile : &pass->rest;
	for (size_t i = 0; i < part->body->in_count; i++) {
		const char *result = run->passes.results[part->ins[i]];
		worker->ins[i] = result ? result : worker->input + worker->tile * tiles->tile * tiles->input_row;
	}
	/* A program that folds leaves states, and no outs, but may use their memory. */
	const struct program *program = full ? &pass->tile_program : &pass->rest_program;
	char *out = folds ? worker->slab.base + round_up(program->workspace, ARRAY_ALIGN)
	                  : worker->value + worker->tile * tiles->tile * tiles->output_row;
	for (size_t i = 0; i < part->body->out_count; i++) {
		worker->outs[i] = out;
		out += folds ? out_bytes(part->body, i) : 0;
	}
	struct evaluation evaluation = {.program = program,
	                                .counters = counters,
	                                .workspace = worker->slab.base,
	                                .fold = folds ? worker->states + worker->tile * tiles->state : NULL,
	                                .fold_ends = true};
	const enum status status = worker_evaluate(worker, &evaluation);
	wave_run(worker->wave);
	return status;
}

/* Returns the number of doubles of the state of FOLD. */
static int64_t state_size(const struct passes *passes, const struct fold *fold)
{
	return fold_parts(instr_of(passes, fold)->op) * count_of(passes, fold);
}

void passes_add_chunk(const struct worker *worker, int64_t chunk)
{
	const struct run *run = worker->run;
	const struct passes *passes = &run->passes;
	const struct pass *pass = current_pass(run);
	for (int64_t tile = 0; tile < tiles_of(run->tiles, chunk); tile++) {
		double *state = passes->state;
		const double *from = worker->states + tile * run->tiles->state;
		for (uint32_t i = 0; i < pass->fold_count; i++) {
			fold_add(instr_of(passes, pass->folds[i])->op, state, from, count_of(passes, pass->folds[i]));
			state += state_size(passes, pass->folds[i]);
			from += state_size(passes, pass->folds[i]);
		}
	}
}

static void begin_states(const struct passes *passes, const struct pass *pass)
{
	double *state = passes->state;
	for (uint32_t i = 0; i < pass->fold_count; i++) {
		fold_begin(instr_of(passes, pass->folds[i])->op, state, count_of(passes, pass->folds[i]));
		state += state_size(passes, pass->folds[i]);
	}
}

/* Stores the results of the folds of PASS, and what follows from them. */
static void finish_pass(const struct run *run, const struct pass *pass)
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
		                             .whole = run->whole->whole_rows,
		                             .kernels = kernels_get(instr->of.y->dtype)};
		fold_finish(&call, passes->results[pass->folds[i]->result], state, count_of(passes, pass->folds[i]));
		state += state_size(passes, pass->folds[i]);
	}
	for (size_t i = 0; i < between->body->in_count; i++)
		ins[i] = passes->results[between->ins[i]];
	for (size_t i = 0; i < between->body->out_count; i++)
		outs[i] = passes->results[between->outs[i]];
	if (between->body->out_count) /* it calls no program, so it cannot fail */
		(void)evaluate(&(struct evaluation){.program = &pass->between_program,
		                                    .ins = ins,
		                                    .outs = outs,
		                                    .params = run->params->bound,
		                                    .counters = counters,
		                                    .workspace = passes->workspace});
}

/* Opens the copy of an array that cannot be read again. */
static enum status open_copy(struct run *run)
{
	const struct run_options *options = run->options;
	struct diags *diags = run->context.diags;
	input_copy_close(&run->passes.copy);
	run->passes.copy = (struct input_copy){.fd = -1};
	run->passes.stamp = input_stamp(run->reader->input);
	if (run->passes.count < 2 || (reader_rereadable(run->reader) && !options->value->options.reader))
		return STATUS_OK;
	if (!options->one_pass)
		return input_copy_open(&run->passes.copy, options->spill, "the chain reads its input several times", diags);
	diag_file(diags, STATUS_USAGE, run->reader->input->name, -1,
	          "the chain reads its input %u times, which --one-pass forbids for one that cannot be read again",
	          run->passes.count);
	return diag_hint(diags, "a file with -i can, and without --one-pass a copy is made");
}

/* Checks that nobody has changed the file that all passes have read. */
static enum status check_input(const struct run *run)
{
	const struct passes *passes = &run->passes;
	if (passes->count < 2 || passes->copy.fd >= 0 || run->reader->held)
		return STATUS_OK;
	return input_check_stamp(run->reader->input, &passes->stamp, run->context.diags);
}

/* Writes the output that has no rows. */
static enum status write_result(struct run *run)
{
	const struct levels *levels = run->passes.levels;
	const uint32_t output = levels->body->outs[0].value;
	const struct type *type = levels->body->values[output].type;
	if (levels->last)
		return STATUS_OK;
	TRY(input_output_begin_outputs(run, run->context.diags));
	return writer_write(run->options->value, run->passes.results[output], type->dtype, shape_count(&type->shape),
	                    run->context.diags);
}

enum status passes_run(struct run *run, const struct pipeline *pipeline)
{
	struct passes *passes = &run->passes;
	const bool anywhere = run->read_anywhere;
	TRY(open_copy(run));
	for (passes->current = 0; passes->current < passes->count; passes->current++) {
		struct pipeline each = *pipeline;
		run->read_anywhere = (anywhere || passes->current > 0) && passes->copy.fd < 0;
		each.read_in_order = passes->current == 0 && !run->read_anywhere;
		each.write_in_order = pipeline->write_in_order || passes_fold(run);
		begin_states(passes, current_pass(run));
		if (!passes_fold(run)) /* before workers write anywhere */
			TRY(input_output_begin_outputs(run, run->context.diags));
		TRY(pipeline_run(&each, run->context.diags));
		TRY(passes_fold(run) ? shares_spread_state(run) : STATUS_OK);
		const unsigned before = flush_begin(pipeline->flush_denormals);
		finish_pass(run, current_pass(run));
		flush_end(before);
		passes->copy.complete = passes->copy.fd >= 0;
	}
	run->forward->counters->copied_bytes += passes->copy.bytes;
	run->read_anywhere = anywhere;
	TRY(write_result(run));
	return check_input(run);
}
