/* SPDX-License-Identifier: MIT */
/* hostile_file.c - see hostile_file.h. */
#define _GNU_SOURCE
#include "hostile_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/status.h>

char path[128];
char *image;
size_t image_size;
uint64_t keys[2];

/* Return the bytes of a chunk in the file. */
static size_t chunk_size(void)
{
	size_t lanes = (2 * (size_t)percpu_status()->possible_cpus + 1) * PERCPU_STRIDE;

	return 65536 + (lanes + 65535) / 65536 * 65536;
}

int make_image(void **state)
{
	struct percpu_counter *c = NULL;
	struct percpu_region *r;
	struct stat st;
	int fd;

	(void)state;
	strcpy(path, test_path("file"));
	if (test_region_new(path, NULL, &r) != 0)
		return -1;
	for (int i = 0; i <= PERCPU_LANE_SIZE / 8; i++) {
		if (percpu_counter_create_in(r, &c) != 0)
			return -1;
		percpu_counter_add(c, 7);
		if (i == 0)
			keys[0] = percpu_counter_key(c);
	}
	keys[1] = percpu_counter_key(c);
	if (percpu_region_set_root(r, 0, 0, keys[0]) != 0)
		return -1;
	percpu_region_close(r);
	fd = open(path, O_RDONLY);
	image_size = 2 * chunk_size();
	if (fd < 0 || fstat(fd, &st) != 0 || (size_t)st.st_size < image_size)
		return -1;
	image = malloc(image_size);
	if (!image || pread(fd, image, image_size, 0) != (ssize_t)image_size)
		return -1;
	close(fd);
	return 0;
}

int drop_image(void **state)
{
	free(image);
	return test_remove_paths(state);
}

void write_file(const void *data, size_t size)
{
	int fd = open(path, O_RDWR | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, size, 0), size);
	close(fd);
}
