/*
 * A team of threads that share one loop at a time. The pieces of a loop do not depend on
 * the team, but any member may run any piece, in any order. So a piece must not write what
 * another reads or writes, and waits for another only where every member has started.
 */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/diag.h"

/* NULL is a team of the caller alone. */
struct team;

/* Runs elements BEGIN .. END-1. MEMORY is the member's own, ARRAY_ALIGN aligned; NULL for the caller of team_run. */
typedef void team_part(void *context, void *memory, int64_t begin, int64_t end);

/*
 * Makes *TEAM of MEMBERS, the caller among them; each of the others has BYTES of its own.
 * Their threads start with the first loop, and the team runs without those that fail to.
 */
enum status team_open(struct team **team, int members, int64_t bytes, const struct allocator *allocator,
                      struct diags *diags);
/* Pieces that no member has claimed are not run. */
void team_close(struct team *team);
/* Starts the threads before the first loop does. Returns the members that run, the caller among them. */
int team_start(struct team *team);
/* Runs PART over 0 .. COUNT-1 in pieces of GRAIN elements, the last one shorter. Returns when all are done. */
void team_run(struct team *team, int64_t count, int64_t grain, team_part *part, void *context);
/* The halves of team_run, for a TEAM with others: the caller may work until it waits, then runs the pieces left. */
void team_begin(struct team *team, int64_t count, int64_t grain, team_part *part, void *context);
void team_wait(struct team *team);

#endif
