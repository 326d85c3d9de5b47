/*
 * The evaluator walks a program's launches. The frame is a table of pointers to arrays,
 * at the start of the workspace. A group walks its arrays block by block. A call works on
 * whole arrays. A loop swaps the pointers of its carried values.
 */
#include "exec/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "compile/launch.h"
#include "exec/blocks.h"
#include "exec/joined.h"
#include "exec/neighbours.h"
#include "exec/owned.h"
#include "exec/wave.h"

struct machine_state {
	const struct evaluation *e;
	const struct program *program;
	char **frame;
	char *workspace;
	const struct kernels *kernels[2]; /* F32, F64 */
	int64_t *counters;                /* by level: the iteration, from 0 on, of each open loop */
	const struct launch
		*caller; /* the last call of a program; its outs in the mask ALIASED lie in the program's memory */
	uint32_t aliased;
	bool moved; /* the frame has changed since a group ran */
	bool parts; /* entries are parts of params in files: the launches that read them set them */
};

static int64_t row_elements(const struct shape *shape)
{
	int64_t count = 1;
	for (int i = 1; i < shape->ndim; i++)
		count *= shape->dim[i];
	return count;
}

/* Returns the number of PARAM's elements before its part REF, with loops at COUNTERS, in the tile from FIRST_ROW on. */
static int64_t param_offset(const struct bound_param *param, const struct param_ref *ref, const int64_t *counters,
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

/* param_place without const: the frame also holds arrays that are written; params are not. */
static char *frame_param(const struct machine_state *m, const struct param_ref *shared)
{
	const struct param_ref *ref = own_param(m->e->own, shared);
	return (char *)(uintptr_t)param_place(&m->e->params[ref->param], ref, m->counters, m->e->first_row);
}

/* Returns the param of which ENTRY is a part if it is read by parts in its file; else NULL. */
static const struct bound_param *param_in_parts(const struct machine_state *m, const struct entry *entry)
{
	const struct bound_param *param =
		entry->kind == ENTRY_PARAM ? &m->e->params[own_param(m->e->own, &entry->param)->param] : NULL;
	return param && param->stored && stored_in_parts(param->stored) ? param : NULL;
}

static void open_frame(struct machine_state *m)
{
	const struct frame_plan *frame = m->program->frame;
	for (size_t i = 0; i < frame->count; i++) {
		const struct entry *entry = &frame->entries[i];
		m->parts |= param_in_parts(m, entry) != NULL;
		if (entry->kind == ENTRY_IN)
			m->frame[i] = (char *)(uintptr_t)m->e->ins[entry->port];
		else if (entry->kind == ENTRY_OUT)
			m->frame[i] = m->e->outs[entry->port];
		else if (entry->kind == ENTRY_PARAM && !entry->dynamic)
			m->frame[i] = frame_param(m, &entry->param);
		else if (entry->kind == ENTRY_WORKSPACE)
			m->frame[i] = m->workspace + entry->offset;
		else if (entry->kind == ENTRY_CARRIED)
			m->frame[i] = NULL;
	}
}

static struct group_call group_call_of(const struct machine_state *m, const struct launch *launch)
{
	return (struct group_call){.launch = launch,
	                           .program = m->program,
	                           .own = m->e->own,
	                           .frame = m->frame,
	                           .registers = m->workspace + m->program->frame->registers,
	                           .kernels = {m->kernels[0], m->kernels[1]}};
}

/* Runs the launches that are joined to LAUNCH, too. False, with nothing done, if LAUNCH runs alone. */
static bool run_joined(const struct machine_state *m, const struct launch *launch)
{
	const struct group_call call = group_call_of(m, launch);
	return launch->joined > 0 && !m->e->neighbours && joined_run(&call, m->e->team);
}

static void run_group(struct machine_state *m, const struct launch *launch)
{
	const struct group_call call = group_call_of(m, launch);
	const bool moved = m->moved;
	m->moved = false;
	if (!m->e->wave || !wave_add(m->e->wave, &call, moved, m->e->team))
		group_run(&call, m->e->team);
}

static char *frame_at(const struct machine_state *m, uint32_t entry)
{
	return entry == NO_VALUE ? NULL : m->frame[entry];
}

/* Where a launch adds to a param's gradient: from element OFFSET on. */
struct addition {
	const struct evaluation *e;
	const struct loops *loops;
	uint32_t index; /* of PARAM */
	const struct bound_param *param;
	int64_t offset;
};

static struct addition addition_of(const struct machine_state *m, const struct launch *launch)
{
	const struct param_ref *ref = own_param(m->e->own, launch->sum);
	const struct bound_param *param = &m->e->params[ref->param];
	return (struct addition){
		.e = m->e,
		.loops = m->kernels[param->dtype == DTYPE_F64]->loops,
		.index = ref->param,
		.param = param,
		.offset = param_offset(param, ref, m->counters, m->e->windows ? m->e->tile_row : m->e->first_row)};
}

/* Returns the rows that the tile owns of a streamed value of TYPE: all if it has no window. */
static struct owned_rows owned_of(const struct machine_state *m, const struct type *type)
{
	const int64_t rows = type->shape.ndim ? type->shape.dim[0] : 1;
	return m->e->windows ? tiles_owned(m->e->windows, m->e->tile_row, rows) : (struct owned_rows){0, rows};
}

/* Adds COUNT elements FROM to PARAM's gradient, from element FIRST on. */
static void add_elements(const struct loops *loops, const struct bound_param *param, int64_t first, const void *from,
                         size_t count)
{
	const size_t at = (size_t)first * dtype_size(param->dtype);
	char *sum = (char *)param->gradient + at;
	if (param->once)
		memcpy(sum, from, count * dtype_size(param->dtype));
	else if (param->tails)
		loops->accumulate_long(sum, (char *)param->tails + at / 2, from, NULL, count);
	else
		loops->accumulate(sum, from, count);
}

void evaluate_deferred(struct deferred *deferred)
{
	for (uint32_t i = 0; i < deferred->count; i++) {
		const struct deferred_addition *d = &deferred->additions[i];
		add_elements(d->loops, d->param, d->offset, d->from, (size_t)d->count);
	}
	deferred->count = 0;
}

/* evaluate_deferred, for struct program_call. */
static void add_meanwhile(void *context) { evaluate_deferred(context); }

/*
 * Prefetches the COUNT elements of PARAM's long sum from element FIRST on. The rows of a piece are too short for the
 * processor to prefetch the next one by itself.
 */
static void prefetch_sum(const struct bound_param *param, int64_t first, int64_t count)
{
	enum { LINE = 64 };
	const int64_t size = (int64_t)dtype_size(param->dtype);
	const char *const head = (const char *)param->gradient + first * size;
	const char *const tail = (const char *)param->tails + first * size / 2;
	for (int64_t at = 0; at < count * size; at += LINE)
		__builtin_prefetch(head + at, 1);
	for (int64_t at = 0; at < count * size / 2; at += LINE)
		__builtin_prefetch(tail + at, 1);
}

static struct sum_place sum_place_of(const struct addition *to, const struct matrix_piece *piece)
{
	return (struct sum_place){to->offset + piece->first, piece->rows, piece->columns, piece->width};
}

static void begin_addition(const struct addition *to, const struct matrix_piece *piece)
{
	const struct sum_place place = sum_place_of(to, piece);
	if (to->e->turns)
		to->e->turns->begin(to->e->turns->context, to->index, &place);
}

static void end_addition(const struct addition *to, const struct matrix_piece *piece)
{
	const struct sum_place place = sum_place_of(to, piece);
	if (to->e->turns)
		to->e->turns->end(to->e->turns->context, to->index, &place);
}

/* Adds the rows of PIECE, each PITCH elements after the one before. */
static void add_rows(const struct addition *to, const struct matrix_piece *piece, int64_t pitch)
{
	enum { AHEAD = 8 }; /* rows */
	const struct bound_param *param = to->param;
	const int64_t size = (int64_t)dtype_size(param->dtype), first = to->offset + piece->first;
	for (int64_t row = 0; row < piece->rows; row++) {
		if (param->tails && row + AHEAD < piece->rows)
			prefetch_sum(param, first + (row + AHEAD) * piece->width, piece->columns);
		add_elements(to->loops, param, first + row * piece->width, (const char *)piece->data + row * pitch * size,
		             (size_t)piece->columns);
	}
}

/* True if a product adds to PARAM's gradient itself: there is no tail. */
static bool adds_in_place(const struct bound_param *param) { return param->gradient && !param->tails && !param->once; }

/* Returns the gradient at CONTEXT, an addition, once PIECE may be added to it. As begin of struct piece_user. */
static void *begin_piece(void *context, const struct matrix_piece *piece)
{
	const struct addition *to = context;
	begin_addition(to, piece);
	return (char *)to->param->gradient + (size_t)to->offset * dtype_size(to->param->dtype);
}

/* Adds PIECE to the gradient at CONTEXT, an addition, unless it is there. As end of struct piece_user. */
static void add_piece(void *context, const struct matrix_piece *piece)
{
	const struct addition *to = context;
	if (!to->param->gradient)
		return;
	if (piece->data) {
		begin_addition(to, piece);
		add_rows(to, piece, piece->columns);
	}
	end_addition(to, piece);
}

/* Returns the block of the param at CONTEXT, an addition. As begin of struct piece_user. */
static void *begin_block_piece(void *context, const struct matrix_piece *piece MAYBE_UNUSED)
{
	const struct addition *to = context;
	return to->param->block->sum;
}

/* Adds PIECE of the block of the param at CONTEXT, an addition, to the gradient, if the block has enough rows. */
static void end_block_piece(void *context, const struct matrix_piece *piece)
{
	const struct addition *to = context;
	struct matrix_piece part = *piece;
	if (to->param->block->rows < BLOCK_ROWS)
		return;
	part.data = (const char *)to->param->block->sum + (size_t)piece->first * dtype_size(to->param->dtype);
	begin_addition(to, piece);
	add_rows(to, &part, piece->width);
	end_addition(to, piece);
}

/* Adds the derivative of CALL by a param to the param's block, which is added to the gradient TO if it has enough rows. */
static void add_in_block(const struct op_call *call, const void *g, const void *const needs[MAX_NEEDS],
                         struct addition *to)
{
	struct block_sum *const block = to->param->block;
	const struct piece_user user = {begin_block_piece, end_block_piece, to, .new = block->rows == 0};
	block->rows += product_depth(call->op, call->v, call->a);
	product_pieces(call, g, needs, &user);
	if (block->rows >= BLOCK_ROWS)
		block->rows = 0;
}

/*
 * Makes the additions that were deferred, which come before any other. Not within a piece: the threads that share a
 * product would make them twice.
 */
static void end_deferred(const struct machine_state *m)
{
	if (m->e->deferred)
		evaluate_deferred(m->e->deferred);
}

/* Runs the derivatives of a product by its value and by a param. The latter is added to the param's gradient TO. */
static void run_product_to(struct machine_state *m, const struct launch *launch, const struct op_call *call,
                           const void *const needs[MAX_NEEDS], struct addition *to)
{
	end_deferred(m);
	const bool in_place = adds_in_place(to->param);
	const struct piece_user user = {in_place ? begin_piece : NULL, add_piece, to, .large = in_place};
	const int64_t count = shape_count(&call->a->shape);
	const size_t at = (size_t)to->offset * dtype_size(call->a->dtype);
	void *const place = !launch->whole ? NULL : to->param->once ? (char *)to->param->gradient + at : m->e->spare;
	op_vjp_get(launch->instr->op)(call, frame_at(m, launch->out), place, frame_at(m, launch->g), needs);
	if (launch->whole && !to->param->once)
		add_piece(to, &(struct matrix_piece){m->e->spare, 0, count, 1, count});
	if (launch->whole)
		return;
	if (to->param->block) {
		add_in_block(call, frame_at(m, launch->g), needs, to);
		return;
	}
	if (!m->e->windows) {
		product_pieces(call, frame_at(m, launch->g), needs, &user);
		return;
	}
	struct owned_call owned;
	owned_call_of(&owned, call, owned_of(m, call->v), false, needs, frame_at(m, launch->g));
	product_pieces(&owned.call, owned.g, owned.needs, &user);
}

static void run_product(struct machine_state *m, const struct launch *launch, const struct op_call *call,
                        const void *const needs[MAX_NEEDS])
{
	struct addition to = addition_of(m, launch);
	run_product_to(m, launch, call, needs, &to);
	if (to.param->final && m->e->written)
		m->e->written(m->e->written_context, to.index, to.param->gradient);
}

/* Runs the derivative of LAUNCH. That by an operand that all rows read is a sum over the rows that the tile owns. */
static void run_vjp(struct machine_state *m, const struct launch *launch, const struct op_call *call,
                    const void *const needs[MAX_NEEDS])
{
	op_vjp *const vjp = op_vjp_get(launch->instr->op);
	void *const dv = frame_at(m, launch->out), *const da = frame_at(m, launch->out_a),
				*const g = frame_at(m, launch->g);
	struct owned_call owned;
	if (!m->e->windows || !launch->v_streamed || launch->instr->a_streamed || !da) {
		vjp(call, dv, da, g, needs);
		return;
	}
	owned_call_of(&owned, call, owned_of(m, call->v), false, needs, g);
	if (dv)
		vjp(call, dv, NULL, g, needs);
	vjp(&owned.call, NULL, da, owned.g, owned.needs);
}

/* Returns the rows of the V of CALL that the tile owns. */
static struct row_range folded_rows(const struct machine_state *m, const struct op_call *call)
{
	const struct owned_rows owned = owned_of(m, call->v);
	return (struct row_range){owned.first, owned.count};
}

/* Adds the rows that the tile owns to its state of a derivative that folds. */
static void run_back_fold(struct machine_state *m, const struct launch *launch, const struct op_call *call,
                          const void *const needs[MAX_NEEDS])
{
	fold_partial_rows_back(call, folded_rows(m, call), m->e->fold + launch->state, frame_at(m, launch->g), needs);
}

/*
 * The same among ranks that exchange rows. The rank continues from the state of the ranks before it. The last one keeps
 * that of all rows; the others keep that of no row, since states of tiles are added in the end.
 */
static enum status run_shared_fold(struct machine_state *m, const struct op_call *call, double *state,
                                   const void *const needs[MAX_NEEDS])
{
	static void *const nothing[MAX_KEEPS];
	const struct fold_op fold = {call->op, false};
	const int64_t count = fold_count(call->op, call->v, call->y);
	const size_t size = (size_t)(fold_parts(fold) * count) * sizeof *state;
	struct op_call some = *call;
	bool passed;
	TRY(neighbours_get_state(m->e->neighbours, state, size, &some.more));
	fold_partial_rows(&some, folded_rows(m, call), state, needs[0], needs[1], nothing);
	TRY(neighbours_pass_state(m->e->neighbours, state, size, &passed));
	if (passed)
		fold_begin(fold, state, count);
	return STATUS_OK;
}

/* Adds the rows that the tile owns to its state of a SUM or FOLD. All rows leave what the derivative needs in KEEP. */
static enum status run_fold(struct machine_state *m, const struct launch *launch, const struct op_call *call,
                            const void *const needs[MAX_NEEDS], void *const keep[MAX_KEEPS])
{
	static void *const nothing[MAX_KEEPS];
	double *const state = m->e->fold + launch->state;
	if (m->e->windows && keep[0])
		op_forward_get(launch->instr->op)(call, frame_at(m, launch->out), needs[0], needs[1], keep);
	if (m->e->neighbours)
		return run_shared_fold(m, call, state, needs);
	fold_partial_rows(call, folded_rows(m, call), state, needs[0], needs[1], m->e->windows ? nothing : keep);
	if (!m->e->fold_ends)
		fold_finish(call, false, frame_at(m, launch->out), state, shape_count(&call->y->shape));
	return STATUS_OK;
}

/* Returns the index of INSTR, a dropout or call of a program, in STREAM, the number of its stream; 0 for others. */
static uint64_t index_of(const struct machine_state *m, const struct instr *instr, size_t stream)
{
	const struct stream *own = own_stream(m->e->own, instr);
	const bool named = !own || (instr->attrs && instr->attrs->stream.given);
	const uint64_t index = own ? stream_index(own, m->counters) : 0;
	return m->e->skipped && !named ? index - m->e->skipped[stream] : index;
}

/* Calls the program of LAUNCH: forward, recording if its record is wanted, or backward. */
static enum status run_program(struct machine_state *m, const struct launch *launch)
{
	const struct instr *instr = launch->instr;
	const struct program_use *use = instr->use;
	const uint64_t *record = (const uint64_t *)(const void *)frame_at(m, launch->needs[3]);
	const void *operands[PROGRAM_OPERANDS];
	void *doperands[PROGRAM_OPERANDS];
	struct program_call call = {.program = use->index,
	                            .kind = launch->keep[0] == NO_VALUE ? PROGRAM_FORWARD : PROGRAM_RECORD,
	                            .number = (int64_t)index_of(m, instr, 1 + use->index),
	                            .x = frame_at(m, launch->needs[0]),
	                            .operands = operands,
	                            .constant = use->program->constant,
	                            .y = frame_at(m, launch->out),
	                            .recorded = (uint64_t *)(void *)frame_at(m, launch->keep[0])};
	for (uint32_t k = 0; k < use->count; k++) {
		operands[k] = frame_at(m, launch->use->operands[k]);
		doperands[k] = frame_at(m, launch->use->outs[k]);
	}
	if (instr->kind == INSTR_VJP) {
		call.kind = PROGRAM_BACKWARD;
		call.y = frame_at(m, launch->needs[2]);
		call.g = frame_at(m, launch->g);
		call.handle = record ? *record : 0;
		call.dx = frame_at(m, launch->out);
		call.doperands = doperands;
		call.aliased = m->e->deferred && !m->e->turns ? launch->use->summed : 0;
	}
	if (m->e->deferred && m->e->deferred->count > 0) {
		call.meanwhile = add_meanwhile;
		call.context = m->e->deferred;
	}
	TRY(programs_call(m->e->programs, m->e->worker, &call, m->e->diags));
	m->caller = launch;
	m->aliased = 0;
	for (uint32_t k = 0; k < use->count; k++) {
		const uint32_t entry = launch->use->outs[k];
		if (!(call.aliased >> k & 1) || doperands[k] == m->frame[entry])
			continue;
		m->frame[entry] = doperands[k];
		m->moved = true;
		m->aliased |= 1u << k;
	}
	return STATUS_OK;
}

/* Returns the param in a file by which LAUNCH multiplies, or to whose gradient its derivative goes; NULL if there is none. */
static struct stored_operand *stored_at(const struct machine_state *m, const struct launch *launch)
{
	const uint32_t operand = launch->needs[1];
	const struct entry *at = operand == NO_VALUE ? NULL : &m->program->frame->entries[operand];
	const struct param_ref *ref = at && at->kind == ENTRY_PARAM ? &at->param : launch->sum;
	return ref ? m->e->params[own_param(m->e->own, ref)->param].stored : NULL;
}

/* Runs LAUNCH, a product by the param STORED, which is in a file, or its derivatives. */
static enum status run_stored(struct machine_state *m, const struct launch *launch, const struct op_call *call,
                              struct stored_operand *stored)
{
	void *const v = frame_at(m, launch->needs[0]), *const out = frame_at(m, launch->out);
	if (launch->instr->kind != INSTR_VJP)
		return stored_multiply(stored, call, out, v, m->e->diags);
	return stored_multiply_back(stored, call, out, &(struct derivative_arrays){v, frame_at(m, launch->g)}, m->e->diags);
}

static void run_derivative(struct machine_state *m, const struct launch *launch, const struct op_call *call,
                           const void *const needs[MAX_NEEDS])
{
	if (launch->sum)
		run_product(m, launch, call, needs);
	else if (m->e->fold && launch->folds)
		run_back_fold(m, launch, call, needs);
	else if (needs[4] && op_folds_back(launch->instr->op))
		fold_apply_back(call, frame_at(m, launch->out), frame_at(m, launch->g), needs, needs[4]);
	else
		run_vjp(m, launch, call, needs);
}

static enum status run_call(struct machine_state *m, const struct launch *launch)
{
	const struct instr *instr = launch->instr;
	const struct type *v = instr->of.v;
	struct attrs attrs;
	struct op_call call = {.op = instr->op,
	                       .attrs = own_attrs(m->e->own, instr, &attrs),
	                       .v = v,
	                       .a = instr->of.a,
	                       .y = instr->of.y,
	                       .scratch = m->workspace + m->program->frame->scratch,
	                       .team = m->e->team,
	                       .kernels = m->kernels[v->dtype == DTYPE_F64]};
	call.whole = (v->shape.ndim ? v->shape.dim[0] : 1) + (launch->v_streamed && !m->e->flat ? m->e->outside : 0);
	call.iteration = instr->level < 0 ? 0 : m->counters[instr->level];
	call.stream = index_of(m, instr, 0);
	if (launch->v_streamed)
		call.first = m->e->flat ? m->e->first_row : m->e->first_row * row_elements(&v->shape);
	void *keep[MAX_KEEPS];
	const void *needs[MAX_NEEDS];
	for (int k = 0; k < MAX_KEEPS; k++)
		keep[k] = frame_at(m, launch->keep[k]);
	for (int k = 0; k < MAX_NEEDS; k++)
		needs[k] = frame_at(m, launch->needs[k]);
	struct stored_operand *const stored = stored_at(m, launch);
	if (stored && !stored_in_parts(stored))
		return run_stored(m, launch, &call, stored);
	call.block = launch->folds ? m->e->block : 0;
	call.blocks = m->e->blocks;
	if (instr->kind == INSTR_VJP) {
		run_derivative(m, launch, &call, needs);
		return STATUS_OK;
	}
	if (m->e->fold && launch->folds)
		return run_fold(m, launch, &call, needs, keep);
	if (op_normalizes(instr->op) && needs[3]) {
		fold_apply(&call, frame_at(m, launch->out), needs[0], needs[3], keep[0]);
		return STATUS_OK;
	}
	op_forward_get(instr->op)(&call, frame_at(m, launch->out), needs[0], needs[1], keep);
	return STATUS_OK;
}

/* Sums by blocks. Among ranks that exchange rows, each adds its own to the state of the ranks before it. */
static enum status run_sum_by_blocks(struct machine_state *m, const struct launch *launch)
{
	const struct type *from = launch->instr->of.v, *to = launch->instr->of.y;
	const struct fold_op fold = {OP_sum, false};
	struct attrs attrs;
	sum_to_attrs(&attrs, to, from);
	const struct op_call call = {.op = OP_sum,
	                             .attrs = &attrs,
	                             .v = from,
	                             .y = to,
	                             .scratch = m->workspace + m->program->frame->scratch,
	                             .kernels = m->kernels[from->dtype == DTYPE_F64],
	                             .block = m->e->sum_block};
	const int64_t count = fold_count(OP_sum, from, to), size = fold_parts(fold) * count;
	double *const state = (double *)(void *)((char *)call.scratch + round_up(type_bytes(from), ARRAY_ALIGN));
	bool have, passed;
	TRY(neighbours_get_state(m->e->neighbours, state, (size_t)size * sizeof *state, &have));
	if (!have)
		fold_begin(fold, state, count);
	fold_add_rows(&call, folded_rows(m, &call), state, state + size, m->frame[launch->needs[0]]);
	TRY(neighbours_pass_state(m->e->neighbours, state, (size_t)size * sizeof *state, &passed));
	fold_finish(&call, false, m->frame[launch->out], state, count);
	return STATUS_OK;
}

static void run_sum_to(struct machine_state *m, const struct launch *launch)
{
	const struct type *to = launch->instr->of.y;
	const char *array = m->frame[launch->needs[0]];
	struct type type = *launch->instr->of.v;
	if (launch->folds && m->e->windows) {
		const struct owned_rows owned = owned_of(m, &type);
		array += owned.first * (type_bytes(&type) / type.shape.dim[0]);
		type.shape.dim[0] = owned.count;
	}
	const struct kernels *kernels = m->kernels[type.dtype == DTYPE_F64];
	char *const scratch = m->workspace + m->program->frame->scratch;
	if (launch->folds && m->e->block && type.shape.dim[0] > m->e->block) {
		struct attrs attrs;
		sum_to_attrs(&attrs, to, &type);
		op_forward_get(OP_sum)(&(struct op_call){.op = OP_sum,
		                                         .attrs = &attrs,
		                                         .v = &type,
		                                         .y = to,
		                                         .scratch = scratch,
		                                         .kernels = kernels,
		                                         .block = m->e->block,
		                                         .blocks = m->e->blocks},
		                       m->frame[launch->out], array, NULL, NULL);
		return;
	}
	sum_to_shape(kernels, m->frame[launch->out], to, array, &type, scratch);
}

/* True if ENTRY's array lies in the memory of the last program that was called. */
static bool is_aliased(const struct machine_state *m, uint32_t entry)
{
	for (int k = 0; k < PROGRAM_OPERANDS; k++)
		if (m->aliased >> k & 1 && m->caller->use->outs[k] == entry)
			return true;
	return false;
}

static void run_accumulate(struct machine_state *m, const struct launch *launch)
{
	struct addition to = addition_of(m, launch);
	const uint32_t entry = launch->needs[0];
	const struct type *type = launch->instr->of.v;
	const int64_t row = row_elements(&type->shape);
	const struct owned_rows all = {0, type->shape.ndim ? type->shape.dim[0] : 1};
	const struct owned_rows owned = to.param->streamed ? owned_of(m, type) : all;
	const int64_t count = owned.count * row;
	const char *from = m->frame[entry] + (size_t)(owned.first * row) * dtype_size(type->dtype);
	if (!is_aliased(m, entry)) {
		end_deferred(m);
		add_piece(&to, &(struct matrix_piece){from, 0, count, 1, count});
	} else if (to.param->gradient) {
		m->e->deferred->additions[m->e->deferred->count++] =
			(struct deferred_addition){to.loops, to.param, to.offset, count, from};
	}
}

/* Loops of launches. */

static void copy_carried(const struct machine_state *m, const struct carried *c, char *to, const char *from)
{
	if (!wave_copy(m->e->wave, to, from, m->program->frame->entries[c->inner].type, m->e->team)) {
		wave_run(m->e->wave);
		memcpy(to, from, (size_t)c->bytes);
	}
	neighbours_copied(m->e->neighbours, to, from);
}

static void move_dynamic(struct machine_state *m, const struct launch *loop)
{
	m->moved = true;
	for (size_t i = 0; i < loop->dynamic_count; i++)
		m->frame[loop->dynamic[i]] = frame_param(m, &m->program->frame->entries[loop->dynamic[i]].param);
}

static void begin_loop(struct machine_state *m, const struct launch *loop)
{
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		m->frame[c->inner] = m->frame[c->init];
		if (c->written)
			m->frame[c->result] = m->workspace + c->offset[0];
	}
	m->counters[loop->level] = 0;
	move_dynamic(m, loop);
}

