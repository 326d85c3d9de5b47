/* Policies as text: the one place that parses them. Names and arguments are those of policies.def. */
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "language/chain.h"
#include "schedule/policy.h"

struct parser {
	struct arena *arena;
	struct diags *diags;
	bool block; /* reads the policy of a checkpoint block, which is one by value */
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
		TRY_ALLOC(list, p->diags);
	}
	const char *name = arena_strndup(p->arena, text, length);
	TRY_ALLOC(name, p->diags);
	const char *near = suggest_nearest(name, names, count);
	enum status status =
		near ? diag_file(p->diags, STATUS_USAGE, NULL, -1, "unknown policy '%s'; did you mean '%s'?", name, near)
			 : diag_file(p->diags, STATUS_USAGE, NULL, -1, "unknown policy '%s'", name);
	diag_hint(p->diags, "policies are %s, and P+Q", list);
	return status;
}

/* Reports PROBLEM with the argument of KIND, and what the argument must be. */
static enum status wrong_argument(const struct parser *p, enum policy_kind kind, const char *problem)
{
	const struct policy_info *info = &policy_table[kind];
	static const char *const wants[] = {[TAKES_NONE] = "",
	                                    [TAKES_COUNT] = "a whole number of at least 1",
	                                    [TAKES_NUMBER] = "a whole number of at least 0",
	                                    [TAKES_NAMES] = "one name or more, separated by commas",
	                                    [TAKES_BYTES] = "a number of bytes such as 64MiB"};
	enum status status = diag_file(p->diags, STATUS_USAGE, NULL, -1, "policy '%s' %s", info->name, problem);
	diag_hint(p->diags, "%s:%s, where %s is %s", info->name, info->argument, info->argument,
	          wants[policy_table[kind].takes]);
	return status;
}

bool policy_make(struct policy *policy, enum policy_kind kind, int64_t number, struct arena *arena)
{
	const struct policy_info *info = &policy_table[kind];
	*policy = (struct policy){.kind = kind, .text = info->name, .number = number};
	if (info->takes != TAKES_NONE)
		policy->text = arena_printf(arena, "%s:%lld", info->name, (long long)number);
	return policy->text != NULL;
}

static enum status parse_count(const struct parser *p, struct policy *policy, const char *text)
{
	int64_t number = 0;
	for (const char *c = text; *c; c++)
		if (*c < '0' || *c > '9' || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, *c - '0', &number))
			return wrong_argument(p, policy->kind, arena_printf(p->arena, "cannot take '%s'", text));
	if (!*text || number < (policy_table[policy->kind].takes == TAKES_COUNT))
		return wrong_argument(p, policy->kind, *text ? "needs at least 1" : "needs a number");
	return policy_make(policy, policy->kind, number, p->arena) ? STATUS_OK : diag_memory(p->diags);
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
		TRY_ALLOC(names && name, p->diags);
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
	if (policy_table[kind].takes == TAKES_NONE) {
		policy->text = policy_table[kind].name;
		return given ? diag_file(p->diags, STATUS_USAGE, NULL, -1, "policy '%s' takes no argument", policy->text)
		             : STATUS_OK;
	}
	size_t skip = name_length + given;
	const char *argument = arena_strndup(p->arena, text + skip, length - skip);
	TRY_ALLOC(argument, p->diags);
	if (policy_table[kind].takes == TAKES_COUNT || policy_table[kind].takes == TAKES_NUMBER)
		return parse_count(p, policy, argument);
	if (policy_table[kind].takes == TAKES_NAMES)
		return parse_names(p, policy, argument);
	if (!*argument)
		return wrong_argument(p, policy->kind, "needs a size");
	TRY(bytes_parse(argument, &policy->number, p->diags));
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
	/* P+Q+R is (P+Q)+R: a long list makes a list, not a deep call. */
	while (status == STATUS_OK && plus) {
		text = plus + 1;
		plus = strchr(text, '+');
		struct policy *sides = arena_array(p->arena, 2, sizeof *sides);
		TRY_ALLOC(sides, p->diags);
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

enum status policy_parse(const struct context *context, struct policy *policy, const char *text)
{
	return parse(&(struct parser){context->arena, context->diags, false}, policy, text);
}

/* Parses what BLOCK says: a policy by value. */
static enum status parse_block(const struct context *context, struct block_policy *block, const struct chain *chain)
{
	struct diags *diags = context->diags;
	struct policy *policy = arena_alloc(context->arena, sizeof *policy);
	TRY_ALLOC(policy, diags);
	enum status status = parse(&(struct parser){context->arena, diags, true}, policy, block->text);
	if (status)
		return status == STATUS_USAGE ? diag_move(diags, STATUS_CHAIN, chain->source, block->span) : status;
	block->policy = policy;
	if (policy_by_value(policy) || policy->kind == POLICY_save_all)
		return STATUS_OK;
	diag_at(diags, STATUS_CHAIN, chain->source, block->span,
	        "'%s' cuts a chain into segments and can't be the policy of a block", policy->text);
	diag_hint(diags, "a block takes a policy by value, such as dots or \"names:a,b\"");
	return STATUS_CHAIN;
}

enum status policy_parse_blocks(const struct context *context, struct chain *chain)
{
	enum status status = STATUS_OK;
	for (struct block_policy *block = chain->block_policies; block && !status; block = block->next)
		status = parse_block(context, block, chain);
	return status;
}
