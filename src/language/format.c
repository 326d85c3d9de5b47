/*
 * The canonical text of a chain: where lines break, and where comments go. Names, and the digits of operands and of
 * initial values, stay as written. Counts, indices and bracketed options are printed from their values.
 *
 * Invariants: the text parses to the same tree; formatting it again changes nothing; each comment is written once.
 * Comments are walked beside the tree, in order of place. A comment that ends the line of a statement or of a '{' stays
 * there. One within a statement, before its first block, moves above the statement. Any other has its own line, before
 * the statement or the '}' that follows it.
 * Tests: tests/unit/test_syntax.c
 */
#include "language/syntax.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80 };
#define INDENT "    "

struct formatter {
	const struct source *file;
	const char *source;            /* the text of FILE */
	const struct comment *comment; /* the next to be written */
	diag_write *write;
	void *context;
	size_t column; /* bytes of this line so far */
	bool measure;  /* writes nothing, but counts the bytes of one line until they exceed WIDTH */
};

static void format_bytes(void *context, const char *text, size_t length)
{
	struct formatter *f = context;
	f->column += length;
	if (!f->measure)
		f->write(f->context, text, length);
}

#define PUT(f, ...) put_pieces(f, (const char *const[]){__VA_ARGS__, NULL})

static void put_pieces(struct formatter *f, const char *const *pieces)
{
	for (; *pieces; pieces++)
		format_bytes(f, *pieces, strlen(*pieces));
}

static bool is_over(const struct formatter *f) { return f->measure && f->column > WIDTH; }

static void format_line(struct formatter *f)
{
	PUT(f, "\n");
	f->column = 0;
}

static void put_indent(struct formatter *f, int depth)
{
	for (; depth > 0; depth--)
		PUT(f, INDENT);
}

void syntax_write_string(const char *text, diag_write *write, void *context)
{
	static const char bytes[] = "\"\\\n\t", letters[] = "\"\\nt";
	write(context, "\"", 1);
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;
		const char *byte = strchr(bytes, *text);
		char escaped[8] = {*text};
		if (byte)
			snprintf(escaped, sizeof escaped, "\\%c", letters[byte - bytes]);
		else if (c < 0x20 || c == 0x7f)
			snprintf(escaped, sizeof escaped, "\\x%02x", c);
		write(context, escaped, strlen(escaped));
	}
	write(context, "\"", 1);
}

static void put_string(struct formatter *f, const char *text) { syntax_write_string(text, format_bytes, f); }

static void put_integer(struct formatter *f, int64_t value)
{
	char text[32];
	snprintf(text, sizeof text, "%lld", (long long)value);
	PUT(f, text);
}

/* Comments and blank lines. */

/* True if a blank line stands before OFFSET, with nothing but white space and ';' between. */
static bool blank_before(const struct formatter *f, uint32_t offset)
{
	int lines = 0;
	while (offset > 0 && strchr(" \t\r\n\f\v;", f->source[offset - 1]) && lines < 2)
		lines += f->source[--offset] == '\n';
	return lines == 2;
}

/* Writes the comments before OFFSET, each on its own line. *FIRST: no blank line before the first. They clear it. */
static void put_comments(struct formatter *f, uint32_t offset, int depth, bool *first)
{
	for (; f->comment && f->comment->offset < offset; f->comment = f->comment->next) {
		if (!*first && blank_before(f, f->comment->offset))
			format_line(f);
		*first = false;
		put_indent(f, depth);
		PUT(f, f->comment->text);
		format_line(f);
	}
}

/* Writes the next comment if it begins between FROM and LIMIT, on the line of FROM. */
static void put_end_comment(struct formatter *f, uint32_t from, uint32_t limit)
{
	if (!f->comment || f->comment->offset < from || f->comment->offset >= limit)
		return;
	if (memchr(f->source + from, '\n', f->comment->offset - from))
		return;
	PUT(f, "  ", f->comment->text);
	f->comment = f->comment->next;
}

/* Declarations. */

/* Writes the list INIT. If a list of lists is too wide, each of its elements begins a line, unless F measures. */
static void put_list(struct formatter *f, const struct init *init, int depth)
{
	const char *text = init->text;
	if (f->measure || !init->shape || init->shape->ndim < 2 || f->column + strlen(text) <= WIDTH) {
		PUT(f, text);
		return;
	}
	int level = 0;
	for (; *text; text++) {
		bool close = *text == ']' && --level == 0;
		if (close) {
			format_line(f);
			put_indent(f, depth);
		}
		format_bytes(f, text, 1);
		bool open = *text == '[' && level++ == 0;
		if (open || (*text == ',' && level == 1)) {
			format_line(f);
			put_indent(f, depth + 1);
			text += !open; /* skips the blank after the comma */
		}
	}
}

