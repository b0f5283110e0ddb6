/* SPDX-License-Identifier: MIT */
/*
 * ipstat_traffic.c - a network of its own, and real traffic in it.
 *
 * In a new network namespace no other process sends, so the kernel's counters can be compared to
 * the last packet. Segmentation offload is off: with it, one captured packet may be several
 * segments on the wire.
 */
#define _GNU_SOURCE /* unshare */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipstat.h"

enum {
	MTU = 1500,
	BULK = 32768,	/* bytes per connection and round */
	DATAGRAMS = 20, /* per round */
	ECHOS = 5,
	ROUND_US = 1000,
	WAIT_MS = 1000, /* ms to wait until everything sent has arrived */
};

static int offload_off(int fd, struct ifreq *request, uint32_t command)
{
	struct ethtool_value value = { .cmd = command, .data = 0 };

	request->ifr_data = (char *)&value;
	return ioctl(fd, SIOCETHTOOL, request) ? -errno : 0;
}

static int loopback_up(int fd)
{
	struct ifreq request = { .ifr_name = "lo" };
	int err = offload_off(fd, &request, ETHTOOL_STSO);

	if (!err)
		err = offload_off(fd, &request, ETHTOOL_SGSO);
	if (!err)
		err = offload_off(fd, &request, ETHTOOL_SGRO);
	if (err)
		return err;
	request.ifr_mtu = MTU;
	if (ioctl(fd, SIOCSIFMTU, &request))
		return -errno;
	if (ioctl(fd, SIOCGIFFLAGS, &request))
		return -errno;
	request.ifr_flags |= IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &request) ? -errno : 0;
}

