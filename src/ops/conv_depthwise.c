/*
 * Convolutions whose groups have one channel each. A matrix product of one row would wait for memory, so the result is a
 * weighted sum of rows (struct weighted_sum): one term for each element of the kernel. A plane is one channel of a sample.
 *
 * The padded rows of a plane that a band of the result meets are copied to a block, in phases: rows y = phase + k stride_h
 * lie one after another, and in each the columns x = phase + k stride_w. So what an element of the kernel meets for all
 * places of the band is one run of the block, and neighbours in the result are neighbours there:
 *
 *     block[phase of y][phase of x][k of y][k of x],    places r and r + 1 of a column are PITCH apart
 *
 * The run has some columns between the rows of the result, which are computed and dropped.
 *
 * The derivative by the input is a sum of the same kind, of the cotangent, for each of its phases: that phase meets
 * those elements of the kernel alone which have it. The derivative by the kernel is a sum of products of rows.
 * Tests: tests/unit/test_general.c
 */
#include "ops/conv.h"

#include <string.h>

#include "base/checked.h"

enum {
	BAND_BYTES = 64 << 10, /* a block has no more, unless one row of the result needs more */
	BAND_MOST = 1 << 20,
	LONG_ROW = 64, /* from this length on a row of the result is summed by itself, and no column is dropped */
};

/* How a plane is cut into bands of ROWS rows, and a member's memory: a block, a result, and the terms of a sum. */
struct bands {
	int64_t rows, count;
	int64_t pitch, deep;    /* columns and rows of a phase in the block */
	int64_t across, down;   /* phases */
	int64_t phases, result; /* bytes of the block and of the result */
	int64_t terms, weights; /* bytes; the sums of a derivative by the kernel lie in the weights' place */
};

