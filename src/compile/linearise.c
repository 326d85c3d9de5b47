/*
 * The order of linearisation. It finds the values that cotangents reach, lets instructions keep
 * values for derivatives, and plans the checkpoint regions (regions.c). Then it makes the backward
 * body (backward.c) and the recording bodies, and lists who reads the residuals. At the end of the
 * file are the origins and names of values, for reports, explain and policies.
 *
 * A recording body is the step's forward body and, on its instructions, the kept values that are residuals.
 * Tests: tests/unit/test_residuals.c, tests/scripts/check-residuals
 */
#include "compile/lineariser.h"

#include <string.h>

unsigned derivatives_of(const struct lineariser *l, const struct instr *instr)
{
	if (instr->kind != INSTR_OP || instr->out == NO_VALUE || !l->values[instr->out].reached)
		return 0;
	unsigned bits = 0;
	for (uint32_t k = 0; k < instr_value_count(instr); k++) {
		const uint32_t value = instr_value(instr, k);
		const struct linear_value *at = value == NO_VALUE ? NULL : &l->values[value];
		if (at && instr_differentiable(instr, k) && l->body->values[value].active && !at->ended &&
		    (!l->solving || at->path))
			bits |= 1u << k;
	}
	return bits;
}

unsigned needs_of(const struct lineariser *l, const struct instr *instr)
{
	const unsigned bits = derivatives_of(l, instr);
	const struct op_info *info = &op_table[instr->op];
	if (instr_use(instr) && bits) {
		const struct program_traits *traits = &instr_use(instr)->program->traits;
		return traits->record_bytes >= 0 ? NEED_K : (traits->needs_x ? NEED_V : 0) | (traits->needs_y ? NEED_Y : 0);
	}
	unsigned needs = 0;
	for (uint32_t k = 0; bits >> k; k++)
		needs |= bits >> k & 1 ? info->needs[k] : 0;
	return needs;
}

bool needs_value(const struct lineariser *l, const struct instr *instr, uint32_t k)
{
	const unsigned needs = needs_of(l, instr);
	if (k == 0 || !instr_use(instr))
		return needs & need_of_value(k);
	const struct program_decl *program = instr_use(instr)->program;
	/* With a record, only operands that need not be kept. */
	const uint32_t given = program->traits.record_bytes < 0 ? UINT32_MAX : program->constant;
	return derivatives_of(l, instr) && (program->traits.needs_operands & given) >> (k - 1) & 1;
}

/* Marks the values that cotangents of the state after the step reach, and ins whose cotangents are wanted. */
static void mark_reached(struct lineariser *l)
{
	const struct body *body = l->body;
	const struct step *step = l->step;
	for (uint32_t i = 0; i < step->cot_read.count; i++)
		l->values[step->cot_value[i]].reached |= body->values[step->cot_value[i]].active;
	for (size_t i = 0; i < body->in_count; i++)
		l->values[body->ins[i].value].reached |= has_slot(step->cot_in, step_slot(step, &body->ins[i]));
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		const unsigned bits = derivatives_of(l, instr);
		if (instr_is_implicit(instr))
			l->values[instr->a].reached |= l->values[instr->v].reached && body->values[instr->a].active;
		for (uint32_t k = 0; bits >> k; k++)
			if (bits >> k & 1)
				l->values[instr_value(&body->instrs[i], k)].reached = true;
	}
}

/* Types of kept values, each once, that are no type of their instruction; the lowered body may have an equal one. */
struct kept_type {
	struct type type;
	const struct kept_type *next;
};

/* Returns a type equal to TYPE: that of INSTR's v or y, one of LIST, or a new one of LIST. NULL if out of memory. */
static const struct type *intern_type(struct arena *arena, const struct kept_type **list, const struct type *type,
                                      const struct instr *instr)
{
	if (instr->of.v && type_equal(type, instr->of.v))
		return instr->of.v;
	if (instr->of.y && type_equal(type, instr->of.y))
		return instr->of.y;
	for (const struct kept_type *known = *list; known; known = known->next)
		if (type_equal(type, &known->type))
			return &known->type;
	struct kept_type *made = arena_alloc(arena, sizeof *made);
	if (!made)
		return NULL;
	*made = (struct kept_type){*type, *list};
	*list = made;
	return &made->type;
}

