/* The options of a session's jobs. */
#ifndef CLI_JOB_OPTIONS_H
#define CLI_JOB_OPTIONS_H

#include "cli/session.h"
#include "plan/job.h"

struct job_options session_job_options(const struct session *session, const struct policy *policy);
/*
 * The counters of PORTION of the chain (NULL: all of it) under save-all, for an INPUT: what others are compared to.
 * Says in DIAGS why they cannot be known.
 */
enum status save_all_counters(struct session *session, const struct portion *portion, const struct type *input,
                              struct counters *counters, struct diags *diags);

#endif
