/* SPDX-License-Identifier: MIT */
/*
 * malloc.h - the part of DragonFly's kmalloc(9) that users of objcache(9) need. It calls
 * malloc(3). A type is a name: it counts nothing, and has no limit. krealloc(), kstrdup(),
 * contigmalloc() and kmalloc_obj() are not there.
 *
 * What the calls have in common.
 * Context: any thread, not a signal handler.
 * Ordering: none.
 * Progress: as malloc(3). With M_WAITOK and without M_NULLOK, kmalloc() waits until there is
 * memory.
 */
#ifndef PERCPU_DRAGONFLY_MALLOC_H
#define PERCPU_DRAGONFLY_MALLOC_H

#ifdef _SYS_MALLOC_H_
#error "this stands in for sys/malloc.h, which was included before it"
#endif
#define _SYS_MALLOC_H_ /* makes the original empty if it is included later */

#include <percpu/freebsd/malloc_flags.h>

PERCPU_BEGIN_DECLS

/* Flags for code that does not define them. The reserves have no effect. */
#ifndef M_USE_RESERVE
#define M_USE_RESERVE 0x0200
#endif
#ifndef M_NULLOK
#define M_NULLOK 0x0400
#endif
#ifndef M_USE_INTERRUPT_RESERVE
#define M_USE_INTERRUPT_RESERVE 0x1000
#endif
#ifndef M_INTWAIT
#define M_INTWAIT (M_WAITOK | M_USE_RESERVE | M_USE_INTERRUPT_RESERVE)
#endif

PERCPU_ASSERT(M_WAITOK == 0x0002 && M_ZERO == 0x0100 && M_NULLOK == 0x0400,
	      "the flags are DragonFly's, or none");

struct malloc_type {
	const char *ks_shortdesc;
	const char *ks_longdesc;
};
typedef struct malloc_type *malloc_type_t;

#define MALLOC_DEFINE(type, shortdesc, longdesc)                                                   \
	struct malloc_type type[1] = { { shortdesc, longdesc } }
#define MALLOC_DECLARE(type) extern struct malloc_type type[1]

PERCPU_API void *percpu_dragonfly_kmalloc(size_t size, int flags);
PERCPU_API void percpu_dragonfly_kfree(void *p);

/** Allocate memory; with M_ZERO it is zeros. Returns NULL if there is none, unless it waits. */
static inline void *kmalloc(size_t size, malloc_type_t type, int flags)
{
	(void)type;
	return percpu_dragonfly_kmalloc(size, flags);
}

/** Free memory of kmalloc(). NULL is fine. */
static inline void kfree(void *p, malloc_type_t type)
{
	(void)type;
	percpu_dragonfly_kfree(p);
}

/** Make a type of that name, which is not copied. Wait until there is memory. */
static inline void kmalloc_create(malloc_type_t *typep, const char *descr)
{
	*typep = PERCPU_POINTER(malloc_type_t,
				percpu_dragonfly_kmalloc(sizeof(**typep), M_WAITOK | M_ZERO));
	(*typep)->ks_shortdesc = descr;
}

/** Free the type, and set *typep to NULL. Memory that was allocated with it stays. NULL is
 *  fine. */
static inline void kmalloc_destroy(malloc_type_t *typep)
{
	percpu_dragonfly_kfree(*typep);
	*typep = PERCPU_NULL(malloc_type_t);
}

/** Do nothing: a type has no limit. */
static inline void kmalloc_raise_limit(malloc_type_t type, size_t bytes)
{
	(void)type;
	(void)bytes;
}

static inline void kmalloc_set_unlimited(malloc_type_t type)
{
	(void)type;
}

PERCPU_END_DECLS

#endif
