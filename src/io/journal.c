/* Tests: tests/unit/test_spill.c, tests/scripts/check-journal */
#include "io/journal.h"

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
#include "base/shell.h"
#include "io/stream.h"

static const char first_line[] = "ckptc journal 1";
static const struct {
	const char *name, *text;
} parts[JOURNAL_PARTS] = {
	[JOURNAL_CHAIN] = {"chain", "another chain"},
	[JOURNAL_RANKS] = {"ranks", "another number of ranks"},
	[JOURNAL_POLICY] = {"policy", "another --policy"},
	[JOURNAL_TYPES] = {"types", "another --dtype, --store-dtype or --fast-math"},
	[JOURNAL_VALUE_WANTED] = {"value", "--value where this has none, or without it"},
	[JOURNAL_COTANGENT] = {"cotangent", "another --cotangent"},
	[JOURNAL_VERSION] = {"version", "another version of ckptc, or on another processor"},
	[JOURNAL_TARGETS] = {"targets", "another --program"},
	[JOURNAL_OBJECTS] = {"objects", "other contents of a shared object of --program"},
	[JOURNAL_PARAMS] = {"params", "other params"},
	[JOURNAL_INPUT] = {"input", "another input"},
	[JOURNAL_TILES] = {"tiles", "another --tile or --threads"},
};
/* LINE_MOST: bytes of the longest line without its checksum, with a NUL. SUM: " :" and the checksum's 16 hexadecimal
 * digits. BLOCK: bytes that are read at once; any line and its checksum fit. */
enum { LINE_MOST = 8192, SUM = 18, BLOCK = 64 << 10 };
static const char spill_word[] = "spill ", spill_prefix[] = "ckptc-", spill_suffix[] = ".spill", last_line[] = "done";

static enum status fail_journal(const struct journal *journal, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_IO, journal->path, -1, "cannot %s the journal: %s", what, strerror(errno));
}

/* Writes LINE, its checksum, a line end and a NUL to TEXT. Returns the number of bytes before the NUL. */
static size_t seal_line(char text[LINE_MOST + SUM + 2], const char *line)
{
	return (size_t)snprintf(text, LINE_MOST + SUM + 2, "%s :%016" PRIx64 "\n", line,
	                        hash_bytes(HASH_START, line, strlen(line)));
}

/* Appends LINE with its checksum. Returns false and sets errno if that fails. */
static bool add_line(const struct journal *journal, const char *line)
{
	char text[LINE_MOST + SUM + 2];
	return io_write_at(journal->fd, IO_NEXT, text, seal_line(text, line));
}

/* SLOT is written: syncs the spill file, then appends and syncs the line that names SLOT. */
static struct spill_failure note_written(void *context, int64_t slot, const struct spill_region *region)
{
	struct journal *journal = context;
	char line[LINE_MOST];
	snprintf(line, sizeof line, "blob %" PRId64 " %" PRId64 " %zu %016" PRIx64 " %" PRId64, slot, region->offset,
	         region->size, region->checksum, region->number);
	if (fdatasync(journal->spill_fd))
		return (struct spill_failure){journal->spill_path, "write the spill file", errno};
	if (!add_line(journal, line) || fdatasync(journal->fd))
		return (struct spill_failure){journal->path, "write the journal", errno};
	journal->has_point |= region->number > 0;
	return (struct spill_failure){.error = 0};
}

void journal_finish(const struct journal *journal)
{
	/* A failure matters only if the spill file is then removed and the journal is not: the next command fails. */
	if (add_line(journal, last_line))
		(void)fdatasync(journal->fd);
}

/* Reading: block by block, since a journal has a line for each of any number of states. */

struct reading {
	struct journal *journal;
	struct spill *spill;
	const struct context *context;
	char *block;         /* up to BLOCK bytes of the file */
	size_t used, length; /* used: bytes of the block's parsed lines; length: bytes of the block */
	int64_t at;          /* offset in the file of the next line */
	char line[LINE_MOST];
	bool ended;    /* no complete line is left */
	bool finished; /* the command wrote its outputs, and was killed while it removed the files */
};

