/* SPDX-License-Identifier: MIT */
/*
 * descriptor.h - locks of a region's file, for which the region keeps a descriptor.
 */
#ifndef PERCPU_DESCRIPTOR_H
#define PERCPU_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct percpu_chunk;
struct percpu_region;

/** A descriptor that the program may have closed, and its number may be another file's. */
struct percpu_descriptor {
	int fd;		/* -1: none is kept */
	bool inherited; /* other processes have the same open file, so its locks are theirs, too */
	uint64_t device, inode;
};

/** Keep a descriptor of the file that fd refers to. If fresh is set, no other process can
 *  have the same open file. Returns 0 or -errno. */
int percpu_descriptor_keep(struct percpu_region *r, int fd, bool fresh);
void percpu_descriptor_drop(struct percpu_region *r);

/** Return the descriptor, or -EBADF if the program has closed it. */
int percpu_descriptor_kept(const struct percpu_region *r);

/** Open the file that fd refers to once more, by /proc. Returns a descriptor or -errno. */
int percpu_descriptor_anew(const struct percpu_region *r, int fd);

/** In a child of fork, whose descriptor is its parent's open file: open the file anew. */
void percpu_descriptor_renew(struct percpu_region *r);

/** Return the byte behind all data that stands for this place in lane 0; see descriptor.c. */
uint64_t percpu_descriptor_byte(const struct percpu_chunk *k, size_t offset);

/** Lock the byte until this process ends, or give it back. Returns 0, or -EBADF if the program
 *  has closed the descriptor, or -errno as fcntl(2): -EAGAIN if somebody has locked the byte. */
int percpu_descriptor_lock(const struct percpu_region *r, uint64_t byte);
void percpu_descriptor_unlock(const struct percpu_region *r, uint64_t byte);

/** Lock the byte to read for as long as this address space lives, or one that a fork has made of
 *  it, without a descriptor: until percpu_descriptor_unpin(). Returns 0 or -errno. */
int percpu_descriptor_pin(const struct percpu_region *r, uint64_t byte, void **ret);
void percpu_descriptor_unpin(void *pin);

/** Find the first of n bytes from this one on that somebody has locked, and set *ret to where it
 *  is; n if there is none. Returns 0 or -errno. */
int percpu_descriptor_least(const struct percpu_region *r, uint64_t byte, uint64_t n,
			    uint64_t *ret);

/** Whether some process, or this one by another region, has the byte locked to write.
 *  Returns 1 or 0, or -errno. */
int percpu_descriptor_locked(const struct percpu_region *r, uint64_t byte);

#endif
