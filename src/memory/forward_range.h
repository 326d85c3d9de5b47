/*
 * The time and bytes of advancing over a range of unlike steps, in logarithmic time. So a schedule that
 * advances n times over a chain of n steps is walked in n log n steps, not in n * n.
 */
#ifndef MEMORY_FORWARD_RANGE_H
#define MEMORY_FORWARD_RANGE_H

#include "base/alloc.h"
#include "schedule/step_costs.h"

struct forward_range {
	double time;  /* of all steps */
	int64_t need; /* the most bytes that one step takes: the states on both sides and its workspace */
};

/* A segment tree over blocks of runs. */
struct forward_tree {
	const struct step_costs *costs;
	const int64_t *starts;       /* the first step of each run; one more at the end */
	struct forward_range *nodes; /* 2 * blocks: node i covers nodes 2 i and 2 i + 1, node blocks + k block k */
	size_t blocks;
	const struct allocator *allocator;
};

/* COSTS and STARTS must outlive the tree. False if out of memory. */
bool forward_tree_make(struct forward_tree *tree, const struct step_costs *costs, const int64_t *starts,
                       const struct allocator *allocator);
void forward_tree_free(struct forward_tree *tree);
/* Returns the run of STEP. */
size_t forward_tree_run(const struct forward_tree *tree, int64_t step);
/* Returns what steps BEGIN .. END-1, at least one, take. */
struct forward_range forward_tree_range(const struct forward_tree *tree, int64_t begin, int64_t end);

#endif
