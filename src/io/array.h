/*
 * Streams of arrays: npy, text, csv and raw, read and written in pieces of any size, in C order, as float or double.
 * Arrays in the memory of a caller of libckptc are one more format (FORMAT_MEMORY), members of archives another.
 *
 * The end of text and csv gives their shape (io/read_text.c). The reader holds two other kinds of arrays whole. The end of
 * raw values from a pipe without --shape gives their shape. An npy array in Fortran order is transposed if that order
 * differs from C's.
 */
#ifndef IO_ARRAY_H
#define IO_ARRAY_H

#include "base/type.h"
#include "io/input_copy.h"
#include "io/stream.h"

enum format { FORMAT_AUTO, FORMAT_NPY, FORMAT_TEXT, FORMAT_CSV, FORMAT_RAW, FORMAT_MEMORY, FORMAT_MEMBER };
/* Returns the format in which a writer follows a reader of FORMAT: npy for the member of an archive. */
static inline enum format format_written(enum format format) { return format == FORMAT_MEMBER ? FORMAT_NPY : format; }

/* The layout of a text, which output of one dimension keeps. ROWS: of two dimensions, or no text. */
enum layout { LAYOUT_LINE, LAYOUT_COLUMN, LAYOUT_ROWS };

struct reader_options {
	enum format format;    /* --from; AUTO: npy if it begins like npy, else text */
	enum dtype assume;     /* --assume-dtype: the type of |V2 or raw; DTYPE_COUNT: not given */
	bool cast;             /* --cast: integers beyond 2^53 may lose digits */
	const double *missing; /* --missing: stands for the missing fields of a text; NULL: these are an error */
	struct type raw;       /* --shape: the type of raw input; ndim -1: not given (then 1-D, to the end) */
	bool typed;            /* --shape is given: arrays of other formats must have that type (text: that shape) */
	const char *columns;   /* --columns: of text, csv and npy, these alone are read; NULL: all */
	char delimiter; /* --delimiter: between two fields of text and csv; ' ': blanks; 0: their first line shows it */
	const struct shape *text_shape; /* of TEXT and CSV, if it fits (text_fit); NULL: their layout decides */
	const void
		*memory; /* MEMORY: the only array, of type RAW, in C order; the caller keeps it. MEMBER: likewise, or NULL */
	int64_t
		values_at; /* MEMBER without MEMORY: the byte of the input, an archive, where the values of type RAW begin */
	/* Of text, except for small ones. Where it is a file and not overwritten, none of these matters. */
	bool types;        /* only the type matters: values are not kept */
	bool copies;       /* they go to an unnamed file in SPILL (see input_copy_open); else they are held */
	bool anywhere;     /* small files are not held: they are read in any order */
	bool one_pass;     /* --one-pass: such a copy is an error */
	bool overwritten;  /* an output may overwrite the input, so that all is read before the first write */
	const char *spill; /* --spill */
	int threads;       /* count the rows of a text in a file; below 2: the caller counts alone */
};

/*
 * Sets SHAPE, that of a text with COLUMNS numbers in a row, to WANTED, if that has as many numbers and its last extent is
 * COLUMNS. A first extent below 0 stands for any. WANTED also fits if it has no extents and the text is one number, or if it
 * is SHAPE already. Returns false, with SHAPE as before, if WANTED does not fit.
 */
bool text_fit(struct shape *shape, int64_t columns, const struct shape *wanted);

struct reader {
	struct input *input;
	struct reader_options options;
	struct arena *arena;
	enum format format; /* that of OPTIONS; AUTO until the first bytes have been seen */
	bool begun;         /* they have been */
	enum layout layout;
	int64_t columns;            /* of a text: the numbers of a row; 0: it is no text */
	struct type type;           /* the current array's, as in the file */
	int64_t count, done;        /* numbers of its elements, and of those read in order so far */
	int64_t stored;             /* the file's elements, more than COUNT if columns of npy are chosen */
	struct picked_rows *picked; /* then rows that were read in order; else NULL */
	bool swap, fortran;         /* SWAP: the values' byte order is not the machine's */
	int64_t data;               /* byte of INPUT where its values begin */
	int index;                  /* number of arrays begun so far */
	bool assumed;               /* options.assume, if given, was the type of an array so far */
	enum dtype declared;        /* the reader rounds values to this type; DTYPE_COUNT: it does not */
	bool direct;                /* the file holds the bytes that memory would: little-endian f32 or f64, C order */
	struct table *table;        /* of a text, or of npy if columns are chosen; else NULL */
	const char *const *names;   /* of the COLUMNS columns, as a header says them; NULL: there is none */
	struct text_file *text;     /* of a text whose numbers are read when they are wanted; or NULL */
	struct input_copy copy;     /* the values of a text; fd -1: there is none */
	struct input copy_input;    /* then INPUT is this, which reads COPY */
	void *held;       /* the whole array, of TYPE's dtype, if it is held (Fortran: from the first read on); or NULL */
	size_t held_size; /* with TEXT, that of its marks */
};

