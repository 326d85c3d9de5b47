/*
 * Operations along an axis. softmax and log_softmax follow scipy's: the largest
 * element is taken out (log_softmax: where it is finite), so that no exp
 * overflows, and a line with inf, or of -inf alone, gives what those formulas
 * give. Means and sums are in double. cumsum is sequential in the type, as
 * NumPy's, to the bit.
 */
#include <math.h>
#include <string.h>

#include "ops/lines.h"

static void walk(const struct op_call *call, const struct line_arrays *arrays, line_function *function)
{
	const struct axis_view view = axis_view_named(call->attrs, &call->v->shape);
	if (view.n > 0)
		lines_walk(call, &view, arrays, function, call->scratch);
}

static void exp_in_place(const struct op_call *call, void *lines, size_t n)
{
	call->kernels->forward[OP_exp][0](&(struct kernel_args){.out = lines, .v = lines, .n = n});
}

/* Lines are taken a few at a time, so that exp runs on long stretches that are still in the cache. */
static size_t lines_at_once(size_t n, size_t count)
{
	enum { ELEMENTS = 4096 };
	const size_t most = n < ELEMENTS ? ELEMENTS / n : 1;
	return count < most ? count : most;
}

static void softmax_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                          size_t count)
{
	const size_t size = element_size(loops->dtype), some = lines_at_once(n, count);
	for (size_t first = 0; first < count; first += some) {
		const size_t here = count - first < some ? count - first : some;
		for (size_t i = first; i < first + here; i++) {
			const void *line = element_at(at->in[0], size, (int64_t)(i * n));
			loops->subtract(element_of(at->out, size, (int64_t)(i * n)), line, loops->largest(line, n), n);
		}
		exp_in_place(call, element_of(at->out, size, (int64_t)(first * n)), here * n);
		for (size_t i = first; i < first + here; i++) {
			void *line = element_of(at->out, size, (int64_t)(i * n));
			loops->divide(line, line, loops->sum(line, n), n);
		}
	}
}

void forward_softmax(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	walk(call, &(struct line_arrays){.in = {v}, .out = y}, softmax_lines);
}

/* y * (g - sum(g * y)) */
static void softmax_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                                size_t n, size_t count)
{
	const size_t size = element_size(loops->dtype);
	(void)call;
	for (size_t i = 0; i < count; i++) {
		const void *y = element_at(at->in[0], size, (int64_t)(i * n)),
				   *g = element_at(at->in[1], size, (int64_t)(i * n));
		loops->softmax_slope(element_of(at->out, size, (int64_t)(i * n)), g, y, loops->sum_products(g, y, n), n);
	}
}

void vjp_softmax(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da;
	if (dv)
		walk(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv}, softmax_slope_lines);
}

static void log_softmax_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                              size_t n, size_t count)
{
	static const double zeros[LINES_SOME];
	const size_t size = element_size(loops->dtype);
	for (size_t first = 0; first < count; first += LINES_SOME) {
		double sum[LINES_SOME];
		const size_t here = count - first < LINES_SOME ? count - first : LINES_SOME;
		char *out = element_of(at->out, size, (int64_t)(first * n));
		for (size_t i = 0; i < here; i++) {
			const void *line = element_at(at->in[0], size, (int64_t)((first + i) * n));
			const double largest = loops->largest(line, n);
			loops->subtract(out + i * n * size, line, isfinite(largest) ? largest : 0, n);
		}
		lines_sum_exp(call, loops, NULL, out, n, here, zeros, sum);
		for (size_t i = 0; i < here; i++)
			loops->subtract(out + i * n * size, out + i * n * size, log(sum[i]), n);
	}
}

void forward_log_softmax(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	walk(call, &(struct line_arrays){.in = {v}, .out = y}, log_softmax_lines);
}

/* g - exp(y) * sum(g) */
static void log_softmax_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                                    size_t n, size_t count)
{
	const size_t size = element_size(loops->dtype);
	call->kernels->forward[OP_exp][0](&(struct kernel_args){.out = at->out, .v = at->in[0], .n = n * count});
	for (size_t i = 0; i < count; i++) {
		const void *g = element_at(at->in[1], size, (int64_t)(i * n));
		loops->log_softmax_slope(element_of(at->out, size, (int64_t)(i * n)), g, loops->sum(g, n), n);
	}
}

void vjp_log_softmax(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da;
	if (dv)
		walk(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv}, log_softmax_slope_lines);
}

static void layernorm_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                            size_t n, size_t count)
{
	const size_t size = element_size(loops->dtype);
	for (size_t i = 0; i < count; i++) {
		const void *line = element_at(at->in[0], size, (int64_t)(i * n));
		const double mean = loops->sum(line, n) / (double)n;
		const double scale = 1 / sqrt(loops->sum_deviations(line, mean, n) / (double)n + call->attrs->eps);
		if (at->out) /* a recomputation may want only what is kept */
			loops->normalize(element_of(at->out, size, (int64_t)(i * n)), line, mean, scale, n);
		if (at->short_out)
			element_set(loops->dtype, at->short_out, i, scale);
	}
}

