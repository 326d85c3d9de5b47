/*
 * The right rows of a window's arrays, where ranks exchange the rows around their tiles (plan/tiles.h).
 *
 * A tile's own rows are always right. An array has also some right rows on either side, as many as are counted here.
 * A launch that reads V rows around a row leaves V fewer of them than it reads. Before a launch would make own rows
 * wrong, ranks send one another the rows of the array that it reads around a row. So all arrays of a worker may lie in
 * the slab as in any other window, and neither the machine nor the compiler knows of the exchange.
 *
 * Invariant: all ranks run the same launches on arrays at the same offsets. So they count the same rows, and exchange
 * the same arrays at the same launches. An array at an end of the whole is counted as if rows followed there.
 * Measured costs would give ranks different schedules, so with them no rows are exchanged (struct tile_wants, alike).
 *
 * A sum over rows goes by blocks of a tile (struct tiles, sum_block), also if one process has the whole array. Each
 * rank adds its blocks to the state of the ranks before it. The last rank adds the sum to the gradient of a param. A
 * loss goes from rank to rank in the same way, by its own pieces.
 */
#ifndef EVALUATE_NEIGHBOURS_H
#define EVALUATE_NEIGHBOURS_H

#include "compile/launch.h"
#include "plan/tiles.h"
#include "ranks/ranks.h"

struct wave;

enum { NEIGHBOURS_ARRAYS = 4096 };

struct neighbours {
	const struct ranks *ranks;
	const struct tiles *tiles;
	int64_t tile_row; /* the first row of this rank's tile */
	/*
	 * A worker's slab, and its blocks for a chunk. An array has the same offset there on all ranks, but not the same
	 * address. Whatever lies elsewhere has all its rows, as params do.
	 */
	struct counted_memory {
		const char *begin;
		int64_t size; /* bytes */
	} memory[2];
	struct wave *wave;
	/*
	 * By a hash of the offset: the right rows of the last array that was written there. All others have none. The
	 * blocks' offsets follow those of the slab.
	 */
	struct right_rows {
		int64_t offset, rows;
	} arrays[NEIGHBOURS_ARRAYS];
};

/* Begins the tile from row TILE_ROW on, of which no array is counted yet. */
void neighbours_begin(struct neighbours *n, int64_t tile_row);
/*
 * Records that ARRAY has been written elsewhere than by a launch. Each hook that writes an array of the slab calls
 * it. ARRAY has all rows of the window if RIGHT, else its own alone.
 */
void neighbours_written(struct neighbours *n, const void *array, bool right);
/* Says that array TO is a copy of FROM. */
void neighbours_copied(struct neighbours *n, const void *to, const void *from);
/*
 * Of a sum over all rows. The first sets STATE, SIZE bytes, to that of the ranks before this one, and *HAVE to true unless
 * this is the first. The second passes STATE on to the next rank, if there is one. They fail with STATUS_OTHER_RANK.
 */
enum status neighbours_get_state(struct neighbours *n, double *state, size_t size, bool *have);
enum status neighbours_pass_state(struct neighbours *n, const double *state, size_t size, bool *passed);
/*
 * Comes before LAUNCH of PROGRAM, whose arrays FRAME has: exchanges what it needs, and counts what it leaves. Fails with
 * STATUS_OTHER_RANK. N may be NULL in these three.
 */
enum status neighbours_launch(struct neighbours *n, const struct program *program, const struct launch *launch,
                              char *const *frame);

#endif
