/*
 * What it takes to advance over many unlike steps at once, so that a schedule that goes
 * over a chain n times is verified in n log n steps and not in n * n.
 */
#ifndef SCHEDULE_FORWARD_MEMORY_H
#define SCHEDULE_FORWARD_MEMORY_H

#include "base/alloc.h"
#include "schedule/step_costs.h"

struct advance {
	double time;  /* of all the steps */
	int64_t need; /* bytes of the states on both sides of one of them and its workspace, the most */
};

/* A tree over blocks of runs; the blocks at its leaves. */
struct advance_tree {
	const struct step_costs *costs;
	const int64_t *starts; /* the first step of each run; one more at the end */
	struct advance *nodes; /* 2 * blocks of them; node i is of 2 i and 2 i + 1, block k is node blocks + k */
	size_t blocks;
	const struct allocator *allocator;
};

/* COSTS and STARTS must stay; false where memory is short. */
bool advance_tree_make(struct advance_tree *tree, const struct step_costs *costs, const int64_t *starts,
                       const struct allocator *allocator);
void advance_tree_free(struct advance_tree *tree);
/* The run that STEP, one of the chain's, is in. */
size_t advance_run_of(const struct advance_tree *tree, int64_t step);
/* Of the steps BEGIN .. END-1, at least one. */
struct advance advance_over(const struct advance_tree *tree, int64_t begin, int64_t end);

#endif
