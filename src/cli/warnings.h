/* Warnings about options that have no effect on the job at hand. */
#ifndef CLI_WARNINGS_H
#define CLI_WARNINGS_H

#include "cli/session.h"
#include "plan/job.h"

/* A policy or a checkpoint block that saves no memory, compared to save-all. */
void warn_useless(struct session *session, const struct job *job);
/* --journal, if JOB keeps no states on disk: nothing else is recorded in a journal. */
void warn_unjournalled(struct session *session, const struct job *job);
/* --store-dtype, if COUNTERS have no checkpoints. */
void warn_unstored(struct session *session, const struct counters *counters);
/* --assume-dtype, if no array needed it. For the end of a command. */
void warn_unassumed(struct session *session);

#endif
