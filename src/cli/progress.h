/* One line on the terminal, redrawn while the work is long. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/session.h"
#include "schedule/action.h"

struct progress {
	const char *name; /* of the work, shown where there is no action */
	bool on, drawn;
	double begun, last; /* seconds */
};

/* True if progress is shown: on a terminal, or with --progress. */
bool progress_begin(struct progress *progress, const struct session *session, const char *name);
void progress_action(void *context, const struct action *action, double done, int64_t live, int64_t peak);
/* Before POLICY, the DONE-th of ALL, is planned. */
void progress_policy(struct progress *progress, const char *policy, size_t done, size_t all);
void progress_end(struct progress *progress);

#endif
