/* Which inputs and params are read as indices. */
#ifndef IR_INDEX_READS_H
#define IR_INDEX_READS_H

#include "ir/body.h"

/* What is read as indices, or computes them by an operation that has a derivative: a small change would make no index. */
struct index_reads {
	bool input;
	bool *params; /* by param */
};

/* Sets READS to those of BODY, of a forward run, whose chain has PARAMS params. Returns false if ARENA is out of memory. */
bool index_reads_find(struct index_reads *reads, const struct body *body, size_t params, struct arena *arena);

#endif
