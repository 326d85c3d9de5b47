/*
 * How bodies read params. What decides by the reads of a param walks them here: how its gradient is summed, whether it
 * stays in its file, whether its gradient may replace it, when its gradient is complete.
 *
 *     for (reads_begin(&reads, body, &step->own); reads_next(&reads, &read);)
 *         ...
 *
 * The reads of a body come in the order in which it runs, those of a loop once:
 *
 *     instruction, or out      read.by      read.operand
 *     matmul w                 the matmul   1, as of instr_value
 *     its derivative           the VJP      1
 *     ACCUMULATE to w          that         NO_VALUE, and ADDS: no read, but an addition to the gradient of w
 *     a loop carries w         NULL         NO_VALUE: as the loop's init, and as its result
 *     an out is w              NULL         NO_VALUE
 */
#ifndef IR_READS_H
#define IR_READS_H

#include "ir/body.h"

struct param_read {
	const struct instr *by;      /* the instruction that reads; NULL: none */
	const struct param_ref *ref; /* the param, or the part of it, with the particulars of the step */
	uint32_t operand;            /* 0: BY's V; 1 and more: its operands; NO_VALUE: another value, or no instruction */
	bool adds;                   /* BY adds to the gradient of REF */
};

/* A loop around a read: one of the body, or of steps. Its counter runs from FIRST on. */
struct loop_around {
	const void *loop; /* tells it from others */
	int32_t level;
	int64_t first, iterations;
};

struct reads {
	const struct body *body;
	const struct particulars *own;
	struct loop_around loops[MAX_LOOPS]; /* around the latest read, the outermost first */
	uint32_t depth;                      /* number of LOOPS. A caller may begin with loops around the body. */
	uint32_t at, next; /* the instruction, or beyond the last the outs; the value of it that follows */
};

/* Begins the reads of BODY, whose step has the particulars OWN, or NULL. The loops around BODY are in READS. */
static inline void reads_begin(struct reads *reads, const struct body *body, const struct particulars *own)
{
	reads->body = body;
	reads->own = own;
	reads->at = reads->next = 0;
}
/* Sets READ to the next read. False beyond the last: then READS has the loops around BODY again. */
bool reads_next(struct reads *reads, struct param_read *read);
static inline void reads_enter(struct reads *reads, const void *loop, int32_t level, int64_t first, int64_t iterations)
{
	reads->loops[reads->depth++] = (struct loop_around){loop, level, first, iterations};
}
/* True if each iteration of each loop around READ, the latest, reads another part: each counter is an index. */
bool reads_vary(const struct reads *reads, const struct param_read *read);
/* True if READ is that of A by an operation, or a derivative, that reads another value as V. */
static inline bool read_is_operand(const struct param_read *read)
{
	return read->by && !instr_use(read->by) && read->operand == 1 && read->by->v != read->by->a &&
	       (read->by->kind == INSTR_OP || read->by->kind == INSTR_VJP);
}

#endif
