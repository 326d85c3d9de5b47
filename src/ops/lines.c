/*
 * Walks over lines, and the sums that reductions and broadcasting share.
 *
 * A contiguous line is summed by lanes (kernels.h). If inner > 1, neighbouring lines are
 * summed together, row after row. Either way a sum has a second double for its rounding
 * errors, and the order depends on shapes alone.
 * Tests: tests/unit/test_general.c, tests/unit/test_edges_lines.c
 */
#include "ops/lines.h"

#include <math.h>
#include <string.h>

struct axis_view axis_view_named(const struct attrs *attrs, const struct shape *shape)
{
	int axis = 0;
	(void)axis_resolve(attrs->axis[0], shape->ndim, &axis);
	struct axis_view view = {1, shape->ndim ? shape->dim[axis] : 1, 1};
	for (int i = 0; i < shape->ndim; i++)
		*(i < axis ? &view.outer : &view.inner) *= i == axis ? 1 : shape->dim[i];
	return view;
}

int64_t lines_scratch(const struct axis_view *view, size_t element, int long_arrays)
{
	int64_t bytes;
	if (view->inner <= 1)
		return 0;
	const int64_t width = view->inner < LINES_PANEL ? view->inner : LINES_PANEL;
	return __builtin_mul_overflow(width * (int64_t)element * long_arrays, view->n, &bytes) ? INT64_MAX : bytes;
}

/* The context of a walk that a team shares. */
struct walk {
	const struct op_call *call;
	const struct loops *loops;
	const struct axis_view *view;
	const struct line_arrays *arrays;
	line_function *function;
	void *scratch; /* the caller's; other members of the team have their own */
};

/* Returns ARRAYS from line FIRST on, for lines of N elements of SIZE bytes. N is 0 if long arrays are set later. */
static struct line_arrays arrays_from(const struct line_arrays *arrays, size_t size, int64_t n, int64_t first)
{
	struct line_arrays from = *arrays;
	for (int i = 0; i < 2; i++) {
		from.in[i] = from.in[i] ? element_at(from.in[i], size, first * n) : NULL;
		from.short_in[i] = from.short_in[i] ? element_at(from.short_in[i], size, first) : NULL;
	}
	from.out = from.out ? element_of(from.out, size, first * n) : NULL;
	from.short_out = from.short_out ? element_of(from.short_out, size, first) : NULL;
	for (int i = 0; i < FOLD_PARTS; i++)
		from.wide[i] = from.wide[i] ? from.wide[i] + first : NULL;
	return from;
}

/*
 * Returns how many of LEFT lines one call computes: as many as stay in the cache while its
 * loops read them several times. Unless fewer are left, a number above 16 is a multiple of
 * 16, the most lines that a loop computes side by side.
 */
static size_t lines_at_once(size_t n, size_t left)
{
	enum { ELEMENTS = 4096, ACROSS = 16 };
	const size_t fit = n < ELEMENTS ? ELEMENTS / (n > 0 ? n : 1) : 1, most = fit < LINES_SOME ? fit : LINES_SOME;
	const size_t whole = most < ACROSS ? most : most / ACROSS * ACROSS;
	return left < whole ? left : whole;
}

/* Calls the walk's function for lines BEGIN .. END-1 of ARRAYS. Each line is contiguous. */
static void call_function(const struct walk *w, const struct line_arrays *arrays, int64_t begin, int64_t end)
{
	const size_t size = element_size(w->loops->dtype), n = (size_t)w->view->n;
	for (size_t here; begin < end; begin += (int64_t)here) {
		const struct line_arrays some = arrays_from(arrays, size, w->view->n, begin);
		here = lines_at_once(n, (size_t)(end - begin));
		w->function(w->call, w->loops, &some, n, here);
	}
}

static void walk_lines(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct walk *w = context;
	call_function(w, w->arrays, begin, end);
}