/* Returns the one of C's two places that does not hold the value of the current iteration. */
static char *other_place(const struct machine_state *m, const struct carried *c)
{
	char *first = m->workspace + c->offset[0];
	return m->frame[c->inner] == first ? m->workspace + c->offset[1] : first;
}

/* Returns a place of LOOP's for C which is none of the COUNT in USED. There is one if these are fewer than its places. */
static char *free_place(const struct machine_state *m, const struct launch *loop, const struct carried *c,
                        char *const *used, size_t count)
{
	for (size_t i = 0; i < 2 * (size_t)loop->carried_count; i++) {
		const struct carried *of = &loop->carried[i / 2];
		char *place = m->workspace + of->offset[i % 2];
		size_t at = 0;
		while (at < count && used[at] != place)
			at++;
		if (of->bytes == c->bytes && at == count)
			return place;
	}
	return other_place(m, c);
}

/* True if ARRAY is one of LOOP's places for C's bytes. */
static bool is_place(const struct machine_state *m, const struct launch *loop, const struct carried *c,
                     const char *array)
{
	for (size_t i = 0; i < 2 * (size_t)loop->carried_count; i++)
		if (loop->carried[i / 2].bytes == c->bytes && array == m->workspace + loop->carried[i / 2].offset[i % 2])
			return true;
	return false;
}

