/*
 * The evaluator walks a program's launches. The frame is a table of pointers to arrays,
 * at the start of the workspace. A group walks its arrays block by block. A call works on
 * whole arrays. A loop swaps the pointers of its carried values.
 * Tests: tests/unit/test_program.c
 */
#include <string.h>

#include "evaluate/blocks.h"
#include "evaluate/evaluator.h"
#include "evaluate/joined.h"
#include "evaluate/neighbours.h"
#include "evaluate/stored.h"
#include "evaluate/wave.h"

int64_t param_offset(const struct bound_param *param, const struct param_ref *ref, const int64_t *counters,
                     int64_t first_row)
{
	int64_t offset = 0;
	for (uint32_t i = 0; i < ref->count; i++) {
		int64_t at = ref->index[i].value + (ref->index[i].loop >= 0 ? counters[ref->index[i].loop] : 0);
		offset = offset * param->shape->dim[i] + at;
	}
	for (int i = (int)ref->count; i < param->shape->ndim; i++)
		offset *= param->shape->dim[i];
	return param->streamed ? offset + first_row * row_elements(param->shape) : offset;
}

const void *param_place(const struct bound_param *param, const struct param_ref *ref, const int64_t *counters,
                        int64_t first_row)
{
	const int64_t offset = param_offset(param, ref, counters, first_row - param->begins);
	return param->stored ? NULL : (const char *)param->data + (size_t)offset * dtype_size(param->dtype);
}

char *frame_param(const struct evaluator *ev, const struct param_ref *shared)
{
	const struct param_ref *ref = own_param(ev->e->own, shared);
	return (char *)(uintptr_t)param_place(&ev->e->params[ref->param], ref, ev->counters, ev->e->first_row);
}

/* Returns the param of which ENTRY is a part if it is read by parts in its file; else NULL. */
static const struct bound_param *param_in_parts(const struct evaluator *ev, const struct entry *entry)
{
	const struct bound_param *param =
		entry->kind == ENTRY_PARAM ? &ev->e->params[own_param(ev->e->own, &entry->param)->param] : NULL;
	return param && param->stored && stored_in_parts(param->stored) ? param : NULL;
}

static void open_frame(struct evaluator *ev)
{
	const struct frame_plan *frame = ev->program->frame;
	for (size_t i = 0; i < frame->count; i++) {
		const struct entry *entry = &frame->entries[i];
		ev->parts |= param_in_parts(ev, entry) != NULL;
		if (entry->kind == ENTRY_IN)
			ev->frame[i] = (char *)(uintptr_t)ev->e->ins[entry->port];
		else if (entry->kind == ENTRY_OUT)
			ev->frame[i] = ev->e->outs[entry->port];
		else if (entry->kind == ENTRY_PARAM && !entry->dynamic)
			ev->frame[i] = frame_param(ev, &entry->param);
		else if (entry->kind == ENTRY_COUNTER)
			frame_set_counter(ev->frame, (uint32_t)i, ev->counters[entry->level]);
		else if (entry->kind == ENTRY_WORKSPACE)
			ev->frame[i] = ev->workspace + entry->offset[ev->layout];
		else if (entry->kind == ENTRY_CARRIED)
			ev->frame[i] = NULL;
	}
}

/* Runs the launches that are joined to LAUNCH, too. False, with nothing done, if LAUNCH runs alone. */
static bool run_joined(struct evaluator *ev, const struct launch *launch)
{
	if (launch->joined == 0 || ev->e->rows)
		return false;
	if (launch_is_call(launch) && launch->instr->op == OP_ATTENDED)
		return run_attention_back(ev, launch);
	struct launch_run run;
	launch_run_begin(ev, launch, &run);
	return joined_run(&run, ev->e->team);
}

static enum status run_group(struct evaluator *ev, const struct launch *launch)
{
	struct launch_run run;
	launch_run_begin(ev, launch, &run);
	group_run(&run, ev->e->team);
	return STATUS_OK;
}

/*
 * Lets LAUNCH wait in the wave, and returns true. Else it runs the launches that wait, since LAUNCH may use their arrays
 * otherwise than by rows. Loops let their copies wait, too.
 */
static bool waits(struct evaluator *ev, const struct launch *launch)
{
	struct wave *wave = ev->e->wave;
	if (!wave || launch->kind == LAUNCH_LOOP || launch->kind == LAUNCH_END)
		return false;
	if (launch->rows == 0) {
		wave_run(wave);
		return false;
	}
	struct launch_run run;
	launch_run_begin(ev, launch, &run);
	const bool moved = ev->moved;
	ev->moved = false;
	return wave_add(wave, &run, moved, ev->e->team);
}

