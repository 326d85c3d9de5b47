/* Groups of kernel ops, run on blocks of their arrays. */
#ifndef EVALUATE_BLOCKS_H
#define EVALUATE_BLOCKS_H

#include "evaluate/rows.h"

/* Runs elements BEGIN .. END-1, with the block registers at MEMORY, or the caller's if that is NULL. */
void group_run_part(const struct launch_run *run, void *memory, int64_t begin, int64_t end);
/* Runs all elements. TEAM, which may be NULL, shares them. */
void group_run(const struct launch_run *run, struct team *team);

#endif
