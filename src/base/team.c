/*
 * Members wait for a loop, take pieces by an atomic counter until there are none,
 * and say that they are done; the caller takes pieces too and then waits for them.
 * One lock guards all but the counter.
 */
#include "base/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { ALIGN = 64 };

struct member {
	struct team *team;
	pthread_t thread;
	char *memory;
};

struct loop {
	int64_t count, grain;
	team_part *part;
	void *context;
	_Atomic int64_t next;
};

struct team {
	const struct allocator *allocator;
	size_t size; /* of the block, members' memory included */
	int members; /* beside the caller */
	int started; /* of them, those that run */
	bool tried;  /* to start them */
	pthread_mutex_t lock;
	pthread_cond_t begun, done;
	uint64_t loops; /* so far */
	int busy;       /* members that have not finished the last one */
	bool over;
	struct loop loop;
	struct member member[];
};

static void take_pieces(struct loop *loop, void *memory)
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
		while (!team->over && team->loops == seen)
			pthread_cond_wait(&team->begun, &team->lock);
		if (team->over)
			break;
		seen = team->loops;
		pthread_mutex_unlock(&team->lock);
		take_pieces(&team->loop, member->memory);
		pthread_mutex_lock(&team->lock);
		if (--team->busy == 0)
			pthread_cond_signal(&team->done);
	}
	pthread_mutex_unlock(&team->lock);
	return NULL;
}

struct team *team_open(int members, int64_t bytes, const struct allocator *allocator)
{
	const size_t others = members > 1 ? (size_t)members - 1 : 0, each = ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
	const size_t head = sizeof(struct team) + others * sizeof(struct member), size = head + ALIGN + others * each;
	struct team *team = allocator_get(allocator, 1, size);
	if (!team)
		return NULL;
	*team = (struct team){.allocator = allocator, .size = size, .members = (int)others};
	char *memory = (char *)team + head;
	memory += (ALIGN - (uintptr_t)memory % ALIGN) % ALIGN;
	for (size_t i = 0; i < others; i++)
		team->member[i] = (struct member){.team = team, .memory = memory + i * each};
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->begun, NULL);
	pthread_cond_init(&team->done, NULL);
	return team;
}

void team_close(struct team *team)
{
	if (!team)
		return;
	pthread_mutex_lock(&team->lock);
	team->over = true;
	pthread_cond_broadcast(&team->begun);
	pthread_mutex_unlock(&team->lock);
	for (int i = 0; i < team->started; i++)
		pthread_join(team->member[i].thread, NULL);
	pthread_mutex_destroy(&team->lock);
	pthread_cond_destroy(&team->begun);
	pthread_cond_destroy(&team->done);
	allocator_put(team->allocator, team, team->size);
}

static void start_members(struct team *team)
{
	team->tried = true;
	while (team->started < team->members &&
	       pthread_create(&team->member[team->started].thread, NULL, member_main, &team->member[team->started]) == 0)
		team->started++;
}

void team_run(struct team *team, int64_t count, int64_t grain, team_part *part, void *context)
{
	struct loop alone = {.count = count, .grain = grain, .part = part, .context = context};
	if (!team || count <= grain) {
		take_pieces(&alone, NULL);
		return;
	}
	pthread_mutex_lock(&team->lock);
	team->loop.count = count;
	team->loop.grain = grain;
	team->loop.part = part;
	team->loop.context = context;
	atomic_store(&team->loop.next, 0);
	team->loops++;
	if (!team->tried)
		start_members(team);
	team->busy = team->started;
	pthread_cond_broadcast(&team->begun);
	pthread_mutex_unlock(&team->lock);
	take_pieces(&team->loop, NULL);
	pthread_mutex_lock(&team->lock);
	while (team->busy > 0)
		pthread_cond_wait(&team->done, &team->lock);
	pthread_mutex_unlock(&team->lock);
}
