/* The npy header: reading and writing the dict that names type, order and shape. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include "io/array.h"

enum { NPY_MAGIC = 6, NPY_HEADER_LIMIT = 64 << 10 };

struct npy_header {
	struct type type;
	bool swap; /* big-endian values of more than a byte */
	bool fortran;
	bool void2; /* |V2: type.dtype is BF16 where the caller has said so */
};

bool npy_is(const unsigned char *bytes, size_t length);
/* Reads a header from INPUT, magic included. */
enum status npy_read_header(struct input *input, enum dtype assume, struct npy_header *header, struct diags *diags);
/* Reads the dict TEXT; OFFSET is its place in FILE. */
enum status npy_parse_dict(const char *text, size_t length, const char *file, int64_t offset, enum dtype assume,
                           struct npy_header *header, struct diags *diags);
/* numpy.save's header of a C-ordered little-endian array; its length. */
enum { NPY_HEADER_MOST = 1024 };
size_t npy_make_header(const struct type *type, char header[NPY_HEADER_MOST]);

#endif
