/*
 * The syntax tree and the resolved chain as text, for --dump.
 *
 * A node of the tree is "(kind what  line:column", its children on lines of their own below it, and ")". Strings are
 * quoted and escaped; nothing is cut. A node of the chain is a line with its place, indented by its depth. Its block
 * operands stand within the line, on lines of their own. Arguments of operations and bodies of defs are left out.
 * Tests: tests/unit/test_syntax.c
 */
#include "language/chain.h"

#include "base/text.h"

struct tree {
	const struct source *code;
	struct text text;
	int depth;
};

static void tree_word(const struct tree *t, const char *text)
{
	text_put(&t->text, " ");
	text_put(&t->text, text);
}

static void tree_string(const struct tree *t, const char *text)
{
	text_put(&t->text, " ");
	syntax_write_string(text, t->text.write, t->text.context);
}

static void tree_open(struct tree *t, const char *kind, const char *word)
{
	text_printf(&t->text, "%s%*s(%s", t->depth ? "\n" : "", 2 * t->depth, "", kind);
	if (word)
		tree_word(t, word);
	t->depth++;
}

static void tree_place(const struct tree *t, const struct span *span)
{
	text_printf(&t->text, "  %u:%u", span->line, span->column);
}

/* Ends a node but not its line, for another ')'. SPAN NULL: the place is written already, or the node has none. */
static void tree_close(struct tree *t, const struct span *span)
{
	if (span)
		tree_place(t, span);
	t->depth--;
	text_put(&t->text, ")");
}

static void tree_leaf(struct tree *t, const char *kind, const char *word, const struct span *span)
{
	tree_open(t, kind, word);
	tree_close(t, span);
}

static void tree_block(struct tree *t, const struct block *block);

static void tree_list(const struct tree *t, const struct list *list)
{
	tree_word(t, "");
	syntax_write_source(t->code->text + list->span.begin, list->span.end - list->span.begin, t->text.write,
	                    t->text.context);
}

static void tree_formula(const struct tree *t, const struct formula *formula)
{
	tree_word(t, "");
	syntax_write_formula(t->code, formula, false, t->text.write, t->text.context);
}

static void tree_formula_node(struct tree *t, const struct formula *formula)
{
	tree_open(t, "formula", NULL);
	tree_formula(t, formula);
	tree_close(t, &formula->span);
}

static void tree_operand(struct tree *t, const struct operand *o)
{
	if (o->kind == OPERAND_BLOCK) {
		tree_block(t, o->block);
		return;
	}
	tree_open(t,
	          o->kind == OPERAND_NUMBER    ? "number"
	          : o->kind == OPERAND_LIST    ? "list"
	          : o->kind == OPERAND_FORMULA ? "formula"
	                                       : "operand",
	          o->kind == OPERAND_CURRENT  ? "."
	          : o->kind == OPERAND_STRING ? NULL
	                                      : o->text);
	if (o->kind == OPERAND_LIST)
		tree_list(t, o->list);
	if (o->kind == OPERAND_STRING)
		tree_string(t, o->text);
	if (o->kind == OPERAND_FORMULA)
		tree_formula(t, o->formula);
	if (o->index != NO_INDEX)
		text_printf(&t->text, " index %lld", (long long)o->index);
	tree_close(t, &o->span);
}

static void tree_option(struct tree *t, const struct option *o)
{
	tree_open(t, "option", o->name);
	if (o->kind == VALUE_STRING)
		tree_string(t, o->text);
	else if (o->kind == VALUE_LIST)
		tree_list(t, o->list);
	else if (o->kind == VALUE_FORMULA)
		tree_formula(t, o->formula);
	else
		tree_word(t, o->text);
	tree_close(t, &o->span);
}

static void tree_type(struct tree *t, const struct declared *type)
{
	tree_open(t, "type", NULL);
	tree_word(t, "");
	syntax_write_type(t->code, type, t->text.write, t->text.context);
	tree_close(t, &type->span);
}

