/* SPDX-License-Identifier: MIT */
/*
 * chunk.h - one mapping of lanes: how it is made, and the words in it. It knows regions by name
 * only. Part of memory.h, which includes it.
 */
#ifndef PERCPU_CHUNK_H
#define PERCPU_CHUNK_H

#include "../cpu/cpu.h"
#include "format.h"

/* chunk.c: one mapping of lanes, and the arithmetic on them */

/** A chunk as this process has mapped it; constant from then on, but for hint. */
struct percpu_chunk {
	const struct percpu_chunk *self; /* its own address: tells a chunk from other memory */
	struct percpu_region *region;
	struct percpu_header *header;
	char *base; /* lane 0 */
	size_t lane_size;
	size_t stride;
	size_t unit; /* bytes that a bit of header->used stands for */
	size_t hint; /* units below it were in use when last seen; the process lock protects it */
	uint32_t cpus;
	uint32_t index;
	bool shared;	 /* a file */
	size_t map_size; /* from this struct on; 0: in memory of the program */
};

/** Order what comes before against what follows. GCC refuses __atomic_thread_fence() where it
 *  compiles for ThreadSanitizer. */
static inline void percpu_full_fence(void)
{
	__sync_synchronize();
}

/** Return the distance between lanes of so many usable bytes. */
static inline size_t percpu_stride(size_t lane_size)
{
	size_t page = PERCPU_STRIDE - PERCPU_LANE_SIZE - 64;

	return (lane_size + page - 1) / page * page + page + 64;
}

/** Return how many bytes a bit of percpu_header.used stands for. */
static inline size_t percpu_unit(size_t lane_size)
{
	size_t unit = sizeof(uint64_t);

	while (unit * PERCPU_UNITS < lane_size)
		unit *= 2;
	return unit;
}

/** Return how many bytes a chunk takes in a file: all but its struct percpu_chunk. */
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
void percpu_chunk_unmap(struct percpu_chunk *k);

/** Keep the addresses of a mapped chunk, but let no access to them succeed. Its struct stays. */
void percpu_chunk_bar(struct percpu_chunk *k);

/** Make a private chunk in memory of the program, which this fills with zeros and never
 *  unmaps. */
struct percpu_chunk *percpu_chunk_place(const struct percpu_chunk *t, void *memory);

/** Return the seed: the page behind the chunk, which is the first of the file's next chunk.
 *  It is mapped so that mremap(2) can make the next chunk of it, without a descriptor. */
char *percpu_chunk_seed(const struct percpu_chunk *k);
void percpu_chunk_unmap_seed(char *seed);

/** Map the chunk whose first page is *seed. The page moves into the chunk, and *seed
 *  becomes NULL. Returns 0 or -errno. */
int percpu_chunk_unfold(const struct percpu_chunk *t, char **seed, bool grows,
			struct percpu_chunk **ret);

/** Use no huge pages behind this offset in the CPU lanes of a private chunk, because
 *  nothing behind it is going to be touched. */
void percpu_chunk_small_pages(const struct percpu_chunk *k, size_t offset);

/* chunk.c: what is in the lanes */

/** Copy the header that another process wrote. Returns 0, or -EBADMSG. */
int percpu_chunk_read_header(const struct percpu_chunk *k, struct percpu_header *ret);

/** Write the header of a new chunk. Returns 0 or -errno. */
int percpu_chunk_format(struct percpu_chunk *k);

/** Reserve size bytes in all lanes that adds may touch, but cpu_size of them in the CPU
 *  lanes, so that no store finds the file system full. If cpu_size is 0, only the bias lane
 *  is going to be touched. Returns 0 or -errno. */
int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Return the sum, reset and return the sum, or add atomically, at an offset; as
 *  percpu_counter_*(). In a region that was opened to read, these change nothing. */
uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset);
uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset);
void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n);

/** Return the sum of the lanes alone, without the bias. */
uint64_t percpu_chunk_lanes(const struct percpu_chunk *k, size_t offset);

/** Choose an atomic lane for the calling thread, that of its CPU if possible, and mark it as
 *  used. Returns the number of the lane, k->cpus at least. */
uint32_t percpu_chunk_choose_lane(struct percpu_chunk *k);

/** Set size bytes to zero in every lane, but cpu_size of them in the CPU lanes, both
 *  rounded up to multiples of 8. No thread may be using them. */
