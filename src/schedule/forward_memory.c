/*
 * A segment tree of sums of times and maxima of bytes. Its leaves are blocks of runs,
 * so that it takes less than the costs themselves.
 */
#include "schedule/forward_memory.h"

enum { BLOCK = 32 };

static struct advance join(struct advance a, struct advance b)
{
	return (struct advance){a.time + b.time, a.need > b.need ? a.need : b.need};
}

/* Steps BEGIN .. END-1 of RUN. The last step of a run has the next one's state behind it. */
static struct advance of_part(const struct advance_tree *tree, size_t run, int64_t begin, int64_t end)
{
	const struct step_costs *costs = tree->costs;
	const struct step_cost *cost = &costs->runs[run].cost;
	const int64_t next = run + 1 < costs->run_count ? costs->runs[run + 1].cost.state : costs->output;
	const bool whole = end == tree->starts[run + 1];
	struct advance a = {.time = (double)(end - begin) * cost->forward};
	if (end - begin > whole)
		a.need = cost->state + cost->state + cost->forward_temporary;
	if (whole && cost->state + next + cost->forward_temporary > a.need)
		a.need = cost->state + next + cost->forward_temporary;
	return a;
}

/* Whole runs FIRST .. LAST-1, one by one. */
static struct advance of_runs(const struct advance_tree *tree, size_t first, size_t last)
{
	struct advance a = {0};
	for (size_t run = first; run < last; run++)
		a = join(a, of_part(tree, run, tree->starts[run], tree->starts[run + 1]));
	return a;
}

bool advance_tree_make(struct advance_tree *tree, const struct step_costs *costs, const int64_t *starts,
                       const struct allocator *allocator)
{
	const size_t runs = costs->run_count;
	*tree = (struct advance_tree){
		.costs = costs, .starts = starts, .blocks = (runs + BLOCK - 1) / BLOCK, .allocator = allocator};
	tree->nodes = allocator_get(allocator, 2 * tree->blocks + 1, sizeof *tree->nodes);
	if (!tree->nodes)
		return false;
	for (size_t k = 0; k < tree->blocks; k++)
		tree->nodes[tree->blocks + k] = of_runs(tree, k * BLOCK, (k + 1) * BLOCK < runs ? (k + 1) * BLOCK : runs);
	for (size_t i = tree->blocks; i-- > 1;)
		tree->nodes[i] = join(tree->nodes[2 * i], tree->nodes[2 * i + 1]);
	return true;
}

void advance_tree_free(struct advance_tree *tree)
{
	if (tree->nodes)
		allocator_put(tree->allocator, tree->nodes, (2 * tree->blocks + 1) * sizeof *tree->nodes);
	tree->nodes = NULL;
}

size_t advance_run_of(const struct advance_tree *tree, int64_t step)
{
	size_t low = 0, high = tree->costs->run_count;
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;
		if (tree->starts[middle] <= step)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Whole blocks FIRST .. LAST-1. */
static struct advance of_blocks(const struct advance_tree *tree, size_t first, size_t last)
{
	struct advance a = {0};
	for (first += tree->blocks, last += tree->blocks; first < last; first /= 2, last /= 2) {
		if (first % 2)
			a = join(a, tree->nodes[first++]);
		if (last % 2)
			a = join(a, tree->nodes[--last]);
	}
	return a;
}

struct advance advance_over(const struct advance_tree *tree, int64_t begin, int64_t end)
{
	const size_t first = advance_run_of(tree, begin), last = advance_run_of(tree, end - 1);
	if (first == last)
		return of_part(tree, first, begin, end);
	struct advance a =
		join(of_part(tree, first, begin, tree->starts[first + 1]), of_part(tree, last, tree->starts[last], end));
	const size_t low = first / BLOCK + 1, high = last / BLOCK; /* blocks between */
	if (low >= high)
		return join(a, of_runs(tree, first + 1, last));
	a = join(a, of_runs(tree, first + 1, low * BLOCK));
	a = join(a, of_runs(tree, high * BLOCK, last));
	return join(a, of_blocks(tree, low, high));
}
