/*
 * libckptc: plans for gradient checkpointing, and chains of array operations with their gradients. See ckptc(3).
 *
 * Every function that can fail returns CKPTC_OK or another ckptc_status. Its last argument, ERROR, may be NULL; else
 * it gets that status and a message. A failed function that makes an object sets the caller's pointer to NULL. The
 * library has no state of its own, prints nothing and never exits. Sizes are in bytes.
 *
 * Threads: a plan does not change, so any number of threads may use one. Every other object belongs to one thread at a
 * time.
 */
#ifndef CKPTC_H
#define CKPTC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CKPTC_API __attribute__((visibility("default")))

/* The values are those of the command's exit statuses, as far as it has them. */
enum ckptc_status {
	CKPTC_OK = 0,
	CKPTC_CHECK = 1,   /* actions are no reversal of the chain */
	CKPTC_USAGE = 2,   /* a wrong policy, option or argument */
	CKPTC_CHAIN = 3,   /* a wrong chain: syntax, names, types */
	CKPTC_DATA = 4,    /* wrong data: costs, arrays, files */
	CKPTC_IO = 5,      /* the system failed to read or write */
	CKPTC_LIMIT = 6,   /* out of memory, too small a budget, or beyond a limit */
	CKPTC_PROGRAM = 7, /* an external program failed */
	CKPTC_STOPPED = 8, /* the caller stopped it: ckptc_execute, or `stop` of ckptc_run_options */
};

struct ckptc_error {
	int status;         /* enum ckptc_status */
	char message[1020]; /* a line, with the place and a hint; "" after success */
};

/*
 * Where an object's memory comes from. RESIZE works as realloc does: NEW_SIZE 0 frees BLOCK, which has OLD_SIZE bytes,
 * and a NULL BLOCK allocates. Threads of a run call it at the same time. It returns NULL if it has no memory.
 */
struct ckptc_allocator {
	void *(*resize)(void *context, void *block, size_t old_size, size_t new_size);
	void *context;
};

CKPTC_API const char *ckptc_version(void);

/* Plans. */

/* COUNT equal steps, one after another. Times are in any one unit. */
struct ckptc_step_cost {
	int64_t count;          /* at least 1 */
	double forward;         /* time of running the step */
	double backward;        /* time of reversing it */
	int64_t state_bytes;    /* of the state before the step */
	int64_t residual_bytes; /* of what recording the step keeps for its reversal, without that state */
	int64_t forward_temporary_bytes, record_temporary_bytes, backward_temporary_bytes; /* workspace while it runs */
	int drops_input;  /* nonzero: its reversal does not need the state before it */
	int keeps_output; /* nonzero: RESIDUAL_BYTES include the state after it, which is shared */
};

struct ckptc_costs {
	const struct ckptc_step_cost *steps;
	size_t step_count;              /* of the elements of STEPS; all counts together are at most 10^7 */
	int64_t fixed_bytes;            /* held all the time */
	int64_t output_bytes;           /* of the state after the last step; -1: as the state before it */
	double spill_write, spill_read; /* time of writing a state to disk and of reading it; -1: five mean steps */
};

/* Zeros are the defaults. Reserved fields of options must be 0. */
struct ckptc_plan_options {
	const struct ckptc_allocator *allocator; /* NULL: malloc. A copy is made */
	int64_t memory;                          /* the budget of the policy "auto", which without it is save-all */
	int64_t max_checkpoints;                 /* the most states in memory at once, for policies that take that */
	int64_t disk_bytes;                      /* the most bytes of states on disk at once */
	int on_disk;                             /* nonzero: a budget may keep states on disk */
	/* Of chains alone: */
	int threads;    /* 0: one */
	int residuals;  /* nonzero: make the rows of ckptc_plan_residuals */
	int want_value; /* nonzero: the run gives the value too, which takes memory */
	int64_t tile;   /* rows of a tile; 0: chosen */
	/* Plan for so many iterations of each `repeat while`; 0: for its max. A run counts them, and takes 0 alone. */
	int64_t iterations;
	/*
	 * Of ckptc_plan_costs alone: by element of the costs' STEPS, the time of recording the step while nobody reads the
	 * state after it: for its reversal alone, often 0. It counts where BACKWARD follows a RECORD, for the last step of that.
	 * NULL: the time of `forward`.
	 */
	const double *record;
	const char
		*of_output; /* of chains alone: the value, and the gradient, are of this output; NULL: of the last value */
	int64_t reserved[1];
};

struct ckptc_plan;

/*
 * Plans steps of known COSTS under POLICY, as ckptc(1) spells it: "revolve:100", "budget:1GiB", "every:4", ... COSTS
 * are copied. OPTIONS may be NULL. CKPTC_LIMIT: the budget is too small; the message has the least that works.
 */
