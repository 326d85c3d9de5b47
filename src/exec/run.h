/*
 * Runs a chain over the arrays of a stream: forward, or forward and backward. A run
 * takes constant memory where the chain's rows can be cut (plan/tiles.h).
 */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H

#include "evaluate/stored.h"
#include "load/params.h"
#include "plan/job.h"
#include "plan/timeline.h"

struct run_subject {
	const struct chain *chain;
	struct params *params; /* bound; the run settles weak ones to each array's computing type */
	struct reader *reader;
	struct inputs *inputs;         /* after the first, opened; NULL: there are none, or PARAMS has their arrays */
	struct external_set *programs; /* NULL: none is bound; the run opens them for the types of each array */
	const struct ranks *ranks;     /* that share the rows; NULL: there are no others */
};

struct run_options {
	struct job_options job;     /* a forward run uses its portion, threads and tile */
	enum dtype dtype;           /* --dtype: the computing type, or DTYPE_COUNT */
	bool flush_denormals;       /* --fast-math */
	struct writer *value;       /* the output; NULL: a gradient run without it */
	struct writer *const *more; /* of a forward run: of its values after the first (chain_want_outputs), then NULL */
	const char *spill; /* a forward run: where an input that must be read again is copied; NULL: TMPDIR or /tmp */
	bool one_pass;     /* that copy is an error */
	bool apart;        /* for tests: launches run one after another, and none waits for a wave */
	/* Reports the share of the array that is DONE. A gradient run without tiles calls it after each action, with the
	 * top of the slab and the job's predicted peak. Other runs call it after each chunk; ACTION is then NULL, LIVE and
	 * PEAK are 0. One call at a time. NULL: not wanted. */
	void (*progress)(void *context, const struct action *action, double done, int64_t live, int64_t peak);
	void *progress_context;
	const volatile int
		*stop; /* the run ends with STATUS_STOPPED soon after this is not 0; NULL: it cannot be stopped */
};

struct run_counters {
	int64_t arrays, tiles, tile_rows; /* tile_rows: of the last array's tiles */
	int64_t chunks;                   /* of all arrays */
	int64_t halo_rows;                /* that each of these reads beside its own */
	int64_t passes;                   /* the most times that an array was read */
	struct because because; /* of the last array that had to be in memory whole; without a reason: there was none */
	int64_t copied_bytes;   /* of arrays that could not be read again, copied to an unnamed file */
	int64_t peak_bytes; /* all array storage: blocks of input and output, workspaces, params; of the largest array */
};

/*
 * Returns the type that CHAIN sees for a file of type FILE. Its dtype is DTYPE, else that
 * of the chain's `input` declaration, else the file's. Integers and bool become f64.
 */
struct type run_input_type(const struct chain *chain, const struct type *file, enum dtype dtype);
/*
 * Returns the type in which the gradient of an input of TYPE is written, beside a first input of dtype FIRST. That of
 * integers is zeros, of the computing type.
 */
struct type run_gradient_type(const struct chain *chain, enum dtype first, const struct type *type);
/* Gives WRITER the layout of READER's current array and, if WRITER's format is AUTO, its format. */
void run_follow_format(struct writer *writer, const struct reader *reader);

/*
 * Writes the chain's output for each array to options->value. Checks all that can be
 * checked without values before it writes.
 */
enum status run_forward(const struct context *context, const struct run_subject *subject,
                        const struct run_options *options, struct run_counters *counters);

/*
 * Sets COUNTERS to the figures of run_forward on an array of TYPE. It leaves copied_bytes out. Reads no data, and needs the
 * params' types alone. It is a run from a file to a file; from a pipe to a pipe if the subject's reader, which may be NULL,
 * reads one. options->value is not read. Fails as run_forward does before it writes.
 */
enum status run_plan_forward(const struct context *context, const struct run_subject *subject,
                             const struct run_options *options, const struct type *type, struct run_counters *counters);

struct journal_costs; /* io/journal.h */

/* Elements of an array, COUNT from FIRST on, in the computing type DTYPE. */
struct elements {
	int64_t first, count;
	const void *from;
	enum dtype dtype;
};
/*
 * Where the gradients of inputs go, in addition to gradient_options.gradient for the first: an array for each record. INPUT is
 * 0 for the first, 1 + I for chain->params[I]. Elements come in order; with ranks, each rank puts its own, in any order.
 */
struct input_gradients {
	enum status (*begin)(void *context, size_t input, const struct type *type, struct diags *diags);
	enum status (*put)(void *context, size_t input, const struct elements *elements, struct diags *diags);
	enum status (*end)(void *context, size_t input, struct diags *diags);
	void *context;
};

