/*
 * A team of threads that share one loop at a time. The loop's pieces are the same
 * whatever the team; who takes which is left to chance: so a piece must depend on
 * no other, and what it writes be its own.
 */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/alloc.h"

#include <stdint.h>

struct team;

/* Elements BEGIN .. END-1. MEMORY: the member's own bytes, 64-byte aligned; NULL for the caller of team_run. */
typedef void team_part(void *context, void *memory, int64_t begin, int64_t end);

/*
 * MEMBERS in all, the caller counted; each of the others has BYTES of its own. They
 * start with the first loop, and those that cannot start are done without. NULL
 * where memory is short.
 */
struct team *team_open(int members, int64_t bytes, const struct allocator *allocator);
/* NULL is a team of the caller alone. */
void team_close(struct team *team);
/* PART over 0 .. COUNT-1 in pieces of GRAIN, the last the rest. Returns when all are done. */
void team_run(struct team *team, int64_t count, int64_t grain, team_part *part, void *context);

#endif
