/*
 * A fixed_point: a loop that every kind of body keeps, since its number of iterations depends on the values.
 *
 *     e = 1                                          e > 0: the tolerance is not met
 *     loop  while e > 0
 *         r = f(v)
 *         e = 1 - (max|r - v| <= T * max(1, max|v|))       1 for NaN too
 *         v = r
 *     end
 *     s = solution v                                 of a body that is differentiated: from here on
 *     q = f(s)
 *     implicit s, q
 *
 * No cotangent passes the loop. The operations of q are those of one iteration at the solution. Only what their
 * derivatives need of them is computed. The backward pass solves a linear fixed point by them (compile/backward.c).
 * Tests: tests/cases/fixed_point.test, tests/scripts/check-scans
 */
#include "ir/lowering.h"

/* The values that the loop carries, and its limits. */
struct solver {
	const struct node *node;
	struct carry *carries; /* of the value, and of e */
	double tolerance;
	int64_t most;
	uint32_t at; /* index of its INSTR_LOOP */
};

static enum status find_limits(struct lowering *l, struct solver *s)
{
	double most;
	TRY(lowering_number(l, s->node->most, "max of fixed_point", &most));
	TRY(lowering_number(l, s->node->tolerance, "tol of fixed_point", &s->tolerance));
	const struct argument argument = argument_of_double(most);
	if (!argument.integer || argument.as_integer < 1)
		return LOWERING_FAIL(l, STATUS_CHAIN, s->node->most->span, "max of fixed_point is an integer of at least 1");
	if (!(s->tolerance >= 0))
		return LOWERING_FAIL(l, STATUS_CHAIN, s->node->tolerance->span, "tol of fixed_point is a number of at least 0");
	s->most = argument.as_integer;
	return STATUS_OK;
}

/* Adds the value of C that each iteration reads. */
static enum status carry_in(struct lowering *l, struct carry *c, uint32_t init, uint32_t loop)
{
	const struct value old = l->body->values[c->init = init];
	c->inner = body_add_value(l->body, old.type);
	TRY_ALLOC(c->inner != NO_VALUE, l->context->diags);
	struct value *inner = &l->body->values[c->inner];
	*inner = old;
	inner->from = FROM_INSTR;
	inner->instr = loop;
	inner->names = NULL;
	inner->streamed = inner->active = inner->weak = false; /* rows mix anyway */
	return STATUS_OK;
}

static enum status begin_solver(struct lowering *l, struct solver *s)
{
	uint32_t one;
	const enum dtype compute = l->body->values[l->env.now[0]].type->dtype;
	TRY(lowering_add_constant(l, 1, compute, s->node->span, &one));
	s->carries = arena_array(l->context->arena, 2, sizeof *s->carries);
	s->at = (uint32_t)l->body->instr_count;
	struct instr *loop = body_add_instr(l->body, INSTR_LOOP);
	TRY_ALLOC(s->carries && loop, l->context->diags);
	loop->loop.iterations = s->most + (s->most < INT64_MAX);
	loop->level = l->level;
	loop->span = s->node->span;
	loop->region = l->region;
	loop->step = (uint32_t)l->step;
	TRY(carry_in(l, &s->carries[0], l->env.now[0], s->at));
	TRY(carry_in(l, &s->carries[1], one, s->at));
	lowering_write_slot(l, 0, s->carries[0].inner);
	struct instr *end = body_add_instr(l->body, INSTR_WHILE);
	TRY_ALLOC(end, l->context->diags);
	end->op = OP_SOLUTION; /* for a warning */
	end->v = s->carries[1].inner;
	end->span = s->node->span;
	end->region = l->region;
	end->step = (uint32_t)l->step;
	end->loop = (struct loop_part){.iterations = s->most, .match = s->at, .condition = NO_VALUE};
	return STATUS_OK;
}

/* Appends OP on V and on A or, if that is NO_VALUE, NUMBER. *OUT, of TYPE, is its result. */
static enum status combine(struct lowering *l, enum op op, const uint32_t values[2], double number, uint32_t *out)
{
	const struct value *v = &l->body->values[values[0]];
	const struct type type = *v->type;
	struct instr *instr = lowering_add_op(l, op, NULL, l->body->instrs[l->body->instr_count - 1].span);
	TRY_ALLOC(instr, l->context->diags);
	instr->v = values[0];
	instr->a = values[1];
	instr->scalar = number;
	return lowering_set_out(l, instr, &type, type.dtype, out);
}

/* Returns the arguments of OP, all defaults. NULL: memory is short. */
static const struct attrs *defaults(struct lowering *l, enum op op)
{
	struct attrs attrs;
	attrs_default(&attrs, op);
	return byte_set_keep(&l->kept, &attrs, attrs_size(&attrs, op), NULL);
}

/* Appends max|V|: *OUT, a number. */
static enum status largest(struct lowering *l, uint32_t v, uint32_t *out)
{
	TRY(combine(l, OP_abs, (const uint32_t[]){v, NO_VALUE}, 0, out));
	const struct type number = {.dtype = l->body->values[*out].type->dtype};
	if (l->body->values[*out].type->shape.ndim == 0)
		return STATUS_OK;
	const struct attrs *kept = defaults(l, OP_amax);
	struct instr *instr = lowering_add_op(l, OP_amax, kept, l->body->instrs[l->body->instr_count - 1].span);
	TRY_ALLOC(kept && instr, l->context->diags);
	instr->v = *out;
	return lowering_set_out(l, instr, &number, number.dtype, out);
}

