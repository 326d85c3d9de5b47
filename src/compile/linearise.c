/*
 * Linearisation of a body, with checkpoint regions.
 *
 * What a region's backward pass needs is what the derivatives of its own
 * operations read and what its inner regions have kept. The whole body, without
 * a policy, keeps all of that. Any other region keeps what a walk from the needs
 * back through the operations meets first: values from outside the region, and
 * values that its policy may save; what the walk passes is recomputed when the
 * backward pass reaches the region. This is the partial evaluation of
 * jax.checkpoint with dead code removed.
 *
 * Invariant: cotangents of a value are added in the reverse order of its uses,
 * whatever the policy, so that the bits of a gradient do not depend on it. The
 * gradient of a param is accumulated use by use, in the same order.
 */
#include "compile/linearise.h"

#include <string.h>

struct list {
	uint32_t *items;
	size_t count, capacity;
};

struct region_plan {
	struct list needs, kept, again; /* values: needed by its backward pass; kept for it; recomputed */
	const struct policy *policy;
	uint32_t *children;
	size_t child_count;
};

struct linearizer {
	struct linear *out;
	const struct step *step;
	const struct chain *chain;
	const struct policy *policy; /* of the whole body, or NULL */
	struct arena *arena;
	struct diags *diags;
	struct body *body; /* the recording body: the step's, and kept values */
	struct region_plan *regions;
	bool *cot;                   /* by value: a cotangent reaches it */
	uint32_t (*keep)[MAX_KEEPS]; /* by instruction: its kept values, NO_VALUE where not wanted */
	uint32_t *stamp;             /* by value */
	uint32_t epoch;
	size_t stamp_size;
	const struct type **types; /* of masks, each once */
	size_t type_count, type_capacity;
	/* The backward body. */
	struct body *back;
	uint32_t *map, *cotangent; /* by value of the recording body: in the backward body, or NO_VALUE */
	struct instr nowhere;      /* what is written once memory is short */
	bool failed;
};

static bool push(struct linearizer *l, struct list *list, uint32_t value)
{
	uint32_t *grown = arena_grow(l->arena, list->items, list->count, &list->capacity, sizeof *grown);
	if (!grown)
		return !(l->failed = true);
	list->items = grown;
	grown[list->count++] = value;
	return true;
}

static void next_epoch(struct linearizer *l) { l->epoch++; }

/* Stamps VALUE; false where it has been stamped in this epoch. */
static bool stamp(struct linearizer *l, uint32_t value)
{
	if (l->stamp[value] == l->epoch)
		return false;
	l->stamp[value] = l->epoch;
	return true;
}

/* Which derivatives an instruction has: bit 0 for v, bit 1 for a. */
static unsigned gradients_of(const struct linearizer *l, const struct instr *instr)
{
	if (instr->kind != INSTR_OP || instr->out == NO_VALUE || !l->cot[instr->out])
		return 0;
	const struct op_info *info = &op_table[instr->op];
	const struct value *values = l->body->values;
	unsigned bits = 0;
	if (info->differentiable && values[instr->v].active)
		bits |= 1;
	if (instr->a != NO_VALUE && info->operand_differentiable && values[instr->a].active)
		bits |= 2;
	return bits;
}

static unsigned needs_of(const struct linearizer *l, const struct instr *instr)
{
	unsigned bits = gradients_of(l, instr);
	const struct op_info *info = &op_table[instr->op];
	return (bits & 1 ? info->needs_v : 0) | (bits & 2 ? info->needs_a : 0);
}

/* Cotangents: which values they reach. */
static void mark_cotangents(struct linearizer *l)
{
	const struct body *body = l->body;
	const struct step *step = l->step;
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		if (step->cot_to[i] != NO_VALUE)
			continue;
		for (size_t k = 0; k < step->body->out_count; k++)
			if (step->body->outs[k].index == step->cot_out[i])
				l->cot[step->body->outs[k].value] |= body->values[step->body->outs[k].value].active;
	}
	for (size_t i = 0; i < body->in_count; i++)
		for (uint32_t k = 0; k < step->cot_in_count; k++)
			if (step->cot_in[k] == body->ins[i].index)
				l->cot[body->ins[i].value] = true;
	for (size_t i = body->instr_count; i-- > 0;) {
		unsigned bits = gradients_of(l, &body->instrs[i]);
		if (bits & 1)
			l->cot[body->instrs[i].v] = true;
		if (bits & 2)
			l->cot[body->instrs[i].a] = true;
	}
}

