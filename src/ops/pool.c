/*
 * Pooling: the largest element, or the mean, of the windows that move over the last one or two axes. An array is planes
 * of rows, one plane for each index of the axes before; pooling along one axis has planes of one row. Padding has no
 * elements: a window is cut off where the array ends. The divisor of a mean may count the padding.
 *
 * A team's piece is a band: some rows of a plane's result or, backward, of its gradient. Backward, a band looks at each
 * window that reaches into it, and adds to its own rows alone. So an element's terms are added in the order of the windows.
 *
 * As torch does: the first of equal elements is the largest, or the last NaN.
 * Tests: tests/unit/test_general.c
 */
#include "ops/lines.h"

#include "base/checked.h"

enum {
	SPAN = 1024,   /* columns whose sums are made at a time, on the stack */
	COLUMNS = 512, /* of the result whose cotangents are passed on at a time */
};

struct pool {
	const struct loops *loops;
	enum dtype dtype;
	size_t size;
	int64_t planes, in_h, in_w, out_h, out_w;
	struct window down, across;
	bool largest, counts_padding;
	const void *v, *g;
	void *y; /* the result, or dv */
	int64_t bands, band_rows;
};

/* Some indices of an axis. */
struct range {
	int64_t begin, end;
};

static struct pool pool_of(const struct op_call *call, const void *v, const void *g, void *y)
{
	const int axes = op_window_axes(call->op), ndim = call->v->shape.ndim;
	const int64_t *in = call->v->shape.dim + ndim - axes, *out = call->y->shape.dim + ndim - axes;
	const bool flat = axes == 1;
	struct pool p = {.loops = call->kernels->loops,
	                 .dtype = call->v->dtype,
	                 .size = element_size(call->v->dtype),
	                 .in_h = flat ? 1 : in[0],
	                 .in_w = in[axes - 1],
	                 .out_h = flat ? 1 : out[0],
	                 .out_w = out[axes - 1],
	                 .down = {1, 1, 0, 0, 1},
	                 .across = op_window(call->op, call->attrs, axes - 1, 0),
	                 .largest = call->op == OP_maxpool1d || call->op == OP_maxpool2d,
	                 .counts_padding = call->attrs->count_padding,
	                 .v = v,
	                 .g = g,
	                 .y = y};
	if (!flat)
		p.down = op_window(call->op, call->attrs, 0, 0);
	p.planes = shape_count(&call->v->shape) / (p.in_h * p.in_w);
	return p;
}

/* Returns the indices of an axis of EXTENT in window I. */
static struct range indices_in(const struct window *w, int64_t i, int64_t extent)
{
	const int64_t first = i * w->stride - w->before;
	return (struct range){greater(first, 0), lesser(first + w->extent, extent)};
}

/* Returns those of COUNT windows that the indices of RANGE may be in. */
static struct range windows_at(const struct window *w, struct range range, int64_t count)
{
	const int64_t past = range.begin + w->before - w->extent; /* a window that begins here or before ends too early */
	return (struct range){past < 0 ? 0 : past / w->stride + 1,
	                      lesser(count, (range.end - 1 + w->before) / w->stride + 1)};
}

/* Returns those of COUNT windows whose element OFFSET is an element of an axis of EXTENT. */
static struct range windows_with(const struct window *w, int64_t offset, int64_t extent, int64_t count)
{
	const int64_t low = w->before - offset, high = extent - 1 + low;
	return (struct range){low > 0 ? (low - 1) / w->stride + 1 : 0, high < 0 ? 0 : lesser(count, high / w->stride + 1)};
}

/* Returns the elements of a window that some window has within an axis of EXTENT. A window may be much longer. */
static struct range offsets_within(const struct window *w, int64_t extent, int64_t count)
{
	return (struct range){greater(0, w->before - (count - 1) * w->stride), lesser(w->extent, extent + w->before)};
}

/* Returns the number by which window I along an axis of EXTENT counts: its elements, with those of the padding or without. */
static int64_t counted(const struct pool *p, const struct window *w, int64_t i, int64_t extent)
{
	const struct range inside = indices_in(w, i, extent);
	const int64_t first = i * w->stride - w->before;
	return p->counts_padding ? lesser(first + w->extent, extent + w->after) - first : inside.end - inside.begin;
}

/* Stores the largest elements of the windows of row ROW of the result, whose plane of V is PLANE. */
static void largest_in_row(const struct pool *p, void *y, const void *plane, int64_t row)
{
	const struct range rows = indices_in(&p->down, row, p->in_h);
	const struct range offsets = offsets_within(&p->across, p->in_w, p->out_w);
	p->loops->fill(y, -INFINITY, (size_t)p->out_w);
	for (int64_t i = rows.begin; i < rows.end; i++)
		for (int64_t j = offsets.begin; j < offsets.end; j++) {
			const struct range at = windows_with(&p->across, j, p->in_w, p->out_w);
			const int64_t from = i * p->in_w + at.begin * p->across.stride + j - p->across.before;
			if (at.begin < at.end)
				p->loops->take_larger(element_of(y, p->size, at.begin), element_at(plane, p->size, from),
				                      p->across.stride, (size_t)(at.end - at.begin));
		}
}

