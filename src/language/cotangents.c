/*
 * Several outputs of a chain are differentiated at once: each has an array of cotangents. These arrays arrive as inputs do,
 * row by row, but they have no gradient. A last node, COTANGENTS, multiplies each output by its array and sums the products.
 * The gradient of that sum is the sum of the outputs' gradients by their cotangents, exactly: the derivative of each product
 * by the output is the array.
 *
 * Invariant: the arrays are the last of the chain's inputs, in the order in which the caller gives them.
 * Tests: tests/cases/outputs.test
 */
#include "language/resolver.h"

enum status resolver_cotangents(struct resolver *r, const struct given_chain *given)
{
	static const struct declared undeclared;
	static const struct init none = {.kind = INIT_NONE};
	struct chain *chain = r->chain;
	chain->cotangents = arena_array(r->context->arena, given->cotangent_count + 1, sizeof *chain->cotangents);
	TRY_ALLOC(chain->cotangents, r->context->diags);
	for (size_t i = 0; i < given->cotangent_count; i++) {
		struct param *param =
			arena_append(r->context->arena, &chain->params, &chain->param_count, &r->param_capacity, sizeof *param);
		TRY_ALLOC(param, r->context->diags);
		*param = (struct param){.name = given->cotangents[i], .input = true, .declared = &undeclared, .init = &none};
		chain->cotangents[chain->cotangent_count++].param = (uint32_t)(chain->param_count - 1);
	}
	chain->input_count = chain->param_count;
	return STATUS_OK;
}

enum status chain_want_cotangents(const struct context *context, struct chain *chain,
                                  const struct chain_output *const *outputs)
{
	const struct chain_output *named[MOST_VALUES];
	struct node *node = arena_alloc(context->arena, sizeof *node), **end = &chain->first;
	size_t count = 0;
	TRY_ALLOC(node, context->diags);
	for (size_t i = 0; i < chain->cotangent_count; i++) {
		chain->cotangents[i].output = outputs[i];
		if (outputs[i])
			named[count++] = outputs[i];
	}
	TRY(chain_want_outputs(context, chain, named, count, count < chain->cotangent_count));
	chain->wanted_count = 0; /* their products are the value now */
	chain->last_unwanted = false;
	while (*end)
		end = &(*end)->next;
	*node = (struct node){.kind = NODE_COTANGENTS, .span = named[count - 1]->span};
	*end = node;
	return STATUS_OK;
}