static enum status malformed(const struct reading *r, const char *what)
{
	diag_file(r->context->diags, STATUS_DATA, r->journal->path, r->at, "%s", what);
	return diag_hint(r->context->diags, "%s", r->journal->remedy);
}

/* Sets r->finished if the last line records that the command was done. */
static enum status find_finished(struct reading *r, int64_t length)
{
	char line[LINE_MOST + SUM + 2], last[LINE_MOST + SUM + 2];
	size_t got;
	const size_t size = seal_line(line, last_line);
	if (length <= (int64_t)size)
		return STATUS_OK;
	if (!io_read_at(r->journal->fd, length - (int64_t)size - 1, last, size + 1, &got))
		return fail_journal(r->journal, "read", r->context->diags);
	r->finished = got == size + 1 && last[0] == '\n' && !memcmp(last + 1, line, size);
	return STATUS_OK;
}

/* Reads the block that begins with the next line. */
static enum status read_block(struct reading *r)
{
	r->used = 0;
	if (io_read_at(r->journal->fd, r->at, r->block, BLOCK, &r->length))
		return STATUS_OK;
	return fail_journal(r->journal, "read", r->context->diags);
}

/* Reads the next line to r->line, without its checksum; sets r->ended if there is none. */
static enum status next_line(struct reading *r)
{
	char sealed[LINE_MOST + SUM + 2];
	const char *stop = memchr(r->block + r->used, '\n', r->length - r->used);
	if (!stop) {
		TRY(read_block(r));
		stop = memchr(r->block, '\n', r->length);
	}
	r->ended = !stop;
	if (!stop) /* no line of a journal fills a block */
		return r->length < BLOCK ? STATUS_OK : malformed(r, "this is no journal of ckptc");
	const char *from = r->block + r->used;
	const size_t length = (size_t)(stop - from);
	if (length < SUM || length - SUM >= LINE_MOST || memchr(from, '\0', length))
		return malformed(r, "this is no journal of ckptc");
	memcpy(r->line, from, length - SUM);
	r->line[length - SUM] = '\0';
	seal_line(sealed, r->line);
	if (memcmp(from, sealed, length) != 0)
		return malformed(r, "this is no journal of ckptc, or it has been changed");
	r->used += length + 1;
	r->at += (int64_t)length + 1;
	return STATUS_OK;
}

/* True if begin_journal makes names like NAME in the folder of --spill. Other files must not be opened or removed. */
static bool is_spill_name(const char *name)
{
	const size_t prefix = strlen(spill_prefix), length = strlen(name);
	return length == prefix + IO_LETTERS + strlen(spill_suffix) && !strncmp(name, spill_prefix, prefix) &&
	       !strcmp(name + prefix + IO_LETTERS, spill_suffix) && !strchr(name, '/');
}

static enum status name_spill_file(struct journal *journal, const char *name, const struct context *context)
{
	journal->spill_path = arena_printf(context->arena, "%s/%s", journal->directory, name);
	const char *path = journal->path, *rank = strrchr(path, '.');
	if (journal->ranks > 1 && rank) {
		const char *first = arena_printf(context->arena, "%.*s.0", (int)(rank - path), path);
		const char *last = arena_printf(context->arena, "%.*s.%d", (int)(rank - path), path, journal->ranks - 1);
		TRY_ALLOC(first && last, context->diags);
		journal->remedy =
			shell_printf(context->arena, "remove %s to %s, and the spill files in %s that they name, to start again",
		                 first, last, journal->directory);
	} else {
		journal->remedy = shell_printf(context->arena, "remove %s and %s to start again", path, journal->spill_path);
	}
	TRY_ALLOC(journal->spill_path && journal->remedy, context->diags);
	return STATUS_OK;
}

