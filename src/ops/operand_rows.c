/*
 * Products by an operand whose rows are read in blocks. A thread reads a block to its own memory, multiplies by it while
 * it is in the cache, and reads the next. A block that another core has written costs more than a read of the file.
 *
 * If the rows are those of B, a block has PRODUCT_DEPTH rows of B, whole ones unless they are long. Threads take the
 * blocks in order, and add a block to C strip by strip. Each strip waits until the block above has been added to it. So
 * all threads read and multiply at the same time, and C's sums have their order. B is multiplied where it lies. A thread
 * waits only for blocks that other threads have taken. So a team of any size ends.
 *
 * If B is transposed, the rows are its columns, and a block makes some columns of C. If C has few rows, packing the block
 * would cost too much. Then the thread multiplies the block, where it lies, by A', and transposes the result.
 *
 * The derivative by the operand is made in blocks of whole rows. Each block is written while it is in the cache.
 *
 * Invariant: the bits are those of a matrix in memory. PRODUCT_DEPTH products end a chain of additions of our kernel,
 * and OpenBLAS computes no product by blocks.
 * Tests: tests/unit/test_gemm.c
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

enum { BLOCK_BYTES = 4 << 20, BLOCKS_BYTES = 16 << 20, BLOCK_UNIT = 128, LEAST_BLOCKS = 4, COLUMN_UNIT = 32 };
/* Bytes of a block's row: many threads have short ones, so that all blocks are some MiB. */
enum { ROW_LEAST = 2 << 10, ROW_MOST = 16 << 10, ROWS_MOST = 64 << 10 };
/* Columns of a strip, the most of which A is packed for at once: threads wait for the first strip. */
enum { STRIP_LEAST = 128, STRIP_MOST = 384, STRIPS = 256 };

/* A block has ROWS rows of LENGTH elements, PITCH apart, and strips of STRIP columns; or C's transposed columns are after it. */
struct blocks {
	int64_t rows, length, pitch, strip;
	bool turned;
};
enum { TURNED_MOST = 256 }; /* rows of C */

/* Returns the least distance, in elements of SIZE bytes, of rows of LENGTH with a gap after each that share no set of the cache. */
static int64_t pitch_of(int64_t length, int64_t size)
{
	enum { SET_BYTES = 4096 };
	const int64_t bytes = round_up(length * size, TILE_BYTES) + TILE_BYTES;
	return (bytes % SET_BYTES ? bytes : bytes + TILE_BYTES) / size;
}

/*
 * Cuts a matrix of ROWS by COLUMNS, of SIZE bytes each, for a C of M rows. ACROSS: its rows are B's. Rows of a matrix of few are
 * cut, so that a block is small beside the matrix.
 */
static struct blocks cut_blocks(bool across, int64_t m, const int64_t dim[2], int64_t size, int threads)
{
	const int64_t rows = dim[0], columns = dim[1],
				  block =
					  lesser(lesser(BLOCK_BYTES, BLOCKS_BYTES / threads), rows * columns * size / (LEAST_BLOCKS + 1));
	if (!across) {
		const bool turned = m > 1 && m <= TURNED_MOST;
		return (struct blocks){greater(1, block / (BLOCK_UNIT * columns * size)) * BLOCK_UNIT, columns,
		                       turned ? pitch_of(columns, size) : columns, 0, turned};
	}
	const int64_t share = threads > 1 ? ceil_div(columns, 2 * threads) : columns;
	const int64_t fair = lesser(greater(share, STRIP_LEAST), STRIP_MOST);
	const int64_t strip = round_up(greater(fair, ceil_div(columns, STRIPS)), COLUMN_UNIT);
	const int64_t row = rows > (LEAST_BLOCKS + 1) * PRODUCT_DEPTH ? ROW_MOST : lesser(ROW_MOST, columns * size / 2);
	const int64_t most = lesser(row, greater(ROWS_MOST / threads, ROW_LEAST));
	const int64_t part = greater(1, most / (strip * size)) * strip, length = columns * size <= most ? columns : part;
	return (struct blocks){PRODUCT_DEPTH, length, pitch_of(length, size), strip, false};
}