/*
 * swap_results, if a result is the value that the loop carries under another name, as in a leapfrog. Values then change
 * places among those of the loop with as many bytes. Each of these values has two, so some are free for results and
 * copies.
 */
static void rotate(struct machine_state *m, const struct launch *loop)
{
	char *next[2 * MOST_ROTATED];
	const size_t count = loop->carried_count;
	for (size_t i = 0; i < count; i++)
		next[i] = m->frame[loop->carried[i].result];
	for (size_t i = 0; i < count; i++) {
		const struct carried *c = &loop->carried[i];
		char *from = next[i];
		if (c->written || is_place(m, loop, c, from))
			continue;
		next[i] = free_place(m, loop, c, next, count);
		copy_carried(m, c, next[i], from);
	}
	for (size_t i = 0; i < count; i++) {
		const struct carried *c = &loop->carried[i];
		m->frame[c->inner] = next[i];
		next[count + i] = next[i];
	}
	for (size_t i = 0, used = count; i < count; i++) {
		const struct carried *c = &loop->carried[i];
		if (!c->written)
			continue;
		m->frame[c->result] = free_place(m, loop, c, next, used);
		next[used++] = m->frame[c->result];
	}
}

/* Makes the results the next iteration's values. Swaps pointers, after a copy if the body left a result elsewhere. */
static void swap_results(struct machine_state *m, const struct launch *loop)
{
	m->moved = true;
	if (loop->rotates) {
		rotate(m, loop);
		return;
	}
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		if (!c->written)
			copy_carried(m, c, other_place(m, c), m->frame[c->result]);
	}
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		m->frame[c->inner] = c->written ? m->frame[c->result] : other_place(m, c);
		if (c->written)
			m->frame[c->result] = other_place(m, c);
	}
}

