/* SPDX-License-Identifier: MIT */
/* lwbuf.h - files whose pages say which page they are, for the tests of lwbuf.h and sfbuf.h. */
#ifndef UNIT_LWBUF_H
#define UNIT_LWBUF_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <percpu/lwbuf.h>
#include <percpu/percpu.h>
#include <percpu/sfbuf.h>

#include "../support.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

/* The word i of page p, in pages of `size` bytes. */
static inline uint64_t lw_word(uint64_t p, size_t i)
{
	return (p + 1) * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static inline void lw_fill(int fd, uint64_t pages, size_t size)
{
	uint64_t *words = malloc(size);

	for (uint64_t p = 0; p < pages; p++) {
		for (size_t i = 0; i < size / sizeof(*words); i++)
			words[i] = lw_word(p, i);
		test_child_require(pwrite(fd, words, size, (off_t)(p * size)) == (ssize_t)size,
				   "pwrite");
	}
	free(words);
}

/* A memfd of so many pages, which can or cannot shrink. */
static inline int lw_memfd(uint64_t pages, size_t size, bool sealed)
{
	int fd = memfd_create("lwbuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	test_child_require(fd >= 0, "memfd_create");
	lw_fill(fd, pages, size);
	test_child_require(!sealed || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal");
	return fd;
}

/* Whether the buffer has its page, all of it. */
static inline bool lw_is_right(const void *at, uint64_t page, size_t length)
{
	const uint64_t *words = at;

	for (size_t i = 0; i < length / sizeof(*words); i++)
		if (words[i] != lw_word(page, i))
			return false;
	return true;
}

/* Buffers for fd, which is closed. */
static inline struct percpu_lwbufs *lw_create(int fd, enum percpu_lwbuf_backend backend,
					      size_t max_excess, uint32_t flags)
{
	struct percpu_lwbuf_options o = {
		.size = sizeof(o), .backend = backend, .max_excess = max_excess, .flags = flags
	};
	struct percpu_lwbufs *f = NULL;

	test_child_require(percpu_lwbuf_create(fd, &o, &f) == 0 && close(fd) == 0, "create");
	return f;
}

static inline struct percpu_lwbuf_stats lw_stats(const struct percpu_lwbufs *f)
{
	struct percpu_lwbuf_stats s;

	percpu_lwbuf_stats(f, &s);
	return s;
}

/* What threads find. */
static bool lw_wrong __attribute__((unused));

static inline bool lw_is_wrong(bool wrong)
{
	if (wrong)
		__atomic_store_n(&lw_wrong, true, __ATOMIC_RELAXED);
	return wrong;
}

/* Allocate and free a page, and look at its bytes. Returns its address, or NULL. */
static inline void *lw_touch(struct percpu_lwbufs *f, uint64_t page)
{
	struct percpu_lwbuf b;
	void *at;

	if (percpu_lwbuf_alloc(f, page, 0, &b) != 0)
		return NULL;
	at = percpu_lwbuf_kva(&b);
	if (!lw_is_right(at, page, percpu_lwbuf_length(&b)) || percpu_lwbuf_free(f, &b) != 0)
		return NULL;
	return at;
}

/* In a child: let it have so much address space more than it has. */
static inline void lw_limit_address_space(size_t more)
{
	unsigned long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");
	struct rlimit limit;

	test_child_require(statm != NULL && fscanf(statm, "%lu", &pages) == 1, "statm");
	fclose(statm);
	test_child_require(getrlimit(RLIMIT_AS, &limit) == 0, "its limit");
	limit.rlim_cur = pages * PAGE + more; /* the other one is for nobody but the kernel */
	test_child_require(setrlimit(RLIMIT_AS, &limit) == 0, "RLIMIT_AS");
}

/* Sparse, but for its first bytes. */
static inline int lw_large_file(void)
{
	int fd = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	test_child_require(fd >= 0 && ftruncate(fd, (off_t)1 << 30) == 0, "large file");
	test_child_require(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal");
	return fd;
}

/* Buffers of 64 KiB. */
static inline struct percpu_lwbufs *lw_create_wide(int fd, enum percpu_lwbuf_backend backend,
						   size_t max_excess)
{
	struct percpu_lwbuf_options o = {
		.size = sizeof(o), .window = 65536, .backend = backend, .max_excess = max_excess
	};
	struct percpu_lwbufs *f = NULL;

	test_child_require(percpu_lwbuf_create(fd, &o, &f) == 0, "create");
	return f;
}

#endif