void syntax_write_type(const struct source *source, const struct declared *type, diag_write *write, void *context)
{
	char text[TYPE_TEXT];
	const struct text to = {write, context};
	const struct type *given = &type->type;
	if (!type->extents) {
		text_put(&to, type_format(given, text));
		return;
	}
	text_printf(&to, "%s[", dtype_name(given->dtype));
	for (int i = 0; i < given->shape.ndim; i++) {
		text_put(&to, i ? "," : "");
		if (type->extents[i])
			syntax_write_formula(source, type->extents[i], false, write, context);
		else if (given->shape.dim[i] < 0)
			text_put(&to, "*");
		else
			text_printf(&to, "%lld", (long long)given->shape.dim[i]);
	}
	text_put(&to, "]");
}

static void put_formula(struct formatter *f, const struct formula *formula, bool alone)
{
	syntax_write_formula(f->file, formula, alone, format_bytes, f);
}

static void put_type(struct formatter *f, const struct declared *type)
{
	syntax_write_type(f->file, type, format_bytes, f);
}

static void put_declaration(struct formatter *f, const struct statement *s, int depth)
{
	PUT(f, statement_word(s->kind), " ", s->name);
	if (s->type->given) {
		PUT(f, ": ");
		put_type(f, s->type);
	}
	if (s->init->kind == INIT_NONE)
		return;
	PUT(f, " = ");
	if (s->init->kind == INIT_LIST) {
		put_list(f, s->init, depth);
	} else if (s->init->kind == INIT_LOAD) {
		PUT(f, "load(");
		put_string(f, s->init->path);
		if (s->init->key) {
			PUT(f, ", ");
			put_string(f, s->init->key);
		}
		PUT(f, ")");
	} else {
		PUT(f, s->init->text);
	}
}

/* Stages. */

static void put_block(struct formatter *f, const struct block *block, int depth);

static void put_names(struct formatter *f, const struct name_list *names)
{
	for (const struct name_list *n = names; n && !is_over(f); n = n->next) {
		PUT(f, n == names ? "" : ", ", n->name);
		if (n->formula)
			put_formula(f, n->formula, false);
	}
}

/* The items of an `export` or an `output`. */
static void put_items(struct formatter *f, const struct statement *s)
{
	const struct name_list *as = s->over;
	for (const struct name_list *n = s->names; n && !is_over(f); n = n->next, as = as->next) {
		PUT(f, n == s->names ? "" : ", ", n->name);
		if (n->formula) {
			PUT(f, "(");
			put_formula(f, n->formula, false);
			PUT(f, ")");
		}
		if (n->type && n->type->given) {
			PUT(f, ": ");
			put_type(f, n->type);
		}
		if (strcmp(n->name, as->name))
			PUT(f, " as ", as->name);
	}
}

static void put_list_value(struct formatter *f, const struct list *list)
{
	syntax_write_source(f->source + list->span.begin, list->span.end - list->span.begin, format_bytes, f);
}

/* A formula of a `repeat`'s count or a limit, which is a name or stands in parentheses, as a number below 0 does. */
static void put_count(struct formatter *f, const struct count *count)
{
	const struct formula *formula = count->formula;
	const bool name = formula && formula->kind == FORMULA_NAME && !formula->first && !formula->closed;
	const bool closed = !formula && count->value < 0;
	PUT(f, closed ? "(" : "");
	if (!formula)
		put_integer(f, count->value);
	else if (name)
		PUT(f, formula->text);
	else
		put_formula(f, formula, true);
	PUT(f, closed ? ")" : "");
}

static void put_operands(struct formatter *f, const struct operand *operand, int depth)
{
	for (; operand && !is_over(f); operand = operand->next) {
		PUT(f, " ");
		if (operand->kind == OPERAND_BLOCK) {
			put_block(f, operand->block, depth);
			continue;
		}
		if (operand->kind == OPERAND_LIST)
			put_list_value(f, operand->list);
		else if (operand->kind == OPERAND_FORMULA)
			put_formula(f, operand->formula, true);
		else if (operand->kind == OPERAND_STRING)
			put_string(f, operand->text);
		else
			PUT(f, operand->kind == OPERAND_CURRENT ? "." : operand->text);
		if (operand->index != NO_INDEX) {
			PUT(f, "[");
			put_integer(f, operand->index);
			PUT(f, "]");
		}
	}
}

/* The value of an option is in parentheses, even if it ends with an index. */
static void put_option_formula(struct formatter *f, const struct formula *formula)
{
	PUT(f, "(");
	put_formula(f, formula, false);
	PUT(f, ")");
}

static void put_options(struct formatter *f, const struct option *option)
{
	for (; option && !is_over(f); option = option->next) {
		PUT(f, " ", option->name, "=");
		if (option->kind == VALUE_STRING)
			put_string(f, option->text);
		else if (option->kind == VALUE_LIST)
			put_list_value(f, option->list);
		else if (option->kind == VALUE_FORMULA)
			put_option_formula(f, option->formula);
		else
			PUT(f, option->text);
	}
}

