/*
 * Policies as rules over values, and as makers of schedules. policies.def alone has their
 * names and arguments; each family of schedules has a file of its own.
 */
#include "schedule/policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "schedule/families.h"

const struct policy_info policy_table[POLICY_COUNT] = {
#define POLICY(ID, NAME, ARGUMENT, PLACEHOLDER, TRAITS, DOC) {NAME, PLACEHOLDER, TAKES_##ARGUMENT, TRAITS, DOC},
#include "schedule/policies.def"
};

const struct policy policy_save_all = {.kind = POLICY_save_all, .text = "save-all"};

bool policy_is(const struct policy *policy, enum policy_trait trait)
{
	return (policy_table[policy->kind].traits & trait) != 0;
}

/* Values. */

bool policy_by_value(const struct policy *policy) { return policy_is(policy, TRAIT_BY_VALUE); }

static bool names_hold(const struct policy *policy, const char *name)
{
	for (size_t i = 0; i < policy->name_count; i++)
		if (strcmp(policy->names[i], name) == 0)
			return true;
	return false;
}

static bool saves_alone(const struct policy *policy, const struct policy_value *value)
{
	switch (policy->kind) {
	case POLICY_dots:
		return value->dot;
	case POLICY_dots_no_batch:
		return value->dot && !value->batch;
	case POLICY_names:
		return value->name && names_hold(policy, value->name);
	case POLICY_names_but:
		return value->name && !names_hold(policy, value->name);
	case POLICY_all_but:
		return !value->name || !names_hold(policy, value->name);
	default:
		return policy->kind == POLICY_save_all;
	}
}

bool policy_saves(const struct policy *policy, const struct policy_value *value)
{
	/* P+Q+R is (P+Q)+R: the right sides are plain, so the recursion is one deep. */
	for (; policy->kind == POLICY_either; policy = policy->left)
		if (policy_saves(policy->right, value))
			return true;
	return saves_alone(policy, value);
}

/* Schedules. */

static int64_t square_root_up(int64_t n)
{
	int64_t root = larger((int64_t)sqrt((double)n) - 1, 1);
	while (root * root < n)
		root++;
	return root;
}

struct policy policy_on_steps(const struct policy *policy, int64_t steps)
{
	const int64_t all = steps > 0 ? steps : 1;
	struct policy made = *policy;
	const enum policy_argument argument = policy_table[policy->kind].takes;
	if ((argument == TAKES_COUNT || argument == TAKES_NUMBER) && made.number > all)
		made.number = all;
	if (made.max_checkpoints > all)
		made.max_checkpoints = all;
	return made;
}

/* POLICY on STEPS as its family takes it: with sqrt and save-all as every:N, and S no larger than the limit allows. */
static struct policy as_family(const struct policy *policy, int64_t steps)
{
	struct policy made = policy_on_steps(policy, steps);
	if (made.kind == POLICY_sqrt) {
		made.kind = POLICY_every;
		made.number = square_root_up(steps);
	} else if (!policy_is(&made, TRAIT_LIMITED) && made.kind != POLICY_recursive) {
		/* A policy by value records and reverses the chain as one region. */
		assert(made.kind != POLICY_budget);
		made = (struct policy){.kind = POLICY_every, .number = steps > 0 ? steps : 1};
	} else if (made.kind != POLICY_every && made.max_checkpoints > 0 && made.max_checkpoints < made.number) {
		made.number = made.max_checkpoints;
	}
	made.length = made.length ? made.length : 1;
	return made;
}

struct schedule *policy_schedule(const struct policy *policy, const struct step_costs *costs,
                                 const struct allocator *allocator)
{
	const int64_t steps = costs->steps;
	const struct policy made = as_family(policy, steps);
	switch (made.kind) {
	case POLICY_recursive:
		return recursive_schedule(allocator, steps);
	case POLICY_revolve:
		return revolve_schedule(allocator, steps, made.length, made.number);
	case POLICY_online:
		return online_schedule(allocator, steps, made.number);
	case POLICY_disk_revolve:
		return disk_revolve_schedule(allocator, costs, made.number);
	default:
		return segments_schedule(allocator, steps, made.number, made.max_checkpoints);
	}
}

int64_t policy_evaluations(const struct policy *policy, int64_t steps)
{
	if (policy_by_value(policy) || policy_is(policy, TRAIT_ON_DISK))
		return -1;
	const struct policy made = as_family(policy, steps);
	switch (made.kind) {
	case POLICY_every:
		return segments_evaluations(steps, made.number, made.max_checkpoints);
	case POLICY_recursive:
		return recursive_evaluations(steps);
	case POLICY_revolve:
		return revolve_evaluations(steps, made.length, made.number);
	default:
		return -1;
	}
}
