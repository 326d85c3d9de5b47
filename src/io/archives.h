/*
 * The files of several arrays that load.c keeps open, npz (npz.c) and safetensors
 * (safetensors.c), and what these two need of load.c.
 */
#ifndef IO_ARCHIVES_H
#define IO_ARCHIVES_H

#include "io/json.h"
#include "io/load.h"

struct zip_member;
struct zip {
	const struct input *input;
	const struct context *context;
	struct zip_member *members; /* NULL: not open */
	size_t count;
	void *zlib; /* the library, opened with the first deflated member */
};

/* INPUT and CONTEXT must outlive ZIP. A file that is not a readable npz is STATUS_DATA. */
enum status npz_open(struct zip *zip, const struct input *input, const struct context *context);
/* Member KEY, or the only one where KEY is NULL. */
enum status npz_load(const struct loader *loader, struct array *array, struct zip *zip, const char *key);

void npz_close(struct zip *zip);

struct tensors {
	struct input *input;
	struct json_text header; /* checked; its source is gone */
	int64_t data;            /* byte of INPUT where the tensors begin */
};

/* INPUT, a regular file, must outlive TENSORS. A header that is wrong is STATUS_DATA. */
enum status tensors_open(struct tensors *tensors, struct input *input, const struct context *context);
/* Tensor KEY, or the only one where KEY is NULL. */
enum status tensors_load(const struct loader *loader, struct array *array, const struct tensors *tensors,
                         const char *key);
void tensors_close(struct tensors *tensors);

/* The array that READER has begun. */
enum status load_begun(const struct loader *loader, struct array *array, struct reader *reader);
/* INPUT's one array, npy or text, by its content. */
enum status load_stream(const struct loader *loader, struct array *array, struct input *input);
/* Reports that NAME, a pipe or device, cannot be WHAT, since that is not read from front to back. Returns STATUS_DATA. */
enum status load_only_regular(const char *name, const char *what, struct diags *diags);

#endif
