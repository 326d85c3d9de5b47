/*
 * Broadcasts an operand to a result's shape, block by block; and the adjoint, the
 * sum over the axes that were broadcast.
 * Tests: tests/unit/test_general.c
 */
#include <string.h>

#include "ops/lines.h"

void sum_to_shape(const struct kernels *kernels, void *to, const struct type *to_type, const void *from,
                  const struct type *from_type, void *scratch)
{
	const struct shape *target = &to_type->shape, *source = &from_type->shape;
	bool reduced[MAX_DIMS];
	for (int i = 0; i < source->ndim; i++) {
		const int own = i - (source->ndim - target->ndim);
		reduced[i] = own < 0 || (target->dim[own] == 1 && source->dim[i] != 1);
	}
	const struct reduction r = reduction_of(source, reduced);
	if (r.view.n == 1)
		memcpy(to, from, (size_t)(r.view.outer * r.view.inner) * element_size(kernels->dtype));
	else
		reduction_sums(kernels, &r, to, from, 1, scratch);
}

void sum_to_attrs(struct attrs *attrs, const struct type *to_type, const struct type *from_type)
{
	const struct shape *target = &to_type->shape, *source = &from_type->shape;
	attrs_default(attrs, OP_sum);
	attrs->has_axis = true;
	attrs->axis_count = 0;
	for (int i = 0; i < source->ndim; i++) {
		const int own = i - (source->ndim - target->ndim);
		if (i == 0 || own < 0 || (target->dim[own] == 1 && source->dim[i] != 1))
			attrs->axis[attrs->axis_count++] = i;
	}
}

/*
 * The result's axes, the innermost first, and the operand's step along each: 0 if the operand
 * is broadcast there. Axes that continue each other are merged, and axes of extent 1 left out.
 */
struct spread {
	int ndim;
	int64_t dim[MAX_DIMS], step[MAX_DIMS];
};

static struct spread spread_of(const struct shape *a, const struct shape *result)
{
	struct spread s = {0};
	int64_t stride = 1;
	for (int i = result->ndim - 1; i >= 0; i--) {
		const int own = i - (result->ndim - a->ndim), last = s.ndim - 1;
		const int64_t extent = own >= 0 ? a->dim[own] : 1, step = extent == 1 ? 0 : stride;
		stride *= extent;
		if (result->dim[i] == 1)
			continue;
		/* an axis continues the next inner one if its step is that axis's extent times that axis's step */
		if (last >= 0 && (step == 0) == (s.step[last] == 0) && step == s.dim[last] * s.step[last]) {
			s.dim[last] *= result->dim[i];
			continue;
		}
		s.dim[s.ndim] = result->dim[i];
		s.step[s.ndim++] = step;
	}
	return s;
}

/* Stores N elements from FIRST on of A's PERIOD elements repeated: a period of A, then copies of the stored part. */
static void fill_pattern(char *to, const char *a, size_t size, int64_t period, int64_t first, int64_t n)
{
	const int64_t start = first % period, once = period < n ? period : n;
	const int64_t head = period - start < once ? period - start : once;
	memcpy(to, a + size * (size_t)start, size * (size_t)head);
	memcpy(to + size * (size_t)head, a, size * (size_t)(once - head));
	for (int64_t done = once; done < n;) {
		/* a copy is as long as the stored part, but at most 64 KiB of whole periods, or one: this stays in the cache */
		int64_t piece = done < n - done ? done : n - done;
		if (piece > period && (uint64_t)piece * size > 65536)
			piece = 65536 / (int64_t)size > period ? 65536 / (int64_t)size / period * period : period;
		memcpy(to + size * (size_t)done, to, size * (size_t)piece);
		done += piece;
	}
}

static void fill_run(const struct kernels *kernels, void *to, const void *value, int64_t n)
{
	const double x = element_get(kernels->dtype, value, 0);
	if (n >= 16)
		kernels->loops->fill(to, x, (size_t)n);
	else
		for (int64_t i = 0; i < n; i++)
			element_set(kernels->dtype, to, (size_t)i, x);
}

/* Stores N elements from FIRST on of A spread by S, run by run of the innermost axis. */
static void fill_strided(const struct kernels *kernels, void *to, const void *a, const struct spread *s, int64_t first,
                         int64_t n)
{
	const size_t size = element_size(kernels->dtype);
	int64_t place[MAX_DIMS], at = 0, rest = first;
	for (int d = 0; d < s->ndim; d++) {
		place[d] = rest % s->dim[d];
		rest /= s->dim[d];
		at += place[d] * s->step[d];
	}
	for (int64_t done = 0; done < n;) {
		const int64_t left = s->dim[0] - place[0], run = left < n - done ? left : n - done;
		if (s->step[0])
			memcpy(element_of(to, size, done), element_at(a, size, at), size * (size_t)run);
		else
			fill_run(kernels, element_of(to, size, done), element_at(a, size, at), run);
		done += run;
		at -= place[0] * s->step[0];
		place[0] = 0;
		for (int d = 1; d < s->ndim; d++) {
			at += s->step[d];
			if (++place[d] < s->dim[d])
				break;
			at -= s->step[d] * s->dim[d];
			place[d] = 0;
		}
	}
}

void broadcast_fill(const struct kernels *kernels, void *to, const struct broadcast *broadcast, int64_t first,
                    int64_t n)
{
	const void *const a = broadcast->data;
	const size_t size = element_size(kernels->dtype);
	const struct spread s = spread_of(&broadcast->from->shape, &broadcast->to->shape);
	if (n <= 0)
		return;
	if (s.ndim == 0 || (s.ndim == 1 && s.step[0] == 0))
		fill_run(kernels, to, a, n);
	else if (s.ndim == 1)
		memcpy(to, element_at(a, size, first), size * (size_t)n);
	else if (s.ndim == 2 && s.step[1] == 0)
		fill_pattern(to, a, size, s.dim[0], first, n);
	else
		fill_strided(kernels, to, a, &s, first, n);
}
