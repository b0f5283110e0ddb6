/* SPDX-License-Identifier: MIT */
/*
 * boot.c - which boot of the machine this is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cpu.h"

/* Containers may have a file of their own in its place, with another id, while processes
 * outside have the kernel's. */
uint64_t percpu_boot_id(void)
{
	char id[36];
	int cancel = percpu_defer_cancel(); /* callers may hold a lock */
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint64_t boot = 0;

	if (fd >= 0) {
		if (percpu_is_on(fd, PROC_SUPER_MAGIC) && read(fd, id, sizeof(id)) == sizeof(id))
			for (size_t i = 0; i < sizeof(id); i++) /* any hash will do */
				boot = (boot ^ (unsigned char)id[i]) * UINT64_C(0x100000001b3);
		close(fd);
	}
	percpu_restore_cancel(cancel);
	return boot;
}
