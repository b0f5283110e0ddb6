/* SPDX-License-Identifier: MIT */
/*
 * cpus.h - how many CPUs there are, which are online, and how much they store or load at once.
 * Part of cpu.h, which includes it.
 */
#ifndef PERCPU_CPUS_H
#define PERCPU_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Return whether the file is on a file system of this kind. */
bool percpu_is_on(int fd, long file_system);

/**
 * Return how many CPU lanes a region needs for every CPU that this kernel can have: the
 * highest possible CPU number + 1, or more if the kernel's own lists cannot be read; or
 * -E2BIG.
 *
 * *ret_certain, if not NULL, becomes a number that is certainly not too large: a process
 * that can read the lists makes its regions for at least that many CPUs.
 */
int percpu_possible_cpus(uint32_t *ret_certain);

/** Return the number that was last read; read it if none was. So the first use in a process
 *  reads the kernel's lists once. Each region and each fence reads them again, because a
 *  process may be restored on a larger machine. */
int percpu_known_cpus(void);

/** Return whether the CPU may be online: false if the kernel says that it is offline. */
bool percpu_cpu_online(unsigned cpu);

/** Let the thread run on that CPU alone; tid 0 is the calling thread. Returns 0 or -errno. */
int percpu_pin(pid_t tid, unsigned cpu);

/** Read a list of the kernel, such as "0-3,8". Returns false if there is none. */
bool percpu_read_list(const char *path, char *buf, size_t size);

/** Read a file of sysfs that has one line. Returns false if it is not there, or not the kernel's. */
bool percpu_read_genuine(const char *path, char *buf, size_t size);

/** Read the next range of a list. Returns false at the end, or if the list is malformed. */
bool percpu_next_range(const char **list, unsigned long *first, unsigned long *last);

/** Note that the process is going to count in a region with `cpus` CPU lanes. */
void percpu_note_lanes(uint32_t cpus);

/** Note that threads of the process can be on CPUs 0 to cpus - 1. Returns whether one of
 *  these CPUs, or of those noted before, has no lane in some region. */
bool percpu_note_cpus(uint32_t cpus);

/** The number of CPUs that have a lane in every region in which the process counts. Atomic. */
extern uint32_t percpu_lanes_everywhere;

/** Return how many words one store of this CPU can commit: 2, 4 or 8. */
unsigned percpu_vector_words(void);

/** What a CPU does with aligned 16 bytes at once. */
enum {
	PERCPU_PAIR_EXCHANGES = 1, /* compares and swaps them */
	PERCPU_PAIR_LOADS = 2,	   /* loads them, without a store */
	PERCPU_PAIR_CASP = 4,	   /* compares and swaps them by one instruction of Armv8.1 */
};

/** Return which of these this CPU does. */
unsigned percpu_pair_ways(void);

#endif
