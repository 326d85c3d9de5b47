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
/* The actions of POLICY's schedule of STEPS steps. */
void put_schedule(struct schedule *schedule, const char *policy, int64_t steps, const struct text *text, bool json);
/* Warnings about policies and checkpoints that save nothing. */
void warn_useless(struct session *session, const struct job *job);
/* Names in a policy must be names of the chain. STATUS_USAGE with a suggestion. */
enum status check_policy_names(struct session *session, const struct policy *policy);

#endif
