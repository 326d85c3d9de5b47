/*
 * Points alternate between two slots. A new point never overwrites the last durable
 * one, so one whole point is always there.
 */
#include "exec/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "io/stream.h"

static const char first_line[] = "ckptc journal 1";
static const struct {
	const char *name, *text;
} parts[JOURNAL_PARTS] = {
	[JOURNAL_CHAIN] = {"chain", "another chain"},
	[JOURNAL_POLICY] = {"policy", "another --policy"},
	[JOURNAL_TYPES] = {"types", "another --dtype, --store-dtype or --fast-math"},
	[JOURNAL_VALUE_WANTED] = {"value", "--value where this has none, or without it"},
	[JOURNAL_COTANGENT] = {"cotangent", "another --cotangent"},
	[JOURNAL_PROGRAM] = {"program", "another version of the program, or on another processor"},
	[JOURNAL_PARAMS] = {"params", "other params"},
	[JOURNAL_INPUT] = {"input", "another input"},
};
enum { LINE_MOST = 8192 };
static const char spill_word[] = "spill ", spill_prefix[] = "ckptc-", spill_suffix[] = ".spill";

static enum status failed(const struct journal *journal, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_IO, journal->path, -1, "cannot %s the journal: %s", what, strerror(errno));
}

/* Writing. */

/* Appends a line and its checksum. False and errno on failure. */
static bool add_line(const struct journal *journal, const char *line)
{
	char text[LINE_MOST + 32];
	size_t length = strlen(line);
	int size = snprintf(text, sizeof text, "%s :%016" PRIx64 "\n", line, hash_bytes(HASH_START, line, length));
	return io_write_at(journal->fd, IO_NEXT, text, (size_t)size);
}

/* Called when a slot is written. Syncs the spill file first, then appends and syncs the line that names the slot. */
static struct spill_failure note_written(void *context, int64_t slot, const struct spill_region *region)
{
	struct journal *journal = context;
	char line[LINE_MOST];
	int64_t number = slot < JOURNAL_VALUE ? journal->next : -1;
	snprintf(line, sizeof line, "blob %" PRId64 " %" PRId64 " %zu %016" PRIx64 " %" PRId64, slot, region->offset,
	         region->size, region->checksum, number);
	if (fdatasync(journal->spill_fd))
		return (struct spill_failure){journal->spill_path, "write the spill file", errno};
	if (!add_line(journal, line) || fdatasync(journal->fd))
		return (struct spill_failure){journal->path, "write the journal", errno};
	if (slot < JOURNAL_VALUE) {
		journal->number = number;
		journal->point_slot = slot;
	}
	return (struct spill_failure){.error = 0};
}

static const char last_line[] = "done";

void journal_finish(struct journal *journal)
{
	/* A failure is harmless: the files are removed next. Only a kill between the two removals would then leave an error. */
	if (add_line(journal, last_line))
		(void)fdatasync(journal->fd);
}

/* Reading, block by block: the journal has a line for each state, of any number. */

enum { BLOCK = 64 << 10 };

struct reading {
	struct journal *journal;
	const struct journal_identity *identity;
	const char *directory; /* of the spill file */
	struct spill *spill;
	struct arena *arena;
	struct diags *diags;
	char *block;         /* up to BLOCK bytes of the file */
	size_t used, length; /* bytes of the block: of parsed lines; in all */
	int64_t at;          /* offset in the file of the next line */
	bool finished;       /* the command wrote its outputs, and was killed while it removed the files */
};

static enum status read_at(const struct reading *r, char *to, size_t size, int64_t offset, size_t *got)
{
	if (!io_read_at(r->journal->fd, offset, to, size, got))
		return failed(r->journal, "read", r->diags);
	return STATUS_OK;
}

/* Sets finished if the last line records that the command was done. */
static enum status find_finished(struct reading *r, int64_t length)
{
	char line[64], last[64];
	size_t got;
	int size = snprintf(line, sizeof line, "\n%s :%016" PRIx64 "\n", last_line,
	                    hash_bytes(HASH_START, last_line, strlen(last_line)));
	if (length < size)
		return STATUS_OK;
	enum status status = read_at(r, last, (size_t)size, length - size, &got);
	r->finished = !status && got == (size_t)size && !memcmp(last, line, got);
	return status;
}

