/* SPDX-License-Identifier: MIT */
/*
 * ipstat_check.c - check the totals: compare them with the kernel's counts, or with the known
 * content of a capture file.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipstat.h"

/*
 * The fields that the kernel counts, too, and the kernel's names for them: "group:name" is in
 * /proc/net/snmp or netstat, a name alone in /proc/net/snmp6, and the counters of lo are in
 * /proc/net/dev (/sys shows the network namespace in which it was mounted).
 */
static const struct row {
	const char *what;
	size_t field;
	const char *kernel[2]; /* the sum of both */
} rows[KERNEL_ROWS] = {
	{ "packets on lo", FIELD(link.links_total), { "lo:packets" } },
	{ "bytes on lo", FIELD(link.links_bytes), { "lo:bytes" } },
	{ "IPv4 packets", FIELD(ip.ips_total), { "Ip:InReceives" } },
	{ "IPv4 bytes", FIELD(ip.ips_bytes), { "IpExt:InOctets" } },
	{ "IPv4 fragments", FIELD(ip.ips_fragments), { "Ip:ReasmReqds" } },
	{ "IPv6 packets", FIELD(ip6.ips_total), { "Ip6InReceives" } },
	{ "IPv6 bytes", FIELD(ip6.ips_bytes), { "Ip6InOctets" } },
	{ "IPv6 fragments", FIELD(ip6.ips_fragments), { "Ip6ReasmReqds" } },
	{ "TCP segments", FIELD(tcp.tcps_rcvtotal), { "Tcp:InSegs" } },
	{ "TCP SYN", FIELD(tcp.tcps_syn), { "Tcp:ActiveOpens" } },
	{ "TCP SYN+ACK", FIELD(tcp.tcps_synack), { "Tcp:PassiveOpens" } },
	{ "TCP RST", FIELD(tcp.tcps_rst), { "Tcp:OutRsts" } },
	{ "UDP datagrams", FIELD(udp.udps_ipackets), { "Udp:OutDatagrams", "Udp6OutDatagrams" } },
	{ "ICMP messages", FIELD(icmp.icps_total), { "Icmp:InMsgs" } },
	{ "ICMP echo requests", FIELD(icmp.icps_echo), { "Icmp:InEchos" } },
	{ "ICMP echo replies", FIELD(icmp.icps_echoreply), { "Icmp:InEchoReps" } },
	{ "ICMP unreachables", FIELD(icmp.icps_unreach), { "Icmp:InDestUnreachs" } },
	{ "ICMPv6 messages", FIELD(icmp6.icps_total), { "Icmp6InMsgs" } },
};

enum { TEXT = 16384 };

/* Read one file of /proc/net. The text is empty if there is none (no IPv6). */
static void read_text(const char *path, char text[TEXT])
{
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, TEXT - 1, f) : 0;

	text[n] = '\0';
	if (f)
		fclose(f);
}

/* Find a number in two lines that start with "group:", one of names and one of numbers. */
static bool find_pair(const char *text, const char *group, size_t group_size, const char *name,
		      uint64_t *ret)
{
	char names[8192], numbers[8192], *n_at, *v_at, *n, *v;
	const char *line = text, *second;

	while (line && strncmp(line, group, group_size) != 0) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	second = line ? strchr(line, '\n') : NULL;
	if (!second)
		return false;
	snprintf(names, sizeof(names), "%.*s", (int)(second - line), line);
	snprintf(numbers, sizeof(numbers), "%.*s", (int)strcspn(second + 1, "\n"), second + 1);
	n = strtok_r(names, " ", &n_at);
	v = strtok_r(numbers, " ", &v_at);
	while (n && v) {
		if (strcmp(n, name) == 0) {
			*ret = strtoull(v, NULL, 10);
			return true;
		}
		n = strtok_r(NULL, " ", &n_at);
		v = strtok_r(NULL, " ", &v_at);
	}
	return false;
}

/* Find a number in lines of a name and a number. */
static bool find_single(const char *text, const char *name, uint64_t *ret)
{
	const char *at = text;
	size_t size = strlen(name);

	while ((at = strstr(at, name)) != NULL) {
		if ((at == text || at[-1] == '\n') && strchr(" \t", at[size])) {
			*ret = strtoull(at + size, NULL, 10);
			return true;
		}
		at += size;
	}
	return false;
}