/* Appends e of an iteration that leads from V to RESULT. */
static enum status add_excess(struct lowering *l, uint32_t v, uint32_t result, double tolerance, uint32_t *e)
{
	uint32_t difference, size;
	TRY(combine(l, OP_sub, (const uint32_t[]){result, v}, 0, &difference));
	TRY(largest(l, difference, &difference));
	TRY(largest(l, v, &size));
	TRY(combine(l, OP_max, (const uint32_t[]){size, NO_VALUE}, 1, &size));
	TRY(combine(l, OP_mul, (const uint32_t[]){size, NO_VALUE}, tolerance, &size));
	TRY(combine(l, OP_le, (const uint32_t[]){difference, size}, 0, e));
	return combine(l, OP_rsub, (const uint32_t[]){*e, NO_VALUE}, 1, e);
}

/* Fails unless RESULT has the type of V, which each iteration keeps. */
static enum status check_kept(struct lowering *l, const struct node *node, uint32_t v, uint32_t result)
{
	const struct value *was = &l->body->values[v], *is = &l->body->values[result];
	const struct type before = {was->dtype, was->type->shape}, after = {is->dtype, is->type->shape};
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (was->type == is->type && was->dtype == is->dtype)
		return STATUS_OK;
	LOWERING_FAIL(l, STATUS_CHAIN, node->span,
	              "an iteration of fixed_point changes the type of its value: %s becomes %s", type_format(&before, a),
	              type_format(&after, b));
	return diag_hint(l->context->diags, "its number of iterations is not known, so each must keep the type");
}

/* Lowers the block of S on the current value. *RESULT takes the type of that value if it is weak. */
static enum status lower_block(struct lowering *l, const struct solver *s, uint32_t *result)
{
	const enum dtype dtype = l->body->values[l->env.now[0]].dtype;
	TRY(lowering_apart(l, s->node->body, result));
	return l->body->values[*result].weak ? lowering_convert(l, result, dtype, s->node->span) : STATUS_OK;
}

/* Adds the value that the loop leaves of CARRY. */
static enum status carry_out(struct lowering *l, struct carry *carry, uint32_t end)
{
	const struct value inner = l->body->values[carry->inner];
	carry->final = body_add_value(l->body, inner.type);
	TRY_ALLOC(carry->final != NO_VALUE, l->context->diags);
	l->body->values[carry->final] = inner;
	l->body->values[carry->final].instr = end;
	return STATUS_OK;
}

/* Appends the loop. The current value is the solution then. *ACTIVE says if it depends on params or active values. */
static enum status solve(struct lowering *l, struct solver *s, bool *active)
{
	struct value *value;
	uint32_t result;
	TRY(begin_solver(l, s));
	const bool within = l->in_solution;
	l->in_solution = true;
	l->level++;
	TRY(lower_block(l, s, &result));
	TRY(check_kept(l, s->node, s->carries[0].inner, result));
	TRY(add_excess(l, s->carries[0].inner, result, s->tolerance, &s->carries[1].result));
	l->level--;
	l->in_solution = within;
	value = &l->body->values[s->carries[0].result = result];
	*active = value->active;
	const uint32_t at = (uint32_t)l->body->instr_count;
	struct instr *end = body_add_instr(l->body, INSTR_END);
	TRY_ALLOC(end, l->context->diags);
	end->region = l->region;
	end->step = (uint32_t)l->step;
	end->span = s->node->span;
	end->loop = (struct loop_part){.match = s->at, .carries = s->carries, .carry_count = 2};
	TRY(carry_out(l, &s->carries[0], at));
	TRY(carry_out(l, &s->carries[1], at));
	l->body->values[s->carries[0].final].active = *active; /* in a solution, it decides whether that is active */
	struct loop_part *loop = &l->body->instrs[s->at].loop;
	loop->match = at;
	loop->carry_count = 2;
	loop->carries = s->carries;
	lowering_write_slot(l, 0, s->carries[0].final);
	return STATUS_OK;
}

/* Appends what the backward pass differentiates: the solution, the block on it, and their instruction. */
static enum status add_implicit(struct lowering *l, const struct solver *s)
{
	uint32_t solution = l->env.now[0], result;
	const struct value found = l->body->values[solution];
	const struct attrs *attrs = defaults(l, OP_SOLUTION);
	TRY_ALLOC(attrs, l->context->diags);
	TRY(lowering_apply(l, lowering_add_op(l, OP_SOLUTION, attrs, s->node->span), found.type, found.dtype, &solution));
	l->body->values[solution].active = true;
	lowering_write_slot(l, 0, solution);
	TRY(lower_block(l, s, &result));
	struct instr *instr = lowering_add_op(l, OP_IMPLICIT, NULL, s->node->span);
	TRY_ALLOC(instr, l->context->diags);
	instr->v = solution;
	instr->a = result;
	instr->scalar = s->tolerance;
	instr->of.v = found.type;
	return STATUS_OK;
}

enum status lower_fixed_point(struct lowering *l, const struct node *node)
{
	struct solver solver = {.node = node};
	bool active;
	TRY(find_limits(l, &solver));
	if (l->level >= MAX_LOOPS)
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "loops, those of called defs included, nest deeper than %d",
		                     MAX_LOOPS);
	TRY_ALLOC(lowering_read_slot(l, 0) != NO_VALUE, l->context->diags);
	TRY(lowering_copy_param(l, &l->env.now[0], node->span));
	TRY(lowering_make_strong(l, node, 0, l->body->values[l->env.now[0]].dtype));
	lowering_need_whole(l, node->span, "it iterates until all elements meet a tolerance");
	l->streaming.flat = false;
	const bool within = l->in_fixed_point;
	l->in_fixed_point = true;
	l->loops++;
	TRY(solve(l, &solver, &active));
	if (active && l->what != LOWER_RUN && !l->in_solution)
		TRY(add_implicit(l, &solver));
	l->loops--;
	l->in_fixed_point = within;
	return STATUS_OK;
}
