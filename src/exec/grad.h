/*
 * A gradient run: the schedule of a job, carried out on tiles, with the
 * gradients of params summed in blocks in order.
 */
#ifndef EXEC_GRAD_H
#define EXEC_GRAD_H

#include "exec/journal.h"
#include "exec/params.h"
#include "exec/state_hashes.h"
#include "plan/job.h"
#include "plan/timeline.h"

struct grad_options {
	struct job_options job;
	enum dtype dtype;        /* --dtype, or DTYPE_COUNT */
	const char *cotangent;   /* file, or NULL: ones */
	bool special;            /* --allow-special-files */
	bool cast;               /* --cast, of the cotangent */
	struct writer *gradient; /* the input's gradient; NULL: not wanted */
	struct writer *value;    /* the output; NULL: not wanted */
	const char *spill;       /* --spill DIR */
	const char *journal;     /* --journal FILE, or NULL; with spill, and job.whole */
	/* A line of JSON for each gradient that is ready, in backward order, or NULL. */
	enum status (*event)(void *context, const char *line);
	void *event_context;
	/* After each action, or after each tile where there are several: ACTION is then NULL, LIVE and PEAK 0. */
	void (*progress)(void *context, const struct action *action, double done, int64_t live, int64_t peak);
	void *progress_context;
	/* Every call, spill and fetch with its times, and what they hold, one at a time; or NULL, which costs nothing. */
	enum status (*trace)(void *context, const struct event *event);
	void *trace_context;
	bool flush_denormals; /* --fast-math */
	bool compare;         /* recomputed states with the first sweep's */
};

/* What the arrays that are computed in one type add to a param's gradient: some may give rows, and others sums. */
struct param_sums {
	void *rows; /* in that type: what is not summed within an array */
	size_t size;
	double *hi, *lo; /* the running sums; LO of doubles only */
	size_t sum_size;
};

/* The gradients of params, by index; NULL data where not differentiated. */
struct param_gradient {
	struct type type; /* in the computing type of the first array */
	/* What it is to be written as, held in TYPE: the param's, and a weak one's the first array's own. */
	enum dtype written;
	void *data; /* when all is done, SIZE bytes: within what the first array has opened */
	size_t size;
	struct param_sums of[2]; /* F32, F64: of a weak param's, which takes each array's own */
};

struct grad_result {
	struct counters measured, predicted; /* of the array that took the most bytes, the first of such */
	struct type most;                    /* what it was */
	struct param_gradient *params;
	size_t param_count;
	int64_t arrays;
	struct state_hashes recomputed; /* counts only, where options->compare asked for them */
	double store_error;             /* --store-dtype: the largest |value - kept value| */
	struct job job;                 /* of the last array, for reports */
	struct arena job_arena;         /* what is planned for one type of array */
	double planning;                /* seconds that jobs took to be made */
	bool has_job;
	struct journal journal;
	bool has_journal;
};

/*
 * Differentiates CHAIN on every array of READER. The gradients of params are
 * summed over the arrays. STATUS as the layers below give them.
 */
enum status grad_run(const struct chain *chain, struct params *params, struct reader *reader,
                     const struct grad_options *options, struct grad_result *result, struct arena *arena,
                     struct diags *diags);
/* What the run was to give is where it belongs: its journal is no longer wanted. A warning where it stays. */
void grad_done(struct grad_result *result, struct diags *diags);
void grad_free(struct grad_result *result, const struct allocator *allocator);

#endif
