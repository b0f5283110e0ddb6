/* SPDX-License-Identifier: MIT */
/*
 * stay.c - keep a shared object loaded when its program unloads it.
 *
 * After a dlclose() the library's code is still needed: threads call it when they exit, and
 * run the self-test. And the kernel still reads the descriptor of a thread's last sequence,
 * which is in the shared object that the sequence was inlined into. So each such object
 * opens itself again, for good, in a constructor that comes with the sequences
 * (PERCPU_SEQ_STAY).
 *
 * glibc finds the object by its own name for it, and needs no file for that.
 * This file looks dlopen() up with dlsym(), because the linker warns about a static
 * program that names dlopen(). Before version 2.34 glibc had these functions in libdl,
 * which every program that loads objects has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "cpu.h"

#ifdef __GLIBC__

extern __typeof__(dladdr1) dladdr1 __attribute__((weak));
extern __typeof__(dlsym) dlsym __attribute__((weak));

void percpu_object_stay(const void *address)
{
	struct link_map *object = NULL;
	void *(*open)(const char *, int) = NULL;
	Dl_info info;

	if (dladdr1 == NULL || dlsym == NULL ||
	    dladdr1(address, &info, (void **)&object, RTLD_DL_LINKMAP) == 0 ||
	    object->l_name[0] == '\0') /* the program itself */
		return;
	*(void **)&open = dlsym(RTLD_DEFAULT, "dlopen");
	if (open != NULL)
		(void)open(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

#else /* musl unloads nothing */

void percpu_object_stay(const void *address)
{
	(void)address;
}

#endif
