/*
 * The verifier of schedules: it interprets actions one at a time, in the plain way, and knows no policy and no family.
 * So it judges any list of actions, ours or another program's. A list is right if it reverses every step once and
 * leaves no slot in use; action.h says what each action needs.
 */
#ifndef SCHEDULE_VERIFY_H
#define SCHEDULE_VERIFY_H

#include "base/diag.h"
#include "schedule/action.h"

/* The most steps of a chain, and the most slots of each kind, that are verified. */
enum { VERIFY_MOST = 10000000 };

struct verifier;
/* Sets *VERIFIER, for verifier_free, to the beginning of a chain of STEPS steps. Fails with STATUS_LIMIT alone. */
enum status verifier_make(struct verifier **verifier, const struct allocator *allocator, int64_t steps,
                          struct diags *diags);
/*
 * Interprets the next ACTION. Fails with STATUS_CHECK, and names the action's number, the action and the rule that it
 * breaks. STATUS_LIMIT: too many slots, or no memory. After a failure VERIFIER may only be freed.
 */
enum status verifier_see(struct verifier *verifier, const struct action *action, struct diags *diags);
/* Fails with STATUS_CHECK unless the actions so far reverse every step and have emptied every slot. */
enum status verifier_end(const struct verifier *verifier, struct diags *diags);
/* Returns the number of actions that were right so far. */
int64_t verifier_actions(const struct verifier *verifier);
void verifier_free(struct verifier *verifier);

#endif
