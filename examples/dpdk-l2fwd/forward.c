/* SPDX-License-Identifier: MIT */
/*
 * forward.c - the work of the lcores: take packets from a port, swap their MAC addresses, count
 * them, send them to the other port; free and count as drops those that it does not take. A
 * control thread, which is no lcore, looks at the links meanwhile and counts in the same
 * objects.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "count.h"

enum { BURST = 32, WIRE_OVERHEAD = RTE_ETHER_CRC_LEN + 20 };

ALWAYS_INLINE void swap_addresses(struct rte_mbuf *m)
{
	struct rte_ether_hdr *h = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
	struct rte_ether_addr to = h->dst_addr;

	h->dst_addr = h->src_addr;
	h->src_addr = to;
}

/* Count packets in each scope. */
ALWAYS_INLINE void count_tally(const struct work *w, const struct worker *self, unsigned port,
			       enum way way, unsigned scopes, unsigned group, const struct tally *t)
{
	const struct tally all[SCOPES] = { *t, *t, *t, *t };

	count(&w->places, way, group, self->queue, port, (const uint64_t *)all,
	      scopes * TALLY_WORDS);
}

/* Forward a burst of packets from a port, in one way of counting. */
ALWAYS_INLINE void forward_burst(const struct work *w, struct worker *self, unsigned port,
				 enum way way, unsigned scopes, unsigned group)
{
	struct rte_mbuf *burst[BURST];
	uint16_t n = rte_eth_rx_burst((uint16_t)port, self->queue, burst, BURST), sent;
	struct tally sum = { 0 };

	for (uint16_t i = 0; i < n; i++) {
		struct tally one = { 1, burst[i]->pkt_len, burst[i]->pkt_len + WIRE_OVERHEAD,
				     burst[i]->nb_segs };

		swap_addresses(burst[i]);
		if (way == COUNT_OURS_BURST)
			tally_add(&sum, &one);
		else
			count_tally(w, self, port, way, scopes, group, &one);
	}
	if (way == COUNT_OURS_BURST && n > 0)
		count_tally(w, self, port, way, scopes, group, &sum);
	self->handled[port] += n;
	sent = rte_eth_tx_burst((uint16_t)(port ^ 1), self->queue, burst, n);
	if (sent == n)
		return;
	self->dropped[port] += (unsigned)(n - sent);
	COUNT_FIELD(&w->places, way, self->queue, port, drops, (unsigned)(n - sent));
	rte_pktmbuf_free_bulk(burst + sent, (unsigned)(n - sent));
}

/* Wait while an lcore is ahead of its rate. It sleeps for a millisecond, and then catches up. */
static void pace(const struct work *w, const struct worker *self, double begin)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while ((double)(self->handled[0] + self->handled[1]) > w->rate * (now() - begin) &&
	       !__atomic_load_n(&w->stop, __ATOMIC_RELAXED))
		nanosleep(&pause, NULL);
}

ALWAYS_INLINE void forward(const struct work *w, struct worker *self, enum way way, unsigned scopes,
			   unsigned group)
{
	const double begin = now();

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		for (unsigned port = 0; port < PORTS; port++)
			forward_burst(w, self, port, way, scopes, group);
		if (w->rate > 0)
			pace(w, self, begin);
	}
}

/* Each way has its own loop, so that no packet pays for the choice. */
ALWAYS_INLINE void forward_ours(const struct work *w, struct worker *self, enum way way,
				unsigned scopes)
{
	switch (percpu_stats_commit_words(PERCPU_STATS_OF(w->places.stats))) {
	case 2:
		forward(w, self, way, scopes, 2);
		break;
	case 4:
		forward(w, self, way, scopes, 4);
		break;
	default:
		forward(w, self, way, scopes, scopes == 1 ? TALLY_WORDS : 8);
	}
}

ALWAYS_INLINE void forward_way(const struct work *w, struct worker *self, unsigned scopes)
{
	switch (w->way) {
	case COUNT_LCORE:
		forward(w, self, COUNT_LCORE, scopes, 0);
		break;
	case COUNT_OURS:
		forward_ours(w, self, COUNT_OURS, scopes);
		break;
	case COUNT_OURS_BURST:
		forward_ours(w, self, COUNT_OURS_BURST, scopes);
		break;
	case COUNT_OURS_ADDS:
		forward(w, self, COUNT_OURS_ADDS, scopes, 1);
		break;
	case COUNT_OURS_WHOLE:
		forward(w, self, COUNT_OURS_WHOLE, scopes, scopes * TALLY_WORDS);
		break;
	case COUNT_ATOMIC:
		forward(w, self, COUNT_ATOMIC, scopes, 0);
		break;
	case COUNT_RACY:
		forward(w, self, COUNT_RACY, scopes, 0);
		break;
	default:
		forward(w, self, COUNT_NONE, scopes, 0);
	}
}

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int lcore_main(void *arg)
{
	struct work *w = arg;
	struct worker *self = &w->workers[rte_lcore_id()];

	self->queue = (uint16_t)rte_lcore_id();
	self->elapsed = now();
	self->seconds = cpu_time();
	if (w->scopes == 1)
		forward_way(w, self, 1);
	else
		forward_way(w, self, SCOPES);
	self->seconds = cpu_time() - self->seconds;
	self->elapsed = now() - self->elapsed;
	return 0;
}

static void *control_main(void *arg)
{
	struct work *w = arg;
	const struct timespec pause = { .tv_nsec = 1000000 };
	double end = now() + w->seconds;
	struct rte_eth_link link;

	while (now() < end && !interrupted()) {
		for (unsigned port = 0; port < PORTS; port++) {
			(void)rte_eth_link_get_nowait((uint16_t)port, &link);
			COUNT_FIELD(&w->places, w->way, MOST_LCORES, port, polls, 1);
		}
		w->polls++;
		nanosleep(&pause, NULL);
	}
	__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
	return NULL;
}

int forward_all(struct work *w, unsigned lcores)
{
	pthread_t control;
	int err;

	err = pthread_create(&control, NULL, control_main, w);
	if (err) {
		complain("cannot start the control thread: %s", strerror(err));
		return -1;
	}
	err = rte_eal_mp_remote_launch(lcore_main, w, CALL_MAIN);
	if (err) {
		complain("cannot start %u lcores: %s", lcores, strerror(-err));
		__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
	}
	rte_eal_mp_wait_lcore();
	pthread_join(control, NULL);
	return err ? -1 : 0;
}
