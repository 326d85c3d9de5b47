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

static void softmax_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                          size_t count)
{
	for (size_t i = 0, here; i < count; i += here) {
		double largest[LINES_SOME], sum[LINES_SOME];
		const void *in = line_at(loops, at->in[0], n, i);
		void *out = line_of(loops, at->out, n, i);
		here = lines_at_once(n, count - i);
		loops->largest(largest, in, n, here);
		loops->subtract(out, in, largest, n, here);
		exp_in_place(call, out, here * n);
		loops->sums(sum, out, n, here);
		loops->divide(out, out, sum, n, here);
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
	(void)call;
	for (size_t i = 0, here; i < count; i += here) {
		double sum[LINES_SOME];
		const void *y = line_at(loops, at->in[0], n, i), *g = line_at(loops, at->in[1], n, i);
		here = lines_at_once(n, count - i);
		loops->sums_products(sum, g, y, n, here);
		loops->softmax_slope(line_of(loops, at->out, n, i), g, y, sum, n, here);
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
	for (size_t i = 0, here; i < count; i += here) {
		double largest[LINES_SOME], sum[LINES_SOME];
		void *out = line_of(loops, at->out, n, i);
		here = lines_at_once(n, count - i);
		lines_largest(loops, largest, (struct lines){line_at(loops, at->in[0], n, i), n, here});
		loops->subtract(out, line_at(loops, at->in[0], n, i), largest, n, here);
		lines_sum_exp(call, loops, NULL, (struct lines){out, n, here}, zeros, sum);
		for (size_t j = 0; j < here; j++)
			sum[j] = log(sum[j]);
		loops->subtract(out, out, sum, n, here);
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
	call->kernels->forward[OP_exp][0](&(struct kernel_args){.out = at->out, .v = at->in[0], .n = n * count});
	for (size_t i = 0, here; i < count; i += here) {
		double sum[LINES_SOME];
		const void *g = line_at(loops, at->in[1], n, i);
		here = lines_at_once(n, count - i);
		loops->sums(sum, g, n, here);
		loops->log_softmax_slope(line_of(loops, at->out, n, i), g, sum, n, here);
	}
}

void vjp_log_softmax(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da;
	if (dv)
		walk(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv}, log_softmax_slope_lines);
}

/*
 * Lines less their means (layernorm; rmsnorm takes nothing away), over the root of the mean of what their squares
 * are then. A recomputation may want only what is kept, those roots' reciprocals.
 */
static void normalize_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                            size_t n, size_t count)
{
	for (size_t i = 0, here; i < count; i += here) {
		double mean[LINES_SOME] = {0}, scale[LINES_SOME];
		const void *in = line_at(loops, at->in[0], n, i);
		here = lines_at_once(n, count - i);
		if (call->op == OP_layernorm) {
			loops->sums(mean, in, n, here);
			for (size_t j = 0; j < here; j++)
				mean[j] /= (double)n;
			loops->sums_deviations(scale, in, mean, n, here);
		} else {
			loops->sums_squares(scale, in, n, here);
		}
		for (size_t j = 0; j < here; j++)
			scale[j] = 1 / sqrt(scale[j] / (double)n + call->attrs->eps);
		if (at->out)
			loops->normalize(line_of(loops, at->out, n, i), in, mean, scale, n, here);
		for (size_t j = 0; at->short_out && j < here; j++)
			element_set(loops->dtype, at->short_out, i + j, scale[j]);
	}
}

void forward_layernorm(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a;
	walk(call, &(struct line_arrays){.in = {v}, .out = y, .short_out = keep ? keep[0] : NULL}, normalize_lines);
}

/* scale * (g - mean(g) - y * mean(g * y)); rmsnorm: without mean(g) */
static void normalize_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                                  size_t n, size_t count)
{
	for (size_t i = 0, here; i < count; i += here) {
		double mean[LINES_SOME] = {0}, slope[LINES_SOME], scale[LINES_SOME];
		const void *y = line_at(loops, at->in[0], n, i), *g = line_at(loops, at->in[1], n, i);
		here = lines_at_once(n, count - i);
		if (call->op == OP_layernorm)
			loops->sums(mean, g, n, here);
		loops->sums_products(slope, g, y, n, here);
		for (size_t j = 0; j < here; j++) {
			mean[j] /= (double)n;
			slope[j] /= (double)n;
			scale[j] = element_get(loops->dtype, at->short_in[0], i + j);
		}
		loops->normalize_slope(line_of(loops, at->out, n, i), g, y, mean, slope, scale, n, here);
	}
}

void vjp_layernorm(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da;
	if (dv)
		walk(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv, .short_in = {needs[3]}},
		     normalize_slope_lines);
}

void forward_rmsnorm(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a;
	walk(call, &(struct line_arrays){.in = {v}, .out = y, .short_out = keep ? keep[0] : NULL}, normalize_lines);
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
