/* SPDX-License-Identifier: MIT */
/*
 * xio.c - append to a log in a file of fixed size, and read records of it that cross its end.
 *
 *	cc xio.c $(pkg-config --cflags --libs percpu)
 *
 * The log is a ring of four pages. A record begins where the one before it ended, and may go on at
 * the file's first byte. So the pages of a record are a list, and not a range of the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/xio.h>

#define PAGES 4
#define RECORDS 100
#define RECORD 1000 /* bytes */

/* Make a list of the pages of record n, in order. */
static int find_record(struct percpu_lwbufs *log, size_t page, unsigned n, uint64_t *pages,
		       struct percpu_xio *ret)
{
	size_t begin = (size_t)n * RECORD % (PAGES * page);

	for (uint64_t i = 0; i < PAGES; i++)
		pages[i] = (begin / page + i) % PAGES;
	return percpu_xio_init_pages(ret, log, pages, PAGES, begin % page, RECORD);
}

int main(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING), e;
	struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	struct percpu_lwbufs *log = NULL;
	uint64_t pages[PAGES], mapped = 0;
	char text[RECORD];
	struct percpu_xio x;

	if (fd < 0 || ftruncate(fd, (off_t)(PAGES * page)) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		return 1;
	e = percpu_lwbuf_create(fd, &o, &log);
	if (e == 0)
		e = percpu_lwbuf_populate(log, 0, PAGES, &mapped);
	if (e == -ENOTSUP) /* with PERCPU_DEBUG=1 */
		e = 0;
	for (unsigned n = 0; n < RECORDS && e == 0; n++) {
		memset(text, ' ', sizeof(text));
		(void)snprintf(text, sizeof(text), "record %u", n);
		e = find_record(log, page, n, pages, &x);
		if (e == 0)
			e = percpu_xio_copy_in(&x, 0, text, sizeof(text));
	}
	if (e == 0)
		e = find_record(log, page, RECORDS - 1, pages, &x);
	memset(text, 0, sizeof(text));
	if (e == 0)
		e = percpu_xio_copy_out(&x, 0, text, sizeof(text));
	if (e != 0) {
		fprintf(stderr, "xio: %s\n", strerror(-e));
		return 1;
	}
	printf("%d pages were mapped ahead; the log ends with \"%s\"\n", (int)mapped, text);
	close(fd);
	return strcmp(text, "record 99") != 0 || percpu_lwbuf_destroy(log) != 0;
}
