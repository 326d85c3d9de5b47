/*
 * Writes a run as Chrome's trace events, which Perfetto and chrome://tracing open. Each worker has a slice for each
 * forward, recomputed and backward step, and for each read and write of a spilled state. A policy by value runs all
 * steps in one slice. A counter shows the bytes in use. Events are written as they happen, up to TRACE_SLICES slices
 * of the first TRACE_WORKERS workers; only the last number of bytes of each worker is held.
 */
#ifndef REPORT_TRACE_H
#define REPORT_TRACE_H

#include "plan/timeline.h"
#include "report/record.h"

enum { TRACE_SLICES = 1 << 20, TRACE_WORKERS = 1024 };

struct trace {
	const struct text *text;
	const struct job *job; /* of the array that is running */
	int64_t slices;        /* number of slices written */
	int64_t left_out;      /* number of slices beyond TRACE_SLICES */
	int64_t live[TRACE_WORKERS];
	int64_t total, written; /* slab bytes of all workers: now, and at the last counter event (-1: none yet) */
	double end;             /* when the last event so far ends, in microseconds */
	bool seen[TRACE_WORKERS];
};

/* Begins the trace; TITLE becomes the name of the process. */
void trace_begin(struct trace *trace, const struct text *text, const char *title);
void trace_put(struct trace *trace, const struct job *job, const struct event *event);
void trace_end(struct trace *trace);

#endif
