/* Finds steps of a lowered chain. Loops are walked down, never unrolled. */
#include "ir/lower.h"

/* The one of COUNT ITEMS that holds the step INDEX; NULL if none does. */
static const struct item *item_at(const struct item *items, size_t count, int64_t index)
{
	size_t i = 0;
	for (size_t end = count; end - i > 1;) {
		size_t middle = i + (end - i) / 2;
		if (items[middle].start <= index)
			i = middle;
		else
			end = middle;
	}
	return i < count && index < items[i].start + items[i].steps ? &items[i] : NULL;
}

const struct step *lowered_step(const struct lowered *lowered, int64_t index, int64_t *counters)
{
	const struct item *items = lowered->items, *item;
	size_t count = lowered->item_count;
	while ((item = item_at(items, count, index)) && !item->step) {
		int64_t per_iteration = item->steps / item->iterations;
		index -= item->start;
		if (counters)
			counters[item->level] = item->first + index / per_iteration;
		index %= per_iteration;
		count = item->count;
		items = item->items;
	}
	return item ? item->step : NULL;
}

int64_t lowered_period(const struct lowered *lowered, int64_t index, int64_t end, int64_t iterations, int64_t *until)
{
	const struct item *items = lowered->items, *item;
	size_t count = lowered->item_count;
	int64_t before = 0; /* steps before the iteration that ITEMS are of */
	while ((item = item_at(items, count, index - before)) && !item->step) {
		int64_t per_iteration = item->steps / item->iterations, stop = before + item->start + item->steps;
		*until = stop < end ? stop : end;
		if ((*until - index) / per_iteration >= iterations)
			return per_iteration;
		before = index - (index - before - item->start) % per_iteration;
		count = item->count;
		items = item->items;
	}
	return 0;
}
