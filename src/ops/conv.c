/*
 * conv1d and conv2d: torch's cross-correlation, as matrix products. For a piece
 * of a sample's result and a chunk of the elements under the kernel these are
 * laid out as columns (im2col) in scratch of bounded size; then
 *     result       += K[:,chunk] columns      K as [Cout, Cin kh kw]
 *     dK[:,chunk]  += g columns'
 *     dcolumns      = K[:,chunk]' g, added back to where they came from.
 * Samples of few places are taken several at a time, with their results beside
 * each other in scratch. Of other samples a kernel of one element that takes each
 * place needs no columns: they are the sample. conv1d is conv2d with one row.
 */
#include <string.h>

#include "ops/lines.h"

/* How many pieces of at most MOST there are in N. */
static int64_t pieces_of(int64_t n, int64_t most) { return (n + most - 1) / most; }

/* N cut into as few pieces of at most MOST as can be: how long the first are, where all are about as long. */
static int64_t even_piece(int64_t n, int64_t most) { return pieces_of(n, pieces_of(n, most)); }

struct conv {
	enum dtype dtype;
	size_t size;
	const struct loops *loops; /* NULL where only sizes are asked for */
	int64_t samples, channels, height, width, outs, kernel_h, kernel_w, out_h, out_w;
	int64_t stride_h, stride_w, pad_h, pad_w;
	int64_t depth;                   /* elements under the kernel: channels * kernel_h * kernel_w */
	int64_t chunk;                   /* at most so many of them at a time */
	int64_t places;                  /* out_h * out_w */
	int64_t most_rows, most_columns; /* of a piece: whole rows of the result, or a part of one */
	bool grouped;                    /* or of several whole samples: GROUP, where there are as many */
	int64_t group;
	int64_t pieces; /* of all samples */
	bool pointwise; /* the columns are the sample as it lies */
};

/* Pieces and chunks such that the columns of one are a panel of the product's (ops/gemm_template.h). */
static void cut(struct conv *c)
{
	enum { CHUNK = 256, COLUMNS_BYTES = 384 << 10, RESULT_BYTES = 1 << 20, GROUP_PLACES = 512, STEP = 16 };
	c->chunk = c->depth < 1 ? 1 : c->depth < CHUNK ? c->depth : CHUNK;
	c->most_rows = c->out_h;
	c->most_columns = c->out_w;
	c->group = 1;
	if (c->samples == 0 || c->places == 0)
		return;
	const int64_t most = COLUMNS_BYTES / (int64_t)c->size / c->chunk;
	const int64_t results = RESULT_BYTES / (int64_t)c->size / (c->outs < 1 ? 1 : c->outs);
	const int64_t grouped = most < GROUP_PLACES ? most : GROUP_PLACES;
	const int64_t together = (grouped < results ? grouped : results) / c->places;
	c->grouped = together > 1;
	if (c->grouped) {
		c->group = together < c->samples ? together : c->samples;
		c->pieces = pieces_of(c->samples, c->group);
		return;
	}
	c->pointwise =
		c->kernel_h == 1 && c->kernel_w == 1 && c->stride_h == 1 && c->stride_w == 1 && c->pad_h == 0 && c->pad_w == 0;
	if (c->pointwise) {
		c->chunk = c->depth;
	} else if (c->out_w <= most) {
		c->most_rows = even_piece(c->out_h, most / c->out_w);
	} else {
		c->most_rows = 1;
		c->most_columns = pieces_of(even_piece(c->out_w, most), STEP) * STEP;
	}
	c->pieces = c->samples * pieces_of(c->out_h, c->most_rows) * pieces_of(c->out_w, c->most_columns);
}

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
	cut(&c);
	return c;
}

/* Elements of the columns of one piece. */
static int64_t columns_count(const struct conv *c)
{
	return c->pointwise ? 0 : c->chunk * c->group * c->most_rows * c->most_columns;
}

int64_t conv_scratch(const struct attrs *attrs, const struct type *v, const struct type *a, const struct type *y)
{
	const struct conv c = conv_of_types(attrs, v, a, y);
	if (c.pieces == 0)
		return 0;
	return (columns_count(&c) + (c.grouped ? c.outs * c.group * c.places : 0)) * (int64_t)c.size;
}