/* Sets the loop's final values: the initial ones if NONE of its iterations ran, else the last results. */
static void finish_loop(struct machine_state *m, const struct launch *loop, bool none)
{
	m->moved = true;
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		char *value = m->frame[none ? c->init : c->inner];
		if (!c->copy_out)
			m->frame[c->final] = none ? m->workspace + c->offset[0] : value;
		if (m->frame[c->final] != value)
			copy_carried(m, c, m->frame[c->final], value);
	}
}

/* True if LAUNCH, a WHILE, ends its loop: the number is not above 0, or the most iterations have run. */
static bool ends_loop(const struct machine_state *m, const struct launch *launch)
{
	const struct launch *loop = &m->program->launches[launch->match];
	const void *number = m->frame[launch->condition];
	const bool wide = m->program->frame->entries[launch->condition].type->dtype == DTYPE_F64;
	const bool above = wide ? *(const double *)number > 0 : *(const float *)number > 0;
	const int64_t done = m->counters[loop->level];
	if (above && done + 1 < loop->iterations)
		return false;
	if (above && m->e->unfinished)
		*m->e->unfinished = launch->loop;
	if (m->e->iterations && launch->loop->loop.condition != NO_VALUE)
		m->e->iterations[launch->loop->loop.condition] = done;
	for (size_t i = 0; m->e->skipped && i < launch->loop->loop.stream_count; i++)
		m->e->skipped[i] += launch->loop->loop.streams[i].step * (uint64_t)(launch->loop->loop.iterations - done);
	return true;
}

