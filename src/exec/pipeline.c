/*
 * Workers over numbered items. One lock guards the next number to take and the
 * next to give; reading in order happens under it, so that one worker reads
 * while others compute, and giving in order happens outside it, by the worker
 * whose iteration it is. Each worker has its own diagnostics: nothing is appended to
 * the caller's list until all have stopped. Items that are dealt are taken by their
 * workers in iteration: whose the next is waits for nobody but who takes the one before.
 */
#include "exec/pipeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/flush.h"

struct shared {
	const struct pipeline *pipeline;
	int count; /* of workers */
	int64_t next, iteration;
	atomic_bool failed;
	pthread_mutex_t reading; /* guards next, and an ordered take */
	pthread_cond_t taken;    /* next has changed, or something failed: for items that are dealt */
	pthread_mutex_t lock;    /* guards iteration */
	pthread_cond_t turned;   /* iteration has changed, or something failed */
};

struct pipeline_thread {
	struct shared *shared;
	int index;
	int64_t item;
	enum status status;
	struct arena arena;
	struct diags diags;
	pthread_t thread;
	bool started;
};

/* Whether there is a next item. */
static bool has_next(struct shared *shared)
{
	return !atomic_load(&shared->failed) && shared->next < shared->pipeline->items;
}

/* Takes the next item, or the worker's own next; false at the end or after a failure. */
static bool take(struct pipeline_thread *worker)
{
	struct shared *shared = worker->shared;
	const struct pipeline *p = shared->pipeline;
	pthread_mutex_lock(&shared->reading);
	while (p->dealt && has_next(shared) && shared->next % shared->count != worker->index)
		pthread_cond_wait(&shared->taken, &shared->reading);
	bool more = has_next(shared);
	if (more)
		worker->item = shared->next++;
	if (more && p->take_in_order)
		worker->status = p->take(p->context, worker->index, worker->item, &worker->diags);
	if (worker->status) /* before another reads on where this one could not */
		atomic_store(&shared->failed, true);
	if (more && p->dealt)
		pthread_cond_broadcast(&shared->taken);
	pthread_mutex_unlock(&shared->reading);
	if (more && !p->take_in_order)
		worker->status = p->take(p->context, worker->index, worker->item, &worker->diags);
	return more && !worker->status;
}

static void give(struct pipeline_thread *worker)
{
	struct shared *shared = worker->shared;
	const struct pipeline *p = shared->pipeline;
	if (!p->give)
		return;
	if (!p->give_in_order) {
		worker->status = p->give(p->context, worker->index, worker->item, &worker->diags);
		return;
	}
	pthread_mutex_lock(&shared->lock);
	while (shared->iteration != worker->item && !atomic_load(&shared->failed))
		pthread_cond_wait(&shared->turned, &shared->lock);
	bool mine = shared->iteration == worker->item;
	pthread_mutex_unlock(&shared->lock);
	if (!mine)
		return;
	worker->status = p->give(p->context, worker->index, worker->item, &worker->diags);
	if (worker->status)
		return; /* the iteration stays, and nobody gives after it */
	pthread_mutex_lock(&shared->lock);
	shared->iteration++;
	pthread_cond_broadcast(&shared->turned);
	pthread_mutex_unlock(&shared->lock);
}

/* Nobody takes or waits from now on. */
static void stop(struct shared *shared)
{
	atomic_store(&shared->failed, true);
	pthread_mutex_lock(&shared->reading);
	pthread_cond_broadcast(&shared->taken);
	pthread_mutex_unlock(&shared->reading);
	pthread_mutex_lock(&shared->lock);
	pthread_cond_broadcast(&shared->turned);
	pthread_mutex_unlock(&shared->lock);
}

static void *work(void *context)
{
	struct pipeline_thread *worker = context;
	struct shared *shared = worker->shared;
	const struct pipeline *p = shared->pipeline;
	unsigned before = flush_begin(p->flush_denormals);
	while (take(worker)) {
		worker->status = p->compute(p->context, worker->index, worker->item, &worker->diags);
		if (!worker->status)
			give(worker);
		if (worker->status)
			break;
	}
	flush_end(before);
	if (worker->status)
		stop(shared);
	return NULL;
}

static void start(struct pipeline_thread *worker)
{
	struct shared *shared = worker->shared;
	worker->started = pthread_create(&worker->thread, NULL, work, worker) == 0;
	if (worker->started || !shared->pipeline->dealt)
		return;
	worker->status = diag_file(&worker->diags, STATUS_LIMIT, NULL, -1,
	                           "cannot start %d workers: --threads asks for fewer", shared->count);
	stop(shared);
}

static enum status run_workers(struct shared *shared, struct pipeline_thread *workers, struct diags *diags)
{
	const int count = shared->count;
	for (int i = 0; i < count; i++) {
		workers[i] = (struct pipeline_thread){.shared = shared, .index = i};
		arena_init(&workers[i].arena, shared->pipeline->allocator);
		diags_init(&workers[i].diags, &workers[i].arena);
	}
	for (int i = 1; i < count; i++)
		start(&workers[i]);
	work(&workers[0]);
	const struct pipeline_thread *failed = NULL;
	for (int i = 0; i < count; i++) {
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
		if (workers[i].status && (!failed || workers[i].item < failed->item))
			failed = &workers[i];
	}
	if (failed)
		diags_take(diags, &failed->diags);
	enum status status = failed ? failed->status : STATUS_OK;
	for (int i = 0; i < count; i++)
		arena_free(&workers[i].arena);
	return status;
}

enum status pipeline_run(const struct pipeline *pipeline, struct diags *diags)
{
	int count = pipeline->items < pipeline->workers ? (int)pipeline->items : pipeline->workers;
	if (count < 1)
		return STATUS_OK;
	struct pipeline_thread *workers = allocator_get(pipeline->allocator, (size_t)count, sizeof *workers);
	if (!workers)
		return diag_memory(diags);
	struct shared shared = {.pipeline = pipeline, .count = count};
	atomic_init(&shared.failed, false);
	pthread_mutex_init(&shared.reading, NULL);
	pthread_cond_init(&shared.taken, NULL);
	pthread_mutex_init(&shared.lock, NULL);
	pthread_cond_init(&shared.turned, NULL);
	enum status status = run_workers(&shared, workers, diags);
	pthread_cond_destroy(&shared.turned);
	pthread_mutex_destroy(&shared.lock);
	pthread_cond_destroy(&shared.taken);
	pthread_mutex_destroy(&shared.reading);
	allocator_put(pipeline->allocator, workers, (size_t)count * sizeof *workers);
	return status;
}
