/* SPDX-License-Identifier: MIT */
/*
 * ipstat_decode.c - from the bytes of a packet to the counters it adds to.
 *
 * Whatever the bytes are, the decoder reads none outside the captured ones: each step asks
 * have() for the bytes it reads next.
 */
#include <netinet/in.h>
#include <pcap/dlt.h>

#include "ipstat.h"

enum { ETHERTYPE_IP4 = 0x0800, ETHERTYPE_ARP = 0x0806, ETHERTYPE_IP6 = 0x86dd };
enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };
enum { ICMP4_ECHOREPLY = 0, ICMP4_UNREACH = 3, ICMP4_ECHO = 8 };
enum { ICMP6_UNREACH = 1, ICMP6_ECHO = 128, ICMP6_ECHOREPLY = 129 };

/* The rest of a packet: length bytes were sent, captured of them are here. */
struct bytes {
	const uint8_t *at;
	size_t captured, length;
};

static unsigned be16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static void add_one(struct tally *t, size_t field)
{
	t->add[t->n].field = (uint32_t)field;
	t->add[t->n].pair = false;
	t->add[t->n++].bytes = 0;
}

static void add_pair(struct tally *t, size_t field, size_t bytes)
{
	t->add[t->n].field = (uint32_t)field;
	t->add[t->n].pair = true;
	t->add[t->n++].bytes = (int64_t)bytes;
}

/* Return whether the next n bytes are here. If not, count whether the packet was too small for
 * them, or was captured in part only. */
static bool have(const struct bytes *b, size_t n, size_t too_small, struct tally *t)
{
	if (b->length < n)
		add_one(t, too_small);
	else if (b->captured < n)
		add_one(t, FIELD(link.links_cut));
	return b->captured >= n;
}

static void skip(struct bytes *b, size_t n)
{
	b->at += n;
	b->captured -= n;
	b->length -= n;
}

/* Drop the padding behind the first n bytes. */
static void limit(struct bytes *b, size_t n)
{
	if (b->length > n)
		b->length = n;
	if (b->captured > n)
		b->captured = n;
}

static void decode_tcp(const struct bytes *b, struct tally *t)
{
	size_t header;
	unsigned flags;

	if (!have(b, 20, FIELD(tcp.tcps_rcvshort), t)) {
		add_pair(t, FIELD(tcp.tcps_rcvtotal), 0);
		return;
	}
	header = (size_t)(b->at[12] >> 4) * 4;
	if (header < 20 || header > b->length) {
		add_pair(t, FIELD(tcp.tcps_rcvtotal), 0);
		add_one(t, FIELD(tcp.tcps_rcvbadoff));
		return;
	}
	add_pair(t, FIELD(tcp.tcps_rcvtotal), b->length - header);
	flags = b->at[13];
	if (flags & TCP_SYN)
		add_one(t, flags & TCP_ACK ? FIELD(tcp.tcps_synack) : FIELD(tcp.tcps_syn));
	if (flags & TCP_FIN)
		add_one(t, FIELD(tcp.tcps_fin));
	if (flags & TCP_RST)
		add_one(t, FIELD(tcp.tcps_rst));
}

/* A first fragment has less than its length field says, which is no error. */
static void decode_udp(const struct bytes *b, bool fragment, struct tally *t)
{
	size_t length;

	if (!have(b, 8, FIELD(udp.udps_hdrops), t)) {
		add_pair(t, FIELD(udp.udps_ipackets), 0);
		return;
	}
	length = be16(b->at + 4);
	if (length < 8 || (length > b->length && !fragment)) {
		add_pair(t, FIELD(udp.udps_ipackets), 0);
		add_one(t, FIELD(udp.udps_badlen));
		return;
	}
	add_pair(t, FIELD(udp.udps_ipackets), length - 8);
}

static void decode_icmp4(const struct bytes *b, struct tally *t)
{
	add_pair(t, FIELD(icmp.icps_total), b->length);
	if (!have(b, 8, FIELD(icmp.icps_tooshort), t))
		return;
	if (b->at[0] == ICMP4_ECHO)
		add_one(t, FIELD(icmp.icps_echo));
	else if (b->at[0] == ICMP4_ECHOREPLY)
		add_one(t, FIELD(icmp.icps_echoreply));
	else if (b->at[0] == ICMP4_UNREACH)
		add_one(t, FIELD(icmp.icps_unreach));
}

static void decode_icmp6(const struct bytes *b, struct tally *t)
{
	add_pair(t, FIELD(icmp6.icps_total), b->length);
	if (!have(b, 8, FIELD(icmp6.icps_tooshort), t))
		return;
	if (b->at[0] == ICMP6_ECHO)
		add_one(t, FIELD(icmp6.icps_echo));
	else if (b->at[0] == ICMP6_ECHOREPLY)
		add_one(t, FIELD(icmp6.icps_echoreply));
	else if (b->at[0] == ICMP6_UNREACH)
		add_one(t, FIELD(icmp6.icps_unreach));
}

