/*
 * Which file, and which member of it, has the values of a param: by --param NAME=FILE:MEMBER and --params FILE.
 *
 * Members are looked up by their names as a chain can spell them: '_' replaces each '.' and '/' (member_is).
 * Tests: tests/unit/test_params.c, tests/cases/grad.test
 */
#include "load/params.h"

#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/text.h"

enum status params_split(const char *value, struct arena *arena, struct diags *diags, struct param_place *place)
{
	struct stat st;
	*place = (struct param_place){value, NULL};
	const char *last = strrchr(value, ':');
	if (!last || io_stat(value, &st) == 0)
		return STATUS_OK;
	/* The longest beginning that is a file; if none is, the longest. */
	for (const char *colon = last; colon >= value; colon--) {
		if (*colon != ':')
			continue;
		const char *file = arena_strndup(arena, value, (size_t)(colon - value));
		TRY_ALLOC(file, diags);
		const bool there = io_stat(file, &st) == 0;
		if (colon == last || there)
			*place = (struct param_place){file, colon + 1};
		if (there)
			break;
	}
	return STATUS_OK;
}

struct search {
	const struct context *context;
	const struct chain *chain;
	struct dictionary params;   /* from its name to the place in PLACES */
	struct param_place *places; /* by param */
	const char **members;       /* by param: the member of the current file that it has, or NULL */
	const char **lacking;       /* names that one side has and the other has not */
	size_t lacking_count;
};

/* Records that MEMBER of FILE has the values of a param. Fails with STATUS_DATA if another member does as well. */
static enum status match(struct search *search, const char *file, const char *member)
{
	const struct context *context = search->context;
	char *name = arena_strndup(context->arena, member, strlen(member));
	TRY_ALLOC(name, context->diags);
	for (char *c = name; (c = strpbrk(c, MEMBER_SIGNS));)
		*c = '_';
	struct param_place *place = dictionary_find(&search->params, name);
	if (!place) {
		search->lacking[search->lacking_count++] = member;
		return STATUS_OK;
	}
	const size_t index = (size_t)(place - search->places);
	const char *before = search->members[index];
	if (before && !strcmp(before, name)) { /* the exact name wins */
		search->lacking[search->lacking_count++] = member;
		return STATUS_OK;
	}
	if (before && strcmp(member, name) != 0)
		return diag_file(context->diags, STATUS_DATA, file, -1, "its members '%s' and '%s' would both be '%s'", before,
		                 member, name);
	if (before)
		search->lacking[search->lacking_count++] = before;
	search->members[index] = member;
	*place = (struct param_place){file, member};
	return STATUS_OK;
}

/* Matches the members of FILE, and warns of those that are no param or const of the chain. */
static enum status match_file(struct search *search, struct loader *loader, const char *file)
{
	struct arena *arena = search->context->arena;
	const char *const *names;
	size_t count;
	TRY(loader_names(loader, file, &names, &count));
	search->lacking = arena_array(arena, count + 1, sizeof *search->lacking);
	search->members = arena_array(arena, search->chain->param_count + 1, sizeof *search->members);
	TRY_ALLOC(search->lacking && search->members, search->context->diags);
	search->lacking_count = 0;
	for (size_t i = 0; i < count; i++)
		TRY(match(search, file, names[i]));
	if (search->lacking_count)
		(void)diag_file(search->context->diags, STATUS_OK, file, -1, "members that are no param or const: %s",
		                text_join(search->lacking, search->lacking_count, arena));
	return STATUS_OK;
}

static bool is_bound(const struct params_options *options, const char *name)
{
	for (size_t i = 0; i < options->binding_count; i++)
		if (!strcmp(options->bindings[i].name, name))
			return true;
	return false;
}

/*
 * True if PARAM, which has PLACE, should have had a member. A const that the chain gives a value needs none. A param
 * does: where training keeps params in the file, a value of the chain is no more than a start.
 */
static bool lacks_member(const struct param *param, const struct param_place *place,
                         const struct params_options *options)
{
	const bool fixed = !param->differentiated && param->init->kind != INIT_NONE;
	return !param->input && !fixed && !place->file && !is_bound(options, param->name);
}

enum status params_match(const struct context *context, struct loader *loader, const struct chain *chain,
                         const struct params_options *options, struct param_place *places)
{
	const size_t count = chain->param_count;
	struct search search = {.context = context, .chain = chain, .places = places};
	if (!options->file_count)
		return STATUS_OK;
	for (size_t i = chain->input_count; i < count; i++)
		TRY_ALLOC(dictionary_put(&search.params, context->arena, chain->params[i].name, &places[i]), context->diags);
	for (size_t i = 0; i < options->file_count; i++)
		TRY(match_file(&search, loader, options->files[i]));
	const char **lacking = arena_array(context->arena, count + 1, sizeof *lacking);
	TRY_ALLOC(lacking, context->diags);
	size_t lacking_count = 0;
	for (size_t i = 0; i < count; i++)
		if (lacks_member(&chain->params[i], &places[i], options))
			lacking[lacking_count++] = chain->params[i].name;
	if (lacking_count)
		(void)diag_file(context->diags, STATUS_OK, options->file_count == 1 ? options->files[0] : "--params", -1,
		                "no member for: %s", text_join(lacking, lacking_count, context->arena));
	return STATUS_OK;
}