/* Walks over panels BEGIN .. END-1: gathers a panel's lines into scratch, and scatters its results from there. */
static void walk_panels(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct walk *w = context;
	const struct line_arrays *arrays = w->arrays;
	const size_t size = element_size(w->loops->dtype);
	const int64_t n = w->view->n, inner = w->view->inner, across = (inner + LINES_PANEL - 1) / LINES_PANEL;
	for (int64_t at = begin; at < end; at++) {
		const int64_t o = at / across, j = at % across * LINES_PANEL;
		const int64_t width = inner - j < LINES_PANEL ? inner - j : LINES_PANEL;
		const int64_t first = o * n * inner + j;
		struct line_arrays panel = arrays_from(arrays, size, 0, o * inner + j);
		char *free_at = memory ? memory : w->scratch;
		for (int i = 0; i < 2; i++) {
			if (!arrays->in[i])
				continue;
			w->loops->transpose(free_at, n, element_at(arrays->in[i], size, first), inner, n, width);
			panel.in[i] = free_at;
			free_at += size * (size_t)(n * width);
		}
		panel.out = arrays->out ? free_at : NULL;
		call_function(w, &panel, 0, width);
		if (arrays->out)
			w->loops->transpose(element_of(arrays->out, size, first), inner, panel.out, n, width, n);
	}
}

void lines_walk(const struct op_call *call, const struct axis_view *view, const struct line_arrays *arrays,
                line_function *function, void *scratch)
{
	struct walk walk = {call, call->kernels->loops, view, arrays, function, scratch};
	const int64_t n = view->n > 0 ? view->n : 1, across = (view->inner + LINES_PANEL - 1) / LINES_PANEL;
	if (view->outer == 0 || view->inner == 0)
		return;
	if (view->inner == 1)
		team_run(call->team, view->outer, TEAM_PIECE / n + 1, walk_lines, &walk);
	else
		team_run(call->team, view->outer * across, TEAM_PIECE / (n * LINES_PANEL) + 1, walk_panels, &walk);
}

struct reduction reduction_of(const struct shape *shape, const bool reduced[MAX_DIMS])
{
	struct reduction r = {.view = {1, 1, 1}};
	bool kind[MAX_DIMS];
	int groups = 0;
	/* merges neighbouring axes if both are reduced or both are kept; leaves out axes of extent 1 */
	for (int i = 0; i < shape->ndim; i++) {
		if (shape->dim[i] == 1)
			continue;
		if (r.merged.ndim && kind[r.merged.ndim - 1] == reduced[i]) {
			r.merged.dim[r.merged.ndim - 1] *= shape->dim[i];
			continue;
		}
		groups += reduced[i];
		kind[r.merged.ndim] = reduced[i];
		r.merged.dim[r.merged.ndim++] = shape->dim[i];
	}
	r.moved = groups > 1;
	bool behind = false;
	for (int i = 0; i < r.merged.ndim; i++) {
		*(kind[i] ? &r.view.n : behind ? &r.view.inner : &r.view.outer) *= r.merged.dim[i];
		behind |= kind[i] && !r.moved;
	}
	r.last.ndim = r.merged.ndim;
	for (int reduce = 0, at = 0; reduce < 2; reduce++)
		for (int i = 0; i < r.merged.ndim; i++)
			if (kind[i] == (reduce == 1)) {
				r.back[i] = at;
				r.last.dim[at] = r.merged.dim[i];
				r.axes[at++] = i;
			}
	return r;
}

struct reduction reduction_named(const struct attrs *attrs, const struct shape *shape)
{
	bool reduced[MAX_DIMS];
	for (int i = 0; i < shape->ndim; i++)
		reduced[i] = axis_named(attrs, i, shape->ndim);
	return reduction_of(shape, reduced);
}

/* Elements STEP apart, each multiplied by OTHER's unless that is NULL. */
struct far_line {
	const double *v, *other;
	size_t n;
	int64_t step;
};

/* Stores the sum of LINE over SUM_FAR in *HI and *LO. Returns false if an element or a product is not finite. */
static bool sum_far(const struct far_line *line, double *hi, double *lo)
{
	double sum = 0, rest = 0;
	for (size_t i = 0; i < line->n; i++) {
		const int64_t at = (int64_t)i * line->step;
		const double x = line->v[at] / SUM_FAR, term = line->other ? x * line->other[at] : x;
		if (!isfinite(term))
			return false;
		sum_add(&sum, &rest, term, 0);
	}
	*hi = sum;
	*lo = rest;
	return true;
}

/* True if sum I of DTYPE may be beyond the range though LINE's elements are not. Sets its scale to 1. */
static bool begin_scale(enum dtype dtype, struct wide_sums sums, size_t i)
{
	sums.scale[i] = 1;
	return dtype == DTYPE_F64 && !isfinite(sums.hi[i]);
}

