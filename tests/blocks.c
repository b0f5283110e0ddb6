/* SPDX-License-Identifier: MIT */
/* blocks.c - see blocks.h. */
#define _GNU_SOURCE
#include "blocks.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBES 64u /* a block that finds no slot in so many probes is not in the table */
#define CALLER __builtin_return_address(0)

/* No lock: a child of fork() would wait for a thread that it does not have. */
struct test_block test_block_slots[TEST_BLOCK_SLOTS];
static unsigned blocks; /* atomic */

unsigned test_blocks(void)
{
	return __atomic_load_n(&blocks, __ATOMIC_RELAXED);
}

static struct test_block *slot_of(const void *block, unsigned i)
{
	const uint64_t hash = ((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15);

	return &test_block_slots[((hash >> 32) + i) % TEST_BLOCK_SLOTS];
}

static void *enter(void *block, size_t size, const void *caller)
{
	for (unsigned i = 0; block != NULL && i < PROBES; i++) {
		struct test_block *s = slot_of(block, i);
		uintptr_t seen = __atomic_load_n(&s->hidden, __ATOMIC_RELAXED);

		if (seen <= TEST_BLOCK_FREED &&
		    __atomic_compare_exchange_n(&s->hidden, &seen, ~(uintptr_t)block, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_store_n(&s->size, size, __ATOMIC_RELAXED);
			__atomic_store_n(&s->caller, caller, __ATOMIC_RELAXED);
			__atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
			break;
		}
	}
	return block;
}

static void leave(const void *block)
{
	uintptr_t seen = TEST_BLOCK_FREED;

	for (unsigned i = 0; block != NULL && seen != 0 && i < PROBES; i++) {
		struct test_block *s = slot_of(block, i);

		seen = __atomic_load_n(&s->hidden, __ATOMIC_RELAXED);
		if (seen == ~(uintptr_t)block) {
			__atomic_store_n(&s->hidden, TEST_BLOCK_FREED, __ATOMIC_RELAXED);
			__atomic_fetch_sub(&blocks, 1, __ATOMIC_RELAXED);
			break;
		}
	}
}

static bool fails(enum test_block_call call, size_t size)
{
	return test_block_fails != NULL && test_block_fails(call, size);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return fails(TEST_MALLOC, size) ? NULL : enter(__real_malloc(size), size, CALLER);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	return fails(TEST_CALLOC, n * size) ? NULL :
					      enter(__real_calloc(n, size), n * size, CALLER);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
	const size_t before = old != NULL ? malloc_usable_size(old) : 0;
	void *block;

	if (fails(TEST_REALLOC, size))
		return NULL;
	leave(old); /* first: another thread may get its address */
	block = __real_realloc(old, size);
	if (block == NULL)
		enter(old, before, CALLER);
	else if (size > before) /* old contents, not the kernel's zeros */
		memset((char *)block + before, 0xa5, size - before);
	return enter(block, size, CALLER);
}

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return fails(TEST_ALIGNED_ALLOC, size) ?
		       NULL :
		       enter(__real_aligned_alloc(align, size), size, CALLER);
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
	leave(block);
	__real_free(block);
}

/* Return what a failed asprintf() stores, which is unspecified: here, a block that could be
 * freed. */
static char *untold(void)
{
	static char *left[1024];
	static unsigned n; /* atomic */

	return left[__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) % 1024] = __real_calloc(1, 16);
}

int __wrap_asprintf(char **ret, const char *format, ...);
int __wrap_asprintf(char **ret, const char *format, ...)
{
	va_list ap;
	int n;

	if (fails(TEST_ASPRINTF, 0)) {
		*ret = untold();
		return -1;
	}
	va_start(ap, format);
	n = vasprintf(ret, format, ap);
	va_end(ap);
	enter(n >= 0 ? *ret : NULL, (size_t)n + 1, CALLER);
	return n;
}
