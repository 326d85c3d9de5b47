/*
 * Runs joined launches on one block of lines after another. Where the first launch is a stack of products, a team's piece
 * is a matrix. Other pieces are numbers of lines that follow from the shapes alone.
 *
 * Scores of attention that a mask of -inf hides are not computed: they are 0 in place of finite numbers.
 * Tests: tests/cases/joined.test
 */
#include "evaluate/joined.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "compile/launch.h"
#include "ops/lines.h"

enum { MOST_BLOCKS = 64 };
struct joined {
	struct launch_run run;
	int64_t line, lines;          /* elements of a line; lines of a matrix, or all */
	int64_t block;                /* lines */
	bool masked;                  /* a mask hides products of the first launch */
	int64_t visible[MOST_BLOCKS]; /* if MASKED: how many of the first columns of each block of a matrix are computed */
};

/* Returns the largest absolute value of N > 0 elements; NaN if one is a NaN. */
static double bound_of(const struct loops *loops, const void *at, int64_t n)
{
	double largest, smallest;
	loops->largest(&largest, at, (size_t)n, 1);
	loops->smallest(&smallest, at, (size_t)n, 1);
	return isnan(largest) ? largest : fmax(fabs(largest), fabs(smallest));
}

/* Runs the launches from FROM on, of those that are joined, on LINES. */
static void run_from(const struct joined *j, void *memory, struct row_range lines, uint32_t from)
{
	for (uint32_t i = from; i <= j->run.launch->joined; i++) {
		struct launch_run run = j->run;
		run.launch += i;
		launch_run_rows(&run, memory, lines);
	}
}

/* Returns how many of the first elements of LINES of the mask AT have all of these that are not -inf. */
static int64_t visible_columns(const struct loops *loops, const char *at, int64_t n, int64_t lines)
{
	size_t visible = 0;
	for (int64_t i = 0; i < lines; i++) {
		const size_t shown = loops->shown(element_at(at, element_size(loops->dtype), i * n), (size_t)n);
		visible = shown > visible ? shown : visible;
	}
	return (int64_t)visible;
}

/* Sets what the mask shows of each block of a matrix: whole register tiles. All of it if there are too many blocks. */
static void find_visible(struct joined *j, const struct loops *loops)
{
	enum { UNIT = 32 };
	const uint32_t mask = j->run.launch->mask;
	const size_t line = (size_t)j->line * element_size(loops->dtype);
	j->masked = mask != NO_VALUE && ceil_div(j->lines, j->block) <= MOST_BLOCKS;
	for (int64_t at = 0; j->masked && at < j->lines; at += j->block) {
		const int64_t count = lesser(j->block, j->lines - at);
		const int64_t visible = visible_columns(loops, j->run.frame[mask] + (size_t)at * line, j->line, count);
		j->visible[at / j->block] = lesser(j->line, round_up(visible, UNIT));
	}
}

/* A matrix of the first launch, from line FIRST of all on. */
struct matrix {
	const struct joined *j;
	void *memory;
	int64_t first;
	struct product product;
	size_t size; /* of an element */
	const struct loops *loops;
	double right_bound; /* of the right factor's elements, if there is a mask */
};

/* True if no product with the COUNT lines from FIRST on can be other than finite, also where it is scaled. */
static bool is_bounded(const struct matrix *m, int64_t first, int64_t count)
{
	const struct instr *scale = m->j->run.launch->scale;
	const double limit = m->loops->dtype == DTYPE_F64 ? DBL_MAX : (double)FLT_MAX;
	const void *at = (const char *)m->product.a.data + (size_t)(first * m->product.a.ld) * m->size;
	double factor = 1;
	if (scale)
		factor = scale->own_scalar == NO_VALUE ? scale->scalar : m->j->run.own->scalars[scale->own_scalar];
	factor = fabs(scale && scale->op == OP_div ? 1 / factor : factor);
	const double most = bound_of(m->loops, at, count * m->product.k) * m->right_bound * (double)m->product.k;
	return most * fmax(factor, 1) < limit / 4 && isfinite(factor);
}

/* Returns how many columns of the products are computed. The mask hides the others, which are 0. */
static int64_t shown_columns(void *context, int64_t first, int64_t count)
{
	const struct matrix *m = context;
	const int64_t n = m->j->line, columns = m->j->masked ? m->j->visible[first / m->j->block] : n;
	if (columns == n || !is_bounded(m, first, count))
		return n;
	for (int64_t i = first; i < first + count; i++)
		memset((char *)m->product.c + (size_t)(i * n + columns) * m->size, 0, (size_t)(n - columns) * m->size);
	return columns;
}

static void run_after_product(void *context, int64_t first, int64_t count)
{
	const struct matrix *m = context;
	run_from(m->j, m->memory, (struct row_range){m->first + first, count}, 1);
}

/* Runs all launches on the matrix that begins at line FIRST. */
static void run_matrix(const struct joined *j, void *memory, int64_t first)
{
	const struct launch *launch = j->run.launch;
	const struct forward_types *of = &launch->instr->of;
	char *const *frame = j->run.frame;
	const struct op_call call = {.op = launch->instr->op, .v = of->v, .a = of->a, .y = of->y};
	struct matrix m = {.j = j,
	                   .memory = memory,
	                   .first = first,
	                   .size = dtype_size(of->v->dtype),
	                   .loops = j->run.kernels[of->v->dtype == DTYPE_F64]->loops};
	m.product = product_of_matrix(&call, frame[launch->out], frame[launch->needs[0]], frame[launch->needs[1]],
	                              first / j->lines);
	if (j->masked)
		m.right_bound = bound_of(m.loops, m.product.b.data, m.product.k * m.product.n);
	m.loops->gemm_blocks(&m.product, &(struct row_blocks){j->block, shown_columns, run_after_product, &m});
}

/* A team_part, of lines. Those of products are one matrix. */
static void run_lines(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct joined *j = context;
	if (op_is_product(j->run.launch->instr->op))
		for (; begin < end; begin += j->lines)
			run_matrix(j, memory, begin);
	for (; begin < end; begin += j->block)
		run_from(j, memory, (struct row_range){begin, lesser(j->block, end - begin)}, 0);
}

bool joined_run(const struct launch_run *run, struct team *team)
{
	/* Of an array, in a block. MOST_LINES are whole PRODUCT_STRIPEs. */
	enum { BLOCK_BYTES = 192 << 10, MOST_LINES = 96 };
	const struct instr *instr = run->launch->instr;
	const struct shape *y = &instr->of.y->shape;
	const bool products = op_is_product(instr->op);
	if (products && !gemm_is_own())
		return false;
	struct joined j = {.run = *run, .line = y->dim[y->ndim - 1]};
	const int64_t all = shape_count(y) / j.line, fit = BLOCK_BYTES / (j.line * (int64_t)dtype_size(instr->of.v->dtype));
	j.run.lines = all;
	j.lines = products ? y->dim[y->ndim - 2] : all;
	j.block = products ? MOST_LINES : greater(lesser(fit, MOST_LINES), 1);
	if (products)
		find_visible(&j, run->kernels[instr->of.v->dtype == DTYPE_F64]->loops);
	team_run(team, all, products ? j.lines : round_up(TEAM_PIECE / j.line + 1, j.block), run_lines, &j);
	return true;
}