static struct conv conv_of(const struct op_call *call)
{
	struct conv c = conv_of_types(call->attrs, call->v, call->a, call->y);
	c.loops = loops_get(call->kernels);
	return c;
}

/* A piece of the result: ROWS by COLUMNS places of SAMPLE, which lie one after another there; or SAMPLES whole ones. */
struct piece {
	int64_t sample, samples, row, rows, column, columns;
	int64_t place, places; /* the first of a sample's, and how many */
	int64_t count;         /* of all samples */
};

static struct piece piece_at(const struct conv *c, int64_t index)
{
	const int64_t across = pieces_of(c->out_w, c->most_columns), down = pieces_of(c->out_h, c->most_rows);
	struct piece p = {.sample = index / across / down * c->group,
	                  .row = index / across % down * c->most_rows,
	                  .column = index % across * c->most_columns};
	p.samples = c->samples - p.sample < c->group ? c->samples - p.sample : c->group;
	p.rows = c->out_h - p.row < c->most_rows ? c->out_h - p.row : c->most_rows;
	p.columns = c->out_w - p.column < c->most_columns ? c->out_w - p.column : c->most_columns;
	p.place = p.row * c->out_w + p.column;
	p.places = p.rows * p.columns;
	p.count = p.samples * p.places;
	return p;
}

/* Of some places along an axis those that find an element of the kernel in the input, not in the padding. */
struct stretch {
	int64_t skip, inside; /* places before the first, and how many */
	int64_t from;         /* index in the input under the first */
};

/* Of COUNT places from FIRST on, for the element at OFFSET of the kernel, in an input of EXTENT. */
static struct stretch stretch_of(int64_t first, int64_t count, int64_t offset, int64_t stride, int64_t pad,
                                 int64_t extent)
{
	/* places x with 0 <= x * stride - low < extent */
	const int64_t low = pad - offset, high = extent - 1 + low;
	int64_t begin = low > 0 ? (low - 1) / stride + 1 : 0, end = high < 0 ? 0 : high / stride + 1;
	begin = begin < first ? first : begin;
	end = end > first + count ? first + count : end;
	if (end <= begin)
		return (struct stretch){.skip = count};
	return (struct stretch){.skip = begin - first, .inside = end - begin, .from = begin * stride - low};
}

/*
 * One element of the kernel over a piece, which is a row of its columns for each channel: what of that is in the
 * input is RUNS runs of LENGTH, from FROM on in the channel; one run where the rows lie there as they do in the
 * columns, ends included.
 */
struct element {
	struct stretch down, across;
	int64_t runs, length, from;
};

static struct element element_of_kernel(const struct conv *c, const struct piece *p, int64_t under)
{
	const int64_t i = under / c->kernel_w, j = under % c->kernel_w;
	struct element e = {.down = stretch_of(p->row, p->rows, i, c->stride_h, c->pad_h, c->height),
	                    .across = stretch_of(p->column, p->columns, j, c->stride_w, c->pad_w, c->width)};
	if (e.down.inside == 0 || e.across.inside == 0)
		return e;
	const bool alike = c->stride_h == 1 && c->stride_w == 1 && p->columns == c->width;
	e.runs = alike ? 1 : e.down.inside;
	e.length = (alike ? e.down.inside - 1 : 0) * p->columns + e.across.inside;
	e.from = e.down.from * c->width + e.across.from;
	return e;
}

/* WIDTH zeros, mostly none or few, in each of ROWS rows that lie STEP apart in a row of columns, from FIRST on. */
static void clear(const struct conv *c, void *row, int64_t first, int64_t width, int64_t rows, int64_t step)
{
	if (width > 0 && rows > 0)
		c->loops->clear(element_of(row, c->size, first), step, (size_t)width, (size_t)rows);
}

