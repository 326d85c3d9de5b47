/* Functions that the readers and writers of all formats share; private to io. */
#ifndef IO_FORMATS_H
#define IO_FORMATS_H

#include "base/team.h"
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
/* Reads a header, magic included, from INPUT. ASSUME is the dtype of |V2; DTYPE_COUNT: |V2 is an error. */
enum status npy_read_header(struct input *input, enum dtype assume, struct npy_header *header, struct diags *diags);
/* Parses DICT, the text of a header's dict, to HEADER. It begins at byte OFFSET of the file dict->name. */
enum status npy_parse_dict(const struct source *dict, int64_t offset, enum dtype assume, struct npy_header *header,
                           struct diags *diags);
/* Writes numpy.save's header of a little-endian array in C order: f16, bf16 (as |V2), f32 or f64. Returns its bytes. */
enum { NPY_HEADER_MOST = 1024 };
size_t npy_make_header(const struct type *type, char header[NPY_HEADER_MOST]);

/* True if the elements of an array of SHAPE have another order in Fortran than in C. */
bool npy_order_matters(const struct shape *shape);
/* Copies an array in Fortran order to C order. Elements have SIZE bytes: 1, 2, 4 or 8. Only if npy_order_matters(). */
void npy_transpose(const struct shape *shape, size_t size, const char *from, char *to);

/* Chosen columns of npy: pick_columns.c */

/* Rows that were read in order: COUNT from row FIRST on, in the file's bytes. SIZE bytes are allocated. */
struct picked_rows {
	char *bytes;
	size_t size;
	int64_t first, count;
};
/* Chooses the columns of the array whose type READER has read, and changes that type. */
enum status columns_begin(struct reader *reader, struct diags *diags);
/* Reads COUNT chosen elements from FIRST on of a file to TO, as the file has them, from any thread. */
enum status columns_read_at(const struct reader *reader, int64_t first, int64_t count, char *to, struct diags *diags);
/* The same in order: FIRST is the next of the stream. */
enum status columns_read(const struct reader *reader, int64_t first, int64_t count, void *to, struct diags *diags);
/* Copies COUNT chosen elements from FIRST on of FROM, which has whole rows in C order, to TO. */
void columns_gather(const struct reader *reader, const void *from, int64_t first, int64_t count, void *to);
/* Returns the bytes of the array that are still to be read or skipped. */
int64_t columns_left(const struct reader *reader);
void columns_close(struct reader *reader);

/* Text and csv as numbers. */

enum { TEXT_MARKS = 2048 };

/* No row is empty. */
struct text_size {
	int64_t rows, columns;
};

/* The word of number ELEMENT, at byte AT of a text. Its line has number LINE, and begins at byte LINE_BEGIN. */
struct mark {
	int64_t element, at, line_begin;
	uint32_t line;
};

/* A text in a file, whose numbers are read when they are wanted, from any thread. */
struct text_file {
	pthread_mutex_t lock;  /* guards the list, far, and the reader's arena while numbers are read */
	struct scan *idle;     /* a list of scans that nobody uses now */
	int64_t far;           /* the numbers up to the last that was read */
	int64_t first;         /* the input's byte where the text begins */
	struct text_size size; /* COLUMNS: numbers that are read of a row */
	int64_t fields;        /* of a row */
	bool quoted; /* a field may have line ends: there are quotes, in a text whose fields the delimiter separates */
	int64_t gap; /* the least bytes between two marks */
	size_t mark_count;
	struct mark marks[TEXT_MARKS]; /* the first is of the first number; later ones are of rows, or in the first row */
};

static inline bool text_is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

/* A scan reads the numbers of a text in order, from any number of a file on. */
struct scan;
/*
 * Begins to scan the rest of READER's input, or FILE if that is not NULL. On failure too, the caller closes *SCAN unless
 * it is NULL.
 */
enum status scan_open(struct scan **scan, const struct reader *reader, struct text_file *file, struct diags *diags);
void scan_close(struct scan *scan);
/*
 * Reads up to COUNT numbers to TO. Goes past what is between the last of them and the next number. *GOT < COUNT only at the end. Fails
 * with STATUS_DATA and the place of a word that is no number, of a wrong comma, or of a row of another length.
 */
enum status scan_read(struct scan *scan, double *to, size_t count, size_t *got, struct diags *diags);
/* Makes byte AT of the text, or its end, the next of SCAN, which has not gone beyond it. LINES are before it. */
enum status scan_go(struct scan *scan, int64_t at, uint32_t lines, struct diags *diags);
/* Points *TEXT at the LENGTH next bytes that are in the window. GROW: reads more of them before. *END: the text has no more. */
enum status scan_window(struct scan *scan, bool grow, const char **text, size_t *length, bool *end,
                        struct diags *diags);
