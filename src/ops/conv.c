/*
 * conv1d and conv2d: torch's cross-correlation, as matrix products. The result is cut
 * into pieces, and the elements of the kernel into chunks. The inputs that a chunk
 * meets for a piece are laid out as columns (im2col) in scratch of bounded size. Then
 *     result       += K[:,chunk] columns      K as [Cout, Cin kh kw]
 *     dK[:,chunk]  += g columns'
 *     dcolumns      = K[:,chunk]' g, added to the inputs that the columns came from.
 * Samples whose results have few elements are bundled, and their results lie beside
 * each other in scratch. A 1 x 1 kernel without stride or padding needs
 * no columns: they are the sample itself. conv1d is conv2d with one row. Many convolutions
 * without stride need no columns either (conv_direct.c), nor do those of single channels
 * (conv_depthwise.c). conv_transpose1d and conv_transpose2d are the derivative by the input.
 * Tests: tests/unit/test_general.c
 */
#include "ops/conv.h"

#include <string.h>

#include "base/checked.h"

/* Returns how many pieces of at most MOST elements N elements make. */
static int64_t pieces_of(int64_t n, int64_t most) { return (n + most - 1) / most; }

/* Returns the size of a piece if N elements are cut about equally into as few pieces of at most MOST as possible. */
static int64_t even_piece(int64_t n, int64_t most) { return pieces_of(n, pieces_of(n, most)); }

