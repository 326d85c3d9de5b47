/*
 * Decides the block of sums. It must depend on nothing but the chain and its
 * types: the bits of every sum over the streamed axis follow from it.
 */
#include "plan/tile.h"

#include "ops/general.h"
#include "ops/loops.h"

/* Products go by blocks of 10 or 5 stripes, by type (ops/gemm_template.h). */
enum {
	TILE_BYTES = 1024 << 10,
	MATMUL_TILE_BYTES = 4 << 20,
	MATMUL_ROWS = 10 * PRODUCT_STRIPE,
	MATMUL_MOST_ROWS = 40 * PRODUCT_STRIPE,
};

static int64_t matrix_rows(const struct body *body, const struct instr *instr)
{
	if (instr->kind != INSTR_OP || !op_is_product(instr->op) || !body->values[instr->out].streamed)
		return 0;
	return product_rows(instr->op, body->values[instr->v].type, body->values[instr->a].type);
}

bool tile_multiplies(const struct body *body)
{
	for (size_t i = 0; i < body->instr_count; i++)
		if (matrix_rows(body, &body->instrs[i]) > 0)
			return true;
	return false;
}

void tile_measure(struct tile_row *row, const struct body *body)
{
	double iterations[MAX_LOOPS + 1] = {1};
	int level = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP && level < MAX_LOOPS) {
			iterations[level + 1] = iterations[level] * (double)instr->loop.iterations;
			level++;
		} else if (instr->kind == INSTR_END && level > 0) {
			level--;
		}
		const int64_t rows = matrix_rows(body, instr);
		if (rows > 0 && (row->matrix_rows == 0 || rows < row->matrix_rows))
			row->matrix_rows = rows;
		row->products |= instr->kind == INSTR_OP && op_is_product(instr->op);
		if (instr->out != NO_VALUE && body->values[instr->out].streamed)
			row->bytes += iterations[level] * (double)type_bytes(body->values[instr->out].type);
	}
}

int64_t tile_rows_of_products(const struct tile_row *row, int64_t rows)
{
	return row->matrix_rows ? (rows - 1) / row->matrix_rows + 1 : 0;
}

/*
 * Rows of a block of sums: a function of the chain and its types alone. What is
 * made of a block is to stay in the second-level cache; where products read
 * weights that do not, it is as much as twice them, which a tile reads and whose
 * gradients it adds up.
 */
static int64_t tile_block(const struct tile_row *row)
{
	double bytes = !row->products                         ? TILE_BYTES
	               : 2 * row->weights > MATMUL_TILE_BYTES ? 2 * row->weights
	                                                      : MATMUL_TILE_BYTES;
	double rows = bytes / (row->bytes > 1 ? row->bytes : 1);
	const int64_t few = tile_rows_of_products(row, MATMUL_ROWS);
	const int64_t least = few ? few : row->flat ? 512 : 1;
	const int64_t most = few ? tile_rows_of_products(row, MATMUL_MOST_ROWS) : 1 << 16;
	int64_t block = rows > (double)most ? most : (int64_t)rows;
	if (block < least)
		block = least;
	const int64_t unit = few || row->flat ? least : block > 8 ? 8 : 1;
	return block / unit * unit;
}

/* What each tile reads anew. */
static double weights_of(const struct lowered *whole)
{
	double bytes = 0;
	for (size_t i = 0; i < whole->chain->param_count; i++) {
		const struct type type = param_type(&whole->chain->params[i], &whole->input);
		if (!whole->streamed_params[i])
			bytes += (double)type_bytes(&type);
	}
	return bytes;
}

int64_t tile_block_of(const struct lowered *whole, int64_t rows)
{
	struct tile_row row = {
		.bytes = 2.0 * (double)type_bytes(&whole->input), .weights = weights_of(whole), .flat = whole->flat};
	tile_measure(&row, whole->whole);
	if (row.bytes == 0) /* rows of nothing, however many */
		return rows > 0 ? rows : 1;
	row.bytes /= rows > 0 ? (double)rows : 1;
	return tile_block(&row);
}
