/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - the blocks of memory that the library and the test allocate. The linker replaces
 * libc's functions by those of blocks.c: see --wrap in ld(1).
 */
#ifndef TESTS_BLOCKS_H
#define TESTS_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEST_BLOCK_SLOTS 65536u

/** A slot of the table of blocks. */
struct test_block {
	uintptr_t hidden; /* atomic: 0 if never used, TEST_BLOCK_FREED, or ~ the block's address */
	size_t size;
	const void *caller; /* return address of the allocation */
};

#define TEST_BLOCK_FREED ((uintptr_t)1)

extern struct test_block test_block_slots[TEST_BLOCK_SLOTS];

/** Allocating functions, in the order of enum fault_call. */
enum test_block_call { TEST_MALLOC, TEST_CALLOC, TEST_REALLOC, TEST_ALIGNED_ALLOC, TEST_ASPRINTF };

/** Return how many blocks were allocated, and not freed. */
unsigned test_blocks(void);

/** Called, if a test defines it, before a block is allocated. Returns whether the allocation must
 *  fail, and then sets errno. */
bool test_block_fails(enum test_block_call call, size_t size) __attribute__((weak));

#endif
