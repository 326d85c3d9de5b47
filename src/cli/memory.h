/* How much memory this machine has for one process. */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Bytes that are free, or that the system would free, such as caches of files, within the limits of the process and of
 * its control groups; 0 if unknown.
 */
int64_t session_memory_available(void);
/*
 * The most bytes that the process may take: what the machine and its control groups have, less an eighth. The machine
 * would promise more and fail later; a control group would kill the process.
 */
size_t session_memory_most(void);

#endif
