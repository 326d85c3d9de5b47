/*
 * The policies by value that budgets may take: which there are, what each recomputes, and the least that it takes. Private
 * to plan/.
 */
#ifndef PLAN_POLICY_CHOICES_H
#define PLAN_POLICY_CHOICES_H

#include "compile/survey.h"
#include "plan/job_parts.h"

enum {
	/* Additions in the time in which a policy is planned or surveyed, for each instruction of the region, as measured. */
	PLAN_WORK = 25000,
	SURVEY_WORK = 600,
};

/* A policy by value: what a survey says of it, and what a job with it counts. */
struct policy_choice {
	struct policy policy;
	uint64_t mark[2];
	double share;  /* cost of recomputation over a forward pass's, by the survey */
	int64_t least; /* no job with it takes less */
	size_t number; /* in the order of the list */
	bool planned;  /* COUNTERS are known */
	struct counters counters;
	const struct job *job; /* NULL: no budget has taken the plan yet */
};

/* What every region of the chain takes, by its steps. */
struct floor {
	double instrs;
	bool dots;       /* some are matmul, linear or dot */
	int64_t bytes;   /* of a slab between the two passes, at least */
	int64_t largest; /* part of BYTES that one value has, at most */
	bool whole;      /* a step that is measured works on whole arrays: before it all values are arrays */
};

struct policy_choices {
	const struct context *context;
	const struct job *base;
	struct floor floor;
	int64_t beside;     /* bytes of a job beside its slabs, at least */
	const char **names; /* those that a policy by value looks at */
	size_t name_count;
	struct policy_choice *plans; /* by share */
	size_t count, capacity;
	bool complete;    /* the list has every policy */
	double all_share; /* of the policy that keeps every value: no other has less */
};

/* Begins LIST, without policies, for BASE, which must outlive it: sets floor and beside. */
void policy_choices_begin(struct policy_choices *list, const struct context *context, const struct job *base);
/* Returns the least bytes of a job by value whose slab for a full tile takes at least BYTES. */
int64_t policy_choices_least(const struct policy_choices *list, int64_t bytes);
/*
 * Lists the policies for a region of STEP (LOWER_UNROLLED), as many as WORK additions allow. The list depends on the chain
 * alone. STATUS_LIMIT if out of memory.
 */
enum status policy_choices_fill(struct policy_choices *list, const struct step *step, double work);

#endif
