/*
 * Surveys policies by value (survey.h). The values that cotangents reach, and those that instructions may keep, do not
 * depend on the policy, so a survey finds them once. For a policy it then walks through the needs of regions (regions.c).
 * It walks through the recording body too: that has the instructions that run although nobody reads the output.
 * Tests: tests/unit/test_survey.c
 */
#include "compile/survey.h"

#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/pool.h"
#include "compile/lineariser.h"
#include "ops/general.h"

struct survey {
	struct context context;
	struct arena arena;
	struct lineariser lineariser; /* its scratch arena has what does not depend on a policy */
	struct linear linear;
	double *costs;     /* by instruction */
	uint64_t *counted; /* by instruction: the last region, by a number of its own, that recomputes it */
	uint64_t regions;  /* the last such number */
	double forward_cost;
};

enum status survey_begin(const struct context *context, struct survey **survey, const struct step *step)
{
	struct survey *s = *survey = arena_alloc(context->arena, sizeof *s);
	TRY_ALLOC(s, context->diags);
	s->context = *context;
	arena_init(&s->arena, context->allocator);
	struct lineariser *l = &s->lineariser;
	*l = (struct lineariser){.arena = &s->arena, .out = &s->linear, .step = step};
	arena_init(&l->scratch, context->allocator);
	const size_t count = step->body->instr_count;
	s->costs = arena_array(&s->arena, count + 1, sizeof *s->costs);
	s->counted = arena_array(&s->arena, count + 1, sizeof *s->counted);
	if (!lineariser_begin(l) || s->arena.failed) {
		survey_end(s);
		return lineariser_refuse(l, context->diags);
	}
	for (size_t i = 0; i < count; i++) {
		const struct instr *instr = &step->body->instrs[i];
		if (instr->kind == INSTR_OP)
			s->costs[i] = op_cost(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y);
		s->forward_cost += s->costs[i];
	}
	return STATUS_OK;
}

void survey_end(struct survey *s)
{
	arena_free(&s->lineariser.scratch);
	arena_free(&s->arena);
}

/* Adds to MARK that region ID keeps VALUE, or recomputes it. The order does not count. */
static void add_mark(uint64_t mark[2], uint32_t id, uint32_t value, bool kept)
{
	uint64_t word = ((uint64_t)id << 33 | (uint64_t)value << 1 | kept) * HASH_GOLDEN;
	word = (word ^ word >> 32) * HASH_GOLDEN;
	mark[0] += word ^ word >> 29;
	word = (word ^ word >> 31) * HASH_GOLDEN;
	mark[1] += word ^ word >> 32;
}

/* Counts in FIGURES what region ID keeps and recomputes. */
static void count_region(struct survey *s, const struct lineariser *l, uint32_t id, struct survey_figures *figures)
{
	const struct region_plan *plan = &l->regions[id];
	s->regions++;
	for (size_t i = 0; i < plan->kept.count; i++) {
		const struct value *value = &l->body->values[plan->kept.items[i]];
		add_mark(figures->mark, id, plan->kept.items[i], true);
		if (id == 0 && value->from == FROM_INSTR)
			figures->kept_bytes = saturated_add(figures->kept_bytes, round_up(type_bytes(value->type), ARRAY_ALIGN));
	}
	for (size_t i = 0; i < plan->again.count; i++) {
		const uint32_t instr = l->body->values[plan->again.items[i]].instr;
		add_mark(figures->mark, id, plan->again.items[i], false);
		l->again[instr] = true;
		figures->recompute_cost += s->counted[instr] != s->regions ? s->costs[instr] : 0;
		s->counted[instr] = s->regions;
	}
}

/* Counts in FIGURES what is computed in the first sweep if nobody reads the output. */
static void count_first_sweep(const struct survey *s, struct lineariser *l, struct survey_figures *figures)
{
	struct body only = *l->body;
	const struct value_list *kept = &l->regions[0].kept;
	only.arena = &l->scratch;
	only.outs = NULL;
	only.out_count = only.out_capacity = 0;
	for (size_t i = 0; i < kept->count; i++)
		if (only.values[kept->items[i]].from == FROM_INSTR)
			(void)body_add_out(&only, PORT_RESIDUAL, (uint32_t)i, kept->items[i]);
	const bool *live = body_find_live(&only, &l->scratch);
	const uint32_t last = only.instr_count ? only.instrs[only.instr_count - 1].step : 0;
	for (size_t i = 0; i < only.instr_count && live; i++) {
		figures->record_cost += live[i] ? s->costs[i] : 0;
		figures->once_cost += only.instrs[i].step != last || live[i] || l->again[i] ? s->costs[i] : 0;
	}
}