/* Sets the frame's entry INDEX, which may be NO_VALUE, to its part of a param that is read by parts, if it is one. */
static enum status read_part(struct evaluator *ev, uint32_t index)
{
	const struct entry *entry = index == NO_VALUE ? NULL : &ev->program->frame->entries[index];
	const struct bound_param *param = entry ? param_in_parts(ev, entry) : NULL;
	if (!param)
		return STATUS_OK;
	const int64_t first = param_offset(param, own_param(ev->e->own, &entry->param), ev->counters, 0);
	const int64_t at = first * (int64_t)dtype_size(param->dtype);
	if (!stored_part(param->stored, at)) {
		wave_run(ev->e->wave); /* launches that wait read the parts that are in memory */
		TRY(stored_read_parts(param->stored, at, ev->e->team, ev->e->diags));
	}
	char *const part = (char *)(uintptr_t)stored_part(param->stored, at);
	ev->moved |= ev->frame[index] != part;
	ev->frame[index] = part;
	return STATUS_OK;
}

/* Reads the parts of params that LAUNCH, and the launches that are joined to it, read in their files. */
static enum status read_parts(struct evaluator *ev, const struct launch *launch)
{
	for (const struct launch *each = launch; each <= launch + launch->joined; each++) {
		for (int k = 0; launch_is_call(each) && k < MAX_NEEDS; k++)
			TRY(read_part(ev, each->needs[k]));
		for (size_t i = 0; each->kind == LAUNCH_GROUP && i < each->kernel_op_count; i++)
			for (int k = 0; k < KERNEL_OP_READS; k++) {
				const struct arg *arg = &each->kernel_ops[i].args[k];
				if (arg->kind == ARG_ARRAY || arg->kind == ARG_SCALAR)
					TRY(read_part(ev, arg->index));
			}
	}
	return STATUS_OK;
}

static enum status run_copy(struct evaluator *ev, const struct launch *launch)
{
	const struct type type = type_with_rows(ev, launch, STREAMED_V, ev->program->frame->entries[launch->out].type);
	memcpy(ev->frame[launch->out], ev->frame[launch->needs[0]], (size_t)type_bytes(&type));
	return STATUS_OK;
}

/* By kind of launch. */
static launch_function *const launch_functions[] = {
	[LAUNCH_GROUP] = run_group,
	[LAUNCH_OPERATION] = run_operation,
	[LAUNCH_PRODUCT] = run_product,
	[LAUNCH_FOLD] = run_fold,
	[LAUNCH_NORMALIZATION] = run_normalization,
	[LAUNCH_VJP] = run_vjp,
	[LAUNCH_PRODUCT_VJP] = run_product_vjp,
	[LAUNCH_FOLD_VJP] = run_fold_vjp,
	[LAUNCH_APPLIED_VJP] = run_applied_vjp,
	[LAUNCH_CHECK] = run_check,
	[LAUNCH_PROGRAM] = run_program,
	[LAUNCH_SUM_TO] = run_sum_to,
	[LAUNCH_ACCUMULATE] = run_accumulate,
	[LAUNCH_COPY] = run_copy,
	[LAUNCH_LOOP] = run_loop,
	[LAUNCH_WHILE] = run_while,
	[LAUNCH_END] = run_end,
};

enum status evaluate(const struct evaluation *e)
{
	const struct program *program = e->program;
	int64_t counters[program->levels + 1];
	memset(counters, 0, sizeof counters);
	if (e->counters)
		memcpy(counters, e->counters, (size_t)program->levels * sizeof *counters);
	struct evaluator ev = {.e = e,
	                       .program = program,
	                       .layout = program_layout(program, e->rows),
	                       .workspace = e->workspace,
	                       .frame = wave_frame(e->wave, e->workspace, program->frame->count),
	                       .kernels = {e->kernels[0] ? e->kernels[0] : kernels_get(DTYPE_F32),
	                                   e->kernels[1] ? e->kernels[1] : kernels_get(DTYPE_F64)},
	                       .counters = counters,
	                       .moved = true};
	open_frame(&ev);
	while (ev.next < program->launch_count) {
		if (e->stop && *e->stop)
			return diag_file(e->diags, STATUS_STOPPED, NULL, -1, "the run was stopped");
		const struct launch *launch = &program->launches[ev.next++];
		TRY(ev.parts ? read_parts(&ev, launch) : STATUS_OK);
		for (const struct launch *each = launch; each <= launch + launch->joined; each++)
			TRY(neighbours_launch(e->neighbours, program, each, ev.frame)); /* joined ones read no rows around a row */
		if (waits(&ev, launch))
			continue;
		if (run_joined(&ev, launch))
			ev.next += launch->joined;
		else
			TRY(launch_functions[launch->kind](&ev, launch));
	}
	return STATUS_OK;
}
