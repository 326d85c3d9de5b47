/*
 * The module of ranks for MPI. Messages, and all else, go by communicators of their own. A rank that waits looks for
 * the notice of a failure too: it tests its request, and yields the processor, then sleeps, between tests.
 *
 * A message that is sent is copied, so that its sender need not wait for the receiver. At most PENDING_MOST bytes of
 * copies wait at once. Memory of a few messages is kept for later ones, which often have the same size.
 *
 * A message is received once its size is known, and has the size that the caller expects. Open MPI 4 copies a longer one
 * past the end of the memory that waits for it. So nothing waits for a message that has not come, and a wait that ends
 * because a rank has failed leaves no memory behind into which MPI writes later. Broadcasts are such messages too.
 * Tests: tests/scripts/check-ranks, tests/scripts/check-rank-failures
 */
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "ranks/calls.h"

enum {
	PIECE = 1 << 30,
	BROADCAST_PIECE = 4 << 20, /* ranks pass a piece on while the next one comes */
	PENDING_MOST = 64 << 20,
	TESTS = 2000,
	YIELDS = 200,
	SLEEP = 50000,
	ROOM = 80 << 20,
	SPARES = 8,
	TAG_BROADCAST = RANK_TAGS
};

static struct {
	int index, count;
	bool started;               /* by this module */
	atomic_bool failed;         /* this rank has sent the notice */
	atomic_bool differs;        /* a message had another size */
	MPI_Comm messages, notices; /* notices: of failures; what settle sends */
	pthread_mutex_t lock;       /* guards the lists below */
	struct pending *pending;    /* sends */
	size_t pending_bytes;
	struct pending *spare; /* for later messages, at most SPARES */
	int spares;
} mpi = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { NOTICE, SETTLE };

struct pending {
	struct pending *next;
	MPI_Request request;
	size_t size, capacity;
	char data[];
};

/* Returns memory for a message of SIZE bytes, or NULL. The caller has the lock. */
static struct pending *get_pending(size_t size)
{
	struct pending **link = &mpi.spare;
	while (*link && ((*link)->capacity < size || (*link)->capacity / 2 > size))
		link = &(*link)->next;
	struct pending *p = *link;
	if (p) {
		*link = p->next;
		mpi.spares--;
	} else {
		p = malloc(sizeof *p + size);
		if (p)
			p->capacity = size;
	}
	if (p)
		p->size = size;
	return p;
}

/* Keeps the memory of P, a message that has ended. The caller has the lock. */
static void put_pending(struct pending *p)
{
	if (mpi.spares == SPARES) {
		free(p);
		return;
	}
	p->next = mpi.spare;
	mpi.spare = p;
	mpi.spares++;
}

static bool good(void)
{
	int there = 0;
	MPI_Iprobe(MPI_ANY_SOURCE, NOTICE, mpi.notices, &there, MPI_STATUS_IGNORE);
	return !there && !mpi.failed;
}

/* Waits a little longer for each of the CALLS tests so far. */
static void pause_before_test(int calls)
{
	if (calls > TESTS + YIELDS)
		nanosleep(&(struct timespec){.tv_nsec = SLEEP}, NULL);
	else if (calls > TESTS)
		sched_yield();
}

/* Waits for REQUEST. False: a rank has failed. HEEDS: that ends the wait. */
static bool wait_for_request(MPI_Request *request, bool heeds)
{
	for (int calls = 0, done = 0;; calls++) {
		MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (done)
			return true;
		if (heeds && calls % 16 == 15 && !good())
			return false;
		pause_before_test(calls);
	}
}

/*
 * True if the address space is not limited, or has ROOM left. Where it is too small, Open MPI waits for ever. An arena of
 * malloc for each of its threads would reserve 64 MiB more.
 */
static bool has_room(void)
{
	struct rlimit space;
	if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY)
		return true;
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
#endif
	void *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room != MAP_FAILED)
		munmap(room, ROOM);
	return room != MAP_FAILED;
}