/* A type that is equal to TYPE: one of A, B or the masks made so far, or a new one. */
static const struct type *share_type(struct linearizer *l, const struct type *type, const struct type *a,
                                     const struct type *b)
{
	if (a && type_equal(type, a))
		return a;
	if (b && type_equal(type, b))
		return b;
	for (size_t i = 0; i < l->type_count; i++)
		if (type_equal(type, l->types[i]))
			return l->types[i];
	const struct type **grown = arena_grow(l->arena, l->types, l->type_count, &l->type_capacity, sizeof *grown);
	struct type *made = arena_alloc(l->arena, sizeof *made);
	if (!grown || !made) {
		l->failed = true;
		return a;
	}
	*made = *type;
	l->types = grown;
	return grown[l->type_count++] = made;
}

/* The values that instructions compute for their derivatives beside their results. */
static void add_keeps(struct linearizer *l)
{
	struct body *body = l->body;
	for (size_t i = 0; i < body->instr_count && !l->failed; i++) {
		const struct instr *instr = &body->instrs[i];
		unsigned needs = needs_of(l, instr);
		for (int k = 0; k < MAX_KEEPS; k++) {
			l->keep[i][k] = NO_VALUE;
			if (!(needs & (k ? NEED_L : NEED_K)))
				continue;
			struct type type;
			op_keep_type(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y, k, &type);
			const struct type *shared = share_type(l, &type, instr->of.v, instr->of.y);
			uint32_t id = body_add_value(body, shared);
			if (id == NO_VALUE) {
				l->failed = true;
				return;
			}
			struct value *value = &body->values[id];
			value->from = FROM_INSTR;
			value->instr = (uint32_t)i;
			value->dtype = type.dtype;
			value->streamed = body->values[instr->out].streamed || body->values[instr->v].streamed;
			l->keep[i][k] = id;
		}
	}
}

/* Regions. */

static const struct region *region_at(const struct linearizer *l, uint32_t id) { return &l->body->regions[id]; }

static enum status init_regions(struct linearizer *l)
{
	size_t count = l->body->region_count;
	l->regions = arena_array(l->arena, count, sizeof *l->regions);
	if (!l->regions)
		return diag_memory(l->diags);
	l->regions[0].policy = l->policy;
	for (size_t i = 1; i < count; i++)
		l->regions[region_at(l, (uint32_t)i)->parent].child_count++;
	for (size_t i = 0; i < count; i++) {
		struct region_plan *plan = &l->regions[i];
		plan->children = arena_array(l->arena, plan->child_count + 1, sizeof *plan->children);
		if (!plan->children)
			return diag_memory(l->diags);
		plan->child_count = 0;
		const struct region *region = region_at(l, (uint32_t)i);
		if (i > 0) {
			struct region_plan *parent = &l->regions[region->parent];
			parent->children[parent->child_count++] = (uint32_t)i;
		}
		if (!region->policy)
			continue;
		struct policy *policy = arena_alloc(l->arena, sizeof *policy);
		if (!policy)
			return diag_memory(l->diags);
		enum status status =
			policy_parse_block(policy, region->policy, l->chain->source, region->policy_span, l->arena, l->diags);
		if (status)
			return status;
		plan->policy = policy;
	}
	return STATUS_OK;
}

static bool inside(const struct linearizer *l, uint32_t value, uint32_t region)
{
	const struct value *v = &l->body->values[value];
	const struct region *r = region_at(l, region);
	return v->from == FROM_INSTR && v->instr >= r->first && v->instr < r->end;
}

const char *linear_maker(const struct body *body, const uint32_t keep[MAX_KEEPS], uint32_t value)
{
	const struct op_info *op = &op_table[body->instrs[body->values[value].instr].op];
	for (int k = 0; k < MAX_KEEPS; k++)
		if (keep[k] == value)
			return op->keeps[k].name;
	return op->name;
}

int64_t linear_place(const struct body *body, const uint32_t keep[MAX_KEEPS], uint32_t value)
{
	const struct value *v = &body->values[value];
	int64_t place = (int64_t)v->instr * INSTR_PLACES;
	for (int k = 0; k < MAX_KEEPS; k++)
		if (keep[k] == value)
			place += 1 + k;
	return v->names ? place + INSTR_PLACES - 1 : place;
}

