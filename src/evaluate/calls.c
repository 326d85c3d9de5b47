/*
 * Launches that call operations, or steps of other programs. On a window, what sums over rows takes those that the tile
 * owns.
 * Tests: tests/cases/grad.test, tests/unit/test_program.c
 */
#include "base/checked.h"
#include "evaluate/evaluator.h"
#include "evaluate/neighbours.h"
#include "evaluate/stored.h"

/* Returns the index of INSTR, a dropout or call of a program, in STREAM, the number of its stream; 0 for others. */
static uint64_t index_of(const struct evaluator *ev, const struct instr *instr, size_t stream)
{
	const struct stream *own = own_stream(ev->e->own, instr);
	const bool named = !own || (instr->attrs && instr->attrs->stream.given);
	const uint64_t index = own ? stream_index(own, ev->counters) : 0;
	return ev->e->skipped && !named ? index - ev->e->skipped[stream] : index;
}

void launch_run_begin(const struct evaluator *ev, const struct launch *launch, struct launch_run *run)
{
	const struct instr *instr = launch->instr;
	const struct frame_plan *frame = ev->program->frame;
	const bool group = launch->kind == LAUNCH_GROUP;
	run->launch = launch;
	run->program = ev->program;
	run->own = ev->e->own;
	run->frame = ev->frame;
	run->memory = ev->workspace + (group ? frame->registers[ev->layout] : frame->scratch);
	run->layout = ev->layout;
	run->kernels[0] = ev->kernels[0];
	run->kernels[1] = ev->kernels[1];
	run->count =
		ev->e->rows && launch->streamed && launch->rows ? launch->count / launch->rows * ev->e->rows : launch->count;
	run->lines = run->first = 0;
	if (group)
		return;
	if (launch->streamed & STREAMED_V)
		run->first = ev->e->flat ? ev->e->first_row : ev->e->first_row * row_elements(&instr->of.v->shape);
	run->iteration = instr->level < 0 ? 0 : ev->counters[instr->level];
	run->stream = index_of(ev, instr, 0);
}

/* Sets C to the call of LAUNCH, by blocks of rows if it folds, on the rows that the evaluation has. */
static void begin_call(const struct evaluator *ev, const struct launch *launch, struct launch_call *c)
{
	struct op_call *const call = &c->call;
	launch_run_begin(ev, launch, &c->run);
	launch_call_begin(c);
	if (ev->e->rows) {
		launch_call_cut(c, launch->streamed, (struct row_range){0, ev->e->rows});
		call->whole = call->v->shape.ndim ? call->v->shape.dim[0] : 1;
	}
	if (launch->streamed & STREAMED_V && !ev->e->flat)
		call->whole += ev->e->outside;
	call->team = ev->e->team;
	call->block = launch->folds ? ev->e->block : 0;
	call->blocks = ev->e->blocks;
}

/* Runs the derivative of C. That by an operand that all rows read is a sum over the rows that the tile owns. */
static void backward(const struct evaluator *ev, const struct launch_call *c)
{
	const struct launch *launch = c->run.launch;
	if (!ev->e->windows || !(launch->streamed & STREAMED_V) || launch_operand_streams(launch) || !c->out_a) {
		launch_call_run(c);
		return;
	}
	struct launch_call by_v = *c, by_a = *c;
	by_v.out_a = by_a.out = NULL;
	launch_call_cut(&by_a, launch->streamed, owned_of(ev, c->call.v));
	if (c->out)
		launch_call_run(&by_v);
	launch_call_run(&by_a);
}

/*
 * Fails with STATUS_DATA if an index or a class that C reads is out of range. A derivative checks too: the operation may have
 * been left out, because nothing reads its result.
 */
static enum status check_indices(const struct evaluator *ev, const struct launch_call *c)
{
	const struct instr *instr = c->run.launch->instr;
	const unsigned which = op_indices(instr->op);
	struct operand_wrong wrong;
	if (!which || !ev->e->chain || op_check_indices(&c->call, c->needs[which == NEED_V ? 0 : 1], &wrong))
		return STATUS_OK;
	const struct source *source = ev->e->chain->source;
	const struct span span = own_span(ev->e->own, instr->span);
	diag_at(ev->e->diags, STATUS_DATA, source, span, "'%s': %s", instr_written(instr, source, span), wrong.message);
	return *wrong.hint ? diag_hint(ev->e->diags, "%s", wrong.hint) : STATUS_DATA;
}