/* Returns the type of PROGRAM's records: an array of the bytes that the program holds, and of 8 bytes at least. */
static struct type record_type(const struct program_decl *program)
{
	const int64_t bytes = program->traits.record_bytes;
	return (struct type){.dtype = DTYPE_F64,
	                     .shape = {.ndim = 1, .dim = {bytes > 8 ? bytes / 8 + (bytes % 8 > 0) : 1}}};
}

/* Lets each instruction keep the values that its derivatives need beside operands and results. */
static void add_keeps(struct lineariser *l)
{
	const struct kept_type *types = NULL;
	struct body *body = l->body;
	for (size_t i = 0; i < body->instr_count; i++) {
		struct instr *instr = &body->instrs[i];
		const unsigned needs = needs_of(l, instr);
		for (int k = 0; k < MAX_KEEPS; k++) {
			if (!(needs & (k ? NEED_L : NEED_K)))
				continue;
			const struct type type =
				instr_use(instr) ? record_type(instr_use(instr)->program)
								 : op_keep_type(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y, k);
			const struct type *interned = intern_type(l->arena, &types, &type, instr);
			const uint32_t id = interned ? body_add_value(body, interned) : NO_VALUE;
			if (id == NO_VALUE)
				return; /* out of memory: the arena has failed */
			instr->out_keep[k] = id;
			struct value *value = &body->values[id];
			value->from = FROM_INSTR;
			value->instr = (uint32_t)i;
			value->streamed = body->values[instr->out].streamed || body->values[instr->v].streamed;
		}
	}
}

bool add_live_outs(struct body *body, const struct step *step)
{
	const struct body *forward = step->body;
	body->outs = NULL;
	body->out_count = body->out_capacity = 0;
	for (size_t i = 0; i < forward->out_count; i++)
		if (has_slot(step->live_out, step_slot(step, &forward->outs[i])) &&
		    !body_add_out(body, PORT_SLOT, forward->outs[i].index, forward->outs[i].value))
			return false;
	return true;
}

/* What the live instructions of a body do. */
struct liveness {
	const bool *live; /* by instruction */
	bool *needed;     /* by value: an out or a live instruction reads it */
};

/* Sets *FOUND for BODY. False if out of memory. */
static bool find_needed_values(const struct body *body, struct arena *arena, struct liveness *found)
{
	found->live = body_find_live(body, arena);
	found->needed = arena_array(arena, body->value_count + 1, sizeof *found->needed);
	if (!found->live || !found->needed)
		return false;
	for (size_t i = 0; i < body->out_count; i++)
		found->needed[body->outs[i].value] = true;
	for (size_t i = 0; i < body->instr_count; i++) {
		uint32_t reads[INSTR_READS];
		const size_t count = found->live[i] ? instr_reads(&body->instrs[i], reads) : 0;
		for (size_t k = 0; k < count; k++)
			found->needed[reads[k]] = true;
		for (uint32_t k = 0;
		     found->live[i] && body->instrs[i].kind == INSTR_LOOP && k < body->instrs[i].loop.carry_count; k++) {
			const struct carry *carry = &body->instrs[i].loop.carries[k];
			found->needed[carry->init] = found->needed[carry->result] = true;
		}
	}
	return true;
}

/* True if VALUE, which no port or param gives, is computed. A program gives its result with each call; a loop runs whole. */
static bool is_computed(const struct liveness *found, const struct body *body, uint32_t value)
{
	const struct instr *instr = &body->instrs[body->values[value].instr];
	const bool live = found->live[body->values[value].instr];
	return instr->kind == INSTR_LOOP || instr->kind == INSTR_END ||
	       (live && (instr_use(instr) || found->needed[value]));
}

/* Returns how many steps of an unrolled BODY do not compute their values. A step without instructions has none to compute. */
static int64_t count_skipped(const struct liveness *found, const struct body *body)
{
	int64_t count = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		const uint32_t value = body->instrs[i].out;
		if (ends_step(body, i))
			count += !(value == NO_VALUE ? found->live[i] : is_computed(found, body, value));
	}
	return count;
}

/* True if record_only computes all values of the state after the step that the step makes, and there are some. */
static bool computes_state(const struct liveness *only, const struct body *record)
{
	bool any = false, all = true;
	for (size_t i = 0; i < record->out_count && record->outs[i].kind == PORT_SLOT; i++)
		if (record->values[record->outs[i].value].from == FROM_INSTR) {
			any = true;
			all &= is_computed(only, record, record->outs[i].value);
		}
	return any && all;
}

/*
 * Sets what executions of the recording body cost, by what is live of ALL of it and, where nobody reads the value, of a
 * FEW instructions. Sets which values they do not compute.
 */
