/* SPDX-License-Identifier: MIT */
/*
 * ring_lttng_events.h - the events of ring.cc as tracepoints of lttng-ust: bytes of four sizes,
 * for a channel that overwrites and for one that drops. lttng-ust includes this file several
 * times, each time with other macros.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER percpu_ring

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "ring_lttng_events.h"

#if !defined(BENCH_RING_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_RING_LTTNG_EVENTS_H

#include <stdint.h>

#include <lttng/tracepoint.h>

/* clang-format off */
#define RING_LTTNG_EVENT(event, size)                                                              \
	LTTNG_UST_TRACEPOINT_EVENT(percpu_ring, event,                                             \
		LTTNG_UST_TP_ARGS(const uint8_t *, payload),                                       \
		LTTNG_UST_TP_FIELDS(lttng_ust_field_array(uint8_t, payload, payload, size)))

RING_LTTNG_EVENT(overwrite8, 8)
RING_LTTNG_EVENT(overwrite16, 16)
RING_LTTNG_EVENT(overwrite64, 64)
RING_LTTNG_EVENT(overwrite256, 256)
RING_LTTNG_EVENT(drop8, 8)
RING_LTTNG_EVENT(drop16, 16)
RING_LTTNG_EVENT(drop64, 64)
RING_LTTNG_EVENT(drop256, 256)
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