static void put_statement(struct formatter *f, const struct statement *s, int depth)
{
	switch (s->kind) {
	case STATEMENT_INPUT:
	case STATEMENT_PARAM:
	case STATEMENT_CONST:
		put_declaration(f, s, depth);
		return;
	case STATEMENT_STAGE:
		PUT(f, s->name);
		put_operands(f, s->operands, depth);
		put_options(f, s->options);
		return;
	case STATEMENT_NAME:
		PUT(f, "name ", s->name);
		return;
	case STATEMENT_COLLECT:
		PUT(f, "collect ", s->name);
		put_options(f, s->options);
		return;
	case STATEMENT_LET:
		PUT(f, "let ", s->name, " = ");
		put_formula(f, s->formula, false);
		return;
	case STATEMENT_EXPORT:
		PUT(f, "export ");
		put_items(f, s);
		return;
	case STATEMENT_OUTPUT:
		PUT(f, "output ");
		put_items(f, s);
		return;
	case STATEMENT_PROGRAM:
		PUT(f, "program ", s->name, "(");
		put_names(f, s->names);
		PUT(f, "): ", s->type->given ? "" : "same");
		if (s->type->given)
			put_type(f, s->type);
		return;
	case STATEMENT_DEF:
		PUT(f, "def ", s->name, "(");
		put_names(f, s->names);
		PUT(f, ")");
		break;
	case STATEMENT_REPEAT:
		PUT(f, "repeat ");
		if (s->condition) {
			PUT(f, "while ");
			put_block(f, s->condition, depth);
			PUT(f, " max=");
		}
		put_count(f, &s->count);
		break;
	case STATEMENT_FOR:
		PUT(f, "for ");
		put_names(f, s->names);
		PUT(f, " in ");
		put_names(f, s->over);
		break;
	case STATEMENT_CHECKPOINT:
	case STATEMENT_FIXED_POINT:
		PUT(f, statement_word(s->kind));
		put_options(f, s->options);
		break;
	}
	if (s->counter)
		PUT(f, " as ", s->counter->name);
	PUT(f, " ");
	if (s->block->braced)
		put_block(f, s->block, depth);
	else
		put_statement(f, s->block->first, depth);
}

/* Returns where the first '{' of S stands, or where S ends. A comment within S before that place moves above S. */
static uint32_t head_end(const struct statement *s)
{
	for (const struct operand *o = s->operands; o; o = o->next)
		if (o->kind == OPERAND_BLOCK)
			return o->block->span.begin;
	if (!s->block)
		return s->span.end;
	if (s->condition)
		return s->condition->span.begin;
	return s->block->braced ? s->block->span.begin : head_end(s->block->first);
}

/* Blocks. */

static void put_statements(struct formatter *f, const struct block *block, int depth)
{
	bool first = true;
	for (const struct statement *s = block->first; s; s = s->next) {
		put_comments(f, s->span.begin, depth, &first);
		if (!first && blank_before(f, s->span.begin))
			format_line(f);
		bool directly = true; /* no blank line here: the one before S is already written */
		put_comments(f, head_end(s), depth, &directly);
		first = false;
		put_indent(f, depth);
		put_statement(f, s, depth);
		put_end_comment(f, s->span.end, s->next ? s->next->span.begin : block->span.end);
		format_line(f);
	}
	put_comments(f, block->span.end, depth, &first);
}

static void put_inline(struct formatter *f, const struct block *block)
{
	PUT(f, "{");
	for (const struct statement *s = block->first; s && !is_over(f); s = s->next) {
		PUT(f, s == block->first ? " " : "; ");
		put_statement(f, s, 0);
	}
	PUT(f, block->first ? " }" : "}");
}

/* True if BLOCK holds no comment and fits, up to its '}', on the current line. */
static bool fits(const struct formatter *f, const struct block *block)
{
	const struct comment *c = f->comment;
	while (c && c->offset < block->span.begin)
		c = c->next;
	if (c && c->offset < block->span.end)
		return false;
	struct formatter trial = *f;
	trial.measure = true;
	put_inline(&trial, block);
	return !is_over(&trial);
}

static void put_block(struct formatter *f, const struct block *block, int depth)
{
	if (f->measure || fits(f, block)) {
		put_inline(f, block);
		return;
	}
	PUT(f, "{");
	put_end_comment(f, block->span.begin, block->first ? block->first->span.begin : block->span.end);
	format_line(f);
	put_statements(f, block, depth + 1);
	put_indent(f, depth);
	PUT(f, "}");
}

void syntax_format(const struct syntax *syntax, diag_write *write, void *context)
{
	struct formatter f = {.file = syntax->source,
	                      .source = syntax->source->text,
	                      .comment = syntax->comments,
	                      .write = write,
	                      .context = context};
	put_statements(&f, syntax->chain, 0);
}
