/* Text of reports: tables with aligned columns, and strings escaped for JSON, XML and CSV. */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include "base/text.h"

/* A text that grows in an arena; at one address, to which `text` refers. It stops growing when memory is short. */
struct grown_text {
	struct text text;
	struct arena *arena;
	char *bytes; /* USED bytes, not terminated; or NULL */
	size_t used, capacity;
};
void text_grow_in(struct grown_text *grown, struct arena *arena);
/* Returns the text so far, terminated, and begins the next text. NULL when memory is short. */
const char *text_grown(struct grown_text *grown);

struct text_list {
	const char **items;
	size_t count, capacity;
};
/* Adds TEXT. False if that is NULL, or memory is short. */
bool text_list_add(struct text_list *list, const char *text, struct arena *arena);

enum report_format { REPORT_TABLE, REPORT_JSON, REPORT_CSV, REPORT_LINES };

/* A JSON string with its quotes; control characters and invalid UTF-8 escaped. NULL is null. */
void text_json(const struct text *text, const char *string);
/*
 * Text within XML, or within an attribute in double quotes: escaped. Line ends and tabs become spaces. Control
 * characters, and bytes that are not UTF-8, become U+FFFD, as XML cannot hold them.
 */
void text_xml(const struct text *text, const char *string);
/* A CSV field, quoted where it must be. */
void text_csv(const struct text *text, const char *field);
/* "1.5 KiB": bytes for people. */
const char *text_bytes(int64_t bytes, char buffer[32]);

/*
 * A table of CELLS, row by row, the headings first. A column is as wide as its widest cell, and aligned to the right if
 * its bit is set in RIGHT. Characters that would move a terminal's cursor are escaped.
 */
void text_table(const struct text *text, const char *const *cells, size_t rows, size_t columns, uint64_t right);

#endif