int network_own(void)
{
	int fd, err;

	if (unshare(CLONE_NEWNET)) {
		err = -errno;
		/* A user without that permission can be root of a new user namespace. */
		if (err != -EPERM || unshare(CLONE_NEWUSER | CLONE_NEWNET))
			return err;
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = loopback_up(fd);
	close(fd);
	return err;
}

union address {
	struct sockaddr any;
	struct sockaddr_in ip4;
	struct sockaddr_in6 ip6;
};

static socklen_t address_size(const union address *a)
{
	return a->any.sa_family == AF_INET6 ? sizeof(a->ip6) : sizeof(a->ip4);
}

static void loopback_address(int family, union address *ret)
{
	*ret = (union address){ 0 };
	if (family == AF_INET6) {
		ret->ip6.sin6_family = AF_INET6;
		ret->ip6.sin6_addr = in6addr_loopback;
	} else {
		ret->ip4.sin_family = AF_INET;
		ret->ip4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
}

/* Return a socket bound to a free port of the loopback address, or -1. */
static int bound_socket(int family, int type, union address *ret)
{
	socklen_t size;
	int fd = socket(family, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	loopback_address(family, ret);
	size = address_size(ret);
	if (bind(fd, &ret->any, size) || getsockname(fd, &ret->any, &size)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Return a socket with a time limit on receiving, connected to an address, or -1. */
static int connected_socket(const union address *to)
{
	struct timeval limit = { WAIT_MS / 1000, 0 };
	int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
	    connect(fd, &to->any, address_size(to))) {
		close(fd);
		return -1;
	}
	return fd;
}

static ssize_t receive(int fd, void *buffer, size_t size)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, WAIT_MS) == 1 ? recv(fd, buffer, size, 0) : -1;
}

static bool receive_all(int fd, size_t size)
{
	char buffer[BULK];

	while (size > 0) {
		ssize_t n = receive(fd, buffer, size < BULK ? size : BULK);

		if (n <= 0)
			return false;
		size -= (size_t)n;
	}
	return true;
}

/* The sockets of one address family; -1 means none. */
struct peer {
	int listener, bulk_in, bulk_out; /* TCP */
	int udp;
	union address tcp_at, udp_at, nobody_at;
};

static void peer_open(int family, struct peer *p)
{
	int nobody;

	*p = (struct peer){ .listener = -1, .bulk_in = -1, .bulk_out = -1 };
	p->udp = bound_socket(family, SOCK_DGRAM, &p->udp_at);
	p->listener = bound_socket(family, SOCK_STREAM, &p->tcp_at);
	if (p->listener >= 0 && listen(p->listener, 16) == 0) {
		p->bulk_out = connected_socket(&p->tcp_at);
		p->bulk_in = p->bulk_out < 0 ? -1 : accept(p->listener, NULL, NULL);
	}
	/* A port that was free a moment ago: packets to it are refused. */
	nobody = bound_socket(family, SOCK_STREAM, &p->nobody_at);
	close(nobody);
}

static void peer_close(const struct peer *p)
{
	const int fds[] = { p->bulk_out, p->bulk_in, p->listener, p->udp };

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void send_bulk(const struct peer *p)
{
	static const char data[BULK];

	if (p->bulk_in >= 0 && send(p->bulk_out, data, sizeof(data), MSG_NOSIGNAL) == sizeof(data))
		(void)receive_all(p->bulk_in, sizeof(data));
}

/* Open a connection, use it once and close it; and try one that is refused. */
static void send_short(const struct peer *p)
{
	char byte = 0;
	int out, in;

	if (p->bulk_in < 0)
		return;
	out = connected_socket(&p->tcp_at);
	if (out >= 0) {
		in = accept(p->listener, NULL, NULL);
		if (send(out, &byte, 1, MSG_NOSIGNAL) == 1)
			(void)receive_all(in, 1);
		close(out);
		close(in);
	}
	out = connected_socket(&p->nobody_at);
	if (out >= 0)
		close(out);
}

/* Send datagrams of growing size, the last in fragments; and one that is refused. */
static void send_datagrams(const struct peer *p)
{
	static const char data[3 * MTU];
	static char buffer[sizeof(data)];

	if (p->udp < 0)
		return;
	for (unsigned i = 0; i < DATAGRAMS; i++) {
		size_t size = i == DATAGRAMS - 1 ? sizeof(data) : (i + 1) * 64;

		if (sendto(p->udp, data, size, 0, &p->udp_at.any, address_size(&p->udp_at)) > 0)
			(void)receive(p->udp, buffer, sizeof(buffer));
	}
	(void)sendto(p->udp, data, 1, 0, &p->nobody_at.any, address_size(&p->nobody_at));
}

static uint16_t checksum(const void *data, size_t size)
{
	const uint8_t *p = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < size; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* Send echo requests. A raw socket receives the request, too, and the unreachables. */
static void send_echos(int fd, uint16_t sequence)
{
	union address to;
	uint8_t message[64] = { ICMP_ECHO, 0, 0, 0, 0, 1 };
	char buffer[2048];
	uint16_t sum;

	loopback_address(AF_INET, &to);
	memcpy(message + 6, &sequence, sizeof(sequence));
	sum = checksum(message, sizeof(message));
	memcpy(message + 2, &sum, sizeof(sum));
	for (unsigned i = 0; i < ECHOS; i++)
		(void)sendto(fd, message, sizeof(message), 0, &to.any, sizeof(to.ip4));
	while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
		;
}

void traffic_run(unsigned seconds)
{
	int icmp = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	double end = now() + seconds;
	struct peer peers[2];

	/* Workers have priority, as packets that they cannot take in time are dropped. */
	(void)setpriority(PRIO_PROCESS, 0, 10);
	peer_open(AF_INET, &peers[0]);
	peer_open(AF_INET6, &peers[1]);
	for (uint16_t round = 0; now() < end; round++) {
		for (unsigned i = 0; i < 2; i++) {
			send_bulk(&peers[i]);
			send_datagrams(&peers[i]);
			if (round % 8 == 0)
				send_short(&peers[i]);
		}
		send_echos(icmp, round);
		usleep(ROUND_US);
	}
	peer_close(&peers[0]);
	peer_close(&peers[1]);
	close(icmp);
}