static int64_t ceiling(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* Sets the bytes of B. */
static void measure_bands(const struct conv *c, struct bands *b)
{
	const int64_t elements = c->outs * c->kernel_h * c->kernel_w;
	/* gaps may make a block that no memory holds */
	const double block = (double)b->across * (double)b->down * (double)b->deep * (double)b->pitch * (double)c->size;
	b->phases = block > BAND_MOST ? BAND_MOST + 1 : conv_aligned((int64_t)block);
	b->result = block > BAND_MOST ? 0 : conv_aligned(b->rows * b->pitch * (int64_t)c->size);
	b->terms = conv_aligned(elements * (int64_t)sizeof(void *));
	b->weights = conv_aligned(2 * elements * (int64_t)sizeof(double));
}

/* Returns the bands of ROWS rows of the result. */
static struct bands result_bands(const struct conv *c, int64_t rows)
{
	struct bands b = {.rows = rows,
	                  .count = ceiling(c->out_h, rows),
	                  .pitch = c->out_w + (c->kernel_w - 1) * c->gap_w / c->stride_w,
	                  .deep = rows + (c->kernel_h - 1) * c->gap_h / c->stride_h,
	                  .across = lesser(c->stride_w, (c->kernel_w - 1) * c->gap_w + 1),
	                  .down = lesser(c->stride_h, (c->kernel_h - 1) * c->gap_h + 1)};
	measure_bands(c, &b);
	return b;
}

/*
 * Returns the bands of ROWS rows of a phase of the input's derivative. The block has the cotangents of all outs of the
 * group, with zeros around them.
 */
static struct bands input_bands(const struct conv *c, int64_t rows)
{
	struct bands b = {.rows = rows,
	                  .count = ceiling(c->height + c->pad_h, rows * c->stride_h),
	                  .pitch = ceiling(c->width + c->pad_w, c->stride_w) + (c->kernel_w - 1) * c->gap_w / c->stride_w,
	                  .deep = rows + (c->kernel_h - 1) * c->gap_h / c->stride_h,
	                  .across = c->outs,
	                  .down = 1};
	b.pitch = greater(b.pitch, c->out_w + (c->kernel_w - 1) * c->gap_w / c->stride_w);
	measure_bands(c, &b);
	return b;
}

/* Returns the bands of BY whose blocks have about BAND_BYTES, of at most MOST rows. */
static struct bands choose_bands(const struct conv *c, struct bands (*by)(const struct conv *c, int64_t rows),
                                 int64_t most)
{
	const struct bands one = by(c, 1);
	const int64_t row = greater(1, one.phases / one.deep), more = BAND_BYTES / row;
	const int64_t rows = greater(1, lesser(most, more - (one.deep - 1)));
	return by(c, ceiling(most, ceiling(most, rows)));
}

static struct bands bands_of_result(const struct conv *c) { return choose_bands(c, result_bands, c->out_h); }
static struct bands bands_of_input(const struct conv *c)
{
	return choose_bands(c, input_bands, ceiling(c->height + c->pad_h, c->stride_h));
}

static int64_t bytes_of(const struct bands *b) { return b->phases + b->result + b->terms + b->weights; }

bool depthwise_fits(const struct conv *c)
{
	if (c->channels != 1 || c->groups == 1 || c->pieces == 0)
		return false;
	const struct bands result = bands_of_result(c), input = bands_of_input(c);
	return bytes_of(&result) <= BAND_MOST && bytes_of(&input) <= BAND_MOST;
}

int64_t depthwise_scratch(const struct conv *c)
{
	const struct bands result = bands_of_result(c), input = bands_of_input(c);
	return greater(bytes_of(&result), bytes_of(&input));
}

/* What a team shares. */
struct shared {
	const struct conv *c;
	char *scratch; /* the caller's */
	struct bands bands;
	struct conv_arrays of;
};

/* A member's memory. */
struct own {
	char *phases, *result;
	const void **terms;
	double *weights;
};

static struct own own_of(const struct shared *s, void *memory)
{
	const struct bands *b = &s->bands;
	char *const at = memory ? memory : s->scratch;
	return (struct own){at, at + b->phases, (const void **)(at + b->phases + b->result),
	                    (double *)(at + b->phases + b->result + b->terms)};
}

/* Returns where phase (DOWN, ACROSS) of the block begins, as an element's index. */
static int64_t phase_at(const struct bands *b, int64_t down, int64_t across)
{
	return (down * b->across + across) * b->deep * b->pitch;
}

/* Fills the block with the padded rows of PLANE that rows of the result from ROW on meet. */
static void fill_phases(const struct conv *c, const struct bands *b, char *block, const char *plane, int64_t row)
{
	memset(block, 0, (size_t)b->phases);
	for (int64_t down = 0; down < b->down; down++)
		for (int64_t across = 0; across < b->across; across++) {
			/* row k of the phase is row first + k * stride_h of the plane, column k likewise */
			const int64_t first = row * c->stride_h + down - c->pad_h, left = across - c->pad_w;
			const int64_t k = first < 0 ? ceiling(-first, c->stride_h) : 0,
						  at = left < 0 ? ceiling(-left, c->stride_w) : 0;
			const int64_t end = first < c->height ? lesser(b->deep, ceiling(c->height - first, c->stride_h)) : 0;
			const int64_t past = left < c->width ? lesser(b->pitch, ceiling(c->width - left, c->stride_w)) : 0;
			if (k >= end || at >= past)
				continue;
			const int64_t from = (first + k * c->stride_h) * c->width + left + at * c->stride_w;
			const int64_t to = phase_at(b, down, across) + k * b->pitch + at;
			c->loops->copy_rows(
				&(struct rows){element_of(block, c->size, to), b->pitch, 1},
				&(struct rows){element_of(writable(plane), c->size, from), c->stride_h * c->width, c->stride_w},
				(size_t)(past - at), (size_t)(end - k));
		}
}

/* Returns what element UNDER of the kernel meets for the first place of the band. */
static const void *met_by(const struct conv *c, const struct bands *b, const char *block, int64_t under)
{
	const int64_t y = under / c->kernel_w * c->gap_h, x = under % c->kernel_w * c->gap_w;
	const int64_t at = phase_at(b, y % c->stride_h, x % c->stride_w) + y / c->stride_h * b->pitch + x / c->stride_w;
	return element_at(block, c->size, at);
}

/* Where sums go: COUNT rows of COLUMNS elements. */
struct target {
	struct rows to;
	int64_t count, columns;
};

/* Stores in TARGET weighted sums of the first COUNT of OWN's terms, whose rows begin PITCH apart. Changes the terms. */
static void sum_terms(const struct conv *c, const struct bands *b, const struct own *own, size_t count,
                      const struct target *target)
{
	const struct weighted_sum sum = {own->terms, own->weights, count, 1, NULL};
	const struct rows *to = &target->to;
	if (target->columns < LONG_ROW || to->step != 1) {
		c->loops->weighted(own->result, &sum, (size_t)((target->count - 1) * b->pitch + target->columns));
		c->loops->copy_rows(to, &(struct rows){own->result, b->pitch, 1}, (size_t)target->columns,
		                    (size_t)target->count);
		return;
	}
	for (int64_t r = 0; r < target->count; r++) {
		c->loops->weighted(element_of(to->at, c->size, r * to->row), &sum, (size_t)target->columns);
		for (size_t t = 0; t < count; t++)
			own->terms[t] = element_at(own->terms[t], c->size, b->pitch);
	}
}

/* Computes bands BEGIN .. END-1 of the result: all of a plane, then of the next. */
static void convolve_bands(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = s->c;
	const struct bands *b = &s->bands;
	const struct own own = own_of(s, memory);
	const int64_t elements = c->kernel_h * c->kernel_w;
	for (int64_t i = begin; i < end; i++) {
		const int64_t plane = i / b->count, row = i % b->count * b->rows, group = plane % c->groups;
		const int64_t rows = lesser(b->rows, c->out_h - row);
		fill_phases(c, b, own.phases, element_of(s->of.v, c->size, plane * c->height * c->width), row);
		for (int64_t o = group * c->outs; o < (group + 1) * c->outs; o++) {
			for (int64_t e = 0; e < elements; e++) {
				own.terms[e] = met_by(c, b, own.phases, e);
				own.weights[e] = element_get(c->dtype, s->of.kernel, (size_t)(o * elements + e));
			}
			const int64_t to = plane / c->groups * c->out_sample + o * c->places + row * c->out_w;
			const struct target target = {{element_of(s->of.y, c->size, to), c->out_w, 1}, rows, c->out_w};
			sum_terms(c, b, &own, (size_t)elements, &target);
		}
	}
}

void depthwise_convolve(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays)
{
	struct shared s = {c, scratch, bands_of_result(c), *arrays};
	team_run(team, c->samples * c->groups * s.bands.count, 1, convolve_bands, &s);
}

/* Fills the block with the cotangents of PLANE's outs, from row ROW less the kernel's reach on, and zeros around them. */
static void fill_cotangents(const struct conv *c, const struct bands *b, char *block, const char *g, int64_t row)
{
	const int64_t top = b->deep - b->rows, left = (c->kernel_w - 1) * c->gap_w / c->stride_w;
	const int64_t begin = greater(row - top, 0), end = lesser(row + b->rows, c->out_h);
	memset(block, 0, (size_t)b->phases);
	for (int64_t o = 0; o < c->outs && begin < end; o++) {
		const int64_t to = phase_at(b, 0, o) + (begin - row + top) * b->pitch + left;
		c->loops->copy_rows(
			&(struct rows){element_of(block, c->size, to), b->pitch, 1},
			&(struct rows){element_of(writable(g), c->size, o * c->places + begin * c->out_w), c->out_w, 1},
			(size_t)lesser(c->out_w, b->pitch - left), (size_t)(end - begin));
	}
}

/* A phase of an input's gradient, and how many elements of the kernels it meets. */
struct phase {
	int64_t down, across;
	size_t count;
};

/* Lists the terms of PHASE by the group's WEIGHTS. */
static void list_phase_terms(const struct conv *c, const struct bands *b, const struct own *own, const char *weights,
                             struct phase *phase)
{
	const int64_t top = b->deep - b->rows, left = (c->kernel_w - 1) * c->gap_w / c->stride_w;
	phase->count = 0;
	for (int64_t o = 0; o < c->outs; o++)
		for (int64_t e = 0; e < c->kernel_h * c->kernel_w; e++) {
			const int64_t y = e / c->kernel_w * c->gap_h, x = e % c->kernel_w * c->gap_w;
			if (y % c->stride_h != phase->down || x % c->stride_w != phase->across)
				continue;
			const int64_t at = phase_at(b, 0, o) + (top - y / c->stride_h) * b->pitch + left - x / c->stride_w;
			own->weights[phase->count] = element_get(c->dtype, weights, (size_t)(o * c->kernel_h * c->kernel_w + e));
			own->terms[phase->count++] = element_at(own->phases, c->size, at);
		}
}

/* Stores PHASE of the band from row ROW on, of a phase, of the gradient DV of a plane. */
static void store_phase(const struct conv *c, const struct bands *b, const struct own *own, char *dv, int64_t row,
                        const struct phase *phase)
{
	/* row k of the phase is row first + k * stride_h of the plane, column k likewise; some are in the padding */
	const int64_t first = row * c->stride_h + phase->down - c->pad_h, left = phase->across - c->pad_w;
	const int64_t k = first < 0 ? ceiling(-first, c->stride_h) : 0, at = left < 0 ? ceiling(-left, c->stride_w) : 0;
	const int64_t end = first < c->height ? lesser(b->rows, ceiling(c->height - first, c->stride_h)) : 0;
	const int64_t past = left < c->width ? ceiling(c->width - left, c->stride_w) : 0;
	if (k >= end || at >= past)
		return;
	const int64_t to = (first + k * c->stride_h) * c->width + left + at * c->stride_w;
	for (size_t t = 0; t < phase->count; t++)
		own->terms[t] = element_at(own->terms[t], c->size, k * b->pitch + at);
	const struct target target = {
		{element_of(dv, c->size, to), c->stride_h * c->width, c->stride_w}, end - k, past - at};
	sum_terms(c, b, own, phase->count, &target);
}

/* Computes bands BEGIN .. END-1 of the input's gradient: all of a plane, then of the next. */
static void input_of_bands(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = s->c;
	const struct bands *b = &s->bands;
	const struct own own = own_of(s, memory);
	for (int64_t i = begin; i < end; i++) {
		const int64_t plane = i / b->count, row = i % b->count * b->rows, group = plane % c->groups;
		const struct conv_arrays of = conv_group(c, &s->of, group);
		char *const dv = element_of(of.v, c->size, plane / c->groups * c->in_sample);
		fill_cotangents(c, b, own.phases, element_of(of.y, c->size, plane / c->groups * c->out_sample), row);
		for (int64_t down = 0; down < c->stride_h; down++)
			for (int64_t across = 0; across < c->stride_w; across++) {
				struct phase phase = {down, across, 0};
				list_phase_terms(c, b, &own, of.kernel, &phase);
				store_phase(c, b, &own, dv, row, &phase);
			}
	}
}

void depthwise_input(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays)
{
	struct shared s = {c, scratch, bands_of_input(c), *arrays};
	team_run(team, c->samples * c->groups * s.bands.count, 1, input_of_bands, &s);
}

/* Adds the products of a band of ROWS rows, whose input the block has, and the cotangents G to the sums of element E. */
static void add_products(const struct conv *c, const struct bands *b, const struct own *own, const char *g,
                         int64_t rows, int64_t e)
{
	const int64_t elements = c->kernel_h * c->kernel_w;
	const char *met = met_by(c, b, own->phases, e % elements);
	double *const sum = own->weights + 2 * e;
	for (int64_t r = 0; r < rows; r++) {
		double part, rest;
		c->loops->sum.products(&part, &rest, element_at(met, c->size, r * b->pitch),
		                       element_at(g, c->size, e / elements * c->places + r * c->out_w), (size_t)c->out_w, 1);
		sum_add(&sum[0], &sum[1], part, rest);
	}
}

/* Computes the derivative by the kernels of groups BEGIN .. END-1: sample after sample, band after band. */
static void kernel_of_groups(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared *s = context;
	const struct conv *c = s->c;
	const struct bands *b = &s->bands;
	const struct own own = own_of(s, memory);
	const int64_t elements = c->outs * c->kernel_h * c->kernel_w;
	for (int64_t group = begin; group < end; group++) {
		const struct conv_arrays of = conv_group(c, &s->of, group);
		memset(own.weights, 0, (size_t)b->weights);
		for (int64_t i = 0; i < c->samples * b->count; i++) {
			const int64_t sample = i / b->count, row = i % b->count * b->rows;
			const char *g = element_of(of.y, c->size, sample * c->out_sample + row * c->out_w);
			fill_phases(c, b, own.phases, element_of(of.v, c->size, sample * c->in_sample), row);
			for (int64_t e = 0; e < elements; e++)
				add_products(c, b, &own, g, lesser(b->rows, c->out_h - row), e);
		}
		for (int64_t e = 0; e < elements; e++)
			element_set(c->dtype, of.kernel, (size_t)e, own.weights[2 * e] + own.weights[2 * e + 1]);
	}
}

void depthwise_kernel(const struct conv *c, struct team *team, void *scratch, const struct conv_arrays *arrays)
{
	struct shared s = {c, scratch, bands_of_result(c), *arrays};
	team_run(team, c->groups, 1, kernel_of_groups, &s);
}
