/*
 * An allocator for tests. It counts, it fails a request, and it knows the size of
 * each block, so that whoever grows or frees one and gives another size is caught.
 * From any thread.
 */
#ifndef TESTS_FAILING_H
#define TESTS_FAILING_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "asserts.h"
#include "base/alloc.h"

struct failing {
	size_t fail_at;    /* the request that fails, counted from 1; 0: none */
	bool on;           /* and all that follow it */
	size_t requests;   /* so far */
	size_t live, most; /* bytes, now and at their highest */
	size_t last;       /* bytes of the last request that was granted */
};

static pthread_mutex_t failing_lock = PTHREAD_MUTEX_INITIALIZER;

enum { FAILING_HEADER = 16 }; /* bytes before each block: its size, padded to the alignment of blocks */

static inline void *failing_move(struct failing *failing, char *block, size_t old_size, size_t new_size)
{
	size_t held = 0;
	if (block)
		memcpy(&held, block - FAILING_HEADER, sizeof held);
	ck_assert_msg(!block || held == old_size, "a block of %zu bytes is said to have %zu", held, old_size);
	if (new_size > 0 && ++failing->requests >= failing->fail_at && failing->fail_at > 0 &&
	    (failing->on || failing->requests == failing->fail_at))
		return NULL;
	char *made =
		allocator_system.resize(allocator_system.context, block ? block - FAILING_HEADER : NULL,
	                            block ? old_size + FAILING_HEADER : 0, new_size > 0 ? new_size + FAILING_HEADER : 0);
	if (!made && new_size > 0)
		return NULL;
	failing->live += new_size - held;
	failing->most = failing->live > failing->most ? failing->live : failing->most;
	if (new_size == 0)
		return NULL;
	failing->last = new_size;
	memcpy(made, &new_size, sizeof new_size);
	return made + FAILING_HEADER;
}

static void *failing_resize(void *context, void *block, size_t old_size, size_t new_size)
{
	pthread_mutex_lock(&failing_lock);
	void *made = failing_move(context, block, old_size, new_size);
	pthread_mutex_unlock(&failing_lock);
	return made;
}

static inline struct allocator failing_allocator(struct failing *failing)
{
	return (struct allocator){.resize = failing_resize, .context = failing};
}

#endif
