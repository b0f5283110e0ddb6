/* SPDX-License-Identifier: MIT */
/*
 * chunk.h - chunks: how a mapping of lanes is made, and the words in it. It knows regions by name
 * only. Part of memory.h, which includes it.
 */
#ifndef PERCPU_CHUNK_H
#define PERCPU_CHUNK_H

#include "../cpu/cpu.h"
#include "format.h"

/* chunk.c: one mapping of lanes, and the arithmetic on them */

/** A chunk as this process has mapped it. After that, only hint changes, unless the chunk is
 *  decommitted: then all fields are 0. */
struct percpu_chunk {
	/* its own address: tells a chunk from other memory; NULL: the chunk is decommitted. Atomic */
	const struct percpu_chunk *self;
	struct percpu_region *region;
	struct percpu_header *header;
	char *base; /* lane 0 */
	size_t lane_size;
	size_t stride;
	size_t unit; /* bytes that a bit of header->used stands for */
	size_t hint; /* units below it were in use when last seen; the process lock protects it */
	uint32_t cpus;
	uint32_t index;
	bool shared;	 /* the chunk is in a file */
	size_t map_size; /* bytes, this struct included; 0: in memory of the program */
};

/** Return the header of a chunk, which may be decommitted. */
static inline struct percpu_header *percpu_chunk_header(struct percpu_chunk *k)
{
	return (struct percpu_header *)((char *)k + PERCPU_HEAD);
}

/** Order all accesses before the call against all that follow. GCC refuses
 *  __atomic_thread_fence() where it compiles for ThreadSanitizer. */
static inline void percpu_full_fence(void)
{
	__sync_synchronize();
}

/** Return the distance between lanes of lane_size usable bytes. */
static inline size_t percpu_stride(size_t lane_size)
{
	size_t page = PERCPU_STRIDE - PERCPU_LANE_SIZE - 64;

	return (lane_size + page - 1) / page * page + page + 64;
}

/** Return the size of a unit: the bytes that a bit of percpu_header.used stands for. */
static inline size_t percpu_unit(size_t lane_size)
{
	size_t unit = sizeof(uint64_t);

	while (unit * PERCPU_UNITS < lane_size)
		unit *= 2;
	return unit;
}

/** Return the bytes that a chunk takes in a file: all but its struct percpu_chunk. */
uint64_t percpu_chunk_size(size_t stride, uint32_t cpus);

/* map.c */

static inline size_t percpu_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/** Map a chunk with the geometry of t: private memory if fd is -1, else the first chunk of
 *  the file. If grows is set, also map the page behind it, percpu_chunk_seed(). Returns 0
 *  or -errno. */
int percpu_chunk_map(const struct percpu_chunk *t, int fd, bool writable, bool grows,
		     struct percpu_chunk **ret);

/** Unmap a chunk, unless it is in memory of the program. */
void percpu_chunk_unmap(struct percpu_chunk *k);

/** Keep the addresses of a mapped chunk, but let no access to them succeed. Its struct stays. */
void percpu_chunk_bar(struct percpu_chunk *k);

/** Return whether the chunk has memory, as it has from the beginning until it is decommitted. */
static inline bool percpu_chunk_is_committed(const struct percpu_chunk *k)
{
	return __atomic_load_n(&k->self, __ATOMIC_ACQUIRE) != NULL;
}

/** Return all memory of a private chunk to the system, its header and its struct included. The
 *  chunk has no cell in use, and it keeps its addresses. Returns false if the kernel refuses that,
 *  because the memory is locked: the chunk then stays committed. */
bool percpu_chunk_decommit(struct percpu_chunk *k);

/** Make a decommitted chunk with the geometry of t usable again, but for its header. */
void percpu_chunk_commit(const struct percpu_chunk *t, struct percpu_chunk *k);

/** Make a private chunk in memory of the program, and fill that with zeros. */
struct percpu_chunk *percpu_chunk_init_in(const struct percpu_chunk *t, void *memory);

