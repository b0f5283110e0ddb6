/* SPDX-License-Identifier: MIT */
/*
 * packet_filter.h - a packet filter's statistics: packet_filter.c.
 */
#ifndef PACKET_FILTER_H
#define PACKET_FILTER_H

#include <stdint.h>

enum { FILTER_PASS, FILTER_BLOCK, FILTER_LARGEST, FILTER_STATS };

struct filter;

struct filter *filter_create(void);
void filter_destroy(struct filter *f);
void filter_packet(struct filter *f, int block, uint64_t size);
void filter_stats(struct filter *f, uint64_t stats[FILTER_STATS]);
unsigned filter_cpus(struct filter *f);

#endif