void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Return the pages that hold only these bytes of every lane to the system. */
void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size);

/** Return the first bit, from bit number from on, that has this value; end if there is
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

/** Return the first atomic lane, from lane from on, that was ever used; 2 * cpus if there is
 *  none. The lanes that were never used hold zeros. Atomic lanes are cpus to 2 * cpus - 1:
 *
 *	for (lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
 *	     lane = percpu_used_lane(k, lane + 1))
 */
static inline uint32_t percpu_used_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, true);
}

/** Return the first atomic lane, from lane from on, that was never used. */
static inline uint32_t percpu_unused_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, false);
}

static inline char *percpu_chunk_lane(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	return k->base + lane * k->stride + offset;
}

/** Return the number of the bias lane, which is the last: a lane for each CPU is in front of it,
 *  and an atomic lane for each. */
static inline size_t percpu_chunk_bias_lane(const struct percpu_chunk *k)
{
	return 2 * (size_t)k->cpus;
}

/** Return what the bias lane has at this offset. */
static inline char *percpu_chunk_bias(const struct percpu_chunk *k, size_t offset)
{
	return percpu_chunk_lane(k, percpu_chunk_bias_lane(k), offset);
}

/** Return the chunk of a cell in a region of default geometry. */
static inline struct percpu_chunk *percpu_chunk_of(const void *cell)
{
	uintptr_t lane = (uintptr_t)cell & ~((uintptr_t)PERCPU_LANE_SIZE - 1);

	return (struct percpu_chunk *)(lane - 2 * PERCPU_HEAD);
}

/* sum.c: n adjacent words at a time, from an offset on */

/** Return how many words to sum at a time to be fastest; at most PERCPU_SUM_MAX. */
#define PERCPU_SUM_MAX 512
size_t percpu_sum_words(const struct percpu_chunk *k);

/** The first sets out to the negative biases. The others add to it the CPU lanes, the atomic
 *  lanes in use, or CPU lanes of 32-bit cells. Each word is read whole, and before what the
 *  caller loads next. */
void percpu_sum_biases(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_cpus(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_atomics(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_narrow(const struct percpu_chunk *k, size_t offset, size_t n, uint32_t *out);

/* pin.c */

/** Whether the kernel fills new mappings with memory, because of mlockall(MCL_FUTURE): if
 *  it has filled this page of private memory, which no thread has touched. */
bool percpu_pin_fills(const char *page);

/** Let the kernel fill and lock these pages only when they are touched. */
void percpu_pin_on_touch(char *first, size_t size);

/** Let the kernel fill the chunk now, except the atomic lanes. */
void percpu_chunk_pin(const struct percpu_chunk *k);

/* journal.c */

/** Lock the journal of the chunk, and complete what a killed holder has written down.
 *  Returns 0 or -ETIMEDOUT. percpu_robust_unlock() unlocks it. */
int percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);

/** The same, without waiting. */
int percpu_journal_try(struct percpu_chunk *k, struct percpu_robust *h);

/** Complete what a killed holder has written down. Returns 0 or -ETIMEDOUT. */
int percpu_journal_settle(struct percpu_chunk *k, uint64_t timeout_ns);

/** Add delta to at most PERCPU_JOURNAL_WORDS words of the bias lane: all or none, even if
 *  the process is killed meanwhile. The caller has the lock. */
void percpu_journal_add(struct percpu_chunk *k, size_t offset, const uint64_t *delta, size_t words);

/** The same, but value replaces what the words are. */
void percpu_journal_set(struct percpu_chunk *k, size_t offset, const uint64_t *value, size_t words);

/** Read words of the bias lane, all before or all after each percpu_journal_add() or
 *  percpu_journal_set(). Returns 0 or -ETIMEDOUT. */
int percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words);

/** Set out to the negative words of the bias lane, each by itself. Of a percpu_journal_add() or
 *  percpu_journal_set() whose thread was killed they have all or nothing. Takes no lock. */
void percpu_journal_sum(const struct percpu_chunk *k, size_t offset, size_t words, uint64_t *out);

/* numa.c */

/** On machines with several NUMA nodes, let the pages of each CPU's lanes of a shared chunk
 *  be on that CPU's node, whichever CPU reserves them. */
void percpu_chunk_numa(const struct percpu_chunk *k);

#include "values.h"

#endif
