/*
 * Decides the block of sums. It must depend on nothing but the chain and its
 * types: the bits of every sum over the streamed axis follow from it.
 */
#include "plan/tile.h"

/* Products go by stripes of up to 12 rows, and by blocks of 120 or 60 (ops/gemm_template.h). */
enum { TILE_BYTES = 1024 << 10, MATMUL_TILE_BYTES = 4 << 20, MATMUL_ROWS = 120, MATMUL_MOST_ROWS = 480 };

/* Whether a row's bits depend on the rows beside it. dot is never cut into rows. */
static bool multiplies(const struct instr *instr)
{
	return instr->kind == INSTR_OP && op_is_product(instr->op) && instr->op != OP_dot;
}

bool tile_multiplies(const struct body *body)
{
	for (size_t i = 0; i < body->instr_count; i++)
		if (multiplies(&body->instrs[i]))
			return true;
	return false;
}

void tile_measure(struct tile_row *row, const struct body *body)
{
	double turns[MAX_LOOP_LEVELS + 1] = {1};
	int level = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP && level < MAX_LOOP_LEVELS) {
			turns[level + 1] = turns[level] * (double)instr->turns;
			level++;
		} else if (instr->kind == INSTR_END && level > 0) {
			level--;
		}
		row->products |= multiplies(instr);
		if (instr->out != NO_VALUE && body->values[instr->out].streamed)
			row->bytes += turns[level] * (double)type_bytes(body->values[instr->out].type);
	}
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
	int64_t least = row->products ? MATMUL_ROWS : row->flat ? 512 : 1;
	int64_t most = row->products ? MATMUL_MOST_ROWS : 1 << 16;
	int64_t block = rows > (double)most ? most : (int64_t)rows;
	if (block < least)
		block = least;
	int64_t unit = row->products ? MATMUL_ROWS : row->flat ? 512 : block > 8 ? 8 : 1;
	return block / unit * unit;
}

/* What each tile reads anew. */
static double weights_of(const struct lowered *whole)
{
	double bytes = 0;
	for (size_t i = 0; i < whole->chain->param_count; i++)
		if (!whole->streamed_params[i])
			bytes += (double)type_bytes(&whole->chain->params[i].type);
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
