/* SPDX-License-Identifier: MIT */
/*
 * freebsd_port.c - FreeBSD's names in a port of a kernel with macros and variables of its own,
 * and no header of a C library: compiled with -nostdinc.
 */
typedef unsigned long size_t;
typedef unsigned long uint64_t;
typedef long int64_t;
typedef unsigned int u_int;
typedef _Bool bool;

#define malloc(size, type, flags) port_malloc(size, flags)
#define free(p, type) port_free(p)
#define calloc(a, b, c) broken
#define errno port_errno
#define curcpu 7
#define M_NOWAIT 0x0001
#define M_WAITOK 0x0002
#define M_ZERO 0x0100

extern int mp_ncpus, ticks;

#include <percpu/freebsd/counter.h>
#include <percpu/freebsd/pcpustat.h>
#include <percpu/freebsd/rate.h>
#include <percpu/freebsd/sysctl.h>
#include <percpu/freebsd/uma.h>

int mp_ncpus = 3, ticks = 5;

static counter_u64_t packets;
SYSCTL_COUNTER_U64(_kern, OID_AUTO, packets, CTLFLAG_RD, &packets, "packets");

int main(void)
{
	uma_zone_t zone = uma_zcreate("z", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	uint64_t *item = uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO), sum = 0;
	struct counter_rate rate;

	packets = counter_u64_alloc(M_WAITOK);
	counter_u64_add(packets, 1);
	rate = (struct counter_rate){ .cr_rate = packets, .cr_ticks = ticks };
	if (counter_ratecheck(&rate, 2) < 0)
		return 1;
	zpcpu_add_protected(item, 3);
	for (int cpu = 0; cpu < percpu_freebsd_ncpus(); cpu++)
		sum += *zpcpu_get_cpu(item, cpu);
	return sum == 3 && mp_ncpus == 3 && curcpu == 7 ? 0 : 2;
}
