/* SPDX-License-Identifier: MIT */
/*
 * stay.c - an object that must not go away when its program unloads it.
 *
 * After a dlclose() threads would call the library when they exit, and run its
 * self-test; and the kernel would read the descriptor of a thread's last sequence,
 * from whatever object that was inlined into, the library among them. So each such
 * object opens itself once more, for good, by a constructor that comes with the
 * sequences (PERCPU_SEQ_STAY).
 *
 * glibc looks an object up by the name that it has for it, and needs no file then.
 * dlopen() is asked for, not named, for of a static program that names it the linker
 * warns. Where glibc had these functions in another library, before 2.34, a program
 * that loads objects has that one.
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