/* Zeros in a row of columns where its places find padding, in those rows of places that find something. */
static void clear_ends(const struct conv *c, void *row, const struct piece *p, const struct element *e)
{
	const int64_t first = e->down.skip * p->columns, end = e->across.skip + e->across.inside;
	const bool whole = e->down.inside == p->rows; /* the rows of all samples, one after another */
	const int64_t rows = whole ? p->samples * p->rows : e->down.inside;
	if (e->across.inside == p->columns)
		return;
	for (int64_t s = 0; s < (whole ? 1 : p->samples); s++) {
		clear(c, row, s * p->places + first, e->across.skip, rows, p->columns);
		clear(c, row, s * p->places + first + end, p->columns - end, rows, p->columns);
	}
}

/*
 * The runs of an element of the kernel over a piece: ROWS at a time, each TIMES. They lie that far from one to the next
 * in the columns and in the input, the first ones at COLUMNS and INPUT.
 */
struct runs {
	int64_t rows, columns_row, input_row;
	int64_t times, columns_next, input_next;
	int64_t columns, input;
};

/* Of CHANNEL: those of all samples at once where a sample has one. */
static struct runs runs_of(const struct conv *c, const struct piece *p, const struct element *e, int64_t channel)
{
	const int64_t plane = c->height * c->width, sample = c->channels * plane;
	struct runs r = {.rows = e->runs,
	                 .columns_row = p->columns,
	                 .input_row = c->stride_h * c->width,
	                 .times = p->samples,
	                 .columns_next = p->places,
	                 .input_next = sample,
	                 .columns = e->down.skip * p->columns + e->across.skip,
	                 .input = p->sample * sample + channel * plane + e->from};
	if (e->runs == 1) {
		r.rows = p->samples;
		r.columns_row = p->places;
		r.input_row = sample;
		r.times = 1;
	}
	return r;
}

/* What is done with a row of columns and CHANNEL of the input, or of its gradient. */
typedef void row_function(const struct conv *c, void *row, void *v, const struct piece *p, const struct element *e,
                          int64_t channel);

static void make_row(const struct conv *c, void *row, void *v, const struct piece *p, const struct element *e,
                     int64_t channel)
{
	const struct runs r = runs_of(c, p, e, channel);
	const int64_t above = e->runs ? e->down.skip * p->columns : p->places;
	const int64_t below = e->runs ? (e->down.skip + e->down.inside) * p->columns : p->places;
	clear(c, row, 0, above, p->samples, p->places);
	for (int64_t i = 0; i < r.times && r.rows > 0; i++)
		c->loops->take_every(element_of(row, c->size, r.columns + i * r.columns_next), r.columns_row,
		                     element_of(v, c->size, r.input + i * r.input_next), r.input_row, c->stride_w,
		                     (size_t)e->length, (size_t)r.rows);
	if (e->runs)
		clear_ends(c, row, p, e);
	clear(c, row, below, p->places - below, p->samples, p->places);
}

/* Back to the samples that it came from; what found padding is lost. */
static void add_row(const struct conv *c, void *row, void *v, const struct piece *p, const struct element *e,
                    int64_t channel)
{
	const struct runs r = runs_of(c, p, e, channel);
	if (e->runs == 1)
		clear_ends(c, row, p, e);
	for (int64_t i = 0; i < r.times && r.rows > 0; i++)
		c->loops->add_every(element_of(v, c->size, r.input + i * r.input_next), r.input_row, c->stride_w,
		                    element_of(row, c->size, r.columns + i * r.columns_next), r.columns_row, (size_t)e->length,
		                    (size_t)r.rows);
}

/* Elements FIRST, FIRST + 1, ... of those under the kernel: a part of them. */
struct chunk {
	int64_t first, count;
};

/* The rows of a CHUNK's columns over a piece, with the samples of V. Those of one channel by place in the kernel. */
static void each_row(const struct conv *c, void *columns, void *v, const struct piece *p, struct chunk chunk,
                     row_function *function)
{
	const int64_t plane = c->kernel_h * c->kernel_w;
	for (int64_t under = 0; under < plane; under++) {
		const struct element e = element_of_kernel(c, p, under);
		for (int64_t d = (under - chunk.first % plane + plane) % plane; d < chunk.count; d += plane)
			function(c, element_of(columns, c->size, d * p->count), v, p, &e, (chunk.first + d) / plane);
	}
}

