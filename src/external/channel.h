/*
 * A process's standard input and output as a channel of lines and arrays. Each read also writes what is queued and
 * passes on standard error, so neither side waits for the other for ever.
 */
#ifndef EXTERNAL_CHANNEL_H
#define EXTERNAL_CHANNEL_H

#include "base/type.h"
#include "external/process.h"

/* Bytes of the lines that one exchange sends, of a line that it receives, and of a number in such a text. */
enum { CHANNEL_SENT = 64 << 10, CHANNEL_LINE = 4 << 10, CHANNEL_NUMBER = 400 };
/* Pieces that one exchange sends: lines, and the arrays between them. */
enum { CHANNEL_PIECES = 32 };
/* The first bytes of an array that are kept for messages. */
enum { CHANNEL_HEAD = 40 };

enum channel_end {
	CHANNEL_OK,
	CHANNEL_ENDED,     /* the process has closed its output */
	CHANNEL_TIMEOUT,   /* nothing has moved, and nothing came on standard error, for the channel's timeout */
	CHANNEL_ERRNO,     /* reading or writing has failed; errno */
	CHANNEL_LONG,      /* a line is longer than CHANNEL_LINE, or a number than CHANNEL_NUMBER */
	CHANNEL_NO_NUMBER, /* channel->word is no number */
	CHANNEL_FEW,       /* a line has too few numbers */
	CHANNEL_MANY,      /* or too many */
};

/* Something that is sent: bytes or, if TEXT, COUNT numbers of DTYPE as a line. */
struct channel_piece {
	const char *from;
	int64_t count;
	bool text;
	enum dtype dtype;
};

struct channel {
	struct process process;
	double timeout; /* seconds; 0: none */
	/*
	 * Calls WAITS, which may be NULL, once nothing has moved for PATIENCE seconds: at most once in an exchange.
	 */
	double patience;
	void (*waits)(const void *context, double seconds);
	const void *waits_context;
	bool waited; /* WAITS was called in this exchange */
	struct channel_piece pieces[CHANNEL_PIECES];
	int first, pieces_used;  /* pieces FIRST .. PIECES_USED - 1 are not sent yet */
	bool deaf;               /* the process has closed its input */
	char sent[CHANNEL_SENT]; /* the lines of the exchange; that which is being written begins at LINE_BEGIN */
	size_t sent_used, line_begin;
	bool too_long;
	char chunk[CHANNEL_SENT]; /* a part of a piece of numbers, as text */
	size_t chunk_begin, chunk_end;
	char received[CHANNEL_SENT];
	size_t begin, end;         /* the bytes of RECEIVED that are not consumed yet */
	char line[CHANNEL_LINE];   /* the last line that was read */
	size_t line_length;        /* its bytes, some of which may be 0 */
	char word[CHANNEL_NUMBER]; /* the last number */
	int64_t done; /* bytes, or numbers, of the last array that have come; those of a line that is too long too */
	char head[CHANNEL_HEAD]; /* the first bytes of the last array */
	size_t head_length;
};

/* Appends to the line that is being written. If the exchange's lines get too long, sets channel->too_long. */
__attribute__((format(printf, 2, 3))) void channel_add(struct channel *channel, const char *format, ...);
/* Ends and queues that line. */
void channel_end_line(struct channel *channel);
/* Queues an array of TYPE, as a line of numbers if TEXT, else as bytes. FROM must live until channel_flush. */
void channel_put_array(struct channel *channel, const void *from, const struct type *type, bool text);
/* Sends as much of the queue as the pipe takes at once. */
void channel_start(struct channel *channel);
/* Reads a line to channel->line, without its end. */
enum channel_end channel_read_line(struct channel *channel);
/* Reads an array of TYPE to TO, or drops it if TO is NULL. */
enum channel_end channel_read_array(struct channel *channel, void *to, const struct type *type, bool text);
/* Sends what is queued, unless the channel is deaf, and ends the exchange. */
enum channel_end channel_flush(struct channel *channel);
/* Reads, without waiting, bytes that no message asked for. Returns how many of them are in `received`. */
size_t channel_find_surplus(struct channel *channel);
/*
 * Reads and drops bytes that no message asked for, until none has come for some hundredths of a second, for SECONDS at
 * most. Returns their number with those of channel_find_surplus, whose first CHANNEL_HEAD are in `head`. Sets *ALL if
 * these are all.
 */
int64_t channel_count_surplus(struct channel *channel, double seconds, bool *all);
/* Waits until the process, whose input is closed, closes its output, for a time. Returns as channel_find_surplus. */
size_t channel_await_end(struct channel *channel, double seconds);

#endif
