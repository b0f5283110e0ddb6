/* SPDX-License-Identifier: MIT */
/*
 * freebsd_ip.h - statistics of a protocol as FreeBSD's netinet declares them: a
 * struct of numbers, and macros that count its fields.
 */
#ifndef TESTS_FREEBSD_IP_H
#define TESTS_FREEBSD_IP_H

#include <percpu/freebsd.h>

#define IPCTL_STATS 12

struct ipstat {
	uint64_t ips_total;	 /* total packets received */
	uint64_t ips_tooshort;	 /* packet too short */
	uint64_t ips_badvers;	 /* IP version != 4 */
	uint64_t ips_delivered;	 /* datagrams delivered to upper level */
	uint64_t ips_queued;	 /* datagrams waiting */
	uint64_t ips_outhist[4]; /* delivered, by kind */
};

VNET_PCPUSTAT_DECLARE(struct ipstat, ipstat);

#define IPSTAT_ADD(name, val) VNET_PCPUSTAT_ADD(struct ipstat, ipstat, name, (val))
#define IPSTAT_SUB(name, val) IPSTAT_ADD(name, -(val))
#define IPSTAT_INC(name) IPSTAT_ADD(name, 1)
#define IPSTAT_FETCH(name) VNET_PCPUSTAT_FETCH(struct ipstat, ipstat, name)

void kmod_ipstat_inc(int statnum);
#define KMOD_IPSTAT_INC(name) kmod_ipstat_inc(offsetof(struct ipstat, name) / sizeof(uint64_t))

void ip_input(const uint8_t *packet, int len);

#endif
