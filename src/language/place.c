/*
 * Places of a chain: `--at h`, `--at h[3]`, `--at step:10`.
 *
 * A place is a moment of the run, and loops decide how often a stage runs. The extents of arrays decide that of a `for`. So
 * here it is only found out which stages bind the name. Lowering, which knows all types, counts (ir/lower_place.c).
 *
 * Invariant: names that end with their block are no places: those of defs, fixed_points and conditions.
 * Tests: tests/cases/places.test
 */
#include "language/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

/* A search for the stages that bind a name. */
struct search {
	const char *name;        /* or NULL */
	const struct node *last; /* the last one that was found; NULL: none */
	bool repeats;            /* that one stands in a loop or an operand, and may run often */
	const char *names[64];   /* all names, for a hint */
	size_t name_count;
};

uint32_t node_binds(const struct node *node, const char *name)
{
	if (node->kind == NODE_NAME || node->kind == NODE_COLLECT)
		return node->name && !strcmp(node->name, name) ? node->variable : NO_PLACE;
	for (size_t i = 0; node->kind == NODE_CALL && i < node->def->export_count; i++)
		if (!strcmp(node->def->exports[i].name, name))
			return node->exports[i];
	return NO_PLACE;
}

static void note_name(struct search *s, const char *name)
{
	if (name && *name && s->name_count < sizeof s->names / sizeof *s->names)
		s->names[s->name_count++] = name;
}

static void search_nodes(struct search *s, const struct node *node, bool repeats);

static void search_ref(struct search *s, const struct ref *ref)
{
	if (ref->kind == REF_BLOCK)
		search_nodes(s, ref->block, true);
}

/* Searches the blocks that are operands of NODE. */
static void search_operands(struct search *s, const struct node *node)
{
	search_ref(s, &node->operand);
	for (int i = 1; node->kind == NODE_OP && i < op_table[node->op].operands; i++)
		search_ref(s, &node->more[i - 1]);
	for (uint32_t i = 0; node->kind == NODE_PROGRAM && i < node->operand_count; i++)
		search_ref(s, &node->operands[i]);
	for (size_t i = 0; node->kind == NODE_CALL && i < node->def->inherited + node->def->own; i++)
		search_ref(s, &node->arguments[i]);
}

/* Searches NODE, without its successors. REPEATS: it may run often, or never. */
static void search_node(struct search *s, const struct node *node, bool repeats)
{
	const bool loop = node->kind == NODE_REPEAT || node->kind == NODE_FOR;
	search_operands(s, node);
	if (loop || node->kind == NODE_CHECKPOINT)
		search_nodes(s, node->body, repeats || loop);
	if (node->kind == NODE_NAME || node->kind == NODE_COLLECT)
		note_name(s, node->name);
	for (size_t i = 0; node->kind == NODE_CALL && i < node->def->export_count; i++)
		note_name(s, node->def->exports[i].name);
	if (!s->name || node_binds(node, s->name) == NO_PLACE)
		return;
	s->last = node;
	s->repeats = repeats || node->kind == NODE_COLLECT;
}

static void search_nodes(struct search *s, const struct node *node, bool repeats)
{
	for (; node; node = node->next)
		search_node(s, node, repeats);
}

/* True if TEXT is an integer, *NUMBER. */
static bool read_integer(const char *text, size_t length, int64_t *number)
{
	enum { MOST_DIGITS = 18 };
	char digits[MOST_DIGITS + 1];
	char *end;
	if (length == 0 || length > MOST_DIGITS || strspn(text, "-0123456789") < length)
		return false;
	memcpy(digits, text, length);
	digits[length] = '\0';
	*number = strtoll(digits, &end, 10);
	return *end == '\0' && end != digits;
}

/* Reads PLACE->text to its other parts. */
static enum status read_place(const struct context *context, struct chain_place *place)
{
	static const char step[] = "step:";
	const char *text = place->text, *bracket = strchr(text, '[');
	const size_t length = strlen(text), name = bracket ? (size_t)(bracket - text) : length;
	bool good = name > 0 && strcspn(text, ":=/ ") == length;
	place->index = -1;
	if (!strncmp(text, step, sizeof step - 1)) {
		good = read_integer(text + sizeof step - 1, length - sizeof step + 1, &place->index) && place->index >= 0;
	} else if (good) {
		place->name = arena_strndup(context->arena, text, name);
		TRY_ALLOC(place->name, context->diags);
		good = !bracket || (text[length - 1] == ']' && read_integer(bracket + 1, length - name - 2, &place->index));
	}
	return good ? STATUS_OK
	            : diag_file(context->diags, STATUS_USAGE, NULL, -1, "--at takes NAME, NAME[K] or step:K, not '%s'",
	                        text);
}