/** Return the seed: the page behind the chunk, which is the first page of the file's next chunk.
 *  While it is mapped, mremap(2) can make the next chunk from it, without a descriptor. */
char *percpu_chunk_seed(const struct percpu_chunk *k);

/** Unmap a seed. */
void percpu_chunk_unmap_seed(char *seed);

/** Map the chunk whose first page is *seed. The page moves into the chunk, and *seed becomes NULL.
 *  Returns 0, or -errno with *seed still mapped. */
int percpu_chunk_unfold(const struct percpu_chunk *t, char **seed, bool grows,
			struct percpu_chunk **ret);

/** Use no huge pages behind this offset in the CPU lanes of a private chunk, where no byte is
 *  going to be touched. */
void percpu_chunk_small_pages(const struct percpu_chunk *k, size_t offset);

/* chunk.c: the contents of the lanes */

/** Copy the header that another process wrote. Returns 0, or -EBADMSG if the file was cut
 *  short. */
int percpu_chunk_read_header(const struct percpu_chunk *k, struct percpu_header *ret);

/** Write the header of a new chunk. Returns 0 or -errno. */
int percpu_chunk_format(struct percpu_chunk *k);

/** Reserve pages of the file, so that no later store finds the file system full: cpu_size bytes
 *  of each CPU lane, and size bytes of each other lane that adds may touch. If cpu_size is 0,
 *  reserve only those of the bias lane. Returns 0 or -errno. */
int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Return the sum at an offset, as percpu_counter_fetch(). */
uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset);

/** Reset the sum at an offset, and return what it was, as percpu_counter_reset(). In a region
 *  that was opened to read, return the sum and reset nothing. */
uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset);

/** Add n atomically at an offset, in a lane of the calling thread's CPU if possible. */
void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n);

/** Return the sum of the lanes alone, without the bias. */
uint64_t percpu_chunk_sum_lanes(const struct percpu_chunk *k, size_t offset);

/** Mark the atomic lane of that CPU as used. Returns its number; or that of CPU 0's, if the file
 *  system has no room for the lane. */
uint32_t percpu_chunk_use_lane(struct percpu_chunk *k, uint32_t cpu);

/** Choose an atomic lane for the calling thread, that of its CPU if possible, and mark it as
 *  used. Returns the number of the lane, k->cpus at least. */
uint32_t percpu_chunk_choose_lane(struct percpu_chunk *k);

/** Set cpu_size bytes of each CPU lane, and size bytes of each other lane, to zero; if cpu_size is
 *  0, only those of the bias lane. Both are rounded up to multiples of 8. No thread may be using
 *  the bytes. */
void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Return to the system the pages of every lane that hold none but these bytes. */
void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size);

/** Return the number of the first bit that has this value, from bit `from` on; end if there is
 *  none. */
static inline size_t percpu_next_bit(const uint64_t *bitmap, size_t from, size_t end, bool value)
{
	uint64_t bits;

	for (; from < end; from = (from / 64 + 1) * 64) {
		bits = __atomic_load_n(&bitmap[from / 64], __ATOMIC_ACQUIRE);
		bits = (value ? bits : ~bits) >> (from % 64);
		if (bits != 0) {
			from += (size_t)__builtin_ctzll(bits);
			break;
		}
	}
	return from < end ? from : end;
}

/** Return the first atomic lane that was ever used, from lane `from` on; 2 * cpus if there is
 *  none. Lanes that were never used hold zeros. Atomic lanes are cpus to 2 * cpus - 1:
 *
 *	for (lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
 *	     lane = percpu_used_lane(k, lane + 1))
 */
static inline uint32_t percpu_used_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, true);
}

/** Return the first atomic lane that was never used, from lane `from` on; 2 * cpus if there is
 *  none. */
static inline uint32_t percpu_unused_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, false);
}

