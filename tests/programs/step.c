/*
 * The step that check-programs runs: y = x * c + x * x and, if there is an operand d, + d. Its arithmetic is that of
 * `mul`, `square` and `add`, in their order, so a chain of these has the same bits. All arrays have x's shape; if SCALAR, c is one number.
 *
 * STEP, in the environment, has words that change it:
 *
 *     sums       it adds up the gradient of its first operand
 *     counts     it is wrong: what it computes depends on how often it was called
 *     fails:N    the forward call N fails
 *     exits:N    the forward call N calls exit; exits:open: so does open
 *     slow:N     each call takes N milliseconds; slow: one
 *     tells      it reports each call on standard error
 *     shrinks    command.c truncates the shared memory
 *     shows      it reports which arrays a backward call of a record has
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckptc_step.h"

struct context {
	const struct ckptc_step_signature *signature;
	int64_t calls, records;
	double *sum; /* of the first operand's gradient */
};

struct record {
	double *x, *c;
};

static const char *words(void)
{
	const char *words = getenv("STEP");
	return words ? words : "";
}
static bool has(const char *word) { return strstr(words(), word) != NULL; }

#ifndef SCALAR
#define SCALAR 0
#endif

/* Reads element I of ARRAY, of elements of BYTES. */
static double get(const void *array, int bytes, int64_t i)
{
	return bytes == 4 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static void put(void *array, int bytes, int64_t i, double value)
{
	if (bytes == 4)
		((float *)array)[i] = (float)value;
	else
		((double *)array)[i] = value;
}

static const char *step_open(const struct ckptc_step_signature *signature, struct ckptc_step_traits *traits,
                             void **made)
{
	struct context *c = *made = calloc(1, sizeof *c);
	if (has("exits:open"))
		exit(0);
	c->signature = signature;
	c->sum = calloc((size_t)signature->x.count + 1, sizeof *c->sum);
	traits->needs_operands = signature->operand_count ? 1 : 0;
	traits->record_bytes = 2 * 8 * signature->x.count;
	traits->sums = has("sums") ? signature->gradients & 1 : 0;
	return signature->y.count == signature->x.count ? NULL : "the result has another size than x";
}

static const char *step_forward(void *context, int64_t number, const void *x, const void *const *operands, void *y)
{
	struct context *c = context;
	const struct ckptc_step_signature *s = c->signature;
	const char *fails = strstr(words(), "fails:"), *exits = strstr(words(), "exits:");
	const char *slow = strstr(words(), "slow");
	if (has("tells"))
		fprintf(stderr, "forward %lld\n", (long long)number);
	if (fails && atoll(fails + strlen("fails:")) == number)
		return "it fails on purpose";
	if (exits && atoll(exits + strlen("exits:")) == number)
		exit(0);
	if (slow)
		nanosleep(&(struct timespec){.tv_nsec = 1000000 * (strncmp(slow, "slow:", 5) ? 1 : atol(slow + 5))}, NULL);
	c->calls++;
	for (int64_t i = 0; i < s->x.count; i++) {
		const double v = get(x, s->x.bytes, i), a = s->operand_count ? get(operands[0], s->x.bytes, SCALAR ? 0 : i) : 1;
		double value = s->x.bytes == 4 ? (float)((float)v * (float)a) + (float)((float)v * (float)v) : v * a + v * v;
		if (s->operand_count > 1)
			value = s->x.bytes == 4 ? (float)value + (float)get(operands[1], 4, i) : value + get(operands[1], 8, i);
		put(y, s->y.bytes, i, has("counts") ? value + (double)c->calls : value);
	}
	return NULL;
}

static const char *step_backward(void *context, int64_t number, const void *x, const void *const *operands,
                                 const void *y, const void *g, uint64_t handle, void *dx, void *const *doperands)
{
	struct context *c = context;
	const struct ckptc_step_signature *s = c->signature;
	struct record *record = (struct record *)(uintptr_t)handle;
	if (has("tells"))
		fprintf(stderr, "backward %lld\n", (long long)number);
	if (record && has("shows"))
		fprintf(stderr, "x %d, y %d, operands %d %d\n", x != NULL, y != NULL, operands[0] != NULL,
		        s->operand_count > 1 && operands[1]);
	for (int64_t i = 0; i < s->x.count; i++) {
		const double v = record ? record->x[i] : get(x, s->x.bytes, i), h = get(g, s->y.bytes, i);
		const double a = record ? record->c[i] : s->operand_count ? get(operands[0], s->x.bytes, SCALAR ? 0 : i) : 1;
		if (dx)
			put(dx, s->x.bytes, i,
			    s->x.bytes == 4 ? (float)((float)h * (float)a) + (float)((float)h * (float)(v + v))
			                    : h * a + h * (v + v));
		if (s->gradients & 1 && has("sums"))
			c->sum[i] += h * v;
		else if (s->gradients & 1)
			put(doperands[0], s->x.bytes, i, h * v);
		if (s->gradients & 2)
			put(doperands[1], s->x.bytes, i, h);
	}
	if (record) {
		free(record->x);
		free(record->c);
		free(record);
		c->records--;
	}
	return NULL;
}

static const char *step_record(void *context, int64_t number, const void *x, const void *const *operands, void *y,
                               uint64_t *handle)
{
	struct context *c = context;
	const struct ckptc_step_signature *s = c->signature;
	struct record *record = malloc(sizeof *record);
	record->x = calloc((size_t)s->x.count + 1, sizeof *record->x);
	record->c = calloc((size_t)s->x.count + 1, sizeof *record->c);
	for (int64_t i = 0; i < s->x.count; i++) {
		record->x[i] = get(x, s->x.bytes, i);
		record->c[i] = s->operand_count ? get(operands[0], s->x.bytes, SCALAR ? 0 : i) : 1;
	}
	*handle = (uint64_t)(uintptr_t)record;
	c->records++;
	return step_forward(context, number, x, operands, y);
}

static void step_release(void *context, uint64_t handle)
{
	struct context *c = context;
	struct record *record = (struct record *)(uintptr_t)handle;
	free(record->x);
	free(record->c);
	free(record);
	c->records--;
}

static const char *step_gradient(void *context, uint32_t operand, void *sum)
{
	struct context *c = context;
	for (int64_t i = 0; i < c->signature->x.count; i++) {
		put(sum, c->signature->x.bytes, i, c->sum[i]);
		c->sum[i] = 0;
	}
	return operand == 0 ? NULL : "only the first operand is summed";
}

static void step_close(void *context)
{
	struct context *c = context;
	if (c->records)
		fprintf(stderr, "%lld records are left\n", (long long)c->records);
	free(c->sum);
	free(c);
}

/* FORWARD_ONLY: it has no backward. RECORDS: it records; a record that nobody ends is reported when the step closes. */
#ifndef FORWARD_ONLY
#define FORWARD_ONLY 0
#endif
#ifndef RECORDS
#define RECORDS 0
#endif
const struct ckptc_step ckptc_step = {.version = CKPTC_STEP_VERSION,
                                      .open = step_open,
                                      .forward = step_forward,
                                      .backward = FORWARD_ONLY ? NULL : step_backward,
                                      .record = RECORDS ? step_record : NULL,
                                      .release = step_release,
                                      .gradient = step_gradient,
                                      .close = step_close};
