/*
 * A command that answers messages (external/protocol.c), and what its failures say (external/command_failures.c).
 *
 * An exchange is one call of the backend. It may send several lines and arrays, and has at most one answer: a line, which
 * arrays may follow.
 */
#ifndef EXTERNAL_COMMAND_H
#define EXTERNAL_COMMAND_H

#include "external/channel.h"
#include "external/parts.h"

/* The staging slots of the arrays, each with one for every operand from OPERAND, D_OPERAND and D_OTHER on. */
enum slot { SLOT_X, SLOT_Y, SLOT_G, SLOT_DX, SLOT_OPERAND, SLOT_D_OPERAND = SLOT_OPERAND + PROGRAM_OPERANDS };
enum { SLOT_D_OTHER = SLOT_D_OPERAND + PROGRAM_OPERANDS, SLOTS = SLOT_D_OTHER + PROGRAM_OPERANDS };

/* The exchange whose answer came last, or is awaited. */
struct asked {
	const char *message; /* what it asks, such as "forward" */
	const char
		*word; /* the first word of the answer's line; NULL: no answer is awaited, but what was sent must be read */
	int64_t number;    /* of the step, or -1 */
	const char *array; /* the array of TYPE that is awaited; NULL: the line is */
	const struct type *type;
};

struct command {
	struct channel channel;
	bool failed;
	struct asked asked;
	double begun, slowest;              /* when the exchange began; seconds that the slowest one has taken */
	bool memory, text;                  /* how arrays travel */
	int64_t announced;                  /* bytes of shared memory that the command has been sent */
	int64_t forgotten;                  /* set->forgotten at the last call */
	const void *sent[PROGRAM_OPERANDS]; /* constant operands that it has; NULL: it must get this one */
	char *staging;                      /* a segment of shared memory, or NULL */
	int64_t slots[SLOTS];               /* offsets in STAGING */
	bool other;                         /* the next aliased arrays lie in the slots from D_OTHER on */
};

/* One exchange, and what its messages name. */
struct exchange {
	struct external *program;
	struct command *command;
	int64_t number; /* of the step, or -1 */
	struct diags *diags;
};

/* Seconds that a command has to end when its input ends, and when it has closed its output. */
#define COMMAND_GRACE 2.0
#define COMMAND_GRACE_FAILED 0.5

/*
 * Ends the command, which has SECONDS for that, and reports that the exchange failed. The last line of standard error is
 * the note. Returns STATUS_PROGRAM.
 */
__attribute__((format(printf, 3, 4))) enum status command_fail(const struct exchange *e, double seconds,
                                                               const char *format, ...);
/* Reports that the command has closed its input before it had read all that was sent. */
enum status command_fail_deaf(const struct exchange *e);
/* Reports why command->asked, or the rest of it, did not come. */
enum status command_fail_read(const struct exchange *e, enum channel_end end);
/* Reports the line of the answer, which is not as it should be. */
enum status command_fail_line(const struct exchange *e);
/* Reports bytes after the answer to command->asked; LAST: that was the last one. */
enum status command_fail_surplus(const struct exchange *e, bool last);
/* Reports how the command, whose input has ended, ended. Returns STATUS_OK if that was with status 0, or killed here. */
enum status command_check_end(const struct exchange *e);
/* Writes a note on what is awaited to external_options.pass. EXCHANGE is a struct exchange. */
void command_note_wait(const void *exchange, double seconds);

#endif
