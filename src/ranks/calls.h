/*
 * What a module of ranks exports, as `ckptc_rank_calls`. The program opens the module when a launcher has started it
 * as one of several processes. So the program itself depends on no MPI, and its start loads none.
 *
 * All functions but fail may wait. A function that returns a bool returns false once a rank has called fail. Then
 * the only calls that may follow are fail, settle and stop. Several threads may call send, receive, good and fail at once.
 */
#ifndef RANKS_CALLS_H
#define RANKS_CALLS_H

#include <stdbool.h>
#include <stddef.h>

enum { RANK_CALLS_VERSION = 2, RANK_TAGS = 1 << 20 };

struct rank_calls {
	int version;
	/* Joins the other ranks. Returns NULL, or what is wrong. INDEX is 0 .. COUNT-1. */
	const char *(*start)(int *index, int *count);
	/* Gives everyone the SIZE bytes that rank 0 has at DATA. All ranks call it. */
	bool (*broadcast)(void *data, size_t size);
	/* Sends SIZE bytes. It returns when DATA may be changed, which may be before they arrive. TAG is below RANK_TAGS. */
	bool (*send)(int to, int tag, const void *data, size_t size);
	/* Receives the next message of SIZE bytes that FROM has sent with TAG. */
	bool (*receive)(int from, int tag, void *data, size_t size);
	/*
	 * Lets the next message of SIZE bytes that FROM sends with TAG arrive while the caller does other work. The module
	 * keeps it for receive, if memory allows.
	 */
	void (*expect)(int from, int tag, size_t size);
	/* True unless a rank has called fail. It does not wait. */
	bool (*good)(void);
	/* Tells all others that this rank has failed. */
	void (*fail)(void);
	/* Collects the SIZE bytes of everyone at ALL, by rank. All ranks call it, failed ones too. */
	void (*settle)(const void *mine, size_t size, void *all);
	void (*stop)(void);
};

#endif
