/*
 * A program: a body made ready to run on arrays of its types. Element-wise
 * instructions that follow one another are fused into groups that walk their
 * arrays once, in blocks that stay in the first-level cache; the rest are calls.
 * All of its temporaries have their places in one workspace, whose size is known
 * here, before anything runs. It is data, and knows no instruction set.
 *
 * Ins and outs are arrays of the caller's. An out whose value is itself an in or
 * a param is not written: the caller has it already. An out is never the same
 * memory as an in.
 */
#ifndef COMPILE_PROGRAM_H
#define COMPILE_PROGRAM_H

#include "base/context.h"
#include "ir/body.h"
#include "ops/general.h"

struct launch; /* compile/launch.h */
struct frame_plan;

struct program {
	const struct body *body;
	struct launch *launches;
	size_t launch_count;
	const struct frame_plan *frame;
	int64_t workspace;    /* bytes, 64-byte aligned, fixed by the types alone: temporaries, blocks, op scratch */
	int64_t member;       /* bytes that a further member of a team needs */
	int64_t widest;       /* bytes of its largest array */
	int32_t levels;       /* of loops whose counters it reads or moves */
	bool takes_cotangent; /* it writes into the array of a cotangent that it owns */
	bool uses_gemm;       /* OpenBLAS must be loaded before it runs */
};

/*
 * Of THREADS, how many share programs on whole arrays, the widest of WIDEST bytes,
 * where each but the first needs MEMBER: one where the arrays are small, and no more
 * than take together what the widest array takes.
 */
int team_members(int threads, int64_t widest, int64_t member);

/*
 * Compiles BODY; everything in ARENA. OWNED (by in; NULL: none): nobody reads that
 * in's array after the program, which may write into it. STATUS_LIMIT where memory is
 * short or sizes overflow.
 */
enum status program_compile(const struct context *context, struct program *program, const struct body *body,
                            const bool *owned);
/* The launches with their buffers, for --dump plan. */
void program_dump(const struct program *program, diag_write *write, void *context);

#endif
