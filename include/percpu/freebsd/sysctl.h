/* SPDX-License-Identifier: MIT */
/*
 * sysctl.h - counters that a program reads by name, after FreeBSD's sysctl(9)
 * and sysctlbyname(3). The names are those of this process, no other's.
 *
 *	SYSCTL_NODE(_net, OID_AUTO, my, CTLFLAG_RD, NULL, "My protocol");
 *	SYSCTL_COUNTER_U64(_net_my, OID_AUTO, packets, CTLFLAG_RW, &packets, "...");
 *
 *	uint64_t n;
 *	size_t size = sizeof(n);
 *	sysctlbyname("net.my.packets", &n, &size, NULL, 0);
 *
 * The macros register a name before main, and take it away after main or when
 * the plugin that has it is unloaded. They define an object named after the
 * parent and the name, so that the linker refuses a node defined twice.
 */
#ifndef PERCPU_FREEBSD_SYSCTL_H
#define PERCPU_FREEBSD_SYSCTL_H

#include <errno.h>

#include <percpu/freebsd/pcpustat.h>

PERCPU_BEGIN_DECLS

/* Kinds. A name's type, which its macro sets, and what may be done with it:
 * of these flags CTLFLAG_WR alone has an effect. */
#define CTLTYPE 0xf
#define CTLTYPE_NODE 1
#define CTLTYPE_OPAQUE 5
#define CTLTYPE_U64 9
#define CTLFLAG_RD 0x80000000U
#define CTLFLAG_WR 0x40000000U
#define CTLFLAG_RW (CTLFLAG_RD | CTLFLAG_WR)
#define CTLFLAG_ANYBODY 0x10000000U
#define CTLFLAG_SECURE 0x08000000U
#define CTLFLAG_PRISON 0x04000000U
#define CTLFLAG_SKIP 0x01000000U
#define CTLFLAG_MPSAFE 0x00040000U
#define CTLFLAG_VNET 0x00020000U
#define CTLFLAG_CAPRD 0x00008000U
#define CTLFLAG_CAPWR 0x00004000U
#define CTLFLAG_CAPRW (CTLFLAG_CAPRD | CTLFLAG_CAPWR)
#define CTLFLAG_STATS 0x00002000U
#define CTLFLAG_NEEDGIANT 0x00000800U

/** Numbers of names have no meaning here; the argument is not looked at. */
#define OID_AUTO (-1)

/** For SYSCTL_NODE(): there are no handlers, NULL or 0 must stand there. */
struct percpu_no_handler;

/** A name. Static in the unit that defines it; the fields are the library's. */
struct sysctl_oid {
	struct sysctl_oid *parent; /* NULL: a root */
	const char *name;
	const char *descr;
	counter_u64_t *counter; /* an array; NULL: a node */
	size_t n;		/* counters */
	struct percpu_no_handler *handler;
	unsigned kind;		 /* CTLTYPE_* | CTLFLAG_* */
	struct sysctl_oid *next; /* by full name */
};
PERCPU_ASSERT(sizeof(void *) != 8 || sizeof(struct sysctl_oid) == 64, "in units and the library");

/**
 * Register a name, or take it away again; what the macros do.
 *
 * Returns 0, or
 *	-EEXIST	something of the same full name is registered; it stays
 *	-ENAMETOOLONG	the full name has more than 255 characters
 * A name that was not registered is left alone by the second call, which
 * returns when nobody is reading the counters any more.
 *
 * Context: any thread, constructors included; not a signal handler. A child of
 * fork has the names of its parent.
 */
PERCPU_API int percpu_freebsd_sysctl_register(struct sysctl_oid *oid);
PERCPU_API void percpu_freebsd_sysctl_unregister(struct sysctl_oid *oid);

/**
 * Read counters by name, reset them, or both. A counter is a uint64_t in old;
 * an array or a struct of them is as many, each read by itself.
 *
 * Parameters
 *	name	dots between its parts: "net.inet.ip.stats"
 *	old	where the values go; NULL: nowhere
 *	oldlen	in: bytes at old; out: bytes stored there, or, if old is
 *		NULL, bytes that there are to store. NULL: 0
 *	reset	whether to set the counters to 0. What is read and what is
 *		left add up to what was added.
 *
 * Returns 0, or
 *	-ENOENT	there is no such name
 *	-EISDIR	it has names below it, not a value
 *	-EPERM	reset, and the name is not CTLFLAG_WR
 *	-ENOMEM	oldlen is too small: what fits was stored, nothing reset
 *
 * Context: any thread, not a signal handler.
 * Ordering: as counter_u64_fetch() of each counter. One that is not allocated
 * reads as 0.
 */
PERCPU_API int percpu_freebsd_sysctlbyname(const char *name, void *old, size_t *oldlen, int reset);

/** The same under FreeBSD's name: 0, or -1 and errno. Any newp resets; what is
 *  there is not looked at. */
static inline int sysctlbyname(const char *name, void *oldp, size_t *oldlenp, const void *newp,
			       size_t newlen)
{
	int e = percpu_freebsd_sysctlbyname(name, oldp, oldlenp, newp != NULL);

	(void)newlen;
	if (e == 0)
		return 0;
	errno = -e;
	return -1;
}