void reader_init(struct reader *reader, struct input *input, const struct reader_options *options, struct arena *arena);
/* Begins an array of TYPE, little-endian and in C order, whose values begin at byte DATA of the input, a file. */
enum status reader_begin_at(struct reader *reader, const struct type *type, int64_t data, struct diags *diags);
/* Waits for the first bytes, and replaces FORMAT_AUTO by the format that they show. */
enum status reader_find_format(struct reader *reader, struct diags *diags);
/*
 * Reads the next array's header. A text is one array. It is read to its end, at least to count its rows. The array before
 * must have been read or skipped. Sets *END at the end of the stream. Fails with STATUS_DATA, the file and the byte where
 * data are wrong, if no first array is there, or if --shape is another. STATUS_LIMIT: a header beyond 64 KiB or 32
 * dimensions, or no memory.
 */
enum status reader_next(struct reader *reader, bool *end, struct diags *diags);
/* Fails with STATUS_DATA if the file is known to end before the current array does. */
enum status reader_check_size(const struct reader *reader, struct diags *diags);
/*
 * Reads the next COUNT elements to TO as COMPUTE (F32 or F64). Fails with STATUS_DATA where the file ends before them,
 * or where an integer is beyond 2^53 and --cast is not given.
 */
enum status reader_read(struct reader *reader, void *to, enum dtype compute, int64_t count, struct diags *diags);
/* True if the input, a file, is known to end with the current array. */
bool reader_is_last(const struct reader *reader);
/*
 * Reads COUNT elements from element FIRST of the current array on, from any thread. Only if reader_seekable(). DONE
 * does not change, so that the caller ends the array by reader_skip.
 */
enum status reader_read_at(const struct reader *reader, int64_t first, void *to, enum dtype compute, int64_t count,
                           struct diags *diags);
/* True if reader_read_at can read the array again once reader_read has read all. */
bool reader_rereadable(const struct reader *reader);
bool reader_seekable(const struct reader *reader); /* memory; a regular file, not transposed or held */
/* Returns the bytes that READER holds of the current array while READERS threads read it. */
size_t reader_memory(const struct reader *reader, int readers);
/* Skips the elements from DONE on. Fails with STATUS_DATA where the file ends before them. */
enum status reader_skip(struct reader *reader, struct diags *diags);
void reader_free(struct reader *reader); /* does not close the input */

/* An array that a writer leaves in memory. */
struct kept_array {
	void *data; /* SIZE bytes of the caller's; NULL: writer_begin gets them from the writer's arena */
	size_t size;
	struct type type; /* set by writer_begin */
	bool complete;    /* set by writer_end */
};

struct writer_options {
	enum format format;        /* NPY, TEXT, CSV, RAW or MEMORY */
	struct kept_array *memory; /* MEMORY: gets the only array, in C order */
	enum layout layout;        /* TEXT, CSV: of an array of one dimension; COLUMN: a number a line */
	char delimiter;            /* CSV: between two values */
	const char *const *names; /* CSV: a header for the first array, if it has NAME_COUNT columns; NULL: there is none */
	int64_t name_count;
	bool display; /* TEXT, CSV on a terminal: as NumPy prints arrays */
	bool late;    /* NPY: the header is written with the first elements, so that a failure before them leaves nothing */
	bool deferred; /* TEXT, CSV: held until writer_finish, as another writer writes to the same place first */
	const struct reader *reader; /* the reader of the file that the output overwrites; NULL: there is none */
};

struct writer {
	struct output *output;
	struct writer_options options;
	struct type type;
	int64_t count, done;
	int64_t data;                 /* byte of OUTPUT where the current array's values begin */
	int index;                    /* number of arrays begun so far */
	char *header;                 /* of the current array, if it may be late */
	_Atomic size_t header_length; /* 0: it is written */
	char *text;                   /* formatted text that is not written yet */
	size_t text_used, text_size;
	void *held; /* the whole array as doubles, for a terminal; or NULL */
	struct arena *arena;
};

