/*
 * The rows that a run reads and writes.
 *
 *     rows_in.c    the input: chunks, windows, and copies of a stream that is read more than once
 *     rows_out.c   the outputs: the value, and the gradient of the input
 *     exchange.c   the arrays that the machine exchanges in a gradient: those, and the cotangent
 *
 * Chunks go between the stream and a worker's blocks, in order or, in files, in any order.
 */
#ifndef EXEC_ROWS_H
#define EXEC_ROWS_H

#include "evaluate/slab.h"
#include "io/files.h"
#include "io/input_copy.h"
#include "io/spill.h"
#include "memory/hooks.h"
#include "plan/tiles.h"

struct elements;
struct run;
struct worker;

/* How the rows of an input are read: all, or (PART; of the first input alone) the slice that the chain begins with. */
struct rows_in {
	struct reader *from;
	int64_t row;      /* bytes of a row in memory, */
	enum dtype dtype; /* where it has this computing type */
	size_t param;     /* of an input after the first */
	/* In a worker: where the chunk's rows lie in its block OTHERS and, from GRADIENT on, those of the gradient. */
	int64_t at, gradient;
	bool began_anywhere;      /* ANYWHERE as it was before the first of several passes */
	struct input_stamp stamp; /* before the first pass */
	bool part;
	int64_t first;          /* the first element that is read */
	bool anywhere;          /* in any order; else in their order, one after another */
	struct input_copy copy; /* of an array that the stream gives once and in order; fd -1: there is none */
	int last_reader; /* of a stream of windows: the worker whose input block has the last window; guarded by the pipeline */
};

/*
 * The outputs of a run, in the order in which they are written. A forward run has no GRADIENT, and may have several values: the
 * outs of its body.
 */
enum output_index { OUTPUT_GRADIENT, OUTPUT_VALUE, OUTPUTS = OUTPUT_VALUE + MOST_VALUES };
struct run_output {
	struct writer *writer;   /* NULL: it is not wanted */
	const struct type *type; /* of the array */
	int64_t row;             /* bytes of a row; 0: it has no rows, since a fold makes it */
};

/*
 * Begins the array: sets ANYWHERE of each input. A forward run reads a stream up to its part. A stream of which windows go around
 * the ends is copied to an unnamed file.
 */
enum status rows_in_begin_array(struct run *run);
/*
 * Lists run->others: the inputs after the first that tiles cut. Comes after the plan. Fails with STATUS_USAGE if ranks or a
 * journal cannot have them.
 */
enum status rows_in_open(struct run *run);
/* True if run->others has param I: its rows are read, and those of its gradient written, as the first input's are. */
bool rows_in_cuts(const struct run *run, size_t i);
/* Loads the current arrays of the inputs that tiles do not cut, or of all if the plan is not made yet, and checks them. */
enum status rows_in_load_others(struct run *run);
/* True if each input is read in any order. */
bool rows_in_anywhere(const struct run *run);
/* Begin and end the run's current pass over the array, and the passes together: fails if a file was changed meanwhile. */
void rows_in_begin_pass(struct run *run, bool again);
void rows_in_end_pass(struct run *run);
enum status rows_in_end_passes(struct run *run);
/* Lets the array be read TIMES times: a stream, or a file that is written over, is copied in the first of them. */
enum status rows_in_begin_passes(struct run *run, uint32_t times);
/* The pipeline's read; CONTEXT is the run. Reads CHUNK, with its window, to the input block of worker INDEX, if there is one. */
enum status rows_in_read_chunk(void *context, int index, int64_t chunk, struct diags *diags);
/* Reads COUNT rows from row FIRST on, around the ends of the array, to TO. */
enum status rows_in_read(struct run *run, int64_t first, int64_t count, char *to, struct diags *diags);
/* Lets the worker's streamed params have the rows of its window, if that goes around the end of the array; inputs always. */
void rows_in_aim_params(struct worker *worker);
/* Counts the bytes of the copy, if the array had one, closes it, and moves a stream to the next array. */
enum status rows_in_end_array(struct run *run);

/* Returns the number of values that RUN makes. */
size_t rows_out_values(const struct run *run);
/* Returns the bytes of a row of value K; 0 if it has no rows. */
int64_t rows_out_row(const struct run *run, size_t k);
/* Sets run->outputs, of a run that has a plan. */
void rows_out_open(struct run *run);
/* Sets run->write_anywhere. A forward run without passes begins its output. */
enum status rows_out_begin_array(struct run *run);
enum status rows_out_begin(struct run *run, struct diags *diags);
/* Directs the gradients of inputs after the first, of which tiles have rows, to the worker's blocks; zeros these blocks. */
void rows_out_aim_others(struct worker *worker);
void rows_out_begin_others(struct worker *worker);
/* Copies to OUTPUT's block the rows that the worker's tile owns of FROM, an array of TYPE on the tile's window. NULL: zeros. */
void rows_out_take(const struct worker *worker, enum output_index output, const char *from, const struct type *type);
/* Returns where the rows of the worker's tile begin in OUTPUT's block. */
char *rows_out_of_tile(const struct worker *worker, enum output_index output);
/* Writes the rows of CHUNK that lie in the worker's blocks, if the current pass makes them. */
enum status rows_out_write_chunk(struct worker *worker, int64_t chunk, struct diags *diags);
/* Sets PIECES to these rows, and returns their number. */
size_t rows_out_pieces(const struct worker *worker, int64_t chunk, struct spill_piece pieces[OUTPUTS]);
/* Writes COUNT rows of OUTPUT from row FIRST on, which are the next in order unless the run writes anywhere. */
enum status rows_out_write(const struct run *run, enum output_index output, const struct owned_rows *rows,
                           const char *from, struct diags *diags);
/* Writes ELEMENTS of OUTPUT, which are the next in order unless the run writes anywhere. */
enum status rows_out_put(const struct run *run, enum output_index output, const struct elements *elements,
                         struct diags *diags);
bool rows_out_wants(const struct run *run, enum output_index output);
enum status rows_out_end(struct run *run);

/* The machine's hook: exchanges arrays with the worker's blocks; without tiles, with the reader and the writers. */
enum status exchange_array(void *worker, enum machine_input_output which, int64_t offset, const struct type *type);
/* Loads the cotangent if it is given and not loaded yet. Fails with STATUS_DATA if its shape is not the output's. */
enum status exchange_load_cotangent(struct run *run);
/* Sets TO, of TYPE, to the rows of the cotangent of the worker's tile; to the cotangent of an output without rows. */
enum status exchange_read_cotangent(const struct worker *worker, void *to, const struct type *type);
/* Sets TO, of TYPE, to all of the cotangent. */
enum status exchange_read_whole_cotangent(const struct run *run, void *to, const struct type *type);
/* Closes the cotangent's file, and frees the cotangent. */
void exchange_close_cotangent(struct run *run);

#endif