/*
 * Whether a product of V and A has a batch axis as JAX's matmul makes its dot_general: one that both
 * have before their matrices, and that is 1 in neither, as such an axis is squeezed away.
 */
static bool is_batched(const struct shape *v, const struct shape *a)
{
	for (int i = 3; i <= v->ndim && i <= a->ndim; i++)
		if (v->dim[v->ndim - i] != 1 && a->dim[a->ndim - i] != 1)
			return true;
	return false;
}

/* Whether POLICY may save VALUE. */
static bool policy_allows(const struct linearizer *l, const struct policy *policy, uint32_t value)
{
	if (!policy)
		return false;
	const struct value *v = &l->body->values[value];
	const struct instr *instr = &l->body->instrs[v->instr];
	bool dot = instr->out == value && op_is_dot(instr->op);
	struct policy_value seen = {.op = linear_maker(l->body, l->keep[v->instr], value),
	                            .dot = dot,
	                            .batch = dot && is_batched(&instr->of.v->shape, &instr->of.a->shape)};
	if (!v->names)
		return policy_saves(policy, &seen);
	for (const struct naming *n = v->names; n; n = n->next) {
		seen.name = n->name;
		if (policy_saves(policy, &seen))
			return true;
	}
	return false;
}

/*
 * Whether VALUE, made in REGION or deeper, is at hand when REGION's backward pass
 * begins: its policy says so, or that of a region around it. What regions between
 * it and REGION say counts when REGION is run again, as in JAX, whose outer
 * policy decides first for all that it holds.
 */
static bool saveable(const struct linearizer *l, uint32_t region, uint32_t value)
{
	for (uint32_t r = region;; r = region_at(l, r)->parent) {
		if (policy_allows(l, l->regions[r].policy, value))
			return true;
		if (r == 0)
			return false;
	}
}

static void need(struct linearizer *l, struct list *list, uint32_t value)
{
	if (value != NO_VALUE && l->body->values[value].from != FROM_PARAM && stamp(l, value))
		push(l, list, value);
}

static void collect_needs(struct linearizer *l, uint32_t id)
{
	struct region_plan *plan = &l->regions[id];
	const struct region *region = region_at(l, id);
	next_epoch(l);
	size_t child = 0;
	for (uint32_t i = region->first; i < region->end; i++) {
		if (child < plan->child_count && i == region_at(l, plan->children[child])->first) {
			const struct region_plan *inner = &l->regions[plan->children[child]];
			for (size_t k = 0; k < inner->kept.count; k++)
				need(l, &plan->needs, inner->kept.items[k]);
			i = region_at(l, plan->children[child++])->end;
			i--; /* the loop's own step */
			continue;
		}
		const struct instr *instr = &l->body->instrs[i];
		unsigned needs = needs_of(l, instr);
		if (needs & NEED_V)
			need(l, &plan->needs, instr->v);
		if (needs & NEED_A)
			need(l, &plan->needs, instr->a);
		if (needs & NEED_Y)
			need(l, &plan->needs, instr->out);
		for (int k = 0; k < MAX_KEEPS; k++)
			need(l, &plan->needs, l->keep[i][k]);
	}
}

/* What REGION keeps and what it recomputes, from its needs. */
static void divide_needs(struct linearizer *l, uint32_t id)
{
	struct region_plan *plan = &l->regions[id];
	if (id == 0 && !l->policy) {
		plan->kept = plan->needs;
		return;
	}
	struct list stack = {0};
	next_epoch(l);
	for (size_t i = 0; i < plan->needs.count; i++)
		need(l, &stack, plan->needs.items[i]);
	while (stack.count && !l->failed) {
		uint32_t value = stack.items[--stack.count];
		if (!inside(l, value, id) || saveable(l, id, value)) {
			push(l, &plan->kept, value);
			continue;
		}
		push(l, &plan->again, value);
		const struct instr *instr = &l->body->instrs[l->body->values[value].instr];
		need(l, &stack, instr->v);
		need(l, &stack, instr->a);
	}
}

/* Inner regions come after the ones that hold them: from the last to the first. */
static void plan_regions(struct linearizer *l)
{
	for (size_t i = l->body->region_count; i-- > 0 && !l->failed;) {
		const struct region *region = region_at(l, (uint32_t)i);
		if (i > 0 && region->first == region->end)
			continue;
		collect_needs(l, (uint32_t)i);
		divide_needs(l, (uint32_t)i);
	}
}

