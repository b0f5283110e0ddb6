/* SPDX-License-Identifier: MIT */
/*
 * ipstat_sample.c - a capture file of known content: correct packets of each kind, and bad ones
 * of each kind that the decoder tells apart.
 */
#include <pcap/pcap.h>
#include <string.h>

#include "ipstat.h"

enum { CAPTURED = 128 }; /* at most, of each packet */

#define ETHER "020000000002020000000001"
#define ADDRESSES4 "7f0000017f000001"
#define LOCAL6 "00000000000000000000000000000001"
#define ADDRESSES6 LOCAL6 LOCAL6
#define PORTS "04d20050"
#define NUMBERS "0000000100000001" /* TCP sequence and acknowledgment */
#define TCP4(total) ETHER "08004500" total "0000000040060000" ADDRESSES4
#define UDP4(total) ETHER "08004500" total "0000000040110000" ADDRESSES4
#define ICMP4(total) ETHER "08004500" total "0000000040010000" ADDRESSES4

/* A packet: its first bytes, in hex; the rest up to length is zeros. And the amounts that it
 * must add to the counters. */
struct sample {
	const char *hex;
	unsigned length, captured; /* 0: all */
	struct {
		size_t field;
		unsigned n;
	} adds[7];
};

/* The bytes from the network header on, as link and IP header count them. */
#define LINK(bytes)                                                                                \
	{ FIELD(link.links_total), 1 },                                                            \
	{                                                                                          \
		FIELD(link.links_bytes), bytes                                                     \
	}
#define IP4(bytes)                                                                                 \
	LINK(bytes), { FIELD(ip.ips_total), 1 },                                                   \
	{                                                                                          \
		FIELD(ip.ips_bytes), bytes                                                         \
	}
#define IP6(bytes)                                                                                 \
	LINK(bytes), { FIELD(ip6.ips_total), 1 },                                                  \
	{                                                                                          \
		FIELD(ip6.ips_bytes), bytes                                                        \
	}
#define ONE(f)                                                                                     \
	{                                                                                          \
		FIELD(f), 1                                                                        \
	}

