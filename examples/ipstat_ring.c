/* SPDX-License-Identifier: MIT */
/*
 * ipstat_ring.c - packets from an interface: AF_PACKET sockets of one fanout group, each with a
 * ring of slots that kernel and worker share.
 *
 * The parent opens all rings before it forks. A ring therefore outlives the worker that empties
 * it: packets that arrive meanwhile stay in its slots for the successor. A worker gives a slot
 * back to the kernel only when its packet is counted, so a thread that dies has at most one
 * packet in hand, and its place on the board tells whether it had one. That packet cannot be
 * counted exactly: it takes several commits, and the successor cannot tell which of them were
 * made. It is set aside, and the check tolerates the counts that it would have added.
 *
 * The group deals the packets out in turn (PACKET_FANOUT_LB). A program that follows connections
 * would use PACKET_FANOUT_HASH; here all workers count packets of the same connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipstat.h"

enum {
	SLOT_SIZE = 256, /* 176 bytes of packet: all headers, with options */
	BLOCK_SIZE = 1 << 20,
	BLOCKS = 8,
	SLOTS = BLOCK_SIZE / SLOT_SIZE * BLOCKS, /* packets that wait for a dead worker */
	POLL_MS = 100,
};

static int set_option(int fd, int option, const void *value, socklen_t size)
{
	return setsockopt(fd, SOL_PACKET, option, value, size) ? -errno : 0;
}

static int set_filter(int fd, struct sock_filter *filter, unsigned short size)
{
	struct sock_fprog program = { size, filter };

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		return -errno;
	return 0;
}

/* Let no packet in: until all sockets have joined the group, each of them would receive every
 * packet. */
static int shut(int fd)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);

	return set_filter(fd, &nothing, 1);
}

/*
 * Let packets in. On a loopback interface every packet passes twice, on its way out and on its
 * way in. Only the way in is counted: the kernel's own counters call that received.
 */
static int unshut(int fd, bool loopback)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, loopback ? 0 : UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};

	return set_filter(fd, filter, sizeof(filter) / sizeof(filter[0]));
}

static bool is_loopback(int fd, const char *interface)
{
	struct ifreq request = { 0 };

	strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
	return ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_LOOPBACK);
}

static int ring_open(struct ring *r, const char *interface, const char **ret_what)
{
	struct tpacket_req layout = { BLOCK_SIZE, BLOCKS, SLOT_SIZE, SLOTS };
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int version = TPACKET_V2, err;
	int fanout = (getpid() & 0xffff) | PACKET_FANOUT_LB << 16;

	*ret_what = "find the interface";
	address.sll_ifindex = (int)if_nametoindex(interface);
	if (!address.sll_ifindex)
		return -errno;
	*ret_what = "open a packet socket";
	r->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (r->fd < 0)
		return -errno;
	*ret_what = "make a ring";
	err = set_option(r->fd, PACKET_VERSION, &version, sizeof(version));
	if (!err)
		err = set_option(r->fd, PACKET_RX_RING, &layout, sizeof(layout));
	if (err)
		return err;
	r->slots =
		mmap(NULL, (size_t)SLOTS * SLOT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->slots == MAP_FAILED) {
		r->slots = NULL;
		return -errno;
	}
	*ret_what = "bind to the interface";
	err = shut(r->fd);
	if (!err && bind(r->fd, (struct sockaddr *)&address, sizeof(address)))
		err = -errno;
	if (err)
		return err;
	*ret_what = "join the fanout group";
	return set_option(r->fd, PACKET_FANOUT, &fanout, sizeof(fanout));
}

