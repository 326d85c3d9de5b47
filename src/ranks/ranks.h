/*
 * Ranks: the processes that a launcher such as mpirun starts for one command. Each owns every COUNTth chunk of rows,
 * reads it from the input and writes it to the output, which are regular files that all ranks see.
 *
 * All ranks run one command. Right after the start they agree on the instruction set of the kernels (agree.c). Then they
 * compare what must be equal (facts.c): what differs would end in a file of mixed results, or in a wait for ever.
 *
 * If a rank fails, it tells the others, whose next call fails with STATUS_OTHER_RANK. ranks_settle then finds the one
 * failure that is reported. A rank that is killed ends all, by the launcher.
 */
#ifndef RANKS_RANKS_H
#define RANKS_RANKS_H

#include "base/diag.h"

struct ranks {
	int index, count; /* this rank, from 0 on, of COUNT */
	bool together;    /* all run on one machine */
	const struct rank_calls *calls;
};

/* Return the number of ranks, 1 if RANKS is NULL, and the number of this one. */
static inline int ranks_count(const struct ranks *ranks) { return ranks ? ranks->count : 1; }
static inline int ranks_index(const struct ranks *ranks) { return ranks ? ranks->index : 0; }

/*
 * Returns the number of processes that a launcher has started, of which this is one; 1 without a launcher. *FIRST: it
 * is rank 0. Reads the environment alone.
 */
int ranks_launched(bool *first);
/*
 * Sets *RANKS, in the context's arena, to the ranks that the launcher has started. CKPTC_RANKS may
 * name the file of a module in place of the installed one. Fails with STATUS_LIMIT if the build has none or it cannot be used.
 */
enum status ranks_start(const struct context *context, struct ranks **ranks);
/*
 * The last part of ranks_start. Sets ranks->together. If ranks differ in instruction sets, sets CKPTC_ISA to the best one
 * that all have. If they might multiply by different libraries, sets CKPTC_BLAS so that none takes one. So a result has
 * the same bits on all ranks. Comes before anything asks for kernels.
 */
enum status ranks_agree(const struct context *context, struct ranks *ranks);

/* What all ranks must have in common, such as an option. */
struct rank_fact {
	enum status status; /* of a failure, if it differs */
	const char *label;  /* such as "--policy" */
	const char *shown;  /* for messages; NULL: this rank has none */
	uint64_t key;       /* facts with equal keys are equal; RANK_ANY equals all */
};
enum { RANK_ANY = 0 };
struct rank_facts {
	struct rank_fact *items;
	size_t count, capacity;
	struct arena *arena;
};
/* Adds a fact. SHOWN must live as long as FACTS. False if memory is short. */
bool ranks_add_fact(struct rank_facts *facts, enum status status, const char *label, const char *shown, uint64_t key);
/* The same, of a text, which SHOWN is and which decides. */
bool ranks_add_text(struct rank_facts *facts, enum status status, const char *label, const char *shown);
/*
 * Compares FACTS with those of rank 0, in order. Fails with the status of the first that differs, which the message names
 * with both values. All ranks call it, and then ranks_settle, so that no rank goes on alone. It ends when all have compared.
 */
enum status ranks_compare(const struct context *context, const struct ranks *ranks, const struct rank_facts *facts);

/* The calls of calls.h, for all bytes of RANKS, of any number. They fail with STATUS_OTHER_RANK alone. */
enum status ranks_broadcast(const struct ranks *ranks, void *data, size_t size);
enum status ranks_send(const struct ranks *ranks, int to, int tag, const void *data, size_t size);
enum status ranks_receive(const struct ranks *ranks, int from, int tag, void *data, size_t size);
/*
 * Sets *MEMORY to SIZE bytes of zeros that all ranks share until the process ends, aligned as arrays are; to NULL if
 * ranks run on several machines or ask for different sizes, or if rank 0's ALLOCATOR or the system has not so much
 * memory. All ranks call it. It fails with STATUS_OTHER_RANK alone.
 */
enum status ranks_share(const struct ranks *ranks, int64_t size, const struct allocator *allocator, void **memory);
/* Tells the others that this rank has failed, so that those which wait for it end. RANKS may be NULL. */
void ranks_fail(const struct ranks *ranks);
/* Fails with STATUS_OTHER_RANK if a rank has failed. It does not wait. */
enum status ranks_check(const struct ranks *ranks);
/*
 * Ends a phase of all ranks, of which this one has the status STATUS. Returns the status of the failure to report: that
 * of the lowest rank that has one of its own; STATUS_OK if there is none. *SPEAKS: this rank reports it; of a success rank 0.
 */
enum status ranks_settle(const struct ranks *ranks, enum status status, bool *speaks);
/* Returns why a call of this rank has failed, if not by another rank's failure; else NULL. */
const char *ranks_wrong(const struct ranks *ranks);
void ranks_stop(const struct ranks *ranks);
/* True if the build has a module. */
bool ranks_built(void);

#endif
