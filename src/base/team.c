/*
 * A thread waits for a loop and enters it. It claims pieces by an atomic counter until none is left, and leaves. The caller
 * claims pieces too, then closes the loop and waits for the threads that are inside. So it waits for no thread that has
 * not woken yet.
 *
 * A wake-up takes as long as a small piece. So whoever waits looks again and again for some microseconds before it sleeps,
 * if each member may have a processor of its own. If others keep the processors busy, it soon gives that up.
 *
 * Invariant: the fields of a loop change only while the loop is closed and nobody is inside.
 * Tests: tests/unit/test_team.c
 */
#include "base/team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/checked.h"
#include "base/system.h"

/* Those that sleep until a condition has come. */
struct sleepers {
	pthread_cond_t wake;
	atomic_int count;
};

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
	bool may_spin;
	unsigned misses;      /* the caller's, of wait_until */
	pthread_mutex_t lock; /* taken by those that sleep */
	struct sleepers begun, done;
	_Atomic uint64_t loops;    /* number of loops begun so far */
	atomic_bool open, closing; /* the last loop may be entered; the team ends */
	atomic_int inside;         /* threads that have entered a loop */
	struct loop loop;
	struct member member[];
};

/* SEEN is the number of loops that the caller has seen. */
typedef bool condition(struct team *team, uint64_t seen);
static bool has_loop(struct team *team, uint64_t seen)
{
	return atomic_load(&team->loops) != seen || atomic_load(&team->closing);
}
static bool is_alone(struct team *team, uint64_t seen)
{
	(void)seen;
	return atomic_load(&team->inside) == 0;
}

/* Looks for SPIN_SECONDS whether HAS_COME. Returns whether it has. */
static bool spin(struct team *team, condition *has_come, uint64_t seen)
{
	const double SPIN_SECONDS = 50e-6;
	enum { LOOKS = 32 }; /* between two looks at the clock */
	const double end = clock_seconds() + SPIN_SECONDS;
	do {
		for (int i = 0; i < LOOKS; i++) {
			if (has_come(team, seen))
				return true;
#if defined(__SSE2__)
			_mm_pause();
#endif
		}
	} while (clock_seconds() < end);
	return false;
}

/* Returns once HAS_COME. *MISSES counts this thread's last waits that were not ended while it spun. */
static void wait_until(struct team *team, struct sleepers *sleepers, condition *has_come, uint64_t seen,
                       unsigned *misses)
{
	enum { MISSES_MOST = 4, TRY_AGAIN = 64 }; /* after so many misses, it spins at each TRY_AGAIN-th wait */
	if (has_come(team, seen))
		return;
	const bool spins = team->may_spin && (*misses < MISSES_MOST || *misses % TRY_AGAIN == 0);
	*misses = spins && spin(team, has_come, seen) ? 0 : *misses + 1;
	if (*misses == 0)
		return;
	pthread_mutex_lock(&team->lock);
	atomic_fetch_add(&sleepers->count, 1);
	while (!has_come(team, seen))
		pthread_cond_wait(&sleepers->wake, &team->lock);
	atomic_fetch_sub(&sleepers->count, 1);
	pthread_mutex_unlock(&team->lock);
}

/* Wakes SLEEPERS, whose condition has come. Whoever sleeps has counted itself before it looked for the last time. */
static void wake_sleepers(struct team *team, struct sleepers *sleepers)
{
	if (atomic_load(&sleepers->count) == 0)
		return;
	pthread_mutex_lock(&team->lock);
	pthread_cond_broadcast(&sleepers->wake);
	pthread_mutex_unlock(&team->lock);
}

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
	unsigned misses = 0;
	for (;;) {
		wait_until(team, &team->begun, has_loop, seen, &misses);
		if (atomic_load(&team->closing))
			return NULL;
		seen = atomic_load(&team->loops);
		atomic_fetch_add(&team->inside, 1);
		if (atomic_load(&team->open)) {
			flush_end(team->loop.denormals);
			run_pieces(&team->loop, member->memory);
		}
		if (atomic_fetch_sub(&team->inside, 1) == 1)
			wake_sleepers(team, &team->done);
	}
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
	pthread_cond_init(&team->begun.wake, NULL);
	pthread_cond_init(&team->done.wake, NULL);
	*made = team;
	return STATUS_OK;
}

void team_close(struct team *team)
{
	if (!team)
		return;
	atomic_store(&team->closing, true);
	wake_sleepers(team, &team->begun);
	for (int i = 0; i < team->started; i++)
		pthread_join(team->member[i].thread, NULL);
	pthread_mutex_destroy(&team->lock);
	pthread_cond_destroy(&team->begun.wake);
	pthread_cond_destroy(&team->done.wake);
	allocator_put(team->allocator, team, team->size);
}

int team_start(struct team *team)
{
	if (!team || team->started == team->threads)
		return 1 + (team ? team->started : 0);
	team->may_spin = system_processors() > team->threads;
	/* Signals go to the caller's thread, which may block them; SIGPIPE and faults go to the thread that causes them. */
	static const int causes[] = {SIGPIPE, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
	sigset_t all, before;
	sigfillset(&all);
	for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
		sigdelset(&all, causes[i]);
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
	team_start(team);
	team->loop = (struct loop){
		.count = count, .grain = grain, .part = part, .context = context, .denormals = flush_begin(false)};
	atomic_store(&team->open, true);
	atomic_fetch_add(&team->loops, 1);
	wake_sleepers(team, &team->begun);
}

void team_wait(struct team *team)
{
	run_pieces(&team->loop, NULL);
	atomic_store(&team->open, false);
	wait_until(team, &team->done, is_alone, 0, &team->misses);
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
