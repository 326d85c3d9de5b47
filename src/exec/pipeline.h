/*
 * Work in numbered items, shared among workers and kept in order: an item is
 * taken (its input read), computed, and given (its output written).
 */
#ifndef EXEC_PIPELINE_H
#define EXEC_PIPELINE_H

#include "base/diag.h"

#include <stdint.h>

struct pipeline {
	int64_t items; /* numbered 0 .. items-1 */
	int workers;   /* at least 1; the caller's thread is worker 0 */
	/*
	 * TAKE and GIVE are called in the order of items, one at a time, where they
	 * are ordered; else from any worker at any time, as COMPUTE always is. What is
	 * worked on belongs to WORKER until it takes its next item. GIVE may be NULL.
	 */
	bool take_in_order, give_in_order;
	bool dealt; /* round the workers: item I is worker I % WORKERS', each of whom there must be */
	enum status (*take)(void *context, int index, int64_t item, struct diags *diags);
	enum status (*compute)(void *context, int index, int64_t item, struct diags *diags);
	enum status (*give)(void *context, int index, int64_t item, struct diags *diags);
	void *context;
	bool flush_denormals; /* --fast-math: in every worker while it works */
	const struct allocator *allocator;
};

/*
 * Runs all items. Where one fails the others stop after their current step, no
 * later item is given in order, and the status and diagnostics are those of the
 * earliest item that failed. A thread that the system refuses is done without, or
 * where items are dealt it is STATUS_LIMIT.
 */
enum status pipeline_run(const struct pipeline *pipeline, struct diags *diags);

#endif
