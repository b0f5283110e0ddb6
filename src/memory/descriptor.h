/* SPDX-License-Identifier: MIT */
/*
 * descriptor.h - locks on bytes of a region's file, and the descriptor that the region keeps for
 * them.
 */
#ifndef PERCPU_DESCRIPTOR_H
#define PERCPU_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct percpu_chunk;
struct percpu_region;

/** A descriptor that the region keeps. The program may have closed it, and its number may now be
 *  another file's; device and inode tell. */
struct percpu_descriptor {
	int fd;		/* -1: none is kept */
	bool inherited; /* other processes share the open file, and with it its locks */
	uint64_t device, inode;
};

/** Keep a descriptor of the file that fd refers to. If fresh is set, no other process can
 *  have the same open file. Returns 0 or -errno. */
int percpu_descriptor_keep(struct percpu_region *r, int fd, bool fresh);

/** Close the descriptor that the region keeps, if there is one. */
void percpu_descriptor_drop(struct percpu_region *r);

/** Return the descriptor, or -EBADF if the program has closed it. */
int percpu_descriptor_kept(const struct percpu_region *r);

/** Open the file that fd refers to again, by /proc. Returns a descriptor or -errno. */
int percpu_descriptor_anew(const struct percpu_region *r, int fd);

/** Open the file again in a child of fork, whose descriptor is of its parent's open file. */
void percpu_descriptor_renew(struct percpu_region *r);

/** Return the byte of the file that locks use for this place in lane 0; it is behind all data. */
uint64_t percpu_descriptor_byte(const struct percpu_chunk *k, size_t offset);

/** Lock the byte until this process ends, or unlocks it. Returns 0, or -EBADF if the program
 *  has closed the descriptor, or -errno as fcntl(2): -EAGAIN if another process has locked the
 *  byte. */
int percpu_descriptor_lock(const struct percpu_region *r, uint64_t byte);

/** Lock the byte to read, as long as a mapping or a descriptor of the region is open, in this process
 *  or in a child of fork. If the region has its open file from the program, the lock lasts until that
 *  is closed as well. Returns 0 or -errno: -EAGAIN if a process has locked the byte to write. */
int percpu_descriptor_share(const struct percpu_region *r, uint64_t byte);

/** Unlock the byte. */
void percpu_descriptor_unlock(const struct percpu_region *r, uint64_t byte);

/** Lock the byte to read until percpu_descriptor_unlock_mapped(), or until this address space, and
 *  all that forks have made of it, are gone. This keeps no descriptor. Returns 0 or -errno. */
int percpu_descriptor_lock_mapped(const struct percpu_region *r, uint64_t byte, void **ret);

/** Undo percpu_descriptor_lock_mapped(); NULL is fine. */
void percpu_descriptor_unlock_mapped(void *pin);

/** Return whether no process holds a lock of that byte. Return false also if that cannot be asked. */
bool percpu_descriptor_is_free(const struct percpu_region *r, uint64_t byte);

/** Return 1 if another process, or this one by another region, has locked the byte to write; else
 *  0, or -errno. */
int percpu_descriptor_locked(const struct percpu_region *r, uint64_t byte);

/** Return 1 if a process has locked the byte to read, this one included; else 0, or -errno. */
int percpu_descriptor_shared(const struct percpu_region *r, uint64_t byte);

#endif
