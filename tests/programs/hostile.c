/*
 * A shared object that harms whoever loads it: y = 2 x, for x of f64. HOSTILE, in the environment, is WHERE:WHAT. WHERE is
 * load, open, close, unload, forward (call 2) or backward (call 2). WHAT is one of the names in harm(), at the end of which
 * it goes on, or ends. With RECORDS, the step has an operand whose gradient, zeros, it adds up, and WHERE may be record
 * (call 2), release or gradient.
 */
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "ckptc_step.h"

static volatile int zero;

static int overflow(int depth)
{
	volatile char deep[4096];
	deep[0] = (char)depth;
	return overflow(depth + 1) + deep[0];
}

static void *end_process(void *what)
{
	if (!strcmp(what, "thread_exit"))
		exit(0);
	if (!strcmp(what, "thread__exit"))
		_exit(0);
	if (!strcmp(what, "thread_overflow"))
		overflow(0);
	*(volatile int *)(uintptr_t)zero = 1;
	return NULL;
}

/* Changes how the thread rounds, and what it takes for zero. */
static void change_floats(void)
{
	fesetround(FE_UPWARD);
#if defined(__SSE2__)
	_mm_setcsr(_mm_getcsr() | 0x8040);
#endif
#if defined(__x86_64__)
	feenableexcept(FE_INVALID | FE_DIVBYZERO);
	__asm__ volatile("movd %0, %%mm0" ::"r"(1) : "mm0"); /* the x87 stack is full now */
#endif
}

/* Makes ckptc deaf to signals. */
static void change_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD};
	sigset_t all;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		signal(numbers[i], SIG_IGN);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	usleep(1000); /* ckptc restores these after a call that takes long */
}

/* Waits to be ended. */
static void wait_long(void)
{
	fprintf(stderr, "it waits\n");
	for (int i = 0; i < 3000; i++)
		usleep(10000);
}

static void fail_in_child(void)
{
	int status;
	const pid_t pid = fork();
	if (pid == 0)
		_exit(3);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
		abort();
}

static void map_nothing(void)
{
	FILE *file = tmpfile();
	volatile char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
	(void)*at;
}

/* Runs another program in the place of this one, by the function that WHAT names. */
static void replace_process(const char *what)
{
	char name[] = "true", *const arguments[] = {name, NULL};
	if (!strcmp(what, "execl"))
		execl("/bin/true", name, (char *)NULL);
	else if (!strcmp(what, "execlp"))
		execlp(name, name, (char *)NULL);
	else if (!strcmp(what, "execle"))
		execle("/bin/true", name, (char *)NULL, environ);
	else if (!strcmp(what, "execv"))
		execv("/bin/true", arguments);
	else if (!strcmp(what, "execvp"))
		execvp(name, arguments);
	else if (!strcmp(what, "execvpe"))
		execvpe(name, arguments, environ);
	else if (!strcmp(what, "execve"))
		execve("/bin/true", arguments, environ);
	else if (!strcmp(what, "fexecve"))
		fexecve(open("/bin/true", O_RDONLY), arguments, environ);
	else if (!strcmp(what, "daemon"))
		(void)!daemon(1, 1);
	else if (!strcmp(what, "execveat"))
		execveat(AT_FDCWD, "/bin/true", arguments, environ, 0);
}

static void on_any(int number) { (void)number; }

/* Sends itself the signal in WHAT after it has made SIGNAL the default, or blocked it, as the prefix says. */
static void send_signal(const char *what)
{
	const int number = atoi(what + strcspn(what, "0123456789"));
	struct sigaction once = {.sa_handler = on_any, .sa_flags = (int)SA_RESETHAND};
	sigset_t all;
	sigfillset(&all);
	if (!strncmp(what, "default", 7))
		signal(number, SIG_DFL);
	else if (!strncmp(what, "ignore", 6))
		signal(number, SIG_IGN);
	else if (!strncmp(what, "block", 5))
		sigprocmask(SIG_BLOCK, &all, NULL);
	else if (!strncmp(what, "mask", 4))
		pthread_sigmask(SIG_SETMASK, &all, NULL);
	else if (!strncmp(what, "once", 4)) {
		sigaction(number, &once, NULL);
		raise(number);
	}
	if (strstr(what, "kill"))
		kill(getpid(), number);
	else if (number == SIGSEGV)
		*(volatile int *)(uintptr_t)zero = 1;
	else
		raise(number);
}

