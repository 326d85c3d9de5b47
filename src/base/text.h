/* Text that is passed to a callback piece by piece; UTF-8; and the parsing of byte counts. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/diag.h"

/*
 * Returns the number of bytes of the UTF-8 character that begins TEXT, and writes the character to *C. TEXT has LEFT
 * bytes, at least one. Returns 0, and leaves *C, if they do not begin with valid UTF-8 (RFC 3629).
 */
size_t utf8_length(const char *text, size_t left, uint32_t *c);

/* True if C may be shown as it is: it is no control code, and does not reorder, break or hide text. */
bool utf8_shows(uint32_t c);

/* Parses "1500", "64K" (1000s: K M G T) or "1.5KiB" (1024s: KiB MiB GiB TiB), rounded down; also 64k, 64KB, 1500B. */
enum status bytes_parse(const char *text, int64_t *bytes, struct diags *diags);

/* Returns, in ARENA, the first of COUNT NAMES, separated by commas, and how many others there are. */
const char *text_join(const char *const *names, size_t count, struct arena *arena);

struct text {
	diag_write *write;
	void *context;
};

void text_put(const struct text *text, const char *piece);
__attribute__((format(printf, 2, 3))) void text_printf(const struct text *text, const char *format, ...);

#endif
