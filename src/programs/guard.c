/*
 * The records of calls are global, since a handler of a signal or of exit has no other way to find them. A thread that the
 * object has started is in no call of its own: if it ends the process, the call that began last is named.
 */
#include "programs/guard.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "programs/parts.h"

/* No SIGALRM, SIGUSR1 and SIGUSR2: an object that handles these sends them to itself, and they would end the command. */
static const int kept_signals[GUARD_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGCHLD, SIGXFSZ};
static const int fault_signals[GUARD_FAULTS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

/* Bytes of the stack on which a thread handles faults, such as the overflow of its own. */
enum { FAULT_STACK = 64 << 10 };
/* Seconds after which signals are put back again. Their system calls take some 3 us. */
static const double PERIOD = 200e-6;

/* The call in which this thread is; PROGRAM is NULL if it is in none. */
static _Thread_local struct calling {
	const struct program *program;
	int64_t number;                /* of the step, or -1 */
	const struct program_set *set; /* of the last call; NULL: there was none */
	sigset_t mask;                 /* the thread's own, before the first call of SET */
	double checked;                /* when MASK was put back last; 0: never */
} calling;

/* The call that began last, and how many run. */
static struct {
	_Atomic(const struct program *) program;
	_Atomic int64_t number;
	atomic_int running;
} latest_call;

/* At the beginning of a thread's FAULT_STACK. */
struct thread_record {
	void (*ended)(void);
};

/* Ends RECORD with its thread. In a call, a function of the object has ended the thread. */
static void end_record(void *record)
{
	const stack_t none = {.ss_flags = SS_DISABLE};
	stack_t stack;
	if (calling.program)
		((struct thread_record *)record)->ended();
	if (sigaltstack(NULL, &stack) == 0 && stack.ss_sp == record)
		sigaltstack(&none, NULL);
	munmap(record, FAULT_STACK);
}

void guard_begin(struct guard *guard, void (*ended)(void))
{
	*guard = (struct guard){.ended = ended};
	if (!ended)
		return;
	for (int i = 0; i < GUARD_SIGNALS; i++)
		sigaction(kept_signals[i], NULL, &guard->signals[i]);
	for (int i = 0; i < GUARD_FAULTS; i++)
		sigaction(fault_signals[i], NULL, &guard->faults[i]);
	guard->has_key = pthread_key_create(&guard->key, end_record) == 0;
}

void guard_end(struct guard *guard)
{
	calling.set = NULL;
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

void guard_enter(const struct program *program, int64_t number, bool all, struct float_state *floats)
{
	if (calling.set != program->set) {
		pthread_sigmask(SIG_SETMASK, NULL, &calling.mask);
		calling.checked = clock_seconds();
		calling.set = program->set;
		if (program->set->guard.has_key && !pthread_getspecific(program->set->guard.key))
			make_record(&program->set->guard);
	}
	calling.checked = all ? 0 : calling.checked;
	calling.number = number;
	calling.program = program;
	atomic_store_explicit(&latest_call.number, number, memory_order_relaxed);
	atomic_store_explicit(&latest_call.program, program, memory_order_relaxed);
	atomic_fetch_add(&latest_call.running, 1);
	*floats = float_state_get();
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

void guard_leave(const struct program *program, const struct float_state *floats)
{
	const struct guard *guard = &program->set->guard;
	float_state_set(floats);
	calling.program = NULL;
	atomic_fetch_sub(&latest_call.running, 1);
	const double now = clock_seconds();
	if (now - calling.checked < PERIOD)
		return;
	calling.checked = now;
	if (guard->ended)
		restore_handlers(guard);
	pthread_sigmask(SIG_SETMASK, &calling.mask, NULL);
}

/* Appends PIECE to TO, of SIZE bytes, with a question mark for each control code. */
static void append(char *to, size_t size, const char *piece)
{
	size_t used = strlen(to);
	for (; *piece && used + 1 < size; piece++)
		to[used++] = (unsigned char)*piece < ' ' || *piece == '\x7f' ? '?' : *piece;
	to[used] = '\0';
}

bool programs_describe_call(char *to, size_t size)
{
	const bool other = !calling.set && atomic_load(&latest_call.running) > 0;
	const struct program *program = other ? atomic_load(&latest_call.program) : calling.program;
	int64_t number = other ? atomic_load(&latest_call.number) : calling.number;
	char digits[24], *at = digits + sizeof digits - 1;
	*to = '\0';
	if (!program)
		return false;
	append(to, size, "program '");
	append(to, size, program->name);
	append(to, size, "' (");
	append(to, size, program->target);
	append(to, size, "): ");
	if (number < 0)
		return true;
	*at = '\0';
	do
		*--at = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	append(to, size, "step ");
	append(to, size, at);
	append(to, size, ": ");
	return true;
}
