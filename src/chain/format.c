/*
 * The formatter: the syntax tree in canonical spelling, a statement a line, with
 * the comments put back where they stood. A block whose statements are short and
 * which holds no comment stays on its line.
 *
 * Comments are kept in order of place; the writer walks them beside the tree, so
 * each is written once: on a line of its own before the statement that follows
 * it, or at the end of the line of the statement that it followed.
 */
#include "chain/syntax.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, INDENT = 4 };

struct formatter {
	const struct syntax *syntax;
	const struct comment *comment; /* the next one */
	diag_write *write;
	void *context;
	size_t column; /* written on this line */
	bool measure;  /* count columns only */
};

static void put(struct formatter *f, const char *text)
{
	size_t length = strlen(text);
	f->column += length;
	if (!f->measure)
		f->write(f->context, text, length);
}

static void put_line(struct formatter *f)
{
	put(f, "\n");
	f->column = 0;
}

static void put_indent(struct formatter *f, int depth)
{
	for (int i = 0; i < depth * INDENT; i++)
		put(f, " ");
}

static void put_string(struct formatter *f, const char *text)
{
	char escaped[8];
	put(f, "\"");
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			snprintf(escaped, sizeof escaped, "\\%c", c);
		else if (c == '\n' || c == '\t')
			snprintf(escaped, sizeof escaped, "\\%c", c == '\n' ? 'n' : 't');
		else if (c < 0x20 || c == 0x7f)
			snprintf(escaped, sizeof escaped, "\\x%02x", c);
		else
			snprintf(escaped, sizeof escaped, "%c", c);
		put(f, escaped);
	}
	put(f, "\"");
}

static void put_integer(struct formatter *f, int64_t value)
{
	char text[32];
	snprintf(text, sizeof text, "%lld", (long long)value);
	put(f, text);
}

/* The shortest digits that read back as VALUE. */
static void put_number(struct formatter *f, double value)
{
	char text[40];
	for (int digits = 1; digits <= 17; digits++) {
		double back;
		snprintf(text, sizeof text, "%.*g", digits, value);
		if (sscanf(text, "%lf", &back) == 1 && (back == value || value != value))
			break;
	}
	put(f, value != value ? "nan" : text);
}

static void put_block(struct formatter *f, const struct block *block, int depth);

static void put_type(struct formatter *f, const struct declared *declared)
{
	char text[TYPE_TEXT];
	if (!declared->given)
		return;
	put(f, ": ");
	put(f, type_format(&declared->type, text));
}

/* A nested list of the values of shape SHAPE from level LEVEL on; returns the values written. */
static size_t put_list(struct formatter *f, const double *values, const struct shape *shape, int level)
{
	if (level == shape->ndim) {
		put_number(f, *values);
		return 1;
	}
	size_t used = 0;
	put(f, "[");
	for (int64_t i = 0; i < shape->dim[level]; i++) {
		put(f, i ? ", " : "");
		used += put_list(f, values + used, shape, level + 1);
	}
	put(f, "]");
	return used;
}

static void put_init(struct formatter *f, const struct init *init)
{
	static const char *const words[] = {[INIT_ZEROS] = "zeros", [INIT_ONES] = "ones",     [INIT_EYE] = "eye",
	                                    [INIT_FULL] = "full",   [INIT_NORMAL] = "normal", [INIT_UNIFORM] = "uniform"};
	if (init->kind == INIT_NONE)
		return;
	put(f, " = ");
	switch (init->kind) {
	case INIT_NONE:
		break;
	case INIT_NUMBER:
		put_number(f, init->values[0]);
		break;
	case INIT_LIST:
		put_list(f, init->values, &init->shape, 0);
		break;
	case INIT_LOAD:
		put(f, "load(");
		put_string(f, init->path);
		if (init->key) {
			put(f, ", ");
			put_string(f, init->key);
		}
		put(f, ")");
		break;
	case INIT_ZEROS:
	case INIT_ONES:
	case INIT_EYE:
		put(f, words[init->kind]);
		break;
	case INIT_FULL:
	case INIT_NORMAL:
	case INIT_UNIFORM:
		put(f, words[init->kind]);
		for (size_t i = 0; i < init->count; i++) {
			put(f, i ? ", " : "(");
			put_number(f, init->values[i]);
		}
		put(f, ")");
		break;
	}
}

