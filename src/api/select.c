/*
 * What a call wants of a chain beside its last value: named outputs, another output's gradient, or the gradients of
 * several outputs at once. Each changes the chain, and a chain of the library serves later calls too. So such a call reads
 * the chain's text again, and works on that.
 * Tests: tests/unit/test_api_select.c
 */
#include "api/select.h"

#include <string.h>

#include "schedule/policy.h"

/* Finds the output NAME. Fails with STATUS_USAGE if CHAIN has none of that name. */
static enum status find_output(const struct context *context, const struct chain *chain, const char *name,
                               const struct chain_output **output)
{
	const char **names = arena_array(context->arena, chain->output_count + 1, sizeof *names);
	TRY_ALLOC(names, context->diags);
	for (size_t i = 0; i < chain->output_count; i++)
		names[i] = chain->outputs[i].name;
	TRY(find_declared(context, names, chain->output_count, "output", &name));
	*output = chain_find_output(chain, name, strlen(name));
	return STATUS_OK;
}

/* Sets OUTPUTS to those of NAMES. *COUNT is their number. */
static enum status find_outputs(const struct context *context, const struct chain *chain, const char *const *names,
                                const struct chain_output *outputs[MOST_VALUES], size_t *count)
{
	for (*count = 0; names[*count]; ++*count) {
		if (*count == MOST_VALUES - 1)
			return diag_file(context->diags, STATUS_USAGE, NULL, -1, "a run gives at most %d outputs", MOST_VALUES - 1);
		TRY(find_output(context, chain, names[*count], &outputs[*count]));
		for (size_t i = 0; i < *count; i++)
			if (outputs[i] == outputs[*count])
				return diag_file(context->diags, STATUS_USAGE, NULL, -1, "the output '%s' is wanted twice", names[i]);
	}
	return STATUS_OK;
}

/* Lets the value of MADE be the one that differentiates the outputs of GIVEN at once, and binds their cotangents. */
static enum status want_cotangents(const struct context *context, struct ckptc_chain *made,
                                   const struct ckptc_cotangent *given)
{
	const struct chain_output *outputs[MOST_VALUES];
	struct chain *chain = &made->chain;
	const size_t count = chain->cotangent_count;
	struct memory_array *arrays = arena_array(context->arena, made->array_count + count + 1, sizeof *arrays);
	TRY_ALLOC(arrays, context->diags);
	memcpy(arrays, made->arrays, made->array_count * sizeof *arrays);
	for (size_t i = 0; i < count; i++) {
		struct memory_array *array = &arrays[made->array_count + i];
		outputs[i] = NULL;
		if (given[i].name[0])
			TRY(find_output(context, chain, given[i].name, &outputs[i]));
		for (size_t k = 0; k < i; k++)
			if (outputs[k] == outputs[i])
				return diag_file(context->diags, STATUS_USAGE, NULL, -1, "the output '%s' has two cotangents",
				                 given[i].name);
		array->name = chain->params[chain->cotangents[i].param].name;
		array->data = given[i].cotangent->data;
		TRY(array_type(given[i].cotangent, array->name, true, &array->type, context->diags));
	}
	made->arrays = arrays;
	made->array_count += count;
	return chain_want_cotangents(context, chain, outputs);
}

/* Sets GIVEN to the names of the arrays of COTANGENTS: no name of a chain has a blank. */
static enum status give_cotangent_names(const struct context *context, const struct ckptc_cotangent *cotangents,
                                        struct given_chain *given)
{
	const char **names = arena_array(context->arena, MOST_VALUES, sizeof *names);
	TRY_ALLOC(names, context->diags);
	bool named = false;
	for (; cotangents && cotangents[given->cotangent_count].name; given->cotangent_count++) {
		const struct ckptc_cotangent *one = &cotangents[given->cotangent_count];
		if (given->cotangent_count == MOST_VALUES - 1)
			return diag_file(context->diags, STATUS_USAGE, NULL, -1, "at most %d outputs have cotangents",
			                 MOST_VALUES - 1);
		if (!one->cotangent)
			return diag_file(context->diags, STATUS_USAGE, NULL, -1, "the cotangent of '%s' is NULL", one->name);
		named |= one->name[0];
		names[given->cotangent_count] = arena_printf(context->arena, "cotangent %s", one->name);
		TRY_ALLOC(names[given->cotangent_count], context->diags);
	}
	given->cotangents = names;
	if (given->cotangent_count && !named)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1,
		                 "no cotangent is of an output; 'cotangent' is that of the last value");
	return STATUS_OK;
}

enum status chain_select(const struct context *context, const struct ckptc_chain *from,
                         const struct chain_selection *wanted, struct ckptc_chain *made)
{
	struct given_chain given = {.items = from->numbers, .count = from->number_count};
	const struct chain_output *outputs[MOST_VALUES];
	size_t count;
	*made = *from;
	if (!wanted->chosen && !wanted->more && !wanted->cotangents)
		return STATUS_OK;
	if (wanted->chosen && wanted->cotangents)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1,
		                 "'of_output' names one output, and 'cotangents' several");
	if (wanted->chosen && wanted->more)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1,
		                 "'of_output' is the value; 'outputs' gives outputs beside the last value");
	TRY(give_cotangent_names(context, wanted->cotangents, &given));
	TRY(chain_read_given(context, &made->chain, &from->source, &given));
	TRY(policy_parse_blocks(context, &made->chain));
	if (wanted->chosen) {
		TRY(find_output(context, &made->chain, wanted->chosen, &outputs[0]));
		TRY(chain_choose_output(context, &made->chain, outputs[0]));
	}
	if (wanted->more) {
		TRY(find_outputs(context, &made->chain, wanted->more, outputs, &count));
		if (count)
			TRY(chain_want_outputs(context, &made->chain, outputs, count, true));
	}
	return given.cotangent_count ? want_cotangents(context, made, wanted->cotangents) : STATUS_OK;
}