/* Writes to standard output, by the way that WHAT names. */
static void write_output(const char *what)
{
	if (!strcmp(what, "printf"))
		printf("it prints\n");
	else if (!strcmp(what, "write"))
		write(1, "it prints\n", 10);
	else if (!strcmp(what, "close1"))
		close(1);
	else if (!strcmp(what, "dup2"))
		dup2(open("/dev/null", O_RDWR), 1);
	else if (!strcmp(what, "freopen"))
		fclose(freopen("/dev/null", "w", stdout));
	else if (!strcmp(what, "stderr")) {
		dup2(open("/dev/null", O_RDWR), 2);
		abort();
	} else {
		char byte;
		while (read(0, &byte, 1) > 0)
			printf("it reads\n");
	}
}

/* Makes a process that returns to ckptc, as this one does. */
static void fork_and_return(const char *what)
{
	int status;
	const pid_t pid = !strcmp(what, "fork_raw") ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (pid > 0)
		waitpid(pid, &status, 0);
}

static void run_others(void)
{
	char name[] = "true", *const arguments[] = {name, NULL};
	int status = 1;
	if (system("exit 3") != 3 << 8)
		abort();
	const pid_t pid = vfork();
	if (pid == 0) {
		execvp(name, arguments);
		_exit(5);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		abort();
}

static void cancel(const char *what)
{
	if (!strcmp(what, "cancel_later")) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		pthread_cancel(pthread_self());
		return;
	}
	pthread_cancel(pthread_self());
	if (!strcmp(what, "cancel"))
		pthread_testcancel();
}

/* Is sent SIGALRM by the system. */
static void await_alarm(void)
{
	const struct itimerval soon = {.it_value.tv_usec = 10000};
	setitimer(ITIMER_REAL, &soon, NULL);
	for (int i = 0; i < 100; i++)
		usleep(10000);
}

/* What `forward` and `backward` return. */
static const char *answer;

/* Sets ANSWER to a text, or to something that is none. */
static void answer_text(const char *what)
{
	static char text[100001];
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(text, 'x', sizeof text - 1);
	memset(pages, 'x', 8192);
	mprotect(pages + 4096, 4096, PROT_NONE);
	answer = !strcmp(what, "text_wild")   ? (const char *)(uintptr_t)64
	         : !strcmp(what, "text_end")  ? pages + 4000
	         : !strcmp(what, "text_long") ? text
	         : !strcmp(what, "text_none") ? ""
	                                      : "no \x1b[31mred\n\xff";
}