void forward_layernorm(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a;
	walk(call, &(struct line_arrays){.in = {v}, .out = y, .short_out = keep ? keep[0] : NULL}, layernorm_lines);
}

/* scale * (g - mean(g) - y * mean(g * y)); rmsnorm: without mean(g) */
static void normalize_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                                  size_t n, size_t count)
{
	const size_t size = element_size(loops->dtype);
	for (size_t i = 0; i < count; i++) {
		const void *y = element_at(at->in[0], size, (int64_t)(i * n)),
				   *g = element_at(at->in[1], size, (int64_t)(i * n));
		const double means[2] = {call->op == OP_layernorm ? loops->sum(g, n) / (double)n : 0,
		                         loops->sum_products(g, y, n) / (double)n};
		loops->normalize_slope(element_of(at->out, size, (int64_t)(i * n)), g, y, means,
		                       element_get(loops->dtype, at->short_in[0], i), n);
	}
}

void vjp_layernorm(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da;
	if (dv)
		walk(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv, .short_in = {needs[3]}},
		     normalize_slope_lines);
}

static void rmsnorm_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                          size_t count)
{
	const size_t size = element_size(loops->dtype);
	for (size_t i = 0; i < count; i++) {
		const void *line = element_at(at->in[0], size, (int64_t)(i * n));
		const double scale = 1 / sqrt(loops->sum_products(line, line, n) / (double)n + call->attrs->eps);
		if (at->out)
			loops->normalize(element_of(at->out, size, (int64_t)(i * n)), line, 0, scale, n);
		if (at->short_out)
			element_set(loops->dtype, at->short_out, i, scale);
	}
}

void forward_rmsnorm(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a;
	walk(call, &(struct line_arrays){.in = {v}, .out = y, .short_out = keep ? keep[0] : NULL}, rmsnorm_lines);
}

void vjp_rmsnorm(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	vjp_layernorm(call, dv, da, g, needs);
}

/* Running sums, forwards or backwards, as members of a team share them: each line, or strips of lines across. */
struct running {
	struct axis_view view;
	void *y;
	const void *v;
	bool back;
};

enum { STRIP = 512 };

#define RUNNING(REAL, NAME)                                                                                            \
	static void NAME(void *context, void *memory, int64_t begin, int64_t end)                                          \
	{                                                                                                                  \
		const struct running *r = context;                                                                             \
		const int64_t n = r->view.n, inner = r->view.inner, strips = (inner + STRIP - 1) / STRIP;                      \
		(void)memory;                                                                                                  \
		for (int64_t part = begin; part < end; part++) {                                                               \
			const int64_t low = part % strips * STRIP, high = inner - low < STRIP ? inner : low + STRIP;               \
			const REAL *v = (const REAL *)r->v + part / strips * n * inner;                                            \
			REAL *y = (REAL *)r->y + part / strips * n * inner, sum = 0;                                               \
			for (int64_t i = 0; inner == 1 && i < n; i++) {                                                            \
				const int64_t at = r->back ? n - 1 - i : i;                                                            \
				sum = i ? sum + v[at] : v[at];                                                                         \
				y[at] = sum;                                                                                           \
			}                                                                                                          \
			for (int64_t i = 0; inner > 1 && i < n; i++) {                                                             \
				const int64_t at = (r->back ? n - 1 - i : i) * inner, before = r->back ? at + inner : at - inner;      \
				if (i == 0)                                                                                            \
					memcpy(y + at + low, v + at + low, (size_t)(high - low) * sizeof(REAL));                           \
				else                                                                                                   \
					for (int64_t j = low; j < high; j++)                                                               \
						y[at + j] = y[before + j] + v[at + j];                                                         \
			}                                                                                                          \
		}                                                                                                              \
	}
RUNNING(float, running_f32)
RUNNING(double, running_f64)

static void run_sums(const struct op_call *call, void *y, const void *v, bool back)
{
	struct running r = {axis_view_named(call->attrs, &call->v->shape), y, v, back};
	const int64_t strips = (r.view.inner + STRIP - 1) / STRIP;
	const int64_t each = (r.view.n > 0 ? r.view.n : 1) * (r.view.inner < STRIP ? r.view.inner : STRIP);
	if (strips > 0)
		team_run(call->team, r.view.outer * strips, TEAM_PIECE / each + 1,
		         call->v->dtype == DTYPE_F64 ? running_f64 : running_f32, &r);
}

void forward_cumsum(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	run_sums(call, y, v, false);
}

void vjp_cumsum(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da, (void)needs;
	if (dv)
		run_sums(call, dv, g, true);
}
