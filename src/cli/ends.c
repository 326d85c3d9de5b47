/*
 * Ends of the process other than a return from main. Handlers of signals and of exit find what they need in variables of
 * this file, since they get no argument.
 *
 * An end in a function of a shared object is a failure of that object: a fault, a signal that the process sends
 * itself, or a call of a function of cli/interposed.c. Other signals end the command as if it had no handler, but
 * leave no temporaries. One end has no handler: a system call of the object, past the C library, that ends the
 * process.
 * Tests: tests/cases/cli.test, tests/scripts/check-faults, tests/programs/hostile.test
 */
#include "cli/ends.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "external/external.h"
#include "io/stream.h"

/* True while only main may end the program. */
static atomic_bool working;
/* The process that does so. A shared object may make others of it. */
static pid_t command_process;
/* True once ends_watch_objects has prepared for objects; true if a timer ran before. */
static bool watching, has_timer;
/* True once main has ended. Destructors of objects that stay loaded still run. FINAL_STATUS is the exit status of the process. */
static atomic_bool finished;
static int final_status;
static struct sigaction own_actions[NSIG];

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

bool ends_is_fault(int number)
{
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		if (faults[i] == number)
			return true;
	return false;
}

const struct sigaction *ends_action(int number)
{
	return number > 0 && number < NSIG && own_actions[number].sa_sigaction ? &own_actions[number] : NULL;
}

bool ends_watches(void) { return watching && (working || finished) && getpid() == command_process; }

static void put_error(const char *text) { (void)io_write_at(io_standard(2), IO_NEXT, text, strlen(text)); }

/* Ends the process for an object that would change its status after main. Returns if main has not ended. */
static void end_late(const char *what, const char *detail)
{
	if (!finished)
		return;
	put_error("ckptc: error: a shared object of --program, at the end of the process: ");
	put_error(what);
	put_error(detail);
	put_error("\n");
	syscall(SYS_exit_group, final_status ? final_status : STATUS_PROGRAM);
}

/* Ends the process for the function of an object that WHOSE says, if there is one. */
static void end_for(enum external_whose whose, const char *what, const char *detail)
{
	char call[1024];
	if (getpid() != command_process)
		return;
	end_late(what, detail);
	if (!external_describe_call(whose, call, sizeof call))
		return;
	if (!atomic_exchange(&working, false))
		return;
	io_cleanup();
	external_cleanup();
	put_error("ckptc: error: ");
	put_error(call);
	put_error(what);
	put_error(detail);
	put_error("\n");
	syscall(SYS_exit_group, STATUS_PROGRAM);
}

void ends_for_object(const char *what, const char *detail) { end_for(EXTERNAL_THREADS, what, detail); }

/* For struct external_options. */
static void end_for_thread(const char *what)
{
	ends_for_object(what, "");
	if (getpid() != command_process)
		syscall(SYS_exit_group, STATUS_PROGRAM);
}

/* True if the signal of INFO comes from this process. */
static bool is_sent_here(int number, const siginfo_t *info)
{
	const bool timer = number == SIGALRM || number == SIGVTALRM || number == SIGPROF;
	switch (info->si_code) {
	case SI_USER:
	case SI_TKILL:
	case SI_QUEUE:
		return info->si_pid == command_process;
	case SI_TIMER:
	case SI_MESGQ:
	case SI_ASYNCIO:
		return true;
	default:
		return timer && !has_timer;
	}
}

/* Ends the process by signal NUMBER. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	const char *text = sigdescr_np(number);
	(void)context;
	if (getpid() == command_process) {
		/* The system sends SIGPIPE to the thread that writes, as if this process had sent it. */
		const bool is_threads = number == SIGPIPE || (ends_is_fault(number) && info->si_code > 0);
		if (number == SIGABRT)
			ends_for_object("it called abort, as a C++ exception does that nothing catches", "");
		else if (is_threads || is_sent_here(number, info))
			end_for(number == SIGPIPE ? EXTERNAL_THIS_THREADS
			        : is_threads      ? EXTERNAL_THREADS
			                          : EXTERNAL_LATEST,
			        "it was ended by a signal: ", text ? text : "one of real time");
		io_cleanup();
		external_cleanup();
	}
	interposed_sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	raise(number);
}

/*
 * A shared object of --program may call exit, which is a failure of that program. A library that gets no memory may do
 * so too: libgfortran does while it is loaded for OpenBLAS. This handler makes each the status that it is, and leaves no
 * temporaries.
 */
static void end_for_library(void)
{
	if (finished)
		return;
	ends_for_object("it called exit", "");
	if (!working || getpid() != command_process)
		return;
	io_cleanup();
	external_cleanup();
	put_error("ckptc: error: out of memory: a library ended the program\n");
	_exit(STATUS_LIMIT);
}

/* Handles signal NUMBER if the system would end the process by it. */
static void handle_signal(int number)
{
	const int flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | (ends_is_fault(number) ? SA_NODEFER : 0);
	const struct sigaction own = {.sa_sigaction = on_signal, .sa_flags = flags};
	struct sigaction before;
	if (interposed_sigaction(number, NULL, &before) != 0 || before.sa_handler == SIG_IGN)
		return;
	if (interposed_sigaction(number, &own, NULL) == 0)
		own_actions[number] = own;
}

/* Signals that the system ignores, or that stop the process. */
static bool is_harmless(int number)
{
	static const int harmless[] = {SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU, SIGSTOP, SIGKILL};
	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
		if (harmless[i] == number)
			return true;
	return false;
}

static bool has_timers(void)
{
	static const int kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
	bool some = false;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct itimerval timer;
		some |= getitimer((__itimer_which_t)kinds[i], &timer) != 0 || timer.it_value.tv_sec || timer.it_value.tv_usec;
	}
	return some;
}

enum status ends_watch_objects(struct session *s)
{
	bool bound = false;
	for (size_t i = 0; i < s->line.program_count; i++)
		bound |= external_is_object(s->line.programs[i].target);
	if (!bound)
		return STATUS_OK;
	if (!io_hold_directory())
		return diag_file(&s->diags, STATUS_IO, NULL, -1, "cannot open the working directory: %s", strerror(errno));
	if (!io_hold_standard())
		return diag_file(&s->diags, STATUS_IO, NULL, -1, "cannot hold the standard streams: %s", strerror(errno));
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* what an object prints is seen even if a fault follows */
	s->ended = end_for_thread;
	at_quick_exit(end_for_library);
	interposed_prepare();
	for (int number = 1; number < NSIG; number++)
		if (!is_harmless(number) && !ends_action(number))
			handle_signal(number);
	has_timer = has_timers();
	watching = true;
	return STATUS_OK;
}

void ends_begin(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
	command_process = getpid();
	interposed_find();
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		handle_signal(signals[i]);
	/* With SIGCHLD ignored, the system would not say how a program ended. */
	signal(SIGCHLD, SIG_DFL);
	/* With SIGXFSZ ignored, a write beyond the limit of file sizes is an error, which is reported. */
	signal(SIGXFSZ, SIG_IGN);
	working = atexit(end_for_library) == 0;
}

void ends_finish(int status)
{
	working = false;
	final_status = status;
	finished = watching;
}
