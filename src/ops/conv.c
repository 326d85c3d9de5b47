/*
 * conv1d and conv2d: torch's cross-correlation, as matrix products. For a sample
 * and a stretch of output places the elements under the kernel are laid out as
 * columns (im2col) in scratch of bounded size; then
 *     result   = K columns                    K as [Cout, Cin kh kw]
 *     dK       = sum of g columns'
 *     dcolumns = K' g, added back to where they came from.
 * conv1d is conv2d with one row.
 */
#include <string.h>

#include "ops/lines.h"

struct conv {
	enum dtype dtype;
	size_t size;
	int64_t samples, channels, height, width, outs, kernel_h, kernel_w, out_h, out_w;
	int64_t stride_h, stride_w, pad_h, pad_w;
	int64_t depth;  /* elements under the kernel: channels * kernel_h * kernel_w */
	int64_t places; /* out_h * out_w */
	int64_t piece;  /* places at once */
};

static struct conv conv_of(const struct attrs *attrs, const struct type *v, const struct type *a, const struct type *y)
{
	const bool flat = v->shape.ndim == 3;
	const int64_t *d = v->shape.dim, *k = a->shape.dim, *o = y->shape.dim;
	struct conv c = {
		.dtype = v->dtype, .size = element_size(v->dtype), .samples = d[0], .channels = d[1], .outs = k[0]};
	c.height = flat ? 1 : d[2];
	c.width = flat ? d[2] : d[3];
	c.kernel_h = flat ? 1 : k[2];
	c.kernel_w = flat ? k[2] : k[3];
	c.out_h = flat ? 1 : o[2];
	c.out_w = flat ? o[2] : o[3];
	c.stride_h = flat ? 1 : attrs->stride[0];
	c.stride_w = attrs->stride[flat ? 0 : 1];
	c.pad_h = flat ? 0 : attrs->padding[0];
	c.pad_w = attrs->padding[flat ? 0 : 1];
	c.depth = c.channels * c.kernel_h * c.kernel_w;
	c.places = c.out_h * c.out_w;
	/* some 512 KiB of columns; at least 64 places, so that the products are worth their call */
	enum { ELEMENTS = 1 << 16, LEAST = 64 };
	c.piece = c.depth && ELEMENTS / c.depth > LEAST ? ELEMENTS / c.depth / 16 * 16 : LEAST;
	c.piece = c.piece < c.places ? c.piece : c.places;
	return c;
}

int64_t conv_scratch(const struct attrs *attrs, const struct type *v, const struct type *a, const struct type *y)
{
	const struct conv c = conv_of(attrs, v, a, y);
	int64_t bytes;
	return __builtin_mul_overflow(c.depth * (int64_t)c.size, c.piece, &bytes) ? INT64_MAX : bytes;
}

/* A stretch of a row of columns that comes from one row of the input. */
struct stretch {
	int64_t column, count; /* places */
	int64_t skip, inside;  /* places before it that lie in the padding, and places within */
	int64_t from;          /* element of the sample of the first place within */
};

/* The next stretch of the row for kernel element (channel, i, j), from PLACE on, at most COUNT places. */
static struct stretch stretch_at(const struct conv *c, int64_t channel, int64_t i, int64_t j, int64_t place,
                                 int64_t count)
{
	const int64_t row = place / c->out_w, first = place % c->out_w;
	struct stretch s = {.count = c->out_w - first < count ? c->out_w - first : count};
	const int64_t y = row * c->stride_h - c->pad_h + i;
	if (y < 0 || y >= c->height) {
		s.skip = s.count;
		return s;
	}
	/* places x with 0 <= x * stride - pad + j < width */
	const int64_t low = c->pad_w - j, high = c->width - 1 + low;
	int64_t begin = low > 0 ? (low - 1) / c->stride_w + 1 : 0, end = high < 0 ? 0 : high / c->stride_w + 1;
	begin = begin < first ? first : begin;
	end = end > first + s.count ? first + s.count : end;
	s.inside = end > begin ? end - begin : 0;
	s.skip = s.inside ? begin - first : s.count;
	s.from = (channel * c->height + y) * c->width + begin * c->stride_w - low;
	return s;
}

static void copy_strided(void *to, const void *from, size_t size, int64_t step, int64_t n)
{
	if (step == 1)
		memcpy(to, from, (size_t)n * size);
	else if (size == 8)
		for (int64_t i = 0; i < n; i++)
			((uint64_t *)to)[i] = ((const uint64_t *)from)[i * step];
	else
		for (int64_t i = 0; i < n; i++)
			((uint32_t *)to)[i] = ((const uint32_t *)from)[i * step];
}