static inline char *percpu_chunk_lane(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	return k->base + lane * k->stride + offset;
}

/** Return the number of the bias lane. It is the last: in front of it are a CPU lane and an atomic
 *  lane for each CPU. */
static inline size_t percpu_chunk_bias_lane(const struct percpu_chunk *k)
{
	return 2 * (size_t)k->cpus;
}

/** Return the address of this offset in the bias lane. */
static inline char *percpu_chunk_bias(const struct percpu_chunk *k, size_t offset)
{
	return percpu_chunk_lane(k, percpu_chunk_bias_lane(k), offset);
}

/** Return the chunk that has the cell in its lane 0, in a region of default geometry. */
static inline struct percpu_chunk *percpu_chunk_of(const void *cell)
{
	uintptr_t lane = (uintptr_t)cell & ~((uintptr_t)PERCPU_LANE_SIZE - 1);

	return (struct percpu_chunk *)(lane - 2 * PERCPU_HEAD);
}

/* sum.c: sums of n adjacent words at a time, from an offset on. Each word is read whole, and
 * before what the caller loads next. */

#define PERCPU_SUM_MAX 512

/** Return the number of words for which one call is fastest; at most PERCPU_SUM_MAX. */
size_t percpu_sum_words(const struct percpu_chunk *k);

/** Set out to the negative biases. */
void percpu_sum_biases(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);

/** Add the CPU lanes to out. */
void percpu_sum_cpus(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);

/** Add the atomic lanes in use to out. */
void percpu_sum_atomics(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);

/** Add the CPU lanes of 32-bit cells to out. */
void percpu_sum_narrow(const struct percpu_chunk *k, size_t offset, size_t n, uint32_t *out);

/* mlock.c */

/** Return whether the kernel fills new mappings with memory, because of mlockall(MCL_FUTURE): it
 *  does if this page of private memory, which no thread has touched, is filled. */
bool percpu_mlock_fills(const char *page);

/** Let the kernel fill and lock these pages only when they are touched. */
void percpu_mlock_on_fault(char *first, size_t size);

/** Let the kernel fill the chunk now, except the atomic lanes. */
void percpu_chunk_populate(const struct percpu_chunk *k);

/* journal.c */

/** Lock the journal of the chunk, and complete the update that a killed holder left there.
 *  Returns 0 or an error of percpu_robust_lock(). percpu_robust_unlock() unlocks the journal. */
int percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);

/** Do as percpu_journal_lock(), without waiting. */
int percpu_journal_try(struct percpu_chunk *k, struct percpu_robust *h);

/** Complete the update that a killed holder left in the journal. Returns 0 or an error of
 *  percpu_robust_lock(). */
int percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns);

/** Add delta to at most PERCPU_JOURNAL_WORDS words of the bias lane: all or none, even if
 *  the process is killed meanwhile. The caller has the lock. */
void percpu_journal_add(struct percpu_chunk *k, size_t offset, const uint64_t *delta, size_t words);

/** Do as percpu_journal_add(), but replace the words by value. */
void percpu_journal_set(struct percpu_chunk *k, size_t offset, const uint64_t *value, size_t words);

/** Read words of the bias lane together: all as they were before, or all as they are after each
 *  percpu_journal_add() or percpu_journal_set(). Returns 0, -ETIMEDOUT, or another error of
 *  percpu_robust_lock(). */
int percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words);

/** Set out to the negative words of the bias lane, each read by itself. They have all or nothing
 *  of an update whose thread was killed. Takes no lock. */
void percpu_journal_sum(const struct percpu_chunk *k, size_t offset, size_t words, uint64_t *out);

/* numa.c */

/** On a machine with several NUMA nodes, tell the kernel to place the pages of each CPU's lanes of
 *  a shared chunk on that CPU's node, whichever CPU reserves them. */
void percpu_chunk_numa(const struct percpu_chunk *k);

#include "values.h"

#endif
