/*
 * Values made in place of an input are the same in every run, and spread evenly.
 * Tests: tests/cases/cli.test, tests/scripts/check-gradients
 */
#include "cli/trial.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

double trial_fraction(int64_t k) { return fmod((double)(k + 1) * 0.6180339887498949, 1.0); }

/* Lets the declared type of the input stand for it, as --shape does, if the data would be typed on a terminal. */
static void follow_declaration(struct session *s)
{
	const struct declared *declared = &s->chain.input_type;
	struct input_place *first = &s->input_places[0];
	if (!first->file || s->line.given[OPTION_INPUT] || !isatty(io_standard(0)) || !declared_whole(declared))
		return;
	first->file = NULL;
	first->shape = &declared->type;
	s->set.shape = declared->type;
}

enum status trial_begin_input(struct session *s, struct type *type)
{
	follow_declaration(s);
	*type = s->set.shape;
	return session_makes_input(s) ? STATUS_OK : session_read_type(s, type);
}

enum status trial_read_input(struct session *s, int64_t first, double *values, int64_t count)
{
	if (!session_makes_input(s))
		return reader_read(&s->in.reader, values, DTYPE_F64, count, &s->diags);
	const enum dtype dtype = s->set.shape.dtype;
	for (int64_t i = 0; i < count; i++) {
		values[i] = 2 * trial_fraction(first + i) - 1;
		if (dtype > DTYPE_F64) /* 0 and -1 are indices of any array */
			values[i] = dtype < DTYPE_U8 ? floor(values[i]) : fabs(floor(values[i]));
	}
	return STATUS_OK;
}

enum status trial_end_input(struct session *s)
{
	bool end = true;
	if (!session_makes_input(s))
		TRY(reader_next(&s->in.reader, &end, &s->diags));
	if (!end)
		diag_warn(&s->diags, "the input holds several arrays: 'ckptc %s' takes the first", s->command->name);
	return STATUS_OK;
}

enum status trial_open_file(struct session *s, struct opened_output **file)
{
	const int fd = io_lifted(memfd_create("ckptc", MFD_CLOEXEC));
	if (fd < 0)
		return diag_file(&s->diags, STATUS_IO, NULL, -1, "cannot make a file in memory: %s", strerror(errno));
	return session_own_output(s, file, &(struct output){.fd = fd, .name = "<memory>", .owned = true});
}

void trial_write_file(struct opened_output *file, struct arena *arena)
{
	const struct writer_options options = {.format = FORMAT_NPY};
	if (ftruncate(file->output.fd, 0) == 0)
		lseek(file->output.fd, 0, SEEK_SET);
	file->output.offset = 0;
	writer_init(&file->writer, &file->output, &options, arena);
}

void trial_read_file(const struct opened_output *file, struct input *input, struct reader *reader, struct arena *arena)
{
	/* These files hold what ckptc wrote, so |V2 in their headers means bf16. */
	const struct reader_options options = {.format = FORMAT_NPY, .assume = DTYPE_BF16, .raw = {.shape = {.ndim = -1}}};
	const int fd = file->output.fd;
	*input = (struct input){.fd = fd, .name = file->output.name, .size = lseek(fd, 0, SEEK_END), .arena = arena};
	lseek(fd, 0, SEEK_SET);
	reader_init(reader, input, &options, arena);
}

enum status trial_run(const struct trial *trial, struct gradient_result *result)
{
	struct session *s = trial->session;
	struct input input;
	struct reader reader;
	struct run_counters counters;
	struct run_options options = trial->options;
	const struct run_subject subject = {&s->chain, &s->params, &reader, NULL, s->programs, NULL};
	const struct context context = {s->allocator, trial->arena, &s->diags};
	const struct gradient_options gradient = {.gradient = &trial->out->writer, .compare = trial->compare};
	trial_read_file(trial->in, &input, &reader, trial->arena);
	trial_write_file(trial->out, trial->arena);
	options.value = result ? NULL : &trial->out->writer;
	const enum status status = result ? run_gradient(&context, &subject, &options, &gradient, result)
	                                  : run_forward(&context, &subject, &options, &counters);
	input_close(&input);
	return status;
}
