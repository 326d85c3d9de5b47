/*
 * The records of calls are global, since a handler of a signal or of exit has no other way to find them. A thread that the
 * object has started is in no call of its own: if it ends the process, the call that began last is named.
 * Tests: tests/programs/hostile.test
 */
#include "external/guard.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "external/parts.h"

/* No SIGALRM, SIGUSR1 and SIGUSR2: an object that handles these sends them to itself, and they would end the command. */
static const int kept_signals[GUARD_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGCHLD, SIGXFSZ};
static const int fault_signals[GUARD_FAULTS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

/* Bytes of the stack on which a thread handles faults, such as the overflow of its own. */
enum { FAULT_STACK = 64 << 10 };
/* The most bytes of a text of an object. */
enum { TEXT_MOST = 64 << 10 };
/* Seconds after which signals are put back again. Their system calls take some 3 us. */
static const double PERIOD = 200e-6;

/* What this thread calls. */
static _Thread_local struct calling {
	const struct object_call *call; /* NULL: no function of an object */
	const struct external_set *set; /* of the last call; NULL: there was none */
	sigset_t mask;                  /* the thread's own, before the first call of SET */
	double checked;                 /* when MASK was put back last */
	bool changed;                   /* the object has changed MASK or a handler since */
} calling;

/* The call that began last, and how many run. */
static struct {
	_Atomic(const struct external *) program;
	_Atomic int64_t number;
	atomic_int running;
} latest_call;

/* At the beginning of a thread's FAULT_STACK. */
struct thread_record {
	void (*ended)(const char *what);
};

/* Ends RECORD with its thread. In a call, a function of the object has ended the thread. */
static void end_record(void *record)
{
	const stack_t none = {.ss_flags = SS_DISABLE};
	stack_t stack;
	if (calling.call)
		((struct thread_record *)record)->ended("it ended the thread");
	if (sigaltstack(NULL, &stack) == 0 && stack.ss_sp == record)
		sigaltstack(&none, NULL);
	munmap(record, FAULT_STACK);
}

/* Returns a page of which a child process finds zeros in place of a one, or NULL. */
static const char *make_page(void)
{
	char *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	*page = 1;
	if (madvise(page, 1, MADV_WIPEONFORK) == 0)
		return page;
	munmap(page, 1);
	return NULL;
}

void guard_begin(struct guard *guard, void (*ended)(const char *what))
{
	*guard = (struct guard){.ended = ended, .process = getpid()};
	if (!ended)
		return;
	guard->page = make_page();
	for (int i = 0; i < GUARD_SIGNALS; i++)
		sigaction(kept_signals[i], NULL, &guard->signals[i]);
	for (int i = 0; i < GUARD_FAULTS; i++)
		sigaction(fault_signals[i], NULL, &guard->faults[i]);
	guard->has_key = pthread_key_create(&guard->key, end_record) == 0;
}

void guard_end(struct guard *guard)
{
	calling.set = NULL;
	if (guard->page)
		munmap((void *)(uintptr_t)guard->page, 1);
	if (!guard->has_key)
		return;
	void *record = pthread_getspecific(guard->key);
	if (record)
		end_record(record);
	pthread_key_delete(guard->key);
	guard->has_key = false;
}

/* Gives this thread a record, and a stack for faults unless it has one. Without memory it has neither. */
static void make_record(const struct guard *guard)
{
	stack_t stack;
	struct thread_record *record =
		mmap(NULL, FAULT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (record == MAP_FAILED)
		return;
	record->ended = guard->ended;
	if (sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_DISABLE) {
		stack = (stack_t){.ss_sp = record, .ss_size = FAULT_STACK};
		sigaltstack(&stack, NULL);
	}
	if (pthread_setspecific(guard->key, record) != 0)
		end_record(record);
}

/* The calling thread runs functions of SET's objects from now on. */
static void adopt_thread(const struct external_set *set)
{
	pthread_sigmask(SIG_SETMASK, NULL, &calling.mask);
	calling.checked = clock_seconds();
	calling.set = set;
	if (set->guard.has_key && !pthread_getspecific(set->guard.key))
		make_record(&set->guard);
}

void guard_enter(struct object_call *call)
{
	const struct external_set *set = call->program->set;
	if (calling.set != set)
		adopt_thread(set);
	calling.changed |= call->all;
	atomic_store_explicit(&latest_call.number, call->number, memory_order_relaxed);
	atomic_store_explicit(&latest_call.program, call->program, memory_order_relaxed);
	atomic_fetch_add(&latest_call.running, 1);
	watch_enter(&call->worker->watched, call->subject, call->number);
	call->floats = float_state_get();
	calling.call = call;
	if (set->guard.ended)
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

/*
 * Puts handlers back. The runtime of some language may have its own handlers of faults, which must stay. But where an
 * object has none, the command's handlers report faults.
 */
static void restore_handlers(const struct guard *guard)
{
	for (int i = 0; i < GUARD_SIGNALS; i++)
		sigaction(kept_signals[i], &guard->signals[i], NULL);
	for (int i = 0; i < GUARD_FAULTS; i++) {
		struct sigaction now;
		if (sigaction(fault_signals[i], NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
		    (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))
			sigaction(fault_signals[i], &guard->faults[i], NULL);
	}
}

/* True in a process that the object has made. */
static bool is_child(const struct guard *guard) { return guard->page ? !*guard->page : getpid() != guard->process; }

/* Puts signals back: pending ones come now, while the thread still counts as the object's. */
static void restore_signals(const struct guard *guard, double now)
{
	if (guard->ended)
		restore_handlers(guard);
	pthread_sigmask(SIG_SETMASK, &calling.mask, NULL);
	calling.checked = now;
	calling.changed = false; /* last: this function has called external_note_signals itself */
}

void guard_leave(struct object_call *call)
{
	const struct guard *guard = &call->program->set->guard;
	float_state_set(&call->floats);
	if (guard->ended && is_child(guard))
		guard->ended(NULL);
	if (guard->ended) {
		pthread_testcancel();
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	}
	const double now = clock_seconds();
	if (calling.changed || now - calling.checked >= PERIOD)
		restore_signals(guard, now);
	calling.call = NULL;
	watch_leave(&call->worker->watched);
	atomic_fetch_sub(&latest_call.running, 1);
}

void guard_end_for(const struct external *program, const char *subject, int64_t number, double seconds)
{
	char what[120];
	snprintf(what, sizeof what, "for %g s %s not returned", seconds, subject);
	calling.call = &(struct object_call){.program = program, .number = number};
	program->set->guard.ended(what);
	calling.call = NULL;
}

void external_note_signals(void) { calling.changed = true; }

const char *guard_copy_text(struct object_call *call, const char *text, struct arena *arena)
{
	call->reads_text = true;
	const char *copy = arena_printf(arena, "%.*s", TEXT_MOST, *text ? text : "it reports an error");
	call->reads_text = false;
	return copy ? copy : "it reports an error";
}

/* Appends PIECE to TO, of SIZE bytes, with a question mark for each control code. */
static void append(char *to, size_t size, const char *piece)
{
	size_t used = strlen(to);
	for (; *piece && used + 1 < size; piece++)
		to[used++] = (unsigned char)*piece < ' ' || *piece == '\x7f' ? '?' : *piece;
	to[used] = '\0';
}

/* Sets *PROGRAM and *NUMBER to those of the call that WHOSE says. *PROGRAM is NULL if there is none. */
static void find_call(enum external_whose whose, const struct external **program, int64_t *number)
{
	const bool may_be_object = whose != EXTERNAL_THIS_THREADS && !calling.set && atomic_load(&latest_call.running) > 0;
	*program = calling.call ? calling.call->program : NULL;
	*number = calling.call ? calling.call->number : -1;
	if (*program || !(may_be_object || whose == EXTERNAL_LATEST))
		return;
	*program = atomic_load(&latest_call.program);
	*number = atomic_load(&latest_call.number);
}

bool external_describe_call(enum external_whose whose, char *to, size_t size)
{
	const struct external *program;
	int64_t number;
	char digits[24], *at = digits + sizeof digits - 1;
	find_call(whose, &program, &number);
	*to = '\0';
	if (!program)
		return false;
	append(to, size, "program '");
	append(to, size, program->name);
	append(to, size, "' (");
	append(to, size, program->target);
	append(to, size, "): ");
	*at = '\0';
	for (int64_t rest = number; rest > 0 || (rest == 0 && !*at); rest /= 10)
		*--at = (char)('0' + rest % 10);
	if (*at) {
		append(to, size, "step ");
		append(to, size, at);
		append(to, size, ": ");
	}
	if (calling.call && calling.call->reads_text)
		append(to, size, "it returned a text that cannot be read: ");
	return true;
}
