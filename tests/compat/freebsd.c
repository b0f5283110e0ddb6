/* SPDX-License-Identifier: MIT */
/*
 * freebsd.c - FreeBSD's names in the C that is also C++, without extensions; and uses that must
 * not compile.
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
SYSCTL_ROOT_NODE(OID_AUTO, net, CTLFLAG_RW, 0, "a node that is declared already");
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

static int two(SYSCTL_HANDLER_ARGS)
{
	(void)arg1, (void)arg2;
	return sysctl_handle_64(oidp, NULL, 2, req);
}
SYSCTL_PROC(_kern_features, OID_AUTO, two, CTLTYPE_U64 | CTLFLAG_RD, NULL, 0, two, "QU", "2");
SYSCTL_PROC(_vm_stats_misc, OID_AUTO, first, CTLTYPE_U64 | CTLFLAG_RD, &private_stat[0], 0,
	    sysctl_handle_counter_u64, "QU", "a number");

/* Two counters in an item, as in ipfw. */
static int pair(void)
{
	uma_zone_t zone = uma_zcreate("pairs", 2 * sizeof(uint64_t), NULL, NULL, NULL, NULL,
				      UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	counter_u64_t c = PERCPU_POINTER(counter_u64_t, uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO));
	int e;

	counter_u64_add(c, 1);
	counter_u64_add(c + 1, 100);
	counter_u64_add(&c[1], 100);
	e = counter_u64_fetch(c) == 1 && counter_u64_fetch(c + 1) == 200 ? 0 : 1;
	counter_u64_zero(c + 1);
	if (counter_u64_fetch(c) != 1 || counter_u64_fetch(c + 1) != 0)
		e = 1;
	uma_zfree_pcpu(zone, c);
	uma_zdestroy(zone);
	return e;
}

int main(void)
{
	uma_zone_t zone = uma_zcreate("odd", sizeof(struct odd), NULL, NULL, NULL, NULL,
				      UMA_ALIGNOF(struct odd), UMA_ZONE_PCPU);
	struct odd *item = PERCPU_POINTER(struct odd *, uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO));
	struct sysctl_ctx_list ctx;
	struct sysctl_oid *node;
	struct counter_rate rate = { private_stat[0], 0, 0, 0 };
	struct ipstat s;
	size_t size = sizeof(s);
	uint64_t sum = 0;
	const unsigned kind = 2; /* g++ needs a constant */
	int cpu;

	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_total, 7);
	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_outhist[kind], 8);
	zpcpu_add_protected(&item->whole[1], 5);
	zpcpu_sub_protected(&item->whole[1], 1);
#ifdef REFUSED_FIELD
	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_totals, 1);
#endif
#ifdef REFUSED_HALF_A_FIELD /* "a counter of 8 bytes" */
	VNET_PCPUSTAT_ADD(struct ipstat, ipstat, ips_halves.low, 1);
#endif
#ifdef REFUSED_FETCH_OF_HALF_A_FIELD /* "a counter of 8 bytes" */
	sum += VNET_PCPUSTAT_FETCH(struct ipstat, ipstat, ips_halves.high);
#endif
#ifdef REFUSED_SMALL_ADD /* "an integer of 4 or 8 bytes" */
	zpcpu_add_protected(PERCPU_POINTER(uint16_t *, &item->half[0]), 1);
#endif
#ifdef REFUSED_ADD_TO_A_DOUBLE
	zpcpu_add_protected(PERCPU_POINTER(double *, &item->whole[0]), 1);
#endif
#ifdef REFUSED_SMALL_SUB /* "an integer of 4 or 8 bytes" */
	zpcpu_sub_protected(PERCPU_POINTER(uint16_t *, &item->half[0]), 1);
#endif
	CPU_FOREACH (cpu)
		sum += zpcpu_get_cpu(item, cpu)->whole[1];
	zpcpu_add_protected(&item->half[0], 2);
	zpcpu_sub_protected(&item->half[0], 2);
	sum += zpcpu_get_cpu(item, 0)->half[0];
	critical_enter();
	*zpcpu_get(ipstat[0]) += 0;
	critical_exit();
#ifdef REFUSED_COPY_OF_A_COUNTER_BY_CPU
	sum += *(uint64_t *)zpcpu_get_cpu(private_stat[0], 0);
#endif
#ifdef REFUSED_WORD_OF_A_COUNTER
	sum += *private_stat[0];
#endif
#ifdef REFUSED_ADD_TO_THE_COPY_OF_A_COUNTER
	zpcpu_add(private_stat[0], 1);
#endif
#ifdef REFUSED_REPLACEMENT_OF_A_COUNTER
	sum += zpcpu_replace(private_stat[0], 0);
#endif
	sum += zpcpu_replace(&item->whole[0], 0) + zpcpu_replace_cpu(&item->whole[0], 0, 0);
	zpcpu_add(&item->whole[0], 1);
	zpcpu_sub(&item->whole[0], 1);
	if (zpcpu_get(item) == NULL || curcpu > mp_maxid || CPU_ABSENT(cpu - 1))
		return 3;
	COUNTER_ARRAY_ALLOC(private_stat, 5, M_WAITOK);
	rate.cr_rate = private_stat[0];
	if (counter_ratecheck(&rate, 1) != 0 || counter_rate_get(&rate) != 1)
		return 4;
	counter_u64_add_protected(private_stat[1], 1);
	counter_u64_zero(private_stat[1]);
	COUNTER_ARRAY_ZERO(private_stat, 5);
	COUNTER_ARRAY_COPY(private_stat, &s, 5);
	sysctl_ctx_init(&ctx);
	node = SYSCTL_ADD_NODE(&ctx, SYSCTL_STATIC_CHILDREN(_net_inet), OID_AUTO, "more",
			       CTLFLAG_RD, NULL, "more numbers");
	SYSCTL_ADD_COUNTER_U64(&ctx, SYSCTL_CHILDREN(node), OID_AUTO, "one", CTLFLAG_RD,
			       &private_stat[0], "a number");
	SYSCTL_ADD_COUNTER_U64_ARRAY(&ctx, SYSCTL_CHILDREN(node), OID_AUTO, "all", CTLFLAG_RW,
				     private_stat, 5, "numbers");
	SYSCTL_ADD_PROC(&ctx, SYSCTL_CHILDREN(node), OID_AUTO, "two",
			CTLTYPE_U64 | CTLFLAG_RD | CTLFLAG_MPSAFE, NULL, 0, two, "QU", "2");
	size = sizeof(sum);
	if (sysctlbyname("net.inet.more.two", &s, &size, NULL, 0) != 0 || s.ips_total != 2 ||
	    sysctl_ctx_free(&ctx) != 0)
		return 5;
	COUNTER_ARRAY_FREE(private_stat, 5);
	size = sizeof(s);
	uma_zfree_pcpu(zone, item);
	uma_zdestroy(zone);
	VNET_PCPUSTAT_ALLOC(older_style, M_WAITOK);
	VNET_PCPUSTAT_FREE(older_style);
	if (pair() != 0)
		return 6;
	if (sysctlbyname("net.inet.ip.stats", &s, &size, NULL, 0) != 0)
		return 1;
	return s.ips_total == 7 && s.ips_outhist[2] == 8 && sum == 4 ? 0 : 2;
}
