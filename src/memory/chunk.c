/* SPDX-License-Identifier: MIT */
/*
 * chunk.c - the lanes of a chunk, and the arithmetic on its cells.
 *
 * value = sum of the CPU lanes + sum of the atomic lanes in use - bias
 *
 * Only sequences on its CPU store to a CPU lane. Threads that cannot run a sequence add to
 * the atomic lanes. The header has a bit for each atomic lane that was ever used; readers skip
 * the other ones. A reset stores to none of these lanes: it sets the bias to their sum.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

#define FEW_PAGES 32 /* more than a lane of default size has */

uint64_t percpu_chunk_size(size_t stride, uint32_t cpus)
{
	uint64_t lanes = (2 * (uint64_t)cpus + 1) * stride;

	return PERCPU_HEAD + (lanes + PERCPU_HEAD - 1) / PERCPU_HEAD * PERCPU_HEAD;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* Make the page writable as a store would, but return an error where a store would raise
 * SIGBUS: FUTEX_WAKE_OP lets the kernel add 0 to a word of the page, atomically. */
static int touch_page(uint32_t *word)
{
	const int nothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0);
	uint32_t nobody = 0;

	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP, 1, 0, word, nothing) >= 0 ?
		       0 :
		       percpu_errno();
}

/* Reserve memory, and room in the file, for these bytes of the mapping. MADV_POPULATE_WRITE is
 * used for many pages only, where it is faster: older kernels do not have it, filters may refuse
 * it, and qemu-user ignores it. */
static int reserve(char *first, size_t size)
{
	size_t page = percpu_page_size();
	char *last = first + size;
	int e = 0;

	first -= (uintptr_t)first % page;
	last += -(uintptr_t)last % page;
	if ((size_t)(last - first) > FEW_PAGES * page &&
	    madvise(first, (size_t)(last - first), MADV_POPULATE_WRITE) == 0)
		return 0;
	for (; first != last && e == 0; first += page)
		e = touch_page((uint32_t *)first);
	return e == -EFAULT ? -ENOSPC : e;
}

int percpu_chunk_read_header(const struct percpu_chunk *k, struct percpu_header *ret)
{
	char *first = (char *)k->header;

	/* If the file was cut short, this fails, and the copy would raise SIGBUS. */
	if (madvise(first, percpu_page_size(), MADV_POPULATE_READ) != 0 && errno == EFAULT)
		return -EBADMSG;
	memcpy(ret, first, sizeof(*ret));
	return 0;
}

int percpu_chunk_format(struct percpu_chunk *k)
{
	struct percpu_header *h = k->header;
	int e = k->shared ? reserve((char *)h, sizeof(*h)) : 0;

	if (e != 0)
		return e;
	h->version = PERCPU_FORMAT;
	h->index = k->index;
	h->lane_size = k->lane_size;
	h->stride = k->stride;
	h->cpus = k->cpus;
	h->chunks = 1;
	__atomic_store_n(&h->magic, PERCPU_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

static int reserve_lane(const struct percpu_chunk *k, size_t lane, size_t offset, size_t size)
{
	return reserve(percpu_chunk_lane(k, lane, offset), size);
}

int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size)
{
	int r = 0;

	if (!k->shared)
		return 0;
	if (cpu_size == 0)
		return reserve_lane(k, percpu_chunk_bias_lane(k), offset, size);
	for (uint32_t lane = 0; lane < k->cpus && r == 0; lane++)
		r = reserve_lane(k, lane, offset, cpu_size);
	if (r == 0)
		r = reserve_lane(k, k->cpus, offset, size); /* atomic lane 0 */
	if (r == 0)
		r = reserve_lane(k, percpu_chunk_bias_lane(k), offset, size); /* bias */
	/* The used atomic lanes were reserved whole, but a reclaim may have undone that. */
	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus && r == 0;
	     lane = percpu_used_lane(k, lane + 1))
		r = reserve_lane(k, lane, offset, size);
	return r;
}

static uint64_t *lane_word(const struct percpu_chunk *k, uint32_t lane)
{
	return &k->header->atomic_lanes[lane / 64];
}

static uint64_t lane_bit(uint32_t lane)
{
	return UINT64_C(1) << (lane % 64);
}

/* Mark an atomic lane as used, and return it. In a shared region, reserve the whole lane first;
 * if that fails, use atomic lane 0, which is reserved with the cells. */
static uint32_t use_atomic_lane(struct percpu_chunk *k, uint32_t lane)
{
	int saved = errno;

	if (k->shared && lane != 0 && reserve_lane(k, k->cpus + lane, 0, k->lane_size) != 0)
		lane = 0;
	__atomic_fetch_or(lane_word(k, lane), lane_bit(lane), __ATOMIC_RELEASE);
	errno = saved;
	return lane;
}

static bool is_in_use(const struct percpu_chunk *k, uint32_t lane)
{
	return (__atomic_load_n(lane_word(k, lane), __ATOMIC_RELAXED) & lane_bit(lane)) != 0;
}

static void add_in_lane(struct percpu_chunk *k, uint32_t lane, size_t offset, int64_t n)
{
	__atomic_fetch_add((uint64_t *)percpu_chunk_lane(k, k->cpus + lane, offset), (uint64_t)n,
			   __ATOMIC_RELAXED);
}

