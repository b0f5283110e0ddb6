/* SPDX-License-Identifier: MIT */
/*
 * map.c - the mappings of chunks: of private memory, or of a file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "memory.h"

#define HUGE_PAGE (2UL << 20)

/* Ask for transparent huge pages only inside long lanes. In a short lane they would waste memory.
 * A huge page across two lanes would keep both on one NUMA node. */
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

/* Reserve address space for a chunk of that size, with lane 0 aligned. Returns NULL if there
 * is none. */
static char *find_space(size_t size)
{
	char *map = mmap(NULL, size + PERCPU_LANE_SIZE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t slack;

	if (map == MAP_FAILED)
		return NULL;
	slack = -(uintptr_t)map % PERCPU_LANE_SIZE;
	if (slack != 0)
		munmap(map, slack);
	munmap(map + slack + size, PERCPU_LANE_SIZE - slack);
	return map + slack;
}

/* Fill in the struct percpu_chunk of a chunk that is at this address, and return it. */
static struct percpu_chunk *introduce(const struct percpu_chunk *t, char *at, size_t size)
{
	struct percpu_chunk *k = (struct percpu_chunk *)at;

	*k = *t;
	k->header = percpu_chunk_header(k);
	k->base = at + 2 * PERCPU_HEAD;
	k->map_size = size;
	k->unit = percpu_unit(k->lane_size);
	__atomic_store_n(&k->self, k, __ATOMIC_RELEASE);
	return k;
}

/* Map the file at this address, or private memory if fd is -1. If the kernel fills mappings, tell
 * it first to fill this one on touch, and then make the memory accessible. */
static int map_lanes(char *at, size_t size, int prot, int fd, bool fills)
{
	if (fd >= 0 &&
	    mmap(at, size, fills ? PROT_NONE : prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return percpu_errno();
	if (fills)
		percpu_mlock_on_fault(at, size);
	if ((fd < 0 || fills) && mprotect(at, size, prot) != 0)
		return percpu_errno();
	return 0;
}

int percpu_chunk_map(const struct percpu_chunk *t, int fd, bool writable, bool grows,
		     struct percpu_chunk **ret)
{
	const int rw = PROT_READ | PROT_WRITE;
	uint64_t size = percpu_chunk_size(t->stride, t->cpus);
	size_t shared = (size_t)size + (grows ? percpu_page_size() : 0);
	char *at;
	bool fills;
	int e;

	if (size > SIZE_MAX / 2)
		return -ENOMEM;
	at = find_space(PERCPU_HEAD + shared);
	if (at == NULL)
		return -ENOMEM;
	e = mprotect(at, PERCPU_HEAD, rw) == 0 ? 0 : percpu_errno();
	fills = e == 0 && percpu_mlock_fills(at);
	if (e == 0)
		e = map_lanes(at + PERCPU_HEAD, shared, writable ? rw : PROT_READ, fd, fills);
	if (e != 0) {
		munmap(at, PERCPU_HEAD + shared);
		return e;
	}
	*ret = introduce(t, at, PERCPU_HEAD + size);
	if (!t->shared)
		advise(*ret);
	if (fills)
		percpu_chunk_populate(*ret);
	return 0;
}

char *percpu_chunk_seed(const struct percpu_chunk *k)
{
	return (char *)k->header + percpu_chunk_size(k->stride, k->cpus);
}

/*
 * The first mremap() enlarges the mapping of the page, wherever there is room. The second moves
 * the result to its place. The first can fail for lack of address space, and then leaves the page
 * as it was. The second needs no more address space.
 */
int percpu_chunk_unfold(const struct percpu_chunk *t, char **seed, bool grows,
			struct percpu_chunk **ret)
{
	size_t size = percpu_chunk_size(t->stride, t->cpus);
	size_t shared = size + (grows ? percpu_page_size() : 0);
	char *at = find_space(PERCPU_HEAD + shared), *map;
	bool fills;
	int e;

	if (at == NULL)
		return -ENOMEM;
	if (mprotect(at, PERCPU_HEAD, PROT_READ | PROT_WRITE) != 0)
		goto no_memory;
	fills = percpu_mlock_fills(at);
	if (fills)
		percpu_mlock_on_fault(*seed, percpu_page_size());
	map = mremap(*seed, percpu_page_size(), shared, MREMAP_MAYMOVE);
	if (map == MAP_FAILED)
		goto no_memory;
	if (mremap(map, shared, shared, MREMAP_MAYMOVE | MREMAP_FIXED, at + PERCPU_HEAD) ==
	    MAP_FAILED) {
		e = percpu_errno();
		munmap(map + percpu_page_size(), shared - percpu_page_size());
		*seed = map;
		/* Unmap only the head: the kernel may already have unmapped the place of the
		 * lanes, and another thread may have mapped something there. */
		munmap(at, PERCPU_HEAD);
		return e;
	}
	*seed = NULL;
	*ret = introduce(t, at, PERCPU_HEAD + size);
	if (fills)
		percpu_chunk_populate(*ret);
	return 0;

no_memory:
	munmap(at, PERCPU_HEAD + shared);
	return -ENOMEM;
}

void percpu_chunk_unmap_seed(char *seed)
{
	munmap(seed, percpu_page_size());
}

void percpu_chunk_unmap(struct percpu_chunk *k)
{
	if (k->map_size != 0)
		munmap(k, k->map_size);
}

/* Discard the header only after the lanes. It says which atomic lanes may hold something, and must
 * say so as long as they do. Until the end, the struct is complete or says that it is not. */
bool percpu_chunk_decommit(struct percpu_chunk *k)
{
	char *header = (char *)percpu_chunk_header(k), *lanes = header + PERCPU_HEAD;
	const size_t size = k->map_size - 2 * PERCPU_HEAD;

	if (madvise(lanes, size, MADV_DONTNEED) != 0)
		return false;
	if (madvise(header, PERCPU_HEAD, MADV_DONTNEED) != 0)
		return false;
	__atomic_store_n(&k->self, NULL, __ATOMIC_RELEASE);
	(void)madvise((char *)k, PERCPU_HEAD, MADV_DONTNEED);
	return true;
}

void percpu_chunk_commit(const struct percpu_chunk *t, struct percpu_chunk *k)
{
	(void)introduce(t, (char *)k, PERCPU_HEAD + (size_t)percpu_chunk_size(t->stride, t->cpus));
}

/* Unlock the memory first. After mlockall(MCL_FUTURE) the new mapping counts as locked before the
 * old one is gone, and both together may be above RLIMIT_MEMLOCK. */
void percpu_chunk_bar(struct percpu_chunk *k)
{
	char *first = (char *)k + PERCPU_HEAD;
	size_t size = k->map_size - PERCPU_HEAD;

	munlock(first, size);
	(void)!mmap(first, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		    -1, 0);
}

/* Store only to words that are not zero, so that no page is written needlessly. */
struct percpu_chunk *percpu_chunk_init_in(const struct percpu_chunk *t, void *memory)
{
	size_t size = PERCPU_HEAD + (size_t)percpu_chunk_size(t->stride, t->cpus);
	uint64_t *word = memory, *end = word + size / sizeof(*word);

	for (; word != end; word++)
		if (*word != 0)
			*word = 0;
	return introduce(t, memory, 0);
}
