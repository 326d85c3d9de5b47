/*
 * libzip, opened with the first archive and not linked: it brings libcrypto,
 * which takes longer to load than a short chain to run. Private to io/.
 */
#ifndef IO_LIBZIP_H
#define IO_LIBZIP_H

#include <stdbool.h>
#include <zip.h>

#define LIBZIP_FUNCTIONS(X)                                                                                            \
	X(discard)                                                                                                         \
	X(error_code_system)                                                                                               \
	X(error_code_zip)                                                                                                  \
	X(error_fini)                                                                                                      \
	X(error_init)                                                                                                      \
	X(error_strerror)                                                                                                  \
	X(fclose)                                                                                                          \
	X(file_get_error)                                                                                                  \
	X(fopen_index)                                                                                                     \
	X(fread)                                                                                                           \
	X(get_error)                                                                                                       \
	X(get_name)                                                                                                        \
	X(get_num_entries)                                                                                                 \
	X(name_locate)                                                                                                     \
	X(open_from_source)                                                                                                \
	X(source_filep_create)                                                                                             \
	X(source_free)                                                                                                     \
	X(stat_index)

/* zip_NAME of the library, by NAME. */
struct libzip {
#define LIBZIP_MEMBER(NAME) __typeof__(zip_##NAME) *NAME;
	LIBZIP_FUNCTIONS(LIBZIP_MEMBER)
#undef LIBZIP_MEMBER
};

/* NULL where it cannot be opened, and why in *REASON and, if it was for want of it, *MEMORY. From any thread. */
const struct libzip *libzip_get(const char **reason, bool *memory);

#endif
