/*
 * Lines, panels of lines, and the sums that reductions and broadcasting share.
 *
 * A sum of a line is pairwise in double. Sums across lines (inner > 1) go down
 * the rows with a compensated double for each column, in blocks of columns.
 * Either order depends on shapes alone.
 */
#include "ops/lines.h"

#include <math.h>
#include <string.h>

static struct axis_view axis_view_of(const struct shape *shape, int axis)
{
	struct axis_view view = {1, shape->ndim ? shape->dim[axis] : 1, 1};
	for (int i = 0; i < axis; i++)
		view.outer *= shape->dim[i];
	for (int i = axis + 1; i < shape->ndim; i++)
		view.inner *= shape->dim[i];
	return view;
}

struct axis_view axis_view_named(const struct attrs *attrs, const struct shape *shape)
{
	int axis = 0;
	(void)axis_resolve(attrs->axis[0], shape->ndim, &axis);
	return axis_view_of(shape, axis);
}

int64_t lines_scratch(const struct axis_view *view, size_t element, int whole)
{
	int64_t bytes;
	if (view->inner <= 1)
		return 0;
	const int64_t width = view->inner < LINES_PANEL ? view->inner : LINES_PANEL;
	return __builtin_mul_overflow(width * (int64_t)element * whole, view->n, &bytes) ? INT64_MAX : bytes;
}

/* A walk, as members of a team share it. */
struct walk {
	const struct op_call *call;
	const struct axis_view *view;
	const struct line_arrays *arrays;
	line_function *function;
	void *scratch;
};

/* Lines that lie in the array: COUNT of them from FIRST on. */
static void walk_lines(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct walk *w = context;
	const size_t size = element_size(w->call->kernels->dtype);
	const int64_t n = w->view->n;
	struct line_arrays some = {0};
	(void)memory;
	for (int i = 0; i < 2; i++) {
		some.in[i] = w->arrays->in[i] ? element_at(w->arrays->in[i], size, begin * n) : NULL;
		some.short_in[i] = w->arrays->short_in[i] ? element_at(w->arrays->short_in[i], size, begin) : NULL;
	}
	some.out = w->arrays->out ? element_of(w->arrays->out, size, begin * n) : NULL;
	some.short_out = w->arrays->short_out ? element_of(w->arrays->short_out, size, begin) : NULL;
	for (int i = 0; i < FOLD_PARTS; i++)
		some.wide[i] = w->arrays->wide[i] ? w->arrays->wide[i] + begin : NULL;
	w->function(w->call, loops_get(w->call->kernels), &some, (size_t)n, (size_t)(end - begin));
}

/* Panels BEGIN .. END-1 of lines across, each gathered into SCRATCH. */
static void walk_panels(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct walk *w = context;
	const struct loops *const loops = loops_get(w->call->kernels);
	const struct line_arrays *arrays = w->arrays;
	const size_t size = element_size(loops->dtype);
	const int64_t n = w->view->n, inner = w->view->inner, across = (inner + LINES_PANEL - 1) / LINES_PANEL;
	for (int64_t at = begin; at < end; at++) {
		const int64_t o = at / across, j = at % across * LINES_PANEL;
		const int64_t width = inner - j < LINES_PANEL ? inner - j : LINES_PANEL;
		const int64_t whole = o * n * inner + j, one = o * inner + j;
		struct line_arrays panel = {0};
		char *free_at = memory ? memory : w->scratch;
		for (int i = 0; i < 2; i++) {
			if (arrays->short_in[i])
				panel.short_in[i] = element_at(arrays->short_in[i], size, one);
			if (!arrays->in[i])
				continue;
			loops->transpose(free_at, n, element_at(arrays->in[i], size, whole), inner, n, width);
			panel.in[i] = free_at;
			free_at += size * (size_t)(n * width);
		}
		if (arrays->short_out)
			panel.short_out = element_of(arrays->short_out, size, one);
		for (int i = 0; i < FOLD_PARTS; i++)
			panel.wide[i] = arrays->wide[i] ? arrays->wide[i] + one : NULL;
		if (arrays->out)
			panel.out = free_at;
		w->function(w->call, loops, &panel, (size_t)n, (size_t)width);
		if (arrays->out)
			loops->transpose(element_of(arrays->out, size, whole), inner, panel.out, n, width, n);
	}
}