/* Passes on the part that C, an OP_COLLECT whose array is a caller's that takes parts, makes. */
static enum status pass_part(const struct evaluator *ev, const struct launch_call *c)
{
	const struct entry *array = &ev->program->frame->entries[c->run.launch->out];
	const int64_t part = op_part(&c->call);
	return part < 0 ? STATUS_OK : ev->e->part(ev->e->part_context, array->port, part, c->needs[0], c->call.v);
}

enum status run_operation(struct evaluator *ev, const struct launch *launch)
{
	struct launch_call c;
	begin_call(ev, launch, &c);
	if (ev->e->part && launch->instr->op == OP_COLLECT && !c.out && launch->out != NO_VALUE &&
	    ev->program->frame->entries[launch->out].kind == ENTRY_OUT)
		return pass_part(ev, &c);
	TRY(check_indices(ev, &c));
	launch_call_run(&c);
	return STATUS_OK;
}

enum status run_check(struct evaluator *ev, const struct launch *launch)
{
	struct launch_call c;
	begin_call(ev, launch, &c);
	return check_indices(ev, &c);
}

enum status run_vjp(struct evaluator *ev, const struct launch *launch)
{
	struct launch_call c;
	begin_call(ev, launch, &c);
	TRY(check_indices(ev, &c));
	if (launch->sum)
		add_derivative(ev, launch, &c);
	else
		backward(ev, &c);
	return STATUS_OK;
}

bool run_attention_back(struct evaluator *ev, const struct launch *launch)
{
	struct launch_call by_values, c;
	begin_call(ev, launch, &by_values);
	begin_call(ev, launch + 1, &c);
	c.call.db = launch->sum ? written_place(ev, launch) : by_values.out_a;
	if (!c.call.db || ev->e->windows)
		return false;
	if (launch[1].sum)
		add_derivative(ev, launch + 1, &c);
	else
		launch_call_run(&c);
	if (launch->sum)
		tell_written(ev, launch);
	return true;
}

/* Products. */

/* Returns the param in a file by which LAUNCH multiplies, or to whose gradient its derivative goes; NULL if there is none. */
static struct stored_operand *stored_at(const struct evaluator *ev, const struct launch *launch)
{
	const uint32_t operand = launch->needs[1];
	const struct entry *at = operand == NO_VALUE ? NULL : &ev->program->frame->entries[operand];
	const struct param_ref *ref = at && at->kind == ENTRY_PARAM ? &at->param : launch->sum;
	struct stored_operand *const stored = ref ? ev->e->params[own_param(ev->e->own, ref)->param].stored : NULL;
	return stored && !stored_in_parts(stored) ? stored : NULL;
}

enum status run_product(struct evaluator *ev, const struct launch *launch)
{
	struct stored_operand *const stored = stored_at(ev, launch);
	struct launch_call c;
	begin_call(ev, launch, &c);
	if (stored)
		return stored_multiply(stored, &c.call, c.out, c.needs[0], ev->e->diags);
	launch_call_run(&c);
	return STATUS_OK;
}

enum status run_product_vjp(struct evaluator *ev, const struct launch *launch)
{
	struct stored_operand *const stored = stored_at(ev, launch);
	struct launch_call c;
	begin_call(ev, launch, &c);
	if (stored)
		return stored_multiply_back(stored, &c.call, c.out, &(struct derivative_arrays){c.needs[0], c.g}, ev->e->diags);
	if (launch->sum)
		add_derivative(ev, launch, &c);
	else
		backward(ev, &c);
	return STATUS_OK;
}

/* Operations that fold. */

/*
 * Adds the rows of the tile to the state of CALL among ranks that exchange rows. The rank continues from the state of the
 * ranks before it. The last one keeps that of all rows. The others keep that of no row, since states of tiles are added in
 * the end.
 */
