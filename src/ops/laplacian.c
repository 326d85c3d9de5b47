/*
 * laplacian: the sum over axes of second differences.
 *
 * Along an axis, order 2w approximates the second derivative by neighbours at distances k = 1 .. w:
 *
 *     sum over k of c[k] * ((v[i - k] - 2 v[i]) + v[i + k])
 *
 * with Fornberg's coefficients (Mathematics of Computation 51, 1988). A constant gives exactly 0. The products are added
 * one after another, in increasing order of the axes, and of k in each. If all axes have one dx, the sum is divided by
 * dx * dx, unless that is 1. Else each coefficient is divided by dx * dx of its axis. Order 2 multiplies by nothing.
 *
 * Outside an axis, `periodic` continues at the other end, and `zero` has zeros. `reflect` mirrors without repeating the
 * edge: index -1 is index 1, or 0 if the extent is 1. `periodic` and `zero` are symmetric, so each is its own adjoint.
 * The adjoint of `reflect` mirrors too, but each end counts twice for its neighbours, and sees zeros outside itself.
 *
 * The array is read once, row by row: all differences of a row are computed while its neighbours are in the cache. Rows
 * that are longer than STENCIL_COLUMNS are computed in columns.
 * Tests: tests/unit/test_general.c
 */
#include <string.h>

#include "base/checked.h"
#include "ops/stencil.h"

static const double coefficients[LAPLACIAN_WIDTH][LAPLACIAN_WIDTH] = {
	{1},
	{4.0 / 3, -1.0 / 12},
	{3.0 / 2, -3.0 / 20, 1.0 / 90},
	{8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560},
};

/* Returns the distance between elements along axis K of NDIM, which is one of the axes. */
static double spacing_of(const struct attrs *attrs, int k, int ndim)
{
	int axis = k, at = 0;
	while (attrs->dx.list && attrs->has_axis && axis_resolve(attrs->axis[at], ndim, &axis) && axis != k)
		at++;
	return attrs->dx.list ? attrs->dx.list[attrs->has_axis ? at : k] : attrs->dx.one;
}

/* Returns the spacing if all axes have one, else 0. */
static double one_spacing(const struct attrs *attrs)
{
	for (int64_t i = 1; attrs->dx.list && i < attrs->dx.count; i++)
		if (attrs->dx.list[i] != attrs->dx.list[0])
			return 0;
	return attrs->dx.list ? attrs->dx.list[0] : attrs->dx.one;
}

static void set_coefficients(const struct laplacian *l, double to[LAPLACIAN_WIDTH], double spacing)
{
	for (int k = 0; k < l->width; k++)
		to[k] = coefficients[l->width - 1][k] / (spacing * spacing);
}

void laplacian_begin(struct laplacian *l, const struct attrs *attrs, const struct shape *shape,
                     const struct loops *loops, bool adjoint)
{
	const double one = one_spacing(attrs);
	const int ndim = shape->ndim;
	int last = ndim - 1;
	/* A gather begins one for each block: the axes are left as they are. */
	l->loops = loops;
	l->size = element_size(loops->dtype);
	l->boundary = attrs->boundary;
	l->n = 1;
	l->count = 0;
	l->mirrored = adjoint && attrs->boundary == BOUNDARY_REFLECT;
	l->width = (int)attrs->order / 2;
	l->divisor = one > 0 ? one * one : 1;
	l->along = axis_named(attrs, last, ndim);
	if (l->along) {
		set_coefficients(l, l->own, one > 0 ? 1 : spacing_of(attrs, last, ndim));
		l->n = shape->dim[last--];
	} else {
		while (last >= 0 && !axis_named(attrs, last, ndim))
			l->n *= shape->dim[last--];
	}
	l->leading = last >= 0 && axis_named(attrs, 0, ndim);
	l->slabs = l->leading ? shape->dim[0] : 1;
	for (int i = 0; i <= last; i++)
		l->count += axis_named(attrs, i, ndim);
	l->rows = 1;
	for (int at = l->count; last >= 0; last--) {
		if (axis_named(attrs, last, ndim)) {
			l->axes[--at] = (struct laplacian_axis){.n = shape->dim[last], .stride = l->rows};
			set_coefficients(l, l->axes[at].coefficients, one > 0 ? 1 : spacing_of(attrs, last, ndim));
		}
		l->rows *= last == 0 && l->leading ? 1 : shape->dim[last];
	}
	l->plain = l->width == 1 && l->along && l->count == 1 && one > 0 && !l->mirrored;
	l->ends[0] = neighbour_index(l->boundary, -1, l->n);
	l->ends[1] = neighbour_index(l->boundary, l->n, l->n);
}