int64_t product_rows_bytes(enum op op, enum product_part part, const struct type *v, const struct type *a, int threads)
{
	const struct shape *shape = &a->shape;
	const int64_t size = (int64_t)element_size(a->dtype), count = shape_count(&v->shape);
	if (product_rows(op, v, a) == 0 || shape->ndim < 2 || v->dtype != a->dtype || count == 0 || !gemm_is_own())
		return 0;
	const bool across = (op == OP_matmul) == (part == PART_RESULT);
	const int64_t *const dim = &shape->dim[shape->ndim - 2], m = count / v->shape.dim[v->shape.ndim - 1];
	const struct blocks blocks = cut_blocks(across, m, dim, size, threads);
	const int64_t bytes = blocks.rows * (blocks.pitch + (blocks.turned ? m : 0)) * size;
	if (dim[1] < 2 || (!across && dim[0] % blocks.rows == 1) || bytes > type_bytes(a) / greater(LEAST_BLOCKS, threads))
		return 0;
	return bytes;
}

struct streamed {
	const struct operand_rows *operand;
	enum dtype dtype;
	size_t size;
	struct product all;
	int64_t rows, columns; /* of the operand */
	struct blocks blocks;
	int64_t down, count;           /* blocks one below another; all */
	_Atomic int64_t next;          /* block to be taken */
	_Atomic int64_t added[STRIPS]; /* blocks that have been added to a strip of C */
	_Atomic bool failed;
};

/* Multiplies by PART, some columns of a transposed B, which is at BLOCK. */
static void multiply_columns(const struct streamed *s, const struct operand_part *part, void *block)
{
	const struct loops *loops = kernels_get(s->dtype)->loops;
	struct product p = s->all;
	p.b.data = block;
	p.b.ld = part->pitch;
	p.n = part->count;
	p.c = element_of(p.c, s->size, part->row);
	if (!s->blocks.turned) {
		gemm(s->dtype, &p);
		return;
	}
	void *const made = element_of(block, s->size, s->blocks.rows * s->blocks.pitch);
	loops->gemm(&(struct product){.m = p.n,
	                              .n = p.m,
	                              .k = p.k,
	                              .a = {block, part->pitch, false},
	                              .b = {p.a.data, p.a.ld, !p.a.transposed},
	                              .c = made,
	                              .ldc = p.m},
	            true);
	loops->transpose(p.c, p.ldc, made, p.m, p.n, p.m);
}

/* Waits until COUNT blocks have been added to STRIP. False if a block could not be read. */
static bool await_strip(struct streamed *s, int64_t strip, int64_t count)
{
	enum { LOOKS = 1000 }; /* before others may use the processor */
	for (int looks = 0; s->added[strip] < count && !s->failed; looks++)
		if (looks >= LOOKS)
			sched_yield();
	return !s->failed;
}

/* Adds the product by PART, some rows of B, which is at BLOCK, to C strip by strip. */
static void add_rows_of(struct streamed *s, const struct operand_part *part, void *block)
{
	const struct loops *loops = kernels_get(s->dtype)->loops;
	int64_t at[PRODUCT_DEPTH];
	for (int64_t i = 0; i < part->count; i++)
		at[i] = i * part->pitch;
	for (int64_t column = 0; column < part->length; column += s->blocks.strip) {
		const int64_t strip = (part->column + column) / s->blocks.strip, above = part->row / PRODUCT_DEPTH;
		struct product p = s->all;
		p.n = lesser(part->length - column, s->blocks.strip);
		p.k = part->count;
		p.a.data = element_at(p.a.data, s->size, p.a.transposed ? part->row * p.a.ld : part->row);
		p.b = (struct factor){element_at(block, s->size, column), part->pitch, false};
		p.c = element_of(p.c, s->size, part->column + column);
		p.accumulate |= above > 0;
		if (!await_strip(s, strip, above))
			return;
		if (p.m == 1)
			gemm(s->dtype, &p);
		else
			loops->gemm_apart(&p, at);
		s->added[strip] = above + 1;
	}
}

