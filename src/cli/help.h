/* Help texts on standard output. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/session.h"

/* Prints --help of COMMAND; NULL: of the program. STATUS_IO. */
enum status help_print(struct session *session, const struct command *command);
/* Prints what an operation takes, computes, reaches and keeps. STATUS_IO. */
enum status help_print_op(struct session *session, enum op op);
/* Prints the lines from which completions are made. STATUS_IO. */
enum status help_print_options(struct session *session);

#endif
