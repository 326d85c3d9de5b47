/*
 * A shared object of --program runs in the command's process. It finds these functions before those of the C library:
 *
 *     exec*, daemon, exit, _exit, abort, would end the command without a message
 *     pthread_exit
 *     sigaction, signal, sysv_signal    a signal whose default is to end the process keeps the command's handler, which
 *                                       reports the end. A fault that is to be ignored keeps it too.
 *     sigprocmask, pthread_sigmask      never block faults: the system ends a process that has a blocked one
 *     pthread_create                    gives the thread a stack on which the overflow of its own is handled
 *
 * Without objects, and in child processes, they are the C library's. The C library itself does not call them.
 * Tests: tests/programs/hostile.test
 */
#include "cli/ends.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system.h"
#include "external/external.h"

#define EXPORTED __attribute__((visibility("default")))

/* The C library's functions. */
static struct {
	int (*sigaction)(int, const struct sigaction *, struct sigaction *);
	int (*sigprocmask)(int, const sigset_t *, sigset_t *);
	int (*pthread_sigmask)(int, const sigset_t *, sigset_t *);
	int (*execve)(const char *, char *const *, char *const *);
	int (*execvpe)(const char *, char *const *, char *const *);
	int (*fexecve)(int, char *const *, char *const *);
	int (*execveat)(int, const char *, char *const *, char *const *, int);
	int (*daemon)(int, int);
	void (*abort)(void);
	void (*exit)(int);
	void (*pthread_exit)(void *);
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
} library;

/* The key of each thread's stack for faults. */
static pthread_key_t stacks;
static bool has_stacks;
enum { FAULT_STACK = 64 << 10 };

void interposed_find(void)
{
	library_find(RTLD_NEXT, "sigprocmask", &library.sigprocmask);
	library_find(RTLD_NEXT, "pthread_sigmask", &library.pthread_sigmask);
	library_find(RTLD_NEXT, "execve", &library.execve);
	library_find(RTLD_NEXT, "execvpe", &library.execvpe);
	library_find(RTLD_NEXT, "fexecve", &library.fexecve);
	library_find(RTLD_NEXT, "execveat", &library.execveat);
	library_find(RTLD_NEXT, "daemon", &library.daemon);
	library_find(RTLD_NEXT, "abort", &library.abort);
	library_find(RTLD_NEXT, "exit", &library.exit);
	library_find(RTLD_NEXT, "pthread_exit", &library.pthread_exit);
	library_find(RTLD_NEXT, "pthread_create", &library.pthread_create);
	library_find(RTLD_NEXT, "sigaction", &library.sigaction);
}

/* Frees the stack for faults of a thread that has ended. */
static void free_stack(void *memory)
{
	const stack_t none = {.ss_flags = SS_DISABLE};
	sigaltstack(&none, NULL);
	munmap(memory, FAULT_STACK);
}

void interposed_prepare(void) { has_stacks = pthread_key_create(&stacks, free_stack) == 0; }

static void need_library(void)
{
	if (!library.sigaction)
		interposed_find();
}

int interposed_sigaction(int number, const struct sigaction *wanted, struct sigaction *old)
{
	need_library();
	return library.sigaction(number, wanted, old);
}

/* Handlers of objects for one signal each, which SA_RESETHAND asks for. Afterwards the command's own handler serves. */
static struct sigaction once[NSIG];

static void on_once(int number, siginfo_t *info, void *context)
{
	const struct sigaction *handler = &once[number];
	library.sigaction(number, ends_action(number), NULL);
	if (handler->sa_flags & SA_SIGINFO)
		handler->sa_sigaction(number, info, context);
	else
		handler->sa_handler(number);
}

/* Returns the action that an object gets if it asks for WANTED. KEPT has space for it. */
static const struct sigaction *allowed_action(int number, const struct sigaction *wanted, struct sigaction *kept)
{
	const bool plain = !(wanted->sa_flags & SA_SIGINFO);
	const bool ends =
		plain && (wanted->sa_handler == SIG_DFL || (wanted->sa_handler == SIG_IGN && ends_is_fault(number)));
	if (ends)
		return ends_action(number);
	if (!(wanted->sa_flags & (int)SA_RESETHAND))
		return wanted;
	once[number] = *kept = *wanted;
	kept->sa_sigaction = on_once;
	kept->sa_flags = (wanted->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	return kept;
}

EXPORTED int sigaction(int number, const struct sigaction *wanted, struct sigaction *old)
{
	struct sigaction kept, before;
	need_library();
	const bool changes = wanted && ends_watches() && ends_action(number);
	const bool was_once = number > 0 && number < NSIG;
	const struct sigaction last = was_once ? once[number] : (struct sigaction){0};
	const int result = library.sigaction(number, changes ? allowed_action(number, wanted, &kept) : wanted, &before);
	if (changes)
		external_note_signals();
	if (!result && old)
		*old = before.sa_flags & SA_SIGINFO && before.sa_sigaction == on_once ? last : before;
	return result;
}

static sighandler_t set_handler(int number, sighandler_t handler, int flags)
{
	struct sigaction old, wanted = {.sa_handler = handler, .sa_flags = flags};
	return sigaction(number, &wanted, &old) == 0 ? old.sa_handler : SIG_ERR;
}

EXPORTED sighandler_t signal(int number, sighandler_t handler) { return set_handler(number, handler, SA_RESTART); }

sighandler_t __sysv_signal(int number, sighandler_t handler);
EXPORTED sighandler_t __sysv_signal(int number, sighandler_t handler)
{
	return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}

EXPORTED sighandler_t sysv_signal(int number, sighandler_t handler) { return __sysv_signal(number, handler); }

/* Returns SET, or KEPT, which is SET without faults if HOW and SET would block these. */
static const sigset_t *allowed_mask(int how, const sigset_t *set, sigset_t *kept)
{
	if (!set || how == SIG_UNBLOCK || !ends_watches())
		return set;
	*kept = *set;
	for (int number = 1; number < NSIG; number++)
		if (ends_is_fault(number))
			sigdelset(kept, number);
	external_note_signals();
	return kept;
}

EXPORTED int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t kept;
	need_library();
	return library.sigprocmask(how, allowed_mask(how, set, &kept), old);
}