void writer_init(struct writer *writer, struct output *output, const struct writer_options *options,
                 struct arena *arena);
/*
 * Begins an array of TYPE, one of f16, bf16 (as |V2), f32, f64 and i64. An npy header is byte for byte numpy.save's. Fails
 * with STATUS_USAGE if the output would overwrite values before options.reader has read them, or if the array has
 * another size than options.memory.
 */
enum status writer_begin(struct writer *writer, const struct type *type, struct diags *diags);
/* Writes the next COUNT elements, which FROM has as COMPUTE. */
enum status writer_write(struct writer *writer, const void *from, enum dtype compute, int64_t count,
                         struct diags *diags);
/* Writes COUNT elements from element FIRST on, from any thread; only if writer_seekable(). writer_end must follow. */
enum status writer_write_at(struct writer *writer, int64_t first, const void *from, enum dtype compute, int64_t count,
                            struct diags *diags);
bool writer_seekable(const struct writer *writer); /* memory; npy or raw to a seekable output */
/* Ends the array, all of whose elements must have been written. Writes its text to OUTPUT unless it is deferred. */
enum status writer_end(struct writer *writer, struct diags *diags);
/* Writes deferred text to OUTPUT; no array may be open. */
enum status writer_finish(struct writer *writer, struct diags *diags);
void writer_free(struct writer *writer);

/*
 * Rounds COUNT values, HELD as F32 or F64, to DTYPE. Integer types only cut the fraction off: NaN, infinities and
 * values beyond their range stay. A bool is 0 or 1, and NaN becomes 1. F32 and F64 leave the values as they are.
 */
void values_round(void *values, enum dtype held, size_t count, enum dtype dtype);

/* Converts COUNT values of DTYPE, aligned and in the machine's byte order, to COMPUTE, F32 or F64. */
void convert_from_file(void *to, enum dtype compute, const void *from, enum dtype dtype, size_t count);
/* Returns VALUE as DTYPE, an integer type or bool, has it: cut to a whole number in its range. NaN is 0; of bool, 1. */
double value_cut(double value, enum dtype dtype);
/* Converts COUNT values of COMPUTE, F32 or F64, to DTYPE. Rounds each once, or cuts it as value_cut does. */
void convert_to_file(void *to, enum dtype dtype, const void *from, enum dtype compute, size_t count);
/* Conversions between halves and the computing types. The kernels of `cast` use them too. */
void convert_f16_to_f32(float *to, const uint16_t *from, size_t count);
void convert_f32_to_f16(uint16_t *to, const float *from,
                        size_t count); /* round to nearest even, overflow to infinity */
/* These give the same bits without the processor's instructions for halves. */
void convert_f16_to_f32_plain(float *to, const uint16_t *from, size_t count);
void convert_f32_to_f16_plain(uint16_t *to, const float *from, size_t count);
void convert_bf16_to_f32(float *to, const uint16_t *from, size_t count);
void convert_f32_to_bf16(uint16_t *to, const float *from, size_t count); /* NaN stays NaN */
/*
 * Rounds doubles to floats that will be rounded to halves. It rounds to odd, so that both steps together round to
 * nearest (Boldo and Melquiond 2008, theorem 3).
 */
void convert_f64_to_f32_odd(float *to, const double *from, size_t count);
/* True if the machine is little-endian, as the files are that ckptc writes. */
bool convert_little_endian(void);
/* Reverses the bytes of each of COUNT values of SIZE bytes (2, 4, 8; else it does nothing), in place. */
void convert_swap(void *data, size_t size, size_t count);

/*
 * Writes the shortest decimal that reads back as VALUE, a value of DTYPE, one of F16, BF16, F32 and F64: "0.1",
 * "1e+30", "inf", "-0". A whole number below 10^15 has all its digits. Returns the length.
 */
int number_format(char text[40], double value, enum dtype dtype);
/* Writes VALUE's shortest decimal with an exponent ("1.25e-07", "1e+00"), or "0", "-0", "inf", "-inf", "nan". */
int number_format_scientific(char text[40], double value, enum dtype dtype);
/*
 * Parses LENGTH bytes as a number in the C locale: a decimal of any length, rounded once, with or without an exponent;
 * inf, infinity or nan in any case. False if they are none. TEXT[LENGTH] must be readable, and no part of a number.
 */
bool number_parse(const char *text, size_t length, double *value);

#endif
