/*
 * Trees of 16 parts for each node, by the bits of a slot, the highest first. A node that others hold too is copied before
 * it changes (path copying: Driscoll, Sarnak, Sleator and Tarjan, Making data structures persistent, 1989).
 * Tests: tests/unit/test_machine.c
 */
#include "memory/state_tree.h"

#include <string.h>

void trees_init(struct state_trees *trees, struct buffers *buffers, size_t slots)
{
	*trees = (struct state_trees){.buffers = buffers, .free = NO_TREE};
	while ((slots - 1) >> trees->top >= TREE_PARTS)
		trees->top += TREE_BITS;
}

void trees_free(struct state_trees *trees)
{
	allocator_put(trees->buffers->pool.allocator, trees->nodes, trees->capacity * sizeof *trees->nodes);
}

/* Returns a node without holders and parts, or NO_TREE if out of memory. */
static int32_t new_node(struct state_trees *trees)
{
	int32_t id = trees->free;
	if (id != NO_TREE) {
		trees->free = trees->nodes[id].parts[0];
	} else {
		if (!allocator_grow(trees->buffers->pool.allocator, (void **)&trees->nodes, &trees->capacity, trees->count + 1,
		                    sizeof *trees->nodes))
			return NO_TREE;
		id = (int32_t)trees->count++;
	}
	struct tree_node *node = &trees->nodes[id];
	node->holds = 0;
	node->used = 0;
	node->seen = false;
	memset(node->parts, 0xff, sizeof node->parts); /* NO_BUFFER and NO_TREE */
	return id;
}

static void free_node(struct state_trees *trees, int32_t id)
{
	trees->nodes[id].parts[0] = trees->free;
	trees->free = id;
}

/* Counts one more holder of PART, which stands below a node at SHIFT. */
static void hold_part(struct state_trees *trees, int32_t part, int shift)
{
	if (part == NO_TREE)
		return;
	if (shift == 0)
		buffers_hold(trees->buffers, part);
	else
		trees->nodes[part].holds++;
}

/* Removes a holder of node ID, which is at SHIFT. Returns false if out of memory. */
static bool release_node(struct state_trees *trees, int32_t id, int shift)
{
	bool ok = true;
	if (id == NO_TREE || --trees->nodes[id].holds > 0)
		return true;
	for (int i = TREE_PARTS; i-- > 0;) {
		const int32_t part = trees->nodes[id].parts[i];
		if (part != NO_TREE)
			ok &= shift ? release_node(trees, part, shift - TREE_BITS) : buffers_release(trees->buffers, part);
	}
	free_node(trees, id);
	return ok;
}

/* Makes *ID, at SHIFT, a node that nothing else holds: itself, a copy, or a new one. Returns false if out of memory. */
static bool own_node(struct state_trees *trees, int32_t *id, int shift)
{
	if (*id != NO_TREE && trees->nodes[*id].holds == 1)
		return true;
	const int32_t copy = new_node(trees);
	if (copy == NO_TREE)
		return false;
	if (*id != NO_TREE) {
		struct tree_node *from = &trees->nodes[*id];
		from->holds--;
		memcpy(&trees->nodes[copy], from, sizeof *from);
		for (int i = 0; i < TREE_PARTS; i++)
			hold_part(trees, from->parts[i], shift);
	}
	trees->nodes[copy].holds = 1;
	*id = copy;
	return true;
}

/* Makes SLOT of the node *ID, at SHIFT, hold BUFFER, without releasing what it held. A node without parts is freed. */
static bool put_buffer(struct state_trees *trees, int32_t *id, int shift, uint32_t slot, int32_t buffer)
{
	if (!own_node(trees, id, shift))
		return false;
	const int place = slot >> shift & (TREE_PARTS - 1);
	int32_t part = trees->nodes[*id].parts[place];
	const bool before = part != NO_TREE;
	if (shift == 0)
		part = buffer;
	else if (!put_buffer(trees, &part, shift - TREE_BITS, slot, buffer))
		return false;
	struct tree_node *node = &trees->nodes[*id];
	node->parts[place] = part;
	node->used = (uint16_t)(node->used + (part != NO_TREE) - before);
	if (node->used == 0) {
		free_node(trees, *id);
		*id = NO_TREE;
	}
	return true;
}

bool tree_set(struct state_trees *trees, struct state_tree *tree, uint32_t slot, int32_t id)
{
	const int32_t old = tree_get(trees, *tree, slot, NULL);
	if (old == id)
		return true;
	if (!put_buffer(trees, &tree->root, trees->top, slot, id))
		return false;
	tree->count += (id != NO_BUFFER) - (old != NO_BUFFER);
	buffers_hold(trees->buffers, id);
	return buffers_release(trees->buffers, old);
}

struct state_tree tree_hold(struct state_trees *trees, struct state_tree tree)
{
	if (tree.root != NO_TREE)
		trees->nodes[tree.root].holds++;
	return tree;
}

bool tree_release(struct state_trees *trees, struct state_tree *tree)
{
	const bool ok = release_node(trees, tree->root, trees->top);
	*tree = (struct state_tree){.root = NO_TREE};
	return ok;
}

/* Returns as tree_next does, for the node ID at SHIFT, whose slots begin at FIRST. */
static uint32_t next_below(const struct state_trees *trees, int32_t id, int shift, uint32_t first, uint32_t slot)
{
	const uint32_t begin = slot > first ? (slot - first) >> shift : 0;
	for (uint32_t i = begin; i < TREE_PARTS; i++) {
		const int32_t part = trees->nodes[id].parts[i];
		if (part == NO_TREE)
			continue;
		const uint32_t at = first + (i << shift);
		const uint32_t found = shift ? next_below(trees, part, shift - TREE_BITS, at, slot) : at;
		if (found != NO_MORE_SLOTS)
			return found;
	}
	return NO_MORE_SLOTS;
}

uint32_t tree_next(const struct state_trees *trees, struct state_tree tree, uint32_t slot)
{
	return tree.root == NO_TREE ? NO_MORE_SLOTS : next_below(trees, tree.root, trees->top, 0, slot);
}