static void harm(const char *what)
{
	pthread_t thread;
	if (!strcmp(what, "floats"))
		change_floats();
	else if (!strcmp(what, "signals"))
		change_signals();
	else if (!strcmp(what, "waits"))
		wait_long();
#ifdef __x86_64__
	else if (!strcmp(what, "direction"))
		__asm__ volatile("std" ::: "cc");
#endif
	else if (!strcmp(what, "chdir"))
		(void)!chdir("/");
	else if (!strcmp(what, "umask"))
		umask(0777);
	else if (!strcmp(what, "child"))
		fail_in_child();
	else if (!strcmp(what, "exit"))
		exit(0);
	else if (!strcmp(what, "_exit"))
		_exit(0);
	else if (!strcmp(what, "_Exit"))
		_Exit(0);
	else if (!strcmp(what, "quick_exit"))
		quick_exit(0);
	else if (!strcmp(what, "pthread_exit"))
		pthread_exit(NULL);
	else if (!strcmp(what, "abort"))
		abort();
	else if (!strcmp(what, "segv"))
		*(volatile int *)(uintptr_t)zero = 1;
	else if (!strcmp(what, "bus"))
		map_nothing();
	else if (!strcmp(what, "fpe"))
		zero = raise(SIGFPE);
	else if (!strcmp(what, "ill"))
		__builtin_trap();
	else if (!strcmp(what, "overflow"))
		overflow(0);
	else if (!strcmp(what, "term"))
		raise(SIGTERM);
	else if (what[strcspn(what, "0123456789")] && strncmp(what, "close", 5) && strncmp(what, "dup", 3))
		send_signal(what);
	else if (!strncmp(what, "exec", 4) || !strcmp(what, "fexecve") || !strcmp(what, "daemon"))
		replace_process(what);
	else if (!strcmp(what, "alarm"))
		await_alarm();
	else if (!strncmp(what, "text", 4))
		answer_text(what);
	else if (!strncmp(what, "fork", 4))
		fork_and_return(what);
	else if (!strcmp(what, "others"))
		run_others();
	else if (!strncmp(what, "cancel", 6))
		cancel(what);
	else if (strstr("printf write close1 dup2 freopen stderr read0", what))
		write_output(what);
	else if (!strcmp(what, "default")) /* without a handler the fault would end ckptc */
		signal(SIGSEGV, SIG_DFL);
	else if (!strncmp(what, "thread", 6) && pthread_create(&thread, NULL, end_process, (void *)what) == 0)
		pthread_join(thread, NULL);
	else
		abort();
}

static void harm_in(const char *where)
{
	const char *hostile = getenv("HOSTILE");
	for (const char *at = hostile; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL) {
		char what[20] = "";
		sscanf(strchr(at, ':') + 1, "%19[^ ]", what);
		if (!strncmp(at, where, strlen(where)) && at[strlen(where)] == ':')
			harm(what);
	}
}

__attribute__((constructor)) static void load(void) { harm_in("load"); }
__attribute__((destructor)) static void unload(void) { harm_in("unload"); }

static const char *open_step(const struct ckptc_step_signature *signature, struct ckptc_step_traits *traits,
                             void **made)
{
	harm_in("open");
	traits->needs_x = 0;
#ifdef RECORDS
	traits->record_bytes = 8;
	traits->sums = 1;
#endif
	*made = (void *)(uintptr_t)signature;
	return NULL;
}

static void twice(const struct ckptc_step_signature *s, const void *from, void *to)
{
	for (int64_t i = 0; i < s->x.count; i++)
		((double *)to)[i] = 2 * ((const double *)from)[i];
}

static const char *forward(void *context, int64_t number, const void *x, const void *const *operands, void *y)
{
	(void)operands;
	twice(context, x, y);
	if (number == 2)
		harm_in("forward");
	return answer;
}

static const char *backward(void *context, int64_t number, const void *x, const void *const *operands, const void *y,
                            const void *g, uint64_t handle, void *dx, void *const *doperands)
{
	(void)x, (void)operands, (void)y, (void)handle, (void)doperands;
	twice(context, g, dx);
	if (number == 2)
		harm_in("backward");
	return answer;
}

static void close_step(void *context)
{
	(void)context;
	harm_in("close");
}

#ifdef RECORDS
static const char *record(void *context, int64_t number, const void *x, const void *const *operands, void *y,
                          uint64_t *handle)
{
	(void)operands;
	twice(context, x, y);
	*handle = (uint64_t)number + 1;
	if (number == 2)
		harm_in("record");
	return answer;
}

static void release(void *context, uint64_t handle)
{
	(void)context, (void)handle;
	harm_in("release");
}

static const char *gradient(void *context, uint32_t operand, void *sum)
{
	const struct ckptc_step_signature *s = context;
	memset(sum, 0, (size_t)(s->operands[operand].count * s->operands[operand].bytes));
	harm_in("gradient");
	return answer;
}
#endif

const struct ckptc_step ckptc_step = {.version = CKPTC_STEP_VERSION,
                                      .open = open_step,
                                      .forward = forward,
                                      .backward = backward,
#ifdef RECORDS
                                      .record = record,
                                      .release = release,
                                      .gradient = gradient,
#endif
                                      .close = close_step};
