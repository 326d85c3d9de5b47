/* Groups of kernel ops, run on blocks of their arrays. */
#ifndef EVALUATE_BLOCKS_H
#define EVALUATE_BLOCKS_H

#include "compile/program.h"

/* One execution of a group: LAUNCH of PROGRAM on the arrays at FRAME. */
struct group_call {
	const struct launch *launch;
	int64_t count; /* of elements: the launch's, or fewer rows of them */
	const struct program *program;
	const struct particulars *own; /* as in struct evaluation */
	char **frame;
	char *registers; /* of the caller; another member of a team has its own */
	const struct kernels *kernels[2];
};

/* Runs elements BEGIN .. END-1, with the block registers at MEMORY, or the caller's if that is NULL. */
void group_run_part(const struct group_call *call, void *memory, int64_t begin, int64_t end);
/* Runs all elements. TEAM, which may be NULL, shares them. */
void group_run(const struct group_call *call, struct team *team);

#endif
