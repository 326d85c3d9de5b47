/*
 * Policies as rules over values, as makers of schedules, and as text. policies.def alone has
 * their names and arguments; each family of schedules has a file of its own.
 * Tests: tests/unit/test_policy.c
 */
#include "schedule/policy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/suggest.h"
#include "base/text.h"
#include "language/chain.h"
#include "schedule/families.h"

const struct policy_info policy_table[POLICY_COUNT] = {
#define POLICY(ID, NAME, ARGUMENT, PLACEHOLDER, TRAITS, DOC) {NAME, PLACEHOLDER, TAKES_##ARGUMENT, TRAITS, DOC},
#include "schedule/policies.def"
};

/* Names that stand for a policy: its own, then JAX's. */
static const struct policy_name {
	const char *name;
	enum policy_kind kind;
} policy_names[] = {
#define POLICY(ID, NAME, ...) {NAME, POLICY_##ID},
#include "schedule/policies.def"
#define POLICY_ALIAS(ID, NAME) {NAME, POLICY_##ID},
#include "schedule/policies.def"
};
enum { NAME_COUNT = sizeof policy_names / sizeof *policy_names };

const struct policy policy_save_all = {.kind = POLICY_save_all, .text = "save-all"};

bool policy_is(const struct policy *policy, enum policy_trait trait)
{
	return (policy_table[policy->kind].traits & trait) != 0;
}

bool policy_by_value(const struct policy *policy) { return policy_is(policy, TRAIT_BY_VALUE); }

bool policy_cuts(const struct policy *policy) { return !policy_by_value(policy) && policy->kind != POLICY_save_all; }

/* Returns the index of the one binding of name I of POLICY that is meant, or NO_INDEX. */
static int64_t index_of_name(const struct policy *policy, size_t i)
{
	return policy->indices ? policy->indices[i] : NO_INDEX;
}

static bool names_hold(const struct policy *policy, const struct policy_value *value)
{
	for (size_t i = 0; i < policy->name_count; i++)
		if (strcmp(policy->names[i], value->name) == 0 &&
		    (index_of_name(policy, i) == NO_INDEX || index_of_name(policy, i) == value->index))
			return true;
	return false;
}