uint32_t percpu_chunk_use_lane(struct percpu_chunk *k, uint32_t cpu)
{
	return k->cpus + (is_in_use(k, cpu) ? cpu : use_atomic_lane(k, cpu));
}

uint32_t percpu_chunk_choose_lane(struct percpu_chunk *k)
{
	int cpu = percpu_tier_is_shared ? 0 : percpu_thread_cpu();

	if (cpu >= 0)
		percpu_note_cpus((uint32_t)cpu + 1);
	return percpu_chunk_use_lane(k, cpu > 0 && (uint32_t)cpu < k->cpus ? (uint32_t)cpu : 0);
}

/* Add atomically in a lane that must be found first: libc's area does not tell the CPU, or some
 * region has no lane for the CPU, or its atomic lane was never used. */
static __attribute__((noinline)) void find_lane_and_add(struct percpu_chunk *k, size_t offset,
							int64_t n)
{
	add_in_lane(k, percpu_chunk_choose_lane(k) - k->cpus, offset, n);
}

/* A store in front of an atomic addition delays the addition. The compiler would save registers
 * on the stack for the rare cases, so these are in find_lane_and_add(). */
void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n)
{
	uint32_t cpu = percpu_tier_is_shared ? 0 : (uint32_t)percpu_thread_cpu_seen();

	if (percpu_likely(cpu < k->cpus &&
			  cpu < __atomic_load_n(&percpu_lanes_everywhere, __ATOMIC_RELAXED) &&
			  is_in_use(k, cpu)))
		add_in_lane(k, cpu, offset, n);
	else
		find_lane_and_add(k, offset, n);
}

static uint64_t *bias(const struct percpu_chunk *k, size_t offset)
{
	return (uint64_t *)percpu_chunk_bias(k, offset);
}

static uint64_t load(const char *cell)
{
	return __atomic_load_n((const uint64_t *)cell, __ATOMIC_RELAXED);
}

static uint64_t sum_lanes(const struct percpu_chunk *k, size_t offset)
{
	const char *cell = k->base + offset;
	uint64_t sum = 0;

	for (uint32_t cpu = 0; cpu < k->cpus; cpu++, cell += k->stride)
		sum += load(cell);
	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
	     lane = percpu_used_lane(k, lane + 1))
		sum += load(percpu_chunk_lane(k, lane, offset));
	return sum;
}

uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset)
{
	/* Load the bias first: then the lanes, which are loaded later, have all that it
	 * subtracts, and the value of a growing counter is never below 0. */
	uint64_t b = __atomic_load_n(bias(k, offset), __ATOMIC_ACQUIRE);

	PERCPU_STEP("bias loaded");
	return sum_lanes(k, offset) - b;
}

uint64_t percpu_chunk_sum_lanes(const struct percpu_chunk *k, size_t offset)
{
	return sum_lanes(k, offset);
}

uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset)
{
	uint64_t b, sum;

	if (!k->region->writable)
		return percpu_chunk_sum(k, offset);
	b = __atomic_load_n(bias(k, offset), __ATOMIC_ACQUIRE);
	/* If another reset came between, sum lacks adds that its bias may contain: sum again. */
	do {
		sum = sum_lanes(k, offset);
		PERCPU_STEP("lanes summed");
	} while (!__atomic_compare_exchange_n(bias(k, offset), &b, sum, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	return sum - b;
}

/* Store only to words that are not zero, so that no page is touched needlessly. */
static void clear(char *cell, size_t size)
{
	uint64_t *w = (uint64_t *)cell, *end = w + (size + sizeof(*w) - 1) / sizeof(*w);

	for (; w != end; w++)
		if (__atomic_load_n(w, __ATOMIC_RELAXED) != 0)
			__atomic_store_n(w, 0, __ATOMIC_RELAXED);
}

void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size)
{
	/* An object of the bias lane alone has no pages in the other lanes: in a full file system,
	 * a load from a hole of the file may raise SIGBUS. */
	const uint32_t lanes = cpu_size != 0 ? 2 * k->cpus : 0;

	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		clear(percpu_chunk_lane(k, cpu, offset), cpu_size);
	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < lanes;
	     lane = percpu_used_lane(k, lane + 1))
		clear(percpu_chunk_lane(k, lane, offset), size);
	clear(percpu_chunk_bias(k, offset), size);
}

void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size)
{
	const size_t page = percpu_page_size();
	/* If apart, no page has usable bytes of two lanes. The first and the last page of a lane
	 * also have bytes of the gaps, which hold no data. */
	const bool apart = page < k->stride - k->lane_size;
	const bool from_start = apart && offset == 0;
	const bool to_end = apart && offset + size == k->lane_size;
	char *first, *last;

	for (size_t lane = 0; lane < 2 * (size_t)k->cpus + 1; lane++) {
		/* Skip atomic lanes that are not marked as used: another thread may have reserved
		 * one, to mark it next. */
		if (lane > k->cpus && lane < 2 * (size_t)k->cpus &&
		    !is_in_use(k, (uint32_t)(lane - k->cpus)))
			continue;
		first = percpu_chunk_lane(k, lane, offset);
		last = first + size;
		if (from_start)
			first -= (uintptr_t)first % page;
		else
			first += -(uintptr_t)first % page;
		if (to_end)
			last += -(uintptr_t)last % page;
		else
			last -= (uintptr_t)last % page;
		if (first < last)
			madvise(first, last - first, k->shared ? MADV_REMOVE : MADV_DONTNEED);
	}
}
