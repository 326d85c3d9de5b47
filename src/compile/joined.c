/*
 * Joined launches: launches in a row that work on the lines of arrays of one size. A line is the elements along the last
 * axis. The evaluator runs all of them on a block of lines before the next block, so that lines stay in the cache from one
 * launch to the next (evaluate/joined.h).
 *
 *     attention        launch                  reads
 *     scores           call matmul             factors; the left one by lines
 *     scaled, masked   group                   scores by lines; the mask
 *     probabilities    call softmax            by lines
 *
 * Only a stack of products may come first; an operation along the last axis and a group may stand anywhere. A product
 * by one matrix is joined with no launch: that saved no time (bench/RESULTS.md, "What was tried"). `--dump plan`
 * shows which launches are joined. The derivative of an attention by its values is joined with that by the others.
 *
 * Joined launches may write over each other's results, which then have one array in the plan (places.c). That relies
 * on their order: a launch reads a line of an array before it writes the same line. No launch writes over the right
 * factor of the products, since each block of lines reads the whole factor.
 *
 * Invariant: an array that a joined launch does not read by lines is live to the last of them, and is none of their
 * results.
 * Tests: tests/unit/test_program.c, tests/cases/joined.test
 */
#include "compile/compiler.h"

#include <string.h>

enum { LEAST_BYTES = 64 << 10, LEAST_MATRICES = 4 }; /* smaller arrays stay in the cache by themselves */

/* The launches that are being joined: the first, their number, and the shape of their lines. */
struct joint_run {
	struct compiler *c;
	size_t first, count;
	int64_t elements, line;
	uint32_t *owner; /* by entry: the value in it, NO_VALUE for a counter */
};

static int64_t last_extent(const struct type *type)
{
	return type->shape.ndim ? type->shape.dim[type->shape.ndim - 1] : 1;
}

/* True if LAUNCH is a stack of products whose matrices have lines, not numbers. */
static bool is_stack(const struct launch *launch)
{
	const struct instr *instr = launch->instr;
	if (!launch_is_call(launch) || instr->kind != INSTR_OP || launch->use || launch->folds ||
	    (instr->op != OP_matmul && instr->op != OP_linear) || instr->of.v->shape.ndim < 3 ||
	    instr->of.a->shape.ndim < 3 || product_in_pieces(instr->op, instr->of.v, instr->of.a))
		return false;
	const struct shape *y = &instr->of.y->shape;
	const int64_t m = y->dim[y->ndim - 2], n = y->dim[y->ndim - 1];
	return m > 1 && n > 1 && last_extent(instr->of.v) > 0 && shape_count(y) >= LEAST_MATRICES * m * n;
}

/* True if LAUNCH is a forward operation or a derivative along the last axis, without statistics of its own. */
static bool is_along_lines(const struct launch *launch)
{
	const struct instr *instr = launch->instr;
	int axis = 0;
	if (!launch_is_call(launch) || launch->use || launch->folds || !op_normalizes(instr->op))
		return false;
	const int ndim = instr->of.v->shape.ndim;
	const uint32_t statistics = launch->needs[instr->kind == INSTR_VJP ? 4 : 3];
	return statistics == NO_VALUE && ndim > 0 && instr->attrs->axis_count == 1 &&
	       axis_resolve(instr->attrs->axis[0], ndim, &axis) && axis == ndim - 1;
}

static bool is_group_of_lines(const struct launch *launch)
{
	if (launch->kind != LAUNCH_GROUP)
		return false;
	for (size_t i = 0; i < launch->kernel_op_count; i++) {
		const struct kernel_op *m = &launch->kernel_ops[i];
		if (m->kind == KERNEL_OP_GATHER || (m->kind == KERNEL_OP_FILL && m->once))
			return false;
		for (size_t k = 0; k < KERNEL_OP_ARGS; k++)
			if (m->args[k].kind == ARG_ARRAY && m->args[k].bits)
				return false;
	}
	return true;
}

/* True if a launch of R makes the array of ENTRY. */
static bool is_made_in(const struct joint_run *r, uint32_t entry)
{
	const uint32_t owner = entry == NO_VALUE ? NO_VALUE : r->owner[entry];
	const int64_t made = owner == NO_VALUE ? NO_LAUNCH : r->c->values[owner].made_in;
	return made >= (int64_t)r->first && made < (int64_t)(r->first + r->count);
}

/* True if a kernel op of LAUNCH, a group, reads a result of R otherwise than by lines. */
static bool reads_across(const struct joint_run *r, const struct launch *launch)
{
	for (size_t i = 0; i < launch->kernel_op_count; i++)
		for (size_t k = 0; k < KERNEL_OP_READS; k++) {
			const struct kernel_op *m = &launch->kernel_ops[i];
			const bool across = m->kind == KERNEL_OP_FILL || m->args[k].kind == ARG_SCALAR;
			if (across && m->args[k].kind >= ARG_ARRAY && is_made_in(r, m->args[k].index))
				return true;
		}
	return false;
}

/* True if LAUNCH joins R, or begins it. */
static bool joins(struct joint_run *r, const struct launch *launch)
{
	const bool group = is_group_of_lines(launch);
	if (!group && !is_along_lines(launch) && (r->count > 0 || !is_stack(launch)))
		return false;
	if (group)
		return r->count > 0 && launch->count == r->elements && !reads_across(r, launch);
	const int64_t elements = shape_count(&launch->instr->of.y->shape), line = last_extent(launch->instr->of.y);
	if (r->count > 0)
		return elements == r->elements && line == r->line;
	r->elements = elements;
	r->line = line;
	return elements >= LEAST_BYTES / 4 && line > 1;
}