/* Makes SCAN ready to read the columns of its reader's table, which have been chosen now. */
enum status scan_set_table(struct scan *scan, struct diags *diags);
/* True at the end of the text. Then scan_size returns the size of a text that was read from its first number on. */
bool scan_done(const struct scan *scan);
struct text_size scan_size(const struct scan *scan);
/*
 * Counts and marks the numbers of the first row of SCAN's file, of which SCAN has read nothing. Sets NEXT->at and NEXT->line to the
 * line after it. Checks the first numbers alone, and so refuses data of another kind early.
 */
enum status scan_first_row(struct scan *scan, struct mark *next);
/* Counts and marks the rows of SCAN's file from FROM on, the line after the first row, if fields may have line ends. */
enum status scan_count_rows(struct scan *scan, const struct mark *from);
/*
 * Counts and marks the rows of READER's text from LINE on, the line after the first row. options.threads share the text. Fails
 * with STATUS_DATA if the file cannot be read as far as it was when it was opened.
 */
enum status text_count_rows(const struct reader *reader, const struct mark *line, struct diags *diags);
/* Adds a mark to TEXT, unless the last is near. If there are too many, every other one is left. */
void text_add_mark(struct text_file *text, const struct mark *mark);
/* Makes number ELEMENT of the file of SCAN the next, once its rows are counted. Fails with STATUS_DATA as scan_read. */
enum status scan_seek(struct scan *scan, int64_t element, struct diags *diags);
/* Fails with STATUS_DATA if the row of the number that was read last has more of them. */
enum status scan_end_row(struct scan *scan, struct diags *diags);
int64_t scan_next(const struct scan *scan);  /* the number that is read next */
struct scan **scan_link(struct scan *scan);  /* for a list of scans */
size_t scan_memory(void);                    /* bytes of a scan, unless a word is longer than a window */
int64_t scan_bytes(const struct scan *scan); /* of text that have been read so far */
/* Reports that INPUT changed after its rows were counted. Returns STATUS_DATA. */
enum status scan_file_changed(const struct input *input, struct diags *diags);
/* Begins the array of READER's input, a text: sets its type, its layout and where its values come from. */
enum status text_begin(struct reader *reader, struct diags *diags);
/*
 * Reads COUNT numbers of reader->text from number FIRST on, from any thread. Fails with STATUS_DATA as scan_read does, or if
 * the file has other numbers of them than were counted.
 */
enum status text_read(const struct reader *reader, int64_t first, double *to, size_t count, struct diags *diags);
/* Frees reader->text, which may be NULL. */
void text_close(struct reader *reader);
/* Reports that INPUT, which is held whole, has more bytes than the READ that fit in memory. Returns STATUS_LIMIT. */
enum status scan_out_of_memory(const struct input *input, size_t read, struct diags *diags);

/* Numbers and arrays as text. */

__extension__ typedef unsigned __int128 uint128;

/* The powers of ten that doubles need. */
enum { LEAST_POWER = -292, MOST_POWER = 324 };

/*
 * Returns the first 128 bits of 10^E, plus one: rounded up, or too large by one where they are exact. They are so for
 * E from 0 to 55. E must be from LEAST_POWER to MOST_POWER.
 */
uint128 power_of_ten(int e);

/* The factor is scaled by 2^32, and exact enough for every power here. */
static inline int floor_log2_of_power_of_10(int e) { return (int)((e * INT64_C(14267572527)) >> 32); }

/*
 * Reads the decimal at TEXT, with or without point and exponent, and rounds it once. Returns where it ends, at END at the
 * latest. Returns NULL if there is none, or it is one of the few that number_parse must read. Reads no byte at END.
 */
const char *number_read(const char *text, const char *end, double *value);
/*
 * Writes SIZE, a positive and finite value of DTYPE (F16, BF16, F32 or F64), as *DIGITS times 10^*EXPONENT: the decimal
 * with the fewest digits that reads back as SIZE. Of several such decimals it is the nearest, and of two as near the
 * even one. It has at most 17 digits, and may end in zeros.
 */
void shortest_decimal(double size, enum dtype dtype, uint64_t *digits, int *exponent);

/* Prints VALUES, writer->count of them, in the shape of writer->type. */
enum status print_array(struct writer *writer, const double *values, struct diags *diags);
enum status writer_put_text(struct writer *writer, const char *text, struct diags *diags);

/* Zip archives, which npz.c reads and save.c writes; crc.c has the checksum. */

/* The records' signatures; their bytes without names, extra fields and comments; the most bytes of a name. */
enum { ZIP_LOCAL = 0x04034b50, ZIP_CENTRAL = 0x02014b50, ZIP_END = 0x06054b50 };
enum { ZIP_END64 = 0x06064b50, ZIP_LOCATOR64 = 0x07064b50 };
enum { ZIP_LOCAL_BYTES = 30, ZIP_CENTRAL_BYTES = 46, ZIP_END_BYTES = 22 };
enum { ZIP_END64_BYTES = 56, ZIP_LOCATOR64_BYTES = 20, ZIP_NAME_MOST = 0xffff };