static enum status wrong(const struct reading *r, const char *what)
{
	enum status status = diag_file(r->diags, STATUS_DATA, r->journal->path, r->at, "%s", what);
	diag_hint(r->diags, "remove it to start again");
	return status;
}

/* Moves the rest of the block to its front, and reads on behind it. */
static enum status fill_block(struct reading *r)
{
	size_t got, left = r->length - r->used;
	memmove(r->block, r->block + r->used, left);
	enum status status = read_at(r, r->block + left, BLOCK - left, r->at + (int64_t)left, &got);
	r->used = 0;
	r->length = left + (status ? 0 : got);
	return status;
}

/* Copies the next line to LINE, without its checksum. Sets *END if no complete line is left. */
static enum status next_line(struct reading *r, char line[LINE_MOST], bool *end)
{
	const char *from = r->block + r->used, *stop = memchr(from, '\n', r->length - r->used);
	if (!stop) {
		TRY(fill_block(r));
		from = r->block;
		stop = memchr(from, '\n', r->length);
	}
	*end = !stop;
	if (!stop) /* no line of a journal fills a block */
		return r->length < BLOCK ? STATUS_OK : wrong(r, "this is no journal of ckptc");
	size_t length = (size_t)(stop - from);
	enum { SUM = 18 }; /* " :" and 16 digits */
	if (length < SUM || length - SUM >= LINE_MOST || memchr(from, '\0', length))
		return wrong(r, "this is no journal of ckptc");
	memcpy(line, from, length - SUM);
	line[length - SUM] = '\0';
	char sum[SUM + 1];
	snprintf(sum, sizeof sum, " :%016" PRIx64, hash_bytes(HASH_START, line, length - SUM));
	if (memcmp(from + length - SUM, sum, SUM) != 0)
		return wrong(r, "this is no journal of ckptc, or it has been changed");
	r->used += length + 1;
	r->at += (int64_t)length + 1;
	return STATUS_OK;
}

/* The named file is opened or removed, so its name must be one that begin makes, in the directory of --spill. */
static bool is_spill_name(const char *name)
{
	const size_t prefix = strlen(spill_prefix), length = strlen(name);
	return length == prefix + IO_LETTERS + strlen(spill_suffix) && !strncmp(name, spill_prefix, prefix) &&
	       !strcmp(name + prefix + IO_LETTERS, spill_suffix) && !strchr(name, '/');
}

/* Reads the identity and the spill file's name. Sets *END if the command was killed before it wrote them. */
static enum status read_head(struct reading *r, bool *end)
{
	char line[LINE_MOST], wanted[64];
	TRY(fill_block(r));
	size_t seen = r->length < strlen(first_line) ? r->length : strlen(first_line);
	if (memcmp(r->block, first_line, seen) != 0) /* another program's file is not overwritten */
		return diag_file(r->diags, STATUS_DATA, r->journal->path, 0, "this is no journal of ckptc");
	enum status status = next_line(r, line, end);
	if (status || *end)
		return status;
	if (strcmp(line, first_line) != 0)
		return wrong(r, "this is no journal of ckptc");
	for (int i = 0; i < JOURNAL_PARTS; i++) {
		const int64_t at = r->at;
		status = next_line(r, line, end);
		if (status || *end)
			return status;
		snprintf(wanted, sizeof wanted, "%s %016" PRIx64, parts[i].name, r->identity->parts[i]);
		if (!strcmp(line, wanted) || r->finished)
			continue;
		r->at = at;
		enum status refused =
			diag_file(r->diags, STATUS_DATA, r->journal->path, at, "the journal is of a run with %s", parts[i].text);
		diag_hint(r->diags, "repeat the first command, or remove the journal to start again");
		return refused;
	}
	status = next_line(r, line, end);
	if (status || *end)
		return status;
	const char *name = line + strlen(spill_word);
	if (strncmp(line, spill_word, strlen(spill_word)) != 0 || !is_spill_name(name))
		return wrong(r, "this is no journal of ckptc");
	r->journal->spill_path = arena_printf(r->arena, "%s/%s", r->directory, name);
	return r->journal->spill_path ? STATUS_OK : diag_memory(r->diags);
}

