/*
 * How an array is cut along its streamed axis. Forward runs and gradients have the same tiles where both sum over that
 * axis. A tile is the rows that a program or a schedule runs on. A chunk is the tiles that a worker reads, computes and
 * writes at a time.
 *
 *     rows     |------------------------------------------|
 *     chunks   |------------|------------|------------|---|
 *     tiles    |---|---|---||---|---|---||---|---|---||---|
 *
 * Where operations read neighbouring rows, a tile runs on its window: its rows, and rows around it. All windows have
 * equally many rows. The first and the last ones begin and end with the array or, if the chain goes around its ends,
 * do so too. Operations run on a window as on a whole array. So rows near its ends may be wrong, unless the array ends
 * there; those of the tile are right. Sums, outputs and gradients take the rows of the tile alone.
 *
 *     rows     |---------------------------------------|
 *     tiles    |-------|-------|-------|-------|-------|
 *     windows  [-------.---]
 *                  [---.-------.---]
 *                          [---.-------.---]
 *
 * In a forward run whose rows are read and written in any order, or by one thread, the tiles of a chunk carry rows
 * (exec/carried.c): each goes on where the one before it ended, and the rows around the chunk alone are computed twice.
 *
 * If the stages together read so many rows around a row that windows would be most of the array, several ranks have one
 * tile each. Its window is less deep than the stages reach. The ranks beside it have the rows around the tile, and send
 * those of a value whenever too few of them are right (evaluate/neighbours.h). In a gradient, sums over rows go by blocks
 * of a tile, also in the array that one process has whole. In a forward run there are none.
 */
#ifndef PLAN_TILES_H
#define PLAN_TILES_H

#include "ir/lower.h"

/* What decides the cut, besides the chain and its types. */
struct tile_wants {
	int64_t rows; /* --tile ROWS, or 0 */
	int threads;
	int ranks; /* processes that share the chunks (ranks/ranks.h), each with so many threads; 0: one */
	/* A forward run: the input can be read, and the output written, in any order. */
	bool read_anywhere, write_anywhere;
	bool carries;  /* its tiles may carry rows */
	int64_t depth; /* the fewest rows that two windows then have in common; 0: not known yet */
	/* A gradient: SUMS of params go over the tiles. If ORDERED, a tile waits for additions of the tile before. */
	bool gradient, sums, ordered;
	bool value;    /* the gradient's output is wanted */
	bool alike;    /* all ranks make the same calls, as they must to exchange rows */
	int64_t apart; /* bytes of the sums that each tile makes apart */
	int64_t block; /* of a gradient in passes: the rows of the forward run's blocks; else 0 */
	int64_t whole; /* the most bytes of an array that stays whole rather than be cut in windows; 0: the default */
};

struct tiles {
	bool tiled;                    /* false: one chunk and one tile, the whole array */
	bool flat;                     /* rows are elements */
	bool folds;                    /* a tile leaves states of folds over rows (ir/levels.h) */
	int64_t state;                 /* doubles of these states, the most of a pass; 0 if tiles do not fold */
	int passes;                    /* number of times that a run reads the input; 0 if it is not tiled */
	int64_t block;                 /* rows of a block, if folds go by blocks; else 0 */
	int64_t rows;                  /* of the streamed axis, or elements; 1 where not tiled */
	int64_t tile;                  /* rows of a tile; 1 where not tiled */
	int64_t rest;                  /* rows of the last tile if it has fewer; else 0 */
	int64_t per_chunk;             /* tiles of a chunk; the last chunk may have fewer */
	int64_t input_row, output_row; /* bytes of a row, of the whole array if not tiled; OUTPUT_ROW may be 0 */
	int64_t gradient_row;          /* of a gradient: bytes of its row, likewise */
	int64_t other_rows;            /* bytes of the rows of all other inputs that tiles cut */
	bool windows;                  /* a tile runs on a window; a chunk is one tile unless CARRIES, and REST is 0 */
	bool carries;                  /* the tiles of a chunk carry rows: only the chunk has rows around it */
	bool wraps;                    /* windows go around the ends of the array */
	int64_t window;                /* rows of a window; without windows those of a tile */
	int64_t before;                /* rows of a window before its tile, away from the ends of the array */
	int64_t after;                 /* rows that a chunk of tiles that carry rows reads after its own */
	int64_t exchanged;             /* rows that ranks send one another of a value of these windows, or 0: see below */
	int64_t sum_block;             /* rows of a block of sums over rows, if these windows could be exchanged; else 0 */
	int64_t outputs;               /* rows of the output; without windows as many as of the input */
	struct because because;        /* why the array is one tile, or none; without a reason if it is cut, or small */
	int workers;                   /* the workers of each rank: 1 or more, at most its threads and its chunks */
};