static void decode_ip4(struct bytes b, struct tally *t)
{
	size_t header, total;
	unsigned fragment, proto;

	add_pair(t, FIELD(ip.ips_total), b.length);
	if (!have(&b, 20, FIELD(ip.ips_toosmall), t))
		return;
	if (b.at[0] >> 4 != 4) {
		add_one(t, FIELD(ip.ips_badvers));
		return;
	}
	header = (size_t)(b.at[0] & 15) * 4;
	if (header < 20) {
		add_one(t, FIELD(ip.ips_badhlen));
		return;
	}
	if (!have(&b, header, FIELD(ip.ips_badhlen), t))
		return;
	total = be16(b.at + 2);
	if (total < header || total > b.length) {
		add_one(t, total < header ? FIELD(ip.ips_badlen) : FIELD(ip.ips_tooshort));
		return;
	}
	fragment = be16(b.at + 6) & 0x3fff;
	proto = b.at[9];
	if (fragment)
		add_one(t, FIELD(ip.ips_fragments));
	if (fragment & 0x1fff)
		return; /* not the first: no transport header */

	limit(&b, total);
	skip(&b, header);
	if (proto == IPPROTO_TCP)
		decode_tcp(&b, t);
	else if (proto == IPPROTO_UDP)
		decode_udp(&b, fragment != 0, t);
	else if (proto == IPPROTO_ICMP)
		decode_icmp4(&b, t);
	else
		add_one(t, FIELD(ip.ips_noproto));
}

/*
 * Skip the extension headers. Returns the transport protocol, or -1 if there is no transport
 * header. Each header is 8 bytes or more, so the loop ends.
 */
static int skip_extensions(struct bytes *b, unsigned proto, bool *ret_fragment, struct tally *t)
{
	size_t length;

	while (proto == IPPROTO_HOPOPTS || proto == IPPROTO_ROUTING || proto == IPPROTO_DSTOPTS ||
	       proto == IPPROTO_FRAGMENT) {
		if (!have(b, 8, FIELD(ip6.ips_badhlen), t))
			return -1;
		length = 8;
		if (proto != IPPROTO_FRAGMENT) {
			length += (size_t)b->at[1] * 8;
		} else if (!*ret_fragment) {
			*ret_fragment = true;
			add_one(t, FIELD(ip6.ips_fragments));
			if (be16(b->at + 2) & 0xfff8)
				return -1;
		}
		if (!have(b, length, FIELD(ip6.ips_badhlen), t))
			return -1;
		proto = b->at[0];
		skip(b, length);
	}
	return (int)proto;
}

static void decode_ip6(struct bytes b, struct tally *t)
{
	bool fragment = false;
	size_t payload;
	int proto;

	add_pair(t, FIELD(ip6.ips_total), b.length);
	if (!have(&b, 40, FIELD(ip6.ips_toosmall), t))
		return;
	if (b.at[0] >> 4 != 6) {
		add_one(t, FIELD(ip6.ips_badvers));
		return;
	}
	payload = be16(b.at + 4);
	proto = b.at[6];
	skip(&b, 40);
	if (payload > b.length) {
		add_one(t, FIELD(ip6.ips_tooshort));
		return;
	}
	limit(&b, payload);
	proto = skip_extensions(&b, (unsigned)proto, &fragment, t);
	if (proto == IPPROTO_TCP)
		decode_tcp(&b, t);
	else if (proto == IPPROTO_UDP)
		decode_udp(&b, fragment, t);
	else if (proto == IPPROTO_ICMPV6)
		decode_icmp6(&b, t);
	else if (proto >= 0)
		add_one(t, FIELD(ip6.ips_noproto));
}

static void decode_arp(const struct bytes *b, struct tally *t)
{
	unsigned operation;

	add_pair(t, FIELD(arp.arps_received), b->length);
	if (!have(b, 28, FIELD(arp.arps_toosmall), t))
		return;
	operation = be16(b->at + 6);
	if (operation == 1)
		add_one(t, FIELD(arp.arps_rxrequests));
	else if (operation == 2)
		add_one(t, FIELD(arp.arps_rxreplies));
}

void decode_packet(uint16_t proto, const uint8_t *data, size_t captured, size_t length,
		   struct tally *t)
{
	struct bytes b = { data, captured < length ? captured : length, length };

	t->n = 0;
	add_pair(t, FIELD(link.links_total), length);
	if (proto == ETHERTYPE_IP4)
		decode_ip4(b, t);
	else if (proto == ETHERTYPE_IP6)
		decode_ip6(b, t);
	else if (proto == ETHERTYPE_ARP)
		decode_arp(&b, t);
	else
		add_one(t, FIELD(link.links_noproto));
}

/* The size of a link header, and the place of the Ethernet type in it. */
static const struct link {
	int type;
	unsigned size, proto_at;
} links[] = {
	{ DLT_EN10MB, 14, 12 },
	{ DLT_LINUX_SLL, 16, 14 },
	{ DLT_LINUX_SLL2, 20, 0 },
};

static const struct link *find_link(int type)
{
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (links[i].type == type)
			return &links[i];
	return NULL;
}

bool decode_knows_link(int type)
{
	return find_link(type) != NULL;
}

void decode_frame(int type, const uint8_t *data, size_t captured, size_t length, struct tally *t)
{
	const struct link *link = find_link(type);
	struct bytes b = { data, captured < length ? captured : length, length };

	t->n = 0;
	if (!link) {
		add_one(t, FIELD(link.links_noproto));
	} else if (!have(&b, link->size, FIELD(link.links_toosmall), t)) {
		add_pair(t, FIELD(link.links_total), 0);
	} else {
		skip(&b, link->size);
		decode_packet((uint16_t)be16(data + link->proto_at), b.at, b.captured, b.length, t);
	}
}
