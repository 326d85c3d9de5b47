/*
 * Text out of reports: pieces to a writer, tables with aligned columns, JSON
 * with escaped strings. Nothing here prints.
 */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include "base/text.h"

enum report_format { REPORT_TABLE, REPORT_JSON, REPORT_CSV, REPORT_LINES };

/* A JSON string with its quotes; control characters and invalid UTF-8 escaped. NULL is null. */
void text_json(const struct text *text, const char *string);
/*
 * Text within XML, or within an attribute in double quotes: escaped, line ends and tabs as spaces, and what XML
 * cannot hold (control characters, bytes that are no UTF-8) as U+FFFD.
 */
void text_xml(const struct text *text, const char *string);
/* A CSV field, quoted where it must be. */
void text_csv(const struct text *text, const char *field);
/* "1.5 KiB": bytes for people. */
const char *text_bytes(int64_t bytes, char buffer[32]);

/*
 * A table: cells row by row; columns are as wide as their widest cell; those
 * whose bit is set in RIGHT are aligned to the right. Rows[0] is the head. What
 * would move a terminal's cursor is escaped.
 */
void text_table(const struct text *text, const char *const *cells, size_t rows, size_t columns, uint64_t right);

#endif
