/*
 * Params that evaluations read in their files, in blocks or in parts. exec/stays.c chooses them, and says what both are.
 */
#ifndef EVALUATE_STORED_H
#define EVALUATE_STORED_H

#include "io/files.h"
#include "ops/general.h"

/* Memory for parts of one param at a time. It has bytes BEGIN .. END-1 of HOLDER's array. */
struct part_buffer {
	char *memory;
	const struct stored_operand *holder;
	int64_t begin, end;
};

/*
 * Large gradients may go to where they stay as soon as they are computed, and have no array in memory. If BEGIN returns
 * true, all of PARAM's gradient comes in parts, once: SIZE bytes from byte AT on, in the computing type, by any threads in
 * any order. PUT returns false if it fails; END then reports why. Else the caller calls END after the run.
 */
struct gradient_rows {
	bool (*begin)(void *context, size_t param);
	bool (*put)(void *context, size_t param, int64_t at, const void *from, size_t size);
	enum status (*end)(void *context, size_t param, struct diags *diags);
	void *context;
};

struct stored_operand {
	struct stored_read read;
	struct operand_rows rows;
	int64_t columns, size; /* of the matrix; bytes of an element */
	struct part_buffer
		*buffer; /* OWN, or one that params share, of the worker that has this struct; NULL: blocks are read */
	struct part_buffer own;
	int64_t most; /* bytes that are read to BUFFER at once: those of some parts */
	size_t param;
	const struct gradient_rows *gradient; /* gets the rows of the gradient; NULL: it is not wanted */
};

/* Lets OPERAND, whose file is open, be read in blocks as a matrix of TYPE by THREADS. The caller sets the memory of blocks. */
void stored_set_blocks(struct stored_operand *operand, const struct type *type, int threads);
/* True if OPERAND is read by parts; else its products call stored_multiply and stored_multiply_back. */
bool stored_in_parts(const struct stored_operand *operand);
/* Returns the part of OPERAND that begins with byte AT if it is in memory; else NULL: stored_read_parts reads it. */
const void *stored_part(const struct stored_operand *operand, int64_t at);
/*
 * Reads parts of OPERAND from byte AT on by the threads of TEAM, in place of those that are in memory. Fails with STATUS_IO or
 * STATUS_DATA.
 */
enum status stored_read_parts(struct stored_operand *operand, int64_t at, struct team *team, struct diags *diags);
/* Computes CALL, a product of V by the param OPERAND, to Y. Fails with STATUS_IO or STATUS_DATA. */
enum status stored_multiply(struct stored_operand *operand, const struct op_call *call, void *y, const void *v,
                            struct diags *diags);
struct derivative_arrays {
	const void *v, *g; /* of the product, and its result's cotangent */
};
/*
 * Computes the derivatives of CALL, such a product: that by V to DV, if not NULL, and that by OPERAND to where its gradient
 * stays. Fails in the same ways.
 */
enum status stored_multiply_back(struct stored_operand *operand, const struct op_call *call, void *dv,
                                 const struct derivative_arrays *of, struct diags *diags);

#endif
