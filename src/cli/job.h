/* The jobs of a session: their options, the warnings and residual reports about them, and the progress line. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/session.h"
#include "exec/run.h"
#include "report/counters.h"

struct job_options session_job_options(const struct session *session, const struct policy *policy);
/* Frees `job` of SESSION and plans it again: the chain under POLICY on an input of type INPUT. */
enum status session_make_job(struct session *session, const struct policy *policy, const struct type *input);
/* Plans the chain on an input of type INPUT under save-all. Writes the prediction to COUNTERS. Ignores --costs. */
enum status save_all_counters(struct session *session, const struct type *input, const struct portion *portion,
                              struct counters *counters);
/* Returns which costs the overheads of SESSION's reports are counted in, for a policy_row. */
const char *session_costs_name(const struct session *session);
/* Sets ROW to the figures that RESULT measured; plans the chain under save-all to compare them with. */
enum status gradient_row(struct session *session, const struct gradient_result *result, struct policy_row *row);
/* Prints the residuals of JOB to PATH; if PATH is NULL, to standard error if TO_STDERR, else to standard output. */
enum status put_job_residuals(struct session *session, const struct job *job, const char *path, bool to_stderr);
/* Plans `job` of SESSION for an input of TYPE, and prints its residuals as above. Warns of options without effect. */
enum status put_residuals(struct session *session, const struct type *type, const char *path, bool to_stderr);

/* Warns of a policy by value, or of a checkpoint block at the end under save-all, that does not lower the peak. */
void warn_useless(struct session *session, const struct job *job);
/* Warns of --tile if an array of type INPUT, which takes PEAK bytes, is not cut because of WHY; NULL: it is. */
void warn_untiled(struct session *session, const char *why, const struct type *input, int64_t peak);
/* Warns of --journal if JOB has one step, as a policy by value makes it: then there is one moment to resume from. */
void warn_unjournalled(struct session *session, const struct job *job);
/* Warns of --store-dtype if COUNTERS have no checkpoints; else reports ERROR, its largest error, unless that is NAN. */
void warn_unstored(struct session *session, const struct counters *counters, double error);
/* Warns of --assume-dtype if no array needed it. Called after a command that succeeded. */
void warn_unassumed(struct session *session);

/* A line on standard error. It first appears after a second, and changes at most ten times a second. */
struct progress {
	const char *name; /* the command's name, shown if there is no action */
	bool on, drawn;
	double begun, last; /* clock_seconds of the begin and of the last drawing */
};

/* Initialises PROGRESS. True if progress is shown: on a terminal, or with --progress. */
bool progress_begin(struct progress *progress, const struct session *session, const char *name);
/* The `progress` function of run_options; CONTEXT is a struct progress. */
void progress_action(void *context, const struct action *action, double done, int64_t live, int64_t peak);
/* Shows WHAT, of which the share DONE is done. */
void progress_show(struct progress *progress, const char *what, double done);
/* Shows that POLICY is being planned, after DONE of ALL policies. */
void progress_policy(struct progress *progress, const char *policy, size_t done, size_t all);
void progress_end(struct progress *progress);

#endif
