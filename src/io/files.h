/*
 * Whole arrays from files and to files. Params, consts and cotangents come from .npy, .npz (stored or deflated),
 * .safetensors, or text, by content. Gradients go to .npy and .npz.
 */
#ifndef IO_FILES_H
#define IO_FILES_H

#include "base/diag.h"
#include "io/array.h"

struct array {
	struct type type; /* as in the file */
	void *data;       /* in the dtype dtype_compute(type.dtype); from the loader's allocator */
	size_t size;      /* bytes of DATA */
	bool text;        /* it comes from text: a single number also fits a shape without axes */
};
/* True if ARRAY fits SHAPE, in which an extent below 0 stands for any. */
bool array_fits(const struct array *array, const struct shape *shape);

/* Loads arrays one after the other. The latest LOADER_KEPT archives stay open in between. */
enum { LOADER_KEPT = 16 };
struct loader {
	bool special; /* devices and FIFOs may be read */
	bool cast;    /* integers beyond 2^53 are rounded; else they are an error */
	bool types;   /* the caller needs types alone: DATA is NULL if a regular file's header gives the type */
	const struct context *context;
	/* Private; the caller zeroes them. */
	struct archive *kept[LOADER_KEPT];
	size_t opened;
};
/*
 * Loads the array at PATH. KEY names the member of an npz or the tensor of a safetensors file; NULL is the only one.
 * Fails with STATUS_DATA, the names in a hint, if there are several. Fails with STATUS_IO if PATH is no regular file,
 * unless SPECIAL. PATH must outlive LOADER.
 */
enum status loader_load(struct loader *loader, struct array *array, const char *path, const char *key);
void loader_close(struct loader *loader);
/* Loads a single array, and closes LOADER. */
enum status array_load(struct loader *loader, struct array *array, const char *path, const char *key);
void array_free(struct array *array, const struct allocator *allocator);

struct named_array {
	const char *name;
	struct type type;
	const void *data; /* in the computing type */
};
/* Writes one npy file. */
enum status array_put(const struct context *context, struct output *output, const struct type *type, const void *data);
/* Writes an uncompressed npz as numpy.savez does, with its members in the order of ARRAYS. */
enum status npz_put(const struct context *context, struct output *output, const struct named_array *arrays,
                    size_t count);
/*
 * Sets FOUND, which the caller zeroes, for each of ARRAYS that is a member of the npz at PATH. Fails with STATUS_DATA
 * if it has another member, which saving ARRAYS there would lose.
 */
enum status npz_find_members(const struct context *context, const char *path, const struct named_array *arrays,
                             size_t count, bool *found);

#endif