/* Takes a block, reads it to BLOCK and multiplies by it. False if none is left. */
static bool multiply_block(struct streamed *s, void *block)
{
	const struct blocks *b = &s->blocks;
	const int64_t i = s->next++;
	if (i >= s->count || s->failed)
		return false;
	const int64_t row = i % s->down * b->rows, column = i / s->down * b->length;
	const struct operand_part part = {row, lesser(s->rows - row, b->rows), column,
	                                  lesser(s->columns - column, b->length), b->pitch};
	if (!s->operand->read(s->operand->context, &part, block))
		s->failed = true;
	else if (s->all.b.transposed)
		multiply_columns(s, &part, block);
	else
		add_rows_of(s, &part, block);
	return true;
}

/* Takes a block of rows of the derivative, computes it at BLOCK and writes it. False if none is left. */
static bool write_block(struct streamed *s, void *block)
{
	const int64_t i = s->next++, row = i * s->blocks.rows;
	if (i >= s->count || s->failed)
		return false;
	const struct operand_part part = {row, lesser(s->rows - row, s->blocks.rows), 0, s->columns, s->columns};
	struct product p = s->all;
	p.c = block;
	p.m = part.count;
	p.a.data = element_at(p.a.data, s->size, p.a.transposed ? row : row * p.a.ld);
	kernels_get(s->dtype)->loops->gemm(&p, true);
	if (!s->operand->write(s->operand->context, &part, block))
		s->failed = true;
	return true;
}

/* READ multiplies by the operand, WRITE makes its derivative; NULL: that is not wanted. */
struct streams {
	struct streamed *read, *write;
};

/*
 * Takes blocks of both alternately until none is left. Neighbouring threads begin with different ones: threads that write to
 * one file at the same time wait for each other. A team_part.
 */
static void run_thread(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end MAYBE_UNUSED)
{
	const struct streams *s = context;
	const struct operand_rows *operand = (s->read ? s->read : s->write)->operand;
	void *const block = operand->blocks + begin * operand->bytes;
	bool reads = s->read, writes = s->write;
	for (bool odd = begin % 2; reads || writes; odd = !odd)
		if (odd)
			writes = writes && write_block(s->write, block);
		else
			reads = reads && multiply_block(s->read, block);
}

static struct streamed streamed_of(const struct op_call *call, enum product_part part, const void *const arrays[3],
                                   const struct operand_rows *a)
{
	struct streamed s = {.operand = a, .dtype = call->v->dtype, .size = element_size(call->v->dtype)};
	s.all = product_by_operand(call, part, arrays);
	if (part == PART_RIGHT) {
		s.columns = s.all.n;
		s.rows = s.all.m;
		const int64_t rows = lesser(BLOCK_BYTES, a->bytes) / (s.columns * (int64_t)s.size);
		s.blocks.rows = greater(1, rows > PRODUCT_STRIPE ? rows - rows % PRODUCT_STRIPE : rows);
		s.count = ceil_div(s.rows, s.blocks.rows);
		return s;
	}
	s.columns = s.all.b.ld;
	s.rows = s.all.b.transposed ? s.all.n : s.all.k;
	s.blocks =
		cut_blocks(!s.all.b.transposed, s.all.m, (const int64_t[2]){s.rows, s.columns}, (int64_t)s.size, a->threads);
	s.down = ceil_div(s.rows, s.blocks.rows);
	s.count = s.down * ceil_div(s.columns, s.blocks.length);
	return s;
}

bool product_from_rows(const struct op_call *call, void *y, const void *v, const struct operand_rows *a)
{
	struct streamed s = streamed_of(call, PART_RESULT, (const void *const[3]){v, NULL, y}, a);
	team_run(call->team, a->threads, 1, run_thread, &(struct streams){.read = &s});
	return !s.failed;
}

bool product_back_by_rows(const struct op_call *call, void *dv, const void *v, const void *g,
                          const struct operand_rows *a)
{
	struct streamed left = streamed_of(call, PART_LEFT, (const void *const[3]){dv, NULL, g}, a);
	struct streamed right = streamed_of(call, PART_RIGHT, (const void *const[3]){v, NULL, g}, a);
	struct streams streams = {dv ? &left : NULL, a->write ? &right : NULL};
	if (dv || a->write)
		team_run(call->team, a->threads, 1, run_thread, &streams);
	return !left.failed && !right.failed;
}
