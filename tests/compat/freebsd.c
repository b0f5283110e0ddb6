/* SPDX-License-Identifier: MIT */
/*
 * freebsd.c - FreeBSD's names in the C that is also C++, without extensions;
 * and what must not compile.
 */
#include <percpu/freebsd.h>

struct ipstat {
	uint64_t ips_total;
	uint64_t ips_outhist[3];
	struct {
		uint32_t low, high;
	} ips_halves;
};

struct odd {
	uint64_t whole[2];
	uint32_t half[3];
};

VNET_PCPUSTAT_DECLARE(struct ipstat, ipstat);
VNET_PCPUSTAT_DEFINE(struct ipstat, ipstat);
VNET_PCPUSTAT_SYSINIT(ipstat);
VNET_PCPUSTAT_SYSUNINIT(ipstat);
static VNET_PCPUSTAT_DEFINE(struct ipstat, older_style);
VNET_PCPUSTAT_DEFINE_STATIC(struct ipstat, private_stat);

SYSCTL_DECL(_net);
SYSCTL_NODE(_net, OID_AUTO, inet, CTLFLAG_RW, 0, "numbers");
SYSCTL_NODE(_net_inet, OID_AUTO, ip, CTLFLAG_RW | CTLFLAG_MPSAFE, NULL, "numbers");
SYSCTL_VNET_PCPUSTAT(_net_inet_ip, OID_AUTO, stats, struct ipstat, ipstat, "numbers");
SYSCTL_COUNTER_U64(_net_inet_ip, OID_AUTO, first, CTLFLAG_RD, &private_stat[0], "a number");
SYSCTL_COUNTER_U64_ARRAY(_net_inet_ip, OID_AUTO, all, CTLFLAG_RD, private_stat, 5, "numbers");

#ifdef REFUSED_STRUCT_OF_ODD_SIZE
VNET_PCPUSTAT_DEFINE(
	struct { char odd; }, odd_size);
#endif
#ifdef REFUSED_STATIC_STRUCT_OF_ODD_SIZE
VNET_PCPUSTAT_DEFINE_STATIC(
	struct { char odd; }, odd_size);
#endif
#ifdef REFUSED_OTHER_STRUCT
SYSCTL_VNET_PCPUSTAT(_net_inet_ip, OID_AUTO, other, uint64_t, ipstat, "numbers");
#endif
#ifdef REFUSED_UNKNOWN_PARENT
SYSCTL_COUNTER_U64(_net_inet6, OID_AUTO, first, CTLFLAG_RD, &private_stat[0], "a number");
#endif
#ifdef REFUSED_TWO_OF_A_NAME
SYSCTL_COUNTER_U64(_net_inet_ip, OID_AUTO, first, CTLFLAG_RW, &private_stat[0], "a number");
#endif

int main(void)
{
	uma_zone_t zone = uma_zcreate("odd", sizeof(struct odd), NULL, NULL, NULL, NULL,
				      UMA_ALIGNOF(struct odd), UMA_ZONE_PCPU);
	struct odd *item = (struct odd *)uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO);
	struct ipstat s;
	size_t size = sizeof(s);
	uint64_t sum = 0;
	const unsigned kind = 2; /* g++ wants a constant */
	unsigned cpu;

	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_total, 7);
	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_outhist[kind], 8);
	zpcpu_add_protected(&item->whole[1], 5);
	zpcpu_sub_protected(&item->whole[1], 1);
#ifdef REFUSED_FIELD
	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_totals, 1);
#endif
#ifdef REFUSED_HALF_A_FIELD
	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_halves.low, 1);
#endif
#ifdef REFUSED_FETCH_OF_HALF_A_FIELD
	sum += VNET_PCPUSTAT_FETCH(struct ipstat, ipstat, ips_halves.high);
#endif
#ifdef REFUSED_HALF_AN_ADD
	zpcpu_add_protected(&item->half[0], 1);
#endif
#ifdef REFUSED_HALF_A_SUB
	zpcpu_sub_protected(&item->half[0], 1);
#endif
	for (cpu = 0; cpu <= mp_maxid; cpu++)
		sum += zpcpu_get_cpu(item, cpu)->whole[1];
	uma_zfree_pcpu(zone, item);
	uma_zdestroy(zone);
	VNET_PCPUSTAT_ALLOC(older_style, M_WAITOK);
	VNET_PCPUSTAT_FREE(older_style);
	if (sysctlbyname("net.inet.ip.stats", &s, &size, NULL, 0) != 0)
		return 1;
	return s.ips_total == 7 && s.ips_outhist[2] == 8 && sum == 4 ? 0 : 2;
}
