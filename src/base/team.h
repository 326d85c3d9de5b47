/*
 * A team of threads that share one loop at a time. The pieces of a loop do not depend on
 * the team, but any member may run any piece, in any order. So a piece must not depend on
 * another, nor write what another reads or writes.
 */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/alloc.h"

#include <stdint.h>

struct team;

/* Runs elements BEGIN .. END-1. MEMORY is the member's own, ARRAY_ALIGN aligned; NULL for the caller of team_run. */
typedef void team_part(void *context, void *memory, int64_t begin, int64_t end);

/*
 * A team of MEMBERS, the caller among them; each of the others has BYTES of its own. Their
 * threads start with the first loop, and the team runs without those that fail to start.
 * Returns NULL where memory is short.
 */
struct team *team_open(int members, int64_t bytes, const struct allocator *allocator);
/* NULL is a team of the caller alone. */
void team_close(struct team *team);
/* Runs PART over 0 .. COUNT-1 in pieces of GRAIN elements, the last one shorter. Returns when all are done. */
void team_run(struct team *team, int64_t count, int64_t grain, team_part *part, void *context);

#endif