/* Reports that no stage binds the name of PLACE. */
static enum status refuse_place_name(const struct context *context, const struct chain *chain,
                                     const struct chain_place *place, struct search *search)
{
	struct diags *diags = context->diags;
	const char *name = place->name;
	if (chain_find_output(chain, name, strlen(name))) {
		diag_file(diags, STATUS_USAGE, NULL, -1, "--at %s: '%s' is the name of an output alone", place->text, name);
		return place->ends ? diag_hint(diags, "-o %s=FILE writes it", name)
		                   : diag_hint(diags, "--of %s differentiates it", name);
	}
	for (size_t i = 0; i < chain->param_count; i++) {
		const struct param *param = &chain->params[i];
		if (strcmp(param->name, name) != 0)
			continue;
		diag_file(diags, STATUS_USAGE, NULL, -1, "--at %s: '%s' is declared by %s, and no stage gives it its value",
		          place->text, name, param_word(param));
		if (place->ends)
			return diag_hint(diags, "`output %s` in the chain and -o %s=FILE write it", name, name);
		return param->differentiated ? diag_hint(diags, "--grad %s=FILE writes its gradient", name) : STATUS_USAGE;
	}
	if (chain->chosen || chain->cotangent_count)
		return diag_file(diags, STATUS_USAGE, NULL, -1,
		                 "--at %s: no stage up to the output that is differentiated binds '%s'", place->text, name);
	for (size_t i = 1; i < chain->variable_count; i++) {
		if (strcmp(chain->variables[i], name) != 0)
			continue;
		diag_file(diags, STATUS_USAGE, NULL, -1, "--at %s: the name ends with the block that binds '%s'", place->text,
		          name);
		return diag_hint(diags,
		                 "names within defs, fixed_points and conditions are no places: `export %s` in a def binds it "
		                 "where the def is called",
		                 name);
	}
	if (!strcmp(name, chain->input))
		return diag_file(diags, STATUS_USAGE, NULL, -1, "--at %s: '%s' is the input, which is bound once", place->text,
		                 name);
	note_name(search, chain->input);
	const char *near = suggest_nearest(name, search->names, search->name_count);
	diag_file(diags, STATUS_USAGE, NULL, -1, "--at %s: the chain gives no value the name '%s'", place->text, name);
	return near ? diag_hint(diags, "did you mean '%s'?", near)
	            : diag_hint(diags, "name it, as in `name %s`, or count steps: --at step:K", name);
}

/* Gives CHAIN a variable for the cotangent of PLACE. */
static enum status add_variable(const struct context *context, struct chain *chain, struct chain_place *place)
{
	const char **variables = arena_array(context->arena, chain->variable_count + 1, sizeof *variables);
	TRY_ALLOC(variables, context->diags);
	memcpy(variables, chain->variables, chain->variable_count * sizeof *variables);
	chain->variables = variables;
	place->variable = (uint32_t)chain->variable_count;
	variables[chain->variable_count++] = "";
	return STATUS_OK;
}

enum status chain_choose_place(const struct context *context, struct chain *chain, const char *text, bool ends)
{
	struct chain_place *place = arena_alloc(context->arena, sizeof *place);
	TRY_ALLOC(place, context->diags);
	*place = (struct chain_place){.text = text, .ends = ends};
	TRY(read_place(context, place));
	struct search search = {.name = place->name};
	for (const struct node *node = chain->first; node; node = node->next) {
		const struct node *const before = search.last;
		search_node(&search, node, false);
		if (search.last != before)
			place->end = node->next;
	}
	const bool named = place->name && !search.last && !strcmp(place->name, chain->input);
	const bool input = named ? place->index == 0 || place->index == -1 : !place->name && place->index == 0;
	if (input && ends)
		chain->first = NULL;
	if (input)
		return STATUS_OK;
	if (place->name && !search.last)
		return refuse_place_name(context, chain, place, &search);
	if (place->name && place->index == -1 && !search.repeats)
		place->last = search.last;
	TRY(ends ? STATUS_OK : add_variable(context, chain, place));
	chain->place = place;
	return STATUS_OK;
}
