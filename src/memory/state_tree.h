/*
 * States as trees: from slots to the buffers that they hold. The current state and the states in memory slots share the
 * parts in which they are equal. So saving or loading a state of thousands of slots takes no longer than a step.
 *
 * Invariant: a tree counts the holders of its root, and each part those that lead to it. A leaf is one holder of each
 * buffer in it. So a buffer of a tree has one holder alone if its count is 1 and the way to it is not shared.
 */
#ifndef MEMORY_STATE_TREE_H
#define MEMORY_STATE_TREE_H

#include "memory/buffers.h"

enum { TREE_BITS = 4, TREE_PARTS = 1 << TREE_BITS };
enum { NO_TREE = -1 };
enum { NO_MORE_SLOTS = UINT32_MAX };

struct tree_node {
	int32_t holds;             /* number of its holders */
	uint16_t used;             /* number of its parts */
	bool seen;                 /* scratch of held.c */
	int32_t parts[TREE_PARTS]; /* in a leaf buffers, else nodes; NO_BUFFER or NO_TREE: none */
};

struct state_trees {
	struct buffers *buffers;
	struct tree_node *nodes;
	size_t count, capacity;
	int32_t free; /* the first freed node, or NO_TREE; `parts[0]` is the next */
	int top;      /* bits of a slot below those that choose a part of the root */
};

/* A state: a tree, or NO_TREE if no slot holds a buffer. */
struct state_tree {
	int32_t root;
	size_t count; /* number of slots that hold a buffer */
};

/* Initialises TREES for slots below SLOTS, which hold BUFFERS. */
void trees_init(struct state_trees *trees, struct buffers *buffers, size_t slots);
void trees_free(struct state_trees *trees);
/* Returns the buffer of SLOT, or NO_BUFFER. Sets *SHARED, which may be NULL, if other trees hold the buffer here too. */
static inline int32_t tree_get(const struct state_trees *trees, struct state_tree tree, uint32_t slot, bool *shared)
{
	int32_t at = tree.root;
	bool is_shared = false;
	for (int shift = trees->top; shift >= 0 && at != NO_TREE; shift -= TREE_BITS) {
		is_shared |= trees->nodes[at].holds > 1;
		at = trees->nodes[at].parts[slot >> shift & (TREE_PARTS - 1)];
	}
	if (shared)
		*shared = is_shared;
	return at;
}
/* Makes SLOT of *TREE hold ID, which may be NO_BUFFER, and releases what it held. Returns false if out of memory. */
bool tree_set(struct state_trees *trees, struct state_tree *tree, uint32_t slot, int32_t id);
/* Returns TREE with one more holder. */
struct state_tree tree_hold(struct state_trees *trees, struct state_tree tree);
/* Removes one holder of *TREE, which becomes empty. Returns false if out of memory. */
bool tree_release(struct state_trees *trees, struct state_tree *tree);
/* Returns the first slot from SLOT on that holds a buffer; NO_MORE_SLOTS if none does. */
uint32_t tree_next(const struct state_trees *trees, struct state_tree tree, uint32_t slot);

#endif
