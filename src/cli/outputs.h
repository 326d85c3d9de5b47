/* Whether the files of one invocation are in each other's way. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "cli/session.h"

/* STATUS_USAGE where two options would be written to one regular file, by whatever paths. */
enum status outputs_check(struct session *session);

#endif
