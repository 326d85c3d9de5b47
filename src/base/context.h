/*
 * The context of a fallible function: where it takes memory and where it says what
 * is wrong. Functions below cli that need two of the three take it first.
 */
#ifndef BASE_CONTEXT_H
#define BASE_CONTEXT_H

#include "base/alloc.h"
#include "base/arena.h"
#include "base/diag.h"

struct context {
	const struct allocator *allocator; /* memory that the function frees itself, or hands to a slab */
	struct arena *arena;               /* memory that its results live in */
	struct diags *diags;               /* each error is appended here before its status is returned */
};

#endif
