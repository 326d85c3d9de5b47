/*
 * A thread waits for a loop, claims pieces by an atomic counter until none is left, and reports that it is done. The
 * caller claims pieces too, then waits for the threads. One lock guards all else that changes during a loop.
 */
#include "base/team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/checked.h"
#include "base/system.h"

struct member {
	struct team *team;
	pthread_t thread;
	char *memory;
};

struct loop {
	int64_t count, grain;
	team_part *part;
	void *context;
	unsigned denormals; /* how the caller's thread treats them: what flush_begin returns */
	_Atomic int64_t next;
};

struct team {
	const struct allocator *allocator;
	size_t size; /* bytes of this block, the threads' memory included */
	int threads; /* besides the caller: those wanted; after team_start, those that run */
	int started;
	pthread_mutex_t lock;
	pthread_cond_t begun, done;
	uint64_t loops; /* number of loops begun so far */
	int busy;       /* threads that have not finished the current loop */
	bool closing;
	struct loop loop;
	struct member member[];
};

static void run_pieces(struct loop *loop, void *memory)
{
	for (;;) {
		int64_t begin = atomic_fetch_add(&loop->next, loop->grain), end = begin + loop->grain;
		if (begin >= loop->count)
			return;
		loop->part(loop->context, memory, begin, end < loop->count ? end : loop->count);
	}
}

static void *member_main(void *context)
{
	struct member *member = context;
	struct team *team = member->team;
	uint64_t seen = 0;
	pthread_mutex_lock(&team->lock);
	for (;;) {
		while (!team->closing && team->loops == seen)
			pthread_cond_wait(&team->begun, &team->lock);
		if (team->closing)
			break;
		seen = team->loops;
		pthread_mutex_unlock(&team->lock);
		flush_end(team->loop.denormals);
		run_pieces(&team->loop, member->memory);
		pthread_mutex_lock(&team->lock);
		if (--team->busy == 0)
			pthread_cond_signal(&team->done);
	}
	pthread_mutex_unlock(&team->lock);
	return NULL;
}

enum status team_open(struct team **made, int members, int64_t bytes, const struct allocator *allocator,
                      struct diags *diags)
{
	*made = NULL;
	if (members < 2)
		return STATUS_OK;
	const size_t others = (size_t)members - 1, each = (size_t)round_up(bytes, ARRAY_ALIGN);
	const size_t head = sizeof(struct team) + others * sizeof(struct member), size = head + ARRAY_ALIGN + others * each;
	struct team *team = allocator_get(allocator, 1, size);
	TRY_ALLOC(team, diags);
	*team = (struct team){.allocator = allocator, .size = size, .threads = (int)others};
	char *memory = (char *)team + head;
	memory += (ARRAY_ALIGN - (uintptr_t)memory % ARRAY_ALIGN) % ARRAY_ALIGN;
	for (size_t i = 0; i < others; i++)
		team->member[i] = (struct member){.team = team, .memory = memory + i * each};
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->begun, NULL);
	pthread_cond_init(&team->done, NULL);
	*made = team;
	return STATUS_OK;
}

void team_close(struct team *team)
{
	if (!team)
		return;
	pthread_mutex_lock(&team->lock);
	team->closing = true;
	pthread_cond_broadcast(&team->begun);
	pthread_mutex_unlock(&team->lock);
	for (int i = 0; i < team->started; i++)
		pthread_join(team->member[i].thread, NULL);
	pthread_mutex_destroy(&team->lock);
	pthread_cond_destroy(&team->begun);
	pthread_cond_destroy(&team->done);
	allocator_put(team->allocator, team, team->size);
}

int team_start(struct team *team)
{
	if (!team)
		return 1;
	/* Signals go to the caller's thread, which may block them; SIGPIPE goes to the thread that writes. */
	sigset_t all, before;
	sigfillset(&all);
	sigdelset(&all, SIGPIPE);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (team->started < team->threads) {
		struct member *next = &team->member[team->started];
		if (pthread_create(&next->thread, NULL, member_main, next))
			team->threads = team->started;
		else
			team->started++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return 1 + team->started;
}

void team_begin(struct team *team, int64_t count, int64_t grain, team_part *part, void *context)
{
	const int others = team_start(team) - 1;
	pthread_mutex_lock(&team->lock);
	team->loop = (struct loop){
		.count = count, .grain = grain, .part = part, .context = context, .denormals = flush_begin(false)};
	team->loops++;
	team->busy = others;
	pthread_cond_broadcast(&team->begun);
	pthread_mutex_unlock(&team->lock);
}

void team_wait(struct team *team)
{
	run_pieces(&team->loop, NULL);
	pthread_mutex_lock(&team->lock);
	while (team->busy > 0)
		pthread_cond_wait(&team->done, &team->lock);
	pthread_mutex_unlock(&team->lock);
}

void team_run(struct team *team, int64_t count, int64_t grain, team_part *part, void *context)
{
	if (!team || count <= grain) {
		run_pieces(&(struct loop){.count = count, .grain = grain, .part = part, .context = context}, NULL);
		return;
	}
	team_begin(team, count, grain, part, context);
	team_wait(team);
}
