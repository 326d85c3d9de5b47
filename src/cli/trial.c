/* The values that replace an input are the same in every run, and differ from each other as much as they can. */
#include "cli/trial.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char name[] = "<memory>";

static bool is_made(const struct session *s) { return s->line.given[OPTION_SHAPE] && !s->line.given[OPTION_INPUT]; }

double trial_fraction(int64_t k) { return fmod((double)(k + 1) * 0.6180339887498949, 1.0); }

enum status trial_begin_input(struct session *s, struct type *type)
{
	if (is_made(s)) {
		*type = s->set.shape;
		return STATUS_OK;
	}
	bool end;
	enum status status = session_open_input(s);
	if (!status)
		status = reader_next(&s->in.reader, &end, &s->diags);
	if (!status)
		*type = s->in.reader.type;
	return status;
}

enum status trial_read_input(struct session *s, int64_t first, double *values, int64_t count)
{
	if (!is_made(s))
		return reader_read(&s->in.reader, values, DTYPE_F64, count, &s->diags);
	for (int64_t i = 0; i < count; i++)
		values[i] = 2 * trial_fraction(first + i) - 1;
	return STATUS_OK;
}

enum status trial_end_input(struct session *s) { return is_made(s) ? STATUS_OK : session_end_input(s); }

enum status trial_open_file(struct session *s, int *fd)
{
	*fd = memfd_create("ckptc", MFD_CLOEXEC);
	return *fd >= 0 ? STATUS_OK
	                : diag_file(&s->diags, STATUS_IO, NULL, -1, "cannot make a file in memory: %s", strerror(errno));
}

void trial_read_file(int fd, struct input *input, struct reader *reader, struct arena *arena)
{
	/* In a file of ours, values that an npy header calls |V2 are bf16. */
	struct reader_options options = {.format = FORMAT_NPY, .assume = DTYPE_BF16, .raw = {.shape = {.ndim = -1}}};
	off_t size = lseek(fd, 0, SEEK_END);
	lseek(fd, 0, SEEK_SET);
	*input = (struct input){.fd = fd, .name = name, .size = size, .arena = arena};
	reader_init(reader, input, &options, arena);
}

void trial_write_file(int fd, struct output *output, struct writer *writer, struct arena *arena)
{
	struct writer_options options = {.format = FORMAT_NPY};
	*output = (struct output){.fd = fd, .name = name, .arena = arena};
	writer_init(writer, output, &options, arena);
}