static enum status run_shared_fold(struct evaluator *ev, const struct op_call *call, double *state,
                                   const void *const needs[MAX_NEEDS])
{
	static void *const nothing[MAX_KEEPS];
	const struct fold_op fold = {call->op, false};
	const int64_t count = fold_count(call->op, call->v, call->y);
	const size_t size = (size_t)(fold_parts(fold) * count) * sizeof *state;
	struct op_call some = *call;
	bool passed;
	TRY(neighbours_get_state(ev->e->neighbours, state, size, &some.more));
	fold_partial_rows(&some, owned_of(ev, call->v), state, needs[0], needs[1], nothing);
	TRY(neighbours_pass_state(ev->e->neighbours, state, size, &passed));
	if (passed)
		fold_begin(fold, state, count);
	return STATUS_OK;
}

/* A tile adds the rows that it owns to its state of a fold. All rows leave what the derivative needs. */
enum status run_fold(struct evaluator *ev, const struct launch *launch)
{
	static void *const nothing[MAX_KEEPS];
	struct launch_call c;
	begin_call(ev, launch, &c);
	TRY(check_indices(ev, &c));
	if (!ev->e->fold || (ev->e->windows && c.keep[0]))
		launch_call_run(&c);
	if (!ev->e->fold)
		return STATUS_OK;
	double *const state = ev->e->fold + launch->state;
	if (ev->e->neighbours)
		return run_shared_fold(ev, &c.call, state, c.needs);
	fold_partial_rows(&c.call, owned_of(ev, c.call.v), state, c.needs[0], c.needs[1],
	                  ev->e->windows ? nothing : c.keep);
	if (!ev->e->fold_ends)
		fold_finish(&c.call, false, c.out, state, shape_count(&c.call.y->shape));
	return STATUS_OK;
}

enum status run_fold_vjp(struct evaluator *ev, const struct launch *launch)
{
	struct launch_call c;
	begin_call(ev, launch, &c);
	TRY(check_indices(ev, &c));
	if (ev->e->fold)
		fold_partial_rows_back(&c.call, owned_of(ev, c.call.v), ev->e->fold + launch->state, c.g, c.needs);
	else
		backward(ev, &c);
	return STATUS_OK;
}

/* Makes the rows of a NORM from the statistics of all rows. */
enum status run_normalization(struct evaluator *ev, const struct launch *launch)
{
	struct launch_call c;
	begin_call(ev, launch, &c);
	fold_apply(&c.call, c.out, c.needs[0], c.needs[3], c.keep[0]);
	return STATUS_OK;
}

/* Makes the rows of a derivative that folds from the statistics of all rows. */
enum status run_applied_vjp(struct evaluator *ev, const struct launch *launch)
{
	struct launch_call c;
	begin_call(ev, launch, &c);
	TRY(check_indices(ev, &c));
	fold_apply_back(&c.call, c.out, c.g, c.needs, c.needs[4]);
	return STATUS_OK;
}

/* Sums by blocks. Among ranks that exchange rows, each adds its own to the state of the ranks before it. */
static enum status sum_by_blocks(struct evaluator *ev, const struct launch *launch)
{
	const struct type *from = launch->instr->of.v, *to = launch->instr->of.y;
	const struct fold_op fold = {OP_sum, false};
	struct attrs attrs;
	sum_to_attrs(&attrs, to, from);
	const struct op_call call = {.op = OP_sum,
	                             .attrs = &attrs,
	                             .v = from,
	                             .y = to,
	                             .scratch = ev->workspace + ev->program->frame->scratch,
	                             .kernels = ev->kernels[from->dtype == DTYPE_F64],
	                             .block = ev->e->sum_block};
	const int64_t count = fold_count(OP_sum, from, to), size = fold_parts(fold) * count;
	double *const state = (double *)(void *)((char *)call.scratch + round_up(type_bytes(from), ARRAY_ALIGN));
	bool have, passed;
	TRY(neighbours_get_state(ev->e->neighbours, state, (size_t)size * sizeof *state, &have));
	if (!have)
		fold_begin(fold, state, count);
	fold_add_rows(&call, owned_of(ev, call.v), state, state + size, ev->frame[launch->needs[0]]);
	TRY(neighbours_pass_state(ev->e->neighbours, state, (size_t)size * sizeof *state, &passed));
	fold_finish(&call, false, ev->frame[launch->out], state, count);
	return STATUS_OK;
}

