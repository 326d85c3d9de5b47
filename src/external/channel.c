/*
 * The exchange with a process. One function, move_bytes, waits for all three pipes; everything else asks it for bytes.
 *
 * A write to a process that has closed its input raises SIGPIPE, for which ckptc has a handler that ends it. So the
 * writing thread blocks the signal, and takes it where it was raised.
 * Tests: tests/unit/test_external.c, tests/programs/steps.test
 */
#include "external/channel.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/system.h"
#include "io/array.h"

/* The most bytes of a number as text, with the blank after it. */
enum { NUMBER_TEXT = 41 };
/* Seconds for which bytes that are too many are awaited, so that a message can count them. */
#define COUNT_SECONDS 0.02

void channel_add(struct channel *channel, const char *format, ...)
{
	va_list arguments;
	const size_t left = CHANNEL_SENT - channel->sent_used;
	va_start(arguments, format);
	const int length = vsnprintf(channel->sent + channel->sent_used, left, format, arguments);
	va_end(arguments);
	channel->too_long |= length < 0 || (size_t)length >= left;
	channel->sent_used += channel->too_long ? 0 : (size_t)length;
}

void channel_end_line(struct channel *channel)
{
	assert(channel->pieces_used < CHANNEL_PIECES);
	channel_add(channel, "\n");
	channel->pieces[channel->pieces_used++] = (struct channel_piece){
		.from = channel->sent + channel->line_begin, .count = (int64_t)(channel->sent_used - channel->line_begin)};
	channel->line_begin = channel->sent_used;
}

void channel_put_array(struct channel *channel, const void *from, const struct type *type, bool text)
{
	assert(channel->pieces_used < CHANNEL_PIECES);
	channel->pieces[channel->pieces_used++] = (struct channel_piece){
		.from = from, .count = text ? shape_count(&type->shape) : type_bytes(type), .text = text, .dtype = type->dtype};
}

static double number_at(const void *from, enum dtype dtype, int64_t index)
{
	return dtype == DTYPE_F32 ? (double)((const float *)from)[index] : ((const double *)from)[index];
}

/* Writes the next numbers of PIECE to the chunk, which is empty, and the line end after the last. */
static void fill_chunk(struct channel *channel, struct channel_piece *piece)
{
	char *to = channel->chunk, *most = channel->chunk + CHANNEL_SENT - NUMBER_TEXT - 1;
	int64_t i = 0;
	for (; i < piece->count && to < most; i++) {
		to += number_format(to, number_at(piece->from, piece->dtype, i), piece->dtype);
		*to++ = ' ';
	}
	piece->from += (size_t)i * dtype_size(piece->dtype);
	piece->count -= i;
	if (piece->count == 0) {
		to -= i > 0; /* the line end replaces the last blank */
		*to++ = '\n';
		piece->text = false;
	}
	channel->chunk_begin = 0;
	channel->chunk_end = (size_t)(to - channel->chunk);
}

