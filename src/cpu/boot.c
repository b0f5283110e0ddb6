/* SPDX-License-Identifier: MIT */
/*
 * boot.c - which boot of the machine this is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cpu.h"

/* What there may be another time. */
static bool is_want(int e)
{
	return e == -EMFILE || e == -ENFILE || e == -ENOMEM;
}

/* Containers may have a file of their own in its place, with another id, while processes
 * outside have the kernel's. */
int percpu_boot_id_read(uint64_t *ret)
{
	char id[36];
	int cancel = percpu_defer_cancel(), e = 0; /* callers may hold a lock */
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint64_t boot = 0;

	if (fd >= 0) {
		if (percpu_is_on(fd, PROC_SUPER_MAGIC) && read(fd, id, sizeof(id)) == sizeof(id))
			for (size_t i = 0; i < sizeof(id); i++) /* any hash will do */
				boot = (boot ^ (unsigned char)id[i]) * UINT64_C(0x100000001b3);
		close(fd);
	} else {
		e = percpu_errno();
	}
	percpu_restore_cancel(cancel);
	if (is_want(e))
		return e;
	*ret = boot;
	return 0;
}

uint64_t percpu_boot_id(void)
{
	uint64_t boot = 0;

	(void)percpu_boot_id_read(&boot);
	return boot;
}