static void sum_executions(struct lineariser *l, const struct liveness *all, const struct liveness *few)
{
	struct linear *out = l->out;
	const struct body *record = l->body;
	const uint32_t last = record->instr_count ? record->instrs[record->instr_count - 1].step : 0;
	for (size_t i = 0; i < record->instr_count; i++) {
		const struct instr *instr = &record->instrs[i];
		if (instr->kind != INSTR_OP)
			continue;
		const double cost = op_cost(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y);
		out->forward_cost += cost;
		out->record_cost += few->live[i] ? cost : 0;
		out->once_cost += instr->step != last || few->live[i] || l->again[i] ? cost : 0;
	}
	if (l->policy) {
		out->skipped = count_skipped(all, record);
		out->record_skip = count_skipped(few, record);
	} else {
		out->skipped = record->instr_count > 0 && (record->out_count == 0 || record->outs[0].kind != PORT_SLOT);
		out->record_skip = !computes_state(few, record);
	}
}

/* sum_executions, with ONLY as the body whose value nobody reads. What it needs is freed: long bodies have much of it. */
static void count_executions(struct lineariser *l, const struct body *only)
{
	struct arena arena;
	struct liveness all, few;
	arena_init(&arena, l->scratch.allocator);
	if (find_needed_values(l->body, &arena, &all) && find_needed_values(only, &arena, &few))
		sum_executions(l, &all, &few);
	l->scratch.failed |= arena.failed;
	arena_free(&arena);
}

/* Drops kept values that are no residuals, and makes the other residuals outs (linearise.h). */
static void make_recording_bodies(struct lineariser *l)
{
	const struct value_list *kept = &l->regions[0].kept;
	struct body *body = l->body, *only = arena_alloc(l->arena, sizeof *only);
	if (!only)
		return;
	begin_set(l);
	for (size_t i = 0; i < kept->count; i++)
		add_to_set(l, kept->items[i]);
	for (size_t i = 0; i < body->instr_count; i++) {
		struct instr *instr = &body->instrs[i];
		for (int k = 0; k < MAX_KEEPS; k++)
			if (instr->out_keep[k] != NO_VALUE && !is_in_set(l, instr->out_keep[k]))
				instr->out_keep[k] = NO_VALUE;
	}
	*only = *body;
	only->outs = NULL;
	only->out_count = only->out_capacity = 0;
	(void)add_live_outs(body, l->step);
	const size_t slots = body->out_count;
	for (size_t i = 0; i < kept->count; i++) {
		const uint32_t value = kept->items[i];
		bool in_slot = false;
		if (body->values[value].from != FROM_INSTR)
			continue;
		for (size_t k = 0; k < slots; k++)
			in_slot |= body->outs[k].value == value;
		if (!in_slot)
			(void)body_add_out(body, PORT_RESIDUAL, (uint32_t)i, value);
		(void)body_add_out(only, PORT_RESIDUAL, (uint32_t)i, value);
	}
	l->out->record = body;
	l->out->record_only = only;
	if (!l->arena->failed)
		count_executions(l, only);
}

/* Copies the step's body as the recording body, with capacity for kept values. The backward body is empty. */
static bool begin_bodies(struct lineariser *l)
{
	const struct body *from = l->step->body;
	struct arena *lists = body_is_brief(from) ? &l->scratch : l->arena;
	struct body *body = arena_alloc(l->arena, sizeof *body), *back = arena_alloc(l->arena, sizeof *back);
	if (!body || !back)
		return false;
	*body = *from;
	body->arena = lists;
	body->value_capacity = from->value_count + 1;
	for (size_t i = 0; i < from->instr_count; i++)
		body->value_capacity += MAX_KEEPS * (op_table[from->instrs[i].op].keeps[0].kind != KEEP_NOTHING);
	body->instr_capacity = from->instr_count + 1;
	body->values = arena_array(lists, body->value_capacity, sizeof *body->values);
	body->instrs = arena_array(lists, body->instr_capacity, sizeof *body->instrs);
	if (!body->values || !body->instrs)
		return false;
	if (from->value_count)
		memcpy(body->values, from->values, from->value_count * sizeof *body->values);
	if (from->instr_count)
		memcpy(body->instrs, from->instrs, from->instr_count * sizeof *body->instrs);
	body_init(back, lists);
	back->blocks = from->blocks;
	back->cut = from->cut;
	back->rest = from->rest;
	back->levels = from->levels;
	back->value_capacity = body->value_capacity;
	back->values = arena_array(lists, back->value_capacity, sizeof *back->values);
	l->body = body;
	l->back = back;
	if (from->region_count > 1 && !block_cuts_make(l))
		return false;
	l->values = arena_array(&l->scratch, body->value_capacity, sizeof *l->values);
	l->again = arena_array(&l->scratch, body->instr_capacity, sizeof *l->again);
	l->regions = arena_array(&l->scratch, body->region_count, sizeof *l->regions);
	if (l->arena->failed || l->scratch.failed)
		return false;
	for (size_t i = 0; i < body->value_capacity; i++)
		l->values[i].mapped = l->values[i].cotangent = NO_VALUE;
	return true;
}

