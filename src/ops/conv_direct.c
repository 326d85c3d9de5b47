/*
 * Convolutions with stride 1 whose columns are never stored. The rows of the input that a piece of the result meets are
 * copied to a block, with zeros for the padding. For a row of the result, one element of the kernel multiplies
 * neighbours in that block, so a product (gemm_template.h) reads them there:
 *     y[o, row]         = K[o, :] block rows, one for each channel and element of the kernel
 *     dv                the same of g, by the kernel turned around
 *     dk[i, j][o, :]   += g[o, :] block rows, one for each place. Here channels are neighbours in the block.
 * Columns (im2col) would copy each input once for each element of the kernel. (Georganas et al. 2018, "Anatomy of
 * high-performance deep learning convolutions on SIMD architectures", compute directly too.)
 * Tests: tests/unit/test_general.c
 */
#include "ops/conv.h"

#include <string.h>

#include "base/checked.h"

enum {
	BLOCK_BYTES = 192 << 10, /* of a block, if one row of the result needs no more */
	BLOCK_MOST = 1 << 20,
	DEPTH = 256 /* about the places whose products are added in registers */
};

/* True if at most a fifth of what vectors compute is left out, where N elements are neighbours. */
static bool fill_vectors(const struct conv *c, int64_t n, int64_t vector_bytes)
{
	return 4 * round_up(n, vector_bytes / (int64_t)c->size) <= 5 * n;
}

struct conv conv_turned(const struct conv *c)
{
	struct conv t = *c;
	t.channels = c->outs;
	t.outs = c->channels;
	t.height = c->out_h;
	t.width = c->out_w;
	t.out_h = c->height;
	t.out_w = c->width;
	t.pad_h = (c->kernel_h - 1) * c->gap_h - c->pad_h;
	t.pad_w = (c->kernel_w - 1) * c->gap_w - c->pad_w;
	t.in_sample = c->out_sample;
	t.out_sample = c->in_sample;
	t.depth = t.channels * c->kernel_h * c->kernel_w;
	t.places = t.out_h * t.out_w;
	t.turned = true;
	return t;
}

/* Elements of the input between the first and the last that the kernel meets, down and across. */
static int64_t reach_down(const struct conv *c) { return (c->kernel_h - 1) * c->gap_h; }
static int64_t reach_across(const struct conv *c) { return (c->kernel_w - 1) * c->gap_w; }

/* A block: PLANES planes of ROWS + reach_down() rows of WIDTH elements, for ROWS rows of the result. */
struct block {
	int64_t rows, width, plane, bytes;
};

/* Returns the block for ROWS rows of the result. Each place has STEP elements, and there are PLANES planes. */
static struct block block_of(const struct conv *c, int64_t rows, int64_t planes, int64_t step)
{
	struct block b = {.rows = rows, .width = c->out_w + reach_across(c)};
	b.plane = reach_down(c) < BLOCK_MOST ? (rows + reach_down(c)) * b.width : 0;
	/* gaps may make a block that no memory holds: then its bytes are more than any block has */
	const double bytes =
		(double)planes * (double)(rows + reach_down(c)) * (double)b.width * (double)step * (double)c->size;
	b.bytes =
		bytes > BLOCK_MOST ? BLOCK_MOST + 1 : conv_aligned(planes * b.plane * step * (int64_t)c->size + TILE_BYTES);
	return b;
}

/* Returns the block of direct_convolve. */
static struct block block_of_result(const struct conv *c)
{
	const struct block one = block_of(c, 1, c->channels, 1);
	const int64_t row = c->channels * one.width * (int64_t)c->size;
	const int64_t most = greater(1, BLOCK_BYTES / greater(row, 1) - reach_down(c));
	const int64_t pieces = (c->out_h + most - 1) / most;
	return block_of(c, (c->out_h + pieces - 1) / pieces, c->channels, 1);
}

/* Channels that are neighbours in a block of direct_kernel. */
static int64_t channels_beside(const struct conv *c) { return TILE_BYTES / (int64_t)c->size; }

static struct block block_of_kernel(const struct conv *c)
{
	const int64_t most = greater(1, lesser(c->out_h, DEPTH / c->out_w));
	return block_of(c, most, 1, channels_beside(c));
}

/* The rows of the input with their padding must fit in a block. Those of a turned or transposed convolution may be longer. */
static bool may_be_direct(const struct conv *c)
{
	return c->stride_h == 1 && c->stride_w == 1 && !c->pointwise && !c->bundled && c->pieces > 0 && c->depth > 0 &&
	       c->pad_w + c->width <= c->out_w + reach_across(c);
}

bool direct_fits(const struct conv *c)
{
	return may_be_direct(c) && c->pad_h >= 0 && c->pad_w >= 0 && fill_vectors(c, c->out_w, TILE_BYTES / 2) &&
	       block_of_result(c).bytes <= BLOCK_MOST;
}