/* Checks the identity, unless r->finished, and reads the spill file's name. A killed command may lack their lines. */
static enum status read_head(struct reading *r)
{
	struct journal *journal = r->journal;
	char wanted[64];
	TRY(read_block(r));
	const size_t seen = r->length < strlen(first_line) ? r->length : strlen(first_line);
	if (memcmp(r->block, first_line, seen) != 0) /* another program's file is not overwritten */
		return diag_file(r->context->diags, STATUS_DATA, journal->path, 0, "this is no journal of ckptc");
	TRY(next_line(r));
	if (!r->ended && strcmp(r->line, first_line) != 0)
		return malformed(r, "this is no journal of ckptc");
	bool other = false;
	for (int i = 0; i < JOURNAL_PARTS && !r->ended; i++) {
		const int64_t at = r->at;
		TRY(next_line(r));
		snprintf(wanted, sizeof wanted, "%s %016" PRIx64, parts[i].name, journal->identity.parts[i]);
		if (r->ended || r->finished || other || !strcmp(r->line, wanted))
			continue;
		other = true;
		diag_file(r->context->diags, STATUS_DATA, journal->path, at, "the journal is of a run with %s", parts[i].text);
	}
	if (!r->ended)
		TRY(next_line(r));
	const char *name = r->line + strlen(spill_word);
	if (!r->ended && (strncmp(r->line, spill_word, strlen(spill_word)) != 0 || !is_spill_name(name)))
		return malformed(r, "this is no journal of ckptc");
	if (!r->ended)
		TRY(name_spill_file(journal, name, r->context)); /* the note has the name too */
	return other ? diag_hint(r->context->diags, "repeat the first command, or %s", journal->remedy) : STATUS_OK;
}

/* Adds the costs in r->line, if it has any, to COSTS. False if out of memory. */
static bool read_line_costs(const struct reading *r, struct journal_costs *costs, size_t *capacity)
{
	struct measured_times times;
	if (sscanf(r->line, "disk %la %la", &costs->write, &costs->read) == 2)
		return true;
	if (sscanf(r->line, "cost %la %la %la", &times.forward, &times.record, &times.backward) != 3)
		return true;
	struct measured_times *step = arena_append(r->context->arena, &costs->steps, &costs->count, capacity, sizeof *step);
	if (step)
		*step = times;
	return step != NULL;
}

enum status journal_read_costs(const struct context *context, const char *path, struct journal_costs *costs)
{
	struct journal journal = {.path = path, .remedy = ""};
	struct diags unused;
	diags_init(&unused, context->arena);
	const struct context own = {context->allocator, context->arena, &unused};
	struct reading r = {.journal = &journal, .context = &own, .block = arena_alloc(context->arena, BLOCK)};
	size_t capacity = 0;
	*costs = (struct journal_costs){.count = 0};
	TRY_ALLOC(r.block, context->diags);
	journal.fd = io_open(path, O_RDONLY | O_NONBLOCK, 0);
	if (journal.fd < 0)
		return STATUS_OK;
	bool memory = true;
	for (bool good = !read_block(&r); good && memory && !r.ended && strncmp(r.line, "blob ", 5);) {
		good = !next_line(&r);
		memory = !good || r.ended || read_line_costs(&r, costs, &capacity);
	}
	close(journal.fd);
	TRY_ALLOC(memory, context->diags);
	return STATUS_OK;
}

static enum status read_blob(struct reading *r)
{
	struct journal *journal = r->journal;
	int64_t slot;
	struct spill_region region;
	int used = 0;
	if (sscanf(r->line, "blob %" SCNd64 " %" SCNd64 " %zu %" SCNx64 " %" SCNd64 "%n", &slot, &region.offset,
	           &region.size, &region.checksum, &region.number, &used) != 5 ||
	    r->line[used] || slot < 0 || slot > INT32_MAX || region.offset < 0 ||
	    region.size > (size_t)(INT64_MAX - region.offset)) /* no file is longer */
		return malformed(r, "this is no journal of ckptc");
	region.room = region.size;
	TRY(spill_restore(r->spill, slot, &region, r->context->diags));
	journal->has_point |= region.number > 0;
	return STATUS_OK;
}

