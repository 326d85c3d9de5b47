/* What several commands print of a job. */
#ifndef CLI_DUMP_H
#define CLI_DUMP_H

#include "cli/session.h"
#include "plan/job.h"

/* --dump syntax|chain|plan|schedule. */
enum status command_dump(struct session *session);
/* The options of a job, from the session's. */
struct job_options session_job_options(const struct session *session, const struct policy *policy);
/* The residual report for an input of TYPE, to PATH (NULL: standard error where ERROR, else standard output). */
enum status put_residuals(struct session *session, const struct type *type, const char *path, bool error);
enum status put_job_residuals(struct session *session, const struct job *job, const char *path, bool error);
/* What the chain takes under save-all for an INPUT, to which others are compared; why it cannot be told, in DIAGS. */
enum status save_all_counters(struct session *session, const struct type *input, struct counters *counters,
                              struct diags *diags);
/* Warnings about policies and checkpoints that save nothing, unless standard error carries JSON or CSV. */
void warn_useless(struct session *session, const struct job *job);
/* The warning that JOB, of one that --journal goes with, has no states on disk: all points of a journal go with these. */
void warn_unjournalled(struct session *session, const struct job *job);
/* The warning that --store-dtype changes nothing. */
void warn_unstored(struct session *session);

#endif