bool direct_kernel_fits(const struct conv *c)
{
	return may_be_direct(c) && fill_vectors(c, c->channels, TILE_BYTES) && block_of_kernel(c).bytes <= BLOCK_MOST;
}

/* What a team shares, and where its members' own memory lies in each scratch. */
struct shared {
	const struct conv *c;
	char *scratch; /* the caller's */
	struct block block;
	const int64_t *at; /* where the rows of a product's factor begin in the block */
	struct conv_arrays of;
	int64_t own; /* bytes of scratch before the member's own memory */
};

/* Copies to TO, the member's block, what rows of the result from ROW on meet of sample SAMPLE of V, a group's input. */
static void fill_block(const struct shared *s, char *to, const char *v, int64_t sample, int64_t row)
{
	const struct conv *c = s->c;
	const int64_t first = row - c->pad_h, height = s->block.plane / s->block.width;
	const int64_t begin = greater(first, 0), end = lesser(first + height, c->height);
	memset(to, 0, (size_t)s->block.bytes);
	for (int64_t i = 0; i < c->channels && begin < end; i++) {
		const int64_t from = sample * c->in_sample + (i * c->height + begin) * c->width;
		const struct rows input = {element_of(writable(v), c->size, from), c->width, 1};
		const int64_t at = i * s->block.plane + (begin - first) * s->block.width + c->pad_w;
		const struct rows inside = {element_of(to, c->size, at), s->block.width, 1};
		c->loops->copy_rows(&inside, &input, (size_t)c->width, (size_t)(end - begin));
	}
}

/* Computes pieces BEGIN .. END-1 of the result: rows of a sample of a group. */
static void convolve_rows(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = s->c;
	char *const block = (memory ? (char *)memory : s->scratch) + s->own;
	const int64_t rows = s->block.rows, down = (c->out_h + rows - 1) / rows;
	for (int64_t i = begin; i < end; i++) {
		const struct conv_arrays of = conv_group(c, &s->of, i / down / c->samples);
		const int64_t sample = i / down % c->samples, row = i % down * rows;
		fill_block(s, block, of.v, sample, row);
		for (int64_t r = 0; r < rows && row + r < c->out_h; r++) {
			const int64_t to = sample * c->out_sample + (row + r) * c->out_w;
			const struct product p = {.m = c->outs,
			                          .n = c->out_w,
			                          .k = c->depth,
			                          .a = {of.kernel, c->depth, false},
			                          .b = {element_of(block, c->size, r * s->block.width), 0, false},
			                          .c = element_of(of.y, c->size, to),
			                          .ldc = c->places};
			c->loops->gemm_apart(&p, s->at);
		}
	}
}

int64_t direct_scratch(const struct conv *c)
{
	return conv_aligned(c->depth * (int64_t)sizeof(int64_t)) +
	       conv_aligned(c->groups * c->outs * c->depth * (int64_t)c->size) + block_of_result(c).bytes;
}

/* Stores in TO, [outs, depth] of a group of C, the turned WEIGHTS, [channels, outs, kernel_h, kernel_w]. */
static void turn_kernel(const struct conv *c, void *to, const void *weights)
{
	const int64_t plane = c->kernel_h * c->kernel_w;
	for (int64_t i = 0; i < c->channels; i++) {
		const struct rows from = {element_of(writable(weights), c->size, (i * c->outs + 1) * plane - 1), plane, -1};
		const struct rows turned = {element_of(to, c->size, i * plane), c->depth, 1};
		c->loops->copy_rows(&turned, &from, (size_t)plane, (size_t)c->outs);
	}
}

void direct_convolve(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays)
{
	int64_t *const at = scratch;
	char *const own_kernel = (char *)scratch + conv_aligned(c->depth * (int64_t)sizeof *at);
	struct shared s = {.c = c, .scratch = scratch, .block = block_of_result(c), .at = at, .of = *arrays};
	s.own = direct_scratch(c) - s.block.bytes;
	for (int64_t d = 0, plane = c->kernel_h * c->kernel_w; d < c->depth; d++)
		at[d] =
			d / plane * s.block.plane + d % plane / c->kernel_w * c->gap_h * s.block.width + d % c->kernel_w * c->gap_w;
	for (int64_t group = 0; c->turned && group < c->groups; group++)
		turn_kernel(c, element_of(own_kernel, c->size, group * c->outs * c->depth),
		            conv_group(c, arrays, group).kernel);
	if (c->turned)
		s.of.kernel = own_kernel;
	team_run(team, c->groups * c->samples * ((c->out_h + s.block.rows - 1) / s.block.rows), 1, convolve_rows, &s);
}

/* A member's own memory of direct_kernel: its block, rows of g that begin G_ROW elements apart, and sums. */
struct kernel_memory {
	char *block, *g, *sums;
	int64_t g_row, bytes;
};