CKPTC_API int ckptc_plan_costs(struct ckptc_plan **plan, const struct ckptc_costs *costs, const char *policy,
                               const struct ckptc_plan_options *options, struct ckptc_error *error);
/* As ckptc_plan_costs; the costs are LENGTH bytes of JSON, as `ckptc plan --spec` reads them. */
CKPTC_API int ckptc_plan_spec(struct ckptc_plan **plan, const char *json, size_t length, const char *policy,
                              const struct ckptc_plan_options *options, struct ckptc_error *error);
CKPTC_API void ckptc_plan_free(struct ckptc_plan *plan);

/* What a plan costs. Times are in the unit of the steps'. */
struct ckptc_counters {
	int64_t steps;
	/* Forward executions of steps, recording ones, the first sweep and those within the backward of a region too. */
	int64_t evaluations;
	int64_t recomputed;        /* evaluations - steps */
	int64_t checkpoints;       /* the most states in memory slots at once */
	int64_t slots, disk_slots; /* slots of memory and of disk are numbered from 0 up to these, exclusive */
	int64_t stored_bytes;      /* held when the first sweep ends */
	int64_t peak_bytes;        /* of everything, at the highest */
	int64_t spill_writes, spill_reads;
	double forward_time, backward_time; /* of save-all's passes */
	double recomputed_time;             /* of all other computations */
	double overhead_percent; /* recomputed, and rows that tiles share, over the times above without these rows */
	double gap_percent;      /* a budget's recomputation is at most this much above the least; below 0: unknown */
	/*
	 * Evaluations that compute the step's value. A step that is recorded while nobody reads its value is none, unless its
	 * residuals include that value.
	 */
	int64_t executions;
	int64_t reserved[3];
};
CKPTC_API void ckptc_plan_counters(const struct ckptc_plan *plan, struct ckptc_counters *counters);
/* Returns the policy that made the plan: "auto" and JAX's names have become ours. It lives as long as PLAN. */
CKPTC_API const char *ckptc_plan_policy(const struct ckptc_plan *plan);

/*
 * Actions. State p is what step p and those after it need: state 0 is the input, state n the output of n steps. There
 * is one current state, at first state 0. The cotangent belongs to a state, at first to state n.
 */
enum ckptc_action_kind {
	CKPTC_FORWARD, /* runs steps BEGIN to END-1 on the current state BEGIN; END becomes current */
	/* As FORWARD, and keeps the residuals of each of these steps. If BACKWARD or the end follows, nobody reads state END. */
	CKPTC_RECORD,
	CKPTC_SAVE,  /* puts the current state BEGIN into the empty memory slot SLOT; it stays current */
	CKPTC_LOAD,  /* makes state BEGIN, which memory slot SLOT holds, the current one; the slot keeps it */
	CKPTC_DROP,  /* empties memory slot SLOT, which holds state BEGIN */
	CKPTC_SPILL, /* SAVE, LOAD and DROP for slots on disk */
	CKPTC_FETCH,
	CKPTC_DISCARD,
	CKPTC_BACKWARD, /* drops the current state; reverses steps END-1 down to BEGIN and frees their residuals */
};

struct ckptc_action {
	int kind;           /* enum ckptc_action_kind */
	int unused;         /* 0 */
	int64_t begin, end; /* END is 0 where only BEGIN has a meaning */
	int64_t slot;       /* 0 where it has no meaning */
};
CKPTC_API const char *ckptc_action_name(int kind); /* "forward", ...; "unknown" */

/* Iterates over the actions of a plan, which are computed one by one. PLAN must outlive the iterator. */
struct ckptc_actions;
CKPTC_API int ckptc_actions_new(struct ckptc_actions **actions, const struct ckptc_plan *plan,
                                struct ckptc_error *error);
/* Writes the next actions, MOST at most, to TO. Returns their number, 0 at the end. Never fails. */
CKPTC_API size_t ckptc_actions_read(struct ckptc_actions *actions, struct ckptc_action *to, size_t most);
CKPTC_API void ckptc_actions_rewind(struct ckptc_actions *actions);
CKPTC_API void ckptc_actions_free(struct ckptc_actions *actions);

/*
 * Verifies that actions, of any source, reverse STEPS steps: see them one after the other, and then the end. A rule
 * that is broken is CKPTC_CHECK; the message names the action's number (from 0), the action and the rule. After a
 * failure the verifier can only be freed. ALLOCATOR may be NULL.
 */
struct ckptc_verifier;
CKPTC_API int ckptc_verifier_new(struct ckptc_verifier **verifier, int64_t steps,
                                 const struct ckptc_allocator *allocator, struct ckptc_error *error);
CKPTC_API int ckptc_verifier_see(struct ckptc_verifier *verifier, const struct ckptc_action *actions, size_t count,
                                 struct ckptc_error *error);
