/*
 * Lists policies by value, with what surveys (compile/survey.h) say of them:
 *
 *   - sets of names: none, all, each alone, all but each; then all but the names that cost the least for their bytes; then
 *     every set. Names that no policy by value looks at are in no set;
 *   - with each set, what is kept beside it (`bases`): nothing, dots, or every value without a name.
 *
 * P+Q of the table makes no others. Of policies that do the same only the first is listed.
 * Tests: tests/cases/plan.test
 */
#include "plan/policy_choices.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/hash.h"
#include "ops/op.h"

enum { ALL_SETS = 14 }; /* names, at most, of which every set is listed if the work allows that: 30 MB at most */

/* What a policy keeps beside values with names. UNNAMED is all-but with all names of the chain. */
static const struct {
	bool unnamed, dots;
	enum policy_kind kind;
} bases[] = {{false, false, POLICY_nothing}, {false, true, POLICY_dots}, {false, true, POLICY_dots_no_batch},
             {true, false, POLICY_nothing},  {true, true, POLICY_dots},  {true, true, POLICY_dots_no_batch}};
enum { BASES = sizeof bases / sizeof *bases };

/* A list that is being filled. */
struct filling {
	struct policy_choices *list;
	struct survey *survey;
	struct byte_set known; /* marks of the listed policies */
	double work;           /* additions that surveys may still take */
};

/* True if the backward pass of LINEAR's step has a launch that works on whole arrays. */
static bool has_whole_launch(const struct linear *linear)
{
	for (size_t i = 0; i < linear->backward->instr_count; i++)
		if (linear->backward->instrs[i].kind == INSTR_VJP && survey_is_whole(&linear->backward->instrs[i]))
			return true;
	return false;
}

/*
 * Adds to FLOOR what STEP's derivatives read of what STEP makes, TIMES times. A policy by value keeps these values, or
 * recomputes all of them before the first derivative. Steps with checkpoint blocks or loops do not count, nor do aliases of
 * other arrays.
 */
static void add_to_floor(struct floor *floor, const struct compiled_chain *compiled, const struct step *step,
                         double times)
{
	const struct linear *linear = &compiled_step_of(compiled, step)->linear;
	const struct body *body = step->body, *record = linear->record;
	double bytes = 0;
	for (size_t i = 0; i < linear->residual_count && body->region_count <= 1; i++) {
		const struct residual *residual = &linear->residuals[i];
		const struct instr *maker = residual->in_state ? NULL : &record->instrs[record->values[residual->value].instr];
		if (!maker || maker->kind != INSTR_OP || maker->level >= 0 || op_only_reshapes(maker->op))
			continue;
		const int64_t between = survey_bytes_between(residual->type, floor->whole);
		bytes += (double)between;
		floor->largest = greater(floor->largest, between);
	}
	const double sum = (double)floor->bytes + bytes * times;
	floor->bytes = sum < 4e18 ? (int64_t)sum : floor->bytes;
	floor->instrs += times * (double)body->instr_count;
	for (size_t k = 0; k < body->instr_count && !floor->dots; k++)
		floor->dots = op_is_dot(body->instrs[k].op);
	floor->whole = floor->whole || has_whole_launch(linear);
}

/*
 * Adds ITEMS of COMPILED to FLOOR from the last to the first, each TIMES times. UNLIKE: the first time may be unlike the
 * others, since none of the later ones works on whole arrays.
 */
static void measure_items(struct floor *floor, const struct compiled_chain *compiled, const struct item *items,
                          size_t count, double times, bool unlike)
{
	for (const struct item *item = items + count; item-- > items;) {
		double left = times * (item->step ? 1 : (double)item->iterations);
		if (item->step) {
			add_to_floor(floor, compiled, item->step, left);
			continue;
		}
		if (unlike && !floor->whole && left > 0) {
			measure_items(floor, compiled, item->items, item->count, 1, true);
			left--;
		}
		measure_items(floor, compiled, item->items, item->count, left, false);
	}
}

void policy_choices_begin(struct policy_choices *list, const struct context *context, const struct job *base)
{
	struct job alone = *base;
	const int64_t workers = alone.tiles.workers;
	int64_t worker, all;
	*list = (struct policy_choices){.context = context, .base = base};
	struct floor *floor = &list->floor;
	measure_items(floor, &base->tile.compiled, base->tile.lowered.items, base->tile.lowered.item_count, 1, true);
	floor->bytes = greater(floor->bytes - SURVEY_UNPLACED * floor->largest, 0);
	alone.team = 1; /* a region may need less workspace, and no wave */
	job_fixed_bytes(&alone, &worker, &all);
	list->beside = saturated_add(all, workers * (worker - job_wave_bytes(&alone)));
}