static enum status read_blobs(struct reading *r)
{
	char line[LINE_MOST];
	struct journal *journal = r->journal;
	for (;;) {
		bool end;
		enum status status = next_line(r, line, &end);
		if (status || end)
			return status;
		int64_t slot, number;
		struct spill_region region;
		int used = 0;
		if (sscanf(line, "blob %" SCNd64 " %" SCNd64 " %zu %" SCNx64 " %" SCNd64 "%n", &slot, &region.offset,
		           &region.size, &region.checksum, &number, &used) != 5 ||
		    line[used] || slot < 0 || slot > INT32_MAX || region.offset < 0 ||
		    region.size > (size_t)(INT64_MAX - region.offset)) /* no file is longer */
			return wrong(r, "this is no journal of ckptc");
		region.room = region.size;
		TRY(spill_restore(r->spill, slot, &region, r->diags));
		if (slot < JOURNAL_VALUE) {
			journal->number = number;
			journal->point_slot = slot;
		} else if (slot > JOURNAL_VALUE) {
			journal->last_state = slot - JOURNAL_STATES;
		}
		journal->goes_on = journal->number >= 0 || journal->last_state >= 0;
	}
}

static enum status read_all(struct reading *r)
{
	struct stat st;
	const struct journal *journal = r->journal;
	if (fstat(journal->fd, &st))
		return failed(journal, "read", r->diags);
	if (!S_ISREG(st.st_mode))
		return diag_file(r->diags, STATUS_IO, journal->path, -1, "is no regular file: a journal must outlive its run");
	r->block = arena_alloc(r->arena, BLOCK);
	TRY_ALLOC(r->block, r->diags);
	bool end = false;
	enum status status = find_finished(r, (int64_t)st.st_size);
	if (status == STATUS_OK)
		status = read_head(r, &end);
	return status || end || r->finished ? status : read_blobs(r);
}

/* Opening. */

static enum status begin(struct journal *journal, const char *directory, int64_t wanted,
                         const struct journal_identity *identity, struct arena *arena, struct diags *diags)
{
	TRY(spill_check_room(directory, wanted, diags));
	journal->spill_path = arena_printf(arena, "%s/%s%*s%s", directory, spill_prefix, IO_LETTERS, "", spill_suffix);
	TRY_ALLOC(journal->spill_path, diags);
	const char *name = journal->spill_path + strlen(directory) + 1;
	journal->spill_fd = io_make_unique(journal->spill_path, strlen(directory) + 1 + strlen(spill_prefix));
	if (journal->spill_fd < 0)
		return diag_file(diags, STATUS_IO, directory, -1, "cannot create the spill file: %s", strerror(errno));
	char line[LINE_MOST];
	bool ok = !ftruncate(journal->fd, 0) && add_line(journal, first_line);
	for (int i = 0; i < JOURNAL_PARTS && ok; i++) {
		snprintf(line, sizeof line, "%s %016" PRIx64, parts[i].name, identity->parts[i]);
		ok = add_line(journal, line);
	}
	snprintf(line, sizeof line, "%s%s", spill_word, name);
	ok = ok && add_line(journal, line) && !fdatasync(journal->fd);
	if (ok)
		return STATUS_OK;
	enum status status = failed(journal, "write", diags);
	unlink(journal->spill_path);
	return status;
}