/* Returns the COUNT items of SIZE bytes at ITEMS, copied to ARENA. */
static void *copy_list(struct arena *arena, const void *items, size_t count, size_t size)
{
	void *kept = arena_array(arena, count, size);
	return kept && count ? memcpy(kept, items, count * size) : kept;
}

/* Copies the lists of BODY from the scratch arena. Those that are as in the step's body are the same. */
static void copy_body_lists(struct lineariser *l, struct body *body)
{
	const struct body *from = l->step->body;
	struct arena *arena = body->arena = l->arena;
	const bool same_values = body->value_count == from->value_count && from->value_count > 0 &&
	                         !memcmp(body->values, from->values, from->value_count * sizeof *from->values);
	const bool same_instrs = body->instr_count == from->instr_count && from->instr_count > 0 &&
	                         !memcmp(body->instrs, from->instrs, from->instr_count * sizeof *from->instrs);
	body->value_capacity = body->value_count;
	body->values = same_values ? from->values : copy_list(arena, body->values, body->value_count, sizeof *body->values);
	body->instr_capacity = body->instr_count;
	body->instrs = same_instrs ? from->instrs : copy_list(arena, body->instrs, body->instr_count, sizeof *body->instrs);
	if (body->ins != from->ins)
		body->ins = copy_list(arena, body->ins, body->in_capacity = body->in_count, sizeof *body->ins);
	body->outs = copy_list(arena, body->outs, body->out_capacity = body->out_count, sizeof *body->outs);
}

/* Keeps the bodies of a brief step, at their lengths: a written-out chain has many of them. */
static void keep_bodies(struct lineariser *l)
{
	if (!body_is_brief(l->step->body))
		return;
	struct body *only = l->out->record_only;
	copy_body_lists(l, l->body);
	copy_body_lists(l, l->back);
	only->arena = l->arena;
	only->values = l->body->values;
	only->value_capacity = only->value_count;
	only->instrs = l->body->instrs;
	only->instr_capacity = only->instr_count;
	only->outs = copy_list(l->arena, only->outs, only->out_capacity = only->out_count, sizeof *only->outs);
}

/*
 * Lets record_only check the indices of operations on which the state depends, and which neither it nor the backward pass
 * computes or reverses: else nobody would see that one is out of range.
 */
static void make_checks(struct lineariser *l)
{
	struct body *only = l->out->record_only;
	const struct body *record = l->out->record;
	bool *wanted = arena_array(&l->scratch, record->instr_count + 1, sizeof *wanted), any = false;
	for (size_t i = 0; wanted && i < record->instr_count; i++) {
		const struct instr *instr = &record->instrs[i];
		wanted[i] = instr_indices(instr) != NO_VALUE && !l->again[i] && !derivatives_of(l, instr);
		any |= wanted[i];
	}
	if (!any)
		return;
	const bool *live = body_find_live(record, &l->scratch);
	for (size_t i = 0; live && i < record->instr_count; i++)
		wanted[i] &= live[i];
	only->instrs = copy_list(l->arena, only->instrs, only->instr_count, sizeof *only->instrs);
	only->instr_capacity = only->instr_count;
	if (only->instrs)
		(void)body_check_indices(only, wanted, &l->scratch);
}