/* Returns the index at distance D from element I of an axis of N, or -1 for zero. *TWICE: the value is doubled. */
static int64_t index_beside(const struct laplacian *l, int64_t i, int64_t d, int64_t n, bool *twice)
{
	*twice = false;
	if (!l->mirrored || n == 1)
		return neighbour_index(l->boundary, i + d, n);
	if ((i == 0 && d < 0) || (i == n - 1 && d > 0))
		return -1;
	const int64_t at = neighbour_index(BOUNDARY_REFLECT, i + d, n);
	*twice = at == 0 || at == n - 1;
	return at;
}

void laplacian_slabs(const struct laplacian *l, const void *v, int64_t i, struct laplacian_slabs *slabs)
{
	for (int k = -l->width; k <= l->width; k++) {
		bool *twice = &slabs->twice[l->width + k];
		*twice = false;
		const int64_t at = k ? index_beside(l, i, k, l->slabs, twice) : i;
		slabs->at[l->width + k] = at < 0 ? NULL : element_at(v, l->size, at * l->rows * l->n);
	}
}

/* Where an element and its neighbours lie: element FIRST of row ROW of a slab. */
struct place {
	const struct laplacian_slabs *slabs;
	int64_t row, first;
};

/* Sets side SIDE (0 or 1) of the last pair in D to the elements at ROW, or zeros if that is NULL. */
static void set_side(struct differences *d, int side, const void *row, bool twice)
{
	d->sides[side][d->pairs] = row;
	d->times[side][d->pairs] = twice ? 2 : 1;
	d->doubles |= twice;
}

/* Adds to D the pairs of other rows and slabs. */
static void add_other_rows(const struct laplacian *l, struct differences *d, const struct place *p)
{
	for (int a = 0; a < l->count; a++) {
		const struct laplacian_axis *axis = &l->axes[a];
		const bool leading = a == 0 && l->leading;
		const int64_t i = leading ? 0 : p->row / axis->stride % axis->n;
		for (int k = 1; k <= l->width; k++, d->pairs++) {
			d->coefficients[d->pairs] = axis->coefficients[k - 1];
			for (int side = 0; side < 2; side++) {
				const int distance = side ? k : -k, slab = leading ? l->width + distance : l->width;
				bool twice = leading && p->slabs->twice[slab];
				const int64_t at = leading ? 0 : index_beside(l, i, distance, axis->n, &twice);
				const void *from = at < 0 ? NULL : p->slabs->at[slab];
				const int64_t row = p->row + (at - i) * axis->stride;
				set_side(d, side, from ? element_at(from, l->size, row * l->n + p->first) : l->zeros, twice);
			}
		}
	}
}

/* Adds to D the pairs along a row. CENTRE is where the row has the first element, and its neighbours around it. */
static void add_own(const struct laplacian *l, struct differences *d, const void *centre)
{
	for (int k = 1; l->along && k <= l->width; k++, d->pairs++) {
		d->coefficients[d->pairs] = l->own[k - 1];
		set_side(d, 0, element_at(centre, l->size, -k), false);
		set_side(d, 1, element_at(centre, l->size, k), false);
	}
}

enum { ENDS = 16 }; /* the most elements near an end of a row that are computed at once */

/* Returns the value beside element I of ROW, at distance D. */
static double value_beside(const struct laplacian *l, const void *row, int64_t i, int64_t d)
{
	bool twice;
	const int64_t at = index_beside(l, i, d, l->n, &twice);
	return at < 0 ? 0 : element_get(l->loops->dtype, row, (size_t)at) * (twice ? 2 : 1);
}