/* Runs the groups that wait before LAUNCH if it may use their arrays otherwise than in a group. */
static void run_waiting_groups(const struct machine_state *m, const struct launch *launch)
{
	if (launch->kind != LAUNCH_GROUP && launch->kind != LAUNCH_LOOP && launch->kind != LAUNCH_END)
		wave_run(m->e->wave);
}

/* Sets the frame's entry INDEX, which may be NO_VALUE, to its part of a param that is read by parts, if it is one. */
static enum status read_part(struct machine_state *m, uint32_t index)
{
	const struct entry *entry = index == NO_VALUE ? NULL : &m->program->frame->entries[index];
	const struct bound_param *param = entry ? param_in_parts(m, entry) : NULL;
	if (!param)
		return STATUS_OK;
	const int64_t first = param_offset(param, own_param(m->e->own, &entry->param), m->counters, 0);
	const int64_t at = first * (int64_t)dtype_size(param->dtype);
	if (!stored_part(param->stored, at)) {
		wave_run(m->e->wave); /* groups that wait read the parts that are in memory */
		TRY(stored_read_parts(param->stored, at, m->e->team, m->e->diags));
	}
	char *const part = (char *)(uintptr_t)stored_part(param->stored, at);
	m->moved |= m->frame[index] != part;
	m->frame[index] = part;
	return STATUS_OK;
}

