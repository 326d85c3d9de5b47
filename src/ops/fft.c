/*
 * Discrete Fourier transforms along an axis: fft, ifft, rfft and irfft. A complex number is two elements along a last axis. An
 * axis counts without it.
 *
 * A derivative is a transform too, since a transform is a matrix: that of fft is the transform back with the same scale.
 * Where a spectrum stands for that of a real line, its inner numbers count twice: so the derivative of irfft is
 * twice the rfft there, and that of rfft the irfft of half of them. The imaginary parts of number 0 and, of an even
 * length n, of number n / 2 count nothing.
 * Tests: tests/unit/test_general.c, tests/unit/test_fft.c, tests/cases/fft.test
 */
#include "ops/fft.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

enum { PANEL = 8 }; /* long lines whose elements are not neighbours and that are copied together */

/* Complex lines to complex ones, real lines to the first half of their spectra, or back. */
enum fft_kind { FFT_PAIRS, FFT_TO_SPECTRUM, FFT_TO_REAL };

/* The lines of FROM or TO: EXTENT numbers along the axis, of UNIT elements. The first USED of them have a meaning. */
struct side {
	char *data;
	int64_t extent, used;
	int unit;
};
struct transform {
	const struct op_call *call;
	struct fft_plan plan;
	enum fft_kind kind;
	bool back, odd;                       /* exp(2 pi i j k / n); a real line has an odd length */
	double scale, weight;                 /* the weight multiplies the inner numbers of a real line's spectrum */
	int64_t n, lines, behind;             /* BEHIND: numbers of an array from one of a line to the next */
	int64_t size;                         /* of an element */
	int64_t panel_from, panel_to, memory; /* in elements of a member's memory; its end */
	struct side from, to;
};

/* Returns the kind of the transform that computes OP or, if DERIVATIVE, the cotangent of its V. */
static enum fft_kind transform_kind(enum op op, bool derivative)
{
	if (op == OP_fft || op == OP_ifft)
		return FFT_PAIRS;
	return (op == OP_rfft) != derivative ? FFT_TO_SPECTRUM : FFT_TO_REAL;
}

static double scale_of(enum op op, const struct attrs *attrs, int64_t n)
{
	const bool back = op == OP_ifft || op == OP_irfft;
	if (attrs->norm == FFT_ORTHO)
		return 1 / sqrt((double)n);
	return (attrs->norm == FFT_BACKWARD) == back ? 1 / (double)n : 1;
}

/* Returns the transform of lines of V's type to lines of Y's, or its derivative, without arrays. */
static struct transform transform_of(enum op op, const struct attrs *attrs, const struct type *v, const struct type *y,
                                     bool derivative)
{
	struct transform t = {.kind = transform_kind(op, derivative),
	                      .back = (op == OP_ifft || op == OP_irfft) != derivative};
	const struct type *const from = derivative ? y : v, *const to = derivative ? v : y;
	int axis = 0;
	(void)op_transform_axis(op, attrs, v->shape.ndim, &axis);
	t.from = (struct side){.extent = from->shape.dim[axis], .unit = t.kind == FFT_TO_SPECTRUM ? 1 : 2};
	t.to = (struct side){.extent = to->shape.dim[axis], .unit = t.kind == FFT_TO_REAL ? 1 : 2};
	t.n = t.kind == FFT_TO_REAL ? t.to.extent : t.from.extent;
	t.from.used = t.kind == FFT_TO_REAL ? lesser(t.from.extent, t.n / 2 + 1) : t.n;
	t.to.used = t.kind == FFT_TO_SPECTRUM ? lesser(t.to.extent, t.n / 2 + 1) : t.n;
	t.odd = t.kind != FFT_PAIRS && t.n % 2;
	t.scale = scale_of(op, attrs, t.n);
	t.weight = !derivative || t.kind == FFT_PAIRS ? 1 : t.kind == FFT_TO_REAL ? 0.5 : 2;
	t.lines = t.behind = 1;
	for (int i = 0; i < v->shape.ndim - (op != OP_rfft); i++) {
		t.lines *= i == axis ? 1 : v->shape.dim[i];
		t.behind *= i > axis ? v->shape.dim[i] : 1;
	}
	t.size = (int64_t)dtype_size(v->dtype);
	t.plan = fft_plan_of(v->dtype, t.n, t.kind != FFT_PAIRS);
	t.panel_from = t.memory = t.plan.memory;
	if (t.plan.way == FFT_DIRECT || t.behind == 1)
		return t;
	const int64_t row = 2 * t.plan.abreast;
	t.panel_to = t.panel_from + round_up(PANEL * t.from.extent * t.from.unit, row);
	t.memory = t.panel_to + round_up(PANEL * t.to.extent * t.to.unit, row);
	return t;
}

