/* SPDX-License-Identifier: MIT */
/*
 * freebsd_unchanged.c - a source in the style of FreeBSD's, include lines too: an array of
 * counters with a name, a rate by value, items of a common zone, per-CPU variables.
 */
#include <sys/types.h>
#ifndef REVERSE
#include <sys/counter.h>
#include <sys/pcpu.h>
#include <sys/smp.h>
#include <sys/sysctl.h>
#include <net/vnet.h>
#include <vm/uma.h>
#else
#include <vm/uma.h>
#include <net/vnet.h>
#include <sys/sysctl.h>
#include <sys/smp.h>
#include <sys/pcpu.h>
#include <sys/counter.h>
#endif

struct bandlim {
	const char *descr;
	struct counter_rate cr;
};

static counter_u64_t drops[3];
SYSCTL_COUNTER_U64_ARRAY(_kern_ipc, OID_AUTO, drops, CTLFLAG_RD, drops, 3, "dropped");

static DPCPU_DEFINE(uint64_t, turns);

int main(void)
{
	struct bandlim limit = { "unreach", { NULL, 0, 0, 0 } };
	uint64_t *item =
		PERCPU_POINTER(uint64_t *, uma_zalloc_pcpu(pcpu_zone_8, M_WAITOK | M_ZERO));
	uint64_t sum = 0, values[3];
	size_t size = sizeof(values);
	int cpu;

	COUNTER_ARRAY_ALLOC(drops, 3, M_WAITOK);
	counter_u64_add(drops[1], 2);
	limit.cr.cr_rate = counter_u64_alloc(M_WAITOK);
	if (counter_ratecheck(&limit.cr, 1) != 0 || counter_ratecheck(&limit.cr, 1) != -1)
		return 1;
	zpcpu_add_protected(item, 4);
	CPU_FOREACH (cpu) {
		sum += *zpcpu_get_cpu(item, cpu);
		DPCPU_ID_SET(cpu, turns, 1);
	}
	uma_zfree_pcpu(pcpu_zone_8, item);
	if (sysctlbyname("kern.ipc.drops", values, &size, NULL, 0) != 0 || values[1] != 2)
		return 2;
	return sum == 4 && DPCPU_SUM(turns) == PERCPU_NUMBER(uint64_t, mp_ncpus) ? 0 : 3;
}
