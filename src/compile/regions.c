/*
 * Checkpoint regions: which values each keeps for its backward pass, and which it recomputes.
 *
 * A region's backward pass needs the values that the derivatives of its own operations read, and those that its inner
 * regions keep. Without a policy the whole body keeps all of them, and so does a block whose policy cuts it into segments,
 * which are regions in it.
 *
 * Otherwise a walk goes from a region's needs back through the operations. The region keeps the first values on the way that come from outside it or that its policy, or
 * one around it, saves. It recomputes the values that the walk passes. So it keeps what jax.checkpoint keeps, whose
 * partial evaluation removes dead code. What is made before the place of a gradient comes from outside all regions.
 * Tests: tests/unit/test_residuals.c, tests/unit/test_survey.c
 */
#include "compile/lineariser.h"

static void push(struct lineariser *l, struct value_list *list, uint32_t value)
{
	uint32_t *item = arena_append(&l->scratch, &list->items, &list->count, &list->capacity, sizeof *item);
	if (item)
		*item = value;
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

/*
 * True if INSTR ends a loop, or makes the solution that one has found: no policy runs the loop again. Likewise if it comes
 * before the place of the gradient.
 */
static bool is_never_rerun(const struct lineariser *l, const struct instr *instr)
{
	return instr - l->body->instrs < l->given || instr->kind == INSTR_END ||
	       (instr->kind == INSTR_OP && instr->op == OP_SOLUTION);
}

static bool policy_allows(const struct lineariser *l, const struct policy *policy, uint32_t value)
{
	const struct value *v = &l->body->values[value];
	const struct instr *instr = &l->body->instrs[v->instr];
	if (!policy)
		return is_never_rerun(l, instr);
	const bool dot = instr->out == value && op_is_dot(instr->op);
	struct policy_value seen = {.op = linear_maker(l->body, value),
	                            .dot = dot,
	                            .batch = dot && has_batch_axis(&instr->of.v->shape, &instr->of.a->shape)};
	bool saves = is_never_rerun(l, instr) || (!v->names && policy_saves(policy, &seen));
	for (const struct naming *n = v->names; n && !saves; n = n->next) {
		seen.name = n->name;
		seen.index = n->index;
		saves = policy_saves(policy, &seen);
	}
	return saves;
}

/*
 * True if VALUE, made in REGION or deeper, exists when REGION's backward pass begins: the
 * policy of REGION or of a region around it saves it. An outer policy counts for everything inside, as in JAX. The
 * policies of regions inside REGION count only in the plans of those, which REGION recomputes first.
 */
static bool is_saved(const struct lineariser *l, uint32_t region, uint32_t value)
{
	for (uint32_t r = l->regions[region].saver;; r = l->regions[region_at(l, r)->parent].saver) {
		if (policy_allows(l, r ? region_at(l, r)->policy : l->policy, value))
			return true;
		if (r == 0)
			return false;
	}
}

static void need_value(struct lineariser *l, struct value_list *list, uint32_t value)
{
	if (value != NO_VALUE && l->body->values[value].from != FROM_PARAM && add_to_set(l, value))
		push(l, list, value);
}

/* Lists in NEEDS, which is empty, the values but params that region ID's backward pass needs. The set has them too. */
static void collect_needs(struct lineariser *l, uint32_t id, struct value_list *needs)
{
	begin_set(l);
	for (uint32_t i = region_at(l, id)->first; i < region_at(l, id)->end; i++) {
		const uint32_t inner = inner_region(l, id, i);
		if (inner != id) {
			const struct value_list *kept = &l->regions[inner].kept;
			for (size_t k = 0; k < kept->count; k++)
				need_value(l, needs, kept->items[k]);
			i = region_at(l, inner)->end - 1;
			continue;
		}
		const struct instr *instr = &l->body->instrs[i];
		const unsigned reads = needs_of(l, instr);
		for (uint32_t k = 0; k < instr_value_count(instr); k++)
			need_value(l, needs, needs_value(l, instr, k) ? instr_value(instr, k) : NO_VALUE);
		need_value(l, needs, reads & NEED_Y ? instr->out : NO_VALUE);
		for (int k = 0; k < MAX_KEEPS; k++)
			need_value(l, needs, instr->out_keep[k]);
	}
}

/* True if POLICY, of a block, cuts it. */
static bool cuts(const struct policy *policy) { return policy && policy_cuts(policy); }

void regions_plan(struct lineariser *l)
{
	for (uint32_t id = 1; id < l->body->region_count; id++) {
		const struct region *region = region_at(l, id);
		const bool saves = region->policy && !cuts(region->policy);
		l->regions[id].saver = saves ? id : l->regions[region->parent].saver;
	}
	/* A region has a lower number than the regions inside it. */
	for (uint32_t id = (uint32_t)l->body->region_count; id-- > 0;) {
		struct region_plan *plan = &l->regions[id];
		const struct region *region = region_at(l, id);
		struct value_list needs = {0};
		collect_needs(l, id, &needs);
		if (id == 0 ? !l->policy : cuts(region->policy)) {
			plan->kept = needs;
			continue;
		}
		/* From here on the needs are a stack, and the set has every value that was ever on it. */
		while (needs.count && !l->scratch.failed) {
			const uint32_t value = needs.items[--needs.count];
			const struct value *v = &l->body->values[value];
			const bool inside = v->from == FROM_INSTR && v->instr >= region->first && v->instr < region->end;
			const bool kept = !inside || is_saved(l, id, value);
			push(l, kept ? &plan->kept : &plan->again, value);
			if (kept)
				continue;
			const struct instr *instr = &l->body->instrs[v->instr];
			for (uint32_t k = 0; k < instr_value_count(instr); k++)
				need_value(l, &needs, instr_value(instr, k));
		}
	}
}