static const char *start_mpi(int *index, int *count)
{
	int provided = 0, given = 0;
	if (!has_room())
		return "MPI needs 80 MiB of address space, and the limit (ulimit -v) leaves less";
	MPI_Initialized(&given);
	if (!given && MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
		return "MPI does not start";
	mpi.started = !given;
	if (provided < MPI_THREAD_MULTIPLE)
		return "MPI does not serve several threads";
	MPI_Comm_rank(MPI_COMM_WORLD, &mpi.index);
	MPI_Comm_size(MPI_COMM_WORLD, &mpi.count);
	MPI_Comm_dup(MPI_COMM_WORLD, &mpi.messages);
	MPI_Comm_dup(MPI_COMM_WORLD, &mpi.notices);
	*index = mpi.index;
	*count = mpi.count;
	return NULL;
}

/* Frees the sends that have ended. The caller has the lock. */
static void free_pending(void)
{
	for (struct pending **link = &mpi.pending; *link;) {
		struct pending *p = *link;
		int done = 0;
		MPI_Test(&p->request, &done, MPI_STATUS_IGNORE);
		if (!done) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		mpi.pending_bytes -= p->size;
		put_pending(p);
	}
}

/* Sends a piece, from a copy of it if memory allows. */
static bool send_piece(int to, int tag, const void *data, size_t size)
{
	pthread_mutex_lock(&mpi.lock);
	free_pending();
	struct pending *p = mpi.pending_bytes + size > PENDING_MOST ? NULL : get_pending(size);
	if (p) {
		memcpy(p->data, data, size);
		mpi.pending_bytes += size;
		MPI_Isend(p->data, (int)size, MPI_BYTE, to, tag, mpi.messages, &p->request);
		p->next = mpi.pending;
		mpi.pending = p;
	}
	pthread_mutex_unlock(&mpi.lock);
	if (p)
		return true;
	MPI_Request request;
	MPI_Isend(data, (int)size, MPI_BYTE, to, tag, mpi.messages, &request);
	return wait_for_request(&request, true);
}

static bool send(int to, int tag, const void *data, size_t size)
{
	for (size_t done = 0, n; done < size; done += n) {
		n = size - done < PIECE ? size - done : PIECE;
		if (!send_piece(to, tag, (const char *)data + done, n))
			return false;
	}
	return true;
}

static void fail(void)
{
	if (atomic_exchange(&mpi.failed, true))
		return;
	for (int i = 0; i < mpi.count; i++) {
		MPI_Request request;
		if (i == mpi.index)
			continue;
		MPI_Isend(NULL, 0, MPI_BYTE, i, NOTICE, mpi.notices, &request);
		MPI_Request_free(&request);
	}
}

/* Waits for the next message of FROM with TAG, of SIZE bytes, and receives it. */
static bool receive_piece(int from, int tag, void *data, int size)
{
	MPI_Message message;
	MPI_Status status;
	MPI_Request request;
	int there = 0, have = 0;
	for (int calls = 0; MPI_Improbe(from, tag, mpi.messages, &there, &message, &status), !there; calls++) {
		if (calls % 16 == 15 && !good())
			return false;
		pause_before_test(calls);
	}
	MPI_Get_count(&status, MPI_BYTE, &have);
	if (have != size) {
		mpi.differs = true;
		fail();
		return false;
	}
	MPI_Imrecv(data, size, MPI_BYTE, &message, &request);
	return wait_for_request(&request, false); /* its sender has sent it: it comes, whoever fails */
}

static bool receive_from(int from, int tag, void *data, size_t size)
{
	for (size_t done = 0, n; done < size; done += n) {
		n = size - done < PIECE ? size - done : PIECE;
		if (!receive_piece(from, tag, (char *)data + done, (int)n))
			return false;
	}
	return true;
}

/* Passes a piece on along a binomial tree: rank I has it from I without its lowest bit, and gives it to I + lower bits. */
static bool broadcast_piece(void *data, size_t size)
{
	int bit = 1;
	for (; bit < mpi.count && !(mpi.index & bit); bit *= 2)
		continue;
	if (mpi.index > 0 && !receive_piece(mpi.index - bit, TAG_BROADCAST, data, (int)size))
		return false;
	while ((bit /= 2) > 0)
		if (mpi.index + bit < mpi.count && !send_piece(mpi.index + bit, TAG_BROADCAST, data, size))
			return false;
	return good();
}

static bool broadcast(void *data, size_t size)
{
	for (size_t done = 0, n; done < size; done += n) {
		n = size - done < BROADCAST_PIECE ? size - done : BROADCAST_PIECE;
		if (!broadcast_piece((char *)data + done, n))
			return false;
	}
	return true;
}

static const char *wrong(void) { return mpi.differs ? "a message has another size than the rank expects" : NULL; }

static void settle(const void *mine, size_t size, void *all)
{
	MPI_Request request;
	memcpy((char *)all + (size_t)mpi.index * size, mine, size);
	for (int i = 0; i < mpi.count; i++) {
		if (i == mpi.index)
			continue;
		MPI_Isend(mine, (int)size, MPI_BYTE, i, SETTLE, mpi.notices, &request);
		wait_for_request(&request, false);
	}
	for (int i = 0; i < mpi.count; i++) {
		if (i == mpi.index)
			continue;
		MPI_Irecv((char *)all + (size_t)i * size, (int)size, MPI_BYTE, i, SETTLE, mpi.notices, &request);
		wait_for_request(&request, false);
	}
}

static void stop(void)
{
	pthread_mutex_lock(&mpi.lock);
	for (int calls = 0; mpi.pending && good(); calls++) {
		free_pending();
		pause_before_test(calls);
	}
	pthread_mutex_unlock(&mpi.lock);
	if (mpi.started)
		MPI_Finalize();
}

__attribute__((visibility("default"))) const struct rank_calls ckptc_rank_calls = {
	RANK_CALLS_VERSION, start_mpi, broadcast, send, receive_from, good, fail, wrong, settle, stop};
