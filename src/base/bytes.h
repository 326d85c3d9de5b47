/* Numbers of bytes as text. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "base/diag.h"

/* Parses "1500", "64K" (1000s: K M G T), "64KiB" (1024s: KiB MiB GiB TiB); fractions allowed. STATUS_USAGE. */
enum status bytes_parse(const char *text, int64_t *bytes, struct diags *diags);

#endif
