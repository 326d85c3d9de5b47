/*
 * Ordered values: the state of a fold, and the sums of params. A value passes along the chunks of an array in their order.
 * Each chunk adds to what the chunk before has left.
 *
 *     ordered_begin(turn, value, place)    waits until the chunk before has left the value
 *     ...                                  the chunk adds to it, in the value's memory
 *     ordered_end(turn, value, place)      leaves it to the next chunk
 *
 * So the additions have the order, and the bits, of one worker that runs all chunks. How a value gets from a chunk to the
 * next is its carrier's, a row of a table in ordered.c. Others ask for SHARED alone: such a value is not collected.
 */
#ifndef EXEC_ORDERED_H
#define EXEC_ORDERED_H

#include "evaluate/evaluate.h"
#include "ranks/ranks.h"

/* How much of a value passes at a time. PLACE is NULL, but for ADDITIONS and PIECES. */
enum ordered_unit {
	ORDERED_NEVER,     /* one chunk alone has it */
	ORDERED_WHOLE,     /* all of it, at ordered_end */
	ORDERED_ADDITIONS, /* all of it, after the last of a chunk's additions: when ordered_end_chunk is called */
	/*
	 * The elements of an addition. Every chunk makes the same additions, in the same order, and an element once at most. So
	 * the Nth addition of a chunk follows the Nth of the chunk before, while later ones of that chunk are still to come.
	 */
	ORDERED_PIECES,
};

struct ordered_value {
	enum ordered_unit unit;
	size_t bytes, element; /* of HEADS; ELEMENT divides BYTES */
	char *heads, *tails;   /* TAILS: half as many bytes, or NULL */
	bool in_shared;        /* HEADS and TAILS lie in memory that the caller gets from ordered_open, if it gets any */
	const struct ordered_carrier *carrier;
};

/* The values of a run. Worker I of rank R runs the chunks whose number modulo RANKS * WORKERS is R + RANKS * I. */
struct ordered {
	/* Set by the caller, before ordered_open. */
	const struct ranks *ranks; /* that share the chunks; NULL: this process has all of them */
	int workers;               /* of each rank */
	const int64_t *begun; /* chunks of the current sweep that an earlier run has done: *BEGUN has no chunk before it */
	struct ordered_value *values;
	uint32_t count;
	/* Private, but for SHARED, which others read. */
	bool shared;    /* all ranks share the board, and values that are IN_SHARED */
	bool additions; /* some values pass with their additions */
	struct ordered_board *board;
	int64_t before, chunks; /* chunks of all sweeps before the current one, and of this */
};

/* Where a worker is among the chunks. */
struct ordered_turn {
	struct ordered *ordered;
	struct arena *arena;
	struct diags *diags; /* of the current chunk */
	int64_t chunk;
	int64_t *made;      /* by value: the additions of CHUNK so far */
	enum status status; /* of the chunk's additions: a failure of one fails those that follow */
	char *piece;        /* on its way in a message, PIECE_SIZE bytes at most */
	size_t piece_size;
	struct turns additions; /* for struct evaluation */
};

/*
 * Chooses the carrier of each value. If ranks of one machine share the chunks and IN_SHARED is not negative, sets *MEMORY to
 * so many bytes of zeros, aligned as arrays are, that they share. Else, and if memory is short, to NULL. All ranks call it.
 */
enum status ordered_open(struct ordered *ordered, const struct context *context, int64_t in_shared, void **memory);
/* Begins another sweep over CHUNKS chunks: those of an array, or of a pass over it. No worker runs. */
void ordered_begin_sweep(struct ordered *ordered, int64_t chunks);
/* TURN lives as long as ARENA. Fails if memory is short. */
bool ordered_open_turn(struct ordered_turn *turn, struct ordered *ordered, struct arena *arena);
/* The worker runs CHUNK from now on, and reports what fails to DIAGS. */
void ordered_begin_chunk(struct ordered_turn *turn, int64_t chunk, struct diags *diags);
/* The worker makes no more additions. Returns turn->status. Values that are WHOLE may still follow. */
enum status ordered_end_chunk(struct ordered_turn *turn);
/* As the head says. They fail with STATUS_OTHER_RANK if the value does not come, since a worker or a rank has failed. */
enum status ordered_begin(struct ordered_turn *turn, uint32_t value, const struct sum_place *place);
enum status ordered_end(struct ordered_turn *turn, uint32_t value, const struct sum_place *place);
/* Worker INDEX of this rank has failed: whoever waits for its chunks fails. Other ranks learn it by ranks_fail. */
void ordered_fail(struct ordered *ordered, int index);
/* Returns the calls that order the additions of a program to value I, the gradient of param I; NULL: nobody else adds. */
const struct turns *ordered_additions(const struct ordered_turn *turn);

#endif
