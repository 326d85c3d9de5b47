#ifndef CLI_DUMP_H
#define CLI_DUMP_H

#include "cli/session.h"

/* --dump syntax|chain|plan|schedule. */
enum status command_dump(struct session *session);

#endif