int64_t fft_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *y, bool derivative,
                    bool member)
{
	struct type computed_v = *v, computed_y = *y;
	computed_v.dtype = dtype_compute(v->dtype);
	computed_y.dtype = dtype_compute(y->dtype);
	const struct transform t = transform_of(op, attrs, &computed_v, &computed_y, derivative);
	return ((member ? 0 : t.plan.prepared_end) + t.memory) * t.size;
}

static char *at(const struct transform *t, void *array, int64_t element) { return (char *)array + element * t->size; }

/* Returns the element of SIDE's array at which line LINE begins. */
static int64_t line_begins(const struct transform *t, const struct side *side, int64_t line)
{
	return (line / t->behind * side->extent * t->behind + line % t->behind) * side->unit;
}

/* Returns the elements of a block from one number of SIDE to the next: a real line of even length fills both parts. */
static int64_t block_step(const struct transform *t, const struct side *side)
{
	return side->unit == 2 || t->odd ? 2 * t->plan.abreast : t->plan.abreast;
}

/* A matrix of numbers of BYTES bytes: rows, and the numbers of one, so many bytes apart. */
struct grid {
	char *at;
	int64_t row, column;
};
/* Inlined, so that a copy of BYTES is one move. */
static inline __attribute__((always_inline)) void copy_grid(struct grid to, struct grid from, int64_t rows,
                                                            int64_t columns, const size_t bytes)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < columns; k++)
			memcpy(to.at + i * to.row + k * to.column, from.at + i * from.row + k * from.column, bytes);
}
static void copy_numbers(struct grid to, struct grid from, int64_t rows, int64_t columns, int64_t bytes)
{
	if (bytes == 4)
		copy_grid(to, from, rows, columns, 4);
	else if (bytes == 8)
		copy_grid(to, from, rows, columns, 8);
	else
		copy_grid(to, from, rows, columns, 16);
}

/* Copies the numbers of LINE between SIDE and lane LANE of BLOCK. */
static void copy_lane(const struct transform *t, const struct side *side, int64_t line, char *block, int lane)
{
	const struct grid array = {at(t, side->data, line_begins(t, side, line)), t->behind * side->unit * t->size,
	                           t->size};
	const struct grid lanes = {at(t, block, lane), block_step(t, side) * t->size, t->plan.abreast * t->size};
	if (side == &t->to)
		copy_numbers(array, lanes, side->used, side->unit, t->size);
	else
		copy_numbers(lanes, array, side->used, side->unit, t->size);
}

/* Copies COUNT lines from FIRST on, which are neighbours, between SIDE and BLOCK. */
static void copy_neighbours(const struct transform *t, const struct side *side, int64_t first, int count, char *block)
{
	const struct loops *const loops = t->call->kernels->loops;
	const int64_t row = t->behind * side->unit, step = block_step(t, side);
	const bool store = side == &t->to;
	char *const data = at(t, side->data, line_begins(t, side, first));
	if (side->unit == 2 && store)
		loops->fft_put(data, row, block, (size_t)side->used, count, false);
	else if (side->unit == 2)
		loops->fft_take(block, data, row, (size_t)side->used, count, false);
	else
		for (int64_t i = 0; i < side->used; i++) {
			char *const in = at(t, data, i * row), *const out = at(t, block, i * step);
			memcpy(store ? in : out, store ? out : in, (size_t)(count * t->size));
		}
}

/* Copies COUNT lines from FIRST on, whose elements are neighbours, between SIDE and BLOCK. */
static void copy_transposed(const struct transform *t, const struct side *side, int64_t first, int count, char *block)
{
	const int64_t step = side->unit == 2 ? t->plan.abreast : block_step(t, side), elements = side->used * side->unit;
	char *const data = at(t, side->data, first * side->extent * side->unit);
	if (side == &t->to)
		t->call->kernels->loops->transpose(data, side->extent * side->unit, block, step, elements, count);
	else
		t->call->kernels->loops->transpose(block, step, data, side->extent * side->unit, count, elements);
}

static void copy_lines(const struct transform *t, const struct side *side, int64_t first, int count, char *block)
{
	if (t->behind == 1)
		copy_transposed(t, side, first, count, block);
	else if (first % t->behind + count <= t->behind)
		copy_neighbours(t, side, first, count, block);
	else
		for (int lane = 0; lane < count; lane++)
			copy_lane(t, side, first + lane, block, lane);
}