/* Reads the parts of params that LAUNCH, and the launches that are joined to it, read in their files. */
static enum status read_parts(struct machine_state *m, const struct launch *launch)
{
	for (const struct launch *each = launch; each <= launch + launch->joined; each++) {
		for (int k = 0; each->kind == LAUNCH_CALL && k < MAX_NEEDS; k++)
			TRY(read_part(m, each->needs[k]));
		for (size_t i = 0; each->kind == LAUNCH_GROUP && i < each->kernel_op_count; i++)
			for (int k = 0; k < KERNEL_OP_READS; k++) {
				const struct arg *arg = &each->kernel_ops[i].args[k];
				if (arg->kind == ARG_ARRAY || arg->kind == ARG_SCALAR)
					TRY(read_part(m, arg->index));
			}
	}
	return STATUS_OK;
}

enum status evaluate(const struct evaluation *e)
{
	struct machine_state m = {.e = e,
	                          .program = e->program,
	                          .workspace = e->workspace,
	                          .frame = wave_frame(e->wave, e->workspace, e->program->frame->count),
	                          .kernels = {e->kernels[0] ? e->kernels[0] : kernels_get(DTYPE_F32),
	                                      e->kernels[1] ? e->kernels[1] : kernels_get(DTYPE_F64)}};
	int64_t counters[e->program->levels + 1];
	memset(counters, 0, sizeof counters);
	if (e->counters)
		memcpy(counters, e->counters, (size_t)e->program->levels * sizeof *counters);
	m.counters = counters;
	m.moved = true;
	open_frame(&m);
	for (size_t i = 0; i < e->program->launch_count; i++) {
		const struct launch *launch = &e->program->launches[i];
		run_waiting_groups(&m, launch);
		TRY(m.parts ? read_parts(&m, launch) : STATUS_OK);
		TRY(neighbours_launch(e->neighbours, e->program, launch, m.frame));
		if (run_joined(&m, launch)) {
			i += launch->joined;
			continue;
		}
		switch (launch->kind) {
		case LAUNCH_GROUP:
			run_group(&m, launch);
			break;
		case LAUNCH_CALL:
			if (launch->use)
				TRY(run_program(&m, launch));
			else
				TRY(run_call(&m, launch));
			break;
		case LAUNCH_SUM_TO:
			if (launch->folds && e->sum_block)
				TRY(run_sum_by_blocks(&m, launch));
			else
				run_sum_to(&m, launch);
			break;
		case LAUNCH_ACCUMULATE:
			run_accumulate(&m, launch);
			break;
		case LAUNCH_COPY:
			memcpy(m.frame[launch->out], m.frame[launch->needs[0]],
			       (size_t)type_bytes(e->program->frame->entries[launch->out].type));
			break;
		case LAUNCH_LOOP:
			begin_loop(&m, launch);
			if (launch->iterations == 0) {
				finish_loop(&m, launch, true);
				i = launch->match;
			}
			break;
		case LAUNCH_WHILE: {
			const struct launch *loop = &e->program->launches[launch->match];
			if (ends_loop(&m, launch)) {
				finish_loop(&m, loop, m.counters[loop->level] == 0);
				i = loop->match;
			}
			break;
		}
		case LAUNCH_END: {
			const struct launch *loop = &e->program->launches[launch->match];
			swap_results(&m, loop);
			if (++m.counters[loop->level] < loop->iterations) {
				move_dynamic(&m, loop);
				i = launch->match;
			} else {
				finish_loop(&m, loop, false);
			}
			break;
		}
		}
	}
	return STATUS_OK;
}

