/*
 * Starts and ends commands.
 *
 * A process that has ended stays a zombie until its group is killed: its number, which is the group's, cannot be given
 * to another process before. The list of processes is global, since a signal handler has no other way to find them.
 * Tests: tests/unit/test_external.c
 */
#include "external/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system.h"
#include "external/external.h"
#include "io/paths.h"

extern char **environ;

/* 0: a free entry. */
static _Atomic(pid_t) processes[PROCESSES_MOST];

/* Seconds from SIGTERM to SIGKILL; bytes that a pipe should hold; the least descriptor that no child has. */
static const double patience = 0.5;
enum { PIPE_BYTES = 1 << 20, FIRST_FREE = 4 };

/* Replaces an entry OLD of the list by NEW. Returns false if there is none. */
static bool exchange_process(pid_t old, pid_t new)
{
	for (int i = 0; i < PROCESSES_MOST; i++) {
		pid_t expected = old;
		if (atomic_compare_exchange_strong(&processes[i], &expected, new))
			return true;
	}
	return false;
}

/* True if PID, a child, is a zombie, or no child any more. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = {.si_pid = 0};
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ? errno != EINTR : info.si_pid == pid;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Makes a pipe whose ends no child's descriptors can be. *OURS never blocks. */
static bool open_pipe(int *theirs, int *ours, bool we_write)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	for (int i = 0; i < 2; i++) {
		const int lifted = fcntl(ends[i], F_DUPFD_CLOEXEC, FIRST_FREE);
		close(ends[i]);
		ends[i] = lifted;
	}
	*theirs = ends[!we_write];
	*ours = ends[we_write];
	if (*theirs < 0 || *ours < 0)
		return false;
	(void)fcntl(*ours, F_SETPIPE_SZ, PIPE_BYTES); /* the system may refuse so many bytes: the pipe then holds fewer */
	return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

/* Starts COMMAND, whose first descriptors are FDS; the last may be -1. Returns an error number, or 0. */
static int spawn(pid_t *pid, const char *command, const int fds[FIRST_FREE])
{
	char shell[] = "sh", option[] = "-c";
	char *const arguments[] = {shell, option, (char *)(uintptr_t)command, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all, none;
	int error = posix_spawn_file_actions_init(&actions);
	if (error)
		return error;
	error = posix_spawnattr_init(&attributes);
	if (error) {
		posix_spawn_file_actions_destroy(&actions);
		return error;
	}
	sigfillset(&all);
	sigemptyset(&none);
	if (io_directory() >= 0)
		error = posix_spawn_file_actions_addfchdir_np(&actions, io_directory());
	for (int i = 0; i < FIRST_FREE && !error; i++)
		if (fds[i] >= 0)
			error = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
	error = error ? error : posix_spawn_file_actions_addclosefrom_np(&actions, fds[3] >= 0 ? 4 : 3);
	error = error ? error : posix_spawnattr_setsigdefault(&attributes, &all);
	error = error ? error : posix_spawnattr_setsigmask(&attributes, &none);
	error = error ? error : posix_spawnattr_setpgroup(&attributes, 0);
	error = error ? error
	              : posix_spawnattr_setflags(&attributes,
	                                         POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	error = error ? error : posix_spawn(pid, "/bin/sh", &actions, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* Spawns COMMAND and lists it. No signal arrives in between, so that a handler on this thread finds every process. */
static int spawn_listed(pid_t *pid, const char *command, const int fds[FIRST_FREE])
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = spawn(pid, command, fds);
	if (!error && !exchange_process(0, *pid)) {
		kill(-*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
		error = EAGAIN;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int process_start(struct process *process, const char *command, int shared)
{
	int theirs[FIRST_FREE] = {-1, -1, -1, shared};
	process->input = process->output = process->errors = -1;
	int error = 0;
	if (!open_pipe(&theirs[0], &process->input, true) || !open_pipe(&theirs[1], &process->output, false) ||
	    !open_pipe(&theirs[2], &process->errors, false))
		error = errno;
	error = error ? error : spawn_listed(&process->pid, command, theirs);
	for (int i = 0; i < 3; i++)
		close_end(&theirs[i]);
	if (error) {
		process->pid = 0;
		process_hang_up(process);
		close_end(&process->errors);
	}
	return error;
}

/* Adds a byte of standard error to the last line. A blank line does not replace the line before it. */
static void keep_byte(struct process *process, char byte)
{
	if (byte == '\n') {
		process->last_complete = true;
		return;
	}
	if (process->last_complete && (byte == ' ' || byte == '\t' || byte == '\r'))
		return;
	if (process->last_complete)
		process->last_length = 0;
	process->last_complete = false;
	if (process->last_length < LAST_LINE - 1)
		process->last[process->last_length++] = byte;
	process->last[process->last_length] = '\0';
}

bool process_pass_errors(struct process *process)
{
	char bytes[4096];
	bool some = false;
	while (process->errors >= 0) {
		const ssize_t got = read(process->errors, bytes, sizeof bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return some;
		if (got <= 0) {
			close_end(&process->errors);
			return some;
		}
		some = true;
		if (process->pass)
			process->pass(process->pass_context, bytes, (size_t)got);
		for (ssize_t i = 0; i < got; i++)
			keep_byte(process, bytes[i]);
	}
	return some;
}

void process_close_input(struct process *process) { close_end(&process->input); }

void process_hang_up(struct process *process)
{
	close_end(&process->input);
	close_end(&process->output);
}

bool process_await(struct process *process, double seconds)
{
	const double end = clock_seconds() + seconds;
	for (int pause = 1;; pause = pause < 16 ? 2 * pause : 16) {
		const bool ended = !process->pid || has_ended(process->pid);
		(void)process_pass_errors(process);
		if (ended || clock_seconds() >= end)
			return ended;
		/* The end of standard error, which is usually that of the process, ends the pause. */
		struct pollfd errors = {.fd = process->errors, .events = POLLIN};
		(void)poll(&errors, 1, pause);
	}
}

void process_end(struct process *process, double seconds)
{
	process_hang_up(process);
	if (!process->pid)
		return;
	process->forced = !process_await(process, seconds);
	if (process->forced)
		kill(-process->pid, SIGTERM);
	if (process->forced && !process_await(process, patience))
		kill(-process->pid, SIGKILL);
	while (!process_await(process, 1)) /* in an uninterruptible call of the system */
		;
	exchange_process(process->pid, 0);
	kill(-process->pid, SIGKILL);
	while (waitpid(process->pid, &process->status, 0) < 0 && errno == EINTR)
		;
	process->pid = 0;
	close_end(&process->errors);
}

void external_cleanup(void)
{
	pid_t pids[PROCESSES_MOST];
	int count = 0;
	for (int i = 0; i < PROCESSES_MOST; i++) {
		const pid_t pid = atomic_exchange(&processes[i], 0);
		if (pid > 0)
			pids[count++] = pid;
	}
	for (int i = 0; i < count; i++)
		kill(-pids[i], SIGTERM);
	for (int i = 0, pauses = 0; i < count; i++) {
		while (!has_ended(pids[i]) && pauses++ < (int)(patience * 100))
			(void)poll(NULL, 0, 10);
		kill(-pids[i], SIGKILL);
	}
	for (int i = 0; i < count; i++)
		while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
			;
}
