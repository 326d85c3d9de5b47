/*
 * conv1d and conv2d: torch's cross-correlation, as matrix products. For a piece
 * of a sample's result the elements under the kernel are laid out as columns
 * (im2col) in scratch of bounded size; then
 *     result   = K columns                    K as [Cout, Cin kh kw]
 *     dK       = sum of g columns'
 *     dcolumns = K' g, added back to where they came from.
 * conv1d is conv2d with one row.
 */
#include <string.h>

#include "ops/lines.h"

/* How many pieces of at most MOST there are in N. */
static int64_t pieces_of(int64_t n, int64_t most) { return (n + most - 1) / most; }

struct conv {
	enum dtype dtype;
	size_t size;
	const struct loops *loops; /* NULL where only sizes are asked for */
	int64_t samples, channels, height, width, outs, kernel_h, kernel_w, out_h, out_w;
	int64_t stride_h, stride_w, pad_h, pad_w;
	int64_t depth;                   /* elements under the kernel: channels * kernel_h * kernel_w */
	int64_t places;                  /* out_h * out_w */
	int64_t most_rows, most_columns; /* of a piece: whole rows of the result, or a part of one */
	int64_t pieces;                  /* of all samples */
};

static struct conv conv_of_types(const struct attrs *attrs, const struct type *v, const struct type *a,
                                 const struct type *y)
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
	/* some 512 KiB of columns; at least 64 places or so, so that the products are worth their call */
	enum { ELEMENTS = 1 << 16, LEAST = 64 };
	const int64_t most = c.depth && ELEMENTS / c.depth > LEAST ? ELEMENTS / c.depth / 16 * 16 : LEAST;
	const int64_t rows = c.out_w > 0 && c.out_w < most ? (most + c.out_w / 2) / c.out_w : 1;
	c.most_columns = c.out_w < most ? c.out_w : most;
	c.most_rows = rows < c.out_h ? rows : c.out_h;
	if (c.places > 0)
		c.pieces = c.samples * pieces_of(c.out_h, c.most_rows) * pieces_of(c.out_w, c.most_columns);
	return c;
}

int64_t conv_scratch(const struct attrs *attrs, const struct type *v, const struct type *a, const struct type *y)
{
	const struct conv c = conv_of_types(attrs, v, a, y);
	int64_t bytes;
	return __builtin_mul_overflow(c.depth * (int64_t)c.size, c.most_rows * c.most_columns, &bytes) ? INT64_MAX : bytes;
}

static struct conv conv_of(const struct op_call *call)
{
	struct conv c = conv_of_types(call->attrs, call->v, call->a, call->y);
	c.loops = loops_get(call->kernels);
	return c;
}

/* A piece of the result: ROWS by COLUMNS places of SAMPLE, which lie one after another there. */
struct piece {
	int64_t sample, row, rows, column, columns;
	int64_t place, count; /* the first of the sample's, and how many */
};

static struct piece piece_at(const struct conv *c, int64_t index)
{
	const int64_t across = pieces_of(c->out_w, c->most_columns), down = pieces_of(c->out_h, c->most_rows);
	struct piece p = {.sample = index / across / down,
	                  .row = index / across % down * c->most_rows,
	                  .column = index % across * c->most_columns};
	p.rows = c->out_h - p.row < c->most_rows ? c->out_h - p.row : c->most_rows;
	p.columns = c->out_w - p.column < c->most_columns ? c->out_w - p.column : c->most_columns;
	p.place = p.row * c->out_w + p.column;
	p.count = p.rows * p.columns;
	return p;
}

/* One element of the kernel over a piece: which of the piece's columns it finds in the input, not in the padding. */
struct element {
	int64_t channel, i, j;
	int64_t skip, inside; /* columns before the first, and how many */
	int64_t from;         /* column of the input under the first */
};

static struct element element_of_kernel(const struct conv *c, const struct piece *p, int64_t d)
{
	struct element e = {
		.channel = d / c->kernel_w / c->kernel_h, .i = d / c->kernel_w % c->kernel_h, .j = d % c->kernel_w};
	/* columns x with 0 <= x * stride - pad + j < width */
	const int64_t low = c->pad_w - e.j, high = c->width - 1 + low;
	int64_t begin = low > 0 ? (low - 1) / c->stride_w + 1 : 0, end = high < 0 ? 0 : high / c->stride_w + 1;
	begin = begin < p->column ? p->column : begin;
	end = end > p->column + p->columns ? p->column + p->columns : end;
	e.inside = end > begin ? end - begin : 0;
	e.skip = e.inside ? begin - p->column : p->columns;
	e.from = begin * c->stride_w - low;
	return e;
}

