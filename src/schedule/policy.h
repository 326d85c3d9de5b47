/*
 * Policies: what is kept for the backward pass. policies.def is the only list.
 * A policy by value says of each array of the forward pass whether it may be
 * saved; a policy by cut makes a schedule of steps. A policy runs nothing.
 */
#ifndef SCHEDULE_POLICY_H
#define SCHEDULE_POLICY_H

#include "schedule/schedule.h"

enum policy_kind {
#define POLICY(ID, ...) POLICY_##ID,
#include "schedule/policies.def"
	POLICY_COUNT
};

enum policy_trait {
	TRAIT_BY_VALUE = 1, /* says of each array whether it may be saved */
	TRAIT_LIMITED = 2,  /* max_checkpoints means something to it */
	TRAIT_ON_DISK = 4,  /* may keep states there */
};

struct policy {
	enum policy_kind kind;
	const char *text;         /* canonical, bytes as written: "every:4", "names:a,b", "dots+names:a", "budget:2GiB" */
	int64_t number;           /* every:N, revolve:S, budget:BYTES, disk-revolve:S, online:S */
	const char *const *names; /* names:, names-but:, all-but: */
	size_t name_count;
	const struct policy *left, *right; /* P+Q */
	int64_t max_checkpoints;           /* --max-checkpoints K, or 0 */
	int64_t length; /* revolve's, where budget made it: steps of a part that is recorded as one; or 0 */
};

/* What others are compared to, and the default. */
extern const struct policy policy_save_all;

/*
 * Parses TEXT: a name of policies.def with its argument, joined by '+' where
 * both sides are by value. STATUS_USAGE with the nearest name, what the argument
 * must be, or the list of policies.
 */
enum status policy_parse(struct policy *policy, const char *text, struct arena *arena, struct diags *diags);
/* Bytes: "1500", "64K" (1000s: K M G T), "64KiB" (1024s: KiB MiB GiB TiB); fractions allowed. STATUS_USAGE. */
enum status bytes_parse(const char *text, int64_t *bytes, struct diags *diags);
/* The same for `checkpoint policy=TEXT` at SPAN of SOURCE: one by value. STATUS_CHAIN. */
enum status policy_parse_block(struct policy *policy, const char *text, const struct source *source, struct span span,
                               struct arena *arena, struct diags *diags);
bool policy_is(const struct policy *policy, enum policy_trait trait);
bool policy_by_value(const struct policy *policy); /* nothing ... P+Q; save-all is both and says false */

/* An array of the forward pass, as a policy by value sees it. */
struct policy_value {
	const char *op;   /* the operation that made it; NULL for a name */
	bool dot;         /* matmul, linear, dot */
	bool batch;       /* ... with batch dimensions in both operands */
	const char *name; /* its name where `name` gave one, else NULL */
};
bool policy_saves(const struct policy *policy, const struct policy_value *value);

/*
 * POLICY with its numbers of steps and of states no larger than STEPS, as a chain of so
 * many tells no larger ones apart; its text is as it was. What counts with them goes
 * through this, so that no number of a user's is too large for it.
 */
struct policy policy_on_steps(const struct policy *policy, int64_t steps);
/*
 * The schedule of a policy by cut (save-all included: RECORD all, BACKWARD all).
 * STATUS_LIMIT where it is infeasible, naming the least feasible bytes.
 */
enum status policy_schedule(const struct policy *policy, const struct step_costs *costs,
                            const struct allocator *allocator, struct schedule **schedule, struct diags *diags);

/*
 * What a schedule takes in truth, where the caller knows better than the verifier:
 * COUNTERS, and *PEAK in the verifier's bytes, costs->fixed among them. FAMILY made
 * the schedule; where its kind is budget, a planner of budget.c did. Where it takes
 * more than MOST, more than that is all there is to say. The truth is not less than
 * SHARE of what the verifier says above costs->fixed, less SLACK bytes.
 */
struct budget_judge {
	enum status (*peak)(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
	                    struct counters *counters, int64_t *peak, struct diags *diags);
	void *context;
	double share;
	int64_t slack;
};

/* A budget of BYTES, and the schedule of least time that was found for it. */
struct budget_goal {
	int64_t bytes;
	struct schedule *schedule; /* NULL where there is none; then */
	int64_t least;             /* is the least bytes for which there is one */
	struct policy family;      /* what made the schedule */
	double time;               /* by the verifier */
	int64_t peak;              /* by the judge, where there is one, else by the verifier */
	struct counters counters;  /* by the judge, where there is one */
};

/*
 * Seeks for each of COUNT GOALS, by its bytes, the schedule of least time over COSTS
 * that takes at most so many, as JUDGE (NULL: the verifier) says: the same whatever
 * the other goals are, in hardly more time than for one. The time does not rise with
 * bytes. STATUS_LIMIT where memory is short; then no schedule is left.
 */
enum status budget_search(const struct step_costs *costs, struct budget_goal *goals, size_t count,
                          const struct budget_judge *judge, const struct allocator *allocator, struct diags *diags);
/* The least bytes for which budget:BYTES is feasible over COSTS, as the verifier counts. STATUS_LIMIT. */
enum status budget_least(const struct step_costs *costs, const struct allocator *allocator, int64_t *least,
                         struct diags *diags);
/* Says that BYTES are too few and LEAST would do, where OPTION ("budget:", "--memory ") said BYTES. STATUS_LIMIT. */
enum status budget_infeasible(int64_t bytes, int64_t least, const char *option, struct diags *diags);

/* The disk's costs where none is known: as in disk-revolve's paper, five steps (of the mean forward cost) each. */
double assumed_spill_cost(const struct step_costs *costs);

/*
 * Griewank and Walther 2000: evaluations (recording ones included) of revolve with
 * S snapshots over L steps; INT64_MAX where no schedule does with so few.
 */
int64_t revolve_evaluations(int64_t steps, int64_t snapshots);
/* Evaluations of any cut policy where a closed form is known, else -1. */
int64_t policy_evaluations(const struct policy *policy, int64_t steps);

/* The rows of policies.def, for help, completions and tests. */
struct policy_info {
	const char *name;     /* "every" */
	const char *argument; /* "N", "a,b", "BYTES", or NULL */
	unsigned traits;      /* of enum policy_trait */
	const char *doc;
};
extern const struct policy_info policy_table[POLICY_COUNT];

#endif
