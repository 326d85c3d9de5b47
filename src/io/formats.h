/* What the readers and writers of each format have for one another; private to io. */
#ifndef IO_FORMATS_H
#define IO_FORMATS_H

#include "io/files.h"
#include "io/json.h"

/* npy: the header, a Python dict that names type, order and shape, and arrays in Fortran order. */

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

/* Text and csv as numbers. */

/* COUNT values in rows of COLUMNS; no row is empty. */
struct numbers {
	double *values;
	size_t count, capacity;
	int64_t rows, columns;
};

/* Scans all of TEXT, which READER has read and a zero byte follows. STATUS_DATA with the place of a word that is no number, or of a row of another length. */
enum status scan_text(const struct reader *reader, const char *text, size_t length, struct numbers *numbers,
                      struct diags *diags);
/*
 * Checks the first LENGTH bytes of a longer text: what cannot be numbers is refused
 * before all of it, which may have no end, is in memory.
 */
enum status scan_begin(const struct reader *reader, const char *text, size_t length, struct diags *diags);
/* Reports that INPUT, which must be held whole, has more than the READ bytes that memory holds. */
enum status scan_out_of_memory(const struct input *input, size_t read, struct diags *diags);

/* Numbers and arrays as text. */

/*
 * Writes SIZE, a positive and finite value of DTYPE, as *DIGITS times 10^*EXPONENT. This is the
 * decimal with the fewest digits that reads back as SIZE. Of several it is the nearest, of two as
 * near the even one. It has at most 17 digits, and may end in zeros. DTYPE is one of F16, BF16, F32, F64.
 */
void shortest_decimal(double size, enum dtype dtype, uint64_t *digits, int *exponent);

/* Prints VALUES (w->count of them, of w->type's shape) through the writer. */
enum status print_array(struct writer *writer, const double *values, struct diags *diags);
enum status writer_put_text(struct writer *writer, const char *text, struct diags *diags);

/* Zip archives, which npz.c reads and save.c writes. */

/* The signatures that records begin with, and the records' bytes without names and extra fields. */
enum { ZIP_LOCAL = 0x04034b50, ZIP_CENTRAL = 0x02014b50, ZIP_END = 0x06054b50 };
enum { ZIP_END64 = 0x06064b50, ZIP_LOCATOR64 = 0x07064b50 };
enum { ZIP_LOCAL_BYTES = 30, ZIP_CENTRAL_BYTES = 46, ZIP_END_BYTES = 22 };
enum { ZIP_END64_BYTES = 56, ZIP_LOCATOR64_BYTES = 20, ZIP_NAME_MOST = 0xffff };

/* Tables for the checksum of members. */
struct zip_crc {
	uint32_t table[8][256];
};
void zip_crc_init(struct zip_crc *tables);
/* The checksum of some bytes, whose checksum is CRC (0 for none), and SIZE more. */
uint32_t zip_crc_add(const struct zip_crc *tables, uint32_t crc, const void *data, size_t size);

/* A file of several arrays, npz or safetensors, that load.c opens and keeps open. */
struct zip_member;
struct archive {
	const char *path; /* as the caller named it */
	struct input input;
	const struct context *context;
	struct zip_member *members; /* of an npz; NULL: it is a safetensors file */
	size_t count;
	void *zlib;              /* the library, opened with the first deflated member */
	struct json_text header; /* of a safetensors file: checked; its source is gone */
	int64_t data;            /* byte of INPUT where the tensors begin */
};

/* Reads what ARCHIVE, whose input is open, says of its members. STATUS_DATA where it is not a readable npz. */
enum status npz_open(struct archive *archive);
/* The header of a safetensors file. STATUS_DATA where it is wrong. */
enum status tensors_open(struct archive *archive);
/* Member or tensor KEY, or the only one where KEY is NULL. */
enum status npz_load(const struct loader *loader, struct array *array, struct archive *archive, const char *key);
enum status tensors_load(const struct loader *loader, struct array *array, struct archive *archive, const char *key);

/* The array that READER has begun. */
enum status load_begun(const struct loader *loader, struct array *array, struct reader *reader);
/* INPUT's one array, npy or text, by its content. */
enum status load_stream(const struct loader *loader, struct array *array, struct input *input);

#endif
