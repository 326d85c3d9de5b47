/* The functions that the files job*.c share. Private to plan/. */
#ifndef PLAN_JOB_PARTS_H
#define PLAN_JOB_PARTS_H

#include "plan/job.h"

/* Sets the bytes that every schedule needs beside slabs: *WORKER for each worker (0 without tiles), *ALL for all. */
void job_fixed_bytes(const struct job *job, int64_t *worker, int64_t *all);
/* Sets job->sums from the body of a forward pass, before the cut: as if JOB had several tiles. */
enum status job_find_sums(struct job *job, const struct body *forward);
/* Sets job->sums for the cut in job->tiles. KEPT_ROWS: without a journal the tiles would have rows of streamed params. */
void job_settle_sums(struct job *job, bool kept_rows);
/* True if the array is not cut for the sake of a journal, which then has points in the middle of the schedule. */
bool job_keeps_whole(const struct job_options *options);
/* Fails with STATUS_LIMIT if BYTES, of all workers' arrays, exceed POOL_MOST: then sums of bytes could exceed int64. */
enum status job_check_bytes(const struct job *job, double bytes);
/*
 * Sets job->tiles.block from the body FORWARD, which has levels and is not streamable. If the array has several blocks,
 * sets job->passes and job->tiles to passes over the input, by WANTS, or job->tiles.because.
 */
enum status job_cut_passes(struct job *job, const struct lowered *forward, struct tile_wants *wants);
/* Sets the figures of job->passes. STATUS_LIMIT, with job->least_bytes, if they exceed the policy's budget. */
enum status job_plan_passes(struct job *job);
/* Sets job->least_bytes. True if it is 0: job->predicted, of passes, fits the policy. */
bool job_passes_fit(struct job *job);
/* Returns the policy by which tiles are compiled: passes need no search for a budget. */
const struct policy *job_tile_policy(const struct job *job);
/* Sets job->costs, for policies by cut. Fails with STATUS_LIMIT if the arrays are too large to plan. */
enum status job_set_costs(struct job *job);
/* True if a worker of rank 0, which has the most chunks, runs only the rest: the last tile, which has fewer rows. */
bool job_rest_alone(const struct job *job);
/* Extends peak_bytes and stored_bytes of job->predicted from one tile to the job. The caller has set job->schedule. */
enum status job_finish(struct job *job);
/*
 * Predicts the counters of job->schedule, which job->scheduled made, on a tile of ROWS rows (0: a full one), and sets
 * the slab of such a tile. May stop once it exceeds MOST bytes (0: no bound); then only peak_bytes, which exceeds MOST, has a meaning.
 */
enum status job_predict_tile(struct job *job, int64_t rows, int64_t most, struct counters *counters);
/* Makes the schedule for the budget of job->policy, and finishes JOB. STATUS_LIMIT if infeasible. */
enum status job_make_budget(struct job *job);
/*
 * Sets REGION to a job by value on the chain and tiles of BASE, lowered but not compiled. It serves as the base of
 * job_make_from for policies by value, and needs no freeing. BASE must outlive it. STATUS_LIMIT if out of memory.
 */
enum status job_lower_region(const struct context *context, struct job *region, const struct job *base);
/*
 * Offers policies by value to COUNT JOBS, budgets with their searches' schedules and counters, or without a schedule. A
 * job that one serves better becomes a finished job under it, with the budget as its policy. A job without a schedule
 * may get fewer least_bytes.
 *
 * The gaps of jobs with a schedule then count the policies that were left out, too. BASE is one
 * of JOBS, or the job that they were made from. RUN is the cost of the run, in additions (struct budget_judge). Fails with
 * STATUS_LIMIT if out of memory, or with the status of options->costs.
 */
enum status job_offer_values(const struct context *context, const struct job *base, double run, struct job *jobs,
                             size_t count);
/* Raises the gap of JOB, a budget that policies by value were offered to, to what the best of those that were not tried may save. */
void job_raise_gap(struct job *job);

/*
 * Makes POLICY online:S with the most snapshots within job->options.memory, however often the chain's `repeat while`s
 * run. STATUS_LIMIT, and job->least_bytes, if none fits.
 */
enum status job_choose_online(struct job *job, struct policy *policy);

#endif
