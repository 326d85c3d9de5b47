/* npy: the header, a Python dict that names type, order and shape, and arrays in Fortran order. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include "io/array.h"

enum { NPY_MAGIC = 6, NPY_HEADER_LIMIT = 64 << 10 };

struct npy_header {
	struct type type;
	bool swap; /* big-endian values of more than a byte */
	bool fortran;
	bool void2; /* |V2: type.dtype is the one that the caller assumes */
};

bool npy_is(const unsigned char *bytes, size_t length);
/* Reads a header from INPUT, magic included. */
enum status npy_read_header(struct input *input, enum dtype assume, struct npy_header *header, struct diags *diags);
/* Reads DICT, which begins at byte OFFSET of the file that it names. */
enum status npy_parse_dict(const struct source *dict, int64_t offset, enum dtype assume, struct npy_header *header,
                           struct diags *diags);
/* Writes numpy.save's header of a C-ordered little-endian array; returns its length. */
enum { NPY_HEADER_MOST = 1024 };
size_t npy_make_header(const struct type *type, char header[NPY_HEADER_MOST]);

/* True if an array of SHAPE has its elements in another order in Fortran. */
bool npy_order_matters(const struct shape *shape);
/* Copies an array of SHAPE, of elements of SIZE bytes and in Fortran order, to C order; npy_order_matters of it. */
void npy_transpose(const struct shape *shape, size_t size, const char *from, char *to);

#endif
