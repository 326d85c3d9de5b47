/*
 * Where the gradients of params are added up, and where params lie.
 *
 *     totals.c   the gradients, added up over tiles and arrays
 *     shares.c   the chunks of this rank; what ranks add up together (by ordered.h), and collect in the end
 *     stays.c    params that a run leaves in their files
 */
#ifndef EXEC_SUMS_H
#define EXEC_SUMS_H

#include "evaluate/evaluate.h"
#include "exec/ordered.h"
#include "exec/run.h"

struct run;
struct worker;

/* totals.c */

/* Returns the sums of param I's gradient over the arrays of the current array's computing type. */
struct param_sums *totals_of(const struct run *run, size_t i);
/* Makes the list of gradients, unless an earlier array did. Sums of earlier arrays stay. */
enum status totals_open(struct run *run);
/* Allocates the sums that the current array adds to, unless an earlier one did. */
enum status totals_begin_array(struct run *run);
/* True if this rank adds to the gradient of param I: the last rank alone adds what ranks that exchange rows sum together. */
bool totals_adds(const struct run *run, size_t i);
/* Directs the gradients of the worker's tile to the totals, or to sums apart, which it zeroes. */
void totals_aim(struct worker *worker);
/* Directs the gradients of all PARAMS to the totals: an addition to them belongs to no tile. Rank 0 alone adds to shared ones. */
void totals_aim_all(const struct run *run, struct bound_param *params);
/* Adds the blocks that the worker's tile has begun to the totals. */
void totals_end_blocks(const struct worker *worker);
/* Adds the apart sums of the worker's chunk to the totals, in the order of tiles. */
enum status totals_add(struct worker *worker);
/* Returns how the sum of param I passes from chunk to chunk. Where it lies follows in totals_begin_array. */
struct ordered_value totals_value(const struct run *run, size_t i);
/* Returns the bytes of the sums that ranks may share, if no earlier array has made them; -1: they may not be shared. */
int64_t totals_shareable(const struct run *run);
/* Puts these sums into MEMORY. */
void totals_share(const struct run *run, char *memory);
/* Adds the sums that programs have made of the current array to the totals. */
enum status totals_add_programs(const struct run *run);
/* Sets the gradients of params, after the last array. Without FINISHES another rank does that in the same memory. */
void totals_finish(struct gradient_result *result, bool finishes);

/* shares.c: chunk I belongs to rank I % ranks */

/* Makes run->ordered, without what its values have. Ranks of one machine put the sums of params into memory that they share. */
enum status shares_open(struct run *run);
/* Returns the number of this rank's chunks, and the chunk that is its item ITEM. */
int64_t shares_items(const struct run *run);
int64_t shares_chunk(const struct run *run, int64_t item);
/* Returns the number of this rank's chunks before CHUNK. */
int64_t shares_before(const struct run *run, int64_t chunk);
/* True if CHUNK is this rank's. */
bool shares_owns(const struct run *run, int64_t chunk);
/* Sets *VALUE to the least value of all ranks. It waits for them. */
enum status shares_least(const struct run *run, int64_t *value);
/* Waits until all ranks have called it. */
enum status shares_meet(const struct run *run);
/* Sets rank 0's *VALUE to the greatest value of all ranks. */
enum status shares_most(const struct run *run, int64_t *value);
/* Gives the sums and states so far to the owner of CHUNK. The owner of the chunk before has them. */
enum status shares_move_sums(struct run *run, int64_t chunk);
/* True if the current array is cut into chunks that several ranks share. */
bool shares_rows(const struct run *run);
/* Fails if RUN has ranks and no regular file as input: standard input is there for rank 0 alone. Comes before a read. */
enum status shares_check_input(const struct run *run);
/* Fails if RUN's rows are shared but its input or its outputs cannot be read or written at any place. */
enum status shares_begin_array(struct run *run);
/* Gives all ranks the states of the pass that has ended. */
enum status shares_spread_state(struct run *run);
/* After the last chunk of a pass, rank 0 waits until all have added to the sums that ranks share. */
enum status shares_await_sums(struct run *run);
/* After the last chunk, rank 0 gets all gradients of params. */
enum status shares_collect(struct run *run);

/* stays.c */

/* Lets the WORKER's list of params have what the worker reads of those in files. */
void stored_operands_aim(struct worker *worker);
/*
 * Chooses which params stay in their files: BODY, a forward run's chain, reads them there. BODY is NULL for a gradient: there
 * the steps do.
 */
enum status stored_operands_plan(struct run *run, const struct body *body);
/* Return the bytes of the params that stay, and of the memory that reads them. */
int64_t stored_left(const struct run *run);
int64_t stored_bytes(const struct run *run);
/* Loads the other params that are left in their files, and allocates that memory. */
enum status stored_operands_open(struct run *run);

#endif
