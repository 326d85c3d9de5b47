/*
 * A program: a compiled body, for arrays of its types. Element-wise instructions that follow one another on one shape
 * are fused into groups, which walk their arrays once, in blocks that stay in the first-level cache. Other instructions
 * work on whole arrays. Temporary arrays lie in one workspace, whose size is known before the program runs, or in
 * arrays of ins and outs that are free. A program is data, and knows no instruction set.
 *
 * Ins and outs are the caller's arrays. An out that is written shares memory with an in only by body_goes_on.
 * An out whose value is an in or a param is not written: the caller has it already.
 */
#ifndef COMPILE_PROGRAM_H
#define COMPILE_PROGRAM_H

#include "base/diag.h"
#include "ir/body.h"
#include "ops/general.h"

struct launch; /* compile/launch.h */
struct frame_plan;

/*
 * A program has a layout of its workspace for all rows of its body and, if body->rest is set, one for those. An array
 * with an element for each layout has LAYOUTS elements.
 */
enum row_layout { LAYOUT_ALL, LAYOUT_REST, LAYOUTS };

struct program {
	const struct body *body;
	struct launch *launches;
	size_t launch_count;
	const struct frame_plan *frame;
	int64_t workspace;    /* bytes on all rows, a multiple of 64, fixed when the program is compiled */
	int64_t rest;         /* the same on body->rest rows */
	int64_t member;       /* bytes that each further member of a team needs */
	int64_t wave;         /* bytes of a wave that its launches may wait in (evaluate/wave.h); 0: no group waits */
	int64_t widest;       /* bytes of its body's largest value, an array or not */
	int64_t states;       /* doubles of the states of its folds (ops/general.h), one after another */
	int32_t levels;       /* 1 + the highest level of a loop whose counter it reads or moves, or 0 */
	bool takes_cotangent; /* a temporary of it lies in the array of an owned in that is a cotangent */
	unsigned libraries;   /* the libraries that its operations need (op_libraries): blas_load opens them first */
};

/* Returns the layout in which PROGRAM runs on ROWS rows; 0: on all. */
static inline enum row_layout program_layout(const struct program *program, int64_t rows)
{
	return rows && rows == program->body->rest ? LAYOUT_REST : LAYOUT_ALL;
}
/* Returns the bytes of PROGRAM's workspace on ROWS rows; 0: on all. */
static inline int64_t program_workspace(const struct program *program, int64_t rows)
{
	return program_layout(program, rows) == LAYOUT_REST ? program->rest : program->workspace;
}
/*
 * Returns how many of THREADS share a program on whole arrays, of which the largest has WIDEST bytes: 1 if that is
 * below 256 KiB. Each thread beyond the first needs MEMBER bytes, and all those threads together need at most WIDEST.
 */
int team_members(int threads, int64_t widest, int64_t member);

/*
 * Compiles BODY, which PROGRAM refers to. The program lives in the context's arena. OWNED, by in, marks the arrays that
 * nobody reads after the program, so that it may write there. WRITTEN, by param, marks the gradients that products
 * write where they stay; to others they add pieces, which need scratch. NULL: none. STATUS_LIMIT if out of memory, or
 * if the workspace would exceed POOL_MOST.
 */
enum status program_compile(const struct context *context, struct program *program, const struct body *body,
                            const bool *owned, const bool *written);
/* Writes the launches, their kernel ops and the workspace's size, for --dump plan. */
void program_dump(const struct program *program, diag_write *write, void *context);

#endif