/* A matrix whose rows lie LD elements apart. */
struct matrix {
	void *at;
	int64_t ld;
};

/* The elements of an array from FIRST on, in rows of LD. */
static struct matrix matrix_in(const struct conv *c, const void *array, int64_t first, int64_t ld)
{
	return (struct matrix){writable(element_at(array, c->size, first)), ld};
}

/* A CHUNK of the elements of V under the kernel at the places of a piece: [chunk.count, p->count]. */
static struct matrix columns_of(const struct conv *c, void *scratch, const void *v, const struct piece *p,
                                struct chunk chunk)
{
	if (c->pointwise)
		return matrix_in(c, v, (p->sample * c->depth + chunk.first) * c->places, c->places);
	each_row(c, scratch, writable(v), p, chunk, make_row);
	return (struct matrix){scratch, p->count};
}

/* A piece of Y, an array of the result's shape, as a matrix [outs, p->count]: where it lies, or for a group in scratch. */
static struct matrix result_of(const struct conv *c, void *scratch, const void *y, const struct piece *p)
{
	if (c->grouped)
		return matrix_in(c, scratch, columns_count(c), p->count);
	return matrix_in(c, y, p->sample * c->outs * c->places + p->place, c->places);
}

/* Of a group's result the row of places that is I-th in the whole array, where samples lie behind each other. */
static void *row_of_group(const struct conv *c, const struct matrix *result, int64_t i)
{
	return element_of(result->at, c->size, i % c->outs * result->ld + i / c->outs * c->places);
}

/* A group's result, from where its rows lie in G; and to where they belong in Y. */
static void gather_result(const struct conv *c, const struct matrix *result, const void *g, const struct piece *p)
{
	const void *const from = element_at(g, c->size, p->sample * c->outs * c->places);
	for (int64_t i = 0; c->grouped && i < p->samples * c->outs; i++)
		memcpy(row_of_group(c, result, i), element_at(from, c->size, i * c->places), (size_t)c->places * c->size);
}
static void scatter_result(const struct conv *c, const struct matrix *result, void *y, const struct piece *p)
{
	void *const to = element_of(y, c->size, p->sample * c->outs * c->places);
	for (int64_t i = 0; c->grouped && i < p->samples * c->outs; i++)
		memcpy(element_of(to, c->size, i * c->places), row_of_group(c, result, i), (size_t)c->places * c->size);
}

/* C[m,n] = A B (+ C). A group's by our own kernel's tiles: the bits must not depend on how many samples there are. */
static void multiply_matrices(const struct conv *c, const struct product *p)
{
	if (c->grouped && p->m > 0 && p->n > 0 && p->k > 0)
		c->loops->gemm_tiles(p);
	else
		gemm(c->dtype, p);
}

static struct factor as_it_is(struct matrix m) { return (struct factor){m.at, m.ld, false}; }
static struct factor transposed(struct matrix m) { return (struct factor){m.at, m.ld, true}; }

/* The chunk from FIRST on of those that end before END. */
static struct chunk chunk_of(const struct conv *c, int64_t first, int64_t end)
{
	return (struct chunk){first, end - first < c->chunk ? end - first : c->chunk};
}

/* A convolution, as members of a team share it: TO from FROM, which with the kernel or V is what it needs. */
struct shared {
	struct conv c;
	void *scratch; /* the caller's */
	void *to;
	const void *from, *with;
};

/* Pieces BEGIN .. END-1 of the result, from a sample and the kernel. */
static void convolve_pieces(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = &s->c;
	void *const scratch = memory ? memory : s->scratch;
	for (int64_t i = begin; i < end; i++) {
		const struct piece p = piece_at(c, i);
		const struct matrix to = result_of(c, scratch, s->to, &p);
		int64_t d = 0;
		do { /* once where there is nothing under the kernel: the result is zero */
			const struct chunk chunk = chunk_of(c, d, c->depth);
			multiply_matrices(c, &(struct product){.m = c->outs,
			                                       .n = p.count,
			                                       .k = chunk.count,
			                                       .a = as_it_is(matrix_in(c, s->with, d, c->depth)),
			                                       .b = as_it_is(columns_of(c, scratch, s->from, &p, chunk)),
			                                       .c = to.at,
			                                       .ldc = to.ld,
			                                       .accumulate = d > 0});
			d += c->chunk;
		} while (d < c->depth);
		scatter_result(c, &to, s->to, &p);
	}
}

