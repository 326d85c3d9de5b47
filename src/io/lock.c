/*
 * flock(2) belongs to the open file, not to the process, so a folder that was opened twice would lock itself out.
 * Tests: tests/cases/grad.test
 */
#include "io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/stream.h"

struct folder_lock {
	const char *path; /* of the folder */
	struct stat st;
	int fd;
	char *file; /* the path of the lock file, where the folder itself cannot be locked; else NULL */
};

static enum status fail_lock(const char *folder, struct diags *diags)
{
	diag_file(diags, STATUS_IO, folder, -1, "cannot lock this folder: %s", strerror(errno));
	return diag_hint(diags, "--accumulate adds into files of folders that can be read and locked");
}

static bool wait_for_lock(int fd)
{
	int status;
	do /* a signal that does not end the program */
		status = flock(fd, LOCK_EX);
	while (status && errno == EINTR);
	return status == 0;
}

/* Locks the lock file in the folder of LOCK, whose descriptor it replaces. */
static bool lock_file(struct folder_lock *lock)
{
	struct stat held, named;
	for (;;) {
		const int fd = io_open(lock->file, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
		if (fd < 0)
			return false;
		const bool locked = wait_for_lock(fd) && !fstat(fd, &held);
		/* The holder before may have removed it: then the lock guards nothing. */
		if (locked && (io_stat(lock->file, &named) || !io_is_same_file(&held, &named))) {
			close(fd);
			continue;
		}
		const int error = errno;
		if (!locked)
			io_unlink(lock->file); /* nobody can have locked it */
		close(locked ? lock->fd : fd);
		lock->fd = locked ? fd : lock->fd;
		errno = error;
		return locked;
	}
}

/* Waits for LOCK, whose folder is open. */
static enum status hold_lock(struct folder_lock *lock, struct arena *arena, struct diags *diags)
{
	if (wait_for_lock(lock->fd))
		return STATUS_OK;
	char *file = lock->file = arena_printf(arena, "%s/%s", lock->path, LOCK_NAME);
	TRY_ALLOC(file, diags);
	if (lock_file(lock)) {
		io_exchange_temporary(NULL, file);
		return STATUS_OK;
	}
	lock->file = NULL; /* it may be another command's */
	return fail_lock(lock->path, diags);
}

static int by_inode(const void *a, const void *b)
{
	const struct stat *x = &((const struct folder_lock *)a)->st, *y = &((const struct folder_lock *)b)->st;
	return x->st_dev != y->st_dev ? (x->st_dev > y->st_dev) - (x->st_dev < y->st_dev)
	                              : (x->st_ino > y->st_ino) - (x->st_ino < y->st_ino);
}

/* Adds the folder of the file at PATH to LOCKS, unless it is there. */
static enum status add_folder(const struct context *context, struct lock_list *locks, const char *path)
{
	char target[PATH_MAX];
	if (!output_replaces(path))
		return STATUS_OK;
	if (!io_real_path(path, target) && !output_follow(path, target))
		return diag_file(context->diags, STATUS_IO, path, -1, "cannot write: %s", strerror(errno));
	const char *slash = strrchr(target, '/');
	struct folder_lock *lock = &locks->items[locks->count];
	lock->path = !slash ? "." : arena_printf(context->arena, "%.*s", (int)(slash - target) + (slash == target), target);
	TRY_ALLOC(lock->path, context->diags);
	lock->fd = io_open(lock->path, O_RDONLY | O_DIRECTORY, 0);
	if (lock->fd < 0)
		return fail_lock(lock->path, context->diags);
	locks->count++;
	if (fstat(lock->fd, &lock->st))
		return fail_lock(lock->path, context->diags);
	for (const struct folder_lock *other = locks->items; other < lock; other++)
		if (io_is_same_file(&other->st, &lock->st)) {
			close(lock->fd);
			locks->count--;
			break;
		}
	return STATUS_OK;
}

enum status lock_folders(const struct context *context, struct lock_list *locks, const char *const *paths, size_t count)
{
	locks->count = 0;
	locks->items = arena_array(context->arena, count + 1, sizeof *locks->items);
	TRY_ALLOC(locks->items, context->diags);
	for (size_t i = 0; i < count; i++)
		TRY(add_folder(context, locks, paths[i]));
	qsort(locks->items, locks->count, sizeof *locks->items, by_inode);
	for (size_t i = 0; i < locks->count; i++)
		TRY(hold_lock(&locks->items[i], context->arena, context->diags));
	return STATUS_OK;
}

void lock_release(struct lock_list *locks)
{
	for (size_t i = 0; i < locks->count; i++) {
		struct folder_lock *lock = &locks->items[i];
		if (lock->file) {
			io_unlink(lock->file);
			io_exchange_temporary(lock->file, NULL);
		}
		close(lock->fd);
	}
	locks->count = 0;
}
