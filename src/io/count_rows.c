/*
 * Counts the rows of a text in a file, before any is read. Threads share the text in blocks.
 *
 * A block has the lines that begin in it. Whether a line is a row follows from its first byte that is not blank: "#" begins
 * a comment. So no block needs to know the one before. But if there is a quote in a table whose fields may have line ends,
 * one scan counts all rows.
 * Tests: tests/cases/text.test
 */
#include "base/checked.h"
#include "base/team.h"
#include "io/formats.h"
#include "io/table.h"

#include <string.h>

enum { WINDOW = 64 << 10, BLOCKS = 2000, PIECE = 1 << 20 /* the least bytes for a thread */ };

struct block {
	int64_t lines, rows;
	struct mark first; /* the first row; its line is counted from the block's first */
	bool quoted;       /* it has a quote */
	int64_t failed;    /* the byte of the text that could not be read; -1: there is none */
};

struct counting {
	const struct reader *reader;
	int64_t begin, end; /* the text's bytes that are counted */
	int64_t bytes;      /* of a block */
	bool quotes;        /* a quoted field may have line ends */
	struct block *blocks;
	char *window; /* of the thread that called */
};

/* A place in a block: byte AT. IN_LINE: the line's first byte that is not blank is before AT. */
struct place {
	int64_t at, line_begin;
	bool in_line;
};

/* Bytes of a text, in which a tab may be the delimiter. */
struct window {
	const char *text;
	size_t size;
	char delimiter;
};

/* Counts in WINDOW, which begins at PLACE. Stops at a line that begins at END or beyond. */
static void count_window(struct block *block, struct place *place, const struct window *window, int64_t end)
{
	const char *text = window->text, *const stop = text + window->size;
	const char *const begin = text;
	const int64_t first = place->at;
	place->at += stop - text;
	for (;;) {
		if (place->in_line) {
			const char *line_end = memchr(text, '\n', (size_t)(stop - text));
			if (!line_end || first + (line_end + 1 - begin) >= end)
				return;
			text = line_end + 1;
			place->in_line = false;
			place->line_begin = first + (text - begin);
			block->lines++;
		}
		while (text < stop && text_is_blank(*text) && *text != window->delimiter)
			text++;
		if (text == stop)
			return;
		if (*text != '\n' && *text != '#' && block->rows++ == 0)
			block->first = (struct mark){0, first + (text - begin), place->line_begin, (uint32_t)(block->lines - 1)};
		place->in_line = true;
	}
}

static void count_block(const struct counting *c, int64_t index, char *window)
{
	const struct input *input = c->reader->input;
	const int64_t begin = c->begin + index * c->bytes, end = lesser(begin + c->bytes, c->end);
	const char shown = c->reader->table->delimiter, delimiter = shown == ' ' ? '\n' : shown;
	struct block block = {.lines = index == 0, .failed = -1};
	/* The byte before the block may end a line. */
	struct place place = {index ? begin - 1 : begin, begin, index > 0};
	while (place.at < (place.in_line ? end : c->end)) {
		const size_t size = (size_t)lesser(WINDOW, (place.at < end ? end : c->end) - place.at);
		size_t got;
		if (!io_read_at(input->fd, input->base + c->reader->text->first + place.at, window, size, &got) || got < size) {
			block.failed = place.at;
			break;
		}
		block.quoted |= c->quotes && memchr(window, '"', size);
		if (block.quoted)
			break;
		count_window(&block, &place, &(struct window){window, size, delimiter}, end);
	}
	c->blocks[index] = block;
}

static void count_blocks(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct counting *c = context;
	for (int64_t i = begin; i < end; i++)
		count_block(c, i, memory ? memory : c->window);
}

/* Reports why byte AT of the text could not be read. */
static enum status read_failed(const struct counting *c, int64_t at, struct diags *diags)
{
	const struct reader *r = c->reader;
	size_t got;
	TRY(input_read_at(r->input, r->text->first + at, c->window, (size_t)lesser(WINDOW, c->end - at), &got, diags));
	return scan_file_changed(r->input, diags);
}

static enum status add_blocks(const struct counting *c, int64_t count, uint32_t line, struct diags *diags)
{
	struct text_file *text = c->reader->text;
	for (const struct block *block = c->blocks; block < c->blocks + count; block++) {
		if (block->failed >= 0)
			return read_failed(c, block->failed, diags);
		struct mark mark = block->first;
		mark.element = text->size.rows * text->size.columns;
		mark.line += line;
		if (block->rows > 0)
			text_add_mark(text, &mark);
		text->size.rows += block->rows;
		line += (uint32_t)block->lines;
	}
	return STATUS_OK;
}

enum status text_count_rows(const struct reader *r, const struct mark *line, struct diags *diags)
{
	const struct allocator *a = r->arena->allocator;
	const int64_t end = r->input->size - r->text->first, left = greater(end - line->at, 0);
	struct counting c = {.reader = r,
	                     .begin = line->at,
	                     .end = end,
	                     .bytes = greater(WINDOW, (left + BLOCKS - 1) / BLOCKS),
	                     .quotes = r->table->strict};
	const int64_t count = (left + c.bytes - 1) / c.bytes;
	const size_t size = (size_t)count * sizeof *c.blocks;
	struct team *team;
	if (r->text->quoted)
		return scan_count_rows(r->text->idle, line);
	TRY(team_open(&team, left > PIECE ? r->options.threads : 1, WINDOW, a, diags));
	c.blocks = allocator_get(a, 1, size + WINDOW);
	if (c.blocks) {
		c.window = (char *)c.blocks + size;
		team_run(team, count, (PIECE + c.bytes - 1) / c.bytes, count_blocks, &c);
	}
	team_close(team);
	TRY_ALLOC(c.blocks, diags);
	bool quoted = false;
	for (int64_t i = 0; i < count; i++)
		quoted |= c.blocks[i].quoted;
	const enum status status = quoted ? scan_count_rows(r->text->idle, line) : add_blocks(&c, count, line->line, diags);
	allocator_put(a, c.blocks, size + WINDOW);
	return status;
}
