/* SPDX-License-Identifier: MIT */
/*
 * leaks.c - fail a test program at whose end there are blocks of memory without a pointer to
 * them. Each word of the process's memory that could be an address counts as a pointer, as for
 * LeakSanitizer, but for words in libc's heap and on the main thread's stack. A block has
 * leaked, too, if only such a block points to it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "blocks.h"
#include "support.h"

#define PAGE 4096u
#define LISTED 10u

extern const char __executable_start; /* by the linker */

struct known {
	uintptr_t at, end;
	const struct test_block *block;
	bool reached;
};

static struct {
	struct known *block; /* ordered by address */
	size_t n;
	struct known **queue; /* reached blocks; those from done on are still to be read */
	size_t done, reached;
	int memory, pagemap; /* of /proc/self */
} all;

static pid_t process;

static int by_address(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static void list_blocks(void)
{
	for (size_t i = 0; i < TEST_BLOCK_SLOTS; i++) {
		const struct test_block *s = &test_block_slots[i];

		if (s->hidden > TEST_BLOCK_FREED)
			all.block[all.n++] = (struct known){ .at = ~s->hidden,
							     .end = ~s->hidden + s->size + 1,
							     .block = s };
	}
	qsort(all.block, all.n, sizeof(*all.block), by_address);
}

/* Return the first block that ends behind that address. */
static struct known *find(uintptr_t at)
{
	size_t first = 0, end = all.n;

	while (first < end) {
		const size_t i = (first + end) / 2;

		if (all.block[i].end <= at)
			first = i + 1;
		else
			end = i;
	}
	return &all.block[first];
}

static void look_at(uintptr_t word)
{
	struct known *k = find(word);

	if (k != &all.block[all.n] && word >= k->at && !k->reached) {
		k->reached = true;
		all.queue[all.reached++] = k;
	}
}

/* Read a page. Words in blocks are read only when these are reached. */
static void look_into_page(uintptr_t page)
{
	const struct known *k = find(page);
	uintptr_t words[PAGE / sizeof(uintptr_t)];

	if (pread(all.memory, words, PAGE, (off_t)page) != PAGE)
		return;
	for (size_t i = 0; i < PAGE / sizeof(uintptr_t); i++) {
		const uintptr_t at = page + i * sizeof(uintptr_t);

		while (k != &all.block[all.n] && k->end <= at)
			k++;
		if (k == &all.block[all.n] || at < k->at)
			look_at(words[i]);
	}
}

/* Read a mapping, without touching pages that were never touched. */
static void look_into_mapping(uintptr_t from, uintptr_t end)
{
	uint64_t entry;

	for (; from < end; from += PAGE)
		if (pread(all.pagemap, &entry, sizeof(entry),
			  (off_t)(from / PAGE * sizeof(entry))) == sizeof(entry) &&
		    (entry >> 62) != 0)
			look_into_page(from);
}

static void look_into_mappings(FILE *maps)
{
	unsigned long from, end;
	char line[512], rights[5];

	while (fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx %4s", &from, &end, rights) == 3 &&
		    strcmp(rights, "rw-p") == 0 && strstr(line, "[heap]") == NULL &&
		    strstr(line, "[stack]") == NULL)
			look_into_mapping(from, end);
	for (; all.done < all.reached; all.done++)
		for (uintptr_t at = all.queue[all.done]->at;
		     at + sizeof(at) < all.queue[all.done]->end; at += sizeof(at))
			look_at(*(const uintptr_t *)at);
}

/* Print the leaks in cmocka's words, for scripts that read its output. */
static unsigned list_leaks(void)
{
	unsigned leaks = 0;

	for (size_t i = 0; i < all.n; i++) {
		const struct known *k = &all.block[i];

		if (!k->reached && leaks++ < LISTED)
			fprintf(stderr,
				"leaked: %zu bytes, allocated at %p, by addr2line -ifpe %s %#lx\n",
				k->block->size, (void *)k->at, program_invocation_name,
				(unsigned long)((const char *)k->block->caller -
						&__executable_start));
	}
	if (leaks != 0)
		fprintf(stderr, "[  FAILED  ] leaks\n");
	return leaks;
}

/* Allocate shared memory, which is not searched for pointers. */
static void *allocate(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void look_for_leaks(int status, void *arg)
{
	unsigned leaks = 0;
	FILE *maps;

	(void)arg;
	if (status != 0 || test_was_skipped || getpid() != process)
		return;
	maps = fopen("/proc/self/maps", "re");
	all.memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	all.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	all.block = allocate(TEST_BLOCK_SLOTS * sizeof(*all.block));
	all.queue = allocate(TEST_BLOCK_SLOTS * sizeof(*all.queue));
	if (maps != NULL && all.memory >= 0 && all.pagemap >= 0 && all.block != MAP_FAILED &&
	    all.queue != MAP_FAILED) {
		list_blocks();
		look_into_mappings(maps);
		leaks = list_leaks();
	}
	if (leaks != 0) {
		fflush(NULL);
		_exit(1);
	}
}

__attribute__((constructor)) static void prepare(void)
{
	process = getpid();
	on_exit(look_for_leaks, NULL);
}
