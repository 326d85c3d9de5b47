/*
 * The arrays that loops make part by part (`collect`).
 *
 *     iteration   0    1    2    3    4    5    6        every=3
 *     part                  0              1             of 7/3 = 2
 *
 * The result is the operand, the array so far, in which V has become a part. Both are one array wherever the caller can: then
 * one part is written. The first iteration has no operand, and begins the array. A part is read by nobody before the loop
 * ends, so the array's cotangent passes to the operand as it is, and V's is that of its part alone.
 * Tests: tests/cases/loops.test, tests/unit/test_general.c
 */
#include "ops/general.h"

#include <string.h>

int64_t op_part(const struct op_call *call)
{
	const int64_t done = call->attrs->start.at + call->iteration + 1, every = call->attrs->step;
	return done % every == 0 ? done / every - 1 : -1;
}

/* Returns where V is in the ARRAY of CALL, a part of the operation's result; NULL if this iteration is no part. */
static char *part_of(const struct op_call *call, const void *array)
{
	const int64_t part = op_part(call);
	return part < 0 ? NULL : (char *)(uintptr_t)array + part * type_bytes(call->v);
}

/* Y is NULL if nobody reads the array again: a schedule computes the iteration once more. */
FORWARD(collect)
{
	if (!y)
		return;
	if (a && a != y)
		memcpy(y, a, (size_t)type_bytes(call->y));
	char *const part = part_of(call, y);
	if (part)
		memcpy(part, v, (size_t)type_bytes(call->v));
}

/* The operand is v's cotangent so far, to which this adds, or NULL. It may be DV itself. */
VJP(collect)
{
	const void *so_far = needs[1];
	const char *part = part_of(call, g);
	const size_t bytes = (size_t)type_bytes(call->v);
	if (so_far && so_far != dv)
		memcpy(dv, so_far, bytes);
	else if (!so_far)
		memset(dv, 0, bytes);
	if (part && so_far)
		call->kernels->forward[OP_add][0](
			&(struct kernel_args){.out = dv, .v = dv, .a = part, .n = (size_t)shape_count(&call->v->shape)});
	else if (part)
		memcpy(dv, part, bytes);
}
