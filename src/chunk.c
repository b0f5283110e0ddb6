/* SPDX-License-Identifier: MIT */
/*
 * chunk.c - one mapping of lanes, and the arithmetic on its cells.
 *
 * value = sum of the CPU lanes + sum of the atomic lanes in use - bias
 *
 * The CPU lanes are stored to by sequences on their CPU alone. The atomic
 * lanes are for everyone who cannot run one; a bit in the header says which of
 * them were ever used, so that readers skip the rest. A reset stores to
 * neither: it sets the bias to the sum.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define HUGE_PAGE (2UL << 20)

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

uint64_t percpu_chunk_size(size_t stride, uint32_t cpus)
{
	return PERCPU_HEAD + round_up((2 * (size_t)cpus + 1) * stride, PERCPU_HEAD);
}

/* Transparent huge pages, for large arrays alone and only inside a lane: in a
 * small one they would waste memory, across two they would tie these to the
 * same NUMA node. */
static void advise(const struct percpu_chunk *k)
{
	char *first, *last;

	if (k->lane_size < 2 * HUGE_PAGE) {
		madvise(k->base, (2 * k->cpus + 1) * k->stride, MADV_NOHUGEPAGE);
		return;
	}
	for (uint32_t cpu = 0; cpu < k->cpus; cpu++) {
		first = percpu_chunk_lane(k, cpu, 0);
		last = first + k->lane_size;
		first += -(uintptr_t)first % HUGE_PAGE;
		last -= (uintptr_t)last % HUGE_PAGE;
		madvise(first, last - first, MADV_HUGEPAGE);
	}
}

void percpu_chunk_small_pages(const struct percpu_chunk *k, size_t offset)
{
	char *lane, *first;

	for (uint32_t cpu = 0; cpu < k->cpus && k->lane_size >= 2 * HUGE_PAGE; cpu++) {
		lane = percpu_chunk_lane(k, cpu, 0);
		first = lane + offset;
		first -= (uintptr_t)first % HUGE_PAGE;
		if (first > lane)
			madvise(first, lane + k->lane_size - first, MADV_NOHUGEPAGE);
	}
}