/* Chooses pieces and chunks. Unless pointwise, a piece's columns have about the bytes of a panel of B, or fewer. */
static void choose_pieces(struct conv *c)
{
	enum { CHUNK = 256, COLUMNS_BYTES = 384 << 10, RESULT_BYTES = 1 << 20, BUNDLE_PLACES = 512, STEP = 16 };
	c->chunk = c->depth < 1 ? 1 : c->depth < CHUNK ? c->depth : CHUNK;
	c->most_rows = c->out_h;
	c->most_columns = c->out_w;
	c->bundle = 1;
	if (c->samples == 0 || c->places == 0)
		return;
	const int64_t most = COLUMNS_BYTES / (int64_t)c->size / c->chunk;
	const int64_t results = RESULT_BYTES / (int64_t)c->size / (c->outs < 1 ? 1 : c->outs);
	const int64_t bundled = most < BUNDLE_PLACES ? most : BUNDLE_PLACES;
	const int64_t together = (bundled < results ? bundled : results) / c->places;
	c->bundled = together > 1;
	if (c->bundled) {
		c->bundle = together < c->samples ? together : c->samples;
		c->pieces = pieces_of(c->samples, c->bundle);
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

/*
 * Returns the convolution of OP, which is one or transposed: then its result has the type of the convolution's input, and
 * its input that of the convolution's result.
 */
static struct conv conv_of_types(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                                 const struct type *y)
{
	const bool flat = v->shape.ndim == 3, transposed = op_is_transposed(op);
	const int64_t *d = (transposed ? y : v)->shape.dim, *o = (transposed ? v : y)->shape.dim, *k = a->shape.dim;
	struct conv c = {.dtype = v->dtype,
	                 .size = element_size(v->dtype),
	                 .samples = d[0],
	                 .groups = attrs->groups,
	                 .channels = k[1],
	                 .outs = k[0] / attrs->groups};
	c.height = flat ? 1 : d[2];
	c.width = flat ? d[2] : d[3];
	c.kernel_h = flat ? 1 : k[2];
	c.kernel_w = flat ? k[2] : k[3];
	c.out_h = flat ? 1 : o[2];
	c.out_w = flat ? o[2] : o[3];
	const struct window across = op_window(op, attrs, flat ? 0 : 1, c.kernel_w);
	const struct window down = flat ? (struct window){.stride = 1, .gap = 1} : op_window(op, attrs, 0, c.kernel_h);
	c.stride_h = down.stride;
	c.stride_w = across.stride;
	c.pad_h = down.before;
	c.pad_w = across.before;
	c.gap_h = down.gap;
	c.gap_w = across.gap;
	c.depth = c.channels * c.kernel_h * c.kernel_w;
	c.places = c.out_h * c.out_w;
	c.in_sample = c.groups * c.channels * c.height * c.width;
	c.out_sample = c.groups * c.outs * c.places;
	choose_pieces(&c);
	return c;
}

/* Returns the elements of scratch for the columns of the largest piece. */
static int64_t columns_count(const struct conv *c)
{
	return c->pointwise ? 0 : c->chunk * c->bundle * c->most_rows * c->most_columns;
}

int64_t conv_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                     const struct type *y)
{
	const struct conv c = conv_of_types(op, attrs, v, a, y), turned = conv_turned(&c);
	if (c.pieces == 0)
		return 0;
	if (depthwise_fits(&c))
		return depthwise_scratch(&c);
	const int64_t columns = (columns_count(&c) + (c.bundled ? c.outs * c.bundle * c.places : 0)) * (int64_t)c.size;
	const int64_t result = direct_fits(&c) ? direct_scratch(&c) : columns;
	const int64_t input = direct_fits(&turned) ? direct_scratch(&turned) : columns;
	const int64_t weights = direct_kernel_fits(&c) ? direct_kernel_scratch(&c) : columns;
	return greater(greater(result, input), weights);
}

/* A piece of the result: ROWS by COLUMNS contiguous places of one sample, or all places of SAMPLES samples. */
struct piece {
	int64_t sample, samples, row, rows, column, columns;
	int64_t place, places; /* in each sample: the first place of the piece, and the number of its places */
	int64_t count;         /* places in all samples of the piece */
};

static struct piece piece_at(const struct conv *c, int64_t index)
{
	const int64_t across = pieces_of(c->out_w, c->most_columns), down = pieces_of(c->out_h, c->most_rows);
	struct piece p = {.sample = index / across / down * c->bundle,
	                  .row = index / across % down * c->most_rows,
	                  .column = index % across * c->most_columns};
	p.samples = c->samples - p.sample < c->bundle ? c->samples - p.sample : c->bundle;
	p.rows = c->out_h - p.row < c->most_rows ? c->out_h - p.row : c->most_rows;
	p.columns = c->out_w - p.column < c->most_columns ? c->out_w - p.column : c->most_columns;
	p.place = p.row * c->out_w + p.column;
	p.places = p.rows * p.columns;
	p.count = p.samples * p.places;
	return p;
}

/* The places of a piece along one axis at which an element of the kernel meets the input, not the padding. */
struct stretch {
	int64_t skip, inside; /* places of the piece before the stretch; places in the stretch */
	int64_t from;         /* the index of the input that the first place of the stretch meets */
};

/* Returns the stretch among COUNT places from FIRST on, for the kernel's element OFFSET and an input of EXTENT. */
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
 * Where an element of the kernel meets the input over a piece. For each channel this is one
 * row of the columns. A sample has RUNS runs of LENGTH contiguous columns, or 0 if only padding
 * is met; the first reads the channel from index FROM on. If the input's rows lie as the piece's do,
 * one run covers all of them and the padding between them, which clear_ends sets to zero.
 */
struct kernel_element {
	struct stretch down, across;
	int64_t runs, length, from;
	int64_t channel;
};

static struct kernel_element element_of_kernel(const struct conv *c, const struct piece *p, int64_t under)
{
	const int64_t i = under / c->kernel_w, j = under % c->kernel_w;
	struct kernel_element e = {.down = stretch_of(p->row, p->rows, i * c->gap_h, c->stride_h, c->pad_h, c->height),
	                           .across =
	                               stretch_of(p->column, p->columns, j * c->gap_w, c->stride_w, c->pad_w, c->width)};
	if (e.down.inside == 0 || e.across.inside == 0)
		return e;
	const bool alike = c->stride_h == 1 && c->stride_w == 1 && p->columns == c->width;
	e.runs = alike ? 1 : e.down.inside;
	e.length = (alike ? e.down.inside - 1 : 0) * p->columns + e.across.inside;
	e.from = e.down.from * c->width + e.across.from;
	return e;
}

/* Stores zeros in ROW of the columns: WIDTH of them at each of ROWS places, FIRST, FIRST + STEP, and so on. */
static void clear_places(const struct conv *c, void *row, int64_t first, int64_t width, int64_t rows, int64_t step)
{
	if (width > 0 && rows > 0)
		c->loops->clear_rows(&(struct rows){element_of(row, c->size, first), step, 1}, (size_t)width, (size_t)rows);
}

/* Stores zeros for the padding left and right of the input, in the rows of places that meet the input. */
static void clear_ends(const struct conv *c, void *row, const struct piece *p, const struct kernel_element *e)
{
	const int64_t first = e->down.skip * p->columns, end = e->across.skip + e->across.inside;
	const bool whole = e->down.inside == p->rows; /* then the rows of all samples lie one after another */
	const int64_t rows = whole ? p->samples * p->rows : e->down.inside;
	if (e->across.inside == p->columns)
		return;
	for (int64_t s = 0; s < (whole ? 1 : p->samples); s++) {
		clear_places(c, row, s * p->places + first, e->across.skip, rows, p->columns);
		clear_places(c, row, s * p->places + first + end, p->columns - end, rows, p->columns);
	}
}

/*
 * The runs of an element of the kernel over a piece, in the columns and in the input: TIMES
 * groups of ROWS runs. COLUMNS_ROW and INPUT_ROW are the elements from one run to the next,
 * COLUMNS_NEXT and INPUT_NEXT those from one group to the next.
 */
struct runs {
	int64_t rows, columns_row, input_row;
	int64_t times, columns_next, input_next;
	int64_t columns, input; /* where the first run begins */
};

/* A group is a sample. If each sample has one run, all samples are one group. */
static struct runs runs_of(const struct conv *c, const struct piece *p, const struct kernel_element *e)
{
	const int64_t plane = c->height * c->width, sample = c->in_sample;
	struct runs r = {.rows = e->runs,
	                 .columns_row = p->columns,
	                 .input_row = c->stride_h * c->width,
	                 .times = p->samples,
	                 .columns_next = p->places,
	                 .input_next = sample,
	                 .columns = e->down.skip * p->columns + e->across.skip,
	                 .input = p->sample * sample + e->channel * plane + e->from};
	if (e->runs == 1) {
		r.rows = p->samples;
		r.columns_row = p->places;
		r.input_row = sample;
		r.times = 1;
	}
	return r;
}

/*
 * Fills ROW of the columns with what element E of the kernel meets over piece P: values of V,
 * and zeros for the padding. If BACK, adds ROW to those values of V instead. What ROW has for
 * the padding is dropped; where a run covers padding, ROW is first set to zero there.
 */
static void move_row(const struct conv *c, void *row, void *v, const struct piece *p, const struct kernel_element *e,
                     bool back)
{
	const struct runs r = runs_of(c, p, e);
	const int64_t above = e->runs ? e->down.skip * p->columns : p->places;
	const int64_t below = e->runs ? (e->down.skip + e->down.inside) * p->columns : p->places;
	if (!back) {
		clear_places(c, row, 0, above, p->samples, p->places);
		clear_places(c, row, below, p->places - below, p->samples, p->places);
	} else if (e->runs == 1) {
		clear_ends(c, row, p, e);
	}
	for (int64_t i = 0; i < r.times && r.rows > 0; i++) {
		const struct rows columns = {element_of(row, c->size, r.columns + i * r.columns_next), r.columns_row, 1};
		const struct rows input = {element_of(v, c->size, r.input + i * r.input_next), r.input_row, c->stride_w};
		if (back)
			c->loops->add_rows(&input, &columns, (size_t)e->length, (size_t)r.rows);
		else
			c->loops->copy_rows(&columns, &input, (size_t)e->length, (size_t)r.rows);
	}
	if (!back && e->runs)
		clear_ends(c, row, p, e);
}

/* Elements FIRST .. FIRST + COUNT - 1 of the depth. */
struct chunk {
	int64_t first, count;
};

/* Fills the columns of CHUNK over piece P from V; if BACK, adds them to V. One kernel_element serves all channels. */
static void move_columns(const struct conv *c, void *columns, void *v, const struct piece *p, struct chunk chunk,
                         bool back)
{
	const int64_t plane = c->kernel_h * c->kernel_w;
	for (int64_t under = 0; under < plane; under++) {
		struct kernel_element e = element_of_kernel(c, p, under);
		for (int64_t d = (under - chunk.first % plane + plane) % plane; d < chunk.count; d += plane) {
			e.channel = (chunk.first + d) / plane;
			move_row(c, element_of(columns, c->size, d * p->count), v, p, &e, back);
		}
	}
}

/* Returns the matrix in ARRAY from element FIRST on, whose rows begin LD elements apart, or its transpose. */
static struct factor matrix_in(const struct conv *c, const void *array, int64_t first, int64_t ld, bool transposed)
{
	return (struct factor){element_at(array, c->size, first), ld, transposed};
}

/* Returns where the columns of CHUNK over piece P, [chunk.count, p->count], are: in SCRATCH, or if pointwise in V. */
static struct factor columns_of(const struct conv *c, const void *scratch, const void *v, const struct piece *p,
                                struct chunk chunk)
{
	if (c->pointwise)
		return matrix_in(c, v, p->sample * c->in_sample + chunk.first * c->places, c->places, false);
	return (struct factor){scratch, p->count, false};
}

/* Returns where piece P of Y, as a matrix [outs, p->count], is: in Y or, if bundled, in SCRATCH (see move_result). */
static struct factor result_of(const struct conv *c, const void *scratch, const void *y, const struct piece *p)
{
	if (c->bundled)
		return matrix_in(c, scratch, columns_count(c), p->count, false);
	return matrix_in(c, y, p->sample * c->out_sample + p->place, c->places, false);
}

/* Copies a bundle's rows from Y, where each sample's lie together, to RESULT; if BACK, to Y. Nothing if not bundled. */
static void move_result(const struct conv *c, const struct factor *result, void *y, const struct piece *p, bool back)
{
	for (int64_t i = 0; c->bundled && i < p->samples * c->outs; i++) {
		void *row = element_of(writable(result->data), c->size, i % c->outs * result->ld + i / c->outs * c->places);
		const int64_t at = (p->sample + i / c->outs) * c->out_sample + i % c->outs * c->places;
		void *place = element_of(y, c->size, at);
		memcpy(back ? place : row, back ? row : place, (size_t)c->places * c->size);
	}
}

/* Computes a product; if bundled by our own tiles, so that its bits do not depend on the number of samples. */
static void multiply_matrices(const struct conv *c, const struct product *p)
{
	if (c->bundled && p->m > 0 && p->n > 0 && p->k > 0)
		c->loops->gemm(p, true);
	else
		gemm(c->dtype, p);
}

/* Returns the chunk that begins at FIRST. The last chunk ends at END. */
static struct chunk chunk_of(const struct conv *c, int64_t first, int64_t end)
{
	return (struct chunk){first, end - first < c->chunk ? end - first : c->chunk};
}

/* The context that a team shares. Backward, Y is the cotangent, and the gradient is added to the input or to the kernel. */
struct shared {
	struct conv c;
	void *scratch; /* the caller's; other members of the team have their own */
	struct conv_arrays of;
	bool of_input;    /* for gradient_channels: the gradient is of the input, not of the kernel */
	int64_t together; /* channels of a group that it computes as one */
};

/* Computes pieces BEGIN .. END-1 of the result: all of a group, then of the next. */
static void convolve_pieces(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = &s->c;
	void *const scratch = memory ? memory : s->scratch;
	for (int64_t i = begin; i < end; i++) {
		const struct conv_arrays of = conv_group(c, &s->of, i / c->pieces);
		const struct piece p = piece_at(c, i % c->pieces);
		const struct factor to = result_of(c, scratch, of.y, &p);
		int64_t d = 0;
		do { /* once even if the depth is 0: the result is zero */
			const struct chunk chunk = chunk_of(c, d, c->depth);
			if (!c->pointwise)
				move_columns(c, scratch, of.v, &p, chunk, false);
			multiply_matrices(c, &(struct product){.m = c->outs,
			                                       .n = p.count,
			                                       .k = chunk.count,
			                                       .a = matrix_in(c, of.kernel, d, c->depth, false),
			                                       .b = columns_of(c, scratch, of.v, &p, chunk),
			                                       .c = writable(to.data),
			                                       .ldc = to.ld,
			                                       .accumulate = d > 0});
			d += c->chunk;
		} while (d < c->depth);
		move_result(c, &to, of.y, &p, true);
	}
}

/* Adds to input channels BEGIN .. END-1 of the gradient in the arrays OF a group. */
static void add_channels(const struct shared *s, void *scratch, const struct conv_arrays *of, int64_t begin,
                         int64_t end)
{
	const struct conv *c = &s->c;
	const int64_t plane = c->kernel_h * c->kernel_w;
	for (int64_t i = 0; i < c->pieces; i++) {
		const struct piece p = piece_at(c, i);
		const struct factor g = result_of(c, scratch, of->y, &p);
		move_result(c, &g, of->y, &p, false);
		for (int64_t d = begin * plane; d < end * plane; d += c->chunk) {
			const struct chunk chunk = chunk_of(c, d, end * plane);
			const struct factor weights = matrix_in(c, of->kernel, d, c->depth, s->of_input);
			struct factor columns = columns_of(c, scratch, of->v, &p, chunk);
			columns.transposed = !s->of_input;
			if (!s->of_input && !c->pointwise)
				move_columns(c, scratch, of->v, &p, chunk, false);
			multiply_matrices(c, s->of_input
			                         ? &(struct product){chunk.count, p.count, c->outs, weights, g,
			                                             writable(columns.data), columns.ld, .accumulate = c->pointwise}
			                         : &(struct product){c->outs, chunk.count, p.count, g, columns,
			                                             writable(weights.data), weights.ld, .accumulate = true});
			if (s->of_input && !c->pointwise)
				move_columns(c, scratch, of->v, &p, chunk, true);
		}
	}
}

/* Adds to the channels of pieces BEGIN .. END-1 of a gradient: TOGETHER channels each, all of a group, then of the next. */
static void gradient_channels(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const int64_t parts = pieces_of(s->c.channels, s->together);
	for (int64_t i = begin; i < end; i++) {
		const struct conv_arrays of = conv_group(&s->c, &s->of, i / parts);
		const int64_t first = i % parts * s->together;
		add_channels(s, memory ? memory : s->scratch, &of, first, lesser(first + s->together, s->c.channels));
	}
}

/* Computes the result of C, of which SHARED has the arrays. */
static void convolve(struct shared *shared, struct team *team)
{
	const struct conv *c = &shared->c;
	if (depthwise_fits(c))
		depthwise_convolve(c, team, shared->scratch, &shared->of);
	else if (direct_fits(c))
		direct_convolve(c, team, shared->scratch, &shared->of);
	else
		team_run(team, c->groups * c->pieces, 1, convolve_pieces, shared);
}

/* Returns the channels of a team's piece: as many as fit in a quarter of the depth, held in 128 .. 256; at least 1. */
static int64_t channels_together(const struct conv *c)
{
	enum { LEAST = 128, MOST = 256, PARTS = 4 };
	const int64_t part = c->depth / PARTS, plane = c->kernel_h * c->kernel_w;
	const int64_t elements = part < LEAST ? LEAST : part < MOST ? part : MOST;
	return plane < elements ? elements / plane : 1;
}

/* Runs gradient_channels on all groups, once the COUNT elements of GRADIENT are 0. */
static void add_gradient(struct shared *shared, struct team *team, bool of_input)
{
	const struct conv *c = &shared->c;
	const int64_t kernels = c->groups * c->outs * c->depth;
	shared->of_input = of_input;
	shared->together = channels_together(c);
	memset(of_input ? shared->of.v : shared->of.kernel, 0,
	       (size_t)(of_input ? c->samples * c->in_sample : kernels) * c->size);
	team_run(team, c->groups * pieces_of(c->channels, shared->together), 1, gradient_channels, shared);
}

/* Computes the derivative by the kernel, from the input and the cotangent. */
static void differentiate_kernel(struct shared *shared, struct team *team)
{
	const struct conv *c = &shared->c;
	if (depthwise_fits(c))
		depthwise_kernel(c, team, shared->scratch, &shared->of);
	else if (direct_kernel_fits(c))
		direct_kernel(c, team, shared->scratch, &shared->of);
	else
		add_gradient(shared, team, false);
}

/* Computes the derivative by the input, from the kernel and the cotangent. */
static void differentiate_input(struct shared *shared, struct team *team)
{
	const struct conv turned = conv_turned(&shared->c);
	const struct conv_arrays *of = &shared->of;
	if (depthwise_fits(&shared->c))
		depthwise_input(&shared->c, team, shared->scratch, of);
	else if (direct_fits(&turned))
		direct_convolve(&turned, team, shared->scratch, &(struct conv_arrays){of->y, of->kernel, of->v});
	else
		add_gradient(shared, team, true);
}

/* Returns what CALL shares with a team. The arrays are those of the convolution, whichever way CALL goes. */
static struct shared shared_of(const struct op_call *call, const void *v, const void *k, const void *y)
{
	struct shared shared = {.c = conv_of_types(call->op, call->attrs, call->v, call->a, call->y),
	                        .scratch = call->scratch,
	                        .of = {writable(v), writable(k), writable(y)}};
	shared.c.loops = call->kernels->loops;
	return shared;
}

static void forward_convolution(const struct op_call *call, void *y, const void *v, const void *a)
{
	struct shared shared = shared_of(call, v, a, y);
	convolve(&shared, call->team);
}

static void differentiate_convolution(const struct op_call *call, void *dv, void *da, const void *g,
                                      const void *const needs[MAX_NEEDS])
{
	struct shared by_kernel = shared_of(call, needs[0], da, g), by_input = shared_of(call, dv, needs[1], g);
	if (da)
		differentiate_kernel(&by_kernel, call->team);
	if (dv)
		differentiate_input(&by_input, call->team);
}

static void forward_transposed(const struct op_call *call, void *y, const void *v, const void *a)
{
	struct shared shared = shared_of(call, y, a, v);
	differentiate_input(&shared, call->team);
}

/* The derivative of a derivative by the input, which is linear: the convolution itself. */
static void differentiate_transposed(const struct op_call *call, void *dv, void *da, const void *g,
                                     const void *const needs[MAX_NEEDS])
{
	struct shared by_kernel = shared_of(call, g, da, needs[0]), by_input = shared_of(call, g, needs[1], dv);
	if (da)
		differentiate_kernel(&by_kernel, call->team);
	if (dv)
		convolve(&by_input, call->team);
}

FORWARD(conv1d) { forward_convolution(call, y, v, a); }
VJP(conv1d) { differentiate_convolution(call, dv, da, g, needs); }
FORWARD(conv2d) { forward_convolution(call, y, v, a); }
VJP(conv2d) { differentiate_convolution(call, dv, da, g, needs); }
FORWARD(conv_transpose1d) { forward_transposed(call, y, v, a); }
VJP(conv_transpose1d) { differentiate_transposed(call, dv, da, g, needs); }
FORWARD(conv_transpose2d) { forward_transposed(call, y, v, a); }
VJP(conv_transpose2d) { differentiate_transposed(call, dv, da, g, needs); }
