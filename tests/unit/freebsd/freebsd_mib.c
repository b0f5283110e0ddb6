/* SPDX-License-Identifier: MIT */
/*
 * freebsd_mib.c - a source that defines the nodes which FreeBSD's sys/sysctl.h declares, as
 * kern_mib.c does, and others elsewhere in the kernel.
 */
#include <percpu/freebsd.h>

#include "freebsd_read.h"

#define RW (CTLFLAG_RW | CTLFLAG_MPSAFE)

SYSCTL_ROOT_NODE(0, sysctl, RW, 0, "Sysctl internal magic");
SYSCTL_ROOT_NODE(CTL_KERN, kern, RW | CTLFLAG_CAPRD, 0, "High kernel, proc, limits &c");
SYSCTL_ROOT_NODE(CTL_VM, vm, RW, 0, "Virtual memory");
SYSCTL_ROOT_NODE(CTL_VFS, vfs, RW, 0, "File system");
SYSCTL_ROOT_NODE(CTL_NET, net, RW, 0, "Network, (see socket.h)");
SYSCTL_ROOT_NODE(CTL_DEBUG, debug, RW, 0, "Debugging");
SYSCTL_NODE(_debug, OID_AUTO, sizeof, RW, 0, "Sizeof various things");
SYSCTL_ROOT_NODE(CTL_HW, hw, RW, 0, "hardware");
SYSCTL_ROOT_NODE(CTL_MACHDEP, machdep, RW, 0, "machine dependent");
SYSCTL_NODE(_machdep, OID_AUTO, mitigations, RW, 0, "Machine dependent platform mitigations.");
SYSCTL_ROOT_NODE(CTL_USER, user, RW, 0, "user-level");
SYSCTL_ROOT_NODE(CTL_P1003_1B, p1003_1b, RW, 0, "p1003_1b, (see p1003_1b.h)");
SYSCTL_ROOT_NODE(OID_AUTO, compat, RW, 0, "Compatibility code");
SYSCTL_ROOT_NODE(OID_AUTO, security, RW, 0, "Security");
SYSCTL_NODE(_security, OID_AUTO, bsd, RW, 0, "BSD security policy");
SYSCTL_ROOT_NODE(OID_AUTO, regression, RW, 0, "Regression test MIB");
SYSCTL_ROOT_NODE(OID_AUTO, dev, CTLFLAG_RW, NULL, "Devices");
SYSCTL_NODE(_hw, OID_AUTO, bus, CTLFLAG_RW, NULL, "Buses");
SYSCTL_NODE(_hw_bus, OID_AUTO, devices, CTLFLAG_RW, NULL, "Their devices");
SYSCTL_NODE(_kern, OID_AUTO, features, CTLFLAG_RD, 0, "Kernel features");
SYSCTL_NODE(_kern, KERN_IPC, ipc, CTLFLAG_RW, 0, "IPC");
SYSCTL_NODE(_kern, KERN_PROC, proc, CTLFLAG_RD, 0, "Process table");
SYSCTL_NODE(_kern, OID_AUTO, sched, CTLFLAG_RD, 0, "Scheduler");
SYSCTL_NODE(_kern_sched, OID_AUTO, stats, CTLFLAG_RW, 0, "Switches");
SYSCTL_NODE(_vm, OID_AUTO, stats, CTLFLAG_RW, 0, "VM meter stats");
SYSCTL_NODE(_vm_stats, OID_AUTO, misc, CTLFLAG_RW, 0, "VM meter misc stats");

static counter_u64_t counters[2];
SYSCTL_COUNTER_U64(_kern, OID_AUTO, of_mib, CTLFLAG_RD, &counters[0], "below a root of this unit");
SYSCTL_COUNTER_U64(_p1003_1b, OID_AUTO, of_mib, CTLFLAG_RD, &counters[1], "below a new root");

void mib_counts(void)
{
	COUNTER_ARRAY_ALLOC(counters, 2, M_WAITOK);
	counter_u64_add(counters[0], 7);
	counter_u64_add(counters[1], 8);
	assert_int_equal(read_one("kern.of_mib"), 7);
	assert_int_equal(read_one("p1003_1b.of_mib"), 8);
	COUNTER_ARRAY_FREE(counters, 2);
}