void lines_walk(const struct op_call *call, const struct axis_view *view, const struct line_arrays *arrays,
                line_function *function, void *scratch)
{
	struct walk walk = {call, view, arrays, function, scratch};
	const int64_t n = view->n > 0 ? view->n : 1, across = (view->inner + LINES_PANEL - 1) / LINES_PANEL;
	if (view->outer == 0 || view->inner == 0)
		return;
	if (view->inner == 1)
		team_run(call->team, view->outer, TEAM_PIECE / n + 1, walk_lines, &walk);
	else
		team_run(call->team, view->outer * across, TEAM_PIECE / (n * LINES_PANEL) + 1, walk_panels, &walk);
}

void reduction_axes(const struct attrs *attrs, const struct shape *shape, bool reduced[MAX_DIMS])
{
	for (int i = 0; i < MAX_DIMS; i++)
		reduced[i] = !attrs->has_axis;
	for (int i = 0; attrs->has_axis && i < attrs->axis_count; i++) {
		int axis;
		if (axis_resolve(attrs->axis[i], shape->ndim, &axis))
			reduced[axis] = true;
	}
}

/* Axes of extent 1 belong to either side; the rest are merged with neighbours of their kind. */
static int merge_axes(const struct shape *shape, const bool reduced[MAX_DIMS], int64_t extent[MAX_DIMS],
                      bool kind[MAX_DIMS])
{
	int count = 0;
	for (int i = 0; i < shape->ndim; i++) {
		if (shape->dim[i] == 1)
			continue;
		if (count && kind[count - 1] == reduced[i]) {
			extent[count - 1] *= shape->dim[i];
		} else {
			extent[count] = shape->dim[i];
			kind[count++] = reduced[i];
		}
	}
	return count;
}

void reduction_of(struct reduction *r, const struct shape *shape, const bool reduced[MAX_DIMS])
{
	int64_t extent[MAX_DIMS], stride = 1;
	bool kind[MAX_DIMS];
	int count = merge_axes(shape, reduced, extent, kind), groups = 0;
	*r = (struct reduction){.view = {1, 1, 1}};
	for (int i = 0; i < count; i++)
		groups += kind[i];
	if (groups <= 1) {
		bool before = true;
		for (int i = 0; i < count; i++) {
			if (kind[i]) {
				r->view.n = extent[i];
				before = false;
			} else if (before) {
				r->view.outer = extent[i];
			} else {
				r->view.inner = extent[i];
			}
		}
		/* nothing is taken away: lines of one element */
		return;
	}
	r->moved = true;
	int64_t step[MAX_DIMS];
	for (int i = count - 1; i >= 0; i--) {
		step[i] = stride;
		stride *= extent[i];
	}
	for (int taken = 0; taken < 2; taken++)
		for (int i = 0; i < count; i++) {
			if (kind[i] != (taken == 1))
				continue;
			r->dim[r->ndim] = extent[i];
			r->step[r->ndim++] = step[i];
			*(taken ? &r->view.n : &r->view.outer) *= extent[i];
		}
}

void reduction_move(const struct reduction *r, void *to, const void *from, size_t size, bool back)
{
	int64_t place[MAX_DIMS] = {0}, at = 0;
	const int64_t total = r->view.outer * r->view.n, last = r->dim[r->ndim - 1], step = r->step[r->ndim - 1];
	for (int64_t i = 0; i < total; i += last) {
		for (int64_t j = 0; j < last; j++) {
			const int64_t source = back ? i + j : at + j * step, target = back ? at + j * step : i + j;
			memcpy(element_of(to, size, target), element_at(from, size, source), size);
		}
		for (int d = r->ndim - 2; d >= 0; d--) {
			at += r->step[d];
			if (++place[d] < r->dim[d])
				break;
			at -= r->step[d] * r->dim[d];
			place[d] = 0;
		}
	}
}

