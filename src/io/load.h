/*
 * Whole arrays from files, for params, consts, cotangents: .npy, .npz (stored
 * or deflated), .safetensors, or text, by content.
 */
#ifndef IO_LOAD_H
#define IO_LOAD_H

#include "io/save.h"

struct array {
	struct type type; /* as in the file */
	void *data;       /* as dtype_compute(type.dtype); from ALLOCATOR */
	size_t size;      /* bytes of DATA */
	bool text;        /* of numbers: one of them is an array of one, or of no axes where that is wanted */
};
/* Whether ARRAY can be one of SHAPE, of which extents below 0 are any. */
bool array_fits(const struct array *array, const struct shape *shape);

/* Loads arrays one after the other. Archives stay open between them, and their tables read, the latest LOADER_KEPT. */
enum { LOADER_KEPT = 16 };
struct loader {
	bool special; /* devices and FIFOs are read */
	bool cast;    /* integers beyond 2^53 are rounded */
	bool types;   /* types alone are wanted: DATA is NULL where a regular file's header gives the type */
	const struct context *context;
	/* The loader's own, zeros at first. */
	struct container *kept[LOADER_KEPT];
	size_t opened;
};
/*
 * KEY names the member of an npz or the tensor of a safetensors file (NULL: the
 * only one; several are STATUS_DATA, with their names in the hint). Any path but
 * a regular file is STATUS_IO unless SPECIAL. PATH must stay as long as LOADER.
 */
enum status loader_load(struct loader *loader, struct array *array, const char *path, const char *key);
void loader_close(struct loader *loader);
/* Loads a single array, and closes LOADER. */
enum status array_load(struct loader *loader, struct array *array, const char *path, const char *key);
void array_free(struct array *array, const struct allocator *allocator);

/*
 * FOUND, zeros before, by index: whether the npz at PATH has a member of that name. STATUS_DATA where it has one
 * that is none of ARRAYS, which saving these there would lose.
 */
enum status npz_find_members(const struct context *context, const char *path, const struct named_array *arrays,
                             size_t count, bool *found);

#endif
