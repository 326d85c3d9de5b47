/* States on disk are read back as they were written, or a message says what is wrong. */
#include "io/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "failing.h"
#include "scratch.h"
#include "suite.h"

enum { SLOTS = 5, FIRST = 3000, SECOND = 70001, STATE = FIRST + SECOND };

static struct spill spill;
static unsigned char states[SLOTS][STATE], got[STATE];

static void setup(void)
{
	scratch_setup();
	for (int slot = 0; slot < SLOTS; slot++)
		for (int i = 0; i < STATE; i++)
			states[slot][i] = (unsigned char)(i * 31 + i / 251 + slot * 7);
	ck_assert(!spill_open(&spill, STATE, &allocator_system, &diags));
	ck_assert(!spill_create(&spill, "/tmp", &diags));
}

static void teardown(void)
{
	spill_close(&spill);
	scratch_teardown();
}

/* Returns the two pieces of STATE, until the next call. */
static const struct spill_pieces *pieces_of(unsigned char *state)
{
	static struct spill_piece items[2];
	static const struct spill_pieces pieces = {.items = items, .count = 2};
	items[0] = (struct spill_piece){state, FIRST};
	items[1] = (struct spill_piece){state + FIRST, SECOND};
	return &pieces;
}

static enum status put(int slot)
{
	static unsigned char copy[STATE];
	memcpy(copy, states[slot], STATE);
	enum status status = spill_write(&spill, slot, pieces_of(copy), &diags);
	memset(copy, 0xee, STATE); /* it has been taken */
	return status;
}

static enum status get(int slot)
{
	memset(got, 0, STATE);
	return spill_read(&spill, slot, pieces_of(got), &diags);
}

static void put_all(void)
{
	for (int slot = 0; slot < SLOTS; slot++)
		ck_assert(!put(slot));
}

static void require(int slot)
{
	ck_assert(!get(slot));
	ck_assert(!memcmp(got, states[slot], STATE));
}

static void require_message(const char *text)
{
	ck_assert_int_eq(diags.errors, 1);
	ck_assert_msg(strstr(diags.first->message, text) != NULL, "%s", diags.first->message);
	ck_assert_str_eq(diags.first->file, "/tmp");
}

START_TEST(states_come_back_in_any_order)
{
	put_all();
	for (int i = 0; i < 3 * SLOTS; i++) {
		require(i * 2 % SLOTS);
		if (i % 3)
			spill_read_ahead(&spill, (i + i % 2) * 2 % SLOTS); /* the next one, or another */
	}
	memset(states[2], 0x5a, STATE); /* over what was there */
	ck_assert(!put(2));
	require(1);
	require(2);
	struct stat st;
	ck_assert(!fstat(spill.fd, &st));
	ck_assert_int_eq(st.st_size, SLOTS * STATE);
}
END_TEST

/* Small ones go round the team, among large ones and in their slots. */
START_TEST(small_states_among_large_ones)
{
	enum { SMALL = 900 };
	put_all();
	for (int iteration = 0; iteration < 20; iteration++) {
		const int slot = iteration % SLOTS;
		struct spill_piece piece = {states[slot] + iteration, SMALL};
		const struct spill_pieces small = {.items = &piece, .count = 1};
		ck_assert(!spill_write(&spill, slot, &small, &diags));
		memset(got, 0, SMALL);
		spill_read_ahead(&spill, slot);
		piece.data = got;
		ck_assert(!spill_read(&spill, slot, &small, &diags));
		ck_assert(!memcmp(got, states[slot] + iteration, SMALL));
		if (iteration % 3 == 0)
			ck_assert(!put(slot));
		ck_assert_int_eq(get(slot), iteration % 3 == 0 ? STATUS_OK : STATUS_IO); /* another size than was written */
		diags_init(&diags, &arena);
		ck_assert(!put(slot));
		require(slot);
	}
}
END_TEST

START_TEST(a_file_has_no_name)
{
	struct stat st;
	put_all();
	require(0);
	ck_assert(!fstat(spill.fd, &st));
	ck_assert_int_eq(st.st_nlink, 0);
}
END_TEST

/* Read at once, and ahead. */
START_TEST(a_flipped_bit_is_found)
{
	put_all();
	require(4);
	const off_t at = spill.regions[1].offset + (_i < 2 ? 17 : STATE - 1);
	unsigned char byte = states[1][_i < 2 ? 17 : STATE - 1] ^ 0x10;
	ck_assert_int_eq(pwrite(spill.fd, &byte, 1, at), 1);
	if (_i % 2)
		spill_read_ahead(&spill, 1);
	ck_assert_int_eq(get(1), STATUS_IO);
	require_message("not as it was written");
	ck_assert(strstr(diags.first->hint, "run the command again") != NULL);
	diags_init(&diags, &arena);
	require(0);
}
END_TEST