/* Clears the numbers of COUNT lines of TO that have no meaning. */
static void clear_rest(const struct transform *t, int64_t first, int64_t count)
{
	const struct side *const to = &t->to;
	for (int64_t line = first; to->used < to->extent && line < first + count; line++)
		for (int64_t i = to->used; i < to->extent; i++)
			memset(at(t, to->data, line_begins(t, to, line) + i * t->behind * to->unit), 0,
			       (size_t)(to->unit * t->size));
}

/* Multiplies the first COUNT elements at DATA by FACTOR, a power of two. */
static void scale_elements(const struct transform *t, char *data, int count, double factor)
{
	const enum dtype dtype = t->call->kernels->dtype;
	for (int i = 0; i < count; i++)
		element_set(dtype, data, (size_t)i, element_get(dtype, data, (size_t)i) * factor);
}

/* Returns the scale of what fft.h computes. That of an odd length has the weight, and number 0 is divided by it. */
static double scale_of_all(const struct transform *t) { return t->odd ? t->scale * t->weight : t->scale; }

/* Makes COUNT lines from FIRST on, DIRECTly. */
static void transform_block(const struct transform *t, const struct fft *fft, int64_t first, int count)
{
	const struct fft_plan *const plan = &t->plan;
	const struct loops *const loops = fft->loops;
	char *const block = at(t, fft->memory, plan->work[0]), *const half_roots = at(t, fft->prepared, plan->half_roots);
	const int64_t row = 2 * plan->abreast, numbers = t->kind == FFT_TO_REAL ? plan->n + 1 : plan->n;
	if (count < plan->abreast || t->from.used < numbers || (t->odd && t->kind == FFT_TO_SPECTRUM))
		memset(block, 0, (size_t)(numbers * row * t->size));
	copy_lines(t, &t->from, first, count, block);
	if (t->kind == FFT_TO_REAL && t->odd) {
		loops->fft_mirror(block, t->n, true);
		scale_elements(t, block, plan->abreast, 1 / t->weight);
	} else if (t->kind == FFT_TO_REAL) {
		loops->fft_half(block, block, plan->n, half_roots, t->weight, true);
	}
	char *const done = fft_lines(fft, t->back, scale_of_all(t));
	if (t->kind == FFT_TO_SPECTRUM && t->odd) {
		scale_elements(t, done, plan->abreast, 1 / t->weight);
		memset(at(t, done, plan->abreast), 0, FFT_BYTES);
	} else if (t->kind == FFT_TO_SPECTRUM) {
		loops->fft_real(done, plan->n, half_roots, t->weight / 2, true);
	}
	copy_lines(t, &t->to, first, count, done);
	clear_rest(t, first, count);
}

/* Makes the spectrum TO of the real line FROM. */
static void transform_real(const struct transform *t, const struct fft *fft, char *to, const char *from)
{
	const struct fft_plan *const plan = &t->plan;
	char *const line = at(t, fft->memory, plan->line);
	/* TO may be too short for all numbers */
	char *const spectrum = t->odd || t->to.used < t->n / 2 + 1 ? line : to;
	if (t->odd) {
		memset(line, 0, (size_t)(2 * t->n * t->size));
		copy_numbers((struct grid){line, 2 * t->size, 0}, (struct grid){writable(from), t->size, 0}, t->n, 1, t->size);
	}
	fft_line(fft, spectrum, t->odd ? line : from, t->back, scale_of_all(t));
	if (t->odd) {
		scale_elements(t, spectrum, 1, 1 / t->weight);
		memset(at(t, spectrum, 1), 0, (size_t)t->size);
	} else {
		fft->loops->fft_real(spectrum, plan->n, at(t, fft->prepared, plan->half_roots), t->weight / 2, false);
	}
	if (spectrum != to)
		memcpy(to, spectrum, (size_t)(2 * t->to.used * t->size));
}

/* Makes the real line TO of the spectrum FROM. */
static void transform_spectrum(const struct transform *t, const struct fft *fft, char *to, const char *from)
{
	const struct fft_plan *const plan = &t->plan;
	char *const line = at(t, fft->memory, plan->line);
	memset(line, 0, (size_t)(2 * (t->n / 2 + 1) * t->size));
	memcpy(line, from, (size_t)(2 * t->from.used * t->size));
	if (!t->odd) {
		fft->loops->fft_half(line, line, plan->n, at(t, fft->prepared, plan->half_roots), t->weight, false);
		fft_line(fft, to, line, t->back, t->scale);
		return;
	}
	fft->loops->fft_mirror(line, t->n, false);
	scale_elements(t, line, 1, 1 / t->weight);
	fft_line(fft, line, line, t->back, scale_of_all(t));
	copy_numbers((struct grid){to, t->size, 0}, (struct grid){line, 2 * t->size, 0}, t->n, 1, t->size);
}

