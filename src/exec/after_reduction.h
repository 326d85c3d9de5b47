/*
 * What follows the instruction of a forward body in which all rows meet (struct lowered's
 * fold): it runs once, on what the tiles have come to.
 */
#ifndef EXEC_AFTER_REDUCTION_H
#define EXEC_AFTER_REDUCTION_H

#include "compile/program.h"
#include "ir/lower.h"

struct bound_param;

struct after_reduction {
	const struct instr *fold;
	struct type folded;  /* its result's type */
	struct type output;  /* what the rest makes of it, as it is computed */
	int64_t count, size; /* elements of FOLDED, and doubles of a state (fold_parts for each) */
	struct program program;
	bool passes; /* nothing follows */
};

/* LOWERED is LOWER_RUN's, of the whole array, and has a fold. STATUS_LIMIT as program_compile. */
enum status after_compile(struct after_reduction *after, const struct lowered *lowered, struct arena *arena,
                          struct diags *diags);
/* BODY, of a tile or of the whole array, up to instruction FOLD, whose result is its out; NULL where memory is short. */
const struct body *after_head(const struct body *body, uint32_t fold, struct arena *arena);
/* Bytes of what after_run works in, 64-byte aligned. */
int64_t after_bytes(const struct after_reduction *after);
/*
 * The chain's output, from STATE, that of all WHOLE_ROWS rows: a pointer into MEMORY, of
 * after_bytes. PARAMS by index. With denormals flushed as in tiles, where FLUSH_DENORMALS.
 * Cannot fail.
 */
const void *after_run(const struct after_reduction *after, const double *state, int64_t whole_rows,
                      const struct bound_param *params, bool flush_denormals, void *memory);

#endif
