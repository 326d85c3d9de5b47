/* Whole arrays to files: gradients to .npy and .npz. */
#ifndef IO_SAVE_H
#define IO_SAVE_H

#include "base/context.h"
#include "io/array.h"

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

#endif
