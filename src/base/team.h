/*
 * A team of threads, its members, that share one loop at a time. The pieces of a loop are the same for every team, but
 * any member may run any piece, in any order. So a piece must not write what another piece reads or writes. A piece may
 * wait for another only if team_start has returned at least the number of pieces.
 */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/diag.h"

/* A NULL team has one member, the caller. */
struct team;

/* Runs elements BEGIN .. END-1. MEMORY is the thread's own, ARRAY_ALIGN aligned; NULL in the team's caller. */
typedef void team_part(void *context, void *memory, int64_t begin, int64_t end);

/*
 * Makes *TEAM of MEMBERS, the caller among them; NULL if they are fewer than two. Each other thread gets BYTES of its
 * own. Threads start with the first loop of several pieces; those that fail to start are left out.
 */
enum status team_open(struct team **team, int members, int64_t bytes, const struct allocator *allocator,
                      struct diags *diags);
/* Ends the threads and frees TEAM, if not NULL. Without team_wait, pieces of the last loop may never run. */
void team_close(struct team *team);
/* Starts the threads, if no loop has. Returns the number of members that run, the caller among them. */
int team_start(struct team *team);
/* Runs PART over elements 0 .. COUNT-1 in pieces of GRAIN; the last may be shorter. Returns when all have run. */
void team_run(struct team *team, int64_t count, int64_t grain, team_part *part, void *context);
/* team_run in two calls, between which the caller may do other work. TEAM is not NULL. team_wait runs pieces, too. */
void team_begin(struct team *team, int64_t count, int64_t grain, team_part *part, void *context);
void team_wait(struct team *team);

#endif
