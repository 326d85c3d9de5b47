/*
 * Policies as text, as rules over values, and as makers of schedules. What a
 * policy is named and takes is read from policies.def alone; what it keeps by
 * value is policy_saves, what it emits is a file for each family.
 */
#include "schedule/policy.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "schedule/emit.h"

enum argument { NONE, COUNT, NUMBER, NAMES, BYTES };

const struct policy_info policy_table[POLICY_COUNT] = {
#define POLICY(ID, NAME, ARGUMENT, PLACEHOLDER, TRAITS, DOC) {NAME, PLACEHOLDER, TRAITS, DOC},
#include "schedule/policies.def"
};

static const enum argument argument_kinds[POLICY_COUNT] = {
#define POLICY(ID, NAME, ARGUMENT, ...) ARGUMENT,
#include "schedule/policies.def"
};

const struct policy policy_save_all = {.kind = POLICY_save_all, .text = "save-all"};

/* Text. */

struct parser {
	struct arena *arena;
	struct diags *diags;
	bool block; /* of a checkpoint block */
};

static bool name_equal(const char *name, const char *text, size_t length)
{
	return name && strlen(name) == length && memcmp(name, text, length) == 0;
}

static enum status unknown_policy(const struct parser *p, const char *text, size_t length)
{
	const char *names[POLICY_COUNT];
	size_t count = 0;
	const char *list = "";
	for (int i = 0; i < POLICY_COUNT; i++) {
		const char *name = policy_table[i].name, *argument = policy_table[i].argument;
		if (!name || (p->block && !(policy_table[i].traits & TRAIT_BY_VALUE) && i != POLICY_save_all))
			continue;
		names[count++] = name;
		list = arena_printf(p->arena, "%s%s%s%s%s", list, count > 1 ? ", " : "", name, argument ? ":" : "",
		                    argument ? argument : "");
		if (!list)
			return diag_memory(p->diags);
	}
	const char *name = arena_strndup(p->arena, text, length);
	if (!name)
		return diag_memory(p->diags);
	const char *near = suggest_nearest(name, names, count);
	enum status status =
		near ? diag_file(p->diags, STATUS_USAGE, NULL, -1, "unknown policy '%s'; did you mean '%s'?", name, near)
			 : diag_file(p->diags, STATUS_USAGE, NULL, -1, "unknown policy '%s'", name);
	diag_hint(p->diags, "policies are %s, and P+Q", list);
	return status;
}

/* "every needs a number of steps: every:N" and the like. */
static enum status wrong_argument(const struct parser *p, enum policy_kind kind, const char *problem)
{
	const struct policy_info *info = &policy_table[kind];
	static const char *const wants[] = {[NONE] = "",
	                                    [COUNT] = "a whole number of at least 1",
	                                    [NUMBER] = "a whole number of at least 0",
	                                    [NAMES] = "one name or more, separated by commas",
	                                    [BYTES] = "a number of bytes such as 64MiB"};
	enum status status = diag_file(p->diags, STATUS_USAGE, NULL, -1, "policy '%s' %s", info->name, problem);
	diag_hint(p->diags, "%s:%s, where %s is %s", info->name, info->argument, info->argument,
	          wants[argument_kinds[kind]]);
	return status;
}

static enum status parse_count(const struct parser *p, struct policy *policy, const char *text)
{
	int64_t number = 0;
	for (const char *c = text; *c; c++)
		if (*c < '0' || *c > '9' || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, *c - '0', &number))
			return wrong_argument(p, policy->kind, arena_printf(p->arena, "cannot take '%s'", text));
	if (!*text || number < (argument_kinds[policy->kind] == COUNT))
		return wrong_argument(p, policy->kind, *text ? "needs at least 1" : "needs a number");
	policy->number = number;
	policy->text = arena_printf(p->arena, "%s:%lld", policy_table[policy->kind].name, (long long)number);
	return policy->text ? STATUS_OK : diag_memory(p->diags);
}

static bool name_character(char c, bool first)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9');
}

static enum status parse_names(const struct parser *p, struct policy *policy, const char *text)
{
	const char **names = NULL;
	size_t capacity = 0, count = 0;
	for (const char *at = text;;) {
		size_t length = strcspn(at, ",");
		for (size_t i = 0; i < length; i++)
			if (!name_character(at[i], i == 0))
				return wrong_argument(p, policy->kind, arena_printf(p->arena, "cannot take '%s'", text));
		if (length == 0)
			return wrong_argument(p, policy->kind, *text ? "has an empty name in its list" : "needs names");
		names = arena_grow(p->arena, names, count, &capacity, sizeof *names);
		const char *name = arena_strndup(p->arena, at, length);
		if (!names || !name)
			return diag_memory(p->diags);
		names[count++] = name;
		at += length;
		if (!*at)
			break;
		at++;
	}
	policy->names = names;
	policy->name_count = count;
	policy->text = arena_printf(p->arena, "%s:%s", policy_table[policy->kind].name, text);
	return policy->text ? STATUS_OK : diag_memory(p->diags);
}