/* Plans the regions of S under POLICY in *L, whose lists are in a scratch arena of its own. The caller frees that. */
static void plan_regions(struct survey *s, const struct policy *policy, struct lineariser *l)
{
	const struct body *body = s->lineariser.body;
	*l = s->lineariser;
	l->policy = policy;
	arena_init(&l->scratch, s->context.allocator);
	memset(l->regions, 0, body->region_count * sizeof *l->regions);
	memset(l->again, 0, body->instr_count * sizeof *l->again);
	regions_plan(l);
	s->lineariser.epoch = l->epoch;
}

enum status survey_policy(struct survey *s, const struct policy *policy, struct survey_figures *figures)
{
	struct lineariser l;
	*figures = (struct survey_figures){.forward_cost = s->forward_cost};
	plan_regions(s, policy, &l);
	for (uint32_t id = 0; id < l.body->region_count && !l.scratch.failed; id++)
		count_region(s, &l, id, figures);
	count_first_sweep(s, &l, figures);
	const bool failed = l.scratch.failed;
	arena_free(&l.scratch);
	TRY_ALLOC(!failed, s->context.diags);
	return STATUS_OK;
}

/* Sets the bool that each name of a value of LIST has in INDEX. */
static void mark_names(const struct lineariser *l, const struct value_list *list, const struct dictionary *index)
{
	for (size_t i = 0; i < list->count; i++)
		for (const struct naming *n = l->body->values[list->items[i]].names; n; n = n->next) {
			bool *relevant = dictionary_find(index, n->name);
			if (relevant)
				*relevant = true;
		}
}

enum status survey_names(struct survey *s, const char *const *names, size_t count, bool *relevant)
{
	static const struct policy nothing = {.kind = POLICY_nothing};
	struct lineariser l;
	struct dictionary index = {0};
	plan_regions(s, &nothing, &l);
	for (size_t i = 0; i < count && !l.scratch.failed; i++)
		(void)dictionary_put(&index, &l.scratch, names[i], &relevant[i]);
	for (uint32_t id = 0; id < l.body->region_count && !l.scratch.failed; id++) {
		mark_names(&l, &l.regions[id].kept, &index);
		mark_names(&l, &l.regions[id].again, &index);
	}
	const bool failed = l.scratch.failed;
	arena_free(&l.scratch);
	TRY_ALLOC(!failed, s->context.diags);
	return STATUS_OK;
}

bool survey_is_whole(const struct instr *instr)
{
	return instr_use(instr) || (op_table[instr->op].class == OP_CLASS_GENERAL && !op_only_reshapes(instr->op) &&
	                            !op_gather_get(instr->op, instr->attrs));
}

int64_t survey_bytes_between(const struct type *type, bool whole)
{
	enum { REGISTER = 256 }; /* the least elements of a block: LEAST_BLOCK in fuse.c */
	const struct type part = {.dtype = type->dtype,
	                          .shape = {.ndim = 1, .dim = {lesser(shape_count(&type->shape), REGISTER)}}};
	return type_bytes(whole ? type : &part);
}

/*
 * Adds VALUE, unless it is NO_VALUE or was added, to *BYTES. Updates *LARGEST. A value that is made before instruction WHOLE
 * is an array.
 */
static void add_between(struct lineariser *l, uint32_t value, size_t whole, int64_t *bytes, int64_t *largest)
{
	const struct value *v = value == NO_VALUE ? NULL : &l->body->values[value];
	const struct instr *maker = v && v->from == FROM_INSTR ? &l->body->instrs[v->instr] : NULL;
	if (!maker || maker->kind != INSTR_OP || maker->level >= 0 || op_only_reshapes(maker->op) || !add_to_set(l, value))
		return;
	const int64_t own = survey_bytes_between(v->type, v->instr < whole);
	*bytes = saturated_add(*bytes, own);
	*largest = greater(*largest, own);
}

int64_t survey_between(struct survey *s)
{
	struct lineariser *l = &s->lineariser;
	const struct instr *instrs = l->body->instrs;
	int64_t bytes = 0, largest = 0;
	size_t last = l->body->instr_count; /* the number of instructions up to the last with such a launch, or 0 */
	while (last > 0 && !(derivatives_of(l, &instrs[last - 1]) && survey_is_whole(&instrs[last - 1])))
		last--;
	const size_t whole = last > 0 ? last - 1 : 0;
	begin_set(l);
	for (size_t i = 0; i < l->body->instr_count; i++) {
		const struct instr *instr = &instrs[i];
		if (instr->region != 0)
			continue;
		for (uint32_t k = 0; k < instr_value_count(instr); k++)
			add_between(l, needs_value(l, instr, k) ? instr_value(instr, k) : NO_VALUE, whole, &bytes, &largest);
		add_between(l, needs_of(l, instr) & NEED_Y ? instr->out : NO_VALUE, whole, &bytes, &largest);
		for (int k = 0; k < MAX_KEEPS; k++)
			add_between(l, instr->out_keep[k], whole, &bytes, &largest);
	}
	return greater(bytes - SURVEY_UNPLACED * largest, 0);
}