/* Lists the operations that read each residual, and the params that the backward body reads. */
static void list_readers(struct lineariser *l)
{
	struct linear *out = l->out;
	const struct body *back = l->back;
	size_t capacity = 0;
	bool *seen = arena_array(&l->scratch, back->value_count + 1, sizeof *seen);
	for (size_t i = 0; i < back->instr_count && seen && !l->arena->failed; i++) {
		const struct instr *instr = &back->instrs[i];
		/* A sum of cotangents is not an operation of the chain: it does not count as a reader. */
		const bool only_adds =
			instr->kind == INSTR_ADD || instr->kind == INSTR_SUM_TO || instr->kind == INSTR_ACCUMULATE;
		uint32_t reads[INSTR_READS];
		const size_t count = instr_reads(instr, reads);
		for (size_t r = 0; r < count; r++) {
			const struct value *value = &back->values[reads[r]];
			if (value->from == FROM_PARAM && !seen[reads[r]]) {
				struct param_ref *ref = arena_append(l->arena, &out->params, &out->param_count, &capacity, sizeof *ref);
				if (ref)
					*ref = value->param;
				seen[reads[r]] = true;
			}
			if (value->from == FROM_PORT && back->ins[value->port].kind == PORT_RESIDUAL && !only_adds)
				(void)op_names_add(l->arena, &out->residuals[back->ins[value->port].index].used_by, instr_name(instr));
		}
	}
}

bool lineariser_begin(struct lineariser *l)
{
	if (!begin_bodies(l))
		return false;
	for (size_t i = 0; i < l->body->in_count; i++) {
		const uint32_t in = l->body->ins[i].value, place = body_cotangent_of(l->body, in);
		l->given = place != in ? l->body->values[place].instr + 1 : l->given;
	}
	mark_reached(l);
	add_keeps(l);
	return !l->arena->failed && !l->scratch.failed;
}

enum status lineariser_refuse(const struct lineariser *l, struct diags *diags)
{
	if (!l->too_long)
		return diag_memory(diags);
	return diag_file(diags, STATUS_LIMIT, NULL, -1,
	                 "the policy of a checkpoint block computes more than %d operations again", MAX_OPERATIONS);
}

enum status linearise(const struct context *context, struct linear *linear, const struct step *step,
                      const struct policy *policy)
{
	static void (*const parts[])(struct lineariser *) = {regions_plan, backward_make, make_recording_bodies,
	                                                     list_readers, keep_bodies,   make_checks};
	struct lineariser l = {.arena = context->arena, .out = linear, .step = step, .policy = policy};
	*linear = (struct linear){.step = step};
	arena_init(&l.scratch, context->arena->allocator);
	bool good = lineariser_begin(&l);
	for (size_t i = 0; i < sizeof parts / sizeof *parts && good; i++) {
		parts[i](&l);
		good = !l.arena->failed && !l.scratch.failed;
	}
	arena_free(&l.scratch);
	return good ? STATUS_OK : lineariser_refuse(&l, context->diags);
}

const char *linear_maker(const struct body *body, uint32_t value)
{
	const struct instr *instr = &body->instrs[body->values[value].instr];
	for (int k = 0; k < MAX_KEEPS; k++)
		if (instr->out_keep[k] == value)
			return op_table[instr->op].keeps[k].name;
	return instr_name(instr);
}

int64_t linear_place(const struct body *body, uint32_t value)
{
	const struct value *v = &body->values[value];
	int64_t place = (int64_t)v->instr * INSTR_PLACES;
	for (int k = 0; k < MAX_KEEPS; k++)
		if (body->instrs[v->instr].out_keep[k] == value)
			place += 1 + k;
	return v->names ? place + INSTR_PLACES - 1 : place;
}

struct origin origin_of(const struct step *step, const struct body *body, uint32_t value)
{
	const struct value *v = &body->values[value];
	struct origin origin = {.names = step_names(step, value, v->names), .param = NO_VALUE};
	if (v->from == FROM_PARAM) {
		origin.argument = true;
		origin.param = step_param(step, &v->param)->param;
	} else if (v->from == FROM_INSTR) {
		const struct instr *instr = &body->instrs[v->instr];
		origin.op = linear_maker(body, value);
		origin.span = step_span(step, instr->span);
		origin.def = instr->def;
	}
	return origin;
}

bool op_names_add(struct arena *arena, struct op_names *list, const char *op)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->names[i] == op)
			return true;
	const char **name = arena_append(arena, &list->names, &list->count, &list->capacity, sizeof *name);
	if (name)
		*name = op;
	return name != NULL;
}

const char *op_reading(const struct body *body, size_t index)
{
	const struct instr *read = &body->instrs[index];
	const bool converts = read->kind == INSTR_OP && read->op == OP_cast;
	for (size_t i = index + 1; converts && i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->span.begin != read->span.begin)
			break;
		for (uint32_t k = 0; k < instr_value_count(instr); k++)
			if (instr_value(instr, k) == read->out)
				return instr_name(instr);
	}
	return instr_name(read);
}
