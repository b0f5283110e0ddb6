/* SPDX-License-Identifier: MIT */
/*
 * pcpustat.h - FreeBSD's VNET_PCPUSTAT: a struct of uint64_t fields that declares
 * counters, and takes the values that are read from them.
 *
 *	VNET_PCPUSTAT_DEFINE(struct ipstat, ipstat);
 *	VNET_PCPUSTAT_SYSINIT(ipstat);
 *	VNET_PCPUSTAT_SYSUNINIT(ipstat);
 *	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_total, 1);
 *
 * The macros define an array of counter_u64_t, one for each field. There is one network
 * stack, as in a kernel without VIMAGE.
 */
#ifndef PERCPU_FREEBSD_PCPUSTAT_H
#define PERCPU_FREEBSD_PCPUSTAT_H

#include <percpu/freebsd/counter.h>

#ifdef _NET_VNET_H_
#error "this stands in for net/vnet.h, which was included before it"
#endif
#define _NET_VNET_H_ /* makes the original empty if it is included later */

#define VNET_NAME(n) n
#define VNET(n) (n)
#define VNET_DECLARE(t, n) extern t n
#define VNET_DEFINE(t, n) t n
#define VNET_DEFINE_STATIC(t, n) static t n

/* clang-format off */
#define PERCPU_PCPUSTAT_FIELDS(type) (sizeof(type) / sizeof(uint64_t))
#define PERCPU_PCPUSTAT_CHECK(type)                                            \
	PERCPU_ASSERT(sizeof(type) % sizeof(uint64_t) == 0,                    \
		      "the struct must have uint64_t fields only")

/**
 * The index of the counter of field f of a struct. The field may be an element of an
 * array, f[i]; g++ needs a constant i. A field of another size than 8 bytes does not compile.
 */
#define PERCPU_PCPUSTAT_INDEX(type, f)                                         \
	(offsetof(type, f) / 8 * PERCPU_FREEBSD_WORD(PERCPU_NULL(type *)->f))

/** Declare the counters of a struct. */
#define VNET_PCPUSTAT_DECLARE(type, name)                                      \
	VNET_DECLARE(counter_u64_t, name[PERCPU_PCPUSTAT_FIELDS(type)]);       \
	PERCPU_PCPUSTAT_CHECK(type)
/** Define the counters of a struct. */
#define VNET_PCPUSTAT_DEFINE(type, name)                                       \
	VNET_DEFINE(counter_u64_t, name[PERCPU_PCPUSTAT_FIELDS(type)]);        \
	PERCPU_PCPUSTAT_CHECK(type)
#define VNET_PCPUSTAT_DEFINE_STATIC(type, name)                                \
	VNET_DEFINE_STATIC(counter_u64_t, name[PERCPU_PCPUSTAT_FIELDS(type)]); \
	PERCPU_PCPUSTAT_CHECK(type)

/** Allocate all counters of the struct, as counter_u64_alloc(). */
#define VNET_PCPUSTAT_ALLOC(name, wait)                                        \
	COUNTER_ARRAY_ALLOC(VNET(name),                                        \
			    sizeof(VNET(name)) / sizeof(counter_u64_t), (wait))
/** Free all counters of the struct, as counter_u64_free(). */
#define VNET_PCPUSTAT_FREE(name)                                               \
	COUNTER_ARRAY_FREE(VNET(name),                                         \
			   sizeof(VNET(name)) / sizeof(counter_u64_t))

/** Add v to a field, as counter_u64_add(). */
#define VNET_PCPUSTAT_ADD(type, name, f, v)                                    \
	counter_u64_add(VNET(name)[PERCPU_PCPUSTAT_INDEX(type, f)], (v))
/** Read a field, as counter_u64_fetch(). */
#define VNET_PCPUSTAT_FETCH(type, name, f)                                     \
	counter_u64_fetch(VNET(name)[PERCPU_PCPUSTAT_INDEX(type, f)])

/** Allocate the counters before main. */
#define VNET_PCPUSTAT_SYSINIT(name)                                            \
	PERCPU_SYSINIT static void vnet_##name##_init(void)                    \
	{                                                                      \
		VNET_PCPUSTAT_ALLOC(name, M_WAITOK);                           \
	}                                                                      \
	PERCPU_ASSERT(1, "a semicolon follows")
/** Free the counters after main. */
#define VNET_PCPUSTAT_SYSUNINIT(name)                                          \
	PERCPU_SYSUNINIT static void vnet_##name##_uninit(void)                \
	{                                                                      \
		VNET_PCPUSTAT_FREE(name);                                      \
	}                                                                      \
	PERCPU_ASSERT(1, "a semicolon follows")
/* clang-format on */

#endif