/* The backward body. */

static uint32_t back_value(struct linearizer *l, const struct type *type, bool streamed)
{
	uint32_t id = body_add_value(l->back, type);
	if (id == NO_VALUE) {
		l->failed = true;
		return 0;
	}
	l->back->values[id].dtype = type->dtype;
	l->back->values[id].streamed = streamed;
	return id;
}

static struct instr *back_instr(struct linearizer *l, enum instr_kind kind, const struct instr *from)
{
	struct instr *instr = body_add_instr(l->back, kind);
	if (!instr) {
		l->failed = true;
		return &l->nowhere;
	}
	if (from) {
		instr->op = from->op;
		instr->attrs = from->attrs;
		instr->scalar = from->scalar;
		instr->of = from->of;
		instr->a_streamed = from->a_streamed;
		instr->span = from->span;
		instr->def = from->def;
		instr->step = from->step;
		instr->level = from->level;
	}
	return instr;
}

static void made_here(struct linearizer *l, uint32_t value)
{
	l->back->values[value].from = FROM_INSTR;
	l->back->values[value].instr = (uint32_t)l->back->instr_count - 1;
}

/* VALUE of the recording body, in the backward body. */
static uint32_t mapped(struct linearizer *l, uint32_t value)
{
	if (value == NO_VALUE)
		return NO_VALUE;
	const struct value *from = &l->body->values[value];
	if (l->map[value] == NO_VALUE && from->from == FROM_PARAM) {
		uint32_t id = back_value(l, from->type, from->streamed);
		l->back->values[id].from = FROM_PARAM;
		l->back->values[id].param = from->param;
		l->map[value] = id;
	}
	return l->map[value];
}

static void accumulate_param(struct linearizer *l, uint32_t value, uint32_t cotangent, const struct instr *from)
{
	struct instr *instr = back_instr(l, INSTR_ACCUMULATE, from);
	instr->v = cotangent;
	instr->param = l->body->values[value].param;
}

/* Adds COTANGENT to what has reached VALUE so far. */
static void add_cotangent(struct linearizer *l, uint32_t value, uint32_t cotangent, const struct instr *from)
{
	const struct value *primal = &l->body->values[value];
	if (primal->from == FROM_PARAM) {
		accumulate_param(l, value, cotangent, from);
		return;
	}
	if (l->cotangent[value] == NO_VALUE) {
		l->cotangent[value] = cotangent;
		return;
	}
	uint32_t sum = back_value(l, primal->type, primal->streamed);
	struct instr *add = back_instr(l, INSTR_ADD, from);
	add->v = l->cotangent[value];
	add->a = cotangent;
	add->out = sum;
	made_here(l, sum);
	l->cotangent[value] = sum;
}

/* CONTRIBUTION, shaped as the result of FROM, summed to the type of VALUE where that was broadcast. */
static void add_broadcast_cotangent(struct linearizer *l, uint32_t value, uint32_t contribution,
                                    const struct instr *from)
{
	const struct value *primal = &l->body->values[value];
	if (!shape_equal(&primal->type->shape, &from->of.y->shape)) {
		uint32_t sum = back_value(l, primal->type, primal->streamed);
		struct instr *instr = back_instr(l, INSTR_SUM_TO, from);
		instr->v = contribution;
		instr->out = sum;
		made_here(l, sum);
		contribution = sum;
	}
	add_cotangent(l, value, contribution, from);
}

/* The values that a derivative reads, by NEEDS. */
static void read_needs(struct linearizer *l, struct instr *instr, const struct instr *from, size_t at, unsigned needs)
{
	uint32_t v = needs & NEED_V ? mapped(l, from->v) : NO_VALUE, a = needs & NEED_A ? mapped(l, from->a) : NO_VALUE;
	instr->v = v;
	instr->a = a;
	instr->y = needs & NEED_Y ? l->map[from->out] : NO_VALUE;
	instr->k = needs & NEED_K ? l->map[l->keep[at][0]] : NO_VALUE;
	instr->l = needs & NEED_L ? l->map[l->keep[at][1]] : NO_VALUE;
}

/* Params that a derivative reads must have their values before its instruction is added. */
static void prepare_needs(struct linearizer *l, const struct instr *from, unsigned needs)
{
	if (needs & NEED_V)
		mapped(l, from->v);
	if (needs & NEED_A)
		mapped(l, from->a);
}

