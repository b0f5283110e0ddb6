/* SPDX-License-Identifier: MIT */
/*
 * freebsd_plugin.c - a plugin with a counter of its own and a name for it.
 */
#include <percpu/freebsd.h>

static counter_u64_t plugged;
COUNTER_U64_SYSINIT(plugged);

SYSCTL_NODE(_dev, OID_AUTO, plugin, CTLFLAG_RD, NULL, "a plugin");
SYSCTL_COUNTER_U64(_dev_plugin, OID_AUTO, plugged, CTLFLAG_RD, &plugged, "how often");
