/*
 * Streams of arrays: npy, text, csv and raw, read and written in pieces, in C
 * order, in a computing type (float or double).
 *
 * The header comes first and says everything about shape and type; the values
 * follow in as many pieces as the caller likes. Text and csv, whose shape is
 * known only at their end, and Fortran-ordered arrays of two or more
 * dimensions, which must be transposed, are held whole by the reader.
 */
#ifndef IO_ARRAY_H
#define IO_ARRAY_H

#include "base/type.h"
#include "io/stream.h"

enum format { FORMAT_AUTO, FORMAT_NPY, FORMAT_TEXT, FORMAT_CSV, FORMAT_RAW };

/* How text was laid out, so that output can keep it. */
enum layout { LAYOUT_LINE, LAYOUT_COLUMN, LAYOUT_ROWS };

struct reader_options {
	enum format format; /* --from; AUTO: npy by its magic, else text */
	enum dtype assume;  /* --assume-dtype: what |V2 (or raw) holds; DTYPE_COUNT: not given */
	bool cast;          /* --cast: integers beyond 2^53 may lose digits */
	struct type raw;    /* --shape: the type of raw input; ndim -1: not given (then 1-D, to the end) */
	bool typed;         /* --shape is given: other formats must hold that */
};

struct reader {
	struct input *input;
	struct reader_options options;
	struct arena *arena;
	enum format format; /* after the first header */
	enum layout layout;
	struct type type;    /* the current array's, as in the file */
	int64_t count, done; /* its elements; how many have been read */
	bool swap, fortran;
	int64_t data;        /* byte offset of its values */
	int index;           /* arrays begun so far */
	bool assumed;        /* options.assume, where given, said the type of one of them */
	enum dtype declared; /* what values are rounded to; DTYPE_COUNT: they stay as they are */
	bool direct;         /* values in the file are those in memory: little-endian f32 or f64 in C order */
	void *held;          /* text, csv, Fortran order: the whole array as double or float */
	size_t held_size;
	enum dtype held_dtype;
};

void reader_init(struct reader *reader, struct input *input, const struct reader_options *options, struct arena *arena);
/* From now on the values are those of DTYPE: values_round. */
void reader_declare(struct reader *reader, enum dtype dtype);
/* Begins an array of TYPE, little-endian and in C order, whose values are from byte DATA on: for reader_read_at alone. */
void reader_begin_at(struct reader *reader, const struct type *type, int64_t data);
/* Where the format is FORMAT_AUTO, what the first bytes say: waits for them. STATUS_IO and as input_peek. */
enum status reader_find_format(struct reader *reader, struct diags *diags);
/*
 * The next array's header. *END at the end of the stream (an error before the
 * first array: no data). Fails with STATUS_DATA (file and byte offset), or
 * STATUS_LIMIT for a header beyond 64 KiB or 32 dimensions.
 */
enum status reader_next(struct reader *reader, bool *end, struct diags *diags);
/*
 * The next COUNT elements as COMPUTE (F32 or F64). STATUS_DATA where the file
 * is short ("truncated: ... of ... bytes") or an int64 beyond 2^53 comes without cast.
 */
enum status reader_read(struct reader *reader, void *to, enum dtype compute, int64_t count, struct diags *diags);
/*
 * The same at element FIRST of the current array, from any thread; only where
 * reader_seekable(). The caller calls reader_skip at the end.
 */
enum status reader_read_at(const struct reader *reader, int64_t first, void *to, enum dtype compute, int64_t count,
                           struct diags *diags);
bool reader_seekable(const struct reader *reader);
/* Passes over what is left of the current array. */
enum status reader_skip(struct reader *reader, struct diags *diags);
void reader_free(struct reader *reader); /* what it holds; not the input */

struct writer_options {
	enum format format; /* NPY, TEXT, CSV or RAW: resolved by the caller */
	enum layout layout; /* TEXT, CSV: how the input was laid out */
	bool display;       /* on a terminal: as NumPy prints arrays */
	bool late;          /* TEXT, CSV: kept until writer_finish, as another writes to the same place till then */
	const struct reader *reader; /* of the file that is written, while it is; NULL: it is another */
};