/* Writes as write does, but a closed pipe is an error alone, not a signal. */
static ssize_t write_quietly(int fd, const void *from, size_t size)
{
	const struct timespec now = {0};
	sigset_t pipe, before;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	const ssize_t written = write(fd, from, size);
	const int error = errno;
	if (written < 0 && error == EPIPE)
		(void)sigtimedwait(&pipe, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return written;
}

static bool has_queued(const struct channel *channel)
{
	return !channel->deaf && (channel->first < channel->pieces_used || channel->chunk_begin < channel->chunk_end);
}

/* Writes queued bytes until the pipe is full. Sets *MOVED if it wrote some. False, with errno, on failure. */
static bool write_queued(struct channel *channel, bool *moved)
{
	while (has_queued(channel)) {
		struct channel_piece *piece = &channel->pieces[channel->first];
		if (channel->chunk_begin == channel->chunk_end && piece->text)
			fill_chunk(channel, piece);
		const bool chunk = channel->chunk_begin < channel->chunk_end;
		const char *from = chunk ? channel->chunk + channel->chunk_begin : piece->from;
		const size_t size = chunk ? channel->chunk_end - channel->chunk_begin : (size_t)piece->count;
		const ssize_t written = size == 0 ? 0 : write_quietly(channel->process.input, from, size);
		if (written < 0 && errno == EINTR)
			continue;
		channel->deaf |= written < 0 && errno == EPIPE;
		if (written < 0)
			return errno == EAGAIN || errno == EPIPE;
		*moved = true;
		if (chunk) {
			channel->chunk_begin += (size_t)written;
		} else {
			piece->from += written;
			piece->count -= written;
		}
		if (channel->chunk_begin == channel->chunk_end && !piece->text && piece->count == 0)
			channel->first++;
	}
	return true;
}

/* Reads up to SIZE bytes to TO. *GOT is 0 where there are none yet. Sets *MOVED if there are. */
static enum channel_end read_ready(struct channel *channel, void *to, size_t size, size_t *got, bool *moved)
{
	const ssize_t read_bytes = read(channel->process.output, to, size);
	*got = read_bytes > 0 ? (size_t)read_bytes : 0;
	*moved |= read_bytes > 0;
	if (read_bytes < 0)
		return errno == EAGAIN || errno == EINTR ? CHANNEL_OK : CHANNEL_ERRNO;
	return read_bytes == 0 ? CHANNEL_ENDED : CHANNEL_OK;
}

/* When bytes last moved, and when the process last gave a sign of life, which standard error is too. */
struct quiet {
	double moved, lived, now;
};

static void note_life(struct quiet *quiet, bool moved, bool lived)
{
	quiet->now = clock_seconds();
	if (moved)
		quiet->moved = quiet->now;
	if (moved || lived)
		quiet->lived = quiet->now;
}

/* Returns the milliseconds for which poll may wait; -1: for ever. */
static int wait_time(const struct channel *channel, const struct quiet *quiet)
{
	const bool waits = channel->waits && !channel->waited;
	double left = waits ? quiet->moved + channel->patience - quiet->now : INFINITY;
	if (channel->timeout > 0)
		left = fmin(left, quiet->lived + channel->timeout - quiet->now);
	if (!waits && channel->timeout <= 0)
		return -1;
	return left > 1e6 ? 1000000000 : left > 0 ? (int)(left * 1e3) + 1 : 0;
}

/* Calls channel->waits if it is time. True if the process has given no sign of life for too long. */
static bool is_late(struct channel *channel, const struct quiet *quiet)
{
	if (channel->timeout > 0 && quiet->now - quiet->lived >= channel->timeout)
		return true;
	if (channel->waits && !channel->waited && quiet->now - quiet->moved >= channel->patience) {
		channel->waited = true;
		channel->waits(channel->waits_context, quiet->now - quiet->moved);
	}
	return false;
}

/*
 * Reads at least one byte and at most SIZE to TO. If SIZE is 0, sends the whole queue. While it waits it sends,
 * and passes on standard error.
 */
static enum channel_end move_bytes(struct channel *channel, void *to, size_t size, size_t *got)
{
	struct process *process = &channel->process;
	const double now = clock_seconds();
	struct quiet quiet = {now, now, now};
	*got = 0;
	for (;;) {
		bool moved = false;
		if (!write_queued(channel, &moved))
			return CHANNEL_ERRNO;
		if (size == 0 && !has_queued(channel))
			return CHANNEL_OK;
		note_life(&quiet, moved, false);
		struct pollfd fds[3] = {{.fd = size > 0 ? process->output : -1, .events = POLLIN},
		                        {.fd = process->errors, .events = POLLIN},
		                        {.fd = has_queued(channel) ? process->input : -1, .events = POLLOUT}};
		const int ready = poll(fds, 3, wait_time(channel, &quiet));
		if (ready < 0 && errno != EINTR)
			return CHANNEL_ERRNO;
		if (ready > 0 && fds[1].revents)
			note_life(&quiet, false, process_pass_errors(process));
		if (ready > 0 && fds[0].revents) {
			const enum channel_end end = read_ready(channel, to, size, got, &moved);
			if (end || *got > 0)
				return end;
		}
		note_life(&quiet, ready > 0 && fds[2].revents, false);
		if (is_late(channel, &quiet))
			return CHANNEL_TIMEOUT;
	}
}

/* Reads more bytes to RECEIVED, which is empty, or has space after its end. */
static enum channel_end receive(struct channel *channel, size_t most)
{
	size_t got;
	if (channel->begin == channel->end)
		channel->begin = channel->end = 0;
	if (channel->end == CHANNEL_SENT) {
		memmove(channel->received, channel->received + channel->begin, channel->end - channel->begin);
		channel->end -= channel->begin;
		channel->begin = 0;
	}
	const size_t space = CHANNEL_SENT - channel->end;
	const enum channel_end end =
		move_bytes(channel, channel->received + channel->end, space < most ? space : most, &got);
	channel->end += got;
	return end;
}

enum channel_end channel_read_line(struct channel *channel)
{
	size_t seen = 0;
	for (;;) {
		const char *from = channel->received + channel->begin;
		const size_t length = channel->end - channel->begin;
		const char *end = memchr(from + seen, '\n', length - seen);
		const size_t used = end ? (size_t)(end - from) : length;
		const bool fits = used < CHANNEL_LINE;
		memcpy(channel->line, from, fits ? used : CHANNEL_LINE - 1);
		channel->line[fits ? used : CHANNEL_LINE - 1] = '\0';
		channel->line_length = used;
		if (!fits)
			return CHANNEL_LONG;
		channel->begin += end ? used + 1 : 0;
		if (end)
			return CHANNEL_OK;
		seen = length;
		const enum channel_end wrong = receive(channel, CHANNEL_LINE);
		if (wrong)
			return wrong;
	}
}

/* Adds COUNT bytes of the array that is being read to its head. */
static void keep_head(struct channel *channel, const char *from, size_t count)
{
	const size_t space = CHANNEL_HEAD - channel->head_length, kept = count < space ? count : space;
	memcpy(channel->head + channel->head_length, from, kept);
	channel->head_length += kept;
}

static enum channel_end read_bytes(struct channel *channel, char *to, int64_t size)
{
	while (channel->done < size) {
		const size_t left = (size_t)(size - channel->done), held = channel->end - channel->begin;
		size_t got = left < held ? left : held;
		if (got > 0) {
			keep_head(channel, channel->received + channel->begin, got);
			if (to)
				memcpy(to + channel->done, channel->received + channel->begin, got);
			channel->begin += got;
		} else {
			const enum channel_end end =
				to ? move_bytes(channel, to + channel->done, left, &got) : receive(channel, left);
			if (end)
				return end;
			if (to)
				keep_head(channel, to + channel->done, got);
		}
		channel->done += (int64_t)got;
	}
	return CHANNEL_OK;
}

/* Reads the next byte. */
static enum channel_end read_byte(struct channel *channel, char *byte)
{
	while (channel->begin == channel->end) {
		const enum channel_end end = receive(channel, CHANNEL_SENT);
		if (end)
			return end;
	}
	*byte = channel->received[channel->begin++];
	keep_head(channel, byte, 1);
	return CHANNEL_OK;
}

/* Reads the next word of a line to channel->word, which is empty at the line's end. *LAST: a line end followed it. */
static enum channel_end read_word(struct channel *channel, size_t *length, bool *last)
{
	*length = 0;
	for (;;) {
		char byte;
		const enum channel_end end = read_byte(channel, &byte);
		if (end)
			return end;
		const bool blank = byte == ' ' || byte == '\t' || byte == '\r';
		*last = byte == '\n';
		if (*last || (blank && *length > 0))
			break;
		if (blank)
			continue;
		if (*length == CHANNEL_NUMBER - 1)
			return CHANNEL_LONG;
		channel->word[(*length)++] = byte;
		channel->word[*length] = '\0';
	}
	channel->word[*length] = '\0';
	return CHANNEL_OK;
}

/* Reads the words that are left of a line, if they follow at once, and counts them in channel->done. */
static enum channel_end count_numbers(struct channel *channel)
{
	const double timeout = channel->timeout;
	size_t length;
	channel->timeout = COUNT_SECONDS;
	for (bool last = false; !last && read_word(channel, &length, &last) == CHANNEL_OK && length > 0;)
		channel->done++;
	channel->timeout = timeout;
	return CHANNEL_MANY;
}

/* Reads a line of COUNT numbers. */
static enum channel_end read_numbers(struct channel *channel, void *to, enum dtype dtype, int64_t count)
{
	for (bool last = false; !last;) {
		size_t length;
		double value;
		const enum channel_end end = read_word(channel, &length, &last);
		if (end)
			return end;
		if (length == 0)
			break;
		if (strlen(channel->word) != length || !number_parse(channel->word, length, &value))
			return CHANNEL_NO_NUMBER;
		if (channel->done == count) {
			channel->done++;
			return last ? CHANNEL_MANY : count_numbers(channel);
		}
		if (to && dtype == DTYPE_F32)
			((float *)to)[channel->done] = (float)value;
		else if (to)
			((double *)to)[channel->done] = value;
		channel->done++;
	}
	return channel->done < count ? CHANNEL_FEW : CHANNEL_OK;
}

enum channel_end channel_read_array(struct channel *channel, void *to, const struct type *type, bool text)
{
	channel->done = 0;
	channel->head_length = 0;
	return text ? read_numbers(channel, to, type->dtype, shape_count(&type->shape))
	            : read_bytes(channel, to, type_bytes(type));
}

void channel_start(struct channel *channel)
{
	bool moved = false;
	(void)write_queued(channel, &moved); /* what fails here fails again */
}

enum channel_end channel_flush(struct channel *channel)
{
	size_t got;
	const enum channel_end end = move_bytes(channel, NULL, 0, &got);
	channel->first = channel->pieces_used = 0;
	channel->sent_used = channel->line_begin = channel->chunk_begin = channel->chunk_end = 0;
	channel->waited = false;
	return end;
}

size_t channel_find_surplus(struct channel *channel)
{
	size_t got = 0;
	bool moved = false;
	if (channel->begin == channel->end && channel->process.output >= 0) {
		channel->begin = channel->end = 0;
		(void)read_ready(channel, channel->received, CHANNEL_LINE, &got, &moved);
		channel->end = got;
	}
	return channel->end - channel->begin;
}

int64_t channel_count_surplus(struct channel *channel, double seconds, bool *all)
{
	const double end = clock_seconds() + seconds;
	int64_t count = (int64_t)(channel->end - channel->begin);
	channel->head_length = 0;
	keep_head(channel, channel->received + channel->begin, (size_t)count);
	channel->begin = channel->end = 0;
	channel->timeout = COUNT_SECONDS;
	channel->waits = NULL;
	*all = false;
	while (!*all && clock_seconds() < end) {
		*all = channel->process.output < 0 || receive(channel, CHANNEL_SENT) != CHANNEL_OK;
		keep_head(channel, channel->received, channel->end);
		count += (int64_t)channel->end;
		channel->begin = channel->end = 0;
	}
	return count;
}

size_t channel_await_end(struct channel *channel, double seconds)
{
	channel->timeout = seconds;
	channel->waits = NULL;
	if (channel->begin == channel->end)
		(void)receive(channel, CHANNEL_LINE);
	return channel->end - channel->begin;
}
