/* SPDX-License-Identifier: MIT */
/*
 * device.c - DPDK without hardware, huge pages or privileges: two ports with a queue per lcore.
 * A packet that is sent to a queue of a net_ring comes back from it, so packets go round between
 * the ports; a net_null has any number of them.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "l2fwd.h"

enum { DESCRIPTORS = 512, PACKETS_PER_QUEUE = 64, CACHE = 128, POOL = 8191, BUFFER = 128 };

static struct rte_mempool *pool;

/* Place lcores: "0@4,1@6" is lcore 0 on the first CPU that this process may use, and so on. With
 * fewer CPUs than lcores some share one. */
static int place_lcores(unsigned lcores, char *text, size_t size)
{
	cpu_set_t allowed;
	size_t at = (size_t)snprintf(text, size, "--lcores=");

	if (sched_getaffinity(0, sizeof(allowed), &allowed)) {
		complain("cannot tell which CPUs this process may use");
		return -1;
	}
	for (unsigned cpu = 0, placed = 0; placed < lcores; cpu = (cpu + 1) % CPU_SETSIZE)
		if (CPU_ISSET(cpu, &allowed)) {
			at += (size_t)snprintf(text + at, size - at, "%s%u@%u", placed ? "," : "",
					       placed, cpu);
			placed++;
		}
	return 0;
}

static int start_eal(const struct options *o)
{
	char lcores[256], devices[PORTS][64], telemetry[128] = "--no-telemetry";
	char *args[] = { "l2fwd", "--no-shconf",       "--no-huge", "--no-pci", telemetry,  "-m",
			 "64",	  "--log-level=error", lcores,	    devices[0], devices[1], NULL };

	for (unsigned i = 0; i < PORTS; i++)
		if (strcmp(o->device, "null") == 0)
			snprintf(devices[i], sizeof(devices[i]), "--vdev=net_null%u,size=%d", i,
				 FRAME);
		else
			snprintf(devices[i], sizeof(devices[i]), "--vdev=net_ring%u", i);
	if (o->telemetry) {
		snprintf(telemetry, sizeof(telemetry), "--file-prefix=%s", o->telemetry);
		if (telemetry_open())
			return -1;
	}
	if (place_lcores(o->lcores, lcores, sizeof(lcores)))
		return -1;
	if (rte_eal_init((int)(sizeof(args) / sizeof(args[0])) - 1, args) < 0) {
		complain("DPDK does not start: %s; its own words are above",
			 rte_strerror(rte_errno));
		return -1;
	}
	if (rte_eth_dev_count_avail() == PORTS)
		return 0;
	complain("DPDK made %u of %d net_%s ports; is that driver installed?",
		 rte_eth_dev_count_avail(), PORTS, o->device);
	return -1;
}

static int start_port(uint16_t port, uint16_t queues)
{
	static const struct rte_eth_conf conf;
	int err = rte_eth_dev_configure(port, queues, queues, &conf);

	for (uint16_t q = 0; err == 0 && q < queues; q++) {
		err = rte_eth_rx_queue_setup(port, q, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool);
		if (err == 0)
			err = rte_eth_tx_queue_setup(port, q, DESCRIPTORS, SOCKET_ID_ANY, NULL);
	}
	if (err == 0)
		err = rte_eth_dev_start(port);
	if (err == 0)
		return 0;
	complain("cannot start port %u with %u queues: %s", port, queues, rte_strerror(-err));
	return -1;
}

/* Put packets into this queue, which will come back from it. */
static int fill_queue(uint16_t port, uint16_t queue)
{
	struct rte_mbuf *packets[PACKETS_PER_QUEUE];

	if (rte_pktmbuf_alloc_bulk(pool, packets, PACKETS_PER_QUEUE)) {
		complain("no memory for packets");
		return -1;
	}
	for (int i = 0; i < PACKETS_PER_QUEUE; i++)
		memset(rte_pktmbuf_append(packets[i], FRAME), i, FRAME);
	if (rte_eth_tx_burst(port, queue, packets, PACKETS_PER_QUEUE) == PACKETS_PER_QUEUE)
		return 0;
	complain("port %u does not take the first packets", port);
	return -1;
}

int device_open(const struct options *o)
{
	uint16_t port;

	if (start_eal(o))
		return -1;
	pool = rte_pktmbuf_pool_create("packets", POOL, CACHE, 0, RTE_PKTMBUF_HEADROOM + BUFFER,
				       SOCKET_ID_ANY);
	if (!pool) {
		complain("no memory for packets: %s", rte_strerror(rte_errno));
		return -1;
	}
	RTE_ETH_FOREACH_DEV(port)
	{
		if (start_port(port, (uint16_t)o->lcores))
			return -1;
		for (uint16_t q = 0; strcmp(o->device, "ring") == 0 && q < o->lcores; q++)
			if (fill_queue(port, q))
				return -1;
	}
	return 0;
}

void device_close(void)
{
	uint16_t port;

	RTE_ETH_FOREACH_DEV(port)
	{
		(void)rte_eth_dev_stop(port);
		(void)rte_eth_dev_close(port);
	}
	(void)rte_eal_cleanup();
}