static enum status read_blocks(struct reading *r)
{
	struct stat st;
	const struct journal *journal = r->journal;
	struct diags *diags = r->context->diags;
	if (fstat(journal->fd, &st))
		return fail_journal(journal, "read", diags);
	if (!S_ISREG(st.st_mode))
		return diag_file(diags, STATUS_IO, journal->path, -1, "is no regular file: a journal must outlive its run");
	r->block = arena_alloc(r->context->arena, BLOCK);
	TRY_ALLOC(r->block, diags);
	TRY(find_finished(r, (int64_t)st.st_size));
	TRY(read_head(r));
	while (!r->ended && !r->finished) {
		TRY(next_line(r));
		if (!r->ended && strncmp(r->line, "disk ", 5) && strncmp(r->line, "cost ", 5))
			TRY(read_blob(r));
	}
	return STATUS_OK;
}

static bool add_costs(const struct journal *journal)
{
	const struct journal_costs *costs = &journal->costs;
	char line[LINE_MOST];
	snprintf(line, sizeof line, "disk %a %a", costs->write, costs->read);
	bool ok = costs->count == 0 || add_line(journal, line);
	for (size_t i = 0; i < costs->count && ok; i++) {
		const struct measured_times *times = &costs->steps[i];
		snprintf(line, sizeof line, "cost %a %a %a", times->forward, times->record, times->backward);
		ok = add_line(journal, line);
	}
	return ok;
}

/* Writes the head, then creates the spill file: after a kill at any moment, the next command knows what to remove. */
static enum status begin_journal(struct journal *journal, const struct context *context)
{
	struct diags *diags = context->diags;
	const char *directory = journal->directory;
	char name[64], line[LINE_MOST];
	TRY(spill_check_room(directory, journal->wanted, diags));
	snprintf(name, sizeof name, "%s%*s%s", spill_prefix, IO_LETTERS, "", spill_suffix);
	bool ok =
		io_choose_letters(name + strlen(spill_prefix)) && !ftruncate(journal->fd, 0) && add_line(journal, first_line);
	for (int i = 0; i < JOURNAL_PARTS && ok; i++) {
		snprintf(line, sizeof line, "%s %016" PRIx64, parts[i].name, journal->identity.parts[i]);
		ok = add_line(journal, line);
	}
	snprintf(line, sizeof line, "%s%s", spill_word, name);
	ok = ok && add_line(journal, line) && add_costs(journal);
	if (!ok || fdatasync(journal->fd))
		return fail_journal(journal, "write", diags);
	TRY(name_spill_file(journal, name, context));
	journal->spill_fd = io_open(journal->spill_path, O_RDWR | O_CREAT | O_EXCL, 0600);
	journal->begun = journal->spill_fd >= 0;
	if (journal->begun)
		return STATUS_OK;
	return diag_file(diags, STATUS_IO, directory, -1, "cannot create the spill file: %s", strerror(errno));
}