static void put_names(struct formatter *f, const struct name_list *names)
{
	for (const struct name_list *n = names; n; n = n->next) {
		put(f, n == names ? "" : ", ");
		put(f, n->name);
	}
}

static void put_operands(struct formatter *f, const struct operand *operand, int depth)
{
	for (; operand; operand = operand->next) {
		put(f, " ");
		if (operand->kind == OPERAND_BLOCK) {
			put_block(f, operand->block, depth);
			continue;
		}
		put(f, operand->text);
		if (operand->index >= 0) {
			put(f, "[");
			put_integer(f, operand->index);
			put(f, "]");
		}
	}
}

static void put_options(struct formatter *f, const struct option *option)
{
	for (; option; option = option->next) {
		put(f, " ");
		put(f, option->name);
		put(f, "=");
		switch (option->kind) {
		case VALUE_NUMBER:
		case VALUE_NAME:
		case VALUE_BOOL:
			put(f, option->text);
			break;
		case VALUE_STRING:
			put_string(f, option->text);
			break;
		case VALUE_INTEGERS:
			put(f, "[");
			for (size_t i = 0; i < option->count; i++) {
				put(f, i ? ", " : "");
				put_integer(f, option->integers[i]);
			}
			put(f, "]");
			break;
		}
	}
}

static void put_statement(struct formatter *f, const struct statement *s, int depth)
{
	switch (s->kind) {
	case STATEMENT_INPUT:
	case STATEMENT_PARAM:
	case STATEMENT_CONST:
		put(f, s->kind == STATEMENT_INPUT ? "input " : s->kind == STATEMENT_PARAM ? "param " : "const ");
		put(f, s->name);
		put_type(f, &s->type);
		put_init(f, &s->init);
		break;
	case STATEMENT_DEF:
		put(f, "def ");
		put(f, s->name);
		put(f, "(");
		put_names(f, s->names);
		put(f, ") ");
		put_block(f, s->block, depth);
		break;
	case STATEMENT_STAGE:
		put(f, s->name);
		put_operands(f, s->operands, depth);
		put_options(f, s->options);
		break;
	case STATEMENT_NAME:
		put(f, "name ");
		put(f, s->name);
		break;
	case STATEMENT_REPEAT:
		put(f, "repeat ");
		put_integer(f, s->count);
		put(f, " ");
		if (s->block->braced)
			put_block(f, s->block, depth);
		else
			put_statement(f, s->block->first, depth);
		break;
	case STATEMENT_FOR:
		put(f, "for ");
		put_names(f, s->names);
		put(f, " in ");
		put_names(f, s->over);
		put(f, " ");
		put_block(f, s->block, depth);
		break;
	case STATEMENT_CHECKPOINT:
		put(f, "checkpoint");
		put_options(f, s->options);
		put(f, " ");
		put_block(f, s->block, depth);
		break;
	}
}

/* Whether BLOCK holds a comment or anything that takes several lines. */
static bool is_simple(const struct formatter *f, const struct block *block)
{
	if (f->comment && f->comment->offset < block->span.end && f->comment->offset > block->span.begin)
		return false;
	for (const struct comment *c = f->comment; c && c->offset < block->span.end; c = c->next)
		if (c->offset > block->span.begin)
			return false;
	return true;
}

static void put_inline(struct formatter *f, const struct block *block)
{
	put(f, "{");
	for (const struct statement *s = block->first; s; s = s->next) {
		put(f, s == block->first ? " " : "; ");
		put_statement(f, s, 0);
	}
	put(f, block->first ? " }" : "}");
}

static bool fits(struct formatter *f, const struct block *block)
{
	if (f->measure)
		return true;
	if (!is_simple(f, block))
		return false;
	struct formatter trial = *f;
	trial.measure = true;
	put_inline(&trial, block);
	return trial.column <= WIDTH;
}

/* Comments before OFFSET, each on a line of its own. */
static void put_comments(struct formatter *f, uint32_t offset, int depth)
{
	for (; f->comment && f->comment->offset < offset; f->comment = f->comment->next) {
		put_indent(f, depth);
		put(f, f->comment->text);
		put_line(f);
	}
}

/* A comment on the line where what has just been written ended. */
static void put_end_comment(struct formatter *f, uint32_t line)
{
	if (f->comment && f->comment->line == line) {
		put(f, "  ");
		put(f, f->comment->text);
		f->comment = f->comment->next;
	}
}