void sums_of(const struct kernels *kernels, const struct axis_view *view, const void *v, int64_t first, size_t count,
             struct wide_sums sums)
{
	double *const hi = sums.hi, *const lo = sums.lo;
	const size_t size = element_size(kernels->dtype);
	memset(lo, 0, count * sizeof *lo);
	if (view->inner == 1) {
		enum { LONG = 256 };
		const struct loops *loops = loops_get(kernels);
		const void *lines = element_at(v, size, first * view->n);
		if (view->n < LONG)
			loops->sums(hi, lines, (size_t)view->n, count);
		else
			for (size_t i = 0; i < count; i++)
				hi[i] = kernels->sum(line_at(loops, lines, (size_t)view->n, i), (size_t)view->n);
		return;
	}
	memset(hi, 0, count * sizeof *hi);
	for (size_t done = 0; done < count;) {
		const int64_t o = (first + (int64_t)done) / view->inner, j = (first + (int64_t)done) % view->inner;
		const size_t left = count - done, width = (size_t)(view->inner - j) < left ? (size_t)(view->inner - j) : left;
		for (int64_t i = 0; i < view->n; i++)
			kernels->accumulate_wide(hi + done, lo + done, element_at(v, size, (o * view->n + i) * view->inner + j),
			                         width);
		done += width;
	}
}

void sums_store(enum dtype dtype, void *out, const double *hi, const double *lo, double divisor, size_t count)
{
	if (dtype == DTYPE_F64)
		for (size_t i = 0; i < count; i++)
			((double *)out)[i] = (hi[i] + lo[i]) / divisor;
	else
		for (size_t i = 0; i < count; i++)
			((float *)out)[i] = (float)((hi[i] + lo[i]) / divisor);
}

void reduction_sums(const struct kernels *kernels, const struct reduction *reduction, void *to, const void *from,
                    double divisor, void *scratch)
{
	const size_t size = element_size(kernels->dtype);
	const int64_t outs = reduction->view.outer * reduction->view.inner;
	if (reduction->moved) {
		reduction_move(reduction, scratch, from, size, false);
		from = scratch;
	}
	for (int64_t i = 0; i < outs; i += SUMS_BLOCK) {
		double hi[SUMS_BLOCK], lo[SUMS_BLOCK];
		const size_t count = outs - i < SUMS_BLOCK ? (size_t)(outs - i) : SUMS_BLOCK;
		sums_of(kernels, &reduction->view, from, i, count, (struct wide_sums){hi, lo});
		sums_store(kernels->dtype, element_of(to, size, i), hi, lo, divisor, count);
	}
}

void lines_largest(const struct loops *loops, double *largest, struct lines lines)
{
	if (lines.n > 0)
		loops->largest(largest, lines.data, lines.n, lines.count);
	for (size_t i = 0; i < lines.count; i++)
		largest[i] = lines.n > 0 && isfinite(largest[i]) ? largest[i] : 0;
}

/* A piece of a line, or several short lines, are in the cache when exp runs over them. The bits do not depend on it. */
void lines_sum_exp(const struct op_call *call, const struct loops *loops, void *out, struct lines lines,
                   const double shift[LINES_SOME], double sum[LINES_SOME])
{
	enum { PIECE = 1024 };
	_Alignas(64) double piece[PIECE];
	double part[LINES_SOME];
	const size_t n = lines.n, count = lines.count, size = element_size(loops->dtype);
	const size_t width = n < PIECE ? n : PIECE, some = n && n < PIECE ? PIECE / n : 1;
	memset(sum, 0, count * sizeof *sum);
	for (size_t first = 0; first < count; first += some)
		for (size_t j = 0; j < n; j += width) {
			const size_t here = count - first < some ? count - first : some, w = n - j < width ? n - j : width;
			const int64_t at = (int64_t)(first * n + j);
			void *to = out ? element_of(out, size, at) : piece;
			loops->subtract(to, element_at(lines.data, size, at), shift + first, w, here);
			call->kernels->forward[OP_exp][0](&(struct kernel_args){.out = to, .v = to, .n = w * here});
			loops->sums(part, to, w, here);
			for (size_t i = 0; i < here; i++)
				sum[first + i] += part[i];
		}
}
