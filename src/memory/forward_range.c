/* A segment tree of sums of times and maxima of bytes. Its leaves are blocks of runs: it is smaller than the costs. */
#include "memory/forward_range.h"

enum { BLOCK = 32 };

static struct forward_range join(struct forward_range a, struct forward_range b)
{
	return (struct forward_range){a.time + b.time, a.need > b.need ? a.need : b.need};
}

/* Steps BEGIN .. END-1 of RUN. The last step of a run has the next run's state behind it. */
static struct forward_range part_of_run(const struct forward_tree *tree, size_t run, int64_t begin, int64_t end)
{
	const struct step_costs *costs = tree->costs;
	const struct step_cost *cost = &costs->runs[run].cost;
	const int64_t next = run + 1 < costs->run_count ? costs->runs[run + 1].cost.state : costs->output;
	const bool whole = end == tree->starts[run + 1];
	struct forward_range range = {.time = (double)(end - begin) * cost->forward};
	if (end - begin > whole)
		range.need = cost->state + cost->state + cost->forward_temporary;
	if (whole && cost->state + next + cost->forward_temporary > range.need)
		range.need = cost->state + next + cost->forward_temporary;
	return range;
}

/* Whole runs FIRST .. LAST-1, one by one. */
static struct forward_range whole_runs(const struct forward_tree *tree, size_t first, size_t last)
{
	struct forward_range range = {0};
	for (size_t run = first; run < last; run++)
		range = join(range, part_of_run(tree, run, tree->starts[run], tree->starts[run + 1]));
	return range;
}

bool forward_tree_make(struct forward_tree *tree, const struct step_costs *costs, const int64_t *starts,
                       const struct allocator *allocator)
{
	const size_t runs = costs->run_count;
	*tree = (struct forward_tree){
		.costs = costs, .starts = starts, .blocks = (runs + BLOCK - 1) / BLOCK, .allocator = allocator};
	tree->nodes = allocator_get(allocator, 2 * tree->blocks + 1, sizeof *tree->nodes);
	if (!tree->nodes)
		return false;
	for (size_t k = 0; k < tree->blocks; k++)
		tree->nodes[tree->blocks + k] = whole_runs(tree, k * BLOCK, (k + 1) * BLOCK < runs ? (k + 1) * BLOCK : runs);
	for (size_t i = tree->blocks; i-- > 1;)
		tree->nodes[i] = join(tree->nodes[2 * i], tree->nodes[2 * i + 1]);
	return true;
}

void forward_tree_free(struct forward_tree *tree)
{
	if (tree->nodes)
		allocator_put(tree->allocator, tree->nodes, (2 * tree->blocks + 1) * sizeof *tree->nodes);
	tree->nodes = NULL;
}

size_t forward_tree_run(const struct forward_tree *tree, int64_t step)
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
static struct forward_range whole_blocks(const struct forward_tree *tree, size_t first, size_t last)
{
	struct forward_range range = {0};
	for (first += tree->blocks, last += tree->blocks; first < last; first /= 2, last /= 2) {
		if (first % 2)
			range = join(range, tree->nodes[first++]);
		if (last % 2)
			range = join(range, tree->nodes[--last]);
	}
	return range;
}

struct forward_range forward_tree_range(const struct forward_tree *tree, int64_t begin, int64_t end)
{
	const size_t first = forward_tree_run(tree, begin), last = forward_tree_run(tree, end - 1);
	if (first == last)
		return part_of_run(tree, first, begin, end);
	struct forward_range range = join(part_of_run(tree, first, begin, tree->starts[first + 1]),
	                                  part_of_run(tree, last, tree->starts[last], end));
	const size_t low = first / BLOCK + 1, high = last / BLOCK; /* the blocks between */
	if (low >= high)
		return join(range, whole_runs(tree, first + 1, last));
	range = join(range, whole_runs(tree, first + 1, low * BLOCK));
	range = join(range, whole_runs(tree, high * BLOCK, last));
	return join(range, whole_blocks(tree, low, high));
}