/* Copies COUNT elements of ROW from element FIRST on, with their neighbours, to EXTENDED. COUNT is 1 at a mirrored end. */
static void extend(const struct laplacian *l, double *extended, const void *row, int64_t first, int64_t count)
{
	for (int64_t d = -l->width; d < count + l->width; d++)
		element_set(l->loops->dtype, extended, (size_t)(d + l->width), value_beside(l, row, first, d));
}

/* Returns the value beside the first or, if SIDE is 1, the last element of ROW, of a plain laplacian. */
static double value_at_end(const struct laplacian *l, const void *row, int side)
{
	return l->ends[side] < 0 ? 0 : element_get(l->loops->dtype, row, (size_t)l->ends[side]);
}

/* Computes a whole row of a plain laplacian at once. */
static void plain_row(const struct laplacian *l, void *out, const struct place *p, const void *own)
{
	struct differences d;
	const double ends[2] = {value_at_end(l, own, 0), value_at_end(l, own, 1)};
	d.pairs = 0;
	d.doubles = false;
	add_other_rows(l, &d, p);
	l->loops->differences_2d(out, d.sides[0][0], own, d.sides[1][0], ends, (size_t)l->n);
	if (l->divisor != 1)
		l->loops->divide(out, out, &l->divisor, (size_t)l->n, 1);
}

void laplacian_row(const struct laplacian *l, void *out, const struct laplacian_slabs *slabs, int64_t row,
                   int64_t first, int64_t count)
{
	const int64_t n = l->n, stop = first + count, mirrored = l->mirrored && n > 1;
	const int64_t low = l->along ? l->width + mirrored : 0,
				  high = n - low; /* elements with all neighbours in the row */
	const void *own = element_at(slabs->at[l->width], l->size, row * n);
	double extended[ENDS + 2 * LAPLACIAN_WIDTH];
	int64_t end;
	if (l->plain && count == n) {
		plain_row(l, out, &(struct place){slabs, row, 0}, own);
		return;
	}
	for (int64_t at = first; at < stop; at = end) {
		const bool inside = at >= low && at < high;
		end = inside ? high : at < low && low < high ? low : n;
		if (!inside && mirrored)
			end = at == 0 ? 1 : at < n - 1 && end == n ? n - 1 : end;
		end = !inside && end > at + ENDS ? at + ENDS : end;
		end = end < stop ? end : stop;
		struct differences d;
		d.centre = element_at(own, l->size, at);
		d.divisor = l->divisor;
		d.pairs = 0;
		d.doubles = false;
		add_other_rows(l, &d, &(struct place){slabs, row, at});
		if (!inside)
			extend(l, extended, own, at, end - at);
		add_own(l, &d, inside ? d.centre : element_at(extended, l->size, l->width));
		l->loops->differences(element_of(out, l->size, at - first), &d, (size_t)(end - at));
	}
}

enum { PIECE = 2048 }; /* the most elements of a row that a gather makes at once, unless in pairs of rows */
static const double no_values[PIECE];

/* Makes P, which lies in one row and has at most PIECE elements. */
static void make_piece(const struct laplacian *l, const struct kernels *kernels, const struct gather_part *p)
{
	double buffer[PIECE]; /* holds elements of either type */
	struct laplacian_slabs slabs;
	const int64_t row = p->first / l->n;
	const bool tail = p->factor != 1 || p->add;
	laplacian_slabs(l, p->from, row / l->rows, &slabs);
	laplacian_row(l, tail ? buffer : p->to, &slabs, row % l->rows, p->first % l->n, p->n);
	if (tail)
		l->loops->multiply(p->add ? buffer : p->to, buffer, &p->factor, (size_t)p->n, 1);
	if (p->add)
		kernels->forward[OP_add][0](&(struct kernel_args){.out = p->to, .v = p->add, .a = buffer, .n = (size_t)p->n});
}

/*
 * Returns how many pairs of whole rows begin with row ROW of the array and lie in the LEFT elements from there on. Rows
 * are neighbours along one axis, and the pairs neither begin nor end it.
 */
static int64_t count_pairs(const struct laplacian *l, int64_t row, int64_t left)
{
	if (!l->plain || l->divisor != 1 || (l->leading ? l->rows : l->axes[0].stride) != 1)
		return 0;
	const int64_t i = row % l->axes[0].n;
	return i > 0 ? lesser(left / l->n, l->axes[0].n - 1 - i) / 2 : 0;
}

