/* Whether the files of one invocation are in each other's way, or out of reach. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "cli/session.h"

/* STATUS_USAGE where two options would be written to one regular file, by whatever paths. */
enum status outputs_check(struct session *session);
/* *BINARY: whether s->writer, which is made, writes npy or raw, where nothing else may come between or behind. */
enum status outputs_are_binary(struct session *session, bool *binary);
/*
 * With the output open and s->writer made: STATUS_USAGE where what is written when the work is
 * done would follow a binary array's data, in which nothing may.
 */
enum status outputs_check_apart(struct session *session);
/* STATUS_IO where a file that is written when the work is done could not be: before the work. */
enum status outputs_probe(struct session *session);

#endif