static bool find_device(const char *text, const char *name, uint64_t *ret)
{
	const char *at = strstr(text, "lo:");
	uint64_t bytes, packets;

	if (!at || sscanf(at, "lo: %" SCNu64 " %" SCNu64, &bytes, &packets) != 2)
		return false;
	*ret = strcmp(name, "lo:bytes") == 0 ? bytes : packets;
	return true;
}

struct texts {
	char snmp[TEXT], netstat[TEXT], snmp6[TEXT], dev[TEXT];
};

static uint64_t kernel_value(const struct texts *t, const char *name)
{
	const char *colon = strchr(name, ':');
	uint64_t value = 0;

	if (!colon) {
		(void)find_single(t->snmp6, name, &value);
	} else if (strncmp(name, "lo:", 3) == 0) {
		(void)find_device(t->dev, name, &value);
	} else {
		size_t group = (size_t)(colon - name) + 1;

		if (!find_pair(t->snmp, name, group, colon + 1, &value))
			(void)find_pair(t->netstat, name, group, colon + 1, &value);
	}
	return value;
}

void kernel_read(struct kernel_counts *k)
{
	static struct texts t;

	read_text("/proc/self/net/snmp", t.snmp);
	read_text("/proc/self/net/netstat", t.netstat);
	read_text("/proc/self/net/snmp6", t.snmp6);
	read_text("/proc/self/net/dev", t.dev);
	for (unsigned i = 0; i < KERNEL_ROWS; i++) {
		k->row[i] = kernel_value(&t, rows[i].kernel[0]);
		if (rows[i].kernel[1])
			k->row[i] += kernel_value(&t, rows[i].kernel[1]);
	}
}

static void print_tolerance(const struct board *board, uint64_t dropped)
{
	if (board->doubtful)
		printf("Killed workers had %" PRIu64
		       " packets in hand. Each may be counted, in part "
		       "counted or not, so\nthe lines it belongs to may lack up to what it would "
		       "have added.\n",
		       board->doubtful);
	else
		printf("No killed worker had a packet in hand, so nothing may be missing.\n");
	if (dropped)
		printf("The rings had no room for %" PRIu64
		       " packets, which may be missing, too.\n",
		       dropped);
}

/* Our count may lack packets in doubt, but never exceed the truth. */
static bool print_row(const char *what, uint64_t ours, uint64_t truth, uint64_t may_lack,
		      const char *const source[2])
{
	bool good = ours <= truth && truth - ours <= may_lack;

	printf("%-20s %13" PRIu64 " %13" PRIu64 " %11" PRId64 " %9" PRIu64 "  %-5s %s%s%s\n", what,
	       ours, truth, (int64_t)(ours - truth), may_lack, good ? "ok" : "WRONG", source[0],
	       source[1] ? " + " : "", source[1] ? source[1] : "");
	return good;
}

static bool is_bytes(size_t field)
{
	return field == FIELD(link.links_bytes) || field == FIELD(ip.ips_bytes) ||
	       field == FIELD(ip6.ips_bytes);
}

bool check_kernel(const struct counts *ours, const struct kernel_counts *before,
		  const struct kernel_counts *after, const struct board *board,
		  const struct ring_totals *rings)
{
	bool good = true;

	print_tolerance(board, rings->dropped);
	printf("%-20s %13s %13s %11s %9s\n", "", "counted here", "by the kernel", "difference",
	       "allowed");
	for (unsigned i = 0; i < KERNEL_ROWS; i++) {
		const struct row *row = &rows[i];
		uint64_t may_lack = field_of(&board->in_doubt, row->field);

		may_lack += rings->dropped * (is_bytes(row->field) ? 65536 : 1);
		good &= print_row(row->what, field_of(ours, row->field),
				  after->row[i] - before->row[i], may_lack, row->kernel);
	}
	good &= print_row("captured + dropped", rings->captured + rings->dropped,
			  after->row[0] - before->row[0], 0, rows[0].kernel);
	return good;
}

bool check_sample(const struct counts *ours, const struct counts *known, const struct board *board)
{
	static const char *const no_source[2] = { "", NULL };
	bool good = true;

	print_tolerance(board, 0);
	printf("%-20s %13s %13s %11s %9s\n", "", "counted here", "in the file", "difference",
	       "allowed");
	for (size_t f = 0; f < FIELDS; f++)
		if (field_of(known, f) || field_of(ours, f))
			good &= print_row(field_name(f), field_of(ours, f), field_of(known, f),
					  field_of(&board->in_doubt, f), no_source);
	return good;
}