/* Makes P, which is pairs of whole rows. */
static void make_pairs(const struct laplacian *l, const struct gather_part *p)
{
	const int64_t bytes = l->n * (int64_t)l->size;
	char *to = p->to;
	const char *from = element_at(p->from, l->size, p->first), *add = p->add;
	struct row_pair pair = {.n = (size_t)l->n, .scale = p->factor};
	for (int64_t pairs = p->n / l->n / 2; pairs > 0; pairs--) {
		pair.before = from - bytes;
		for (int r = 0; r < 2; r++) {
			pair.out[r] = to;
			pair.v[r] = from;
			pair.add[r] = add;
			pair.ends[r][0] = value_at_end(l, from, 0);
			pair.ends[r][1] = value_at_end(l, from, 1);
			to += bytes;
			from += bytes;
			add = add ? add + bytes : NULL;
		}
		pair.after = from;
		l->loops->laplacian_pair(&pair);
	}
}

GATHER(laplacian)
{
	struct laplacian l;
	struct gather_part p = *part;
	laplacian_begin(&l, call->attrs, &call->v->shape, call->kernels->loops, part->back);
	l.zeros = no_values;
	for (int64_t left = part->n; left > 0; left -= p.n) {
		const int64_t column = p.first % l.n;
		const int64_t pairs = column == 0 ? count_pairs(&l, p.first / l.n, left) : 0;
		p.n = pairs ? 2 * pairs * l.n : lesser(lesser(PIECE, l.n - column), left);
		if (pairs)
			make_pairs(&l, &p);
		else
			make_piece(&l, call->kernels, &p);
		p.first += p.n;
		p.to = element_of(p.to, l.size, p.n);
		p.add = p.add ? element_at(p.add, l.size, p.n) : NULL;
	}
}

/* A laplacian, whose rows a team shares: first all rows of the first columns, then those of the next. */
struct laplace {
	const struct op_call *call;
	void *y;
	const void *v;
	bool adjoint;
	int64_t rows, columns;
};

int64_t laplacian_zeros(const struct attrs *attrs, const struct shape *shape)
{
	int64_t row = 1;
	for (int i = shape->ndim - 1; i >= 0; i--) {
		const bool named = axis_named(attrs, i, shape->ndim);
		row *= named && i < shape->ndim - 1 ? 1 : shape->dim[i];
		if (named)
			break;
	}
	return row < STENCIL_COLUMNS ? row : STENCIL_COLUMNS;
}

static void laplace_rows(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct laplace *la = context;
	struct laplacian l;
	struct laplacian_slabs slabs;
	laplacian_begin(&l, la->call->attrs, &la->call->v->shape, la->call->kernels->loops, la->adjoint);
	void *zeros = memory ? memory : la->call->scratch;
	memset(zeros, 0, (size_t)la->columns * l.size);
	l.zeros = zeros;
	for (int64_t item = begin, slab = -1; item < end; item++) {
		const int64_t row = item % la->rows, first = item / la->rows * la->columns;
		const int64_t count = l.n - first < la->columns ? l.n - first : la->columns;
		if (row / l.rows != slab)
			laplacian_slabs(&l, la->v, slab = row / l.rows, &slabs);
		laplacian_row(&l, element_of(la->y, l.size, row * l.n + first), &slabs, row % l.rows, first, count);
	}
}

static void laplace(const struct op_call *call, void *y, const void *v, bool adjoint)
{
	const struct shape *shape = &call->v->shape;
	if (shape_count(shape) == 0)
		return;
	if (shape->ndim == 0) {
		element_set(call->v->dtype, y, 0, 0);
		return;
	}
	struct laplacian l;
	laplacian_begin(&l, call->attrs, shape, call->kernels->loops, adjoint);
	struct laplace la = {call, y, v, adjoint, l.slabs * l.rows, laplacian_zeros(call->attrs, shape)};
	const int64_t parts = (l.n + la.columns - 1) / la.columns;
	team_run(call->team, la.rows * parts, TEAM_PIECE / la.columns + 1, laplace_rows, &la);
}

FORWARD(laplacian) { laplace(call, y, v, false); }

VJP(laplacian) { laplace(call, dv, g, true); }