START_TEST(a_short_file_is_told)
{
	put_all();
	require(0);
	ck_assert(!ftruncate(spill.fd, spill.regions[3].offset + FIRST + 5));
	if (_i)
		spill_read_ahead(&spill, 3);
	ck_assert_int_eq(get(3), STATUS_IO);
	require_message("short");
	diags_init(&diags, &arena);
	require(2);
}
END_TEST

/* The disk has space for two states. A later call reports that the third failed. */
START_TEST(a_full_disk_is_reported)
{
	const struct rlimit limit = {2 * STATE + 100, RLIM_INFINITY};
	signal(SIGXFSZ, SIG_IGN);
	ck_assert(!setrlimit(RLIMIT_FSIZE, &limit));
	ck_assert(!put(0));
	ck_assert(!put(1));
	ck_assert(!put(2));
	ck_assert_int_eq(_i ? get(2) : put(3), STATUS_IO);
	require_message("cannot write the spill file");
}
END_TEST

START_TEST(room_is_asked_for)
{
	ck_assert(!spill_check_room("/tmp", 1, &diags));
	ck_assert_int_eq(spill_check_room("/tmp", INT64_MAX, &diags), STATUS_IO);
	require_message("bytes are to be spilled and");
}
END_TEST

/* Where the system refuses the thread the caller writes and reads. */
START_TEST(no_thread_for_the_team)
{
	pthread_attr_t usual, none;
	ck_assert(!pthread_getattr_default_np(&usual) && !pthread_attr_init(&none));
	ck_assert(!pthread_attr_setstacksize(&none, (size_t)1 << 52)); /* more than there are addresses */
	ck_assert(!pthread_setattr_default_np(&none));
	put_all();
	ck_assert(!pthread_setattr_default_np(&usual));
	require(3);
	spill_read_ahead(&spill, 1);
	require(1);
}
END_TEST

START_TEST(no_memory_for_the_staging)
{
	for (size_t request = 1; request <= 2; request++) {
		struct failing failing = {.fail_at = request};
		const struct allocator counting = failing_allocator(&failing);
		struct spill other;
		diags_init(&diags, &arena);
		ck_assert_int_eq(spill_open(&other, STATE, &counting, &diags), STATUS_LIMIT);
		ck_assert(diags.exhausted);
		spill_close(&other);
		ck_assert_uint_eq(failing.live, 0);
	}
}
END_TEST

START_TEST(folders_that_are_none)
{
	struct spill other;
	ck_assert(!spill_open(&other, 10, &allocator_system, &diags));
	ck_assert_int_eq(spill_create(&other, "/dev/null", &diags), STATUS_IO);
	ck_assert_int_eq(spill_check_room("/no/such/folder", 1, &diags), STATUS_IO);
	spill_close(&other);
}
END_TEST

static enum status open_journal(struct journal *journal, const char *path, const char *folder,
                                const struct journal_identity *identity)
{
	const struct context context = {&allocator_system, &arena, &diags};
	*journal = (struct journal){.path = path, .directory = folder, .identity = *identity};
	return journal_open(&context, journal, &spill);
}