static void reverse(struct linearizer *l, size_t at)
{
	const struct instr *from = &l->body->instrs[at];
	unsigned bits = gradients_of(l, from);
	uint32_t g = bits ? l->cotangent[from->out] : NO_VALUE;
	if (g == NO_VALUE)
		return;
	const struct op_info *info = &op_table[from->op];
	const struct value *values = l->body->values;
	l->out->backward_cost += op_cost(from->op, from->of.v, from->of.a, from->of.y) * (bits == 3 ? 2 : 1);
	if (info->class == OP_CLASS_GENERAL) {
		unsigned needs = needs_of(l, from);
		prepare_needs(l, from, needs);
		uint32_t dv = bits & 1 ? back_value(l, from->of.v, values[from->v].streamed) : NO_VALUE;
		uint32_t da = bits & 2 ? back_value(l, from->of.a, values[from->a].streamed) : NO_VALUE;
		struct instr *instr = back_instr(l, INSTR_VJP, from);
		instr->g = g;
		read_needs(l, instr, from, at, needs);
		instr->out = dv;
		instr->out_a = da;
		if (from->op == OP_slice && dv != NO_VALUE && l->cotangent[from->v] != NO_VALUE) {
			instr->a = l->cotangent[from->v];
			l->cotangent[from->v] = dv;
			made_here(l, dv);
			return;
		}
		if (dv != NO_VALUE)
			made_here(l, dv);
		if (da != NO_VALUE)
			made_here(l, da);
		if (dv != NO_VALUE)
			add_cotangent(l, from->v, dv, from);
		if (da != NO_VALUE)
			add_cotangent(l, from->a, da, from);
		return;
	}
	for (int side = 0; side < 2; side++) {
		if (!(bits & (1u << side)))
			continue;
		unsigned needs = side ? info->needs_a : info->needs_v;
		prepare_needs(l, from, needs);
		uint32_t out = back_value(l, from->of.y, values[from->out].streamed);
		struct instr *instr = back_instr(l, side ? INSTR_VJP_A : INSTR_VJP_V, from);
		instr->g = g;
		read_needs(l, instr, from, at, needs);
		instr->out = out;
		made_here(l, out);
		add_broadcast_cotangent(l, side ? from->a : from->v, out, from);
	}
}

/* Runs again what REGION did not keep. */
static void recompute(struct linearizer *l, uint32_t id)
{
	const struct region_plan *plan = &l->regions[id];
	const struct region *region = region_at(l, id);
	int64_t last = -1;
	next_epoch(l);
	for (size_t i = 0; i < plan->again.count; i++)
		stamp(l, plan->again.items[i]);
	for (uint32_t i = region->first; i < region->end && plan->again.count && !l->failed; i++) {
		const struct instr *from = &l->body->instrs[i];
		uint32_t outs[1 + MAX_KEEPS] = {from->out, l->keep[i][0], l->keep[i][1]};
		bool wanted = false;
		for (int k = 0; k < 1 + MAX_KEEPS; k++) {
			if (outs[k] != NO_VALUE && l->stamp[outs[k]] != l->epoch)
				outs[k] = NO_VALUE;
			wanted |= outs[k] != NO_VALUE;
		}
		if (!wanted)
			continue;
		uint32_t v = mapped(l, from->v), a = mapped(l, from->a), made[1 + MAX_KEEPS];
		for (int k = 0; k < 1 + MAX_KEEPS; k++) {
			made[k] = NO_VALUE;
			if (outs[k] != NO_VALUE) {
				const struct value *value = &l->body->values[outs[k]];
				made[k] = back_value(l, value->type, value->streamed);
				l->back->values[made[k]].names = value->names;
			}
		}
		struct instr *instr = back_instr(l, from->kind, from);
		instr->v = v;
		instr->a = a;
		instr->recomputed = true;
		instr->out = made[0];
		for (int k = 0; k < 1 + MAX_KEEPS; k++) {
			if (k)
				instr->out_keep[k - 1] = made[k];
			if (made[k] == NO_VALUE)
				continue;
			made_here(l, made[k]);
			l->map[outs[k]] = made[k];
		}
		if (from->kind == INSTR_OP)
			l->out->recompute_cost += op_cost(from->op, from->of.v, from->of.a, from->of.y);
		l->out->recomputed += from->step != last;
		last = from->step;
	}
}

