/* SPDX-License-Identifier: MIT */
/*
 * file_system.h - a file system's numbers: file_system.c.
 */
#ifndef FILE_SYSTEM_H
#define FILE_SYSTEM_H

#include <stdint.h>

struct mount;

struct mount *mount_new(int64_t free_blocks);
void mount_free(struct mount *m);

/* Take a block, or give one back: 1 or -1. Returns -1 if there are too few. */
int take_block(struct mount *m, int64_t n);
int64_t free_blocks(struct mount *m);
int64_t free_blocks_about(struct mount *m);

/* Count an operation that has moved so many sectors. */
void count_io(struct mount *m, int write, uint32_t sectors);
void count_ios(struct mount *m, uint64_t *ops, uint64_t *sectors, uint32_t *small, int *cpus);

/* The percpu_counter calls, in one thread. Returns the line of the first that is wrong, or 0. */
int check_counter(void);

#endif
