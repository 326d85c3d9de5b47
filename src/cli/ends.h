/* How the command ends where main does not end it: by a signal, or in a shared object of --program. */
#ifndef CLI_ENDS_H
#define CLI_ENDS_H

#include <signal.h>
#include <stdbool.h>

#include "cli/session.h"

/* From now on signals that end the process, and libraries that call exit, leave no temporaries and no programs. */
void ends_begin(void);
/*
 * If the command line binds a shared object, prepares for whatever that may do: holds the working directory and the
 * standard streams, and handles all signals that end a process. Elsewhere faults are bugs, whose core may be wanted.
 */
enum status ends_watch_objects(struct session *session);
/* Main ends the process with STATUS now. */
void ends_finish(int status);

/* True in the command's own process while it may run functions of shared objects. */
bool ends_watches(void);
/*
 * If this thread runs a function of a shared object, reports that it ended as WHAT and DETAIL say, and exits with
 * STATUS_PROGRAM. Else returns. It is async-signal-safe.
 */
void ends_for_object(const char *what, const char *detail);
/* Returns the command's own action of signal NUMBER, or NULL if it leaves the signal to the system. */
const struct sigaction *ends_action(int number);
/* True if an end by signal NUMBER, which a fault raises, cannot be ignored. */
bool ends_is_fault(int number);

/*
 * interposed.c defines functions that the C library has too. A shared object of --program calls these in place of the C
 * library's. The C library's headers declare them.
 */

/* Finds the C library's functions of those names. A handler of signals needs them found before it runs. */
void interposed_find(void);
/* Prepares for threads, before an object is loaded. */
void interposed_prepare(void);
/* The C library's own sigaction. It is async-signal-safe after interposed_find. */
int interposed_sigaction(int number, const struct sigaction *new, struct sigaction *old);

#endif