static void region_back(struct linearizer *l, uint32_t id)
{
	const struct region_plan *plan = &l->regions[id];
	const struct region *region = region_at(l, id);
	recompute(l, id);
	size_t child = plan->child_count;
	for (uint32_t i = region->end; i > region->first && !l->failed;) {
		while (child && region_at(l, plan->children[child - 1])->first == region_at(l, plan->children[child - 1])->end)
			child--; /* empty */
		if (child && i == region_at(l, plan->children[child - 1])->end) {
			child--;
			region_back(l, plan->children[child]);
			i = region_at(l, plan->children[child])->first;
			continue;
		}
		reverse(l, --i);
	}
}

/* Residuals of the whole body, in program order: the state's first. */
static int64_t program_order(const struct linearizer *l, uint32_t value)
{
	const struct value *v = &l->body->values[value];
	if (v->from == FROM_PORT)
		return v->port;
	return (int64_t)l->body->in_count + linear_place(l->body, l->keep[v->instr], value);
}

static void sort_values(const struct linearizer *l, struct list *list)
{
	/* Needs come nearly in order; an insertion sort would be quadratic at worst, so: heap sort. */
	uint32_t *a = list->items;
	size_t n = list->count;
	for (size_t end = n, start = n / 2; end > 1;) {
		if (start > 0) {
			start--;
		} else {
			uint32_t swap = a[--end];
			a[end] = a[0];
			a[0] = swap;
		}
		for (size_t root = start;;) {
			size_t child = 2 * root + 1;
			if (child >= end)
				break;
			if (child + 1 < end && program_order(l, a[child]) < program_order(l, a[child + 1]))
				child++;
			if (program_order(l, a[root]) >= program_order(l, a[child]))
				break;
			uint32_t swap = a[root];
			a[root] = a[child];
			a[child] = swap;
			root = child;
		}
	}
}

static void describe(struct linearizer *l, struct residual *residual, uint32_t value)
{
	const struct value *v = &l->body->values[value];
	residual->value = value;
	residual->slot = v->from == FROM_PORT ? l->body->ins[v->port].index : NO_VALUE;
	residual->type = v->type;
	residual->origin.names = v->names;
	residual->origin.param = NO_VALUE;
	if (v->from != FROM_INSTR)
		return;
	const struct instr *instr = &l->body->instrs[v->instr];
	residual->origin.op = linear_maker(l->body, l->keep[v->instr], value);
	residual->origin.span = instr->span;
	residual->origin.def = instr->def;
}

static void add_residuals(struct linearizer *l)
{
	struct list *kept = &l->regions[0].kept;
	struct linear *out = l->out;
	sort_values(l, kept);
	out->residual_count = kept->count;
	out->residuals = arena_array(l->arena, kept->count + 1, sizeof *out->residuals);
	if (!out->residuals) {
		l->failed = true;
		return;
	}
	for (size_t i = 0; i < kept->count; i++) {
		describe(l, &out->residuals[i], kept->items[i]);
		uint32_t id = back_value(l, out->residuals[i].type, l->body->values[kept->items[i]].streamed);
		if (!body_add_in(l->back, PORT_RESIDUAL, (uint32_t)i, id))
			l->failed = true;
		l->back->values[id].from = FROM_PORT;
		l->back->values[id].port = (uint32_t)l->back->in_count - 1;
		l->back->values[id].names = l->body->values[kept->items[i]].names;
		l->map[kept->items[i]] = id;
	}
}

/* Cotangents of the state after: those that the body takes. */
static void add_seeds(struct linearizer *l)
{
	const struct step *step = l->step;
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		uint32_t value = step->cot_value[i];
		if (value == NO_VALUE)
			continue;
		uint32_t id = back_value(l, l->body->values[value].type, l->body->values[value].streamed);
		if (!body_add_in(l->back, PORT_COTANGENT, step->cot_out[i], id))
			l->failed = true;
		l->back->values[id].from = FROM_PORT;
		l->back->values[id].port = (uint32_t)l->back->in_count - 1;
		if (l->body->values[value].active)
			add_cotangent(l, value, id, NULL);
	}
}

