/* A hash of bytes: to tell whether they are the same, not to withstand anybody. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_START = 0 };
/*
 * Goes on from HASH, HASH_START or the hash of what came before, with SIZE bytes.
 * How the bytes are cut into calls matters. Words are taken in the processor's
 * order of bytes, so that a hash is of use on one machine.
 */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);

#endif