static void add_strided(enum dtype dtype, void *to, const void *from, int64_t step, int64_t n)
{
	if (dtype == DTYPE_F64)
		for (int64_t i = 0; i < n; i++)
			((double *)to)[i * step] += ((const double *)from)[i];
	else
		for (int64_t i = 0; i < n; i++)
			((float *)to)[i * step] += ((const float *)from)[i];
}

/* The elements of one sample under the kernel at places FIRST .. FIRST + COUNT - 1, as columns. */
static void make_columns(const struct conv *c, char *columns, const void *sample, int64_t first, int64_t count)
{
	for (int64_t d = 0; d < c->depth; d++) {
		const int64_t j = d % c->kernel_w, i = d / c->kernel_w % c->kernel_h, channel = d / c->kernel_w / c->kernel_h;
		for (int64_t done = 0; done < count;) {
			const struct stretch s = stretch_at(c, channel, i, j, first + done, count - done);
			char *to = columns + (size_t)(d * count + done) * c->size;
			memset(to, 0, (size_t)s.skip * c->size);
			if (s.inside)
				copy_strided(to + (size_t)s.skip * c->size, element_at(sample, c->size, s.from), c->size, c->stride_w,
				             s.inside);
			memset(to + (size_t)(s.skip + s.inside) * c->size, 0, (size_t)(s.count - s.skip - s.inside) * c->size);
			done += s.count;
		}
	}
}

/* Adds columns back to the elements that they came from. */
static void add_columns(const struct conv *c, void *sample, const char *columns, int64_t first, int64_t count)
{
	for (int64_t d = 0; d < c->depth; d++) {
		const int64_t j = d % c->kernel_w, i = d / c->kernel_w % c->kernel_h, channel = d / c->kernel_w / c->kernel_h;
		for (int64_t done = 0; done < count;) {
			const struct stretch s = stretch_at(c, channel, i, j, first + done, count - done);
			if (s.inside)
				add_strided(c->dtype, element_of(sample, c->size, s.from),
				            columns + (size_t)(d * count + done + s.skip) * c->size, c->stride_w, s.inside);
			done += s.count;
		}
	}
}

static void convolve(const struct op_call *call, void *y, const void *v, const void *a)
{
	const struct conv c = conv_of(call->attrs, call->v, call->a, call->y);
	for (int64_t n = 0; n < c.samples; n++)
		for (int64_t p = 0; p < c.places; p += c.piece) {
			const int64_t count = c.places - p < c.piece ? c.places - p : c.piece;
			make_columns(&c, call->scratch, element_at(v, c.size, n * c.channels * c.height * c.width), p, count);
			gemm(c.dtype, false, false, c.outs, count, c.depth, a, c.depth, call->scratch, count, false,
			     element_of(y, c.size, n * c.outs * c.places + p), c.places);
		}
}

static void kernel_gradient(const struct op_call *call, const struct conv *c, void *da, const void *g, const void *v)
{
	memset(da, 0, (size_t)(c->outs * c->depth) * c->size);
	for (int64_t n = 0; n < c->samples; n++)
		for (int64_t p = 0; p < c->places; p += c->piece) {
			const int64_t count = c->places - p < c->piece ? c->places - p : c->piece;
			make_columns(c, call->scratch, element_at(v, c->size, n * c->channels * c->height * c->width), p, count);
			gemm(c->dtype, false, true, c->outs, c->depth, count, element_at(g, c->size, n * c->outs * c->places + p),
			     c->places, call->scratch, count, true, da, c->depth);
		}
}

static void input_gradient(const struct op_call *call, const struct conv *c, void *dv, const void *g, const void *a)
{
	const int64_t sample = c->channels * c->height * c->width;
	memset(dv, 0, (size_t)(c->samples * sample) * c->size);
	for (int64_t n = 0; n < c->samples; n++)
		for (int64_t p = 0; p < c->places; p += c->piece) {
			const int64_t count = c->places - p < c->piece ? c->places - p : c->piece;
			gemm(c->dtype, true, false, c->depth, count, c->outs, a, c->depth,
			     element_at(g, c->size, n * c->outs * c->places + p), c->places, false, call->scratch, count);
			add_columns(c, element_of(dv, c->size, n * sample), call->scratch, p, count);
		}
}

static void convolve_back(const struct op_call *call, void *dv, void *da, const void *g,
                          const void *const needs[MAX_NEEDS])
{
	const struct conv c = conv_of(call->attrs, call->v, call->a, call->y);
	if (da)
		kernel_gradient(call, &c, da, g, needs[0]);
	if (dv)
		input_gradient(call, &c, dv, g, needs[1]);
}

void forward_conv1d(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)keep;
	convolve(call, y, v, a);
}

void vjp_conv1d(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	convolve_back(call, dv, da, g, needs);
}

void forward_conv2d(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)keep;
	convolve(call, y, v, a);
}

void vjp_conv2d(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	convolve_back(call, dv, da, g, needs);
}
