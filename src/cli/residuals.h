/* The residual report as commands print it: to PATH, else to standard error if ERROR, else to standard output. */
#ifndef CLI_RESIDUALS_H
#define CLI_RESIDUALS_H

#include "cli/session.h"
#include "plan/job.h"

/* Plans for an input of TYPE first, and warns of what has no effect. */
enum status put_residuals(struct session *session, const struct type *type, const char *path, bool error);
enum status put_job_residuals(struct session *session, const struct job *job, const char *path, bool error);

#endif
