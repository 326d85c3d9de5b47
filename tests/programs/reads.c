/*
 * A step for check-executions: its backward reads x if X is 1, and y if Y is 1. When it ends, it adds a line to the file
 * that CALLS names in the environment: how often it was called forward.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckptc_step.h"

struct context {
	int64_t count, calls; /* of elements; of forward calls */
};

static const char *reads_open(const struct ckptc_step_signature *signature, struct ckptc_step_traits *traits,
                              void **made)
{
	struct context *c = *made = calloc(1, sizeof *c);
	c->count = signature->x.count;
	traits->needs_x = X;
	traits->needs_y = Y;
	return NULL;
}

static const char *reads_forward(void *context, int64_t number, const void *x, const void *const *operands, void *y)
{
	struct context *c = context;
	const double *from = x;
	double *to = y;
	(void)number, (void)operands;
	for (int64_t i = 0; i < c->count; i++)
		to[i] = X ? 0.5 * from[i] * from[i] + 0.25 : 0.9 * from[i] + 0.01;
	c->calls++;
	return NULL;
}

static const char *reads_backward(void *context, int64_t number, const void *x, const void *const *operands,
                                  const void *y, const void *g, uint64_t handle, void *dx, void *const *doperands)
{
	const struct context *c = context;
	const double *at = x, *value = y, *from = g;
	double *to = dx;
	(void)number, (void)operands, (void)handle, (void)doperands;
	for (int64_t i = 0; i < c->count; i++)
		to[i] = (X ? at[i] : 0.9) * from[i] + (Y ? 1e-3 * value[i] : 0);
	return NULL;
}

static void reads_close(void *context)
{
	const struct context *c = context;
	const char *name = getenv("CALLS");
	FILE *file = name ? fopen(name, "a") : NULL;
	if (file) {
		fprintf(file, "%" PRId64 "\n", c->calls);
		fclose(file);
	}
	free(context);
}

const struct ckptc_step ckptc_step = {.version = CKPTC_STEP_VERSION,
                                      .open = reads_open,
                                      .forward = reads_forward,
                                      .backward = reads_backward,
                                      .close = reads_close};