static void tree_declaration(struct tree *t, const struct statement *s)
{
	if (s->type && s->type->given)
		tree_type(t, s->type);
	else if (s->kind == STATEMENT_PROGRAM)
		text_put(&t->text, " same");
	if (!s->init || s->init->kind == INIT_NONE)
		return;
	tree_open(t, "init", s->init->kind == INIT_LOAD ? "load" : s->init->text);
	if (s->init->path)
		tree_string(t, s->init->path);
	if (s->init->key)
		tree_string(t, s->init->key);
	tree_close(t, &s->init->span);
}

/* Writes the names of an `export`, a `for`, a def or a program; or the formula in the place of one. */
static void tree_names(struct tree *t, const char *kind, const struct name_list *names)
{
	for (const struct name_list *n = names; n; n = n->next)
		if (n->formula)
			tree_formula_node(t, n->formula);
		else
			tree_leaf(t, kind, n->name, &n->span);
}

static void tree_statement(struct tree *t, const struct statement *s)
{
	tree_open(t, statement_word(s->kind), s->name);
	if (s->kind == STATEMENT_REPEAT)
		text_put(&t->text, s->condition ? " while" : "");
	if (s->kind == STATEMENT_REPEAT && s->count.formula)
		tree_formula(t, s->count.formula);
	else if (s->kind == STATEMENT_REPEAT)
		text_printf(&t->text, " %lld", (long long)s->count.value);
	tree_place(t, &s->span);
	tree_declaration(t, s);
	tree_names(t, s->kind == STATEMENT_EXPORT ? "name" : "variable", s->names);
	tree_names(t, s->kind == STATEMENT_EXPORT ? "as" : "over", s->over);
	if (s->counter)
		tree_leaf(t, "counter", s->counter->name, &s->counter->span);
	if (s->formula)
		tree_formula_node(t, s->formula);
	for (const struct operand *o = s->operands; o; o = o->next)
		tree_operand(t, o);
	for (const struct option *o = s->options; o; o = o->next)
		tree_option(t, o);
	if (s->condition)
		tree_block(t, s->condition);
	if (s->block)
		tree_block(t, s->block);
	tree_close(t, NULL);
}

static void tree_block(struct tree *t, const struct block *block)
{
	tree_open(t, "block", NULL);
	tree_place(t, &block->span);
	for (const struct statement *s = block->first; s; s = s->next)
		tree_statement(t, s);
	tree_close(t, NULL);
}

void syntax_dump(const struct syntax *syntax, diag_write *write, void *context)
{
	struct tree t = {syntax->source, {write, context}, 0};
	tree_open(&t, "chain", NULL);
	for (const struct statement *s = syntax->chain->first; s; s = s->next)
		tree_statement(&t, s);
	tree_close(&t, NULL);
	text_put(&t.text, "\n");
}

struct dumper {
	const struct chain *chain;
	struct text text;
};

static void dump_nodes(const struct dumper *d, const struct node *node, int depth);

static void dump_ref(const struct dumper *d, const struct ref *ref, int depth);

static void dump_term(const struct dumper *d, const struct term *term, int depth)
{
	text_put(&d->text, " (");
	dump_ref(d, &term->before, depth);
	dump_ref(d, &term->value, depth);
	text_put(&d->text, "\n");
	dump_nodes(d, term->first, depth + 1);
	text_printf(&d->text, "%*s)", 2 * depth, "");
}

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
	case REF_COUNTER:
		text_printf(&d->text, " counter:%u", ref->index);
		break;
	case REF_ARGUMENT:
		text_printf(&d->text, " argument:%u", ref->index);
		break;
	case REF_CURRENT:
		text_put(&d->text, " .");
		break;
	case REF_HELD:
		text_put(&d->text, " held");
		break;
	case REF_TERM:
		dump_term(d, ref->term, depth);
		break;
	case REF_BLOCK:
		text_printf(&d->text, " {\n");
		dump_nodes(d, ref->block, depth + 1);
		text_printf(&d->text, "%*s}", 2 * depth, "");
		break;
	}
	if (ref_has_element(ref))
		text_printf(&d->text, "[%lld]", (long long)ref->element);
	if (ref->by_name) {
		text_put(&d->text, "[");
		dump_ref(d, ref->by, depth);
		text_put(&d->text, " ]");
	}
}

