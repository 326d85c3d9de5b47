/*
 * Policies: what is kept for the backward pass. policies.def is the only list. A policy by value decides for each
 * array of the forward pass whether it may be saved. A policy by cut makes a schedule of steps. save-all is either.
 */
#ifndef SCHEDULE_POLICY_H
#define SCHEDULE_POLICY_H

#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

struct chain;
struct dictionary;
struct schedule;
struct step_costs;

enum policy_kind {
#define POLICY(ID, ...) POLICY_##ID,
#include "schedule/policies.def"
	POLICY_COUNT
};

enum policy_trait {
	TRAIT_BY_VALUE = 1, /* decides for each array whether it may be saved */
	TRAIT_LIMITED = 2,  /* takes --max-checkpoints */
	TRAIT_ON_DISK = 4,  /* may keep states on disk */
	TRAIT_COSTS = 8,    /* chooses by the costs of steps */
	/*
	 * Leaves out the head of a chain: steps whose backward passes read no states and no residuals, if they are more than
	 * half of all and a state has 64 KiB or more. Then to record them keeps nothing, and nothing needs their states again.
	 */
	TRAIT_HEAD = 16,
};

struct policy {
	enum policy_kind kind;
	const char *text; /* counts in decimal, the rest as written: "every:4", "dots+names:a", "budget:2GiB"; or NULL */
	int64_t number;   /* every:N, revolve:S, budget:BYTES, disk-revolve:S, online:S */
	const char *const *names; /* names:, names-but:, all-but: */
	const int64_t *indices;   /* by name: the index of one binding of it; NO_INDEX, or no list: all are meant */
	size_t name_count;
	const struct policy *left, *right; /* P+Q */
	int64_t max_checkpoints;           /* --max-checkpoints K, or 0 */
	bool spills;                       /* online: states beyond S go to disk */
	int64_t disk_bytes;                /* disk-revolve, online that spills: the most bytes on disk at once; 0: any */
	int64_t length; /* revolve: steps of a part that is recorded as one, if a budget chose it; else 0 */
};

/* The default policy, with which reports compare other policies. */
extern const struct policy policy_save_all;

/*
 * Parses TEXT: a name of policies.def with its argument, or several that '+' joins, each by value or save-all. Fails
 * with STATUS_USAGE, and reports the nearest name, what the argument must be, or the list of policies. POLICY's text has
 * our names for JAX's.
 */
enum status policy_parse(const struct context *context, struct policy *policy, const char *text);
/* Sets POLICY to KIND with NUMBER, which its text shows if KIND takes an argument. False if out of memory. */
bool policy_make(struct policy *policy, enum policy_kind kind, int64_t number, struct arena *arena);
/*
 * Parses each `checkpoint policy=TEXT` of a resolved CHAIN. STATUS_CHAIN unless all are right, choose by no costs, and
 * name values of the chain.
 */
enum status policy_parse_blocks(const struct context *context, struct chain *chain);
/* Fails with STATUS_USAGE, and suggests a name, if POLICY names a value that the resolved CHAIN lacks. */
enum status policy_check_names(const struct context *context, const struct policy *policy, const struct chain *chain);
/* Fails with STATUS_USAGE if POLICY names a binding beyond those that BINDINGS, by name an int64_t, has of its name. */
enum status policy_check_bindings(const struct context *context, const struct policy *policy,
                                  const struct dictionary *bindings);
/* Returns the policy that the LENGTH bytes of NAME name, in our words or JAX's; POLICY_COUNT if none. */
enum policy_kind policy_find(const char *name, size_t length);
bool policy_is(const struct policy *policy, enum policy_trait trait);
bool policy_by_value(const struct policy *policy); /* true from `nothing` to P+Q; false for save-all */
bool policy_cuts(const struct policy *policy);     /* between steps: true from every:N on */

/* An array of the forward pass under one of its names, as a policy by value sees it. */
struct policy_value {
	const char *op;   /* the operation that made it, or NULL; no policy reads it */
	bool dot;         /* matmul, linear, dot */
	bool batch;       /* a dot with batch dimensions in both operands */
	const char *name; /* the one that `name` gave it, or NULL */
	int64_t index;    /* number of earlier bindings of NAME in the chain with its loops written out */
};
bool policy_saves(const struct policy *policy, const struct policy_value *value); /* save-all: true; by cut: false */

/*
 * Returns POLICY with its N or S and its max_checkpoints limited to STEPS (to 1 if there are none), so that no user's
 * number overflows. It has the same schedule over STEPS steps, and the same text.
 */
struct policy policy_on_steps(const struct policy *policy, int64_t steps);
/*
 * Returns the schedule of POLICY over the steps of COSTS, for schedule_free; NULL if out of memory. A policy by value,
 * and `auto`, have the schedule of save-all. POLICY must not be a budget: see budget/budget.h.
 */
struct schedule *policy_schedule(const struct policy *policy, const struct step_costs *costs,
                                 const struct allocator *allocator);
/* Returns the executions of forward steps by save-all, every, sqrt, recursive or revolve; -1 for any other POLICY. */
int64_t policy_evaluations(const struct policy *policy, int64_t steps);

/* The argument of a policy, after its name and a colon. */
enum policy_argument {
	TAKES_NONE,
	TAKES_COUNT,  /* a number of at least 1 */
	TAKES_NUMBER, /* a number of at least 0 */
	TAKES_NAMES,  /* identifiers, separated by commas */
	TAKES_BYTES,
};

/* The rows of policies.def, for help, completions and tests. */
struct policy_info {
	const char *name;     /* "every" */
	const char *argument; /* "N", "a,b", "BYTES", or NULL */
	enum policy_argument takes;
	unsigned traits; /* of enum policy_trait */
	const char *doc;
};
extern const struct policy_info policy_table[POLICY_COUNT];

#endif