CKPTC_API int ckptc_verifier_end(struct ckptc_verifier *verifier, struct ckptc_error *error);
CKPTC_API void ckptc_verifier_free(struct ckptc_verifier *verifier);
/* Verifies all actions of PLAN. */
CKPTC_API int ckptc_plan_verify(const struct ckptc_plan *plan, struct ckptc_error *error);

/*
 * What ckptc_execute calls for each action, FORWARD, RECORD and BACKWARD once for each step. Each gets the CONTEXT of
 * ckptc_execute, and returns 0 to continue. STATE is the position of the state that SLOT gets, has or loses. DROP and
 * DISCARD may be NULL; so may what the plan does not use.
 */
struct ckptc_callbacks {
	int (*forward)(void *context, int64_t step);  /* current state: STEP, then STEP + 1 */
	int (*record)(void *context, int64_t step);   /* as forward; keeps what `backward` needs */
	int (*backward)(void *context, int64_t step); /* cotangent of state STEP + 1, then of STEP */
	int (*save)(void *context, int64_t state, int64_t slot);
	int (*load)(void *context, int64_t state, int64_t slot);
	int (*drop)(void *context, int64_t state, int64_t slot);
	int (*spill)(void *context, int64_t state, int64_t slot);
	int (*fetch)(void *context, int64_t state, int64_t slot);
	int (*discard)(void *context, int64_t state, int64_t slot);
};
/*
 * Executes PLAN. A callback that returns another value than 0 ends it: that value is returned, and ERROR's status is
 * CKPTC_STOPPED. Else returns a ckptc_status: CKPTC_USAGE, before anything is called, if a callback is missing.
 *
 * FORWARD and RECORD are called as often as the counter evaluations says, unless the plan is of a chain with `checkpoint
 * { }`, or under a policy by name: what such a region computes again belongs to BACKWARD, and is no call.
 */
CKPTC_API int ckptc_execute(const struct ckptc_plan *plan, const struct ckptc_callbacks *callbacks, void *context,
                            struct ckptc_error *error);

/* Chains of array operations: see ckptc-chain(5). */

enum ckptc_dtype {
	CKPTC_F16,
	CKPTC_BF16,
	CKPTC_F32,
	CKPTC_F64,
	CKPTC_I8,
	CKPTC_I16,
	CKPTC_I32,
	CKPTC_I64,
	CKPTC_U8,
	CKPTC_U16,
	CKPTC_U32,
	CKPTC_U64,
	CKPTC_BOOL,
};

enum { CKPTC_MAX_DIMS = 32 };

struct ckptc_array {
	int dtype; /* enum ckptc_dtype */
	int ndim;
	int64_t shape[CKPTC_MAX_DIMS];
	const void *data; /* in C order and the machine's byte order, aligned to an element; NULL: the type alone */
};
/* Returns the bytes of an array's data; -1 if the type is none. */
CKPTC_API int64_t ckptc_array_bytes(const struct ckptc_array *array);

/* A const whose value stands where a number must: a count, an extent, an axis. */
struct ckptc_number {
	const char *name;
	double value;
};

struct ckptc_chain_options {
	const struct ckptc_allocator *allocator; /* NULL: malloc. A copy is made; the chain's results use it too */
	const char *name;                        /* of the chain in messages; NULL: "<chain>" */
	const char *directory;                   /* of paths in load(); NULL: the working directory */
	const struct ckptc_number *numbers;      /* then one whose name is NULL; or NULL. Copied */
	int64_t reserved[3];
};

struct ckptc_chain;

/* Makes a chain from LENGTH bytes of TEXT, which are copied. OPTIONS may be NULL. */
CKPTC_API int ckptc_chain_new(struct ckptc_chain **chain, const char *text, size_t length,
                              const struct ckptc_chain_options *options, struct ckptc_error *error);
/*
 * Gives the param or const NAME, or that input after the first, the values of ARRAY, instead of any from the chain. The
 * values must stay in place as long as the chain is used; they may change between runs. A later array replaces it.
 */
CKPTC_API int ckptc_chain_bind(struct ckptc_chain *chain, const char *name, const struct ckptc_array *array,
                               struct ckptc_error *error);
/*
 * Binds the chain's program NAME to TARGET, as --program does: a shared object if it ends in ".so", else a command. Each
 * run starts commands, one a thread, and ends them. Of their standard error, the last line alone is kept.
 * A shared object runs in the caller's process. Its changes of floating-point control and of the thread's signal mask
 * are undone. What else it does to the process is the caller's matter: exit, faults, handlers, the working directory.
 */
CKPTC_API int ckptc_chain_program(struct ckptc_chain *chain, const char *name, const char *target,
                                  struct ckptc_error *error);