/* Makes sum I again of smaller elements, unless LINE's are not finite. */
static void set_scale(struct wide_sums sums, size_t i, struct far_line line)
{
	if (sum_far(&line, &sums.hi[i], &sums.lo[i]))
		sums.scale[i] = SUM_FAR;
}

/* Sets the scales of sums_of. */
static void set_scales(const struct kernels *kernels, const struct axis_view *view, const void *v, int64_t first,
                       size_t count, struct wide_sums sums)
{
	for (size_t i = 0; i < count; i++) {
		if (!begin_scale(kernels->dtype, sums, i))
			continue;
		const int64_t line = first + (int64_t)i, o = line / view->inner, j = line % view->inner;
		const void *at = element_at(v, element_size(kernels->dtype), o * view->n * view->inner + j);
		set_scale(sums, i, (struct far_line){at, NULL, (size_t)view->n, view->inner});
	}
}

void lines_sums(const struct loops *loops, struct lines lines, const void *other, struct wide_sums sums)
{
	if (other)
		loops->sum.products(sums.hi, sums.lo, lines.data, other, lines.n, lines.count);
	else
		loops->sum.values(sums.hi, sums.lo, lines.data, lines.n, lines.count);
	for (size_t i = 0; i < lines.count; i++)
		if (begin_scale(loops->dtype, sums, i))
			set_scale(sums, i,
			          (struct far_line){line_at(loops, lines.data, lines.n, i),
			                            other ? line_at(loops, other, lines.n, i) : NULL, lines.n, 1});
}

void lines_means(const struct loops *loops, struct lines lines, const void *other, double count, double *mean)
{
	double rest[LINES_SOME], scale[LINES_SOME];
	lines_sums(loops, lines, other, (struct wide_sums){mean, rest, scale});
	for (size_t i = 0; i < lines.count; i++)
		mean[i] = sum_quotient(mean[i], rest[i], count) * scale[i];
}

void lines_normalize(const struct loops *loops, void *out, struct lines lines, const double *mean, const double *scale)
{
	const size_t n = lines.n, size = element_size(loops->dtype);
	for (size_t i = 0, some; i < lines.count; i += some) {
		const void *from = line_at(loops, lines.data, n, i);
		void *to = element_of(out, size, (int64_t)(i * n));
		some = count_near(DTYPE_F64, mean + i, lines.count - i);
		if (some > 0)
			loops->normalize(to, from, mean + i, scale + i, n, some);
		for (size_t j = 0; some == 0 && j < n; j++)
			element_set(loops->dtype, to, j, normalized(element_get(loops->dtype, from, j), mean[i], scale[i]));
		some = some > 0 ? some : 1;
	}
}

void sums_of(const struct kernels *kernels, const struct axis_view *view, const void *v, int64_t first, size_t count,
             struct wide_sums sums)
{
	double *const hi = sums.hi, *const lo = sums.lo;
	const size_t size = element_size(kernels->dtype);
	if (view->inner == 1) {
		kernels->loops->sum.values(hi, lo, element_at(v, size, first * view->n), (size_t)view->n, count);
		if (sums.scale)
			set_scales(kernels, view, v, first, count, sums);
		return;
	}
	for (size_t done = 0; done < count;) {
		const int64_t o = (first + (int64_t)done) / view->inner, j = (first + (int64_t)done) % view->inner;
		const size_t left = count - done, width = (size_t)(view->inner - j) < left ? (size_t)(view->inner - j) : left;
		kernels->loops->sum.rows(hi + done, lo + done, element_at(v, size, o * view->n * view->inner + j), view->inner,
		                         width, (size_t)view->n);
		done += width;
	}
	if (sums.scale)
		set_scales(kernels, view, v, first, count, sums);
}

void sums_store(enum dtype dtype, void *out, struct wide_sums sums, double divisor, size_t count)
{
	if (dtype == DTYPE_F64)
		for (size_t i = 0; i < count; i++)
			((double *)out)[i] = sum_quotient(sums.hi[i], sums.lo[i], divisor) * (sums.scale ? sums.scale[i] : 1);
	else
		for (size_t i = 0; i < count; i++)
			((float *)out)[i] = (float)((sums.hi[i] + sums.lo[i]) / divisor);
}

