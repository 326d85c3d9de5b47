/*
 * A schedule: a flat list of actions over the steps 0 .. n-1 of a chain, emitted
 * one at a time, so that a schedule of millions of actions needs no memory for
 * them. It is data: it knows no array, and what interprets it (the verifier, the
 * machine, another program by `plan --schedule`) knows no policy.
 *
 * State p is what must be known at the boundary before step p to go on: state 0
 * is the input, state n the output. At any time there is one current state or
 * none, a set of slots that hold states in memory (and others on disk), a set of
 * steps whose residuals are held, and the cotangent's position, n at first.
 */
#ifndef SCHEDULE_SCHEDULE_H
#define SCHEDULE_SCHEDULE_H

#include "base/alloc.h"
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

enum action_kind {
	ACT_FORWARD,  /* the current state, at BEGIN, is advanced to END; nothing is kept */
	ACT_RECORD,   /* the same, and the residuals of steps BEGIN .. END-1 are kept */
	ACT_SAVE,     /* the current state, at BEGIN, is kept in memory slot SLOT, which is empty */
	ACT_LOAD,     /* the state in SLOT, BEGIN, becomes current; the slot keeps it */
	ACT_DROP,     /* SLOT is emptied */
	ACT_SPILL,    /* the current state, at BEGIN, is written to disk slot SLOT */
	ACT_FETCH,    /* the state in disk slot SLOT becomes current; the slot keeps it */
	ACT_DISCARD,  /* disk slot SLOT is emptied */
	ACT_BACKWARD, /* from the residuals of steps BEGIN .. END-1, which are freed one by one, the
	                 cotangent moves from END to BEGIN; the current state is given up */
};

struct action {
	enum action_kind kind;
	int64_t begin, end; /* steps; for SAVE, LOAD, SPILL, FETCH the state is BEGIN */
	int64_t slot;
};

/*
 * One step as a policy sees it. Bytes are those of one tile; times in any one
 * unit. state is the size of the state BEFORE the step. residual is what
 * recording it keeps beyond its input state and what the residuals of other
 * steps already hold (its output state is counted in residual where it is one).
 */
struct step_cost {
	double forward, backward;
	int64_t state;    /* bytes of the state before this step */
	int64_t residual; /* bytes kept by recording it */
	int64_t forward_temporary, record_temporary,
		backward_temporary; /* workspace while it runs, input and output states not counted */
	bool keeps_input;       /* its backward reads the state before it: held, once, until then */
	bool keeps_output;      /* residual counts the state after it, which costs nothing more while that is held */
};

/* The chain as a policy sees it: equal runs are compressed. */
struct step_run {
	struct step_cost cost;
	int64_t count; /* that many equal steps one after another */
};
struct step_costs {
	const struct step_run *runs;
	size_t run_count;
	int64_t steps;                  /* the sum of counts */
	int64_t output;                 /* bytes of state n */
	int64_t fixed;                  /* bytes held throughout: params, I/O blocks, accumulators */
	double spill_write, spill_read; /* time of a state to and from disk */
};

struct schedule;
/* The next action; false at the end. Deterministic. Allocates nothing. */
bool schedule_next(struct schedule *schedule, struct action *action);
/* Back to the first action. */
void schedule_rewind(struct schedule *schedule);
/* Another reader of the same actions, at the first; NULL where memory is short. */
struct schedule *schedule_copy(const struct schedule *schedule);
/* Memory slots that are in use at once at most (slots are numbered below this), and disk slots. */
int64_t schedule_slots(const struct schedule *schedule);
int64_t schedule_disk_slots(const struct schedule *schedule);
void schedule_free(struct schedule *schedule);

/*
 * The abstract verifier: interprets a schedule over COSTS, checks every
 * precondition, that the first sweep comes first, that each step is reversed
 * exactly once, that no slot leaks, and counts.
 *
 * Bytes at any time: fixed; each state that is current, in a slot or kept as an
 * input by a recorded step, once however many hold it, unless it is counted in
 * the residuals of the step before it; the residuals held; the cotangent at its
 * position, from the first BACKWARD on. While a step runs forward the states on
 * both sides of it are there, while it is reversed the cotangents on both
 * sides, and its workspace.
 */
struct verdict {
	bool valid;
	int64_t actions;      /* interpreted before the end or the first wrong one */
	const char *wrong;    /* what is wrong with the action at that index */
	struct action action; /* that action */
	int64_t evaluations;  /* forward executions of a step, recording ones included */
	int64_t checkpoints;  /* states in slots at once at most */
	int64_t spill_writes, spill_reads;
	double time;  /* sum of forward and backward costs executed, and of writes and reads on disk */
	int64_t peak; /* bytes, by the model above */
};
/* STATUS_LIMIT where memory for its tables is short. */
enum status schedule_verify(struct schedule *schedule, const struct step_costs *costs,
                            const struct allocator *allocator, struct verdict *verdict, struct diags *diags);

/*
 * The same, and WATCH sees what is done as it is done. PART, unless NULL: an action,
 * or one of at most 64 parts of an action that goes over many steps; from FROM to TO
 * by the time of the verdict, LIVE the most bytes in use meanwhile; AGAIN where a
 * FORWARD or RECORD is not of the first sweep. False from it ends the walk as
 * where memory is short. WANTED, unless NULL: the verdict so far, after each action;
 * false from it ends the walk with a verdict that is not valid.
 */
struct schedule_watch {
	bool (*part)(void *context, const struct action *part, double from, double to, int64_t live, bool again);
	void *context;
	bool (*wanted)(void *context, const struct verdict *verdict);
};
enum status schedule_follow(struct schedule *schedule, const struct step_costs *costs,
                            const struct allocator *allocator, const struct schedule_watch *watch,
                            struct verdict *verdict, struct diags *diags);

/* What the machine counts, when it plans and when the evaluator runs. */
struct counters {
	int64_t steps, evaluations, checkpoints;
	int64_t stored_bytes, peak_bytes;
	int64_t spill_writes, spill_reads;
	int64_t spill_bytes;                /* written to disk in all */
	int64_t spill_state;                /* of the largest state that is */
	double forward_cost, backward_cost; /* of one forward and backward pass */
	double recomputed_cost;
};

const char *action_name(enum action_kind kind); /* "forward" ... */

#endif