/* Return the name of the input, or of the output, that was declared as number INDEX, from 0; NULL if there are not so many. */
CKPTC_API const char *ckptc_chain_input(const struct ckptc_chain *chain, size_t index);
CKPTC_API const char *ckptc_chain_output(const struct ckptc_chain *chain, size_t index);
/* Likewise of what can be bound: inputs after the first, then params and consts. */
CKPTC_API const char *ckptc_chain_param(const struct ckptc_chain *chain, size_t index);
CKPTC_API void ckptc_chain_free(struct ckptc_chain *chain);

/*
 * Plans the chain on an input of INPUT's type under POLICY. Without INPUT it is the type that the chain declares. Bytes are exact, those of params included. A policy by
 * value plans the chain as one piece. The plan does not need the chain afterwards.
 */
CKPTC_API int ckptc_plan_chain(struct ckptc_plan **plan, struct ckptc_chain *chain, const struct ckptc_array *input,
                               const char *policy, const struct ckptc_plan_options *options, struct ckptc_error *error);

/* A row of the residual report: an array that is held when the first sweep ends. */
struct ckptc_residual {
	int64_t bytes;
	int64_t step;     /* the step that made it; -1: none did */
	const char *type; /* "f32[5,4]" */
	const char *what; /* "from the argument W1", "output of sin from <chain>:6:9 (g)" */
};
/* Sets *ROWS to the rows of PLAN, which live as long; returns their number. Only if options->residuals was set. */
CKPTC_API size_t ckptc_plan_residuals(const struct ckptc_plan *plan, const struct ckptc_residual **rows);

/* A place for a result: SIZE bytes at DATA, which is aligned to an element. DATA NULL: the result has its own. */
struct ckptc_buffer {
	void *data;
	size_t size;
};

/* The cotangent of an output; "" is the last value. */
struct ckptc_cotangent {
	const char *name;
	const struct ckptc_array *cotangent;
};

/* Zeros are the defaults. */
struct ckptc_run_options {
	const char *policy;                  /* of ckptc_grad; NULL: "auto" */
	struct ckptc_plan_options plan;      /* without its allocator and residuals */
	const char *spill;                   /* directory for states on disk, or NULL */
	const struct ckptc_array *cotangent; /* of the output; NULL: ones */
	int want_value;                      /* ckptc_grad: nonzero: the value too */
	int no_gradient;                     /* ckptc_grad: nonzero: the gradients of params alone */
	struct ckptc_buffer value, gradient; /* of exactly the result's bytes */
	const char *const *outputs;          /* ckptc_run: names of outputs to give beside the value, then NULL; or NULL */
	/*
	 * ckptc_grad: differentiates several outputs at once, by these cotangents. Those of others are 0.
	 * Then one whose name is NULL. There is no value then, and no `cotangent`. NULL: one value is differentiated.
	 */
	const struct ckptc_cotangent *cotangents;
	/*
	 * NULL, or: the run ends with CKPTC_STOPPED soon after this number is not 0. A handler of a signal or another thread may
	 * set it. It is read before each operation on a tile.
	 */
	const volatile int *stop;
	int64_t reserved[1];
};

struct ckptc_result;

/* Computes the chain's value on INPUT. */
CKPTC_API int ckptc_run(struct ckptc_result **result, struct ckptc_chain *chain, const struct ckptc_array *input,
                        const struct ckptc_run_options *options, struct ckptc_error *error);
/* Computes the gradients with respect to INPUT and to all params. */
CKPTC_API int ckptc_grad(struct ckptc_result **result, struct ckptc_chain *chain, const struct ckptc_array *input,
                         const struct ckptc_run_options *options, struct ckptc_error *error);
/* Set *ARRAY to a result, whose data live as long as RESULT or as the caller's buffer. CKPTC_USAGE: it has none. */
CKPTC_API int ckptc_result_value(const struct ckptc_result *result, struct ckptc_array *array);
CKPTC_API int ckptc_result_gradient(const struct ckptc_result *result, struct ckptc_array *array);
/* The value of the output NAME, of the run's options. */
CKPTC_API int ckptc_result_output(const struct ckptc_result *result, const char *name, struct ckptc_array *array);
/* The gradient of param NAME, or of an input after the first: f32 or f64, in which it was computed. */
CKPTC_API int ckptc_result_param(const struct ckptc_result *result, const char *name, struct ckptc_array *array);
/*
 * What ckptc_grad measured, which is what ckptc_plan_chain predicts of a run without a cotangent of its own. Zeros after
 * ckptc_run, but for peak_bytes.
 */
CKPTC_API void ckptc_result_counters(const struct ckptc_result *result, struct ckptc_counters *counters);
CKPTC_API void ckptc_result_free(struct ckptc_result *result);

#ifdef __cplusplus
}
#endif

#endif
