/* SPDX-License-Identifier: MIT */
/*
 * boot.c - a number that identifies the current boot of the machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cpu.h"

/* Return whether the error is for want of something that may be free at another time. */
static bool is_want(int e)
{
	return e == -EMFILE || e == -ENFILE || e == -ENOMEM;
}

/* A container may have its own file in place of the kernel's, with another id. Processes outside
 * read the kernel's id, so that of the container does not count. */
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
