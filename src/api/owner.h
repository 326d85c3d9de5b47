/*
 * What every object of the library begins with: its memory and its messages. An object is one block of its allocator.
 * All else that lives as long is in its arena. So a failed call frees what it made at one place.
 *
 * The library has no way of its own to plan or to run. It converts the structs of its caller to those of plan/spec.h,
 * plan/job.h and exec/run.h, and diagnostics to struct ckptc_error. The command calls the same functions.
 */
#ifndef API_OWNER_H
#define API_OWNER_H

#include "base/diag.h"
#include "ckptc.h"

struct owner {
	struct allocator allocator;
	struct arena arena;
	struct diags diags;
	struct context context; /* the three above */
	size_t size;            /* bytes of the object */
};

/* Returns an object of SIZE zeroed bytes, which begins with a struct owner; NULL if out of memory. ALLOCATOR: or NULL. */
void *owner_make(const struct ckptc_allocator *allocator, size_t size);
/* Frees the object and its arena. */
void owner_free(struct owner *owner);
/* Sets ERROR (or NULL) to STATUS and to the first error of DIAGS, with its place and its hint. Returns STATUS. */
int error_set(struct ckptc_error *error, enum status status, const struct diags *diags);
/* As error_set, for a function that could make no object. */
int error_set_memory(struct ckptc_error *error);

#endif
