/* The options of a session's jobs. */
#ifndef CLI_JOB_OPTIONS_H
#define CLI_JOB_OPTIONS_H

#include "cli/session.h"
#include "plan/job.h"

struct job_options session_job_options(const struct session *session, const struct policy *policy);
/* Plans PORTION of the chain (NULL: all) under save-all, to which policies are compared. Errors go to DIAGS. */
enum status save_all_counters(struct session *session, const struct portion *portion, const struct type *input,
                              struct counters *counters, struct diags *diags);

#endif
