/*
 * A program: a compiled body, for arrays of its types. Element-wise instructions that
 * follow one another are fused into groups, which walk their arrays once, in blocks that
 * stay in the first-level cache. Other instructions are calls. All temporary arrays lie in
 * one workspace, whose size is known before the program runs. A program is data, and knows
 * no instruction set.
 *
 * Ins and outs are arrays of the caller's, and no out shares memory with an in. An out whose
 * value is an in or a param is not written: the caller has it already.
 */
#ifndef COMPILE_PROGRAM_H
#define COMPILE_PROGRAM_H

#include "base/diag.h"
#include "ir/body.h"
#include "ops/general.h"

struct launch; /* compile/launch.h */
struct frame_plan;

struct program {
	const struct body *body;
	struct launch *launches;
	size_t launch_count;
	const struct frame_plan *frame;
	int64_t workspace;    /* bytes, a multiple of 64, fixed by the types alone */
	int64_t member;       /* bytes that a further member of a team needs */
	int64_t widest;       /* bytes of its largest array */
	int32_t levels;       /* loops whose counters it reads or moves */
	bool takes_cotangent; /* it writes into the array of a cotangent that it owns */
	bool uses_gemm;       /* OpenBLAS must be loaded before it runs */
};

/*
 * How many of THREADS share a program on whole arrays, the widest of WIDEST bytes: one if
 * the arrays are small. The threads beyond the first need MEMBER bytes each, and together at most
 * the bytes of the widest array.
 */
int team_members(int threads, int64_t widest, int64_t member);

/*
 * Compiles BODY. The program lives in the context's arena. OWNED is by in, or NULL: nobody
 * reads the array of an owned in after the program, so it may write there. STATUS_LIMIT if
 * memory is out or sizes overflow.
 */
enum status program_compile(const struct context *context, struct program *program, const struct body *body,
                            const bool *owned);
/* The launches with their buffers, for --dump plan. */
void program_dump(const struct program *program, diag_write *write, void *context);

#endif