static void dump_counter(const struct dumper *d, const struct node *node)
{
	if (node->counter)
		text_printf(&d->text, " as counter:%u", node->counter - 1);
}

static void dump_node(const struct dumper *d, const struct node *node, int depth)
{
	text_printf(&d->text, "%*s", 2 * depth, "");
	switch (node->kind) {
	case NODE_OP:
		text_printf(&d->text, "%s", op_table[node->op].name);
		dump_ref(d, &node->operand, depth);
		for (int i = 1; i < op_most_operands(node->op); i++)
			dump_ref(d, &node->more[i - 1], depth);
		break;
	case NODE_CALL:
		text_printf(&d->text, "call %s", node->def->name);
		for (size_t i = 0; i < node->def->count; i++)
			dump_ref(d, &node->arguments[i], depth);
		break;
	case NODE_PROGRAM:
		text_printf(&d->text, "program %s", d->chain->programs[node->program].name);
		for (uint32_t i = 0; i < node->operand_count; i++)
			dump_ref(d, &node->operands[i], depth);
		break;
	case NODE_NAME:
		text_printf(&d->text, "name %s", d->chain->variables[node->variable]);
		dump_ref(d, &node->operand, depth);
		break;
	case NODE_COLLECT:
		text_printf(&d->text, "collect %s every=", d->chain->variables[node->variable]);
		if (node->operand.kind == REF_NONE)
			text_printf(&d->text, "%lld", (long long)node->every);
		else
			dump_ref(d, &node->operand, depth);
		break;
	case NODE_COTANGENTS:
		text_put(&d->text, "cotangents");
		break;
	case NODE_REPEAT:
		text_put(&d->text, "repeat");
		if (node->times)
			dump_ref(d, node->times, depth);
		else
			text_printf(&d->text, " %lld", (long long)node->count);
		dump_counter(d, node);
		if (node->conditional) {
			text_printf(&d->text, " while {\n");
			dump_nodes(d, node->condition, depth + 1);
			text_printf(&d->text, "%*s}", 2 * depth, "");
		}
		break;
	case NODE_FOR:
		text_printf(&d->text, "for");
		for (size_t i = 0; i < node->loop_count; i++) {
			text_printf(&d->text, " loop:%u over", node->loops[i]);
			dump_ref(d, &node->over[i], depth);
		}
		dump_counter(d, node);
		break;
	case NODE_INDEX:
		text_printf(&d->text, "index of %zu parts", node->bound_count);
		break;
	case NODE_FIXED_POINT:
		text_put(&d->text, "fixed_point max");
		dump_ref(d, node->most, depth);
		text_put(&d->text, " tol");
		dump_ref(d, node->tolerance, depth);
		break;
	case NODE_CHECKPOINT:
		text_printf(&d->text, "checkpoint %s", node->policy ? node->policy->text : "");
		break;
	}
	text_printf(&d->text, "  %u:%u\n", node->span.line, node->span.column);
	dump_nodes(d, node->body, depth + 1);
}

static void dump_nodes(const struct dumper *d, const struct node *node, int depth)
{
	for (; node; node = node->next)
		dump_node(d, node, depth);
}

void chain_dump(const struct chain *chain, diag_write *write, void *context)
{
	struct dumper d = {chain, {write, context}};
	text_printf(&d.text, "input %s\n", chain->input);
	for (size_t i = 0; i < chain->param_count; i++)
		text_printf(&d.text, "%s %s\n", param_word(&chain->params[i]), chain->params[i].name);
	for (size_t i = 0; i < chain->output_count; i++)
		text_printf(&d.text, "output %s\n", chain->outputs[i].name);
	for (size_t i = 0; i < chain->program_count; i++)
		text_printf(&d.text, "program %s\n", chain->programs[i].name);
	dump_nodes(&d, chain->first, 0);
}