/* clang-format off */
static const struct sample samples[] = {
	/* TCP: SYN, SYN+ACK, 1000 bytes, FIN, RST */
	{ TCP4("0028") PORTS NUMBERS "5002", 54, 0,
	  { IP4(40), ONE(tcp.tcps_rcvtotal), ONE(tcp.tcps_syn) } },
	{ TCP4("0028") PORTS NUMBERS "5012", 54, 0,
	  { IP4(40), ONE(tcp.tcps_rcvtotal), ONE(tcp.tcps_synack) } },
	{ TCP4("0410") PORTS NUMBERS "5018", 1054, 0,
	  { IP4(1040), ONE(tcp.tcps_rcvtotal), { FIELD(tcp.tcps_rcvbyte), 1000 } } },
	{ TCP4("0028") PORTS NUMBERS "5011", 54, 0,
	  { IP4(40), ONE(tcp.tcps_rcvtotal), ONE(tcp.tcps_fin) } },
	{ TCP4("0028") PORTS NUMBERS "5004", 60, 0, /* padded by Ethernet */
	  { IP4(46), ONE(tcp.tcps_rcvtotal), ONE(tcp.tcps_rst) } },
	/* UDP; ICMP echo, its reply, unreachable */
	{ UDP4("0080") PORTS "006c0000", 142, 0,
	  { IP4(128), ONE(udp.udps_ipackets), { FIELD(udp.udps_ibytes), 100 } } },
	{ ICMP4("0054") "0800", 98, 0,
	  { IP4(84), ONE(icmp.icps_total), { FIELD(icmp.icps_bytes), 64 }, ONE(icmp.icps_echo) } },
	{ ICMP4("0054") "0000", 98, 0,
	  { IP4(84), ONE(icmp.icps_total), { FIELD(icmp.icps_bytes), 64 },
	    ONE(icmp.icps_echoreply) } },
	{ ICMP4("0038") "0303", 70, 0,
	  { IP4(56), ONE(icmp.icps_total), { FIELD(icmp.icps_bytes), 36 },
	    ONE(icmp.icps_unreach) } },
	/* ARP request and reply */
	{ ETHER "08060001080006040001", 42, 0,
	  { LINK(28), ONE(arp.arps_received), { FIELD(arp.arps_bytes), 28 },
	    ONE(arp.arps_rxrequests) } },
	{ ETHER "08060001080006040002", 42, 0,
	  { LINK(28), ONE(arp.arps_received), { FIELD(arp.arps_bytes), 28 },
	    ONE(arp.arps_rxreplies) } },
	/* IPv6: UDP; ICMPv6 echo behind an extension header */
	{ ETHER "86dd60000000003a1140" ADDRESSES6 PORTS "003a0000", 112, 0,
	  { IP6(98), ONE(udp.udps_ipackets), { FIELD(udp.udps_ibytes), 50 } } },
	{ ETHER "86dd6000000000100040" ADDRESSES6 "3a00000000000000" "8000", 70, 0,
	  { IP6(56), ONE(icmp6.icps_total), { FIELD(icmp6.icps_bytes), 8 },
	    ONE(icmp6.icps_echo) } },
	/* fragments: the first of a datagram, and later ones of IPv4 and IPv6 */
	{ ETHER "0800450000640000200040110000" ADDRESSES4 PORTS "0bc00000", 114, 0,
	  { IP4(100), ONE(ip.ips_fragments), ONE(udp.udps_ipackets),
	    { FIELD(udp.udps_ibytes), 3000 } } },
	{ ETHER "080045000064000000b940110000" ADDRESSES4, 114, 0,
	  { IP4(100), ONE(ip.ips_fragments) } },
	{ ETHER "86dd6000000000102c40" ADDRESSES6 "1100000800000000", 70, 0,
	  { IP6(56), ONE(ip6.ips_fragments) } },
	/* other protocols: LLDP, GRE */
	{ ETHER "88cc", 60, 0, { LINK(46), ONE(link.links_noproto) } },
	{ ETHER "0800450000280000000040" "2f0000" ADDRESSES4, 54, 0,
	  { IP4(40), ONE(ip.ips_noproto) } },
	/* captured in part: too little for the IP header */
	{ TCP4("0410") PORTS NUMBERS "5018", 1054, 30, { IP4(1040), ONE(link.links_cut) } },
	/* bad ones: no room for the link header; for ARP; for IPv4; for IPv6 */
	{ "020000000002", 6, 0, { ONE(link.links_total), ONE(link.links_toosmall) } },
	{ ETHER "08060001", 24, 0,
	  { LINK(10), ONE(arp.arps_received), { FIELD(arp.arps_bytes), 10 },
	    ONE(arp.arps_toosmall) } },
	{ ETHER "08004500", 24, 0, { IP4(10), ONE(ip.ips_toosmall) } },
	{ ETHER "86dd6000", 34, 0, { IP6(20), ONE(ip6.ips_toosmall) } },
	/* version; header length too small, too large; total too small, too large */
	{ ETHER "08007500", 34, 0, { IP4(20), ONE(ip.ips_badvers) } },
	{ ETHER "86dd4000", 54, 0, { IP6(40), ONE(ip6.ips_badvers) } },
	{ ETHER "080041000014", 34, 0, { IP4(20), ONE(ip.ips_badhlen) } },
	{ ETHER "08004f000014", 34, 0, { IP4(20), ONE(ip.ips_badhlen) } },
	{ ETHER "08004500000a", 34, 0, { IP4(20), ONE(ip.ips_badlen) } },
	{ ETHER "0800450005dc", 34, 0, { IP4(20), ONE(ip.ips_tooshort) } },
	{ ETHER "86dd6000000005dc1140", 60, 0, { IP6(46), ONE(ip6.ips_tooshort) } },
	/* an IPv6 extension header of 2048 bytes in a packet of 48 */
	{ ETHER "86dd6000000000080040" ADDRESSES6 "00ff", 62, 0,
	  { IP6(48), ONE(ip6.ips_badhlen) } },
	/* TCP without room; with a header beyond its end; below its least */
	{ TCP4("001e"), 44, 0, { IP4(30), ONE(tcp.tcps_rcvtotal), ONE(tcp.tcps_rcvshort) } },
	{ TCP4("0028") PORTS NUMBERS "f002", 54, 0,
	  { IP4(40), ONE(tcp.tcps_rcvtotal), ONE(tcp.tcps_rcvbadoff) } },
	{ TCP4("0028") PORTS NUMBERS "1002", 54, 0,
	  { IP4(40), ONE(tcp.tcps_rcvtotal), ONE(tcp.tcps_rcvbadoff) } },
	/* UDP without room; of a length below its least; beyond the packet's end */
	{ UDP4("0018") PORTS, 38, 0, { IP4(24), ONE(udp.udps_ipackets), ONE(udp.udps_hdrops) } },
	{ UDP4("001c") PORTS "0004", 42, 0,
	  { IP4(28), ONE(udp.udps_ipackets), ONE(udp.udps_badlen) } },
	{ UDP4("001c") PORTS "270f", 42, 0,
	  { IP4(28), ONE(udp.udps_ipackets), ONE(udp.udps_badlen) } },
	/* ICMP without room */
	{ ICMP4("0018") "0800", 38, 0,
	  { IP4(24), ONE(icmp.icps_total), { FIELD(icmp.icps_bytes), 4 },
	    ONE(icmp.icps_tooshort) } },
};
/* clang-format on */

enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

static unsigned hex_digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void from_hex(const char *hex, uint8_t ret[CAPTURED])
{
	memset(ret, 0, CAPTURED);
	for (size_t i = 0; hex[2 * i]; i++)
		ret[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
}

static void write_sample(const struct sample *s, unsigned number, pcap_dumper_t *to)
{
	struct pcap_pkthdr header = { .len = s->length };
	uint8_t data[CAPTURED];

	header.ts.tv_sec = 1000000000 + number / 1000;
	header.ts.tv_usec = number % 1000 * 1000;
	header.caplen = s->captured ? s->captured : s->length;
	if (header.caplen > CAPTURED)
		header.caplen = CAPTURED;
	from_hex(s->hex, data);
	pcap_dump((u_char *)to, &header, data);
}

int sample_write(const char *path, unsigned packets, struct counts *ret_known)
{
	pcap_t *format = pcap_open_dead(DLT_EN10MB, CAPTURED);
	pcap_dumper_t *to = format ? pcap_dump_open(format, path) : NULL;
	int err = 0;

	memset(ret_known, 0, sizeof(*ret_known));
	for (unsigned i = 0; to && i < packets; i++) {
		const struct sample *s = &samples[i % SAMPLES];

		write_sample(s, i, to);
		for (unsigned a = 0; a < 7; a++)
			((uint64_t *)ret_known)[s->adds[a].field] += s->adds[a].n;
	}
	if (!to || pcap_dump_flush(to) != 0 || ferror(pcap_dump_file(to))) {
		complain("cannot write the capture file %s: %s", path,
			 format ? pcap_geterr(format) : "no memory");
		err = -1;
	}
	if (to)
		pcap_dump_close(to);
	if (format)
		pcap_close(format);
	return err;
}