static enum status go_on(struct journal *journal, const struct reading *r, struct diags *diags)
{
	struct stat st;
	journal->spill_fd = io_open(journal->spill_path, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
	if (journal->spill_fd < 0) {
		enum status status = diag_file(diags, STATUS_IO, journal->spill_path, -1,
		                               "cannot open the spill file that the journal names: %s", strerror(errno));
		diag_hint(diags, "remove %s to start again", journal->path);
		return status;
	}
	if (fstat(journal->spill_fd, &st))
		return diag_file(diags, STATUS_IO, journal->spill_path, -1, "cannot read the spill file: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return diag_file(diags, STATUS_IO, journal->spill_path, -1, "is no regular file, and spill files are");
	if (st.st_size < r->spill->end) {
		enum status status =
			diag_file(diags, STATUS_IO, journal->spill_path, (int64_t)st.st_size,
		              "the spill file is short: the journal names %lld bytes of it", (long long)r->spill->end);
		diag_hint(diags, "remove %s to start again", journal->path);
		return status;
	}
	return ftruncate(journal->fd, (off_t)r->at) ? failed(journal, "write", diags) : STATUS_OK;
}

/* Sets *SAME if the path names the open file: another command may have removed it, then its lock guards nothing. False and errno on failure. */
static bool is_at_path(const struct journal *journal, bool *same)
{
	struct stat held, named;
	*same = false;
	if (fstat(journal->fd, &held))
		return false;
	if (stat(journal->file, &named))
		return errno == ENOENT;
	*same = io_is_same_file(&held, &named);
	return true;
}

/* Opens the file and locks it. */
static enum status lock(struct journal *journal, struct diags *diags)
{
	enum { ATTEMPTS = 100 };
	for (int i = 0; i < ATTEMPTS; i++) {
		bool same;
		journal->fd = io_open(journal->file, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK, 0600);
		if (journal->fd < 0)
			return failed(journal, "open", diags);
		if (flock(journal->fd, LOCK_EX | LOCK_NB))
			return errno == EWOULDBLOCK
			           ? diag_file(diags, STATUS_IO, journal->path, -1, "another process has this journal")
			           : failed(journal, "lock", diags);
		if (!is_at_path(journal, &same))
			return failed(journal, "lock", diags);
		if (same)
			return STATUS_OK;
		close(journal->fd);
		journal->fd = -1;
	}
	return diag_file(diags, STATUS_IO, journal->path, -1, "cannot lock the journal: it is removed again and again");
}

enum status journal_open(struct journal *journal, const char *path, const char *directory, int64_t wanted,
                         const struct journal_identity *identity, struct spill *spill, struct arena *arena,
                         struct diags *diags)
{
	char file[PATH_MAX];
	*journal = (struct journal){
		.fd = -1, .path = path, .spill_fd = -1, .number = -1, .point_slot = -1, .next = -1, .last_state = -1};
	if (!output_follow(path, file)) /* the target is removed at the end, the link stays */
		return failed(journal, "open", diags);
	journal->file = arena_printf(arena, "%s", file);
	TRY(journal->file ? lock(journal, diags) : diag_memory(diags));
	struct reading reading = {.journal = journal,
	                          .identity = identity,
	                          .directory = directory,
	                          .spill = spill,
	                          .arena = arena,
	                          .diags = diags};
	enum status status = read_all(&reading);
	if (status)
		return status;
	if (journal->spill_path && !journal->goes_on)
		unlink(journal->spill_path); /* it holds no durable blob */
	status =
		journal->goes_on ? go_on(journal, &reading, diags) : begin(journal, directory, wanted, identity, arena, diags);
	if (status) {
		if (journal->spill_fd >= 0)
			close(journal->spill_fd);
		if (!journal->goes_on) /* it has no entries yet */
			unlink(journal->file);
		return status;
	}
	spill_use(spill, journal->spill_fd, journal->spill_path);
	spill->written = note_written;
	spill->written_context = journal;
	return STATUS_OK;
}

/* A file that is gone already is no failure. */
static void remove_file(const char *path, const char *what, struct diags *diags)
{
	if (unlink(path) && errno != ENOENT)
		diag_warn(diags, "cannot remove %s %s: %s", what, path, strerror(errno));
}

void journal_remove(struct journal *journal, struct diags *diags)
{
	journal_finish(journal);
	remove_file(journal->spill_path, "the spill file", diags);
	remove_file(journal->file, "the journal", diags);
	journal_close(journal);
}

void journal_close(struct journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}
