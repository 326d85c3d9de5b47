/*
 * A run as Chrome's trace events, which Perfetto and chrome://tracing open. By worker there is a slice for each forward,
 * recomputed and backward step, and for each read and write of a spilled state. A counter has the bytes in use. Events
 * are written as they happen; only the last count of each worker is held.
 */
#ifndef REPORT_TRACE_H
#define REPORT_TRACE_H

#include "plan/timeline.h"
#include "report/record.h"

enum { TRACE_SLICES = 1 << 20, TRACE_WORKERS = 1024 };

struct trace {
	const struct text *text;
	const struct job *job; /* of the array that is run */
	int64_t slices;        /* written */
	int64_t left_out;      /* beyond TRACE_SLICES */
	int64_t live[TRACE_WORKERS];
	int64_t total, written; /* bytes in use: now, and as the counter has it */
	double end;             /* microseconds */
	bool seen[TRACE_WORKERS];
};

/* TITLE names the process. */
void trace_begin(struct trace *trace, const struct text *text, const char *title);
void trace_put(struct trace *trace, const struct job *job, const struct event *event);
void trace_end(struct trace *trace);

#endif
