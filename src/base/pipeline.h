/*
 * Numbered items shared among workers. A worker reads an item's input, computes the item, and writes its output.
 */
#ifndef BASE_PIPELINE_H
#define BASE_PIPELINE_H

#include "base/team.h"

struct pipeline {
	int64_t first, items; /* numbered FIRST .. items-1 */
	int workers;          /* at least 1: the members of TEAM */
	struct team *team;
	/*
	 * Ordered reads or writes run one at a time, in the order of items. Other calls for different items run in
	 * different workers at the same time. An item's buffers belong to its worker until the worker reads its next item.
	 */
	bool read_in_order, write_in_order;
	bool dealt; /* item I belongs to worker I % WORKERS; every worker must start */
	enum status (*read)(void *context, int index, int64_t item, struct diags *diags);
	enum status (*compute)(void *context, int index, int64_t item, struct diags *diags);
	enum status (*write)(void *context, int index, int64_t item, struct diags *diags);
	void *context;
	bool flush_denormals; /* --fast-math: in every worker */
	const struct allocator *allocator;
};

/*
 * Runs all items. After a failure the other workers end their current items, which may stay unwritten; no later item is
 * written in order. Returns the status and diagnostics of the earliest item that failed. If the system refuses a
 * thread, the others share its items; dealt items then fail with STATUS_LIMIT.
 */
enum status pipeline_run(const struct pipeline *pipeline, struct diags *diags);

#endif