bool policy_saves(const struct policy *policy, const struct policy_value *value)
{
	/* P+Q+R is (P+Q)+R: no right side is a sum, so the recursion is one deep. */
	for (; policy->kind == POLICY_either; policy = policy->left)
		if (policy_saves(policy->right, value))
			return true;
	switch (policy->kind) {
	case POLICY_dots:
		return value->dot;
	case POLICY_dots_no_batch:
		return value->dot && !value->batch;
	case POLICY_names:
		return value->name && names_hold(policy, value);
	case POLICY_names_but:
		return value->name && !names_hold(policy, value);
	case POLICY_all_but:
		return !value->name || !names_hold(policy, value);
	default:
		return policy->kind == POLICY_save_all;
	}
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

/* Returns POLICY for its family: sqrt, save-all and policies by value as every:N, and S at most --max-checkpoints. */
static struct policy as_family(const struct policy *policy, int64_t steps)
{
	struct policy made = policy_on_steps(policy, steps);
	if (made.kind == POLICY_sqrt) {
		made.kind = POLICY_every;
		made.number = greater((int64_t)sqrt((double)steps) - 1, 1);
		while (made.number * made.number < steps)
			made.number++;
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

/* Returns how many states POLICY, online:S, may keep on disk. */
static int64_t states_on_disk(const struct policy *policy, const struct step_costs *costs)
{
	if (!policy->spills || !policy->disk_bytes)
		return policy->spills ? costs->steps : 0;
	return policy->disk_bytes / greater(step_costs_largest_state(costs), 1);
}

/* Returns the schedule of POLICY over STEPS steps, the last ones of COSTS. */
static struct schedule *cut_schedule(const struct policy *policy, const struct step_costs *costs, int64_t steps,
                                     const struct allocator *allocator)
{
	const struct policy made = as_family(policy, steps);
	switch (made.kind) {
	case POLICY_recursive:
		return recursive_schedule(allocator, steps);
	case POLICY_revolve:
		return revolve_schedule(allocator, steps, made.length, made.number, false);
	case POLICY_online:
		return online_schedule(allocator, steps, made.number, states_on_disk(&made, costs));
	case POLICY_disk_revolve:
		return disk_revolve_schedule(allocator, costs, made.number, made.disk_bytes);
	default:
		return segments_schedule(allocator, steps, made.number, made.max_checkpoints);
	}
}

struct schedule *policy_schedule(const struct policy *policy, const struct step_costs *costs,
                                 const struct allocator *allocator)
{
	const int64_t head = policy_is(policy, TRAIT_HEAD) ? costs->head : 0;
	struct schedule *schedule = cut_schedule(policy, costs, costs->steps - head, allocator);
	if (schedule)
		schedule_add_head(schedule, head);
	return schedule;
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

enum policy_kind policy_find(const char *name, size_t length)
{
	for (const struct policy_name *known = policy_names; known < policy_names + NAME_COUNT; known++)
		if (known->name && strlen(known->name) == length && memcmp(known->name, name, length) == 0)
			return known->kind;
	return POLICY_COUNT;
}

/* Reports that no policy is called NAME. BLOCK, here and below: it is a block's policy, so none that chooses by costs is suggested. */
static enum status unknown_policy(const struct context *context, bool block, const char *name)
{
	const char *names[NAME_COUNT];
	size_t count = 0;
	const char *list = "";
	for (size_t i = 0; i < NAME_COUNT; i++) {
		const enum policy_kind kind = policy_names[i].kind;
		const char *known = policy_names[i].name, *argument = policy_table[kind].argument;
		if (!known || (block && policy_table[kind].traits & TRAIT_COSTS))
			continue;
		names[count++] = known;
		if (known != policy_table[kind].name) /* the list has ours alone */
			continue;
		list = arena_printf(context->arena, "%s%s%s%s%s", list, count > 1 ? ", " : "", known, argument ? ":" : "",
		                    argument ? argument : "");
		TRY_ALLOC(list, context->diags);
	}
	const char *near = suggest_nearest(name, names, count);
	diag_file(context->diags, STATUS_USAGE, NULL, -1, "unknown policy '%s'%s%s%s", name, near ? "; did you mean '" : "",
	          near ? near : "", near ? "'?" : "");
	return diag_hint(context->diags, "policies are %s, and P+Q", list);
}

/* Reports PROBLEM with the argument of KIND, and what the argument must be. */
static enum status wrong_argument(const struct context *context, enum policy_kind kind, const char *problem)
{
	const struct policy_info *info = &policy_table[kind];
	static const char *const wants[] = {[TAKES_NONE] = "",
	                                    [TAKES_COUNT] = "a whole number of at least 1",
	                                    [TAKES_NUMBER] = "a whole number of at least 0",
	                                    [TAKES_NAMES] = "one name or more, separated by commas",
	                                    [TAKES_BYTES] = "a number of bytes such as 64MiB"};
	diag_file(context->diags, STATUS_USAGE, NULL, -1, "policy '%s' %s", info->name, problem);
	return diag_hint(context->diags, "%s:%s, where %s is %s", info->name, info->argument, info->argument,
	                 wants[info->takes]);
}

bool policy_make(struct policy *policy, enum policy_kind kind, int64_t number, struct arena *arena)
{
	const struct policy_info *info = &policy_table[kind];
	*policy = (struct policy){.kind = kind, .text = info->name, .number = number};
	if (info->takes != TAKES_NONE)
		policy->text = arena_printf(arena, "%s:%lld", info->name, (long long)number);
	return policy->text != NULL;
}

static enum status parse_limit(const struct context *context, struct policy *policy, const char *text)
{
	int64_t number = 0;
	for (const char *c = text; *c; c++)
		if (*c < '0' || *c > '9' || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, *c - '0', &number))
			return wrong_argument(context, policy->kind, arena_printf(context->arena, "cannot take '%s'", text));
	if (!*text || number < (policy_table[policy->kind].takes == TAKES_COUNT))
		return wrong_argument(context, policy->kind, *text ? "needs at least 1" : "needs a number");
	return policy_make(policy, policy->kind, number, context->arena) ? STATUS_OK : diag_memory(context->diags);
}

static bool name_character(char c, bool first)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9');
}

/* Returns the K of the LENGTH bytes NAME[K] at TEXT, and makes *LENGTH that of NAME; NO_INDEX if there is no [K]. */
static int64_t take_binding(const char *text, size_t *length)
{
	size_t at = *length, digits = 0;
	int64_t index = 0, power = 1;
	if (at < 4 || text[at - 1] != ']')
		return NO_INDEX;
	for (at--; at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && digits < 18; digits++, power *= 10)
		index += power * (text[--at] - '0');
	if (digits == 0 || at < 2 || text[at - 1] != '[')
		return NO_INDEX;
	*length = at - 1;
	return index;
}

static enum status parse_value_names(const struct context *context, struct policy *policy, const char *text)
{
	size_t capacity = 0, count = 0, most = 0;
	for (const char *at = text;; at++) {
		const size_t whole = strcspn(at, ",");
		size_t length = whole;
		int64_t *index = arena_append(context->arena, &policy->indices, &count, &most, sizeof *index);
		TRY_ALLOC(index, context->diags);
		*index = take_binding(at, &length);
		for (size_t i = 0; i < length; i++)
			if (!name_character(at[i], i == 0))
				return wrong_argument(context, policy->kind, arena_printf(context->arena, "cannot take '%s'", text));
		if (length == 0)
			return wrong_argument(context, policy->kind, *text ? "has an empty name in its list" : "needs names");
		const char **name = arena_append(context->arena, &policy->names, &policy->name_count, &capacity, sizeof *name);
		TRY_ALLOC(name, context->diags);
		*name = arena_strndup(context->arena, at, length);
		TRY_ALLOC(*name, context->diags);
		at += whole;
		if (!*at)
			return STATUS_OK;
	}
}

/* A policy as people write it: a name of LENGTH bytes, and an argument at ARGUMENT of COUNT bytes; -1: none. */
struct spelling {
	size_t length, argument;
	ptrdiff_t count;
};

/* Returns how the LENGTH bytes at TEXT name a policy: every:3, every=3, every(3) or every-3. */
static struct spelling spelling_of(const char *text, size_t length)
{
	const size_t name = strcspn(text, ":=(+");
	struct spelling spelling = {name, name + 1, (ptrdiff_t)length - (ptrdiff_t)name - 1};
	const struct spelling bare = {length, length, -1};
	if (name < length && text[name] == '(') {
		spelling.count--;
		return text[length - 1] == ')' ? spelling : bare;
	}
	if (name < length)
		return spelling;
	size_t dash = length;
	while (dash > 0 && text[dash] != '-')
		dash--;
	const enum policy_kind kind = policy_find(text, dash);
	const bool number = dash + 1 < length && text[dash + 1] >= '0' && text[dash + 1] <= '9';
	if (!number || kind == POLICY_COUNT || policy_table[kind].takes == TAKES_NONE)
		return bare;
	return (struct spelling){dash, dash + 1, (ptrdiff_t)(length - dash) - 1};
}

/*
 * True if the LENGTH bytes at TEXT are sqrt(STEPS), with a number, or sqrt(N). Sets TO to the table's spelling: every:5 for
 * sqrt(20), and sqrt for sqrt(N), whose N is the number of all steps.
 */
static bool spell_sqrt(const char *text, size_t length, char to[static 32])
{
	char steps[20] = "";
	const size_t digits = length - strlen("sqrt()");
	if (length <= strlen("sqrt()") || digits >= sizeof steps || memcmp(text, "sqrt(", 5) || text[length - 1] != ')')
		return false;
	memcpy(steps, text + 5, digits);
	const long long count = strspn(steps, "0123456789") == digits ? strtoll(steps, NULL, 10) : 0;
	if (count > 0)
		sprintf(to, "every:%lld", (long long)ceil(sqrt((double)count)));
	else if (!strcmp(steps, "N"))
		strcpy(to, "sqrt");
	return count > 0 || !strcmp(steps, "N");
}

/*
 * Returns a copy of TEXT in which other names and spellings of policies are ours, or NULL if out of memory. No name
 * of ours is longer than the one that it replaces.
 */
static char *in_our_names(const char *text, struct arena *arena)
{
	char *copy = arena_strndup(arena, text, strlen(text)), *to = copy;
	for (const char *at = copy; copy; at++) {
		const size_t length = strcspn(at, "+");
		char steps[32];
		const bool counted = spell_sqrt(at, length, steps);
		const struct spelling spelling = counted ? (struct spelling){length, 0, -1} : spelling_of(at, length);
		const enum policy_kind kind = policy_find(at, spelling.length);
		const char *name = counted ? steps : kind < POLICY_COUNT ? policy_table[kind].name : at, *end = at + length;
		const size_t named = counted || kind < POLICY_COUNT ? strlen(name) : spelling.length;
		assert(named <= spelling.length);
		memmove(to, name, named);
		to += named;
		if (spelling.count >= 0) {
			*to++ = ':';
			memmove(to, at + spelling.argument, (size_t)spelling.count);
			to += spelling.count;
		}
		at = end;
		*to++ = *end;
		if (!*end)
			break;
	}
	return copy;
}

/* Parses TEXT, a name and its argument. POLICY's text is TEXT itself, or has its count as a plain decimal number. */
static enum status parse_one(const struct context *context, bool block, struct policy *policy, const char *text)
{
	const char *argument = text + strcspn(text, ":");
	const char *name = arena_strndup(context->arena, text, (size_t)(argument - text));
	TRY_ALLOC(name, context->diags);
	const enum policy_kind kind = policy_find(name, strlen(name));
	if (kind == POLICY_COUNT)
		return unknown_policy(context, block, name);
	*policy = (struct policy){.kind = kind, .text = text};
	const bool given = *argument == ':';
	argument += given;
	switch (policy_table[kind].takes) {
	case TAKES_NONE:
		return given ? diag_file(context->diags, STATUS_USAGE, NULL, -1, "policy '%s' takes no argument", name)
		             : STATUS_OK;
	case TAKES_NAMES:
		return parse_value_names(context, policy, argument);
	case TAKES_BYTES:
		if (!*argument)
			return wrong_argument(context, policy->kind, "needs a size");
		TRY(bytes_parse(argument, &policy->number, context->diags));
		return policy->number < 1 ? wrong_argument(context, policy->kind, "needs at least 1 byte") : STATUS_OK;
	default:
		return parse_limit(context, policy, argument);
	}
}

static enum status parse(const struct context *context, bool block, struct policy *policy, const char *given)
{
	const char *text = in_our_names(given, context->arena), *at = text;
	TRY_ALLOC(text, context->diags);
	for (struct policy *sides = NULL;; at++) {
		const size_t length = strcspn(at, "+");
		const char *one = arena_strndup(context->arena, at, length);
		TRY_ALLOC(one, context->diags);
		TRY(parse_one(context, block, sides ? &sides[1] : policy, one));
		for (int i = 0; sides && i < 2; i++)
			if (policy_cuts(&sides[i]))
				return diag_file(context->diags, STATUS_USAGE, NULL, -1,
				                 "policy '%s' cannot be joined by '+': it cuts the chain between steps", sides[i].text);
		/* P+Q+R is (P+Q)+R: a long sum leans to the left, so policy_saves walks it in a loop. */
		if (sides)
			*policy = (struct policy){.kind = POLICY_either, .text = text, .left = &sides[0], .right = &sides[1]};
		at += length;
		if (!*at)
			return STATUS_OK;
		sides = arena_array(context->arena, 2, sizeof *sides);
		TRY_ALLOC(sides, context->diags);
		sides[0] = *policy;
	}
}

enum status policy_parse(const struct context *context, struct policy *policy, const char *text)
{
	return parse(context, false, policy, text);
}

static bool is_name(const struct chain *chain, const char *name)
{
	bool known = false;
	for (size_t k = 0; k < chain->name_count; k++)
		known |= !strcmp(chain->names[k], name);
	return known;
}

/* Returns the first name in POLICY that no value of the chain has, or NULL. P+Q+R is (P+Q)+R, so it reads backward. */
static const char *unknown_name(const struct chain *chain, const struct policy *policy)
{
	const char *first = NULL;
	for (; policy; policy = policy->left) {
		const struct policy *alone = policy->left ? policy->right : policy;
		for (size_t i = alone->name_count; i-- > 0;)
			first = is_name(chain, alone->names[i]) ? first : alone->names[i];
	}
	return first;
}

/* Suggests what NAME, of the last diagnostic, could be. */
static enum status suggest_value(const struct context *context, const struct chain *chain, const char *name)
{
	const char *near = suggest_nearest(name, chain->names, chain->name_count);
	return near ? diag_hint(context->diags, "did you mean '%s'?", near)
	            : diag_hint(context->diags, "a stage `name %s` gives the current value that name", name);
}

enum status policy_check_names(const struct context *context, const struct policy *policy, const struct chain *chain)
{
	const char *name = unknown_name(chain, policy);
	if (!name)
		return STATUS_OK;
	diag_file(context->diags, STATUS_USAGE, NULL, -1, "policy '%s': no value of the chain is named '%s'", policy->text,
	          name);
	return suggest_value(context, chain, name);
}

enum status policy_check_bindings(const struct context *context, const struct policy *policy,
                                  const struct dictionary *bindings)
{
	for (; policy; policy = policy->left) {
		const struct policy *alone = policy->left ? policy->right : policy;
		for (size_t i = 0; i < alone->name_count; i++) {
			const int64_t *known = dictionary_find(bindings, alone->names[i]), count = known ? *known : 0;
			if (index_of_name(alone, i) == NO_INDEX || index_of_name(alone, i) < count)
				continue;
			diag_file(context->diags, STATUS_USAGE, NULL, -1, "policy '%s': the chain binds '%s' %lld time%s",
			          alone->text, alone->names[i], (long long)count, count == 1 ? "" : "s");
			return diag_hint(context->diags, "%s[0] is the first binding, and %s[%lld] the last", alone->names[i],
			                 alone->names[i], (long long)count - 1);
		}
	}
	return STATUS_OK;
}

/* Fails with STATUS_CHAIN if the policy of a block names one binding of many, since the block may run many times. */
static enum status check_block_indices(const struct context *context, const struct chain *chain,
                                       const struct block_policy *block)
{
	for (const struct policy *policy = block->policy; policy; policy = policy->left) {
		const struct policy *alone = policy->left ? policy->right : policy;
		for (size_t i = 0; i < alone->name_count; i++) {
			if (index_of_name(alone, i) == NO_INDEX)
				continue;
			diag_at(context->diags, STATUS_CHAIN, chain->source, block->span,
			        "a block's policy takes all bindings of '%s', not one by its index", alone->names[i]);
			return diag_hint(context->diags, "--policy \"names:%s[%lld]\" keeps that binding", alone->names[i],
			                 (long long)index_of_name(alone, i));
		}
	}
	return STATUS_OK;
}

/* Fails with STATUS_CHAIN if the policy of a block names a value that CHAIN lacks. */
static enum status check_blocks(const struct context *context, const struct chain *chain)
{
	for (const struct block_policy *block = chain->block_policies; block; block = block->next) {
		const char *name = unknown_name(chain, block->policy);
		TRY(check_block_indices(context, chain, block));
		if (!name)
			continue;
		diag_at(context->diags, STATUS_CHAIN, chain->source, block->span, "no value of the chain is named '%s'", name);
		return suggest_value(context, chain, name);
	}
	return STATUS_OK;
}

static void set_block(struct block_policy *block, const struct policy *policy)
{
	block->policy = policy;
	block->cuts = policy_cuts(policy);
}

enum status policy_parse_blocks(const struct context *context, struct chain *chain)
{
	struct diags *diags = context->diags;
	struct dictionary parsed = {0}; /* equal texts are one policy */
	for (struct block_policy *block = chain->block_policies; block; block = block->next) {
		const struct policy *known = dictionary_find(&parsed, block->text);
		if (known) {
			set_block(block, known);
			continue;
		}
		struct policy *policy = arena_alloc(context->arena, sizeof *policy);
		TRY_ALLOC(policy, diags);
		enum status status = parse(context, true, policy, block->text);
		if (status)
			return status == STATUS_USAGE ? diag_move(diags, STATUS_CHAIN, chain->source, block->span) : status;
		set_block(block, policy);
		TRY_ALLOC(dictionary_put(&parsed, context->arena, block->text, policy), diags);
		if (!policy_is(policy, TRAIT_COSTS))
			continue;
		diag_at(diags, STATUS_CHAIN, chain->source, block->span,
		        "'%s' chooses by the costs of a run, which a block cannot know", policy->text);
		return diag_hint(diags,
		                 "--policy takes it for the chain; a block takes another policy, such as sqrt or revolve:3");
	}
	return check_blocks(context, chain);
}