static void add_results(struct linearizer *l)
{
	const struct step *step = l->step;
	for (size_t i = 0; i < l->body->in_count && !l->failed; i++) {
		uint32_t slot = l->body->ins[i].index, value = l->body->ins[i].value;
		bool wanted = false;
		for (uint32_t k = 0; k < step->cot_in_count; k++)
			wanted |= step->cot_in[k] == slot;
		if (!wanted)
			continue;
		uint32_t cotangent = l->cotangent[value];
		if (cotangent == NO_VALUE) {
			cotangent = back_value(l, l->body->values[value].type, l->body->values[value].streamed);
			back_instr(l, INSTR_ZERO, NULL)->out = cotangent;
			made_here(l, cotangent);
		}
		if (!body_add_out(l->back, PORT_COTANGENT, slot, cotangent))
			l->failed = true;
	}
}

bool used_by_add(struct arena *arena, const char ***names, size_t *count, size_t *capacity, const char *op)
{
	for (size_t i = 0; i < *count; i++)
		if ((*names)[i] == op)
			return true;
	const char **grown = arena_grow(arena, *names, *count, capacity, sizeof *grown);
	if (!grown)
		return false;
	*names = grown;
	grown[(*count)++] = op;
	return true;
}

const char *used_by_reader(const struct body *body, size_t index)
{
	const struct instr *read = &body->instrs[index];
	const bool converts = read->kind == INSTR_OP && read->op == OP_cast;
	for (size_t i = index + 1; converts && i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->span.begin != read->span.begin)
			break;
		if (instr->v == read->out || instr->a == read->out)
			return op_table[instr->op].name;
	}
	return op_table[read->op].name;
}

/* Notes that the backward body reads the param REF. */
static bool note_param(struct linearizer *l, const struct param_ref *ref, size_t *capacity)
{
	struct linear *out = l->out;
	struct param_ref *grown = arena_grow(l->arena, out->params, out->param_count, capacity, sizeof *grown);
	if (!grown)
		return false;
	out->params = grown;
	grown[out->param_count++] = *ref;
	return true;
}

/* Whether INSTR has no use of its own for what it reads, but passes it on. */
static bool adds(const struct instr *instr)
{
	return instr->kind == INSTR_ADD || instr->kind == INSTR_SUM_TO || instr->kind == INSTR_ACCUMULATE;
}

/* Who reads each residual and which params are read. */
static void note_uses(struct linearizer *l)
{
	struct linear *out = l->out;
	const struct body *back = l->back;
	size_t capacity = 0, *capacities = arena_array(l->arena, out->residual_count + 1, sizeof *capacities);
	bool *seen = arena_array(l->arena, back->value_count + 1, sizeof *seen);
	l->failed |= !capacities || !seen;
	for (size_t i = 0; i < back->instr_count && !l->failed; i++) {
		const struct instr *instr = &back->instrs[i];
		const uint32_t reads[] = {instr->v, instr->a, instr->y, instr->k, instr->l};
		for (size_t r = 0; r < sizeof reads / sizeof *reads && !l->failed; r++) {
			if (reads[r] == NO_VALUE)
				continue;
			const struct value *value = &back->values[reads[r]];
			if (value->from == FROM_PARAM && !seen[reads[r]]) {
				seen[reads[r]] = true;
				l->failed = !note_param(l, &value->param, &capacity);
			}
			if (value->from != FROM_PORT || back->ins[value->port].kind != PORT_RESIDUAL || adds(instr))
				continue;
			const uint32_t index = back->ins[value->port].index;
			struct residual *residual = &out->residuals[index];
			l->failed = !used_by_add(l->arena, &residual->used_by, &residual->used_by_count, &capacities[index],
			                         op_table[instr->op].name);
		}
	}
}