int percpu_chunk_map(const struct percpu_chunk *t, bool writable, struct percpu_chunk **ret)
{
	const int rw = PROT_READ | PROT_WRITE;
	const int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	size_t shared = percpu_chunk_size(t->stride, t->cpus);
	size_t size = PERCPU_HEAD + shared, slack;
	struct percpu_chunk *k;
	char *map, *at;
	int e;

	map = mmap(NULL, size + PERCPU_LANE_SIZE, t->fd < 0 ? rw : PROT_NONE, private, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	slack = -(uintptr_t)map % PERCPU_LANE_SIZE;
	at = map + slack;
	if (slack != 0)
		munmap(map, slack);
	munmap(at + size, PERCPU_LANE_SIZE - slack);

	k = (struct percpu_chunk *)at;
	if (t->fd >= 0 && (mprotect(k, PERCPU_HEAD, rw) != 0 ||
			   mmap(at + PERCPU_HEAD, shared, writable ? rw : PROT_READ,
				MAP_SHARED | MAP_FIXED, t->fd, t->offset) == MAP_FAILED)) {
		e = percpu_errno();
		munmap(at, size);
		return e;
	}
	*k = *t;
	k->self = k;
	k->header = (struct percpu_header *)(at + PERCPU_HEAD);
	k->base = at + 2 * PERCPU_HEAD;
	k->map_size = size;
	k->unit = percpu_unit(k->lane_size);
	if (t->fd < 0)
		advise(k);
	*ret = k;
	return 0;
}

void percpu_chunk_unmap(struct percpu_chunk *k)
{
	munmap(k, k->map_size);
}

int percpu_chunk_format(struct percpu_chunk *k)
{
	struct percpu_header *h = k->header;

	if (k->fd >= 0 && fallocate(k->fd, 0, k->offset, sizeof(*h)) != 0)
		return percpu_errno();
	h->version = PERCPU_VERSION;
	h->index = k->index;
	h->lane_size = k->lane_size;
	h->stride = k->stride;
	h->cpus = k->cpus;
	h->chunks = 1;
	__atomic_store_n(&h->magic, PERCPU_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

/* The process may have closed our descriptor, as daemons do, and opened
 * something else in its place, which we must not enlarge. */
static bool is_our_file(const struct percpu_chunk *k)
{
	struct stat st;

	return fstat(k->fd, &st) == 0 && st.st_dev == k->dev && st.st_ino == k->ino;
}

static int reserve_lane(const struct percpu_chunk *k, size_t lane, size_t offset, size_t size)
{
	off_t at = k->offset + PERCPU_HEAD + (off_t)(lane * k->stride + offset);

	return fallocate(k->fd, 0, at, (off_t)size) == 0 ? 0 : percpu_errno();
}

uint64_t percpu_chunk_atomic_lanes(const struct percpu_chunk *k, uint32_t word)
{
	uint64_t lanes = __atomic_load_n(&k->header->atomic_lanes[word], __ATOMIC_ACQUIRE);
	uint32_t left = k->cpus - 64 * word;

	return left < 64 ? lanes & ((UINT64_C(1) << left) - 1) : lanes;
}

int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size)
{
	int r = 0;

	if (k->fd < 0)
		return 0;
	if (!is_our_file(k))
		return -EBADF;
	for (uint32_t lane = 0; lane < k->cpus && r == 0; lane++)
		r = reserve_lane(k, lane, offset, cpu_size);
	if (r == 0)
		r = reserve_lane(k, k->cpus, offset, size); /* atomic lane 0 */
	if (r == 0)
		r = reserve_lane(k, 2 * (size_t)k->cpus, offset, size); /* bias */
	/* The others were reserved whole, but a reclaim may have been there. */
	for (uint32_t word = 0; word < (k->cpus + 63) / 64; word++)
		for (uint64_t lanes = percpu_chunk_atomic_lanes(k, word); lanes != 0 && r == 0;
		     lanes &= lanes - 1)
			r = reserve_lane(k, k->cpus + 64 * word + __builtin_ctzll(lanes), offset,
					 size);
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

/* Take an atomic lane into use. In a shared region, reserve it whole; lane 0
 * is reserved with the cells, so who cannot have another has that one. */
static uint32_t use_atomic_lane(struct percpu_chunk *k, uint32_t lane)
{
	int saved = errno;

	if (k->fd >= 0 && lane != 0 &&
	    !(is_our_file(k) && reserve_lane(k, k->cpus + lane, 0, k->lane_size) == 0))
		lane = 0;
	__atomic_fetch_or(lane_word(k, lane), lane_bit(lane), __ATOMIC_RELEASE);
	errno = saved;
	return lane;
}

void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n)
{
	int cpu = percpu_tier() > PERCPU_TIER_SHARED ? sched_getcpu() : 0;
	uint32_t lane = cpu > 0 && (uint32_t)cpu < k->cpus ? cpu : 0;

	if (!(__atomic_load_n(lane_word(k, lane), __ATOMIC_RELAXED) & lane_bit(lane)))
		lane = use_atomic_lane(k, lane);
	__atomic_fetch_add((uint64_t *)percpu_chunk_lane(k, k->cpus + lane, offset), (uint64_t)n,
			   __ATOMIC_RELAXED);
}

static uint64_t *bias(const struct percpu_chunk *k, size_t offset)
{
	return (uint64_t *)percpu_chunk_lane(k, 2 * (size_t)k->cpus, offset);
}

static uint64_t load(const char *cell)
{
	return __atomic_load_n((const uint64_t *)cell, __ATOMIC_RELAXED);
}

static uint64_t sum_lanes(const struct percpu_chunk *k, size_t offset)
{
	const char *cell = k->base + offset;
	uint64_t sum = 0, lanes;

	for (uint32_t cpu = 0; cpu < k->cpus; cpu++, cell += k->stride)
		sum += load(cell);
	for (uint32_t word = 0; word < (k->cpus + 63) / 64; word++)
		for (lanes = percpu_chunk_atomic_lanes(k, word); lanes != 0; lanes &= lanes - 1)
			sum += load(cell + (64 * word + __builtin_ctzll(lanes)) * k->stride);
	return sum;
}

uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset)
{
	/* The bias first: what it subtracts is then in the lanes we read, and
	 * the value of a growing counter cannot come out below 0. */
	uint64_t b = __atomic_load_n(bias(k, offset), __ATOMIC_ACQUIRE);

	return sum_lanes(k, offset) - b;
}

uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset)
{
	uint64_t b = __atomic_load_n(bias(k, offset), __ATOMIC_ACQUIRE), sum;

	/* If another reset came between, its bias is newer than our sum. */
	do {
		sum = sum_lanes(k, offset);
	} while (!__atomic_compare_exchange_n(bias(k, offset), &b, sum, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	return sum - b;
}

/* Stores only where there is something to clear, so that no page is touched
 * for nothing. */
static void clear(char *cell, size_t size)
{
	for (uint64_t *w = (uint64_t *)cell; size > 0; w++, size -= sizeof(*w))
		if (__atomic_load_n(w, __ATOMIC_RELAXED) != 0)
			__atomic_store_n(w, 0, __ATOMIC_RELAXED);
}

void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t size)
{
	uint64_t lanes;

	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		clear(percpu_chunk_lane(k, cpu, offset), size);
	for (uint32_t word = 0; word < (k->cpus + 63) / 64; word++)
		for (lanes = percpu_chunk_atomic_lanes(k, word); lanes != 0; lanes &= lanes - 1)
			clear(percpu_chunk_lane(k, k->cpus + 64 * word + __builtin_ctzll(lanes),
						offset),
			      size);
	clear(percpu_chunk_lane(k, 2 * (size_t)k->cpus, offset), size);
}

void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	/* No page has bytes of two lanes: what a lane's first and last page have
	 * besides is of the gaps, which hold nothing. */
	const bool apart = page < k->stride - k->lane_size;
	const bool from_start = apart && offset == 0;
	const bool to_end = apart && offset + size == k->lane_size;
	char *first, *last;

	for (size_t lane = 0; lane < 2 * (size_t)k->cpus + 1; lane++) {
		first = percpu_chunk_lane(k, lane, offset);
		last = first + size;
		first += from_start ? -((uintptr_t)first % page) : -(uintptr_t)first % page;
		last += to_end ? -(uintptr_t)last % page : -((uintptr_t)last % page);
		if (first < last)
			madvise(first, last - first, k->fd < 0 ? MADV_DONTNEED : MADV_REMOVE);
	}
}
