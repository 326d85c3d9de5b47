/*
 * The machine: what a schedule does to memory. It interprets a schedule's actions
 * over the steps of a compiled chain. It knows which buffers the state, the slots,
 * the residuals and the cotangents hold, and where in the slab each buffer lies.
 *
 * Without hooks the walk is the plan, exact to the byte. With hooks (memory/hooks.h) the evaluator computes at each
 * call, and the counters are the measurement. So the plan and the run cannot differ: `grad --stats` prints the
 * figures of `plan` (tests/scripts/check-executions).
 *
 * Two shortcuts keep these figures. Without hooks, the walk looks up what known forward steps do (memo.c). With hooks, a
 * worker walks one full tile, and replays its calls for the others (replay.c).
 *
 * A buffer is freed when its last holder releases it. An array that is a checkpoint,
 * a residual and a part of the state at once lies in memory once (--store-dtype copies checkpoints).
 */
#ifndef MEMORY_MACHINE_H
#define MEMORY_MACHINE_H

#include "compile/compiled.h"
#include "memory/counters.h"
#include "schedule/action.h"

struct machine_hooks; /* memory/hooks.h */
struct machine_log;

/* A row of the residual report: an array that a memory slot or residuals hold when the first sweep ends. */
struct held {
	const struct type *type; /* the type in which it is kept */
	int64_t bytes;
	struct origin origin;
	int64_t step;            /* the step that made it, or copied it if it is a param; -1 for the input */
	int64_t sequence;        /* its place in program order */
	struct op_names used_by; /* the operations that read it: see held.c */
};
struct held_list {
	struct held *rows;
	size_t count;
};

struct machine_options {
	int64_t most;                      /* the walk ends after the action that takes the peak above it; 0: no limit */
	bool want_value;                   /* the output is wanted at the end of the first sweep */
	enum dtype store;                  /* of states in memory slots: F16 or BF16; DTYPE_COUNT: as they are */
	const struct machine_hooks *hooks; /* NULL: plan only */
	int64_t rows;                      /* of streamed arrays, if they have fewer than compiled for; else 0 */
	struct machine_log *log;           /* records calls and exchanges; once complete, it replaces the walk; or NULL */
	struct held_list *held;            /* empty: gets the residual report, in the context's arena; NULL: no report */
};

/*
 * Walks SCHEDULE over COMPILED and writes COUNTERS. If the peak exceeds options->most, the walk ends with STATUS_OK,
 * and only peak_bytes has a meaning, which exceeds it too. Tables come from the context's allocator. Fails with
 * STATUS_LIMIT if out of memory, or with the status that a hook returned. A wrong schedule is a bug (asserted).
 */
enum status machine_run(const struct context *context, const struct compiled_chain *compiled, struct schedule *schedule,
                        const struct machine_options *options, struct counters *counters);

#endif
