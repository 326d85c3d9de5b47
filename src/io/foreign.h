/* Data of formats that ckptc does not read: it is named, with a command that converts it. */
#ifndef IO_FOREIGN_H
#define IO_FOREIGN_H

#include "io/stream.h"

/* A file or stream is known by this many bytes at its beginning. Text has no NUL in them. */
enum { FOREIGN_BYTES = 58 };

/* Fails with STATUS_DATA if data of INPUT that begins with the GOT BYTES is of a known foreign format. */
enum status foreign_refuse(const struct input *input, const unsigned char *bytes, size_t got, struct diags *diags);

#endif
