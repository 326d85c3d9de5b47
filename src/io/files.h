/*
 * Whole arrays from files and to files. Params, consts and cotangents come from npy, npz (stored or deflated),
 * safetensors or text. The content decides, and the name only if it ends in .safetensors. Gradients go to npy, npz and
 * safetensors.
 */
#ifndef IO_FILES_H
#define IO_FILES_H

#include <stdatomic.h>

#include "base/diag.h"
#include "base/team.h"
#include "io/array.h"

struct array {
	struct type type; /* as in the file */
	void *data;       /* in the dtype dtype_compute(type.dtype); from the loader's allocator, for array_free */
	size_t size;      /* bytes of DATA, at least 1; 0 if that is NULL */
	int64_t columns;  /* of a text: the numbers of a row; 0: it is no text */
	struct stored_array *stored; /* where the values are, if the loader left them there: DATA is NULL; else NULL */
};
/* True if ARRAY has SHAPE, in which an extent below 0 stands for any, or is a text that gets it now by text_fit. */
bool array_fit(struct array *array, const struct shape *shape);

/* Loads arrays one after the other. The latest LOADER_KEPT archives stay open in between. */
enum { LOADER_KEPT = 16 };
struct loader {
	bool special;          /* devices and FIFOs may be read */
	bool cast;             /* integers beyond 2^53 are rounded; else they are an error */
	const double *missing; /* as of struct reader_options */
	bool types;            /* the caller needs types alone: DATA is NULL for a regular npy file and for safetensors */
	int threads;           /* share large members of an npz; below 2: the caller reads alone */
	/*
	 * Arrays of at least so many bytes are left in their files, if these have the bytes that memory would; 0: none is.
	 * At most LOADER_LEFT are. The caller closes them by stored_close.
	 */
	int64_t leaves;
	bool every_type; /* then it leaves other little-endian types in C order, too */
	const struct context *context;
	/* Private; the caller zeroes them. */
	struct team *team; /* as threads says, once an archive is open */
	struct archive *kept[LOADER_KEPT];
	size_t opened, left_in_files;
};
enum { LOADER_LEFT = 64 };
/*
 * Loads the array at PATH. KEY names the member of an npz or the tensor of a safetensors file; NULL is the only one.
 * Fails with STATUS_DATA if there are several (the names in a hint), or if KEY is given for npy or text. Fails with
 * STATUS_IO if PATH is no regular file, unless SPECIAL. PATH must outlive LOADER.
 */
enum status loader_load(struct loader *loader, struct array *array, const char *path, const char *key);
/*
 * Sets *NAMES, in the arena, to the names of the *COUNT members of the npz or tensors of the safetensors file at PATH,
 * in their order; those of an npz are without ".npy". Fails with STATUS_DATA if the file is neither.
 */
enum status loader_names(struct loader *loader, const char *path, const char *const **names, size_t *count);
void loader_close(struct loader *loader);
/*
 * Opens the file at PATH as *INPUT and READER, which refers to it, if it holds one npy array that reader_read_at reads. Else
 * returns false, with nothing open: array_load knows what is wrong, or loads it. The caller frees the reader and closes.
 */
bool array_open_rows(const struct loader *loader, struct input *input, struct reader *reader, const char *path);
/* True if the regular file at PATH begins as an npz, or is named as a safetensors file or begins as one. */
bool archive_is(const char *path);
/*
 * A member of an archive, with the reader of it. The values are read where they lie in the file if they are little-endian,
 * in C order and not deflated; else they are LOADED.
 */
struct opened_member {
	struct input input;
	struct reader rows; /* it refers to INPUT */
	struct array loaded;
};
/* Opens member KEY (NULL: the only one) of the archive at PATH, with OPTIONS but for their format. Fails as loader_load. */
enum status member_open(const struct context *context, const struct reader_options *options, const char *path,
                        const char *key, struct opened_member *member);
/* Loads a single array, and closes LOADER. */
enum status array_load(struct loader *loader, struct array *array, const char *path, const char *key);
void array_free(struct array *array, const struct allocator *allocator);

/* stored.c: arrays that stay in their files */

