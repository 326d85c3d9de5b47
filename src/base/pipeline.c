/*
 * Workers over numbered items. The lock `reading` guards the number of the next item to read. Reads in order happen
 * under it: one worker reads while others compute. The lock `lock` guards the number of the next item to write in
 * order. A worker waits until that is its item, then writes outside the lock.
 *
 * Each worker has its own diagnostics; the caller's list is untouched until all have
 * stopped. Item I of dealt items waits only for the worker that reads item I - 1.
 * Tests: tests/unit/test_pipeline.c
 */
#include "base/pipeline.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/system.h"

struct shared {
	const struct pipeline *pipeline;
	int count; /* number of workers, at most that of items */
	int64_t next, next_write;
	atomic_bool failed;
	pthread_mutex_t reading;   /* guards next, and reads in order */
	pthread_cond_t dealt_next; /* of dealt items: next has changed, or a worker failed */
	pthread_mutex_t lock;      /* guards next_write */
	pthread_cond_t written;    /* next_write has changed, or a worker failed */
};

struct pipeline_worker {
	struct shared *shared;
	int index;
	int64_t item;
	enum status status;
	struct arena arena;
	struct diags diags;
};

static bool has_next(struct shared *shared)
{
	return !atomic_load(&shared->failed) && shared->next < shared->pipeline->items;
}

/* Reads the next item, or the worker's next dealt item. False at the end or after a failure. */
static bool read_item(struct pipeline_worker *worker)
{
	struct shared *shared = worker->shared;
	const struct pipeline *p = shared->pipeline;
	pthread_mutex_lock(&shared->reading);
	while (p->dealt && has_next(shared) && shared->next % shared->count != worker->index)
		pthread_cond_wait(&shared->dealt_next, &shared->reading);
	const bool more = has_next(shared);
	if (more)
		worker->item = shared->next++;
	if (more && p->read_in_order)
		worker->status = p->read(p->context, worker->index, worker->item, &worker->diags);
	if (worker->status) /* under the lock: no other worker may read past the failure */
		atomic_store(&shared->failed, true);
	if (more && p->dealt)
		pthread_cond_broadcast(&shared->dealt_next);
	pthread_mutex_unlock(&shared->reading);
	if (more && !p->read_in_order)
		worker->status = p->read(p->context, worker->index, worker->item, &worker->diags);
	return more && !worker->status;
}

static void write_item(struct pipeline_worker *worker)
{
	struct shared *shared = worker->shared;
	const struct pipeline *p = shared->pipeline;
	if (p->write_in_order) {
		pthread_mutex_lock(&shared->lock);
		while (shared->next_write != worker->item && !atomic_load(&shared->failed))
			pthread_cond_wait(&shared->written, &shared->lock);
		const bool mine = shared->next_write == worker->item;
		pthread_mutex_unlock(&shared->lock);
		if (!mine)
			return;
	}
	worker->status = p->write(p->context, worker->index, worker->item, &worker->diags);
	if (worker->status || !p->write_in_order)
		return; /* after a failure next_write stays, so no later item is written */
	pthread_mutex_lock(&shared->lock);
	shared->next_write++;
	pthread_cond_broadcast(&shared->written);
	pthread_mutex_unlock(&shared->lock);
}

/* Runs worker INDEX: a team_part. */
static void work(void *context, void *memory, int64_t index, int64_t end)
{
	struct pipeline_worker *worker = (struct pipeline_worker *)context + index;
	struct shared *shared = worker->shared;
	const struct pipeline *p = shared->pipeline;
	const unsigned before = flush_begin(p->flush_denormals);
	(void)memory, (void)end;
	while (read_item(worker)) {
		worker->status = p->compute(p->context, worker->index, worker->item, &worker->diags);
		if (!worker->status)
			write_item(worker);
		if (worker->status)
			break;
	}
	flush_end(before);
	if (!worker->status)
		return;
	/* Ends reads and waits in all workers. */
	atomic_store(&shared->failed, true);
	pthread_mutex_lock(&shared->reading);
	pthread_cond_broadcast(&shared->dealt_next);
	pthread_mutex_unlock(&shared->reading);
	pthread_mutex_lock(&shared->lock);
	pthread_cond_broadcast(&shared->written);
	pthread_mutex_unlock(&shared->lock);
}

static enum status run_workers(struct shared *shared, struct pipeline_worker *workers, struct diags *diags)
{
	const int count = shared->count;
	for (int i = 0; i < count; i++) {
		workers[i] = (struct pipeline_worker){.shared = shared, .index = i};
		arena_init(&workers[i].arena, shared->pipeline->allocator);
		diags_init(&workers[i].diags, &workers[i].arena);
		workers[i].diags.library = diags->library;
	}
	team_run(shared->pipeline->team, count, 1, work, workers);
	const struct pipeline_worker *failed = NULL;
	for (int i = 0; i < count; i++)
		if (workers[i].status && (!failed || failed->status == STATUS_OTHER_RANK ||
		                          (workers[i].status != STATUS_OTHER_RANK && workers[i].item < failed->item)))
			failed = &workers[i];
	if (failed)
		diags_take(diags, &failed->diags);
	const enum status status = failed ? failed->status : STATUS_OK;
	for (int i = 0; i < count; i++)
		arena_free(&workers[i].arena);
	return status;
}

enum status pipeline_run(const struct pipeline *pipeline, struct diags *diags)
{
	const int count = pipeline->items < pipeline->workers ? (int)pipeline->items : pipeline->workers;
	if (pipeline->first >= pipeline->items)
		return STATUS_OK;
	if (pipeline->dealt && count > 1 && team_start(pipeline->team) < count)
		return diag_file(diags, STATUS_LIMIT, NULL, -1, "cannot start %d workers: %s asks for fewer", count,
		                 diags->library ? "'threads'" : "--threads");
	struct pipeline_worker *workers = allocator_get(pipeline->allocator, (size_t)count, sizeof *workers);
	TRY_ALLOC(workers, diags);
	struct shared shared = {
		.pipeline = pipeline, .count = count, .next = pipeline->first, .next_write = pipeline->first};
	pthread_mutex_init(&shared.reading, NULL);
	pthread_cond_init(&shared.dealt_next, NULL);
	pthread_mutex_init(&shared.lock, NULL);
	pthread_cond_init(&shared.written, NULL);
	const enum status status = run_workers(&shared, workers, diags);
	pthread_cond_destroy(&shared.written);
	pthread_mutex_destroy(&shared.lock);
	pthread_cond_destroy(&shared.dealt_next);
	pthread_mutex_destroy(&shared.reading);
	allocator_put(pipeline->allocator, workers, (size_t)count * sizeof *workers);
	return status;
}
