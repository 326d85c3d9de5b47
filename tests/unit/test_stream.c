/* Descriptors: short transfers, waiting, offsets; output that appears whole or not at all; what the system refuses. */
#include "io/stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "scratch.h"
#include "suite.h"

static char folder[] = "/tmp/test_stream.XXXXXX";
static char path[200], other[200];

static void setup(void)
{
	scratch_setup();
	strcpy(folder, "/tmp/test_stream.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/file", folder);
	snprintf(other, sizeof other, "%s/other", folder);
}

/* How many names the folder holds. */
static int entries(void)
{
	int count = 0;
	DIR *dir = opendir(folder);
	for (struct dirent *e; (e = readdir(dir));)
		count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(dir);
	return count;
}

static void teardown(void)
{
	char command[300];
	scratch_teardown();
	snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", folder, folder);
	ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const char *text) { file_write(name, text, strlen(text)); }

static const char *read_file(const char *name)
{
	static char text[1000];
	text[file_read(name, text, sizeof text - 1)] = '\0';
	return text;
}

/*
 * The open below replaces the C library's. If NAMED, it answers as a file system without
 * nameless files. MADE is the mode of the last new file.
 */
static bool named;
static mode_t made;

int open(const char *file, int flags, ...)
{
	mode_t mode = 0;
	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_list arguments;
		va_start(arguments, flags);
		mode = (mode_t)va_arg(arguments, unsigned);
		va_end(arguments);
	}
	if (named && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, file, flags, mode);
	struct stat st;
	if (flags & O_EXCL && fd >= 0 && fstat(fd, &st) == 0)
		made = st.st_mode & 07777;
	return fd;
}

/* Writes a megabyte in odd pieces with pauses, as a slow process would. */
enum { MUCH = 1 << 20 };

static unsigned char pattern(size_t i) { return (unsigned char)(i * 2654435761u >> 13); }

static void *dribble(void *context)
{
	int fd = *(int *)context;
	static unsigned char data[MUCH];
	for (size_t i = 0; i < MUCH; i++)
		data[i] = pattern(i);
	for (size_t done = 0, step = 1; done < MUCH; done += step, step = step * 3 % 50021 + 1) {
		if (step > MUCH - done)
			step = MUCH - done;
		for (size_t put = 0; put < step;) {
			ssize_t n = write(fd, data + done + put, step - put);
			if (n > 0)
				put += (size_t)n;
		}
		if (done % 7 == 0)
			usleep(200);
	}
	close(fd);
	return NULL;
}

static void on_alarm(int number) { (void)number; }

/* _i: whether the descriptor is non-blocking. A timer without SA_RESTART interrupts all along. */
START_TEST(pipes_are_read_whole)
{
	int ends[2];
	pthread_t thread;
	ck_assert_int_eq(pipe(ends), 0);
	if (_i)
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
	struct sigaction action = {.sa_handler = on_alarm};
	sigaction(SIGALRM, &action, NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, dribble, &ends[1]), 0);
	ualarm(1000, 1000);
	struct input input = {.fd = ends[0], .name = "pipe", .size = -1, .arena = &arena};
	static unsigned char got[MUCH + 100];
	const unsigned char *peeked;
	size_t have = 0, n, done = 0;
	while (done < 200000) {
		size_t ahead = done % 65000 + 1;
		ck_assert_int_eq(input_peek(&input, ahead, &peeked, &n, &diags), STATUS_OK);
		ck_assert_uint_eq(n, ahead);
		ck_assert_int_eq(peeked[0], pattern(done));
		ck_assert_int_eq(peeked[n - 1], pattern(done + n - 1));
		if (done % 2) {
			input_skip(&input, n / 2 + 1);
			done += n / 2 + 1;
		} else {
			ck_assert_int_eq(input_read(&input, got, 777, &n, &diags), STATUS_OK);
			ck_assert_uint_eq(n, 777);
			for (size_t i = 0; i < n; i++)
				ck_assert_int_eq(got[i], pattern(done + i));
			done += n;
		}
		ck_assert_int_eq(input.offset, (int64_t)done);
	}
	ck_assert_int_eq(input_read(&input, got, sizeof got, &have, &diags), STATUS_OK);
	ualarm(0, 0);
	ck_assert_uint_eq(have, MUCH - done);
	for (size_t i = 0; i < have; i++)
		ck_assert_int_eq(got[i], pattern(done + i));
	ck_assert_int_eq(input_peek(&input, 5, &peeked, &n, &diags), STATUS_OK);
	ck_assert_uint_eq(n, 0);
	pthread_join(thread, NULL);
	input_close(&input);
	close(ends[0]);
}
END_TEST