/* Opens the spill file, which must have at least SIZE bytes, and cuts the journal after its first LENGTH bytes. */
static enum status continue_journal(struct journal *journal, int64_t size, int64_t length, struct diags *diags)
{
	struct stat st;
	journal->spill_fd = io_open(journal->spill_path, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
	if (journal->spill_fd < 0) {
		diag_file(diags, STATUS_IO, journal->spill_path, -1, "cannot open the spill file that the journal names: %s",
		          strerror(errno));
		return diag_hint_command(diags, "give --spill the directory of the first command, or remove %s to start again",
		                         journal->path);
	}
	if (fstat(journal->spill_fd, &st))
		return diag_file(diags, STATUS_IO, journal->spill_path, -1, "cannot read the spill file: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return diag_file(diags, STATUS_IO, journal->spill_path, -1, "is no regular file, and spill files are");
	if (st.st_size < size) {
		diag_file(diags, STATUS_IO, journal->spill_path, (int64_t)st.st_size,
		          "the spill file is short: the journal names %lld bytes of it", (long long)size);
		return diag_hint(diags, "%s", journal->remedy);
	}
	return ftruncate(journal->fd, (off_t)length) ? fail_journal(journal, "write", diags) : STATUS_OK;
}

/* Opens the journal's file, or creates it, and locks it. */
static enum status lock(struct journal *journal, struct diags *diags)
{
	enum { ATTEMPTS = 100 };
	for (int i = 0; i < ATTEMPTS; i++) {
		struct stat held, named;
		journal->fd = io_open(journal->file, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK, 0600);
		if (journal->fd < 0)
			return fail_journal(journal, "open", diags);
		const bool locked = !flock(journal->fd, LOCK_EX | LOCK_NB);
		if (!locked && errno == EWOULDBLOCK)
			return diag_file(diags, STATUS_IO, journal->path, -1, "another process has this journal");
		if (!locked || fstat(journal->fd, &held))
			return fail_journal(journal, "lock", diags);
		/* Another command may have removed the file: then its lock guards nothing. */
		const bool there = io_stat(journal->file, &named) == 0;
		if (!there && errno != ENOENT)
			return fail_journal(journal, "lock", diags);
		if (there && io_is_same_file(&held, &named))
			return STATUS_OK;
		close(journal->fd);
		journal->fd = -1;
	}
	return diag_file(diags, STATUS_IO, journal->path, -1, "cannot lock the journal: it is removed again and again");
}

enum status journal_open(const struct context *context, struct journal *journal, struct spill *spill)
{
	char file[PATH_MAX];
	journal->fd = journal->spill_fd = -1;
	journal->has_point = journal->begun = false;
	if (!output_follow(journal->path, file)) /* the target is removed at the end, the link stays */
		return fail_journal(journal, "open", context->diags);
	journal->file = arena_printf(context->arena, "%s", file);
	TRY_ALLOC(journal->file, context->diags);
	TRY(name_spill_file(journal, "ckptc-LETTERS.spill", context)); /* the note until the name is read */
	journal->spill_path = NULL;
	TRY(lock(journal, context->diags));
	struct reading reading = {.journal = journal, .spill = spill, .context = context};
	TRY(read_blocks(&reading));
	if (journal->spill_path && !journal->has_point)
		io_unlink(journal->spill_path); /* it holds nothing to resume from, or the command was done */
	const enum status status = journal->has_point ? continue_journal(journal, spill->end, reading.at, context->diags)
	                                              : begin_journal(journal, context);
	if (status) {
		if (journal->spill_fd >= 0)
			close(journal->spill_fd);
		if (!journal->has_point) /* nothing resumes from it */
			io_unlink(journal->file);
		return status;
	}
	spill->fd = journal->spill_fd;
	spill->name = journal->spill_path;
	spill->remedy = journal->remedy;
	spill->written = note_written;
	spill->written_context = journal;
	return STATUS_OK;
}

/* Removes the file at PATH. Warns if that fails, unless the file is gone already. */
static void remove_file(const char *path, const char *what, struct diags *diags)
{
	if (io_unlink(path) && errno != ENOENT)
		diag_warn(diags, "cannot remove %s %s: %s", what, path, strerror(errno));
}

void journal_remove(struct journal *journal, struct diags *diags)
{
	journal_finish(journal);
	remove_file(journal->spill_path, "the spill file", diags);
	remove_file(journal->file, "the journal", diags);
	journal->begun = false;
	journal_close(journal);
}

void journal_close(struct journal *journal)
{
	if (journal->begun && !journal->has_point) { /* nothing resumes from it */
		io_unlink(journal->spill_path);
		io_unlink(journal->file);
	}
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}
