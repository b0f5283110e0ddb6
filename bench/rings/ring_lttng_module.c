/* SPDX-License-Identifier: MIT */
/*
 * ring_lttng_module.c - emit the events of ring_lttng_events.h. ring_lttng.cc loads it when
 * there is a session to record them: lttng-ust enables a module's events while it is loaded.
 */
#include <string.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ring_lttng_events.h"

#include "ring_lttng.h"

/* Each event begins with its number. */
#define EMIT(event)                                                                                \
	do {                                                                                       \
		for (uint64_t i = 0; i < n; i++) {                                                 \
			memcpy(payload, &i, sizeof(i));                                            \
			lttng_ust_tracepoint(percpu_ring, event, payload);                         \
		}                                                                                  \
	} while (0)

void ring_lttng_emit(int drop, size_t size, uint64_t n)
{
	uint8_t payload[256] = { 0 };

	switch (size + (drop ? 1 : 0)) {
	case 8:
		EMIT(overwrite8);
		break;
	case 9:
		EMIT(drop8);
		break;
	case 16:
		EMIT(overwrite16);
		break;
	case 17:
		EMIT(drop16);
		break;
	case 64:
		EMIT(overwrite64);
		break;
	case 65:
		EMIT(drop64);
		break;
	case 256:
		EMIT(overwrite256);
		break;
	default:
		EMIT(drop256);
	}
}