/* The recording bodies: kept values on their instructions, and the outs. */
static void finish_record(struct linearizer *l)
{
	struct body *body = l->body;
	const struct step *step = l->step;
	const struct list *kept = &l->regions[0].kept;
	next_epoch(l);
	for (size_t i = 0; i < kept->count; i++)
		stamp(l, kept->items[i]);
	for (size_t i = 0; i < body->instr_count; i++) {
		struct instr *instr = &body->instrs[i];
		for (int k = 0; k < MAX_KEEPS; k++)
			if (l->keep[i][k] != NO_VALUE && l->stamp[l->keep[i][k]] == l->epoch)
				instr->out_keep[k] = l->keep[i][k];
		if (instr->kind == INSTR_OP)
			l->out->forward_cost += op_cost(instr->op, instr->of.v, instr->of.a, instr->of.y);
	}
	struct body *only = arena_alloc(l->arena, sizeof *only);
	if (!only) {
		l->failed = true;
		return;
	}
	*only = *body;
	only->outs = NULL;
	only->out_count = only->out_capacity = 0;
	body->outs = NULL;
	body->out_count = body->out_capacity = 0;
	for (size_t i = 0; i < step->body->out_count; i++)
		for (uint32_t k = 0; k < step->live_out_count; k++)
			if (step->live_out[k] == step->body->outs[i].index &&
			    !body_add_out(body, PORT_SLOT, step->live_out[k], step->body->outs[i].value))
				l->failed = true;
	size_t slots = body->out_count;
	for (size_t i = 0; i < kept->count; i++) {
		uint32_t value = kept->items[i];
		if (body->values[value].from != FROM_INSTR)
			continue;
		bool out = false;
		for (size_t k = 0; k < slots; k++)
			out |= body->outs[k].value == value;
		if ((!out && !body_add_out(body, PORT_RESIDUAL, (uint32_t)i, value)) ||
		    !body_add_out(only, PORT_RESIDUAL, (uint32_t)i, value))
			l->failed = true;
	}
	l->out->record = body;
	l->out->record_only = only;
}

static enum status copy_body(struct linearizer *l)
{
	const struct body *from = l->step->body;
	struct body *body = arena_alloc(l->arena, sizeof *body);
	if (!body)
		return diag_memory(l->diags);
	*body = *from;
	size_t keeps = 0;
	for (size_t i = 0; i < from->instr_count; i++)
		keeps += MAX_KEEPS * (op_table[from->instrs[i].op].keeps[0].kind != KEEP_NOTHING);
	body->value_capacity = from->value_count + keeps + 1;
	body->instr_capacity = from->instr_count + 1;
	body->values = arena_array(l->arena, body->value_capacity, sizeof *body->values);
	body->instrs = arena_array(l->arena, body->instr_capacity, sizeof *body->instrs);
	if (!body->values || !body->instrs)
		return diag_memory(l->diags);
	if (from->value_count)
		memcpy(body->values, from->values, from->value_count * sizeof *body->values);
	if (from->instr_count)
		memcpy(body->instrs, from->instrs, from->instr_count * sizeof *body->instrs);
	body->arena = l->arena;
	l->body = body;
	l->stamp_size = body->value_capacity;
	l->cot = arena_array(l->arena, l->stamp_size, sizeof *l->cot);
	l->stamp = arena_array(l->arena, l->stamp_size, sizeof *l->stamp);
	l->map = arena_array(l->arena, l->stamp_size, sizeof *l->map);
	l->cotangent = arena_array(l->arena, l->stamp_size, sizeof *l->cotangent);
	l->keep = arena_array(l->arena, body->instr_capacity, sizeof *l->keep);
	l->back = arena_alloc(l->arena, sizeof *l->back);
	if (!l->cot || !l->stamp || !l->map || !l->cotangent || !l->keep || !l->back)
		return diag_memory(l->diags);
	memset(l->map, 0xff, l->stamp_size * sizeof *l->map);
	memset(l->cotangent, 0xff, l->stamp_size * sizeof *l->cotangent);
	body_init(l->back, l->arena);
	return l->back->regions ? STATUS_OK : diag_memory(l->diags);
}

enum status linearise(const struct context *context, struct linear *linear, const struct step *step,
                      const struct chain *chain, const struct policy *policy)
{
	memset(linear, 0, sizeof *linear);
	linear->step = step;
	struct linearizer l = {.out = linear,
	                       .step = step,
	                       .chain = chain,
	                       .policy = policy,
	                       .arena = context->arena,
	                       .diags = context->diags};
	enum status status = copy_body(&l);
	if (status == STATUS_OK)
		status = init_regions(&l);
	if (status)
		return status;
	mark_cotangents(&l);
	add_keeps(&l);
	if (!l.failed)
		plan_regions(&l);
	if (!l.failed)
		add_residuals(&l);
	if (!l.failed)
		add_seeds(&l);
	if (!l.failed)
		region_back(&l, 0);
	if (!l.failed)
		add_results(&l);
	if (!l.failed)
		finish_record(&l);
	if (!l.failed)
		note_uses(&l);
	linear->backward = l.back;
	return l.failed || l.arena->failed ? diag_memory(l.diags) : STATUS_OK;
}