static enum status parse_one(const struct parser *p, struct policy *policy, const char *text, size_t length)
{
	size_t name_length = 0;
	while (name_length < length && text[name_length] != ':')
		name_length++;
	int kind = 0;
	while (kind < POLICY_COUNT && !name_equal(policy_table[kind].name, text, name_length))
		kind++;
	if (kind == POLICY_COUNT)
		return unknown_policy(p, text, name_length);
	policy->kind = (enum policy_kind)kind;
	bool given = name_length < length;
	if (argument_kinds[kind] == NONE) {
		policy->text = policy_table[kind].name;
		return given ? diag_file(p->diags, STATUS_USAGE, NULL, -1, "policy '%s' takes no argument", policy->text)
		             : STATUS_OK;
	}
	size_t skip = name_length + given;
	const char *argument = arena_strndup(p->arena, text + skip, length - skip);
	if (!argument)
		return diag_memory(p->diags);
	if (argument_kinds[kind] == COUNT || argument_kinds[kind] == NUMBER)
		return parse_count(p, policy, argument);
	if (argument_kinds[kind] == NAMES)
		return parse_names(p, policy, argument);
	if (!*argument)
		return wrong_argument(p, policy->kind, "needs a size");
	enum status status = bytes_parse(argument, &policy->number, p->diags);
	if (status)
		return status;
	if (policy->number < 1)
		return wrong_argument(p, policy->kind, "needs at least 1 byte");
	policy->text = arena_strndup(p->arena, text, length);
	return policy->text ? STATUS_OK : diag_memory(p->diags);
}

static enum status parse(const struct parser *p, struct policy *policy, const char *text)
{
	const char *whole = text;
	*policy = (struct policy){.kind = POLICY_save_all};
	const char *plus = strchr(text, '+');
	enum status status = parse_one(p, policy, text, plus ? (size_t)(plus - text) : strlen(text));
	/* From the left: P+Q+R is (P+Q)+R; a long list makes a list, not a deep call. */
	while (status == STATUS_OK && plus) {
		text = plus + 1;
		plus = strchr(text, '+');
		struct policy *sides = arena_array(p->arena, 2, sizeof *sides);
		if (!sides)
			return diag_memory(p->diags);
		sides[0] = *policy;
		status = parse_one(p, &sides[1], text, plus ? (size_t)(plus - text) : strlen(text));
		if (status)
			return status;
		for (int i = 0; i < 2; i++)
			if (!policy_by_value(&sides[i]) && sides[i].kind != POLICY_save_all)
				return diag_file(p->diags, STATUS_USAGE, NULL, -1,
				                 "policy '%s' cannot be joined by '+': it cuts the chain between steps", sides[i].text);
		*policy = (struct policy){.kind = POLICY_either, .left = &sides[0], .right = &sides[1]};
	}
	if (status || policy->kind != POLICY_either)
		return status;
	policy->text = arena_strndup(p->arena, whole, strlen(whole));
	return policy->text ? STATUS_OK : diag_memory(p->diags);
}

enum status policy_parse(struct policy *policy, const char *text, struct arena *arena, struct diags *diags)
{
	return parse(&(struct parser){arena, diags, false}, policy, text);
}

enum status policy_parse_block(struct policy *policy, const char *text, const struct source *source, struct span span,
                               struct arena *arena, struct diags *diags)
{
	enum status status = parse(&(struct parser){arena, diags, true}, policy, text);
	if (status)
		return status == STATUS_USAGE ? diag_move(diags, STATUS_CHAIN, source, span) : status;
	if (policy_by_value(policy) || policy->kind == POLICY_save_all)
		return STATUS_OK;
	diag_at(diags, STATUS_CHAIN, source, span, "'%s' cuts a chain into segments and can't be the policy of a block",
	        policy->text);
	diag_hint(diags, "a block takes a policy by value, such as dots or \"names:a,b\"");
	return STATUS_CHAIN;
}

bool policy_is(const struct policy *policy, enum policy_trait trait)
{
	return (policy_table[policy->kind].traits & trait) != 0;
}

static enum status wrong_bytes(const char *text, struct diags *diags)
{
	enum status status = diag_file(diags, STATUS_USAGE, NULL, -1, "'%s' is not a number of bytes", text);
	diag_hint(
		diags,
		"write it like 1500, 64K (thousands), 64KiB (1024s), 1.5GiB; units are K, M, G, T and KiB, MiB, GiB, TiB");
	return status;
}