/* Tables for the checksum of members. */
struct zip_crc {
	uint32_t table[8][256];
};
void zip_crc_init(struct zip_crc *tables);
/* Returns the CRC-32 of some earlier bytes, whose own is CRC (0 if none), followed by the SIZE bytes of DATA. */
uint32_t zip_crc_add(const struct zip_crc *tables, uint32_t crc, const void *data, size_t size);
/* The most pieces in which a team shares a member. */
enum { ZIP_PIECES = 64 };
/* Returns the bytes of such a piece of SIZE bytes: at least 1 MiB, so that few bytes have one piece. */
int64_t zip_piece_bytes(size_t size);
/* Bytes that are copied and checked one after another, while they are in the second-level cache. */
enum { ZIP_BLOCK = 256 << 10 };
/* As zip_crc_add, in pieces that TEAM shares. */
uint32_t zip_crc_add_shared(struct team *team, const struct zip_crc *tables, uint32_t crc, const void *data,
                            size_t size);
/* Returns the CRC-32 of bytes whose own is FIRST, followed by SIZE bytes whose own is SECOND. */
uint32_t zip_crc_join(uint32_t first, uint32_t second, size_t size);
/*
 * The CRC-32 of a whole is the exclusive or of those of its parts, each moved by the bytes that follow the part. A move
 * multiplies a CRC by the power of the number of bytes.
 */
uint32_t zip_crc_power(size_t size);
uint32_t zip_crc_move(uint32_t crc, uint32_t power);

/* A file of several arrays, npz or safetensors, that load.c opens and keeps open. */
struct zip_member;
struct archive {
	const char *path; /* as the caller named it */
	struct input input;
	const struct context *context;
	struct zip_member *members; /* the members of an npz, COUNT of them; NULL: a safetensors file */
	size_t count;
	void *zlib;              /* the library, opened with the first deflated member */
	struct json_text header; /* the header of a safetensors file, checked; its source is freed */
	int64_t data;            /* byte of INPUT where the tensors begin */
};

/* Reads the directory of ARCHIVE, whose input is open. Fails with STATUS_DATA where it is not a readable npz. */
enum status npz_open(struct archive *archive);
/* Reads and checks the header of a safetensors file, whose input is open. STATUS_LIMIT if it is beyond 10^8 bytes. */
enum status tensors_open(struct archive *archive);
/* The key of a safetensors header that names no tensor, and the most bytes of a header. */
#define TENSORS_METADATA "__metadata__"
enum { TENSORS_HEADER_MOST = 100000000 };
/* Returns the archive at PATH that LOADER keeps open, or NULL. */
struct archive *loader_kept(const struct loader *loader, const char *path);
/* Writes an array in FORMAT, npy or raw, after what OUTPUT holds. */
enum status array_write(const struct context *context, struct output *output, enum format format,
                        const struct type *type, const void *data);
/*
 * Write, in its order, the names of ARCHIVE's members or tensors to NAMES, if that is not NULL. The names outlive the
 * archive; NULL if out of memory. Return their number.
 */
size_t npz_names(const struct archive *archive, const char **names);
size_t tensors_names(const struct archive *archive, const char **names);
/* Sets *NAMES, in the arena, to the names of ARCHIVE's *COUNT members or tensors. */
enum status archive_names(const struct archive *archive, const char *const **names, size_t *count);
/* Reports that ARCHIVE has no KEY, or, if KEY is NULL, that it has several. Returns STATUS_DATA, or STATUS_LIMIT. */
enum status archive_lacks(const struct archive *archive, const char *key);
/* Load member or tensor KEY of ARCHIVE, or, if KEY is NULL, the only one. */
enum status npz_load(struct loader *loader, struct array *array, struct archive *archive, const char *key);
enum status tensors_load(struct loader *loader, struct array *array, struct archive *archive, const char *key);

/* Loads the array that READER has begun. */
enum status load_begun(const struct loader *loader, struct array *array, struct reader *reader);
/*
 * Loads the only array of INPUT, npy (|V2 is bf16) or text by its content. Fails with STATUS_DATA if there are more. WHERE
 * is INPUT's place in a file, if the array may stay there: SIZE bytes, from WHERE->at on; else NULL.
 */
enum status load_stream(struct loader *loader, struct array *array, struct input *input,
                        const struct stored_array *where);
/*
 * Leaves the array that READER has begun in the file WHERE, whose byte WHERE->at is READER's first, if LOADER may: sets
 * array->stored.
 */
enum status stored_leave(struct loader *loader, struct array *array, const struct reader *reader,
                         const struct stored_array *where);

#endif
