/* SPDX-License-Identifier: MIT */
/*
 * freebsd_ip.c - the input side of a protocol as FreeBSD's netinet writes it.
 */
#include "freebsd_ip.h"

SYSCTL_DECL(_net);
SYSCTL_DECL(_net_inet_ip);

VNET_PCPUSTAT_DEFINE(struct ipstat, ipstat);
VNET_PCPUSTAT_SYSINIT(ipstat);
SYSCTL_VNET_PCPUSTAT(_net_inet_ip, IPCTL_STATS, stats, struct ipstat, ipstat,
		     "IP statistics (struct ipstat, netinet/ip_var.h)");
VNET_PCPUSTAT_SYSUNINIT(ipstat);

void kmod_ipstat_inc(int statnum)
{
	counter_u64_add(VNET(ipstat)[statnum], 1);
}

void ip_input(const uint8_t *packet, int len)
{
	int kind;

	IPSTAT_INC(ips_total);
	if (len < 2) {
		IPSTAT_INC(ips_tooshort);
		return;
	}
	if (packet[0] >> 4 != 4) {
		KMOD_IPSTAT_INC(ips_badvers);
		return;
	}
	IPSTAT_ADD(ips_queued, len);
	kind = packet[1] % 4;
	IPSTAT_INC(ips_outhist[kind]);
	IPSTAT_SUB(ips_queued, len);
	IPSTAT_INC(ips_delivered);
}
