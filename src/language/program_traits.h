/* What ckptc must know of an external program, the subject of a `program` statement, to lower and plan its steps. */
#ifndef LANGUAGE_PROGRAM_TRAITS_H
#define LANGUAGE_PROGRAM_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

/* The most operands of a program's step, so that a bit mask has one for each. */
enum { PROGRAM_OPERANDS = 8 };

/* Bit i of a mask is operand i, in the order of the declaration. */
struct program_traits {
	bool bound;              /* a command or a shared object stands behind the name; false: PROGRAM_TRAITS_UNBOUND */
	bool backward;           /* it computes cotangents */
	bool needs_x, needs_y;   /* a backward call without a handle reads them */
	uint32_t needs_operands; /* mask: so with operands */
	int64_t record_bytes;    /* bytes that it holds between a `record` and its backward call; -1: it has no record */
	uint32_t sums;           /* mask: operands whose gradients it adds up itself, and gives when asked at the end */
};

/* The traits of a program that is not bound, and those that a program has unless it says otherwise. */
#define PROGRAM_TRAITS_UNBOUND                                                                                         \
	((struct program_traits){                                                                                          \
		.backward = true, .needs_x = true, .needs_operands = (1u << PROGRAM_OPERANDS) - 1, .record_bytes = -1})

#endif
