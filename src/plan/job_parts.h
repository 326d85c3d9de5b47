/* The functions that the files job*.c share. Private to plan/. */
#ifndef PLAN_JOB_PARTS_H
#define PLAN_JOB_PARTS_H

#include "plan/job.h"

/* Sets the bytes that every schedule needs: *WORKER for each worker, *ALL once for all workers together. */
void job_fixed_bytes(const struct job *job, int64_t *worker, int64_t *all);
/* Initialises JOB: everything that a schedule needs, except the steps' costs. */
enum status job_prepare(const struct context *context, struct job *job, const struct chain *chain,
                        const struct type *input, const struct job_options *options);
/* Sets job->partials from the body of a forward pass, for a job in tiles. */
enum status job_find_partials(struct job *job, const struct body *forward);
/* Sets job->costs, for policies by cut. Fails with STATUS_LIMIT if the arrays are too large to plan. */
enum status job_set_costs(struct job *job);
/* True if one worker runs only the rest, which is the last tile and has fewer rows. */
bool job_rest_alone(const struct job *job);
/* Extends job->predicted from the counters of one tile to those of the whole job. The caller sets the schedule. */
enum status job_finish(struct job *job);
/*
 * Predicts the counters of job->schedule on TILE, and sets the tile's slab. The
 * prediction may stop once the slab exceeds MOST bytes; 0: no bound.
 */
enum status job_predict_tile(struct job *job, struct tile_plan *tile, int64_t most, struct counters *counters);
/* Makes the schedule for the budget of job->policy. Fails with STATUS_LIMIT, naming the least feasible bytes. */
enum status job_make_budget(struct job *job);

#endif