/* Stores the mean of windows FROM .. END-1 of row ROW, which meet at most SPAN columns: first the sums of columns. */
static void means_of_columns(const struct pool *p, void *y, const void *plane, int64_t row, struct range at)
{
	double hi[SPAN], lo[SPAN];
	const struct range rows = indices_in(&p->down, row, p->in_h);
	const int64_t down = counted(p, &p->down, row, p->in_h);
	const int64_t first = indices_in(&p->across, at.begin, p->in_w).begin;
	const int64_t past = indices_in(&p->across, at.end - 1, p->in_w).end;
	p->loops->sum.rows(hi, lo, element_at(plane, p->size, rows.begin * p->in_w + first), p->in_w,
	                   (size_t)(past - first), (size_t)(rows.end - rows.begin));
	for (int64_t i = at.begin; i < at.end; i++) {
		const struct range columns = indices_in(&p->across, i, p->in_w);
		double sum = 0, rest = 0;
		for (int64_t j = columns.begin - first; j < columns.end - first; j++)
			if (p->dtype == DTYPE_F32)
				sum += hi[j];
			else
				sum_add(&sum, &rest, hi[j], lo[j]);
		element_set(p->dtype, y, (size_t)i,
		            sum_quotient(sum, rest, (double)down * (double)counted(p, &p->across, i, p->in_w)));
	}
}

/* Stores the mean of window COLUMN of row ROW, whose rows are long. */
static void mean_of_lines(const struct pool *p, void *y, const void *plane, int64_t row, int64_t column)
{
	const struct range rows = indices_in(&p->down, row, p->in_h);
	const struct range columns = indices_in(&p->across, column, p->in_w);
	const double count = (double)counted(p, &p->down, row, p->in_h) * (double)counted(p, &p->across, column, p->in_w);
	double sum = 0, rest = 0, part, part_rest;
	for (int64_t i = rows.begin; i < rows.end; i++) {
		p->loops->sum.values(&part, &part_rest, element_at(plane, p->size, i * p->in_w + columns.begin),
		                     (size_t)(columns.end - columns.begin), 1);
		sum_add(&sum, &rest, part, part_rest);
	}
	element_set(p->dtype, y, (size_t)column, sum_quotient(sum, rest, count));
}

static void means_in_row(const struct pool *p, void *y, const void *plane, int64_t row)
{
	const int64_t reach = p->across.extent + p->across.stride;
	const int64_t together = reach > SPAN / 4 ? 0 : (SPAN - p->across.extent) / p->across.stride + 1;
	for (int64_t i = 0; i < p->out_w; i += greater(together, 1))
		if (together)
			means_of_columns(p, y, plane, row, (struct range){i, lesser(i + together, p->out_w)});
		else
			mean_of_lines(p, y, plane, row, i);
}

/* Returns the rows of band BAND of ROWS, and its plane. */
static struct range band_at(const struct pool *p, int64_t band, int64_t rows, int64_t *plane)
{
	*plane = band / p->bands;
	const int64_t first = band % p->bands * p->band_rows;
	return (struct range){first, lesser(first + p->band_rows, rows)};
}

static void pool_bands(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct pool *p = context;
	for (int64_t band = begin; band < end; band++) {
		int64_t plane;
		const struct range rows = band_at(p, band, p->out_h, &plane);
		const void *from = element_at(p->v, p->size, plane * p->in_h * p->in_w);
		for (int64_t row = rows.begin; row < rows.end; row++) {
			void *y = element_of(p->y, p->size, (plane * p->out_h + row) * p->out_w);
			if (p->largest)
				largest_in_row(p, y, from, row);
			else
				means_in_row(p, y, from, row);
		}
	}
}

/*
 * Stores in AT where in PLANE, which has ROWS, the largest element is of each of the windows RANGE: less the column at which
 * its window begins, the padding counted.
 */
static void find_largest(const struct pool *p, int64_t *at, const void *plane, struct range rows, struct range range)
{
	const struct range offsets = offsets_within(&p->across, p->in_w, p->out_w);
	const int64_t stride = p->across.stride;
	double best[COLUMNS];
	p->loops->fill(best, -INFINITY, (size_t)(range.end - range.begin));
	for (int64_t column = range.begin; column < range.end; column++)
		at[column - range.begin] =
			rows.begin * p->in_w + indices_in(&p->across, column, p->in_w).begin - column * stride;
	for (int64_t i = rows.begin; i < rows.end; i++)
		for (int64_t j = offsets.begin; j < offsets.end; j++) {
			struct range with = windows_with(&p->across, j, p->in_w, p->out_w);
			with = (struct range){greater(with.begin, range.begin), lesser(with.end, range.end)};
			const int64_t place = i * p->in_w + j - p->across.before;
			const void *from = element_at(plane, p->size, place + with.begin * stride);
			if (with.begin < with.end)
				p->loops->find_larger(element_of(best, p->size, with.begin - range.begin),
				                      at + with.begin - range.begin, place, &(struct rows){writable(from), 0, stride},
				                      (size_t)(with.end - with.begin));
		}
}