/* The kernel's gradient in channels BEGIN .. END-1, from the cotangent and the input. */
static void kernel_gradient(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = &s->c;
	void *const scratch = memory ? memory : s->scratch;
	const int64_t plane = c->kernel_h * c->kernel_w;
	for (int64_t i = 0; i < c->pieces; i++) {
		const struct piece p = piece_at(c, i);
		const struct matrix from = result_of(c, scratch, s->from, &p);
		gather_result(c, &from, s->from, &p);
		for (int64_t d = begin * plane; d < end * plane; d += c->chunk) {
			const struct chunk chunk = chunk_of(c, d, end * plane);
			const struct matrix to = matrix_in(c, s->to, d, c->depth);
			multiply_matrices(c, &(struct product){.m = c->outs,
			                                       .n = chunk.count,
			                                       .k = p.count,
			                                       .a = as_it_is(from),
			                                       .b = transposed(columns_of(c, scratch, s->with, &p, chunk)),
			                                       .c = to.at,
			                                       .ldc = to.ld,
			                                       .accumulate = true});
		}
	}
}

/* The input's gradient in channels BEGIN .. END-1, from the cotangent and the kernel. */
static void input_gradient(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = &s->c;
	void *const scratch = memory ? memory : s->scratch;
	const int64_t plane = c->kernel_h * c->kernel_w;
	for (int64_t i = 0; i < c->pieces; i++) {
		const struct piece p = piece_at(c, i);
		const struct matrix from = result_of(c, scratch, s->from, &p);
		gather_result(c, &from, s->from, &p);
		for (int64_t d = begin * plane; d < end * plane; d += c->chunk) {
			const struct chunk chunk = chunk_of(c, d, end * plane);
			const struct matrix to =
				c->pointwise ? columns_of(c, scratch, s->to, &p, chunk) : (struct matrix){scratch, p.count};
			multiply_matrices(c, &(struct product){.m = chunk.count,
			                                       .n = p.count,
			                                       .k = c->outs,
			                                       .a = transposed(matrix_in(c, s->with, d, c->depth)),
			                                       .b = as_it_is(from),
			                                       .c = to.at,
			                                       .ldc = to.ld,
			                                       .accumulate = c->pointwise});
			if (!c->pointwise)
				each_row(c, scratch, s->to, &p, chunk, add_row);
		}
	}
}

static void convolve(const struct op_call *call, void *y, const void *v, const void *a)
{
	struct shared shared = {.c = conv_of(call), .scratch = call->scratch, .to = y, .from = v, .with = a};
	team_run(call->team, shared.c.pieces, 1, convolve_pieces, &shared);
}

/* How many channels a member of a team takes at a time: a panel's, or a quarter of all where these are few. */
static int64_t channels_together(const struct conv *c)
{
	enum { LEAST = 128, MOST = 256, PARTS = 4 };
	const int64_t part = c->depth / PARTS, plane = c->kernel_h * c->kernel_w;
	const int64_t elements = part < LEAST ? LEAST : part < MOST ? part : MOST;
	return plane < elements ? elements / plane : 1;
}

static void convolve_back(const struct op_call *call, void *dv, void *da, const void *g,
                          const void *const needs[MAX_NEEDS])
{
	struct shared shared = {.c = conv_of(call), .scratch = call->scratch, .from = g};
	const struct conv *c = &shared.c;
	const int64_t channels = channels_together(c);
	if (da) {
		memset(da, 0, (size_t)(c->outs * c->depth) * c->size);
		shared.to = da;
		shared.with = needs[0];
		team_run(call->team, c->channels, channels, kernel_gradient, &shared);
	}
	if (dv) {
		memset(dv, 0, (size_t)(c->samples * c->channels * c->height * c->width) * c->size);
		shared.to = dv;
		shared.with = needs[1];
		team_run(call->team, c->channels, channels, input_gradient, &shared);
	}
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
