/* SPDX-License-Identifier: MIT */
/*
 * cpus.h - how many CPUs there are, which are online, and what they do with one instruction.
 * Part of cpu.h, which includes it.
 */
#ifndef PERCPU_CPUS_H
#define PERCPU_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Whether the file is on a file system of this kind. */
bool percpu_is_on(int fd, long file_system);

/**
 * Return how many CPU lanes a region needs for every CPU that this kernel can have: the
 * highest possible CPU number + 1, or more if the kernel's own lists cannot be read; or
 * -E2BIG.
 *
 * *ret_certain, if not NULL, becomes a number that is certainly not too large: a process
 * that could read the lists made its regions for at least so many CPUs.
 */
int percpu_possible_cpus(uint32_t *ret_certain);

/** The same as it was read last, or read if it was not: the first use of a process reads
 *  the kernel's lists once. They are read anew for each region and each fence, because a
 *  process may be restored on a larger machine. */
int percpu_known_cpus(void);

/** Whether the CPU may be online: false if the kernel says that it is offline. */
bool percpu_cpu_online(unsigned cpu);

/** Let the thread, 0 for the calling one, run on that CPU alone. Returns 0 or -errno. */
int percpu_pin(pid_t tid, unsigned cpu);

/** Read a list of the kernel such as "0-3,8". Returns false if there is none. */
bool percpu_read_list(const char *path, char *buf, size_t size);

/** Read the next range of a list. Returns false at the end, or if the list is malformed. */
bool percpu_next_range(const char **list, unsigned long *first, unsigned long *last);

/** Note that the process is going to count in a region with so many CPU lanes. */
void percpu_note_lanes(uint32_t cpus);

/** Note that threads of the process can be on CPUs 0 to cpus - 1. Returns whether one of
 *  these CPUs, or of those noted before, has no lane in some region. */
bool percpu_note_cpus(uint32_t cpus);

/** How many CPUs have a lane in every region that the process counts in. Atomic. */
extern uint32_t percpu_lanes_everywhere;

/** Return how many words one store of this machine commits: 2, 4 or 8. */
unsigned percpu_vector_words(void);

/** Return what this CPU does with aligned 16 bytes at once. */
enum {
	PERCPU_PAIR_EXCHANGES = 1, /* compares and swaps them */
	PERCPU_PAIR_LOADS = 2,	   /* loads them, without a store */
	PERCPU_PAIR_CASP = 4,	   /* compares and swaps them by one instruction of Armv8.1 */
};
unsigned percpu_pair_ways(void);

#endif
