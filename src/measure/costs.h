/* The costs of steps under --costs. Without --costs they are the flops and bytes of the operations' table. */
#ifndef MEASURE_COSTS_H
#define MEASURE_COSTS_H

#include "external/external.h"
#include "io/journal.h"
#include "plan/job.h"
#include "plan/spec.h"

/* The measured costs of all steps, for one input type and one size of tile. */
struct measured_costs {
	struct type input;
	int64_t rows;
	size_t count;                    /* of COMPILED */
	struct measured_times *compiled; /* by compiled step */
	struct measured_costs *next;
};

struct costs_source {
	const struct spec *spec; /* --costs FILE; NULL: measured */
	const char *name;        /* of the file */
	struct measured_costs *measured;
	struct spill_costs spill;
	bool spill_known;
	int threads;                   /* of the run whose steps are measured */
	struct external_set *programs; /* of the chain, or NULL */
	struct journal_costs kept;     /* of the journal that the run resumes from: they are not measured again */
	const struct allocator *allocator;
	struct arena *arena;
};

/*
 * Sets the costs of the steps of COMPILED: the function for job_options.costs. CONTEXT is
 * a costs_source, which serves one chain.
 *
 * Measured costs are nanoseconds: the median of a few evaluations of each distinct step's forward,
 * record_only and backward programs. They run on one core, or without tiles (ROWS 0) on the threads of a step.
 * Each pair of input type and size of tile is measured once; under a policy by value, every time.
 *
 * A file's costs have the file's unit. Steps that share a compiled step get the mean of their costs,
 * or under a policy by value the sum. If the file does not give the cost of recording without the value, that is the
 * share of the forward cost that the table of operations gives it. STATUS_DATA if the file's number of steps is not the chain's.
 */
enum status costs_of(void *context, struct compiled_chain *compiled, int64_t rows, struct diags *diags);
/*
 * Sets *COSTS to what CONTEXT, a costs_source, has measured last; to none if its costs come from a file: the function for
 * gradient_options.keep_costs.
 */
void costs_keep(void *context, struct journal_costs *costs);
/*
 * Sets SOURCE's spill costs, in nanoseconds a byte: measures a durable write of 32 MiB to
 * DIRECTORY and a read. Fails with STATUS_IO; with STATUS_LIMIT if out of memory.
 */
enum status costs_measure_disk(struct costs_source *source, const char *directory, struct diags *diags);

#endif