static void *drain(void *context)
{
	int fd = *(int *)context;
	unsigned char block[3001];
	size_t done = 0;
	for (ssize_t n; (n = read(fd, block, sizeof block)) != 0;) {
		if (n < 0) {
			ck_assert_int_eq(errno, EINTR);
			continue;
		}
		for (ssize_t i = 0; i < n; i++)
			if (block[i] != pattern(done + (size_t)i))
				return NULL;
		done += (size_t)n;
		usleep(20);
	}
	return done == MUCH ? context : NULL;
}

START_TEST(pipes_are_written_whole)
{
	int ends[2];
	pthread_t thread;
	void *right = NULL;
	static unsigned char data[MUCH];
	for (size_t i = 0; i < MUCH; i++)
		data[i] = pattern(i);
	ck_assert_int_eq(pipe(ends), 0);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	pthread_create(&thread, NULL, drain, &ends[0]);
	struct output output = {.fd = ends[1], .name = "pipe", .arena = &arena};
	ck_assert_int_eq(output_write(&output, data, MUCH, &diags), STATUS_OK);
	ck_assert_int_eq(output.offset, MUCH);
	close(ends[1]);
	pthread_join(thread, &right);
	ck_assert_ptr_nonnull(right);
	close(ends[0]);
}
END_TEST

