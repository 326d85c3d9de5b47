/*
 * Checkpoint regions: which values each keeps for its backward pass, and which it
 * recomputes.
 *
 * A region's backward pass needs the values that the derivatives of its own operations
 * read, and those that its inner regions keep. Without a policy the whole body keeps all
 * of them. Any other region walks from its needs back through the operations. It keeps
 * the first values that come from outside the region or that its policy saves, and
 * recomputes the values that the walk passes. So it keeps what jax.checkpoint keeps,
 * whose partial evaluation removes dead code.
 */
#include "compile/lineariser.h"

static bool push(struct lineariser *l, struct value_list *list, uint32_t value)
{
	uint32_t *grown = arena_grow(l->arena, list->items, list->count, &list->capacity, sizeof *grown);
	if (!grown)
		return !(l->failed = true);
	list->items = grown;
	grown[list->count++] = value;
	return true;
}

void regions_begin(struct lineariser *l)
{
	const size_t count = l->body->region_count;
	l->regions = arena_array(l->arena, count, sizeof *l->regions);
	l->failed = !l->regions;
	for (size_t i = 1; i < count && !l->failed; i++)
		l->regions[region_at(l, (uint32_t)i)->parent].child_count++;
	for (size_t i = 0; i < count && !l->failed; i++) {
		struct region_plan *plan = &l->regions[i];
		plan->policy = i ? region_at(l, (uint32_t)i)->policy : l->policy;
		plan->children = arena_array(l->arena, plan->child_count + 1, sizeof *plan->children);
		l->failed = !plan->children;
		plan->child_count = 0;
		if (i > 0) {
			struct region_plan *parent = &l->regions[region_at(l, (uint32_t)i)->parent];
			parent->children[parent->child_count++] = (uint32_t)i;
		}
	}
}

static bool is_inside(const struct lineariser *l, uint32_t value, uint32_t region)
{
	const struct value *v = &l->body->values[value];
	const struct region *r = region_at(l, region);
	return v->from == FROM_INSTR && v->instr >= r->first && v->instr < r->end;
}

/*
 * True if V @ A is a dot_general with a batch axis in JAX: an axis before both matrices
 * whose extent is 1 in neither. JAX squeezes axes of extent 1 away.
 */
static bool has_batch_axis(const struct shape *v, const struct shape *a)
{
	for (int i = 3; i <= v->ndim && i <= a->ndim; i++)
		if (v->dim[v->ndim - i] != 1 && a->dim[a->ndim - i] != 1)
			return true;
	return false;
}

static bool policy_allows(const struct lineariser *l, const struct policy *policy, uint32_t value)
{
	if (!policy)
		return false;
	const struct value *v = &l->body->values[value];
	const struct instr *instr = &l->body->instrs[v->instr];
	const bool dot = instr->out == value && op_is_dot(instr->op);
	struct policy_value seen = {.op = linear_maker(l->body, l->keep[v->instr], value),
	                            .dot = dot,
	                            .batch = dot && has_batch_axis(&instr->of.v->shape, &instr->of.a->shape)};
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
 * True if VALUE, made in REGION or deeper, exists when REGION's backward pass begins: the
 * policy of REGION or of a region around it saves it. The policies of regions inside
 * REGION do not count here but when REGION is recomputed, as in JAX: an outer policy
 * decides first for everything inside.
 */
static bool is_saved(const struct lineariser *l, uint32_t region, uint32_t value)
{
	for (uint32_t r = region;; r = region_at(l, r)->parent) {
		if (policy_allows(l, l->regions[r].policy, value))
			return true;
		if (r == 0)
			return false;
	}
}

static void need(struct lineariser *l, struct value_list *list, uint32_t value)
{
	if (value != NO_VALUE && l->body->values[value].from != FROM_PARAM && add_to_set(l, value))
		push(l, list, value);
}

static void need_of_instr(struct lineariser *l, struct value_list *list, size_t at)
{
	const struct instr *instr = &l->body->instrs[at];
	const unsigned needs = needs_of(l, instr);
	if (needs & NEED_V)
		need(l, list, instr->v);
	if (needs & NEED_A)
		need(l, list, instr->a);
	if (needs & NEED_Y)
		need(l, list, instr->out);
	for (int k = 0; k < MAX_KEEPS; k++)
		need(l, list, l->keep[at][k]);
}

static void collect_needs(struct lineariser *l, uint32_t id)
{
	struct region_plan *plan = &l->regions[id];
	const struct region *region = region_at(l, id);
	size_t child = 0;
	begin_set(l);
	for (uint32_t i = region->first; i < region->end; i++) {
		if (child < plan->child_count && i == region_at(l, plan->children[child])->first) {
			const struct value_list *kept = &l->regions[plan->children[child]].kept;
			for (size_t k = 0; k < kept->count; k++)
				need(l, &plan->needs, kept->items[k]);
			i = region_at(l, plan->children[child++])->end - 1;
			continue;
		}
		need_of_instr(l, &plan->needs, i);
	}
}

/* Divides the needs of region ID into the values that it keeps and those that it recomputes. */
static void divide_needs(struct lineariser *l, uint32_t id)
{
	struct region_plan *plan = &l->regions[id];
	if (id == 0 && !l->policy) {
		plan->kept = plan->needs;
		return;
	}
	struct value_list stack = {0};
	begin_set(l);
	for (size_t i = 0; i < plan->needs.count; i++)
		need(l, &stack, plan->needs.items[i]);
	while (stack.count && !l->failed) {
		const uint32_t value = stack.items[--stack.count];
		if (!is_inside(l, value, id) || is_saved(l, id, value)) {
			push(l, &plan->kept, value);
			continue;
		}
		push(l, &plan->again, value);
		const struct instr *instr = &l->body->instrs[l->body->values[value].instr];
		need(l, &stack, instr->v);
		need(l, &stack, instr->a);
	}
}

void regions_plan(struct lineariser *l)
{
	/* A region has a lower number than those inside it. */
	for (size_t i = l->body->region_count; i-- > 0 && !l->failed;) {
		const struct region *region = region_at(l, (uint32_t)i);
		if (i > 0 && region->first == region->end)
			continue;
		collect_needs(l, (uint32_t)i);
		divide_needs(l, (uint32_t)i);
	}
}
