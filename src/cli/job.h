/* A session's jobs: their options, the warnings and the residual report about them, and their progress. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/session.h"

struct job_options session_job_options(const struct session *session, const struct policy *policy);
/* Plans session->job, in place of an earlier one: the chain under POLICY on an INPUT. */
enum status session_make_job(struct session *session, const struct policy *policy, const struct type *input);
/* Plans the chain under save-all, to which policies are compared. */
enum status save_all_counters(struct session *session, const struct type *input, struct counters *counters);
/* Prints the residuals of JOB to PATH, else to standard error if ERROR, else to standard output. */
enum status put_job_residuals(struct session *session, const struct job *job, const char *path, bool error);
/* Plans a job for an input of TYPE, prints its residuals, and warns of options without effect. */
enum status put_residuals(struct session *session, const struct type *type, const char *path, bool error);

/* Warns of a policy or a checkpoint block that saves no memory, compared to save-all. */
void warn_useless(struct session *session, const struct job *job);
/* Warns of --journal if JOB keeps no states on disk: nothing else is recorded in a journal. */
void warn_unjournalled(struct session *session, const struct job *job);
/* Warns of --store-dtype if COUNTERS have no checkpoints; else of the largest ERROR that it made, NAN if unknown. */
void warn_unstored(struct session *session, const struct counters *counters, double error);
/* Warns of --assume-dtype if no array needed it. For the end of a command. */
void warn_unassumed(struct session *session);

/* One line on the terminal: redrawn at most ten times a second, and not in the first second. */
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
