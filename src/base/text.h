/* Text that is written a piece at a time, to whoever takes it. Nothing here prints. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/diag.h"

struct text {
	diag_write *write;
	void *context;
};

void text_put(const struct text *text, const char *piece);
__attribute__((format(printf, 2, 3))) void text_printf(const struct text *text, const char *format, ...);

#endif