/* What a gradient run reads and writes besides the input and options->value. */
struct gradient_options {
	struct writer *gradient;                    /* of the input; NULL: not wanted */
	const char *cotangent;                      /* file, or NULL: ones, unless an array is given */
	const struct memory_array *cotangent_array; /* or NULL */
	bool special;                               /* --allow-special-files */
	bool cast;                                  /* --cast, of the cotangent */
	const double *missing;                      /* --missing, of the cotangent */
	const char *spill;                          /* --spill DIR, or NULL */
	const char *journal;                        /* the file of --journal, of this rank, or NULL; with SPILL */
	/* Sets *COSTS to those that were measured for the job, by its costs_context: a new journal keeps them. Or NULL. */
	void (*keep_costs)(void *context, struct journal_costs *costs);
	/* Receives a line of JSON for each gradient that is ready, in backward order; or NULL. */
	enum status (*event)(void *context, const char *line);
	void *event_context;
	/* Receives each event (plan/timeline.h), one at a time. NULL: not wanted, and events cost nothing. */
	enum status (*trace)(void *context, const struct event *event);
	void *trace_context;
	/*
	 * Called if PARAM's gradient is complete while the run goes on, if not for all params. It has the type of its entry in
	 * result->params, and stays until the params are freed. One call at a time. NULL: not wanted.
	 */
	void (*written)(void *context, size_t param, const void *gradient);
	void *written_context;
	/* For large gradients. The entries in result->params of those that go there have no data. Without functions: not wanted. */
	struct gradient_rows rows;
	struct input_gradients inputs; /* without functions: not wanted */
	bool reuse_params; /* the caller does not need the params afterwards: gradients may be written over them */
	bool compare;      /* compare recomputed states with those of the first sweep */
};

/* Hashes of every step's states, which show whether recomputed ones have the bits of the first sweep. */
struct state_hashes {
	struct recompute_hash {
		uint64_t hash;
		int64_t arrays; /* hashed arrays; 0: the step has not run yet, or wrote none */
	} * hashes;         /* by step */
	int64_t steps;
	int64_t compared;   /* repeated calls of steps that were compared */
	int64_t differing;  /* compared calls whose bits differ */
	int64_t first_step; /* if DIFFERING: step of the first differing call, of the first worker that has one */
};

/*
 * The part of a param's gradient that arrays of one computing type make: sums in that type. With TAILS they are the
 * heads of long sums (ops/kernels.h). SHARED: they lie in memory that all ranks share. BLOCK is NULL if the sums have none.
 */
struct param_sums {
	void *heads, *tails;
	bool shared;
	struct block_sum *block;
};

/* The gradient of a param. DATA is NULL if the param is not differentiated. */
struct param_gradient {
	struct type type;   /* as bound for the first array: in a computing type */
	enum dtype written; /* the param's dtype; for a weak param that of the first array */
	void *data;         /* SIZE bytes, once the run has ended */
	size_t size;
	struct param_sums of[2]; /* F32, F64: a weak param has the type of each array */
};

struct gradient_result {
	struct counters measured, predicted; /* of the array that took the most bytes, or the first such array */
	struct type most;                    /* that array's */
	struct because because;              /* why it is not cut into tiles */
	struct portion portion;              /* with its counted iterations */
	int64_t counted;                     /* iterations that a forward pass counted before the gradient */
	struct param_gradient *params;       /* by index in the chain */
	size_t param_count;
	int64_t arrays;
	struct state_hashes recomputed; /* counts only, if they were compared */
	int64_t copied_bytes;           /* of inputs that could not be read in any order, copied to an unnamed file */
	double store_error;             /* --store-dtype: the largest |value - kept value| */
	struct job job;                 /* of the last array, for reports; if HAS_JOB */
	struct arena job_arena;         /* the plan for one type of array */
	double planning;                /* seconds spent in job_make */
	bool has_job;
	struct journal *journal; /* the open journal, or NULL */
	bool resumed;            /* from a point of it */
};

/*
 * Differentiates the chain on every array. Gradients of params are summed over the
 * arrays, in memory of CONTEXT's arena. The caller frees RESULT, after a failure too.
 */
enum status run_gradient(const struct context *context, const struct run_subject *subject,
                         const struct run_options *options, const struct gradient_options *gradient,
                         struct gradient_result *result);
/* Removes the journal of a run whose outputs are in place. Warns if its files stay. */
void gradient_done(struct gradient_result *result, struct diags *diags);
void gradient_free(struct gradient_result *result);

#endif