/* Little-endian f32 or f64 in C order: BYTES of them, from byte AT of a file on, which INPUT keeps open. */
struct stored_array {
	struct input input;
	int64_t at, bytes;
	struct input_stamp stamp; /* of the file when it was opened */
	const char *member;       /* of an npz, whose checksum is CRC; that of its bytes before AT is BEFORE. Or NULL */
	uint32_t crc, before;
};
void stored_close(struct stored_array *array);
/* A read of all of ARRAY, in parts. */
struct stored_read {
	const struct stored_array *array;
	struct zip_crc *tables;
	_Atomic uint32_t crc; /* of the parts so far, each moved to its place */
	_Atomic int failed;   /* errno of a part that could not be read, -1 if the file ends before it; or 0 */
	bool right; /* the checksum was, of an earlier read: it is not made again while the file does not change */
};
enum status stored_read_open(struct stored_read *read, const struct stored_array *array, const struct context *context);
/* A part: ROWS rows of BYTES each, which begin at byte AT of the array and STRIDE apart. In memory they are PITCH apart. */
struct stored_part {
	int64_t at, rows, bytes, stride, pitch;
};
/* Reads PART to TO, in any thread. False if that fails: stored_read_end says why. */
bool stored_read_part(struct stored_read *read, const struct stored_part *part, void *to);
/* The same for BYTES bytes from byte AT of the array on, in pieces that TEAM shares. */
bool stored_read_bytes(struct stored_read *read, int64_t at, int64_t bytes, void *to, struct team *team);
/*
 * Ends a read of all bytes, each once; another one may follow. Fails with STATUS_IO or STATUS_DATA if a part could not be
 * read, the checksum is wrong, or the file has changed since it was opened.
 */
enum status stored_read_end(struct stored_read *read, struct diags *diags);
/* Reads all of ARRAY to TO, in pieces that TEAM shares. Fails as stored_read_end does. */
enum status stored_load(const struct stored_array *array, void *to, struct team *team, const struct context *context);

/* An array in the caller's memory, in C order and in the dtype of TYPE. NAME is for messages. */
struct memory_array {
	const char *name;
	struct type type;
	const void *data; /* NULL: the type alone is known */
};
/* Loads a copy of FROM, as loader_load does from a file; the type alone if LOADER wants no more. */
enum status array_copy(const struct loader *loader, struct array *array, const struct memory_array *from);

struct named_array {
	const char *name;
	struct type type;
	const void *data;        /* in the computing type */
	const uint32_t *written; /* the checksum of values that are in the npz already; NULL: npz_put writes them */
	const int *file; /* for tensors_put: a descriptor whose file has the values as files do; NULL: DATA has them */
};
/* Writes an array as OPTIONS says. Like npz_put it does not commit OUTPUT. */
enum status array_put(const struct context *context, struct output *output, const struct writer_options *options,
                      const struct type *type, const void *data);
/*
 * Writes an uncompressed npz as numpy.savez does: a member NAME.npy for each of ARRAYS, in their order. TEAM, which may
 * be NULL, shares the checksums of large members.
 */
enum status npz_put(const struct context *context, struct output *output, const struct named_array *arrays,
                    size_t count, struct team *team);
/*
 * The values of a member that are written before npz_put, while those of others are not known. They are in the computing
 * type of f32 or f64, and OUTPUT is seekable. npz_values_begin writes those of ARRAYS[INDEX], whose types are those that
 * npz_put will get, by a thread of TEAM, which is not NULL. npz_values_end waits for them. It returns false if they could
 * not be written: npz_put then reports why. npz_values_begin returns NULL if out of memory.
 */
struct npz_values;
struct npz_values *npz_values_begin(struct arena *arena, struct output *output, const struct named_array *arrays,
                                    size_t index, struct team *team);
bool npz_values_end(struct npz_values *values, struct team *team, uint32_t *crc);
/*
 * The same in parts, which any threads write in any order. npz_rows_open reserves space. npz_put_rows writes SIZE bytes from
 * byte AT of the values on; false if that fails. npz_rows_end sets *CRC once all are written, or fails with STATUS_IO.
 */
struct npz_rows {
	const struct zip_crc *tables;
	struct output *output;
	int64_t size, at; /* in bytes; the output's byte where the values begin */
	_Atomic uint32_t crc;
	_Atomic int failed; /* errno of a write; 0: none has failed */
};
/* Returns the tables of checksums, or NULL if out of memory. */
struct zip_crc *zip_crc_tables(struct arena *arena);
void npz_rows_open(struct npz_rows *rows, const struct zip_crc *tables, struct output *output,
                   const struct named_array *arrays, size_t index);
bool npz_put_rows(struct npz_rows *rows, int64_t at, const void *from, size_t size);
enum status npz_rows_end(struct npz_rows *rows, uint32_t *crc, struct diags *diags);
/* The bytes of a member's name that a chain's names have no place for. They stand for '_': "layer.0/W" is layer_0_W. */
#define MEMBER_SIGNS "./"
/* True if MEMBER is NAME, once '_' has replaced the bytes of MEMBER_SIGNS. */
bool member_is(const char *member, const char *name);
/*
 * Writes a safetensors file as its Python package does: wider types first, then by name, the header padded to eight
 * bytes. METADATA is the JSON object of the header's "__metadata__", or NULL for none.
 */
enum status tensors_put(const struct context *context, struct output *output, const struct named_array *arrays,
                        size_t count, const char *metadata);
/* Sets *METADATA to that of the safetensors file at PATH, which LOADER read last; NULL if it has none. */
enum status tensors_metadata(const struct loader *loader, const char *path, const char **metadata);

#endif
