/* What a step costs: --costs. Without it costs are the table's flops and bytes. */
#ifndef EXEC_COSTS_H
#define EXEC_COSTS_H

#include "plan/job.h"
#include "plan/spec.h"

/* Costs that have been measured: bodies of one type of input and one size of tile. */
struct measured_costs {
	struct type input;
	int64_t rows;
	double (*compiled)[2]; /* forward, backward with what it recomputes: nanoseconds */
	struct measured_costs *next;
};

struct costs_source {
	const struct spec *spec; /* --costs FILE; NULL: measured */
	const char *name;        /* of the file */
	struct measured_costs *measured;
	struct spill_costs spill;
	bool spill_known;
	int threads; /* of the run whose steps are measured */
	const struct allocator *allocator;
	struct arena *arena;
};

/*
 * For job_options.costs; CONTEXT is a costs_source. Costs of UNITS, in nanoseconds
 * where they are measured: each distinct step's programs are run a few times on
 * arrays of their types, on one core, or, without tiles, by as many as will share
 * them, and the median is taken; a size of tile of
 * one type of input is measured once, so that a SOURCE is of one chain. From a file: in its unit; steps that are one body in a loop
 * have the mean of theirs. STATUS_DATA where the file has another number of steps
 * than the chain.
 */
enum status costs_of(void *context, struct compiled_chain *compiled, int64_t rows, struct diags *diags);
/*
 * Measures writing to DIRECTORY, made durable, and reading back, for SOURCE's spill
 * costs: nanoseconds a byte. STATUS_IO.
 */
enum status costs_measure_disk(struct costs_source *source, const char *directory, struct diags *diags);

#endif