void reduction_sums(const struct kernels *kernels, const struct reduction *reduction, void *to, const void *from,
                    double divisor, void *scratch)
{
	const size_t size = element_size(kernels->dtype);
	const int64_t outs = reduction->view.outer * reduction->view.inner;
	if (reduction->moved) {
		permute(kernels->loops, scratch, from, &reduction->merged, reduction->axes);
		from = scratch;
	}
	for (int64_t i = 0; i < outs; i += SUMS_BLOCK) {
		double hi[SUMS_BLOCK], lo[SUMS_BLOCK], scale[SUMS_BLOCK];
		const struct wide_sums sums = {hi, lo, divisor == 1 ? NULL : scale};
		const size_t count = outs - i < SUMS_BLOCK ? (size_t)(outs - i) : SUMS_BLOCK;
		sums_of(kernels, &reduction->view, from, i, count, sums);
		sums_store(kernels->dtype, element_of(to, size, i), sums, divisor, count);
	}
}

void lines_largest(const struct loops *loops, double *largest, struct lines lines)
{
	if (lines.n > 0)
		loops->largest(largest, lines.data, lines.n, lines.count);
	for (size_t i = 0; i < lines.count; i++)
		largest[i] = lines.n > 0 && isfinite(largest[i]) ? largest[i] : 0;
}

enum { EXP_PIECE = 1024 };

/* Returns the sum of exp(x - SHIFT) over the N elements x of LINE, of floats, but the first that is 1. */
static double other_exponentials(const struct op_call *call, const struct loops *loops, const void *line, size_t n,
                                 double shift)
{
	_Alignas(64) float piece[EXP_PIECE];
	double others = 0;
	bool found = false;
	for (size_t j = 0, w; j < n; j += w) {
		w = n - j < EXP_PIECE ? n - j : EXP_PIECE;
		loops->subtract(piece, element_at(line, sizeof *piece, (int64_t)j), &shift, w, 1);
		lines_exp(call, piece, piece, w);
		for (size_t i = 0; i < w; i++) {
			others += found || piece[i] != 1 ? (double)piece[i] : 0;
			found |= piece[i] == 1;
		}
	}
	return others;
}

/*
 * Stores the rest of a sum. Those of f64 have theirs. One of f32 is made again if it is so near 1 that what is above 1 has
 * lost bits that a float holds.
 */
static void finish_exponentials(const struct op_call *call, const struct loops *loops, struct lines lines,
                                const double shift[LINES_SOME], struct wide_sums sums)
{
	for (size_t i = 0; i < lines.count && loops->dtype == DTYPE_F32; i++)
		if (sums.hi[i] >= 1 && sums.hi[i] < 1 + 0x1p-16) {
			const void *line = line_at(loops, lines.data, lines.n, i);
			sums.lo[i] = other_exponentials(call, loops, line, lines.n, shift[i]);
			sums.hi[i] = 1;
		}
}

/* Cuts long lines into pieces, and groups short ones, to stay in the cache. A sum's bits follow from its line alone. */
void lines_sum_exp(const struct op_call *call, const struct loops *loops, void *out, struct lines lines,
                   const double shift[LINES_SOME], struct wide_sums sums)
{
	_Alignas(64) double piece[EXP_PIECE];
	double part[LINES_SOME], part_rest[LINES_SOME], rest[LINES_SOME] = {0};
	const size_t n = lines.n, count = lines.count, size = element_size(loops->dtype);
	const size_t width = n < EXP_PIECE ? n : EXP_PIECE, some = n && n < EXP_PIECE ? EXP_PIECE / n : 1;
	memset(sums.hi, 0, count * sizeof *sums.hi);
	for (size_t first = 0; first < count; first += some)
		for (size_t j = 0; j < n; j += width) {
			const size_t here = count - first < some ? count - first : some, w = n - j < width ? n - j : width;
			const int64_t at = (int64_t)(first * n + j);
			void *to = out ? element_of(out, size, at) : piece;
			loops->subtract(to, element_at(lines.data, size, at), shift + first, w, here);
			lines_exp(call, to, to, w * here);
			loops->sum.values(part, part_rest, to, w, here);
			for (size_t i = 0; i < here; i++)
				sum_add(&sums.hi[first + i], &rest[first + i], part[i], part_rest[i]);
		}
	for (size_t i = 0; i < count; i++)
		if (sums.lo)
			sums.lo[i] = rest[i];
		else
			sums.hi[i] += rest[i];
	if (sums.lo)
		finish_exponentials(call, loops, lines, shift, sums);
}
