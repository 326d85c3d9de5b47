/*
 * Files of several arrays, for load.c, which knows them apart and keeps them open:
 * npz (npz.c) and safetensors (safetensors.c); and what both want of load.c.
 */
#ifndef IO_ARCHIVES_H
#define IO_ARCHIVES_H

#include "io/json.h"
#include "io/libzip.h"
#include "io/load.h"

struct npz {
	zip_t *zip; /* NULL: not open */
	FILE *file; /* ZIP's own */
	const struct libzip *lib;
};

/* INPUT is not read: the archive has a descriptor of its own. A file that is no readable npz is STATUS_DATA. */
enum status npz_open(struct npz *npz, const struct input *input, struct diags *diags);
/* Member KEY, or the only one where KEY is NULL. PATH is for messages. */
enum status npz_load(const struct loader *loader, struct array *array, const struct npz *npz, const char *path,
                     const char *key, struct diags *diags);
void npz_close(struct npz *npz);

struct tensors {
	struct input *input;
	json_t *header; /* checked; NULL: not open */
	int64_t data;   /* byte of INPUT where the tensors begin */
};

/* INPUT, a regular file, must stay as long as TENSORS. A header that is not as it should be is STATUS_DATA. */
enum status tensors_open(const struct loader *loader, struct tensors *tensors, struct input *input,
                         struct diags *diags);
/* Tensor KEY, or the only one where KEY is NULL. */
enum status tensors_load(const struct loader *loader, struct array *array, const struct tensors *tensors,
                         const char *key, struct diags *diags);
void tensors_close(struct tensors *tensors);

/* INPUT's one array, npy or text, by its content. */
enum status load_stream(const struct loader *loader, struct array *array, struct input *input, struct diags *diags);
/* STATUS_DATA: WHAT is not read from front to back. */
enum status load_only_regular(const char *name, const char *what, struct diags *diags);

#endif
