/*
 * The syntax tree as text, for --dump syntax. A node is "(kind what  line:column", its children on lines of their own
 * below it, and ")". Strings are written as in the source; nothing is cut.
 */
#include "language/syntax.h"

#include "base/text.h"

struct tree {
	struct text text;
	int depth;
};

static void tree_open(struct tree *t, const char *kind)
{
	text_printf(&t->text, "%s%*s(%s", t->depth ? "\n" : "", 2 * t->depth, "", kind);
	t->depth++;
}

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

/* Ends a node. Its line stays open, for another ')'. */
static void tree_close(struct tree *t)
{
	t->depth--;
	text_put(&t->text, ")");
}

static void tree_place(const struct tree *t, const struct span *span)
{
	text_printf(&t->text, "  %u:%u", span->line, span->column);
}

static void tree_close_at(struct tree *t, const struct span *span)
{
	tree_place(t, span);
	tree_close(t);
}

static void tree_leaf(struct tree *t, const char *kind, const char *text, const struct span *span)
{
	tree_open(t, kind);
	tree_word(t, text);
	tree_close_at(t, span);
}

static void tree_block(struct tree *t, const struct block *block);

static void tree_operand(struct tree *t, const struct operand *o)
{
	if (o->kind == OPERAND_BLOCK) {
		tree_block(t, o->block);
		return;
	}
	tree_open(t, o->kind == OPERAND_NUMBER ? "number" : "operand");
	tree_word(t, o->text);
	if (o->index != NO_INDEX)
		text_printf(&t->text, " index %lld", (long long)o->index);
	tree_close_at(t, &o->span);
}

static void tree_option(struct tree *t, const struct option *o)
{
	tree_open(t, "option");
	tree_word(t, o->name);
	if (o->kind == VALUE_STRING)
		tree_string(t, o->text);
	else if (o->kind != VALUE_INTEGERS)
		tree_word(t, o->text);
	for (size_t i = 0; i < o->count; i++)
		text_printf(&t->text, " %lld", (long long)o->integers[i]);
	tree_close_at(t, &o->span);
}

static void tree_init(struct tree *t, const struct init *init)
{
	tree_open(t, "init");
	if (init->kind == INIT_LOAD) {
		text_put(&t->text, " load");
		tree_string(t, init->path);
		if (init->key)
			tree_string(t, init->key);
	} else {
		tree_word(t, init->text);
	}
	tree_close_at(t, &init->span);
}

static void tree_declaration(struct tree *t, const struct statement *s)
{
	char text[TYPE_TEXT];
	if (s->type && s->type->given)
		tree_leaf(t, "type", type_format(&s->type->type, text), &s->type->span);
	if (s->init && s->init->kind != INIT_NONE)
		tree_init(t, s->init);
}

static void tree_statement(struct tree *t, const struct statement *s)
{
	tree_open(t, statement_word(s->kind));
	if (s->kind == STATEMENT_REPEAT)
		text_printf(&t->text, " %lld", (long long)s->count);
	else if (s->kind != STATEMENT_FOR && s->kind != STATEMENT_CHECKPOINT)
		tree_word(t, s->name);
	tree_place(t, &s->span);
	tree_declaration(t, s);
	for (const struct name_list *n = s->names; n; n = n->next)
		tree_leaf(t, "variable", n->name, &n->span);
	for (const struct name_list *n = s->over; n; n = n->next)
		tree_leaf(t, "over", n->name, &n->span);
	for (const struct operand *o = s->operands; o; o = o->next)
		tree_operand(t, o);
	for (const struct option *o = s->options; o; o = o->next)
		tree_option(t, o);
	if (s->block)
		tree_block(t, s->block);
	tree_close(t);
}

static void tree_block(struct tree *t, const struct block *block)
{
	tree_open(t, "block");
	tree_place(t, &block->span);
	for (const struct statement *s = block->first; s; s = s->next)
		tree_statement(t, s);
	tree_close(t);
}

void syntax_dump(const struct syntax *syntax, diag_write *write, void *context)
{
	struct tree t = {{write, context}, 0};
	tree_open(&t, "chain");
	for (const struct statement *s = syntax->chain->first; s; s = s->next)
		tree_statement(&t, s);
	tree_close(&t);
	text_put(&t.text, "\n");
}
