/*
 * The subscripts of an einsum, as in NumPy: a letter for each axis of each operand and, after `->`, of the result; `...`
 * stands for axes that broadcast.
 */
#ifndef OPS_SUBSCRIPTS_H
#define OPS_SUBSCRIPTS_H

#include <stdbool.h>

#include "base/type.h"
#include "ops/op.h"

/* Labels are numbers: letters from A on, then the axes of `...`, by their place before the end. */
enum { LETTERS = 52, REST_AXES = 12, LABELS = LETTERS + REST_AXES };

struct subscript {
	int count; /* of the first of LABEL */
	unsigned char label[MAX_DIMS];
	int rest; /* `...` stands before label REST; -1: there is none */
};

struct subscripts {
	int operands;
	struct subscript operand[MAX_VALUES], result;
};

/*
 * Reads TEXT. Without `->` the result has the axes of `...`, and then those letters that stand once, in order. Returns NULL, or
 * what is wrong with TEXT: a text that continues "subscripts of 'einsum' ...".
 */
const char *subscripts_read(struct subscripts *subscripts, const char *text);
/* Stores in LABEL the labels of the NDIM axes that SUBSCRIPT names; `...` stands for REST_AXES of them at most. */
void subscript_labels(const struct subscript *subscript, int ndim, unsigned char label[MAX_DIMS]);
/* Returns the letter of LABEL; '.' for an axis of `...`. */
char subscript_letter(unsigned label);

#endif