struct writer {
	struct output *output;
	struct writer_options options;
	struct type type;
	int64_t count, done;
	int64_t data; /* byte offset of the current array's values */
	int index;
	char *text; /* a block of formatted text */
	size_t text_used, text_size;
	void *held; /* display needs the whole array */
	struct arena *arena;
};

void writer_init(struct writer *writer, struct output *output, const struct writer_options *options,
                 struct arena *arena);
/*
 * Begins an array of TYPE (f16, bf16 as |V2, f32 or f64): npy's header, byte for byte as
 * numpy.save writes it. STATUS_USAGE where options.reader would not have read all of
 * its current array that is written over.
 */
enum status writer_begin(struct writer *writer, const struct type *type, struct diags *diags);
/* The next COUNT elements, given as COMPUTE. */
enum status writer_write(struct writer *writer, const void *from, enum dtype compute, int64_t count,
                         struct diags *diags);
/* The same at element FIRST, from any thread; only where writer_seekable(). The last call is writer_end. */
enum status writer_write_at(struct writer *writer, int64_t first, const void *from, enum dtype compute, int64_t count,
                            struct diags *diags);
bool writer_seekable(const struct writer *writer); /* npy or raw to a seekable output */
/* Ends the array, all of whose elements must have been written; text of it is held no longer, unless `late`. */
enum status writer_end(struct writer *writer, struct diags *diags);
/* Flushes text that was held to the end; no array may be open. */
enum status writer_finish(struct writer *writer, struct diags *diags);
void writer_free(struct writer *writer);

/* Makes COUNT values, HELD as F32 or F64, those of DTYPE: rounded for halves, whole for integers, 0 or 1 for bool. */
void values_round(void *values, enum dtype held, size_t count, enum dtype dtype);

/* COUNT file values, little-endian and aligned, to the type that they are computed in, F32 or F64. */
void convert_from_file(void *to, enum dtype compute, const void *from, enum dtype dtype, size_t count);
/* COUNT values of COMPUTE to DTYPE, one of F16, BF16, F32 and F64, each rounded once. */
void convert_to_file(void *to, enum dtype dtype, const void *from, enum dtype compute, size_t count);
/* Conversions between halves and the computing types; also the kernels of `cast`. */
void convert_f16_to_f32(float *to, const uint16_t *from, size_t count);
void convert_f32_to_f16(uint16_t *to, const float *from,
                        size_t count); /* round to nearest even, overflow to infinity */
/* The same without the processor's instructions for it. */
void convert_f16_to_f32_plain(float *to, const uint16_t *from, size_t count);
void convert_f32_to_f16_plain(uint16_t *to, const float *from, size_t count);
void convert_bf16_to_f32(float *to, const uint16_t *from, size_t count);
void convert_f32_to_bf16(uint16_t *to, const float *from, size_t count); /* NaN stays NaN */
/*
 * Doubles as floats that are rounded to a half next: to odd, so that the two steps are
 * as one to nearest (Boldo and Melquiond 2008, theorem 3).
 */
void convert_f64_to_f32_odd(float *to, const double *from, size_t count);
/* Whether values in memory are, as in files, little-endian. */
bool convert_little_endian(void);
/* Reverses the bytes of each of COUNT values of SIZE bytes, in place. */
void convert_swap(void *data, size_t size, size_t count);

/* The shortest decimal digits that read back as VALUE (as double, or as float where SINGLE): "3", "0.1", "1e+30", "inf", "-0". */
int number_format(char text[40], double value, bool single);
/* The same for a value of any of F16, BF16, F32 and F64, which reads back when rounded to that type. */
int number_format_as(char text[40], double value, enum dtype dtype);
/* The same as "1.25e-07" or "1e+30", whatever the magnitude; large whole numbers, too, have no more digits than read back. */
int number_format_scientific(char text[40], double value, enum dtype dtype);
/*
 * A number in the C locale whatever setlocale says: decimal, of any length and rounded
 * once, exponent, inf, nan. Returns the bytes consumed, 0 for none.
 */
size_t number_parse(const char *text, size_t length, double *value);

#endif
