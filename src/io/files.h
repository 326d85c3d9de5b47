/*
 * Whole arrays from files and to files. Params, consts and cotangents come from .npy, .npz
 * (stored or deflated), .safetensors, or text, by content; gradients go to .npy and .npz.
 */
#ifndef IO_FILES_H
#define IO_FILES_H

#include "base/diag.h"
#include "io/array.h"

struct array {
	struct type type; /* as in the file */
	void *data;       /* as dtype_compute(type.dtype); from the loader's allocator */
	size_t size;      /* bytes of DATA */
	bool text;        /* from text: a single number fits a shape of one element and one of no axes */
};
/* True if ARRAY fits SHAPE, in which an extent below 0 stands for any. */
bool array_fits(const struct array *array, const struct shape *shape);

/* Loads arrays one after the other. The latest LOADER_KEPT archives stay open in between. */
enum { LOADER_KEPT = 16 };
struct loader {
	bool special; /* devices and FIFOs are read */
	bool cast;    /* integers beyond 2^53 are rounded */
	bool types;   /* types alone are wanted: DATA is NULL where a regular file's header gives the type */
	const struct context *context;
	/* Private, and zeros at first. */
	struct archive *kept[LOADER_KEPT];
	size_t opened;
};
/*
 * KEY names the member of an npz or the tensor of a safetensors file. NULL means the only
 * one: several are STATUS_DATA, with their names in the hint. A PATH that is not a regular
 * file is STATUS_IO unless SPECIAL. PATH must outlive LOADER.
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
/* Writes an uncompressed npz as numpy.savez does, its members in the order of ARRAYS. */
enum status npz_put(const struct context *context, struct output *output, const struct named_array *arrays,
                    size_t count);
/*
 * Sets FOUND, zeros before, for each of ARRAYS that the npz at PATH has a member of. STATUS_DATA if it has another
 * member, which saving ARRAYS there would lose.
 */
enum status npz_find_members(const struct context *context, const char *path, const struct named_array *arrays,
                             size_t count, bool *found);

#endif
