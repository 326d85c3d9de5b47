/* Tests: tests/scripts/check-passes, tests/cases/folds.test */
#include "compile/joint.h"

#include <string.h>

#include "compile/linearise.h"

/* A joint body while it is made. MAPPED: by value of the backward body, the value of the joint body. */
struct joining {
	struct arena *arena;
	const struct linear *linear;
	const struct lowered *lowered;
	struct joint *joint;
	struct body *body;
	uint32_t *mapped;
};

/* True if V is a param that tiles cut. */
static bool is_cut_param(const struct joining *j, const struct value *v)
{
	return v->from == FROM_PARAM && j->lowered->streamed_params[step_param(j->lowered->distinct[0], &v->param)->param];
}

/* Copies the values of both bodies. A residual is the recording body's value, and so is what is recomputed. */
static void join_values(struct joining *j)
{
	const struct body *record = j->linear->record, *back = j->linear->backward;
	struct body *body = j->body;
	memcpy(body->values, record->values, record->value_count * sizeof *body->values);
	body->value_count = record->value_count + back->value_count;
	for (uint32_t i = 0; i < back->value_count; i++) {
		const struct value *v = &back->values[i];
		const bool residual = v->from == FROM_PORT && back->ins[v->port].kind == PORT_RESIDUAL;
		const uint32_t id = (uint32_t)record->value_count + i;
		body->values[id] = *v;
		j->mapped[i] = id;
		if (residual)
			j->mapped[i] = j->linear->residuals[back->ins[v->port].index].value;
		else if (v->from == FROM_INSTR && back->instrs[v->instr].recomputed)
			j->mapped[i] = v->primal;
		else if (v->from == FROM_PORT)
			j->joint->cotangent = id;
		body->values[id].streamed |= v->cotangent && is_cut_param(j, &record->values[v->primal]);
	}
	for (uint32_t i = 0; i < body->value_count; i++)
		body->values[i].streamed |= is_cut_param(j, &body->values[i]);
}

static uint32_t map_value(const struct joining *j, uint32_t value)
{
	return value == NO_VALUE ? NO_VALUE : j->mapped[value];
}

/* Lets the recording instruction keep what INSTR of the backward body would recompute. */
static void keep_again(const struct joining *j, const struct instr *instr)
{
	for (int k = 0; k < MAX_KEEPS; k++)
		if (instr->out_keep[k] != NO_VALUE) {
			const uint32_t kept = j->mapped[instr->out_keep[k]];
			j->body->instrs[j->body->values[kept].instr].out_keep[k] = kept;
		}
}

/* Makes SUM, which sums over rows, the operation that does the same, so that it folds. */
static bool make_fold(const struct joining *j, struct instr *sum)
{
	struct value *const values = j->body->values;
	struct attrs *attrs = arena_alloc(j->arena, sizeof *attrs);
	if (!attrs)
		return false;
	sum_to_attrs(attrs, values[sum->out].type, values[sum->v].type);
	sum->kind = INSTR_OP;
	sum->op = OP_sum;
	sum->attrs = attrs;
	sum->scalar = 0;
	sum->own_scalar = NO_VALUE;
	sum->step = NO_VALUE;
	sum->of = (struct forward_types){values[sum->v].type, NULL, values[sum->out].type, NULL};
	return true;
}

/* Copies the instructions of both bodies, except those that recompute. */
static bool join_instrs(struct joining *j)
{
	const struct body *record = j->linear->record, *back = j->linear->backward;
	struct body *body = j->body;
	bool good = true;
	memcpy(body->instrs, record->instrs, record->instr_count * sizeof *body->instrs);
	body->instr_count = record->instr_count;
	for (size_t i = 0; i < back->instr_count && good; i++) {
		if (back->instrs[i].recomputed) {
			keep_again(j, &back->instrs[i]);
			continue;
		}
		const uint32_t at = (uint32_t)body->instr_count++;
		struct instr *instr = &body->instrs[at];
		*instr = back->instrs[i];
		/* A chain with a program is whole, so MORE is never a call. */
		uint32_t *const reads[] = {&instr->v, &instr->a, &instr->y,       &instr->k,
		                           &instr->l, &instr->g, &instr->more[0], &instr->more[1]};
		for (size_t k = 0; k < sizeof reads / sizeof *reads; k++)
			*reads[k] = map_value(j, *reads[k]);
		uint32_t *const outs[] = {&instr->out, &instr->out_a};
		for (size_t k = 0; k < sizeof outs / sizeof *outs; k++) {
			*outs[k] = map_value(j, *outs[k]);
			if (*outs[k] != NO_VALUE)
				body->values[*outs[k]].instr = at;
		}
		if (instr->kind == INSTR_SUM_TO && body->values[instr->v].streamed && !body->values[instr->out].streamed)
			good = make_fold(j, instr);
	}
	return good;
}