int64_t policy_choices_least(const struct policy_choices *list, int64_t bytes)
{
	const int64_t workers = list->base->tiles.workers - job_rest_alone(list->base);
	return saturated_add(list->beside, bytes < INT64_MAX / workers ? workers * bytes : INT64_MAX);
}

/*
 * The sets of NAMES names by their number: plain ones, which have no name, all, one, or all but one; then those that lack
 * the first names, from two on; then every set, as a mask.
 */
static size_t count_plain_sets(size_t names) { return names ? 2 + 2 * names : 1; }
static size_t count_tails(size_t names) { return names > 3 ? names - 3 : 0; }
static size_t count_masks(size_t names) { return names <= ALL_SETS ? (size_t)1 << names : 0; }

/* True if set NUMBER of NAMES names has name I. */
static bool set_has(size_t number, size_t names, size_t i)
{
	const size_t plain = count_plain_sets(names), tails = count_tails(names);
	if (number < 2)
		return number == 1;
	if (number < plain)
		return ((number - 2) / 2 == i) == (number % 2 == 0);
	return number < plain + tails ? i >= number - plain + 2 : (number - plain - tails) >> i & 1;
}

/* Sets POLICY to P+Q. False if out of memory. */
static bool join_policies(struct policy *policy, const struct policy *p, const struct policy *q, struct arena *arena)
{
	struct policy *sides = arena_array(arena, 2, sizeof *sides);
	if (!sides)
		return false;
	sides[0] = *p;
	sides[1] = *q;
	*policy = (struct policy){.kind = POLICY_either, .left = &sides[0], .right = &sides[1]};
	return true;
}

/* Sets POLICY to what BASE and the names of SET keep. False if out of memory. */
static bool make_policy(const struct policy_choices *list, struct policy *policy, size_t base, const struct policy *set)
{
	const struct chain *chain = list->base->chain;
	struct arena *arena = list->context->arena;
	*policy = (struct policy){.kind = bases[base].kind};
	const struct policy unnamed = {.kind = POLICY_all_but, .names = chain->names, .name_count = chain->name_count};
	return (!bases[base].unnamed || join_policies(policy, &unnamed, policy, arena)) &&
	       (!set->name_count || join_policies(policy, policy, set, arena));
}

/* Returns what share_beside is for a policy of FIGURES. */
static double share_by_survey(const struct policy_choices *list, const struct survey_figures *figures)
{
	const bool reads = list->base->options.want_value;
	const double once = reads ? figures->forward_cost : figures->once_cost;
	const double again = figures->recompute_cost + (reads ? 0 : figures->record_cost - figures->once_cost);
	return once > 0 ? fmax(again / once, 0) : 0; /* as the machine counts */
}

/* Appends POLICY with FIGURES, unless the list has a policy that does the same. */
static enum status append_policy(struct filling *f, const struct policy *policy, const struct survey_figures *figures)
{
	struct policy_choices *list = f->list;
	size_t number;
	TRY_ALLOC(byte_set_keep(&f->known, figures->mark, sizeof figures->mark, &number), list->context->diags);
	if (number < list->count)
		return STATUS_OK;
	struct policy_choice *plan =
		arena_append(list->context->arena, &list->plans, &list->count, &list->capacity, sizeof *plan);
	TRY_ALLOC(plan, list->context->diags);
	plan->policy = *policy;
	plan->number = number;
	plan->mark[0] = figures->mark[0];
	plan->mark[1] = figures->mark[1];
	plan->share = share_by_survey(list, figures);
	plan->least = policy_choices_least(list, greater(figures->kept_bytes, list->floor.bytes));
	return STATUS_OK;
}

static enum status survey_one(struct filling *f, const struct policy *policy, struct survey_figures *figures)
{
	f->work -= f->list->floor.instrs * (SURVEY_WORK + 5 * (double)f->list->name_count);
	return survey_policy(f->survey, policy, figures);
}

