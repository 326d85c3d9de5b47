/*
 * The costs of a compiled chain's steps, as policies, searches and the cost walk see them:
 * times in the operations' costs, bytes as the slab has them.
 */
#include "base/checked.h"
#include "compile/compiled.h"

/* The bytes of an array in the slab, as the machine counts them. */
static int64_t slab_bytes(const struct type *type) { return round_up(type_bytes(type), ARRAY_ALIGN); }

/* Bytes of the state before STEP, each class once. */
static int64_t bytes_before(const struct step *step)
{
	int64_t bytes = 0;
	for (uint32_t i = 0; i < step->live_in.count; i++)
		if (!step->alias_in[i])
			bytes += slab_bytes(step->in_types[i]);
	return bytes;
}

static struct step_cost cost_of_step(const struct compiled_step *compiled)
{
	const struct linear *linear = &compiled->linear;
	const struct body *record = linear->record;
	struct step_cost cost = {.forward = linear->forward_cost,
	                         .backward = linear->backward_cost + linear->recompute_cost,
	                         .state = bytes_before(linear->step),
	                         .forward_temporary = compiled->forward.workspace,
	                         .record_temporary = compiled->record.workspace,
	                         .backward_temporary = compiled->backward.workspace};
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct residual *residual = &linear->residuals[i];
		/* Outs of slots come first. */
		for (size_t k = 0; k < record->out_count && record->outs[k].kind == PORT_SLOT; k++)
			cost.keeps_output |= record->outs[k].value == residual->value;
		if (residual->slot == NO_VALUE)
			cost.residual += slab_bytes(residual->type);
		else
			cost.keeps_input = true;
	}
	return cost;
}

struct run_list {
	const struct compiled_chain *compiled;
	struct arena *arena;
	struct step_run *runs;
	size_t count, capacity;
	uint32_t last; /* id of the last run's step */
};

/* Adds the step of ID, TIMES in a row. */
static bool append_run(struct run_list *list, uint32_t id, int64_t times)
{
	if (list->count && list->last == id) {
		list->runs[list->count - 1].count += times;
		return true;
	}
	struct step_run *grown = arena_grow(list->arena, list->runs, list->count, &list->capacity, sizeof *grown);
	if (!grown)
		return false;
	list->runs = grown;
	grown[list->count++] = (struct step_run){cost_of_step(&list->compiled->steps[id]), times};
	list->last = id;
	return true;
}

static bool add_in_order(struct run_list *list, const struct item *items, size_t count)
{
	bool good = true;
	for (size_t i = 0; i < count && good; i++) {
		const struct item *item = &items[i];
		if (item->step)
			good = append_run(list, item->step->id, 1);
		else if (item->count == 1 && item->items[0].step)
			good = append_run(list, item->items[0].step->id, item->iterations);
		else
			for (int64_t iteration = 0; iteration < item->iterations && good; iteration++)
				good = add_in_order(list, item->items, item->count);
	}
	return good;
}

/* Adds to COUNTS, by step id, how often ITEMS run it in so many iterations. */
static void count_steps(const struct item *items, size_t count, int64_t iterations, int64_t *counts)
{
	for (size_t i = 0; i < count; i++)
		if (items[i].step)
			counts[items[i].step->id] += iterations;
		else
			count_steps(items[i].items, items[i].count, iterations * items[i].iterations, counts);
}

/* One run for each distinct step, however long a loop is. */
static bool add_once_each(struct run_list *list)
{
	const struct lowered *lowered = list->compiled->lowered;
	int64_t *counts = arena_array(list->arena, lowered->distinct_count + 1, sizeof *counts);
	list->runs = arena_array(list->arena, lowered->distinct_count + 1, sizeof *list->runs);
	if (!counts || !list->runs)
		return false;
	count_steps(lowered->items, lowered->item_count, 1, counts);
	for (size_t i = 0; i < lowered->distinct_count; i++)
		list->runs[list->count++] = (struct step_run){cost_of_step(&list->compiled->steps[i]), counts[i]};
	return true;
}

enum status compiled_costs(const struct context *context, const struct compiled_chain *compiled, bool in_order,
                           int64_t fixed, struct step_costs *costs)
{
	const struct lowered *lowered = compiled->lowered;
	struct run_list list = {.compiled = compiled, .arena = context->arena};
	if (in_order ? !add_in_order(&list, lowered->items, lowered->item_count) : !add_once_each(&list))
		return diag_memory(context->diags);
	*costs = (struct step_costs){
		.runs = list.runs, .run_count = list.count, .fixed = fixed, .output = slab_bytes(&lowered->output)};
	for (size_t i = 0; i < list.count; i++)
		costs->steps += list.runs[i].count;
	return STATUS_OK;
}