/* Adds the cotangents G of row ROW of the result to the elements of rows OWN of PLANE's gradient that were the largest. */
static void give_to_largest(const struct pool *p, void *dv, const void *plane, const void *g, int64_t row,
                            struct range own)
{
	const struct range rows = indices_in(&p->down, row, p->in_h);
	const int64_t begin = own.begin * p->in_w, end = own.end * p->in_w;
	int64_t at[COLUMNS];
	for (int64_t first = 0; first < p->out_w; first += COLUMNS) {
		const struct range range = {first, lesser(first + COLUMNS, p->out_w)};
		find_largest(p, at, plane, rows, range);
		for (int64_t column = first; column < range.end; column++) {
			const int64_t to = at[column - first] + column * p->across.stride;
			if (to < begin || to >= end)
				continue;
			if (p->dtype == DTYPE_F32)
				((float *)dv)[to] += ((const float *)g)[column];
			else
				((double *)dv)[to] += ((const double *)g)[column];
		}
	}
}

/* Adds the cotangents G of row ROW of the result, divided as the means were, to rows OWN of the gradient. */
static void give_to_all(const struct pool *p, void *dv, const void *g, int64_t row, struct range own)
{
	const struct range rows = indices_in(&p->down, row, p->in_h);
	const struct range offsets = offsets_within(&p->across, p->in_w, p->out_w);
	const double down = (double)counted(p, &p->down, row, p->in_h);
	double part[COLUMNS];
	for (int64_t first = 0; first < p->out_w; first += COLUMNS) {
		const int64_t past = lesser(first + COLUMNS, p->out_w);
		for (int64_t column = first; column < past; column++) {
			const double each =
				element_get(p->dtype, g, (size_t)column) / (down * (double)counted(p, &p->across, column, p->in_w));
			element_set(p->dtype, part, (size_t)(column - first), each);
		}
		for (int64_t i = greater(rows.begin, own.begin); i < lesser(rows.end, own.end); i++)
			for (int64_t j = offsets.begin; j < offsets.end; j++) {
				struct range at = windows_with(&p->across, j, p->in_w, p->out_w);
				at = (struct range){greater(at.begin, first), lesser(at.end, past)};
				const int64_t to = i * p->in_w + at.begin * p->across.stride + j - p->across.before;
				if (at.begin < at.end)
					p->loops->add_rows(&(struct rows){element_of(dv, p->size, to), 0, p->across.stride},
					                   &(struct rows){element_of(part, p->size, at.begin - first), 0, 1},
					                   (size_t)(at.end - at.begin), 1);
			}
	}
}

static void unpool_bands(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct pool *p = context;
	for (int64_t band = begin; band < end; band++) {
		int64_t plane;
		const struct range own = band_at(p, band, p->in_h, &plane);
		const struct range rows = windows_at(&p->down, own, p->out_h);
		const int64_t first = plane * p->in_h * p->in_w;
		void *dv = element_of(p->y, p->size, first);
		memset(element_of(dv, p->size, own.begin * p->in_w), 0, (size_t)((own.end - own.begin) * p->in_w) * p->size);
		for (int64_t row = rows.begin; row < rows.end; row++) {
			const void *g = element_at(p->g, p->size, (plane * p->out_h + row) * p->out_w);
			if (p->largest)
				give_to_largest(p, dv, element_at(p->v, p->size, first), g, row, own);
			else
				give_to_all(p, dv, g, row, own);
		}
	}
}

/* Cuts planes of ROWS rows of WIDTH elements into bands of at least TEAM_PIECE elements, and runs PART on all bands. */
static void run_bands(const struct op_call *call, struct pool *p, int64_t rows, int64_t width, team_part *part)
{
	p->band_rows = lesser(rows, (TEAM_PIECE + width - 1) / width);
	p->bands = (rows + p->band_rows - 1) / p->band_rows;
	team_run(call->team, p->planes * p->bands, greater(1, TEAM_PIECE / (p->band_rows * width)), part, p);
}

static void pool_windows(const struct op_call *call, void *y, const void *v)
{
	struct pool p = pool_of(call, v, NULL, y);
	run_bands(call, &p, p.out_h, p.out_w, pool_bands);
}

static void unpool_windows(const struct op_call *call, void *dv, const void *g, const void *v)
{
	struct pool p = pool_of(call, v, g, dv);
	run_bands(call, &p, p.in_h, p.in_w, unpool_bands);
}

FORWARD(maxpool1d) { pool_windows(call, y, v); }
VJP(maxpool1d) { unpool_windows(call, dv, g, needs[0]); }
FORWARD(maxpool2d) { pool_windows(call, y, v); }
VJP(maxpool2d) { unpool_windows(call, dv, g, needs[0]); }
FORWARD(avgpool1d) { pool_windows(call, y, v); }
VJP(avgpool1d) { unpool_windows(call, dv, g, NULL); }
FORWARD(avgpool2d) { pool_windows(call, y, v); }
VJP(avgpool2d) { unpool_windows(call, dv, g, NULL); }