/* Returns VALUE if an instruction has made it and it is not OTHER, else a copy: a program writes no other outs. */
static uint32_t own_out(const struct joining *j, uint32_t value, uint32_t other)
{
	struct body *body = j->body;
	if (body->values[value].from == FROM_INSTR && value != other)
		return value;
	const uint32_t id = body_add_value(body, body->values[value].type);
	struct instr *copy = id == NO_VALUE ? NULL : body_add_instr(body, INSTR_OP);
	if (!copy)
		return value; /* the arena has failed */
	body->values[id].from = FROM_INSTR;
	body->values[id].instr = (uint32_t)body->instr_count - 1;
	body->values[id].streamed = body->values[value].streamed;
	copy->op = OP_identity;
	copy->step = NO_VALUE;
	copy->v = value;
	copy->out = id;
	copy->of = (struct forward_types){body->values[value].type, NULL, body->values[value].type, NULL};
	return id;
}

/* Returns a value of zeros, with the input's rows: its gradient, or a place's, where none reaches it. NO_VALUE if out of memory. */
static uint32_t add_zeros(const struct joining *j)
{
	struct body *body = j->body;
	struct type *type = arena_alloc(j->arena, sizeof *type);
	if (!type)
		return NO_VALUE;
	*type = j->lowered->gradient_at.slot ? *j->lowered->gradient_at.computed : j->lowered->begins;
	const uint32_t id = body_add_value(body, type);
	struct instr *zeros = id == NO_VALUE ? NULL : body_add_instr(body, INSTR_ZERO);
	if (!zeros)
		return NO_VALUE;
	body->values[id].from = FROM_INSTR;
	body->values[id].instr = (uint32_t)body->instr_count - 1;
	body->values[id].streamed = j->lowered->gradient_at.slot ? j->lowered->gradient_at.streamed : true;
	zeros->step = NO_VALUE;
	zeros->out = id;
	return id;
}

static void join_ports(struct joining *j, bool want_value)
{
	const struct body *record = j->linear->record, *back = j->linear->backward;
	struct joint *joint = j->joint;
	struct body *body = j->body;
	for (size_t i = 0; i < record->in_count; i++)
		(void)body_add_in(body, PORT_SLOT, record->ins[i].index, record->ins[i].value);
	if (joint->cotangent != NO_VALUE) {
		body->values[joint->cotangent].port = (uint32_t)body->in_count;
		(void)body_add_in(body, PORT_COTANGENT, 0, joint->cotangent);
	}
	if (want_value) {
		joint->value = own_out(j, record->outs[0].value, NO_VALUE);
		(void)body_add_out(body, PORT_SLOT, 0, joint->value);
	}
	joint->gradient = back->out_count ? own_out(j, map_value(j, back->outs[0].value), joint->value) : add_zeros(j);
	if (joint->gradient != NO_VALUE)
		(void)body_add_out(body, PORT_COTANGENT, 0, joint->gradient);
}

/* Lets the joint body check the indices on which the value depends, as run does, though it may not compute that. */
static bool join_checks(const struct joining *j)
{
	const struct body *record = j->linear->record;
	bool *wanted = arena_array(j->arena, j->body->instr_count + 1, sizeof *wanted);
	const bool *live = body_find_live(record, j->arena);
	if (wanted && live)
		memcpy(wanted, live, record->instr_count * sizeof *live);
	return wanted && live && body_check_indices(j->body, wanted, j->arena);
}