START_TEST(files_are_read_anywhere_from_where_they_began)
{
	struct input input;
	char got[10];
	size_t n;
	write_file(path, "0123456789");
	ck_assert_int_eq(input_open(&input, path, true, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(input.size, 10);
	ck_assert_int_gt(input.fd, 2);
	ck_assert_int_eq(input_read_at(&input, 3, got, 4, &n, &diags), STATUS_OK);
	ck_assert_uint_eq(n, 4);
	ck_assert_int_eq(memcmp(got, "3456", 4), 0);
	ck_assert_int_eq(input_read_at(&input, 8, got, 4, &n, &diags), STATUS_OK);
	ck_assert_uint_eq(n, 2);
	input_close(&input);
	/* Standard input that somebody has read the head of. */
	int kept = dup(0), fd = open(path, O_RDONLY);
	dup2(fd, 0);
	ck_assert_int_eq(read(0, got, 4), 4);
	ck_assert_int_eq(input_open(&input, "-", false, &arena, &diags), STATUS_OK);
	ck_assert_str_eq(input.name, "<stdin>");
	ck_assert_int_eq(input.size, 6);
	ck_assert_int_eq(input_read_at(&input, 1, got, 2, &n, &diags), STATUS_OK);
	ck_assert_int_eq(memcmp(got, "56", 2), 0);
	input_close(&input);
	dup2(kept, 0);
	close(kept);
	close(fd);
}
END_TEST

START_TEST(inputs_that_are_refused)
{
	struct input input;
	ck_assert_int_eq(input_open(&input, path, false, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot open: No such file or directory");
	ck_assert_int_eq(input_open(&input, folder, false, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot read: Is a directory");
	ck_assert_int_eq(input_open(&input, "/dev/null", true, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "not a regular file");
	ck_assert_ptr_nonnull(strstr(diags.last->hint, "--allow-special-files"));
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(input_open(&input, path, true, &arena, &diags), STATUS_IO); /* and does not wait */
	ck_assert_int_eq(input_open(&input, "/dev/null", false, &arena, &diags), STATUS_OK);
	input_close(&input);
	int kept = dup(0);
	close(0);
	ck_assert_int_eq(input_open(&input, NULL, false, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot read: Bad file descriptor");
	dup2(kept, 0);
	close(kept);
}
END_TEST

/* With standard descriptors closed, no file may come to be one. */
START_TEST(files_keep_off_standard_descriptors)
{
	struct input input;
	struct output output;
	write_file(path, "x");
	int kept[3];
	for (int fd = 0; fd < 3; fd++) {
		kept[fd] = fcntl(fd, F_DUPFD, 10);
		close(fd);
	}
	enum status in = input_open(&input, path, true, &arena, &diags);
	enum status out = output_open(&output, other, &arena, &diags);
	struct output standard;
	enum status closed = output_open(&standard, NULL, &arena, &diags);
	for (int fd = 0; fd < 3; fd++) {
		dup2(kept[fd], fd);
		close(kept[fd]);
	}
	ck_assert_int_eq(in, STATUS_OK);
	ck_assert_int_eq(out, STATUS_OK);
	ck_assert_int_eq(closed, STATUS_IO);
	ck_assert_int_gt(input.fd, 2);
	ck_assert_int_gt(output.fd, 2);
	input_close(&input);
	output_abort(&output);
}
END_TEST

START_TEST(output_appears_at_commit)
{
	struct output output;
	struct stat st;
	mode_t mask = umask(027);
	ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
	ck_assert(output.seekable);
	ck_assert_int_eq(output_write(&output, "abcdef", 6, &diags), STATUS_OK);
	ck_assert_int_eq(output_write_at(&output, 2, "XY", 2, &diags), STATUS_OK);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(entries(), output.nameless ? 0 : 1);
	ck_assert_int_eq(output_commit(&output, &diags), STATUS_OK);
	output_abort(&output);
	ck_assert_str_eq(read_file(path), "abXYef");
	ck_assert_int_eq(entries(), 1);
	stat(path, &st);
	ck_assert_int_eq(st.st_mode & 07777, 0640);
	umask(mask);
}
END_TEST

/* Reserved bytes change neither a file nor its size, be they too many for the disk or never written. */
START_TEST(reserved_bytes)
{
	struct output output;
	struct stat st;
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
		ck_assert_int_eq(output_write(&output, "abc", 3, &diags), STATUS_OK);
		output_reserve(&output, (const int64_t[]){1 << 20, INT64_MAX, 3}[i]);
		ck_assert(fstat(output.fd, &st) == 0 && st.st_size == 3);
		ck_assert_int_eq(output_write(&output, "def", 3, &diags), STATUS_OK);
		ck_assert_int_eq(output_commit(&output, &diags), STATUS_OK);
		ck_assert_str_eq(read_file(path), "abcdef");
	}
}
END_TEST

START_TEST(abort_leaves_the_old_file)
{
	struct output output;
	struct stat st;
	write_file(path, "old");
	chmod(path, 0604);
	ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(output_write(&output, "new", 3, &diags), STATUS_OK);
	output_abort(&output);
	ck_assert_str_eq(read_file(path), "old");
	ck_assert_int_eq(entries(), 1);
	ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(output_write(&output, "new", 3, &diags), STATUS_OK);
	ck_assert_int_eq(output_commit(&output, &diags), STATUS_OK);
	ck_assert_str_eq(read_file(path), "new");
	stat(path, &st);
	ck_assert_int_eq(st.st_mode & 07777, 0604);
}
END_TEST

/* What will replace a file has nobody else's permissions before it has the old one's; a new one has what umask leaves. */
START_TEST(temporaries_with_names)
{
	struct output output;
	struct stat st;
	mode_t mask = umask(022);
	write_file(path, "old");
	for (int i = 0; i < 3; i++) {
		const mode_t mode = (mode_t[]){0600, 0664, 0}[i];
		const char *file = mode ? path : other;
		if (mode)
			chmod(path, mode);
		made = 0;
		named = true;
		ck_assert_int_eq(output_open(&output, file, &arena, &diags), STATUS_OK);
		named = false;
		ck_assert(!output.nameless);
		ck_assert_int_eq(made, mode ? 0600 : 0644);
		ck_assert_int_eq(output_write(&output, "new", 3, &diags), STATUS_OK);
		ck_assert_int_eq(entries(), 2);
		ck_assert_int_eq(output_commit(&output, &diags), STATUS_OK);
		ck_assert_str_eq(read_file(file), "new");
		stat(file, &st);
		ck_assert_int_eq(st.st_mode & 07777, mode ? mode : 0644);
	}
	umask(mask);
}
END_TEST

START_TEST(cleanup_removes_what_is_open)
{
	struct output a, b;
	write_file(path, "old");
	ck_assert_int_eq(output_open(&a, path, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(output_open(&b, other, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(entries(), a.nameless ? 1 : 3);
	io_cleanup();
	ck_assert_int_eq(entries(), 1);
	ck_assert_str_eq(read_file(path), "old");
	output_abort(&a);
	output_abort(&b);
	ck_assert_int_eq(entries(), 1);
}
END_TEST

/* Killed between any two calls, and cleaned up by the handler. */
static void handle(int number)
{
	(void)number;
	io_cleanup();
	_exit(7);
}

START_TEST(cleanup_in_a_handler)
{
	signal(SIGTERM, SIG_DFL); /* Check's own handler would end this process too */
	for (int iteration = 0; iteration < 40; iteration++) {
		pid_t child = fork();
		ck_assert_int_ge(child, 0);
		if (child == 0) {
			signal(SIGTERM, handle);
			for (;;) {
				struct output output;
				if (output_open(&output, path, &arena, &diags) != STATUS_OK)
					_exit(1);
				output_write(&output, "abc", 3, &diags);
				if (iteration % 2)
					output_abort(&output);
				else if (output_commit(&output, &diags) != STATUS_OK)
					_exit(2);
			}
		}
		usleep(1000 + (unsigned)iteration * 311);
		kill(child, SIGTERM);
		int status;
		waitpid(child, &status, 0);
		ck_assert(WIFEXITED(status) || WTERMSIG(status) == SIGTERM);
		if (WIFEXITED(status))
			ck_assert_int_eq(WEXITSTATUS(status), 7);
		ck_assert_int_le(entries(), 1);
	}
}
END_TEST

START_TEST(links_are_followed)
{
	struct output output;
	char link[200], far[200];
	struct stat st;
	snprintf(link, sizeof link, "%s/link", folder);
	snprintf(far, sizeof far, "%s/sub", folder);
	ck_assert_int_eq(mkdir(far, 0700), 0);
	/* link -> sub/hop -> ../file: relative to where each link lies; at first to nothing, then to a file */
	ck_assert_int_eq(symlink("sub/hop", link), 0);
	snprintf(far, sizeof far, "%s/sub/hop", folder);
	ck_assert_int_eq(symlink("../file", far), 0);
	for (int iteration = 0; iteration < 2; iteration++) {
		const char *text = iteration ? "again" : "first";
		ck_assert_int_eq(output_open(&output, link, &arena, &diags), STATUS_OK);
		ck_assert_int_eq(output_write(&output, text, 5, &diags), STATUS_OK);
		ck_assert_int_eq(output_commit(&output, &diags), STATUS_OK);
		ck_assert_str_eq(read_file(path), text);
		ck_assert_int_eq(lstat(link, &st), 0);
		ck_assert(S_ISLNK(st.st_mode));
		ck_assert_int_eq(lstat(path, &st), 0);
		ck_assert(S_ISREG(st.st_mode));
	}
	/* A ring. */
	ck_assert_int_eq(symlink("other", other), 0);
	ck_assert_int_eq(output_open(&output, other, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot write: Too many levels of symbolic links");
}
END_TEST

START_TEST(outputs_that_are_refused)
{
	struct output output;
	static char name[5000];
	ck_assert_int_eq(output_open(&output, folder, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot write: Is a directory");
	snprintf(other, sizeof other, "%s/none/file", folder);
	ck_assert_int_eq(output_open(&output, other, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot write: No such file or directory");
	ck_assert_str_eq(diags.last->file, other);
	memset(name, 'x', sizeof name - 1);
	ck_assert_int_eq(output_open(&output, name, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot write: File name too long");
	ck_assert_int_eq(entries(), 0);
}
END_TEST

START_TEST(a_full_device)
{
	struct output output;
	if (suite_lacks("/dev/full"))
		return;
	ck_assert_int_eq(output_open(&output, "/dev/full", &arena, &diags), STATUS_OK);
	ck_assert(!output.seekable);
	ck_assert_ptr_null(output.temporary);
	ck_assert_int_eq(output_write(&output, "x", 1, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot write: No space left on device");
	ck_assert_str_eq(diags.last->file, "/dev/full");
	output_abort(&output);
	ck_assert_int_eq(access("/dev/full", F_OK), 0);
}
END_TEST

START_TEST(a_fifo_is_written_to)
{
	struct output output;
	char got[4] = "";
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(output_write(&output, "abc", 3, &diags), STATUS_OK);
	ck_assert_int_eq(output_commit(&output, &diags), STATUS_OK);
	ck_assert_int_eq(read(fd, got, 3), 3);
	ck_assert_str_eq(got, "abc");
	close(fd);
	struct stat st;
	stat(path, &st);
	ck_assert(S_ISFIFO(st.st_mode));
}
END_TEST

/* A file as standard output is written from its position on; one opened for append is not seekable. */
START_TEST(standard_output)
{
	struct output output;
	write_file(path, "head");
	fflush(stdout);
	for (int append = 0; append < 2; append++) {
		int kept = dup(1), fd = open(path, O_WRONLY | (append ? O_APPEND : 0));
		lseek(fd, 4, SEEK_SET);
		dup2(fd, 1);
		enum status opened = output_open(&output, NULL, &arena, &diags);
		bool seekable = output.seekable;
		enum status put = output_write(&output, "abcd", 4, &diags);
		if (seekable)
			put = put ? put : output_write_at(&output, 1, "Q", 1, &diags);
		enum status commit = output_commit(&output, &diags);
		dup2(kept, 1);
		close(kept);
		close(fd);
		ck_assert_int_eq(opened, STATUS_OK);
		ck_assert_int_eq(seekable, !append);
		ck_assert_int_eq(put, STATUS_OK);
		ck_assert_int_eq(commit, STATUS_OK);
	}
	ck_assert_str_eq(read_file(path), "headaQcdabcd");
}
END_TEST

/* More outputs may be open than the list of temporaries can hold, and each is committed. */
START_TEST(many_outputs)
{
	static struct output outputs[100];
	int opened = 0;
	for (; opened < 100; opened++) {
		const char *name = arena_printf(&arena, "%s/%d", folder, opened);
		if (output_open(&outputs[opened], name, &arena, &diags) != STATUS_OK)
			break;
	}
	if (outputs[0].nameless)
		ck_assert_int_eq(opened, 100);
	else /* an error, not a file that nobody would clean up */
		ck_assert_int_eq(opened, 64);
	for (int i = 0; i < opened; i++)
		ck_assert_int_eq(output_commit(&outputs[i], &diags), STATUS_OK);
	ck_assert_int_eq(entries(), opened);
}
END_TEST

/* SIGKILL at any point leaves the old file or the new one, complete, and at most a temporary in the moment of renaming. */
START_TEST(killed_at_any_point)
{
	struct output output;
	int left = 0;
	ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
	bool nameless = output.nameless;
	output_abort(&output);
	write_file(path, "old file");
	for (int iteration = 0; nameless && iteration < 30; iteration++) {
		pid_t child = fork();
		ck_assert_int_ge(child, 0);
		if (child == 0) {
			if (output_open(&output, path, &arena, &diags) == STATUS_OK)
				for (;;)
					output_write(&output, "abc", 3, &diags);
			_exit(1);
		}
		usleep(200 * (unsigned)iteration);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		left += entries() - 1;
		ck_assert_str_eq(read_file(path), "old file");
	}
	ck_assert_int_eq(left, 0);
}
END_TEST

/* A folder that takes no new files: the error comes, and nothing is lost. */
START_TEST(a_commit_that_fails)
{
	struct output output;
	ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(output_write(&output, "new", 3, &diags), STATUS_OK);
	ck_assert_int_eq(mkdir(path, 0700), 0); /* in the way of the rename */
	ck_assert_int_eq(output_commit(&output, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot write: Is a directory");
	ck_assert_int_eq(entries(), 1);
	output_abort(&output);
	ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(files_with_two_names_are_one)
{
	struct stat a, b;
	write_file(path, "text");
	ck_assert_int_eq(link(path, other), 0);
	const int fd = io_open(path, O_RDONLY, 0), linked = io_open(other, O_RDONLY, 0);
	ck_assert_int_eq(fstat(fd, &a), 0);
	ck_assert_int_eq(fstat(linked, &b), 0);
	ck_assert(io_is_same_file(&a, &b));
	ck_assert(stream_is_one(fd, linked));
	ck_assert(stream_is_at(fd, other));
	ck_assert_int_eq(unlink(other), 0);
	ck_assert(!stream_is_at(fd, other));
	write_file(other, "text");
	ck_assert(!stream_is_at(fd, other));
	ck_assert_int_eq(stat(other, &b), 0);
	ck_assert(!io_is_same_file(&a, &b));
	close(linked);
	close(fd);
	const int none = io_open("/dev/null", O_WRONLY, 0), again = io_open("/dev/null", O_WRONLY, 0);
	ck_assert(stream_is_at(none, "/dev/null"));
	ck_assert(!stream_is_one(none, again)); /* where nothing that is written meets */
	close(none);
	close(again);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stream");
	TCase *tcase = suite_make_case(suite, "stream");
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, pipes_are_read_whole, 0, 2);
	tcase_add_test(tcase, pipes_are_written_whole);
	tcase_add_test(tcase, files_are_read_anywhere_from_where_they_began);
	tcase_add_test(tcase, inputs_that_are_refused);
	tcase_add_test(tcase, files_keep_off_standard_descriptors);
	tcase_add_test(tcase, output_appears_at_commit);
	tcase_add_test(tcase, reserved_bytes);
	tcase_add_test(tcase, abort_leaves_the_old_file);
	tcase_add_test(tcase, temporaries_with_names);
	tcase_add_test(tcase, cleanup_removes_what_is_open);
	tcase_add_test(tcase, cleanup_in_a_handler);
	tcase_add_test(tcase, links_are_followed);
	tcase_add_test(tcase, outputs_that_are_refused);
	tcase_add_test(tcase, a_full_device);
	tcase_add_test(tcase, a_fifo_is_written_to);
	tcase_add_test(tcase, standard_output);
	tcase_add_test(tcase, many_outputs);
	tcase_add_test(tcase, killed_at_any_point);
	tcase_add_test(tcase, a_commit_that_fails);
	tcase_add_test(tcase, files_with_two_names_are_one);
	return suite_run(suite);
}