/*
 * Sets TILES to the cut of the input of WHOLE. LOWER_RUN has made WHOLE, or it has been given levels, for a gradient in
 * passes. If the input cannot be cut, tiles->tiled is false.
 */
void tiles_cut(struct tiles *tiles, const struct lowered *whole, const struct tile_wants *wants);
/* Returns the rows of a block of the folds of WHOLE, which has levels. Its windows own so many rows. */
int64_t tiles_block(const struct lowered *whole, const struct tile_wants *wants);
/* Returns how many of THREADS share each operation: one if several workers share the tiles. */
static inline int tiles_members(const struct tiles *tiles, int threads) { return tiles->workers > 1 ? 1 : threads; }
/* Sets TILES to leave the input of WHOLE, of any lowering, in one piece. */
void tiles_keep_whole(struct tiles *tiles, const struct lowered *whole);
/* True if a tile is the whole input of WHOLE in its own shape: then it needs no lowering of its own. */
bool tiles_are_whole(const struct tiles *tiles, const struct lowered *whole);
int64_t tiles_chunks(const struct tiles *tiles);
/* Return the rows, and the number of tiles, of chunk CHUNK. The last chunk may have fewer than the others. */
int64_t tiles_rows_of(const struct tiles *tiles, int64_t chunk);
int64_t tiles_of(const struct tiles *tiles, int64_t chunk);
/* The rows of a value that a tile owns: COUNT rows of the tile's array, from row FIRST on. */
struct owned_rows {
	int64_t first, count;
};
/* Returns the first row of the window of the tile that begins at row FIRST; FIRST without windows. */
int64_t tiles_window_begin(const struct tiles *tiles, int64_t first);
/* Returns the rows that the tile from row FIRST on owns of a value that has ROWS rows in the tile's window. */
struct owned_rows tiles_owned(const struct tiles *tiles, int64_t first, int64_t rows);
/* Returns the rows of the output that chunk CHUNK owns. FIRST is in the tile's array if tiles have windows, else 0. */
struct owned_rows tiles_owned_output(const struct tiles *tiles, int64_t chunk);
/* Returns the rows of windows around their tiles, or of chunks of tiles that carry rows, both sides together. */
static inline int64_t tiles_halo(const struct tiles *tiles)
{
	return tiles->carries ? tiles->before + tiles->after : tiles->windows ? tiles->window - tiles->tile : 0;
}
/* True if launches on TILES may wait in a wave. Tiles of rows do not need it: they are made to fit the cache. */
static inline bool tiles_wave(const struct tiles *tiles) { return !tiles->tiled || tiles->windows; }
/* Returns the bytes of the messages of rows that wait at once on a rank: one each way on either side. */
static inline int64_t tiles_message_bytes(const struct tiles *tiles) { return 4 * tiles->exchanged * tiles->input_row; }
/* Returns the bytes of a row of param I, in memory, if it is an input after the first that tiles cut; else 0. */
int64_t tiles_other_row(const struct tiles *tiles, const struct lowered *whole, size_t i);
/* Returns the bytes of a chunk's blocks of these inputs, of which each begins at a multiple of ARRAY_ALIGN. */
int64_t tiles_other_bytes(const struct tiles *tiles, const struct lowered *whole);
/* Returns the bytes of the rows of params that a window around the end of the array reads; 0 if no window does. */
int64_t tiles_param_bytes(const struct tiles *tiles, const struct lowered *whole);
/* Return the rows of a chunk's blocks of input and output. The output's have those of the window in a forward run. */
int64_t tiles_input_rows(const struct tiles *tiles);
int64_t tiles_value_rows(const struct tiles *tiles, bool gradient);
/*
 * True if CHAIN begins with a slice, of step 1, of rows of its input, of type INPUT, and uses neither the other rows
 * nor their number. Then *ROWS, at least one, are all rows that the run reads, and the first stage need not run.
 */
bool tiles_first_slice(const struct chain *chain, const struct type *input, struct slice *rows);

#endif