/* Killed between removing the one file and the other, a run that was done is no trouble to the next. */
START_TEST(done_but_not_removed)
{
	struct journal_identity identity = {{1, 2, 3}}, other = {{9}};
	char folder[] = "/tmp/ckptc-test-XXXXXX", path[64];
	ck_assert(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/journal", folder);
	for (int spill_gone = 0; spill_gone < 2; spill_gone++)
		for (int done = 0; done < 2; done++) {
			struct journal journal;
			spill_close(&spill);
			ck_assert(!spill_open(&spill, STATE, &allocator_system, &diags));
			ck_assert(!open_journal(&journal, path, folder, &identity));
			ck_assert(!journal.has_point);
			unsigned char state[STATE] = {0};
			spill.number = 1;
			ck_assert(!spill_write_at_once(&spill, JOURNAL_STATES, pieces_of(state), &diags));
			if (done)
				journal_finish(&journal);
			if (spill_gone)
				ck_assert(!unlink(journal.spill_path));
			journal_close(&journal);
			spill_close(&spill);
			/* Of another run, and without the file that it names: neither matters to one that is done. */
			ck_assert(!spill_open(&spill, STATE, &allocator_system, &diags));
			enum status status = open_journal(&journal, path, folder, done ? &other : &identity);
			ck_assert_int_eq(status, spill_gone && !done ? STATUS_IO : STATUS_OK);
			ck_assert_int_eq(journal.has_point, !done);
			journal_remove(&journal, &diags);
		}
	ck_assert_msg(rmdir(folder) == 0, "something is left in %s", folder);
}
END_TEST

/* A journal in a folder of its own, with one state; it is closed, as where the run is killed. */
static void make_journal(const char *folder, const char *path, const struct journal_identity *identity)
{
	struct journal journal;
	spill_close(&spill);
	ck_assert(!spill_open(&spill, STATE, &allocator_system, &diags));
	ck_assert(!open_journal(&journal, path, folder, identity));
	spill.number = 1;
	ck_assert(!spill_write_at_once(&spill, JOURNAL_STATES, pieces_of(states[0]), &diags));
	journal_close(&journal);
	spill_close(&spill);
	ck_assert(!spill_open(&spill, STATE, &allocator_system, &diags));
}

/* Repeats the last line of PATH up to SIZE bytes. Blanks after its first word keep the lines few. */
static void lengthen(const char *path, size_t size)
{
	enum { WIDE = 8000 };
	char text[4096], line[2 * WIDE];
	FILE *file = fopen(path, "r+");
	ck_assert(file != NULL);
	size_t length = fread(text, 1, sizeof text - 1, file);
	text[length - 1] = '\0';
	const char *last = strrchr(text, '\n') + 1, *numbers = strchr(last, ' ');
	const int count = (int)(strrchr(last, ':') - 1 - numbers);
	int n = sprintf(line, "blob%*s%.*s", WIDE, "", count, numbers);
	n += sprintf(line + n, " :%016llx\n", (unsigned long long)hash_bytes(HASH_START, line, (size_t)n));
	for (size_t done = length; done < size; done += (size_t)n)
		ck_assert(fwrite(line, 1, (size_t)n, file) == (size_t)n);
	ck_assert(fclose(file) == 0);
}

/* A run continues from a journal of any length: here a line for each of more than a million states. */
START_TEST(a_journal_of_any_length)
{
	const struct journal_identity identity = {{1, 2, 3}};
	struct journal journal;
	char folder[] = "/tmp/ckptc-test-XXXXXX", path[64];
	ck_assert(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/journal", folder);
	make_journal(folder, path, &identity);
	lengthen(path, (size_t)65 << 20);
	ck_assert(!open_journal(&journal, path, folder, &identity));
	ck_assert(journal.has_point && spill.regions[JOURNAL_STATES].number == 1);
	ck_assert(!spill_read(&spill, JOURNAL_STATES, pieces_of(got), &diags));
	ck_assert(!memcmp(got, states[0], STATE));
	journal_remove(&journal, &diags);
	ck_assert_msg(rmdir(folder) == 0, "something is left in %s", folder);
}
END_TEST

static const char *removed_before_lock; /* as by a run that ends between another's open and its lock */

int flock(int fd, int operation)
{
	if (removed_before_lock)
		unlink(removed_before_lock);
	removed_before_lock = NULL;
	return (int)syscall(SYS_flock, fd, operation);
}

START_TEST(a_journal_that_is_removed_as_it_is_opened)
{
	const struct journal_identity identity = {{1, 2, 3}};
	struct journal journal;
	char folder[] = "/tmp/ckptc-test-XXXXXX", path[64];
	ck_assert(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/journal", folder);
	make_journal(folder, path, &identity);
	removed_before_lock = path;
	ck_assert(!open_journal(&journal, path, folder, &identity));
	ck_assert(!removed_before_lock && !journal.has_point);
	ck_assert_msg(access(path, F_OK) == 0, "what the run writes can't be found again");
	journal_remove(&journal, &diags);
	struct dirent *entry;
	DIR *listing = opendir(folder);
	while ((entry = readdir(listing))) /* the spill file of the journal that was removed */
		unlinkat(dirfd(listing), entry->d_name, 0);
	closedir(listing);
	ck_assert(rmdir(folder) == 0);
}
END_TEST

/* Where their errno is set these fail: fdatasync when its iteration has come. */
static int stat_errno, unlink_errno, sync_errno, sync_turn;

int stat(const char *path, struct stat *st)
{
	errno = stat_errno;
	return stat_errno ? -1 : fstatat(AT_FDCWD, path, st, 0);
}

int unlink(const char *path)
{
	errno = unlink_errno;
	return unlink_errno ? -1 : unlinkat(AT_FDCWD, path, 0);
}

int fdatasync(int fd)
{
	if (sync_errno == 0 || sync_turn-- != 0)
		return (int)syscall(SYS_fdatasync, fd);
	errno = sync_errno;
	return -1;
}

/* Ends the process before this write, as a kill does; -1: never. */
static int writes_before_kill = -1;

ssize_t write(int fd, const void *bytes, size_t size)
{
	if (writes_before_kill-- == 0)
		_exit(0);
	return syscall(SYS_write, fd, bytes, size);
}

static const struct journal_identity mine = {{1, 2, 3}};
static char folder[64], path[80];

static void journal_setup(void)
{
	setup();
	snprintf(folder, sizeof folder, "/tmp/ckptc-test-XXXXXX");
	ck_assert(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/journal", folder);
}

static void journal_teardown(void)
{
	teardown();
	ck_assert_msg(rmdir(folder) == 0, "something is left in %s", folder);
}

static enum status open_mine(struct journal *journal)
{
	diags_init(&diags, &arena);
	return open_journal(journal, path, folder, &mine);
}

static void put_line(FILE *file, const char *line)
{
	fprintf(file, "%s :%016llx\n", line, (unsigned long long)hash_bytes(HASH_START, line, strlen(line)));
}

/* Whoever can give a run a journal can't have it remove or write a file that is not its own. */
START_TEST(a_journal_names_no_other_file)
{
	static const char *const parts[] = {"chain",   "ranks",   "policy",  "types",  "value", "cotangent",
	                                    "version", "targets", "objects", "params", "input"};
	char victim[128], line[160];
	snprintf(victim, sizeof victim, "%s/victim", folder);
	const char *const names[] = {victim, "victim", "../victim", "ckptc-aa/../vict.spill", "ckptc-.spill", ""};
	fclose(fopen(victim, "w"));
	FILE *file = fopen(path, "w");
	put_line(file, "ckptc journal 1");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		snprintf(line, sizeof line, "%s %016x", parts[i], 0);
		put_line(file, line);
	}
	snprintf(line, sizeof line, "spill %s", names[_i]);
	put_line(file, line);
	put_line(file, "done");
	fclose(file);
	struct journal journal;
	ck_assert_int_eq(open_mine(&journal), STATUS_DATA);
	ck_assert_msg(strstr(diags.first->message, "no journal of ckptc") != NULL, "%s", diags.first->message);
	journal_close(&journal);
	ck_assert(access(victim, F_OK) == 0);
	ck_assert(!unlink(victim) && !unlink(path));
}
END_TEST

/* A place whose end no file can have, where a state would be read from and written to. */
START_TEST(a_journal_names_no_place_beyond_files)
{
	static const char *const places[] = {"9223372036854775807 1", "9223372036854775807 9223372036854775807",
	                                     "0 9223372036854775808", "0 18446744073709551615", "0 -1"};
	struct journal journal;
	char line[160], victim[160];
	make_journal(folder, path, &mine);
	FILE *file = fopen(path, "a");
	snprintf(line, sizeof line, "blob %d %s 0 -1", JOURNAL_STATES, places[_i]);
	put_line(file, line);
	fclose(file);
	const enum status status = open_mine(&journal);
	snprintf(victim, sizeof victim, "%s", journal.spill_path);
	journal_close(&journal);
	ck_assert(!unlink(victim) && !unlink(path));
	ck_assert_int_eq(status, STATUS_DATA);
	ck_assert_str_eq(diags.first->message, "this is no journal of ckptc");
}
END_TEST

/* A spill file that has become a link or a FIFO is not written into. */
START_TEST(a_spill_file_is_a_file)
{
	struct journal journal;
	char victim[128];
	make_journal(folder, path, &mine);
	ck_assert(!open_mine(&journal));
	journal_close(&journal);
	snprintf(victim, sizeof victim, "%s/victim", folder);
	ck_assert(!rename(journal.spill_path, victim));
	ck_assert(!(_i ? mkfifo(journal.spill_path, 0600) : symlink(victim, journal.spill_path)));
	ck_assert_int_eq(open_mine(&journal), STATUS_IO);
	ck_assert_str_eq(diags.first->file, journal.spill_path);
	journal_close(&journal);
	ck_assert(!unlink(victim) && !unlink(journal.spill_path) && !unlink(path));
}
END_TEST

/* As of other files that are written, it is what a link leads to that is meant. */
START_TEST(a_journal_behind_a_link)
{
	struct journal journal;
	char target[128];
	snprintf(target, sizeof target, "%s/target", folder);
	ck_assert(!symlink("target", path));
	make_journal(folder, path, &mine);
	ck_assert(access(target, F_OK) == 0);
	ck_assert(!open_mine(&journal));
	ck_assert(journal.has_point);
	journal_remove(&journal, &diags);
	ck_assert(access(target, F_OK) != 0);
	ck_assert(!unlink(path));
}
END_TEST

START_TEST(a_journal_that_cannot_be_found)
{
	struct journal journal;
	stat_errno = _i ? ENOENT : ESTALE; /* or never */
	const enum status status = open_mine(&journal);
	stat_errno = 0;
	ck_assert_int_eq(status, STATUS_IO);
	ck_assert_str_eq(diags.first->file, path);
	journal_close(&journal);
	ck_assert(!unlink(path));
}
END_TEST

START_TEST(files_that_stay_are_told)
{
	struct journal journal;
	ck_assert(!open_mine(&journal));
	unlink_errno = EACCES;
	journal_remove(&journal, &diags);
	unlink_errno = 0;
	ck_assert(diags.first && diags.first->next && !diags.errors);
	ck_assert(strstr(diags.first->message, journal.spill_path) && strstr(diags.first->next->message, path));
	ck_assert(!unlink(path) && !unlink(journal.spill_path));
}
END_TEST

/* By the team and at once, of the one file and the other. */
START_TEST(what_cannot_be_flushed_is_told)
{
	struct journal journal;
	ck_assert(!open_mine(&journal));
	const struct spill_pieces *pieces = pieces_of(states[0]);
	sync_errno = ENOSPC;
	sync_turn = _i % 2;
	enum status status = _i < 2 ? spill_write_at_once(&spill, JOURNAL_STATES, pieces, &diags)
	                            : spill_write(&spill, JOURNAL_STATES, pieces, &diags);
	if (_i >= 2 && !status)
		status = spill_write(&spill, JOURNAL_STATES, pieces, &diags);
	sync_errno = 0;
	ck_assert_int_eq(status, STATUS_IO);
	ck_assert_str_eq(diags.first->file, _i % 2 ? path : journal.spill_path);
	ck_assert_msg(strstr(diags.first->message, strerror(ENOSPC)) != NULL, "%s", diags.first->message);
	journal_remove(&journal, &diags);
}
END_TEST

/* journal_teardown then finds an empty folder: the next run removes the spill file, or the file was never made. */
START_TEST(a_kill_while_the_journal_begins)
{
	struct journal journal;
	const pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		writes_before_kill = _i;
		open_mine(&journal);
		_exit(1);
	}
	int exit_status;
	ck_assert(waitpid(child, &exit_status, 0) == child);
	ck_assert_int_eq(exit_status == 0,
	                 _i < JOURNAL_PARTS + 2); /* a journal begins with its name, the parts and `spill` */
	ck_assert(!open_mine(&journal));
	ck_assert(!journal.has_point);
	journal_remove(&journal, &diags);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spill");
	TCase *tcase = suite_make_case(suite, "spill");
	tcase_set_timeout(tcase, 60); /* a disk that others use, too */
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, states_come_back_in_any_order);
	tcase_add_test(tcase, small_states_among_large_ones);
	tcase_add_test(tcase, a_file_has_no_name);
	tcase_add_loop_test(tcase, a_flipped_bit_is_found, 0, 4);
	tcase_add_loop_test(tcase, a_short_file_is_told, 0, 2);
	tcase_add_loop_test(tcase, a_full_disk_is_reported, 0, 2);
	tcase_add_test(tcase, room_is_asked_for);
	tcase_add_test(tcase, no_thread_for_the_team);
	tcase_add_test(tcase, no_memory_for_the_staging);
	tcase_add_test(tcase, folders_that_are_none);
	tcase_add_test(tcase, done_but_not_removed);
	tcase_add_test(tcase, a_journal_of_any_length);
	tcase_add_test(tcase, a_journal_that_is_removed_as_it_is_opened);
	tcase = suite_make_case(suite, "journal");
	tcase_add_checked_fixture(tcase, journal_setup, journal_teardown);
	tcase_add_loop_test(tcase, a_journal_names_no_other_file, 0, 6);
	tcase_add_loop_test(tcase, a_journal_names_no_place_beyond_files, 0, 5);
	tcase_add_loop_test(tcase, a_spill_file_is_a_file, 0, 2);
	tcase_add_loop_test(tcase, a_kill_while_the_journal_begins, 0, JOURNAL_PARTS + 3);
	tcase_add_test(tcase, a_journal_behind_a_link);
	tcase_add_loop_test(tcase, a_journal_that_cannot_be_found, 0, 2);
	tcase_add_test(tcase, files_that_stay_are_told);
	tcase_add_loop_test(tcase, what_cannot_be_flushed_is_told, 0, 4);
	return suite_run(suite);
}
