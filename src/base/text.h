/* Text that is written a piece at a time, to whoever takes it. Nothing here prints. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/diag.h"

/*
 * Bytes of the UTF-8 sequence at TEXT, of which LEFT > 0 bytes are there, and its character in *C; 0, with *C
 * as it was, where it is not valid: cut short, overlong, a surrogate, beyond U+10FFFF (RFC 3629).
 */
size_t utf8_length(const char *text, size_t left, uint32_t *c);

/* Whether C is seen as what it is: no control code, nor what reorders, breaks or hides a line. What is not is below U+10000. */
bool utf8_shows(uint32_t c);

struct text {
	diag_write *write;
	void *context;
};

void text_put(const struct text *text, const char *piece);
__attribute__((format(printf, 2, 3))) void text_printf(const struct text *text, const char *format, ...);

#endif
