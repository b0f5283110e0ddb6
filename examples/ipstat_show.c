/* SPDX-License-Identifier: MIT */
/*
 * ipstat_show.c - the picture: rates and totals per protocol while workers count, and at the end
 * all counters that are not 0.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipstat.h"

static const struct {
	const char *name;
	size_t packets; /* index; that of bytes is the next one */
} protocols[] = {
	{ "all", FIELD(link.links_total) },  { "IPv4", FIELD(ip.ips_total) },
	{ "IPv6", FIELD(ip6.ips_total) },    { "ARP", FIELD(arp.arps_received) },
	{ "TCP", FIELD(tcp.tcps_rcvtotal) }, { "UDP", FIELD(udp.udps_ipackets) },
	{ "ICMP", FIELD(icmp.icps_total) },  { "ICMPv6", FIELD(icmp6.icps_total) },
};

enum { PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

#define NAME(f) [FIELD(f)] = #f
static const char *const names[FIELDS] = {
	NAME(link.links_total),	   NAME(link.links_bytes),   NAME(link.links_toosmall),
	NAME(link.links_noproto),  NAME(link.links_cut),     NAME(arp.arps_received),
	NAME(arp.arps_bytes),	   NAME(arp.arps_toosmall),  NAME(arp.arps_rxrequests),
	NAME(arp.arps_rxreplies),  NAME(ip.ips_total),	     NAME(ip.ips_bytes),
	NAME(ip.ips_toosmall),	   NAME(ip.ips_badvers),     NAME(ip.ips_badhlen),
	NAME(ip.ips_badlen),	   NAME(ip.ips_tooshort),    NAME(ip.ips_fragments),
	NAME(ip.ips_noproto),	   NAME(ip6.ips_total),	     NAME(ip6.ips_bytes),
	NAME(ip6.ips_toosmall),	   NAME(ip6.ips_badvers),    NAME(ip6.ips_badhlen),
	NAME(ip6.ips_badlen),	   NAME(ip6.ips_tooshort),   NAME(ip6.ips_fragments),
	NAME(ip6.ips_noproto),	   NAME(icmp.icps_total),    NAME(icmp.icps_bytes),
	NAME(icmp.icps_tooshort),  NAME(icmp.icps_echo),     NAME(icmp.icps_echoreply),
	NAME(icmp.icps_unreach),   NAME(icmp6.icps_total),   NAME(icmp6.icps_bytes),
	NAME(icmp6.icps_tooshort), NAME(icmp6.icps_echo),    NAME(icmp6.icps_echoreply),
	NAME(icmp6.icps_unreach),  NAME(tcp.tcps_rcvtotal),  NAME(tcp.tcps_rcvbyte),
	NAME(tcp.tcps_rcvshort),   NAME(tcp.tcps_rcvbadoff), NAME(tcp.tcps_syn),
	NAME(tcp.tcps_synack),	   NAME(tcp.tcps_fin),	     NAME(tcp.tcps_rst),
	NAME(udp.udps_ipackets),   NAME(udp.udps_ibytes),    NAME(udp.udps_hdrops),
	NAME(udp.udps_badlen),
};

const char *field_name(size_t field)
{
	return names[field] ? names[field] : "spare";
}

uint64_t field_of(const struct counts *c, size_t field)
{
	return ((const uint64_t *)c)[field];
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void show_start(struct picture *p)
{
	*p = (struct picture){ .tty = isatty(STDOUT_FILENO), .start = now() };
	p->last = p->start;
}

static double rate(const struct picture *p, const struct counts *c, size_t field, double seconds)
{
	return (double)(field_of(c, field) - field_of(&p->before, field)) / seconds;
}

static void draw_table(struct picture *p, const struct counts *c, double seconds)
{
	if (p->lines)
		printf("\033[%uA\033[J", p->lines);
	printf("%5.1f s %15s %15s %15s %17s\n", p->last - p->start, "packets/s", "bytes/s",
	       "packets", "bytes");
	for (unsigned i = 0; i < PROTOCOLS; i++) {
		size_t field = protocols[i].packets;

		printf("%-7s %15.0f %15.0f %15" PRIu64 " %17" PRIu64 "\n", protocols[i].name,
		       rate(p, c, field, seconds), rate(p, c, field + 1, seconds),
		       field_of(c, field), field_of(c, field + 1));
	}
	printf("%s\n", p->event);
	p->lines = PROTOCOLS + 2;
}

static void draw_line(const struct picture *p, const struct counts *c, double seconds)
{
	printf("%5.1f s", p->last - p->start);
	for (unsigned i = 0; i < PROTOCOLS; i++)
		if (field_of(c, protocols[i].packets))
			printf("  %s %.0f/s", protocols[i].name,
			       rate(p, c, protocols[i].packets, seconds));
	printf("  (%" PRIu64 " packets in all)\n", c->link.links_total);
}

void show_update(struct picture *p, const struct counts *c)
{
	double t = now(), seconds = t - p->last;

	if (seconds < (p->tty ? 0.5 : 1.0))
		return;
	p->last = t;
	if (p->tty)
		draw_table(p, c, seconds);
	else
		draw_line(p, c, seconds);
	fflush(stdout);
	p->before = *c;
}

void show_event(struct picture *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->event, sizeof(p->event), format, args);
	va_end(args);
	if (!p->tty)
		printf("        %s\n", p->event);
	fflush(stdout);
}

void show_totals(const struct counts *c)
{
	unsigned column = 0;

	for (size_t f = 0; f < FIELDS; f++) {
		if (field_of(c, f) == 0)
			continue;
		printf("%-22s %14" PRIu64 "%s", field_name(f), field_of(c, f),
		       column ? "\n" : "    ");
		column = !column;
	}
	if (column)
		printf("\n");
	if (c->link.links_total == 0)
		printf("no packets\n");
}