/* Makes a line TO, whose numbers are neighbours as are those of FROM. */
static void transform_line(const struct transform *t, const struct fft *fft, char *to, const char *from)
{
	if (t->kind == FFT_PAIRS)
		fft_line(fft, to, from, t->back, t->scale);
	else if (t->kind == FFT_TO_SPECTRUM)
		transform_real(t, fft, to, from);
	else
		transform_spectrum(t, fft, to, from);
}

/* Copies the numbers of COUNT neighbouring lines between SIDE and PANEL, where lines lie one after another. */
static void copy_panel(const struct transform *t, const struct side *side, int64_t first, int64_t count, char *panel)
{
	const int64_t bytes = side->unit * t->size;
	const struct grid array = {at(t, side->data, line_begins(t, side, first)), t->behind * bytes, bytes};
	const struct grid lines = {panel, bytes, side->extent * bytes};
	if (side == &t->to)
		copy_numbers(array, lines, side->used, count, bytes);
	else
		copy_numbers(lines, array, side->used, count, bytes);
}

/* Makes COUNT neighbouring lines from FIRST on. */
static void transform_panel(const struct transform *t, const struct fft *fft, int64_t first, int64_t count)
{
	char *const from = at(t, fft->memory, t->panel_from), *const to = at(t, fft->memory, t->panel_to);
	copy_panel(t, &t->from, first, count, from);
	for (int64_t k = 0; k < count; k++)
		transform_line(t, fft, at(t, to, k * t->to.extent * t->to.unit),
		               at(t, from, k * t->from.extent * t->from.unit));
	copy_panel(t, &t->to, first, count, to);
	clear_rest(t, first, count);
}

/* Pieces of work: blocks of lines, panels, or lines. */
static int64_t lines_of_piece(const struct transform *t)
{
	return t->plan.way == FFT_DIRECT ? t->plan.abreast : t->behind == 1 ? 1 : lesser(PANEL, t->behind);
}
static int64_t count_pieces(const struct transform *t)
{
	const int64_t lines = lines_of_piece(t);
	return t->plan.way == FFT_DIRECT ? ceil_div(t->lines, lines) : t->lines / t->behind * ceil_div(t->behind, lines);
}

static void transform_pieces(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct transform *const t = context;
	const int64_t lines = lines_of_piece(t), across = ceil_div(t->behind, lines);
	char *const tables = t->call->scratch;
	const struct fft fft = {&t->plan, t->call->kernels->loops, tables,
	                        memory ? memory : at(t, tables, t->plan.prepared_end)};
	fft_begin(&fft);
	for (int64_t piece = begin; piece < end; piece++) {
		if (t->plan.way == FFT_DIRECT) {
			transform_block(t, &fft, piece * lines, (int)lesser(lines, t->lines - piece * lines));
			continue;
		}
		const int64_t column = piece % across * lines, first = piece / across * t->behind + column;
		if (t->behind > 1) {
			transform_panel(t, &fft, first, lesser(lines, t->behind - column));
			continue;
		}
		transform_line(t, &fft, at(t, t->to.data, line_begins(t, &t->to, first)),
		               at(t, t->from.data, line_begins(t, &t->from, first)));
		clear_rest(t, first, 1);
	}
}

static void transform(const struct op_call *call, void *to, const void *from, bool derivative)
{
	struct transform t = transform_of(call->op, call->attrs, call->v, call->y, derivative);
	t.call = call;
	t.from.data = writable(from);
	t.to.data = to;
	char *const tables = call->scratch;
	fft_prepare(&(struct fft){&t.plan, call->kernels->loops, tables, at(&t, tables, t.plan.prepared_end)});
	const int64_t elements = greater(1, lines_of_piece(&t) * t.n);
	team_run(call->team, count_pieces(&t), greater(1, TEAM_PIECE / elements), transform_pieces, &t);
}

FORWARD(fft) { transform(call, y, v, false); }
VJP(fft) { transform(call, dv, g, true); }
FORWARD(ifft) { transform(call, y, v, false); }
VJP(ifft) { transform(call, dv, g, true); }
FORWARD(rfft) { transform(call, y, v, false); }
VJP(rfft) { transform(call, dv, g, true); }
FORWARD(irfft) { transform(call, y, v, false); }
VJP(irfft) { transform(call, dv, g, true); }
