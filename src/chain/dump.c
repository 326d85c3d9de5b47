/* The resolved chain as text, for --dump chain. */
#include "chain/chain.h"

#include <stdarg.h>
#include <stdio.h>

struct dumper {
	const struct chain *chain;
	diag_write *write;
	void *context;
};

__attribute__((format(printf, 2, 3))) static void put(const struct dumper *d, const char *format, ...)
{
	char line[1024];
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	if (n > 0)
		d->write(d->context, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static void dump_nodes(const struct dumper *d, const struct node *node, int depth);

static void dump_ref(const struct dumper *d, const struct ref *ref, int depth)
{
	switch (ref->kind) {
	case REF_NONE:
		return;
	case REF_NUMBER:
		put(d, " %.17g", ref->number);
		break;
	case REF_PARAM:
		put(d, " %s:%s", d->chain->params[ref->index].differentiated ? "param" : "const", d->chain->params[ref->index].name);
		break;
	case REF_VARIABLE:
		put(d, " value:%s", d->chain->variables[ref->index]);
		break;
	case REF_LOOP:
		put(d, " loop:%u", ref->index);
		break;
	case REF_ARGUMENT:
		put(d, " argument:%u", ref->index);
		break;
	case REF_BLOCK:
		put(d, " {\n");
		dump_nodes(d, ref->block, depth + 1);
		put(d, "%*s}", 2 * depth, "");
		break;
	}
	if (ref->element >= 0)
		put(d, "[%lld]", (long long)ref->element);
}

static void dump_head(const struct dumper *d, const struct node *node, int depth)
{
	put(d, "%*s", 2 * depth, "");
	switch (node->kind) {
	case NODE_OP:
		put(d, "%s", op_table[node->op].name);
		dump_ref(d, &node->operand, depth);
		break;
	case NODE_CALL:
		put(d, "call %s", node->def->name);
		for (size_t i = 0; i < node->def->count; i++)
			dump_ref(d, &node->arguments[i], depth);
		break;
	case NODE_NAME:
		put(d, "name %s", d->chain->variables[node->variable]);
		dump_ref(d, &node->operand, depth);
		break;
	case NODE_REPEAT:
		put(d, "repeat %lld", (long long)node->count);
		break;
	case NODE_FOR:
		put(d, "for");
		for (size_t i = 0; i < node->loop_count; i++) {
			put(d, " loop:%u over", node->loops[i]);
			dump_ref(d, &node->over[i], depth);
		}
		break;
	case NODE_CHECKPOINT:
		put(d, "checkpoint %s", node->policy ? node->policy : "");
		break;
	}
	put(d, "  %u:%u\n", node->span.line, node->span.column);
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
	struct dumper d = {chain, write, context};
	put(&d, "input %s\n", chain->input);
	for (size_t i = 0; i < chain->param_count; i++)
		put(&d, "%s %s\n", chain->params[i].differentiated ? "param" : "const", chain->params[i].name);
	dump_nodes(&d, chain->first, 0);
}
