/*
 * What a module of ranks exports, as `ckptc_rank_calls`. The program opens the module only if the environment shows
 * that a launcher has started it as one of several processes (ranks_launched). So the program itself depends on no
 * MPI, and its start loads none. A second binary would do as well, but two programs would have to be kept alike.
 *
 * All functions but fail may wait. A function that returns a bool returns false once a rank has called fail. Then
 * the only calls that may follow are fail, settle and stop. Several threads may call send, receive, good and fail at once.
 */
#ifndef RANKS_CALLS_H
#define RANKS_CALLS_H

#include <stdbool.h>
#include <stddef.h>

enum { RANK_CALLS_VERSION = 3, RANK_TAGS = 1 << 20, RANKS_MOST = 1 << 16 };

struct rank_calls {
	int version;
	/* Joins the other ranks. Returns NULL, or what is wrong. INDEX is 0 .. COUNT-1. */
	const char *(*start)(int *index, int *count);
	/* Gives everyone the SIZE bytes that rank 0 has at DATA. All ranks call it, with the same SIZE. */
	bool (*broadcast)(void *data, size_t size);
	/* Sends SIZE bytes. It returns when DATA may be changed, which may be before they arrive. TAG is below RANK_TAGS. */
	bool (*send)(int to, int tag, const void *data, size_t size);
	/* Receives the next message that FROM has sent with TAG. It fails for all, as if by fail, unless that has SIZE bytes. */
	bool (*receive)(int from, int tag, void *data, size_t size);
	/* True unless a rank has called fail. It does not wait. */
	bool (*good)(void);
	/* Tells all others that this rank has failed. */
	void (*fail)(void);
	/* Returns why a call of this rank has failed, if not by another rank's failure; else NULL. */
	const char *(*wrong)(void);
	/* Collects the SIZE bytes of everyone at ALL, by rank. All ranks call it, failed ones too. */
	void (*settle)(const void *mine, size_t size, void *all);
	void (*stop)(void);
};

#endif
