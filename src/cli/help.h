/* What the program tells of itself, from its tables, on standard output. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/session.h"

/* --help of COMMAND (NULL: the program's). STATUS_IO. */
enum status help_print(struct session *session, const struct command *command);
/* An operation: its arguments, what it computes, its reach, and what it keeps. STATUS_IO. */
enum status help_print_op(struct session *session, enum op op);
/* The lines from which completions are made. STATUS_IO. */
enum status help_print_options(struct session *session);

#endif