/** What percpu_freebsd_sysctl_foreach() tells of a name, during the call. */
struct percpu_freebsd_name {
	const char *name; /* in full */
	const char *descr;
	size_t size;   /* of the value, in bytes; 0: a node */
	unsigned kind; /* CTLTYPE_* | CTLFLAG_* */
};

/**
 * Call fn for each registered name, in the order of strcmp(), until it returns
 * other than 0. It gets copies, made before the first call: fn may read,
 * register and unregister names.
 *
 * Returns what fn returned last, 0 if there is no name, or -ENOMEM.
 * Context: any thread, not a signal handler.
 */
PERCPU_API int
percpu_freebsd_sysctl_foreach(int (*fn)(const struct percpu_freebsd_name *n, void *arg), void *arg);

PERCPU_END_DECLS

/* clang-format off */
/* The arguments that are pasted go no further: "linux" and "unix" are macros. */
#define PERCPU_SYSCTL_OID(id, parent, name, kind, counter, n, handler, descr)  \
	struct sysctl_oid id = {                                               \
		parent, name, descr, counter, n, handler, kind, NULL           \
	};                                                                     \
	__attribute__((constructor)) static void id##_register(void)           \
	{                                                                      \
		(void)percpu_freebsd_sysctl_register(&id);                     \
	}                                                                      \
	__attribute__((destructor)) static void id##_unregister(void)          \
	{                                                                      \
		percpu_freebsd_sysctl_unregister(&id);                         \
	}                                                                      \
	struct percpu_counter

/** Use a node of another unit. */
#define SYSCTL_DECL(name) extern struct sysctl_oid sysctl__##name

/** A node: at the root, and below another one. */
#define SYSCTL_ROOT_NODE(nbr, name, access, handler, descr)                    \
	PERCPU_SYSCTL_OID(sysctl___##name, NULL, #name,                        \
			  CTLTYPE_NODE | (access), NULL, 0, (handler), descr)
#define SYSCTL_NODE(parent, nbr, name, access, handler, descr)                 \
	PERCPU_SYSCTL_OID(sysctl__##parent##_##name, &sysctl__##parent, #name, \
			  CTLTYPE_NODE | (access), NULL, 0, (handler), descr)

/** A counter; ptr is the address of the counter_u64_t, which may be allocated
 *  later and must be freed after the name is gone, as SYSUNINITs do. */
#define SYSCTL_COUNTER_U64(parent, nbr, name, access, ptr, descr)              \
	static PERCPU_SYSCTL_OID(sysctl__##parent##_##name, &sysctl__##parent, \
				 #name, CTLTYPE_U64 | CTLFLAG_STATS | (access),\
				 (ptr), 1, NULL, descr)

/** An array of len counters. */
#define SYSCTL_COUNTER_U64_ARRAY(parent, nbr, name, access, ptr, len, descr)   \
	static PERCPU_SYSCTL_OID(sysctl__##parent##_##name, &sysctl__##parent, \
				 #name,                                        \
				 CTLTYPE_OPAQUE | CTLFLAG_STATS | (access),    \
				 (ptr), (len), NULL, descr)

/** The counters of VNET_PCPUSTAT_DEFINE(type, array): read as that struct. */
#define SYSCTL_VNET_PCPUSTAT(parent, nbr, name, type, array, desc)             \
	PERCPU_ASSERT(PERCPU_PCPUSTAT_FIELDS(type) ==                          \
			      sizeof(VNET(array)) / sizeof(counter_u64_t),     \
		      "the array is of another struct");                       \
	static PERCPU_SYSCTL_OID(sysctl__##parent##_##name, &sysctl__##parent, \
				 #name,                                        \
				 CTLTYPE_OPAQUE | CTLFLAG_STATS |              \
					 CTLFLAG_VNET | CTLFLAG_RW,            \
				 VNET(array),                                  \
				 PERCPU_PCPUSTAT_FIELDS(type), NULL, desc)

/* The roots are a part of their users' names, and so in every unit. */
#define PERCPU_SYSCTL_ROOT(name)                                               \
	static struct sysctl_oid sysctl___##name __attribute__((unused)) = {   \
		NULL, #name, "", NULL, 0, NULL, CTLTYPE_NODE | CTLFLAG_RW, NULL\
	}
PERCPU_SYSCTL_ROOT(compat);
PERCPU_SYSCTL_ROOT(debug);
PERCPU_SYSCTL_ROOT(dev);
PERCPU_SYSCTL_ROOT(hw);
PERCPU_SYSCTL_ROOT(kern);
PERCPU_SYSCTL_ROOT(machdep);
PERCPU_SYSCTL_ROOT(net);
PERCPU_SYSCTL_ROOT(security);
PERCPU_SYSCTL_ROOT(user);
PERCPU_SYSCTL_ROOT(vfs);
PERCPU_SYSCTL_ROOT(vm);
/* clang-format on */

#endif