enum status joint_make(const struct context *context, struct joint *joint, const struct lowered *lowered,
                       bool want_value)
{
	const struct step *step = lowered->distinct[0];
	struct linear linear;
	*joint = (struct joint){.own = &step->own, .cotangent = NO_VALUE, .value = NO_VALUE};
	TRY(linearise(context, &linear, step, NULL));
	if (linear.record->out_count == 0) /* the value is the input: nothing folds */
		return STATUS_OK;
	joint->forward_cost = want_value ? linear.forward_cost : linear.record_cost;
	joint->unread = want_value ? 0 : linear.record_skip;
	joint->backward_cost = linear.backward_cost;
	struct joining j = {.arena = context->arena, .linear = &linear, .lowered = lowered, .joint = joint};
	const size_t values = linear.record->value_count + linear.backward->value_count + 2;
	const size_t instrs = linear.record->instr_count + linear.backward->instr_count + 2;
	j.body = joint->body = arena_alloc(context->arena, sizeof *j.body);
	j.mapped = arena_array(context->arena, linear.backward->value_count + 1, sizeof *j.mapped);
	TRY_ALLOC(j.body && j.mapped, context->diags);
	body_init(j.body, context->arena);
	j.body->levels = linear.record->levels;
	j.body->own_params = linear.record->own_params;
	j.body->values = arena_array(context->arena, values, sizeof *j.body->values);
	j.body->instrs = arena_array(context->arena, instrs, sizeof *j.body->instrs);
	TRY_ALLOC(j.body->values && j.body->instrs, context->diags);
	j.body->value_capacity = values;
	j.body->instr_capacity = instrs;
	join_values(&j);
	TRY_ALLOC(join_instrs(&j), context->diags);
	join_ports(&j, want_value);
	TRY_ALLOC(join_checks(&j) && !context->arena->failed, context->diags);
	return STATUS_OK;
}

/* True if INSTR sums rows of a tile within the operation: its derivative by a value that is the same for all rows. */
static bool sums_within(const struct body *body, const struct instr *instr)
{
	uint32_t reads[INSTR_READS];
	bool rows = instr->a_streamed;
	for (size_t k = instr_reads(instr, reads); k-- > 0;)
		rows |= body->values[reads[k]].streamed;
	const bool v = instr->out != NO_VALUE && !body->values[instr->out].streamed;
	const bool a = instr->out_a != NO_VALUE && !body->values[instr->out_a].streamed;
	return instr->kind == INSTR_VJP && rows && (v || a);
}

/*
 * PARTS says of each value whether a tile has only a part, to which the parts of other tiles are added. True if INSTR may read
 * such values. It must be linear in them, so that its results are parts too. A derivative is linear in the cotangent. An
 * ADD is so if both its values are parts.
 */
static bool keeps_parts(const struct body *body, const struct instr *instr, const struct instr *const *parts)
{
	uint32_t reads[INSTR_READS];
	size_t count = 0;
	for (size_t k = instr_reads(instr, reads); k-- > 0;)
		count += parts[reads[k]] != NULL;
	switch (instr->kind) {
	case INSTR_ACCUMULATE:
	case INSTR_SUM_TO:
		return true;
	case INSTR_ADD:
		return count == 2;
	case INSTR_VJP_V:
	case INSTR_VJP_A:
	case INSTR_VJP_B:
	case INSTR_VJP:
		return count == 1 && parts[instr->g] && !(instr->out != NO_VALUE && body->values[instr->out].streamed) &&
		       !(instr->out_a != NO_VALUE && body->values[instr->out_a].streamed);
	default:
		return false;
	}
}

enum status joint_refuses(const struct context *context, const struct joint *joint, struct because *because)
{
	static const char *const reason = "its derivative by a value that is the same for all rows adds them up";
	const struct body *body = joint->body;
	/* By value: the instruction that sums rows of a tile within its operation, if tiles have parts of the value. */
	const struct instr **parts = arena_array(context->arena, body->value_count + 1, sizeof *parts);
	TRY_ALLOC(parts, context->diags);
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t values[INSTR_READS + INSTR_WRITES];
		const struct instr *part = sums_within(body, instr) ? instr : NULL;
		for (size_t k = instr_reads(instr, values); k-- > 0;)
			part = parts[values[k]] ? parts[values[k]] : part;
		if (part && part != instr && !keeps_parts(body, instr, parts) && !because->reason)
			*because = (struct because){reason, part->span};
		for (size_t k = instr_writes(instr, values); part && k-- > 0;)
			parts[values[k]] = body->values[values[k]].streamed ? NULL : part;
	}
	return STATUS_OK;
}