/*
 * Fills SLAB with NaNs in a build with ASan, and where CKPTC_POISON is set, as tests do. So an array that is read before
 * it is written shows.
 */
static void poison_slab(const struct slab *slab)
{
#ifdef __SANITIZE_ADDRESS__
	const bool poisons = true;
#else
	const bool poisons = getenv("CKPTC_POISON") != NULL;
#endif
	enum { ALL_BITS = 0xff };
	if (poisons)
		memset(slab->block, ALL_BITS, slab->size);
}

enum status slab_get(struct slab *slab, int64_t size, const struct allocator *allocator, struct diags *diags)
{
	slab->programs = NULL;
	slab->size = (size_t)size + ARRAY_ALIGN;
	slab->block = allocator_get(allocator, slab->size, 1);
	if (!slab->block)
		return diag_file(diags, STATUS_LIMIT, NULL, -1, "out of memory: %lld bytes are wanted at once",
		                 (long long)size);
	slab->base = (char *)slab->block + (ARRAY_ALIGN - (uintptr_t)slab->block % ARRAY_ALIGN) % ARRAY_ALIGN;
	poison_slab(slab);
	return STATUS_OK;
}

enum status slab_get_shared(struct slab *slab, int64_t size, struct program_set *programs,
                            const struct allocator *allocator, struct diags *diags)
{
	void *memory = NULL;
	if (programs)
		TRY(programs_memory(programs, (size_t)size, &memory, diags));
	if (!memory)
		return slab_get(slab, size, allocator, diags);
	*slab = (struct slab){.block = memory, .base = memory, .size = (size_t)size, .programs = programs};
	poison_slab(slab);
	return STATUS_OK;
}

void slab_put(struct slab *slab, const struct allocator *allocator)
{
	if (slab->programs)
		programs_memory_put(slab->programs, slab->block);
	else
		allocator_put(allocator, slab->block, slab->size);
	slab->block = NULL;
}