EXPORTED int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t kept;
	need_library();
	return library.pthread_sigmask(how, allowed_mask(how, set, &kept), old);
}

/* What a new thread runs, at the beginning of its stack for faults. */
struct beginning {
	void *(*start)(void *);
	void *argument;
};

static void *begin_thread(void *memory)
{
	const struct beginning beginning = *(struct beginning *)memory;
	const stack_t stack = {.ss_sp = memory, .ss_size = FAULT_STACK};
	sigaltstack(&stack, NULL);
	(void)pthread_setspecific(stacks, memory);
	return beginning.start(beginning.argument);
}

EXPORTED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	need_library();
	void *memory = MAP_FAILED;
	if (ends_watches() && has_stacks)
		memory = mmap(NULL, FAULT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (memory == MAP_FAILED)
		return library.pthread_create(thread, attributes, start, argument);
	*(struct beginning *)memory = (struct beginning){start, argument};
	const int error = library.pthread_create(thread, attributes, begin_thread, memory);
	if (error)
		munmap(memory, FAULT_STACK);
	return error;
}

/* Ends the command for an object that calls FUNCTION. Returns in other processes. */
static void end_for_call(const char *function)
{
	need_library();
	ends_for_object("it called ", function);
}

EXPORTED int execve(const char *path, char *const *arguments, char *const *variables)
{
	end_for_call("execve");
	return library.execve(path, arguments, variables);
}

EXPORTED int execvpe(const char *file, char *const *arguments, char *const *variables)
{
	end_for_call("execvpe");
	return library.execvpe(file, arguments, variables);
}

EXPORTED int fexecve(int fd, char *const *arguments, char *const *variables)
{
	end_for_call("fexecve");
	return library.fexecve(fd, arguments, variables);
}

EXPORTED int execveat(int fd, const char *path, char *const *arguments, char *const *variables, int flags)
{
	end_for_call("execveat");
	return library.execveat(fd, path, arguments, variables, flags);
}

EXPORTED int execv(const char *path, char *const *arguments)
{
	end_for_call("execv");
	return library.execve(path, arguments, environ);
}

EXPORTED int execvp(const char *file, char *const *arguments)
{
	end_for_call("execvp");
	return library.execvpe(file, arguments, environ);
}

/*
 * Runs FILE by EXECUTE, with the arguments FIRST and those of LIST up to NULL. The environment is this process's or, if
 * ITS_OWN, the argument after NULL.
 */
static int execute_list(int (*execute)(const char *, char *const *, char *const *), const char *file, const char *first,
                        va_list *list, bool its_own)
{
	va_list counted;
	size_t count = 0;
	va_copy(counted, *list);
	for (const char *argument = first; argument; argument = va_arg(counted, const char *))
		count++;
	va_end(counted);
	char *arguments[count + 1], **to = arguments;
	for (const char *argument = first; (*to++ = (char *)(uintptr_t)argument);)
		argument = va_arg(*list, const char *);
	return execute(file, arguments, its_own ? va_arg(*list, char *const *) : environ);
}

EXPORTED int execl(const char *path, const char *first, ...)
{
	va_list list;
	end_for_call("execl");
	va_start(list, first);
	const int result = execute_list(library.execve, path, first, &list, false);
	va_end(list);
	return result;
}

EXPORTED int execlp(const char *file, const char *first, ...)
{
	va_list list;
	end_for_call("execlp");
	va_start(list, first);
	const int result = execute_list(library.execvpe, file, first, &list, false);
	va_end(list);
	return result;
}

EXPORTED int execle(const char *path, const char *first, ...)
{
	va_list list;
	end_for_call("execle");
	va_start(list, first);
	const int result = execute_list(library.execve, path, first, &list, true);
	va_end(list);
	return result;
}

EXPORTED int daemon(int stays, int keeps)
{
	end_for_call("daemon");
	return library.daemon(stays, keeps);
}

/* The action of SIGABRT comes first, as in the C library: an object's handler need not return. */
EXPORTED void abort(void)
{
	need_library();
	if (ends_watches())
		raise(SIGABRT);
	ends_for_object("it called abort", "");
	library.abort();
	for (;;)
		_exit(127);
}

EXPORTED void exit(int status)
{
	end_for_call("exit");
	library.exit(status);
	for (;;)
		_exit(status);
}

/* The end of the main thread may be that of the process, after main too. */
EXPORTED void pthread_exit(void *result)
{
	need_library();
	if (gettid() == getpid())
		ends_for_object("it ended the thread", "");
	library.pthread_exit(result);
	for (;;)
		_exit(0);
}

EXPORTED void _exit(int status)
{
	ends_for_object("it called _exit", "");
	for (;;)
		syscall(SYS_exit_group, status);
}

EXPORTED void _Exit(int status) { _exit(status); }
