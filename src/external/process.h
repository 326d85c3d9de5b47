/*
 * A command that runs beside ckptc: /bin/sh runs it, in a process group of its own, with default signals and no
 * descriptors but standard input, output and error, and 3 for shared memory. It never outlives ckptc: it sees the end
 * of its input, and external_cleanup or process_end end the group.
 */
#ifndef EXTERNAL_PROCESS_H
#define EXTERNAL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/diag.h"

enum { PROCESSES_MOST = 256, LAST_LINE = 256 };

struct process {
	pid_t pid;         /* 0: it does not run */
	int input, output; /* our ends of its standard input and output, which never block; -1: closed */
	int errors;        /* and of its standard error */
	int status;        /* of waitpid, once it has ended */
	bool forced;       /* it ended because it was killed here */
	diag_write *pass;  /* receives what it writes to standard error; NULL: nobody does */
	void *pass_context;
	char last[LAST_LINE]; /* its last line on standard error that is not blank, without the end of a longer one */
	size_t last_length;
	bool last_complete; /* the line end was read */
};

/* Starts COMMAND. SHARED becomes its descriptor 3, unless it is -1. Returns 0, or the error number of what failed. */
int process_start(struct process *process, const char *command, int shared);
/* Passes on what the process has written to standard error; does not wait. True if that is something. */
bool process_pass_errors(struct process *process);
void process_close_input(struct process *process);
/* Closes the process's input and output. */
void process_hang_up(struct process *process);
/* True once the process has ended, for which it waits for SECONDS. It is not reaped yet. */
bool process_await(struct process *process, double seconds);
/*
 * Ends the process and its group: hangs up, waits for SECONDS, then kills. Sets `status` and `forced`. No zombie is
 * left. Does nothing if it does not run.
 */
void process_end(struct process *process, double seconds);

#endif
