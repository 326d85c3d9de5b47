/* Text that is made piece by piece for a callback; UTF-8; and numbers of bytes. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/diag.h"

/*
 * Returns the bytes of the UTF-8 character that begins the LEFT > 0 bytes of TEXT, and writes it to *C. Returns 0
 * where it is not valid (RFC 3629): cut short, overlong, a surrogate, beyond U+10FFFF.
 */
size_t utf8_length(const char *text, size_t left, uint32_t *c);

/* True if a terminal shows C as it is: no control code, and nothing that reorders, breaks or hides text. */
bool utf8_shows(uint32_t c);

/* Parses "1500", "64K" (1000s: K M G T), "64KiB" (1024s: KiB MiB GiB TiB); fractions allowed. STATUS_USAGE. */
enum status bytes_parse(const char *text, int64_t *bytes, struct diags *diags);

struct text {
	diag_write *write;
	void *context;
};

void text_put(const struct text *text, const char *piece);
__attribute__((format(printf, 2, 3))) void text_printf(const struct text *text, const char *format, ...);

#endif
