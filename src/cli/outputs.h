/* Checks that the output files of one invocation do not conflict, and can be written. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "cli/session.h"

/* STATUS_USAGE if two options name one regular file, by any paths. */
enum status outputs_check(struct session *session);
/* Sets *BINARY if the output, whose writer is made, is npy or raw, where nothing else may be written. */
enum status outputs_are_binary(struct session *session, bool *binary);
/* STATUS_USAGE if a report would follow the arrays of a binary output, which is open and has its writer. */
enum status outputs_check_apart(struct session *session);
/* STATUS_IO if a file that is written after the work cannot be opened now. */
enum status outputs_probe(struct session *session);

#endif
