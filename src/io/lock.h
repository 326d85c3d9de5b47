/*
 * Locks against other commands that would replace the same files. A file that is replaced by a rename cannot carry a
 * lock: who waited for it would hold the lock of a file that is gone. So the folder is locked. The system releases its
 * lock when the program ends, however that happens, and nothing is left behind.
 *
 * Some file systems, such as NFS, lock files alone. There a file LOCK_NAME in the folder is locked, which is removed by
 * lock_release or io_cleanup. If SIGKILL leaves it, the next command locks and removes it.
 */
#ifndef IO_LOCK_H
#define IO_LOCK_H

#include "base/diag.h"

#define LOCK_NAME ".ckptc-lock"

/* The locks that a command holds; zeros: none. */
struct lock_list {
	struct folder_lock *items;
	size_t count;
};

/*
 * Locks the folders of the COUNT files at PATHS, each once, and waits until that is possible. A file need not exist;
 * devices and descriptors are skipped. Commands that lock the same folders do so in one order, so none waits for ever.
 * Fails with STATUS_IO. LOCKS needs lock_release after a failure too.
 */
enum status lock_folders(const struct context *context, struct lock_list *locks, const char *const *paths,
                         size_t count);
void lock_release(struct lock_list *locks);

#endif