static struct kernel_memory kernel_memory_of(const struct conv *c, const struct block *block, char *at)
{
	const int64_t depth = block->rows * c->out_w, size = (int64_t)c->size;
	struct kernel_memory m = {.block = at};
	m.g_row = round_up(depth, ARRAY_ALIGN) + ARRAY_ALIGN / 4; /* rows that do not all fall into one set of the cache */
	m.g = at + block->bytes;
	m.sums = m.g + conv_aligned(c->outs * m.g_row * size);
	m.bytes = m.sums - at + conv_aligned(c->kernel_h * c->kernel_w * c->outs * channels_beside(c) * size);
	return m;
}

int64_t direct_kernel_scratch(const struct conv *c)
{
	const struct block block = block_of_kernel(c);
	return conv_aligned(block.rows * c->out_w * (int64_t)sizeof(int64_t)) + kernel_memory_of(c, &block, NULL).bytes;
}

/* COUNT channels of the arrays of a group. */
struct beside {
	struct conv_arrays arrays;
	int64_t first, count;
};

/* Fills M's block as fill_block does, from CHANNELS, which are neighbours there; and M's rows of g. */
static void fill_channels(const struct shared *s, const struct kernel_memory *m, int64_t sample, int64_t row,
                          const struct beside *channels)
{
	const struct conv *c = s->c;
	const int64_t first = row - c->pad_h, beside = channels_beside(c), image = c->height * c->width;
	const int64_t rows = lesser(s->block.rows, c->out_h - row);
	memset(m->block, 0, (size_t)s->block.bytes);
	for (int64_t i = greater(first, 0); i < lesser(first + s->block.plane / s->block.width, c->height); i++) {
		const int64_t to = ((i - first) * s->block.width + c->pad_w) * beside;
		const void *from =
			element_at(channels->arrays.v, c->size, sample * c->in_sample + channels->first * image + i * c->width);
		c->loops->transpose(element_of(m->block, c->size, to), beside, from, image, channels->count, c->width);
	}
	const int64_t from = sample * c->out_sample + row * c->out_w;
	c->loops->copy_rows(&(struct rows){m->g, m->g_row, 1},
	                    &(struct rows){element_of(channels->arrays.y, c->size, from), c->places, 1},
	                    (size_t)(rows * c->out_w), (size_t)c->outs);
}

/* Computes the derivative by the kernel's CHANNELS, which lie beside each other in M's block. */
static void kernel_beside(const struct shared *s, const struct kernel_memory *m, const struct beside *channels)
{
	const struct conv *c = s->c;
	const int64_t beside = channels_beside(c), plane = c->kernel_h * c->kernel_w;
	bool begun = false;
	for (int64_t sample = 0; sample < c->samples; sample++)
		for (int64_t row = 0; row < c->out_h; row += s->block.rows, begun = true) {
			fill_channels(s, m, sample, row, channels);
			for (int64_t q = 0; q < plane; q++) {
				const int64_t from =
					(q / c->kernel_w * c->gap_h * s->block.width + q % c->kernel_w * c->gap_w) * beside;
				const struct product p = {.m = c->outs,
				                          .n = beside,
				                          .k = lesser(s->block.rows, c->out_h - row) * c->out_w,
				                          .a = {m->g, m->g_row, false},
				                          .b = {element_of(m->block, c->size, from), 0, false},
				                          .c = element_of(m->sums, c->size, q * c->outs * beside),
				                          .ldc = beside,
				                          .accumulate = begun};
				c->loops->gemm_apart(&p, s->at);
			}
		}
	for (int64_t o = 0; o < c->outs; o++)
		c->loops->transpose(element_of(channels->arrays.kernel, c->size, o * c->depth + channels->first * plane), plane,
		                    element_of(m->sums, c->size, o * beside), c->outs * beside, plane, channels->count);
}

/* Computes the derivative by the kernel's channels of pieces BEGIN .. END-1: each has the channels beside each other. */
static void kernel_channels(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = s->c;
	const struct kernel_memory m = kernel_memory_of(c, &s->block, (memory ? (char *)memory : s->scratch) + s->own);
	const int64_t beside = channels_beside(c), parts = (c->channels + beside - 1) / beside;
	for (int64_t i = begin; i < end; i++) {
		struct beside channels = {.arrays = conv_group(c, &s->of, i / parts), .first = i % parts * beside};
		channels.count = lesser(beside, c->channels - channels.first);
		kernel_beside(s, &m, &channels);
	}
}

void direct_kernel(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays)
{
	int64_t *const at = scratch;
	const int64_t beside = channels_beside(c);
	struct shared s = {.c = c, .scratch = scratch, .block = block_of_kernel(c), .at = at, .of = *arrays};
	const int64_t depth = s.block.rows * c->out_w;
	s.own = conv_aligned(depth * (int64_t)sizeof *at);
	for (int64_t p = 0; p < depth; p++)
		at[p] = (p / c->out_w * s.block.width + p % c->out_w) * beside;
	team_run(team, c->groups * ((c->channels + beside - 1) / beside), 1, kernel_channels, &s);
}
