/* SPDX-License-Identifier: MIT */
/*
 * pads.c - call vfork() and clone() by pointer, which needs landing pads.
 *
 * Compiled with landing pads, but not marked so: libc's start-up files may have none. The
 * program marks its own code when it runs (PROT_BTI, aarch64).
 */
#define _GNU_SOURCE
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#define PROTECT (PROT_READ | PROT_EXEC | 0x10 /* PROT_BTI */)
#define HAS_BTI (1UL << 17)
#define PAGE 4095UL

static struct percpu_counter *counter;

/* Guard the code of the first object, which is the program. */
static int guard(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		uintptr_t begin = (info->dlpi_addr + h->p_vaddr) & ~PAGE;
		uintptr_t end = info->dlpi_addr + h->p_vaddr + h->p_memsz;

		if (h->p_type == PT_LOAD && (h->p_flags & PF_X) &&
		    mprotect((void *)begin, end - begin, PROTECT) != 0)
			return 1;
	}
	return 2;
}

static int count(void *arg)
{
	percpu_counter_add(counter, 1);
	_exit(arg != NULL ? 3 : 1);
}

static bool ends_well(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 3 << 8;
}

int main(int argc, char **argv)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t (*volatile by_pointer)(void) = vfork;
	int (*volatile clone_by_pointer)(int (*)(void *), void *, int, void *, ...) = clone;
	int (*volatile create)(struct percpu_counter **) = percpu_counter_create;
	pid_t pid;

	(void)argc;
	if (!(getauxval(AT_HWCAP2) & HAS_BTI) || dl_iterate_phdr(guard, NULL) != 2) {
		puts("no landing pads here");
		return 77;
	}
	if (create(&counter) != 0)
		return 1;
	pid = by_pointer();
	if (pid == 0)
		count(argv);
	if (!ends_well(pid))
		return 2;
	if (!ends_well(clone_by_pointer(count, stack + sizeof(stack),
					SIGCHLD | CLONE_VM | CLONE_VFORK, argv)))
		return 3;
	_exit(0); /* without exit handlers, which are in start-up files, too */
}