enum status bytes_parse(const char *text, int64_t *bytes, struct diags *diags)
{
	static const char units[] = "KMGT";
	/* Digits by hand: strtod would take hexadecimal, nan, and the locale's comma. */
	long double value = 0, place = 1;
	const char *c = text;
	bool digits = false;
	for (; *c >= '0' && *c <= '9'; c++, digits = true)
		value = value * 10 + (*c - '0');
	if (*c == '.')
		for (c++; *c >= '0' && *c <= '9'; c++, digits = true)
			value += (*c - '0') * (place /= 10);
	if (!digits)
		return wrong_bytes(text, diags);
	const char *unit = *c ? strchr(units, toupper((unsigned char)*c)) : NULL;
	if (unit) {
		c++;
		long double base = 1000;
		if (*c == 'i') {
			base = 1024;
			c++;
			if (*c != 'B')
				return wrong_bytes(text, diags);
		}
		for (const char *u = units; u <= unit; u++)
			value *= base;
	}
	if (*c == 'B')
		c++;
	if (*c)
		return wrong_bytes(text, diags);
	if (value >= 9223372036854775807.0L)
		return diag_file(diags, STATUS_USAGE, NULL, -1, "'%s' is more bytes than can be counted", text);
	*bytes = (int64_t)floorl(value + 1e-9L);
	return STATUS_OK;
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
	/* P+Q+R leans to the left: no recursion is needed but for the right sides, which are plain. */
	for (; policy->kind == POLICY_either; policy = policy->left)
		if (policy_saves(policy->right, value))
			return true;
	return saves_alone(policy, value);
}

/* Schedules. */

static int64_t square_root_up(int64_t n)
{
	int64_t root = (int64_t)sqrt((double)n);
	while (root > 0 && (root - 1) * (root - 1) >= n)
		root--;
	while (root * root < n)
		root++;
	return root > 0 ? root : 1;
}

/* The snapshots of revolve and online: --max-checkpoints may allow fewer than S. */
static int64_t snapshots_of(const struct policy *policy)
{
	bool fewer = policy->max_checkpoints > 0 && policy->max_checkpoints < policy->number;
	return fewer ? policy->max_checkpoints : policy->number;
}

struct policy policy_on_steps(const struct policy *policy, int64_t steps)
{
	const int64_t all = steps > 0 ? steps : 1;
	struct policy made = *policy;
	const bool counts = argument_kinds[policy->kind] == COUNT || argument_kinds[policy->kind] == NUMBER;
	if (counts && made.number > all)
		made.number = all;
	if (made.max_checkpoints > all)
		made.max_checkpoints = all;
	return made;
}

enum status policy_schedule(const struct policy *policy, const struct step_costs *costs,
                            const struct allocator *allocator, struct schedule **schedule, struct diags *diags)
{
	struct emit_context context = {allocator, diags, schedule};
	int64_t steps = costs->steps, all = steps > 0 ? steps : 1;
	const struct policy made = policy_on_steps(policy, steps);
	*schedule = NULL;
	switch (made.kind) {
	case POLICY_every:
		return segments_schedule(&context, steps, made.number, made.max_checkpoints);
	case POLICY_sqrt:
		return segments_schedule(&context, steps, square_root_up(steps), made.max_checkpoints);
	case POLICY_recursive:
		return recursive_schedule(&context, steps);
	case POLICY_revolve:
		return revolve_parts_schedule(&context, steps, made.length ? made.length : 1, snapshots_of(&made));
	case POLICY_online:
		return online_schedule(&context, steps, snapshots_of(&made));
	case POLICY_disk_revolve:
		return disk_revolve_schedule(&context, costs, snapshots_of(&made));
	case POLICY_auto:
		if (made.number <= 0)
			return segments_schedule(&context, steps, all, 0);
		return budget_schedule(&context, costs, made.number, "--memory ");
	case POLICY_budget:
		return budget_schedule(&context, costs, made.number, "budget:");
	default:
		/* By value the chain is one region, recorded and reversed as a whole. */
		return segments_schedule(&context, steps, all, 0);
	}
}

int64_t policy_evaluations(const struct policy *policy, int64_t steps)
{
	const struct policy made = policy_on_steps(policy, steps);
	switch (made.kind) {
	case POLICY_save_all:
		return steps;
	case POLICY_every:
		return segments_evaluations(steps, made.number, made.max_checkpoints);
	case POLICY_sqrt:
		return segments_evaluations(steps, square_root_up(steps), made.max_checkpoints);
	case POLICY_recursive:
		return recursive_evaluations(steps);
	case POLICY_revolve:
		return revolve_parts_evaluations(steps, made.length ? made.length : 1, snapshots_of(&made));
	default:
		return -1;
	}
}
