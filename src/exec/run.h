/*
 * A forward run: arrays in, arrays out, in constant memory where the chain is
 * streamable: tiles of the leading axis, one worker for each thread, output in
 * order.
 */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H

#include "exec/params.h"
#include "ir/lower.h"

struct run_options {
	struct portion portion; /* of the chain, its first stage among them */
	int threads;            /* at least 1 */
	int64_t tile;           /* --tile ROWS, or 0 */
	enum dtype dtype;       /* --dtype: the computing type, or DTYPE_COUNT */
	const struct allocator *allocator;
	/* Rows (elements where the chain is flat) that are done, of the current array; or NULL. One call at a time. */
	void (*progress)(void *context, int64_t done, int64_t all);
	void *progress_context;
	bool flush_denormals; /* --fast-math */
};

struct run_counters {
	int64_t arrays, tiles, tile_rows;
	int64_t peak_bytes; /* all array storage: blocks of input and output, workspaces, params */
};

/*
 * The type that CHAIN sees for a file of TYPE: integers and bool become f64; then
 * the dtype of the chain's `input` declaration, where there is one; then DTYPE.
 */
struct type run_input_type(const struct chain *chain, const struct type *file, enum dtype dtype);
/* Gives WRITER, where its format is AUTO, the format and layout of what READER reads. After reader_next. */
void run_follow_format(struct writer *writer, const struct reader *reader);
/*
 * Runs CHAIN over every array of READER into WRITER. CHAIN's params are bound;
 * weak ones are settled to each array's computing type.
 * Nothing is written before all that can be checked without values has been.
 */
enum status run_forward(const struct chain *chain, struct params *params, struct reader *reader, struct writer *writer,
                        const struct run_options *options, struct run_counters *counters, struct diags *diags);

#endif