enum status run_sum_to(struct evaluator *ev, const struct launch *launch)
{
	if (launch->folds && ev->e->sum_block)
		return sum_by_blocks(ev, launch);
	const struct type made = type_with_rows(ev, launch, STREAMED_Y, launch->instr->of.y), *to = &made;
	const char *array = ev->frame[launch->needs[0]];
	struct type type = type_with_rows(ev, launch, STREAMED_V, launch->instr->of.v);
	if (launch->folds && ev->e->windows) {
		const struct row_range owned = owned_of(ev, &type);
		array += owned.first * (type_bytes(&type) / type.shape.dim[0]);
		type.shape.dim[0] = owned.count;
	}
	const struct kernels *kernels = ev->kernels[type.dtype == DTYPE_F64];
	char *const scratch = ev->workspace + ev->program->frame->scratch;
	if (launch->folds && ev->e->block && type.shape.dim[0] > ev->e->block) {
		struct attrs attrs;
		sum_to_attrs(&attrs, to, &type);
		op_forward_get(OP_sum)(&(struct op_call){.op = OP_sum,
		                                         .attrs = &attrs,
		                                         .v = &type,
		                                         .y = to,
		                                         .scratch = scratch,
		                                         .kernels = kernels,
		                                         .block = ev->e->block,
		                                         .blocks = ev->e->blocks},
		                       ev->frame[launch->out], array, NULL, NULL);
		return STATUS_OK;
	}
	sum_to_shape(kernels, ev->frame[launch->out], to, array, &type, scratch);
	return STATUS_OK;
}

/* evaluate_deferred, for struct external_call. */
static void add_meanwhile(void *context) { evaluate_deferred(context); }

/* Calls the program of LAUNCH: forward, recording if its record is wanted, or backward. */
enum status run_program(struct evaluator *ev, const struct launch *launch)
{
	const struct instr *instr = launch->instr;
	const struct external_use *use = instr_use(instr);
	const uint64_t *record = (const uint64_t *)(const void *)frame_at(ev->frame, launch->needs[3]);
	const void *operands[PROGRAM_OPERANDS];
	void *doperands[PROGRAM_OPERANDS];
	struct external_call call = {.program = use->index,
	                             .kind = launch->keep[0] == NO_VALUE ? EXTERNAL_FORWARD : EXTERNAL_RECORD,
	                             .number = (int64_t)index_of(ev, instr, 1 + use->index),
	                             .x = frame_at(ev->frame, launch->needs[0]),
	                             .operands = operands,
	                             .constant = use->program->constant,
	                             .y = frame_at(ev->frame, launch->out),
	                             .recorded = (uint64_t *)(void *)frame_at(ev->frame, launch->keep[0])};
	for (uint32_t k = 0; k < use->count; k++) {
		operands[k] = frame_at(ev->frame, launch->use->operands[k]);
		doperands[k] = frame_at(ev->frame, launch->use->outs[k]);
	}
	if (instr->kind == INSTR_VJP) {
		call.kind = EXTERNAL_BACKWARD;
		call.y = frame_at(ev->frame, launch->needs[2]);
		call.g = frame_at(ev->frame, launch->g);
		call.handle = record ? *record : 0;
		call.dx = frame_at(ev->frame, launch->out);
		call.doperands = doperands;
		call.aliased = ev->e->deferred && !ev->e->turns ? launch->use->summed : 0;
	}
	if (ev->e->deferred && ev->e->deferred->count > 0) {
		call.meanwhile = add_meanwhile;
		call.context = ev->e->deferred;
	}
	TRY(external_call(ev->e->programs, ev->e->worker, &call, ev->e->diags));
	ev->caller = launch;
	ev->aliased = 0;
	for (uint32_t k = 0; k < use->count; k++) {
		const uint32_t entry = launch->use->outs[k];
		if (!(call.aliased >> k & 1) || doperands[k] == ev->frame[entry])
			continue;
		ev->frame[entry] = doperands[k];
		ev->moved = true;
		ev->aliased |= 1u << k;
	}
	return STATUS_OK;
}