/* The line on which a statement ends. */
static uint32_t end_line(const struct formatter *f, const struct statement *s)
{
	uint32_t line = s->span.line;
	for (uint32_t i = s->span.begin; i < s->span.end; i++)
		line += f->syntax->source->text[i] == '\n';
	return line;
}

/* Whether a blank line stood before OFFSET. */
static bool blank_before(const struct formatter *f, uint32_t offset)
{
	const char *text = f->syntax->source->text;
	int lines = 0;
	while (offset > 0 && strchr(" \t\r\n;", text[offset - 1]))
		lines += text[--offset] == '\n';
	return lines > 1;
}

static void put_statements(struct formatter *f, const struct block *block, int depth)
{
	bool first = true;
	for (const struct statement *s = block->first; s; s = s->next) {
		uint32_t begin = f->comment && f->comment->offset < s->span.begin ? f->comment->offset : s->span.begin;
		if (!first && blank_before(f, begin))
			put_line(f);
		first = false;
		while (f->comment && f->comment->offset < s->span.begin) {
			uint32_t next = f->comment->next && f->comment->next->offset < s->span.begin ? f->comment->next->offset
			                                                                            : s->span.begin;
			put_comments(f, f->comment->offset + 1, depth);
			if (blank_before(f, next))
				put_line(f);
		}
		put_indent(f, depth);
		put_statement(f, s, depth);
		if (!s->next || s->next->span.line != end_line(f, s))
			put_end_comment(f, end_line(f, s));
		put_line(f);
	}
}

static void put_block(struct formatter *f, const struct block *block, int depth)
{
	if (fits(f, block)) {
		put_inline(f, block);
		return;
	}
	put(f, "{");
	put_end_comment(f, block->span.line);
	put_line(f);
	put_statements(f, block, depth + 1);
	put_comments(f, block->span.end, depth + 1);
	put_indent(f, depth);
	put(f, "}");
}

void syntax_format(const struct syntax *syntax, diag_write *write, void *context)
{
	struct formatter f = {.syntax = syntax, .comment = syntax->comments, .write = write, .context = context};
	put_statements(&f, syntax->chain, 0);
	put_comments(&f, UINT32_MAX, 0);
}

/* The dump: the tree, indented, with places. */

struct dumper {
	diag_write *write;
	void *context;
};

static void dump_block(const struct dumper *d, const struct block *block, int depth);

static void dump_line(const struct dumper *d, int depth, const struct span *span, const char *what, const char *text)
{
	char line[512];
	int n = snprintf(line, sizeof line, "%*s%s%s%.300s  %u:%u\n", depth * 2, "", what, text && *text ? " " : "",
	                 text ? text : "", span->line, span->column);
	if (n > 0)
		d->write(d->context, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static void dump_statement(const struct dumper *d, const struct statement *s, int depth)
{
	static const char *const kinds[] = {"input", "param", "const", "def", "stage", "name", "repeat", "for", "checkpoint"};
	char count[32];
	snprintf(count, sizeof count, "%lld", (long long)s->count);
	dump_line(d, depth, &s->span, kinds[s->kind], s->kind == STATEMENT_REPEAT ? count : s->kind >= STATEMENT_FOR ? "" : s->name);
	for (const struct name_list *n = s->names; n; n = n->next)
		dump_line(d, depth + 1, &n->span, "variable", n->name);
	for (const struct name_list *n = s->over; n; n = n->next)
		dump_line(d, depth + 1, &n->span, "over", n->name);
	for (const struct operand *o = s->operands; o; o = o->next) {
		static const char *const operands[] = {"number", "operand", "block"};
		dump_line(d, depth + 1, &o->span, operands[o->kind], o->text);
		if (o->block)
			dump_block(d, o->block, depth + 2);
	}
	for (const struct option *o = s->options; o; o = o->next)
		dump_line(d, depth + 1, &o->span, "option", o->name);
	if (s->block)
		dump_block(d, s->block, depth + 1);
}

static void dump_block(const struct dumper *d, const struct block *block, int depth)
{
	for (const struct statement *s = block->first; s; s = s->next)
		dump_statement(d, s, depth);
}

void syntax_dump(const struct syntax *syntax, diag_write *write, void *context)
{
	struct dumper d = {write, context};
	dump_block(&d, syntax->chain, 0);
}
