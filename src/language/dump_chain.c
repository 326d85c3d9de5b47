/*
 * The resolved chain as text, for --dump chain: a node a line, indented by its depth, with its place. Names are written
 * as in the source.
 */
#include "language/chain.h"

#include "base/text.h"

struct dumper {
	const struct chain *chain;
	struct text text;
};

static void dump_nodes(const struct dumper *d, const struct node *node, int depth);

static void dump_ref(const struct dumper *d, const struct ref *ref, int depth)
{
	switch (ref->kind) {
	case REF_NONE:
		return;
	case REF_NUMBER:
		text_printf(&d->text, " %.17g", ref->number);
		break;
	case REF_PARAM:
		text_printf(&d->text, " %s:%s", d->chain->params[ref->index].differentiated ? "param" : "const",
		            d->chain->params[ref->index].name);
		break;
	case REF_VARIABLE:
		text_printf(&d->text, " value:%s", d->chain->variables[ref->index]);
		break;
	case REF_LOOP:
		text_printf(&d->text, " loop:%u", ref->index);
		break;
	case REF_ARGUMENT:
		text_printf(&d->text, " argument:%u", ref->index);
		break;
	case REF_BLOCK:
		text_printf(&d->text, " {\n");
		dump_nodes(d, ref->block, depth + 1);
		text_printf(&d->text, "%*s}", 2 * depth, "");
		break;
	}
	if (ref->element != NO_INDEX)
		text_printf(&d->text, "[%lld]", (long long)ref->element);
}

static void dump_head(const struct dumper *d, const struct node *node, int depth)
{
	text_printf(&d->text, "%*s", 2 * depth, "");
	switch (node->kind) {
	case NODE_OP:
		text_printf(&d->text, "%s", op_table[node->op].name);
		dump_ref(d, &node->operand, depth);
		break;
	case NODE_CALL:
		text_printf(&d->text, "call %s", node->def->name);
		for (size_t i = 0; i < node->def->count; i++)
			dump_ref(d, &node->arguments[i], depth);
		break;
	case NODE_NAME:
		text_printf(&d->text, "name %s", d->chain->variables[node->variable]);
		dump_ref(d, &node->operand, depth);
		break;
	case NODE_REPEAT:
		text_printf(&d->text, "repeat %lld", (long long)node->count);
		break;
	case NODE_FOR:
		text_printf(&d->text, "for");
		for (size_t i = 0; i < node->loop_count; i++) {
			text_printf(&d->text, " loop:%u over", node->loops[i]);
			dump_ref(d, &node->over[i], depth);
		}
		break;
	case NODE_CHECKPOINT:
		text_printf(&d->text, "checkpoint %s", node->policy ? node->policy->text : "");
		break;
	}
	text_printf(&d->text, "  %u:%u\n", node->span.line, node->span.column);
}

static void dump_nodes(const struct dumper *d, const struct node *node, int depth)
{
	for (; node; node = node->next) {
		dump_head(d, node, depth);
		dump_nodes(d, node->body, depth + 1);
	}
}

void chain_dump(const struct chain *chain, diag_write *write, void *context)
{
	struct dumper d = {chain, {write, context}};
	text_printf(&d.text, "input %s\n", chain->input);
	for (size_t i = 0; i < chain->param_count; i++)
		text_printf(&d.text, "%s %s\n", chain->params[i].differentiated ? "param" : "const", chain->params[i].name);
	dump_nodes(&d, chain->first, 0);
}
