/* SPDX-License-Identifier: MIT */
/*
 * sysctl_nodes.h - the nodes that FreeBSD's sys/sysctl.h declares. Names below them refer to
 * these objects. So each unit has them, whether or not the program defines such a node.
 * sysctl.h includes this header.
 */
#ifndef PERCPU_FREEBSD_SYSCTL_NODES_H
#define PERCPU_FREEBSD_SYSCTL_NODES_H

#include <percpu/freebsd/sysctl.h>

/* clang-format off */
#define PERCPU_SYSCTL_KNOWN(id, parent, name)                                  \
	static struct sysctl_oid id __attribute__((__unused__)) = {                \
		{ &id }, parent, name, "", PERCPU_NULL(void *), 0,             \
		PERCPU_SYSCTL_NO_HANDLER, "N", 0,                              \
		CTLTYPE_NODE | CTLFLAG_RW, 0, 1, 0,                            \
		PERCPU_NULL(struct sysctl_oid *)                               \
	}
#define PERCPU_SYSCTL_ROOT(name)                                               \
	PERCPU_SYSCTL_KNOWN(sysctl___##name, PERCPU_SYSCTL_NO_PARENT, #name)
#define PERCPU_SYSCTL_BELOW(parent, name)                                      \
	PERCPU_SYSCTL_KNOWN(sysctl__##parent##_##name,                         \
			    &sysctl__##parent.oid_children, #name)
PERCPU_SYSCTL_ROOT(compat);
PERCPU_SYSCTL_ROOT(debug);
PERCPU_SYSCTL_ROOT(dev);
PERCPU_SYSCTL_ROOT(hw);
PERCPU_SYSCTL_ROOT(kern);
PERCPU_SYSCTL_ROOT(machdep);
PERCPU_SYSCTL_ROOT(net);
PERCPU_SYSCTL_ROOT(regression);
PERCPU_SYSCTL_ROOT(security);
PERCPU_SYSCTL_ROOT(sysctl);
PERCPU_SYSCTL_ROOT(user);
PERCPU_SYSCTL_ROOT(vfs);
PERCPU_SYSCTL_ROOT(vm);
PERCPU_SYSCTL_BELOW(_debug, sizeof);
PERCPU_SYSCTL_BELOW(_hw, bus);
PERCPU_SYSCTL_BELOW(_hw_bus, devices);
PERCPU_SYSCTL_BELOW(_kern, features);
PERCPU_SYSCTL_BELOW(_kern, ipc);
PERCPU_SYSCTL_BELOW(_kern, proc);
PERCPU_SYSCTL_BELOW(_kern, sched);
PERCPU_SYSCTL_BELOW(_kern_sched, stats);
PERCPU_SYSCTL_BELOW(_machdep, mitigations);
PERCPU_SYSCTL_BELOW(_security, bsd);
PERCPU_SYSCTL_BELOW(_vm, stats);
PERCPU_SYSCTL_BELOW(_vm_stats, misc);

/* The identifier of each if the program defines it, behind a comma: PERCPU_SYSCTL_NODE_ID() */
#define PERCPU_SYSCTL_OWN_sysctl___compat , percpu_sysctl___compat
#define PERCPU_SYSCTL_OWN_sysctl___debug , percpu_sysctl___debug
#define PERCPU_SYSCTL_OWN_sysctl___dev , percpu_sysctl___dev
#define PERCPU_SYSCTL_OWN_sysctl___hw , percpu_sysctl___hw
#define PERCPU_SYSCTL_OWN_sysctl___kern , percpu_sysctl___kern
#define PERCPU_SYSCTL_OWN_sysctl___machdep , percpu_sysctl___machdep
#define PERCPU_SYSCTL_OWN_sysctl___net , percpu_sysctl___net
#define PERCPU_SYSCTL_OWN_sysctl___regression , percpu_sysctl___regression
#define PERCPU_SYSCTL_OWN_sysctl___security , percpu_sysctl___security
#define PERCPU_SYSCTL_OWN_sysctl___sysctl , percpu_sysctl___sysctl
#define PERCPU_SYSCTL_OWN_sysctl___user , percpu_sysctl___user
#define PERCPU_SYSCTL_OWN_sysctl___vfs , percpu_sysctl___vfs
#define PERCPU_SYSCTL_OWN_sysctl___vm , percpu_sysctl___vm
#define PERCPU_SYSCTL_OWN_sysctl___debug_sizeof , percpu_sysctl___debug_sizeof
#define PERCPU_SYSCTL_OWN_sysctl___hw_bus , percpu_sysctl___hw_bus
#define PERCPU_SYSCTL_OWN_sysctl___hw_bus_devices , percpu_sysctl___hw_bus_devices
#define PERCPU_SYSCTL_OWN_sysctl___kern_features , percpu_sysctl___kern_features
#define PERCPU_SYSCTL_OWN_sysctl___kern_ipc , percpu_sysctl___kern_ipc
#define PERCPU_SYSCTL_OWN_sysctl___kern_proc , percpu_sysctl___kern_proc
#define PERCPU_SYSCTL_OWN_sysctl___kern_sched , percpu_sysctl___kern_sched
#define PERCPU_SYSCTL_OWN_sysctl___kern_sched_stats , percpu_sysctl___kern_sched_stats
#define PERCPU_SYSCTL_OWN_sysctl___machdep_mitigations , percpu_sysctl___machdep_mitigations
#define PERCPU_SYSCTL_OWN_sysctl___security_bsd , percpu_sysctl___security_bsd
#define PERCPU_SYSCTL_OWN_sysctl___vm_stats , percpu_sysctl___vm_stats
#define PERCPU_SYSCTL_OWN_sysctl___vm_stats_misc , percpu_sysctl___vm_stats_misc
/* clang-format on */

#endif