/* Where in the sample the first column inside is for ROW of the result; -1: all of the row is padding. */
static int64_t place_in_input(const struct conv *c, const struct element *e, int64_t row)
{
	const int64_t y = row * c->stride_h - c->pad_h + e->i;
	return y < 0 || y >= c->height || !e->inside ? -1 : (e->channel * c->height + y) * c->width + e->from;
}

/* The elements of V under the kernel at the places of a piece, as columns. */
static void make_columns(const struct conv *c, char *columns, const void *v, const struct piece *p)
{
	const char *sample = element_at(v, c->size, p->sample * c->channels * c->height * c->width);
	const size_t row_bytes = (size_t)p->columns * c->size;
	for (int64_t d = 0; d < c->depth; d++) {
		const struct element e = element_of_kernel(c, p, d);
		const size_t skip = (size_t)e.skip * c->size, end = skip + (size_t)e.inside * c->size;
		for (int64_t r = 0; r < p->rows; r++, columns += row_bytes) {
			const int64_t from = place_in_input(c, &e, p->row + r);
			if (from < 0) {
				memset(columns, 0, row_bytes);
				continue;
			}
			memset(columns, 0, skip);
			c->loops->take_every(columns + skip, element_at(sample, c->size, from), c->stride_w, (size_t)e.inside);
			memset(columns + end, 0, row_bytes - end);
		}
	}
}

/* Adds columns back to the elements of DV that they came from. */
static void add_columns(const struct conv *c, void *dv, const char *columns, const struct piece *p)
{
	char *sample = element_of(dv, c->size, p->sample * c->channels * c->height * c->width);
	for (int64_t d = 0; d < c->depth; d++) {
		const struct element e = element_of_kernel(c, p, d);
		for (int64_t r = 0; r < p->rows; r++, columns += (size_t)p->columns * c->size) {
			const int64_t to = place_in_input(c, &e, p->row + r);
			if (to >= 0)
				c->loops->add_every(element_of(sample, c->size, to), c->stride_w, columns + (size_t)e.skip * c->size,
				                    (size_t)e.inside);
		}
	}
}

/* Where a piece's first place is in an array of the result's shape. */
static int64_t place_in_result(const struct conv *c, const struct piece *p)
{
	return p->sample * c->outs * c->places + p->place;
}

static void convolve(const struct op_call *call, void *y, const void *v, const void *a)
{
	const struct conv c = conv_of(call);
	for (int64_t i = 0; i < c.pieces; i++) {
		const struct piece p = piece_at(&c, i);
		make_columns(&c, call->scratch, v, &p);
		gemm(c.dtype, false, false, c.outs, p.count, c.depth, a, c.depth, call->scratch, p.count, false,
		     element_of(y, c.size, place_in_result(&c, &p)), c.places);
	}
}

static void kernel_gradient(const struct op_call *call, const struct conv *c, void *da, const void *g, const void *v)
{
	memset(da, 0, (size_t)(c->outs * c->depth) * c->size);
	for (int64_t i = 0; i < c->pieces; i++) {
		const struct piece p = piece_at(c, i);
		make_columns(c, call->scratch, v, &p);
		gemm(c->dtype, false, true, c->outs, c->depth, p.count, element_at(g, c->size, place_in_result(c, &p)),
		     c->places, call->scratch, p.count, true, da, c->depth);
	}
}

static void input_gradient(const struct op_call *call, const struct conv *c, void *dv, const void *g, const void *a)
{
	memset(dv, 0, (size_t)(c->samples * c->channels * c->height * c->width) * c->size);
	for (int64_t i = 0; i < c->pieces; i++) {
		const struct piece p = piece_at(c, i);
		gemm(c->dtype, true, false, c->depth, p.count, c->outs, a, c->depth,
		     element_at(g, c->size, place_in_result(c, &p)), c->places, false, call->scratch, p.count);
		add_columns(c, dv, call->scratch, &p);
	}
}

static void convolve_back(const struct op_call *call, void *dv, void *da, const void *g,
                          const void *const needs[MAX_NEEDS])
{
	const struct conv c = conv_of(call);
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
