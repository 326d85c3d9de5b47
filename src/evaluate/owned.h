/*
 * A program on a window (plan/tiles.h) computes rows that other tiles own. What sums over rows takes those that its own
 * tile owns. These functions do so for calls of operations, whose arrays have the rows of the window.
 */
#ifndef EVALUATE_OWNED_H
#define EVALUATE_OWNED_H

#include "ops/general.h"
#include "plan/tiles.h"

/* A call on the rows that a tile owns. */
struct owned_call {
	struct op_call call;
	struct type v, a, y;
	const void *g, *needs[MAX_NEEDS];
};
/*
 * Sets *OWNED to CALL on ROWS of its V and, if A_STREAMED, of its A. NEEDS are the arrays of its derivative, or V and A
 * of its forward pass; G is the cotangent of its result or NULL. ROWS must begin where elements of bits begin a byte.
 */
void owned_call_of(struct owned_call *owned, const struct op_call *call, struct owned_rows rows, bool a_streamed,
                   const void *const needs[MAX_NEEDS], const void *g);

#endif