/* Keeps the array of ENTRY to the last launch of R. */
static void keep_array(const struct joint_run *r, uint32_t entry)
{
	const int32_t last = (int32_t)(r->first + r->count - 1);
	const uint32_t owner = entry == NO_VALUE ? NO_VALUE : r->owner[entry];
	if (owner != NO_VALUE && r->c->values[owner].last_read < last)
		r->c->values[owner].last_read = last;
}

static void keep_others(const struct joint_run *r, const struct launch *launch)
{
	for (size_t i = 0; launch->kind == LAUNCH_GROUP && i < launch->kernel_op_count; i++)
		for (size_t k = 0; k < KERNEL_OP_READS; k++) {
			const struct kernel_op *m = &launch->kernel_ops[i];
			if (m->args[k].kind == ARG_SCALAR || (m->kind == KERNEL_OP_FILL && m->args[k].kind == ARG_ARRAY))
				keep_array(r, m->args[k].index);
		}
	for (int k = 0; launch_is_call(launch) && is_stack(launch) && k < 2; k++)
		keep_array(r, launch->needs[k]);
}

/* Returns the only instruction that reads VALUE, if that is an OP of the launch after R's first; else NULL. */
static const struct instr *reader_of(const struct joint_run *r, uint32_t value)
{
	const struct body *body = r->c->body;
	const struct instr_plan *plan = r->c->instrs;
	if (r->c->values[value].reads != 1)
		return NULL;
	for (size_t i = 0; i < body->instr_count; i++)
		if (plan[i].live && plan[i].launch == (int32_t)r->first + 1 && body->instrs[i].kind == INSTR_OP &&
		    body->instrs[i].v == value && body->instrs[i].a != value)
			return &body->instrs[i];
	return NULL;
}

/*
 * If all that reads the products is a group that adds an array to them, or to them times a number, then that array may
 * hide them: where it is -inf, the sum is -inf for any finite product.
 */
static void find_mask(const struct joint_run *r)
{
	struct launch *first = &r->c->launches[r->first];
	const struct instr *instr = reader_of(r, first->instr->out);
	const struct shape *y = &first->instr->of.y->shape;
	if (instr && instr->a == NO_VALUE && !instr_adds_counter(instr) && (instr->op == OP_mul || instr->op == OP_div)) {
		first->scale = instr;
		instr = reader_of(r, instr->out);
	}
	if (!instr || instr->op != OP_add || instr->a == NO_VALUE)
		return;
	const struct type *mask = r->c->body->values[instr->a].type;
	const int ndim = mask->shape.ndim;
	if (ndim < 2 || mask->dtype != first->instr->of.y->dtype || mask->shape.dim[ndim - 1] != y->dim[y->ndim - 1] ||
	    mask->shape.dim[ndim - 2] != y->dim[y->ndim - 2] ||
	    shape_count(&mask->shape) != mask->shape.dim[ndim - 1] * mask->shape.dim[ndim - 2])
		return;
	first->mask = compiler_entry(r->c, instr->a);
}

/*
 * True if LAUNCH, a derivative of an attention by its values, and the one after it read the same arrays: then one call makes the
 * derivatives by all three. The other reads all that LAUNCH reads, which keeps that live.
 */
static bool is_attention_back(const struct launch *launch)
{
	const struct launch *const next = launch + 1;
	if (launch->kind != LAUNCH_VJP || next->kind != LAUNCH_VJP || launch->instr->op != OP_ATTENDED ||
	    next->instr->op != OP_attention || launch->g != next->g || next->out == NO_VALUE ||
	    (next->out_a == NO_VALUE && !next->sum) || shape_count(&next->instr->of.y->shape) == 0)
		return false;
	for (int k = 0; k < MAX_NEEDS; k++)
		if (launch->needs[k] != NO_VALUE && launch->needs[k] != next->needs[k])
			return false;
	return true;
}

bool join_launches(struct compiler *c)
{
	struct joint_run r = {.c = c, .owner = arena_array(&c->scratch_arena, c->frame->count + 1, sizeof *r.owner)};
	if (!r.owner)
		return false;
	memset(r.owner, 0xff, (c->frame->count + 1) * sizeof *r.owner); /* NO_VALUE */
	for (uint32_t i = 0; i < c->body->value_count; i++)
		if (c->values[i].entry != NO_VALUE)
			r.owner[c->values[i].entry] = i;
	for (; r.first < c->launch_count; r.first += r.count + !r.count) {
		for (r.count = 0; r.first + r.count < c->launch_count && r.count < MOST_JOINED &&
		                  joins(&r, &c->launches[r.first + r.count]);)
			r.count++;
		if (r.count == 0 && r.first + 1 < c->launch_count && is_attention_back(&c->launches[r.first])) {
			c->launches[r.first].joined = 1;
			c->launches[r.first].mask = NO_VALUE;
			r.count = 2;
			continue;
		}
		if (r.count < 2)
			continue;
		struct launch *first = &c->launches[r.first];
		first->joined = (uint8_t)(r.count - 1);
		first->mask = NO_VALUE;
		bool waits = true;
		for (size_t i = 0; i < r.count; i++) {
			keep_others(&r, first + i);
			waits &= first[i].waits;
		}
		for (size_t i = 0; i < r.count; i++)
			first[i].waits = waits;
		if (is_stack(first))
			find_mask(&r);
	}
	return true;
}