int rings_permitted(void)
{
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int rings_open(const char *interface, unsigned n, struct ring **ret, const char **ret_what)
{
	struct ring *rings = calloc(n, sizeof(*rings));
	int err = 0;

	*ret_what = "allocate memory";
	if (!rings)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		rings[i].fd = -1;
	for (unsigned i = 0; i < n && !err; i++)
		err = ring_open(&rings[i], interface, ret_what);
	for (unsigned i = 0; i < n && !err; i++)
		err = unshut(rings[i].fd, is_loopback(rings[i].fd, interface));
	if (err) {
		rings_close(rings, n);
		return err;
	}
	*ret = rings;
	return 0;
}

void rings_close(struct ring *rings, unsigned n)
{
	if (!rings)
		return;
	for (unsigned i = 0; i < n; i++) {
		if (rings[i].slots)
			munmap(rings[i].slots, (size_t)SLOTS * SLOT_SIZE);
		if (rings[i].fd >= 0)
			close(rings[i].fd);
	}
	free(rings);
}

void rings_shut(struct ring *rings, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		(void)shut(rings[i].fd);
}

void rings_totals(struct ring *rings, unsigned n, struct ring_totals *t)
{
	struct tpacket_stats s; /* since the last call; packets include drops */
	socklen_t size = sizeof(s);

	*t = (struct ring_totals){ 0 };
	for (unsigned i = 0; i < n; i++) {
		if (getsockopt(rings[i].fd, SOL_PACKET, PACKET_STATISTICS, &s, &size) == 0) {
			rings[i].totals.captured += s.tp_packets - s.tp_drops;
			rings[i].totals.dropped += s.tp_drops;
		}
		t->captured += rings[i].totals.captured;
		t->dropped += rings[i].totals.dropped;
	}
}

static struct tpacket2_hdr *slot_of(const struct ring *r, uint64_t packet)
{
	return (struct tpacket2_hdr *)(r->slots + packet % SLOTS * SLOT_SIZE);
}

static bool slot_filled(const struct tpacket2_hdr *h)
{
	return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

unsigned ring_waiting(const struct ring *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		n += slot_filled(slot_of(r, i));
	return n;
}

static void slot_release(struct tpacket2_hdr *h)
{
	__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

_Static_assert(sizeof(struct tpacket2_hdr) % TPACKET_ALIGNMENT == 0, "the address comes next");

static void slot_decode(const struct tpacket2_hdr *h, struct tally *t)
{
	const uint8_t *slot = (const uint8_t *)h;
	const struct sockaddr_ll *from = (const struct sockaddr_ll *)(h + 1);

	decode_packet(ntohs(from->sll_protocol), slot + h->tp_net, h->tp_snaplen, h->tp_len, t);
}

/*
 * Go on where a killed worker stopped, if one did. Returns the next packet.
 *
 * Suppose that a worker was killed between giving a slot back and noting that, and that the
 * kernel has filled the slot again. Then the worker seems to have had the packet in hand. So the
 * successor sets aside a packet that no worker counted; the tolerance is the same.
 */
static uint64_t take_over(struct ring *r, const struct worker *w)
{
	bool in_hand;
	uint64_t k = worker_next(w, &in_hand);
	struct tpacket2_hdr *h = slot_of(r, k);
	struct tally t;

	if (!in_hand)
		return k;
	if (slot_filled(h)) {
		slot_decode(h, &t);
		worker_set_aside(w, &t);
		slot_release(h);
	} /* else: the slot was given back, so its packet is counted */
	worker_done(w, k);
	return k + 1;
}

int ring_run(struct ring *r, const struct worker *w)
{
	struct pollfd ready = { .fd = r->fd, .events = POLLIN };
	uint64_t k = take_over(r, w);
	struct tally t;

	for (;;) {
		int stop = __atomic_load_n(&w->board->stop, __ATOMIC_ACQUIRE);
		struct tpacket2_hdr *h = slot_of(r, k);

		if (slot_filled(h)) {
			slot_decode(h, &t);
			worker_count(w, k, &t);
			slot_release(h);
			worker_done(w, k);
			k++;
		} else if (stop) {
			return 0;
		} else if (poll(&ready, 1, POLL_MS) < 0 && errno != EINTR) {
			return -errno;
		}
	}
}
