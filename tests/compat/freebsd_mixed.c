/* SPDX-License-Identifier: MIT */
/*
 * freebsd_mixed.c - parts of another implementation's headers beside the library's: wrong uses
 * do not compile, and the other one's zones work with its own macros.
 */
#include <stddef.h>
#include <stdint.h>

/* The other implementation's sys/pcpu.h, of a kernel with one CPU. */
#define zpcpu_offset() ((size_t)0)
#define zpcpu_offset_cpu(cpu) (4096 * (size_t)(cpu))
#define zpcpu_get(base) __extension__({ (__typeof__(base))((char *)(base) + zpcpu_offset()); })
#define zpcpu_get_cpu(base, cpu)                                                                   \
	__extension__({ (__typeof__(base))((char *)(base) + zpcpu_offset_cpu(cpu)); })

#ifdef REFUSED_ZONES_OF_ANOTHER
#define _VM_UMA_H_
#endif
#ifdef REFUSED_COUNTERS_OF_ANOTHER
#define __SYS_COUNTER_H__
#endif
#ifdef REFUSED_NAMES_OF_ANOTHER
#define _SYS_SYSCTL_H_
#endif
#ifdef REFUSED_NETWORKS_OF_ANOTHER
#define _NET_VNET_H_
#endif
#if defined(REFUSED_ZONES_OF_ANOTHER) || defined(OUR_ZONES)
#include <percpu/freebsd/uma.h>
#elif defined(REFUSED_NAMES_OF_ANOTHER) || defined(REFUSED_NETWORKS_OF_ANOTHER)
#include <percpu/freebsd/sysctl.h>
#else
#include <percpu/freebsd/counter.h>
#endif

int main(void)
{
	static uint64_t others[1024];
	counter_u64_t c = counter_u64_alloc(M_WAITOK);
	uint64_t v = 0;

	counter_u64_add(c, 2);
#ifdef REFUSED_COPY_OF_A_COUNTER
	v = *(uint64_t *)zpcpu_get(c);
#endif
#ifdef REFUSED_COPY_OF_A_COUNTER_BY_CPU
	v = *(uint64_t *)zpcpu_get_cpu(c, 0);
#endif
#ifdef OUR_ZONES
	if ((size_t)((char *)zpcpu_get_cpu(others + 0, 1) - (char *)others) != PERCPU_STRIDE)
		return 2;
#else
	if (zpcpu_get(others + 0) != others || zpcpu_get_cpu(others + 0, 1) != others + 512)
		return 3;
#endif
	v += counter_u64_fetch(c);
	counter_u64_free(c);
	return v == 2 ? 0 : 4;
}