/* Lists the policies of set NUMBER. */
static enum status list_set(struct filling *f, size_t number)
{
	struct policy_choices *list = f->list;
	const bool named = list->base->chain->name_count > 0;
	const char **names = arena_array(list->context->arena, list->name_count + 1, sizeof *names);
	struct policy set = {.kind = POLICY_names, .names = names};
	TRY_ALLOC(names, list->context->diags);
	for (size_t i = 0; i < list->name_count; i++)
		if (set_has(number, list->name_count, i))
			names[set.name_count++] = list->names[i];
	for (size_t i = 0; i < BASES; i++) {
		/* Without names, UNNAMED is every value already, dots too. */
		if ((bases[i].dots && !list->floor.dots) || (bases[i].unnamed && bases[i].dots && !named))
			continue;
		struct survey_figures figures;
		struct policy policy;
		TRY_ALLOC(make_policy(list, &policy, i, &set), list->context->diags);
		TRY(survey_one(f, &policy, &figures));
		TRY(append_policy(f, &policy, &figures));
	}
	return STATUS_OK;
}

/* Sets the names that policies by value look at. */
static enum status find_names(struct policy_choices *list, struct survey *survey)
{
	const struct chain *chain = list->base->chain;
	struct arena *arena = list->context->arena;
	bool *relevant = arena_array(arena, chain->name_count + 1, sizeof *relevant);
	list->names = arena_array(arena, chain->name_count + 1, sizeof *list->names);
	TRY_ALLOC(relevant && list->names, list->context->diags);
	TRY(survey_names(survey, chain->names, chain->name_count, relevant));
	for (size_t i = 0; i < chain->name_count; i++)
		if (relevant[i])
			list->names[list->name_count++] = chain->names[i];
	return STATUS_OK;
}

/* A name, and what it costs to leave its values out, over the bytes that this saves. */
struct left_out {
	const char *name;
	double cost;
	size_t number; /* among the names */
};

static int compare_left_out(const void *left, const void *right)
{
	const struct left_out *a = left, *b = right;
	if (a->cost != b->cost)
		return a->cost < b->cost ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

/* Orders the names by what it costs to leave them out, beside every other value. ALL: every value is kept. */
static enum status order_names(struct filling *f, const struct survey_figures *all)
{
	struct policy_choices *list = f->list;
	const size_t count = list->name_count;
	struct left_out *order = arena_array(list->context->arena, count + 1, sizeof *order);
	TRY_ALLOC(order, list->context->diags);
	for (size_t i = 0; i < count && f->work > 0; i++) {
		const struct policy but = {.kind = POLICY_all_but, .names = &list->names[i], .name_count = 1};
		struct survey_figures figures;
		TRY(survey_one(f, &but, &figures));
		const double saved = (double)greater(all->kept_bytes - figures.kept_bytes, 1);
		order[i] = (struct left_out){list->names[i], (share_by_survey(list, &figures) - list->all_share) / saved, i};
	}
	if (f->work <= 0)
		return STATUS_OK;
	qsort(order, count, sizeof *order, compare_left_out);
	for (size_t i = 0; i < count; i++)
		list->names[i] = order[i].name;
	return STATUS_OK;
}

static int compare_shares(const void *left, const void *right)
{
	const struct policy_choice *a = left, *b = right;
	if (a->share != b->share)
		return a->share < b->share ? -1 : 1;
	if (a->least != b->least)
		return a->least < b->least ? -1 : 1;
	return (a->mark[0] > b->mark[0]) - (a->mark[0] < b->mark[0]);
}

static enum status fill_list(struct filling *f)
{
	struct policy_choices *list = f->list;
	struct survey_figures all;
	TRY(find_names(list, f->survey));
	TRY(survey_one(f, &policy_save_all, &all));
	list->all_share = share_by_survey(list, &all);
	TRY(order_names(f, &all));
	const size_t names = list->name_count;
	const size_t sets = count_plain_sets(names) + count_tails(names) + count_masks(names);
	size_t number = 0;
	for (; number < sets && (f->work > 0 || number == 0); number++)
		TRY(list_set(f, number));
	list->complete = number == sets && names <= ALL_SETS;
	qsort(list->plans, list->count, sizeof *list->plans, compare_shares);
	return STATUS_OK;
}

enum status policy_choices_fill(struct policy_choices *list, const struct step *step, double work)
{
	struct arena *arena = list->context->arena;
	struct filling filling = {.list = list, .known = {.kept = arena, .scratch = arena}, .work = work};
	TRY(survey_begin(list->context, &filling.survey, step));
	list->floor.bytes = greater(list->floor.bytes, survey_between(filling.survey));
	const enum status status = fill_list(&filling);
	survey_end(filling.survey);
	return status;
}
