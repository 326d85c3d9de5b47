/*
 * What launches add to the gradients of params. Tiles and ranks take turns (struct turns), element by element in the same
 * order. A product adds its derivative piece by piece, or through a block (struct block_sum). A take adds row by row.
 * Tests: tests/scripts/check-param-sums, tests/cases/grad.test
 */
#include <string.h>

#include "evaluate/evaluator.h"

/* Where a launch adds to a param's gradient: from element OFFSET on. */
struct addition {
	const struct evaluation *e;
	const struct loops *loops;
	uint32_t index; /* of PARAM */
	const struct bound_param *param;
	int64_t offset;
};

static struct addition addition_of(const struct evaluator *ev, const struct launch *launch)
{
	const struct param_ref *ref = own_param(ev->e->own, launch->sum);
	const struct bound_param *param = &ev->e->params[ref->param];
	return (struct addition){
		.e = ev->e,
		.loops = ev->kernels[param->dtype == DTYPE_F64]->loops,
		.index = ref->param,
		.param = param,
		.offset = param_offset(param, ref, ev->counters,
	                           (ev->e->windows ? ev->e->tile_row : ev->e->first_row) - param->gradient_begins)};
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
static void end_deferred(const struct evaluator *ev)
{
	if (ev->e->deferred)
		evaluate_deferred(ev->e->deferred);
}

/* Runs the derivatives of C by its value and by a param. The latter is added to the param's gradient TO. */
static void add_derivative_to(struct evaluator *ev, const struct launch *launch, const struct launch_call *c,
                              struct addition *to)
{
	const struct op_call *call = &c->call;
	end_deferred(ev);
	const bool rows = op_adds_rows(call->op), in_place = !rows && adds_in_place(to->param);
	const struct piece_user user = {in_place ? begin_piece : NULL, add_piece, to, .large = in_place};
	const int64_t count = shape_count(&call->a->shape);
	void *const once = written_place(ev, launch), *const place = once || !launch->whole ? once : ev->e->spare;
	op_vjp_get(launch->instr->op)(call, c->out, place, c->g, c->needs);
	if (launch->whole && !to->param->once)
		add_piece(to, &(struct matrix_piece){ev->e->spare, 0, count, 1, count});
	if (launch->whole)
		return;
	if (to->param->block) {
		add_in_block(call, c->g, c->needs, to);
		return;
	}
	struct launch_call owned = *c;
	/* A team makes pieces in any order, and a tile adds its Nth piece after the Nth of the tile before. */
	if (ev->e->turns)
		owned.call.team = NULL;
	if (ev->e->windows)
		launch_call_cut(&owned, launch->streamed, owned_of(ev, call->v));
	(rows ? take_pieces : product_pieces)(&owned.call, owned.g, owned.needs, &user);
}

void *written_place(const struct evaluator *ev, const struct launch *launch)
{
	const struct addition to = addition_of(ev, launch);
	const size_t size = dtype_size(to.param->dtype);
	return launch->whole && to.param->once ? (char *)to.param->gradient + (size_t)to.offset * size : NULL;
}

void tell_written(const struct evaluator *ev, const struct launch *launch)
{
	const struct addition to = addition_of(ev, launch);
	if (to.param->final && ev->e->written)
		ev->e->written(ev->e->written_context, to.index, to.param->gradient);
}

void add_derivative(struct evaluator *ev, const struct launch *launch, const struct launch_call *c)
{
	struct addition to = addition_of(ev, launch);
	add_derivative_to(ev, launch, c, &to);
	tell_written(ev, launch);
}

/* True if ENTRY's array lies in the memory of the last program that was called. */
static bool is_aliased(const struct evaluator *ev, uint32_t entry)
{
	for (int k = 0; k < PROGRAM_OPERANDS; k++)
		if (ev->aliased >> k & 1 && ev->caller->use->outs[k] == entry)
			return true;
	return false;
}

enum status run_accumulate(struct evaluator *ev, const struct launch *launch)
{
	struct addition to = addition_of(ev, launch);
	const uint32_t entry = launch->needs[0];
	const struct type type = type_with_rows(ev, launch, STREAMED_V, launch->instr->of.v);
	const int64_t row = row_elements(&type.shape);
	const struct row_range all = {0, type.shape.ndim ? type.shape.dim[0] : 1};
	const struct row_range owned = to.param->streamed ? owned_of(ev, &type) : all;
	const int64_t count = owned.count * row;
	const char *from = ev->frame[entry] + (size_t)(owned.first * row) * dtype_size(type.dtype);
	if (!is_aliased(ev, entry)) {
		end_deferred(ev);
		add_piece(&to, &(struct matrix_piece){from, 0, count, 1, count});
	} else if (to.param->gradient) {
		ev->e->deferred->additions[ev->e->deferred->count++] =
			(struct deferred_addition){to.loops, to.param, to.offset, count, from};
	}
	return STATUS_OK;
}
