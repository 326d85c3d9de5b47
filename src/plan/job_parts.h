/*
 * What the files of a job need of each other. Private to plan/.
 */
#ifndef PLAN_JOB_PARTS_H
#define PLAN_JOB_PARTS_H

#include "plan/job.h"

/* Bytes that are held whatever the schedule does: for one worker, and for all. */
void job_fixed_bytes(const struct job *job, const struct job_options *options, int64_t *worker, int64_t *all);
/* All that is needed for a schedule but the steps' costs. JOB is set anew. */
enum status job_prepare(struct job *job, const struct chain *chain, const struct type *input,
                        const struct job_options *options, struct arena *arena, struct diags *diags);
/* Sets job->partials from the body of a forward run, for a job of tiles. */
enum status job_find_partials(struct job *job, const struct body *forward, struct diags *diags);
/* What the steps cost, as policies by cut see them. */
enum status job_set_costs(struct job *job, const struct job_options *options, struct diags *diags);
/* Whether one of the workers has nothing but the rest, of fewer rows than a tile. */
bool job_rest_alone(const struct job *job);
/* The figures of the whole, with the schedule made and a tile's in job->predicted. */
enum status job_finish(struct job *job, const struct job_options *options, struct diags *diags);
/*
 * What job->schedule counts on TILE, whose slab it sets. MOST: bytes of the slab
 * beyond which nothing else matters; 0: it does.
 */
enum status job_predict_tile(struct job *job, const struct job_options *options, struct tile_plan *tile, int64_t most,
                             struct counters *counters, struct diags *diags);
/* The schedule and a tile's figures for the bytes of job->policy; too few are STATUS_LIMIT, with the least. */
enum status job_make_budget(struct job *job, const struct job_options *options, struct diags *diags);

#endif
