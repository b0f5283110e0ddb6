/* SPDX-License-Identifier: MIT */
/* root_file.c - see root_file.h. */
#define _GNU_SOURCE
#include "root_file.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/memory.h"
#include "../support.h"

char path[128];

int name_file(void **state)
{
	(void)state;
	strcpy(path, test_path("region"));
	return 0;
}

unsigned used(void)
{
	struct percpu_region *r;
	unsigned n = 0;

	assert_int_equal(percpu_region_open(path, 0, NULL, &r), 0);
	for (size_t k = 0; k < r->n; k++)
		for (size_t i = 0; i < PERCPU_UNITS / 64; i++)
			n += (unsigned)__builtin_popcountll(r->chunks->at[k]->header->used[i]);
	percpu_region_close(r);
	return n;
}

bool killed_at(int (*fn)(void *step), unsigned step)
{
	int status = test_wait(test_fork(fn, &step), 60);

	assert_true(status == 0 || status == SIGKILL);
	return status != 0;
}

unsigned look_at_files(bool clean)
{
	char directory[256], other[600];
	struct dirent *entry;
	unsigned n = 0;
	DIR *d;

	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	d = opendir(directory);
	assert_non_null(d);
	while ((entry = readdir(d)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		n++;
		snprintf(other, sizeof(other), "%s/%s", directory, entry->d_name);
		if (clean &&
		    (strcmp(other, path) == 0 || strncmp(entry->d_name, ".percpu-", 8) == 0))
			assert_int_equal(unlink(other), 0);
	}
	closedir(d);
	return n;
}

unsigned files(void)
{
	return look_at_files(false);
}
