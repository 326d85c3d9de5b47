/* The gradients of params, which --grads and --grad write and --accumulate adds. */
#ifndef CLI_GRADIENT_FILES_H
#define CLI_GRADIENT_FILES_H

#include "cli/session.h"
#include "exec/run.h"

/* Fails with STATUS_USAGE if --grads, --grad or --accumulate are wrong for the chain, which is loaded. */
enum status gradient_files_check(struct session *session);
/*
 * Writes the files, which session_commit renames. With --accumulate, first locks their folders, and waits for other
 * commands that have; the session keeps the locks. RESULT's gradients may change.
 */
enum status gradient_files_put(struct session *session, const struct gradient_result *result);

#endif
