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
 * The macros register a name before main, and take it away after main, or when the
 * plugin that has it is unloaded; one that counts stays after dlclose(), with its
 * names (docs/process.md). They define an object named after the
 * parent and the name, so that the linker refuses a node defined twice.
 *
 * What the calls have in common, where one does not say more.
 * Context: any thread, not a signal handler; a child of fork has its parent's names.
 * Handlers are called without a lock held.
 * Ordering: of names, as they were registered: who finds one sees what was stored before.
 * Counters are read as by counter_u64_fetch().
 * Progress: they take one lock of the process for a look at the names; what takes a name
 * away waits for the reads of it.
 */
#ifndef PERCPU_FREEBSD_SYSCTL_H
#define PERCPU_FREEBSD_SYSCTL_H

#ifdef _SYS_SYSCTL_H_
#error "this stands in for sys/sysctl.h, which was included before it"
#endif
#define _SYS_SYSCTL_H_ /* and so the original, included later, is empty */

#include <percpu/freebsd/pcpustat.h>

PERCPU_BEGIN_DECLS

/* Kinds. A name's type, which its macro sets, and what may be done with it:
 * of these flags CTLFLAG_WR alone has an effect. */
#define CTLTYPE 0xf
#define CTLTYPE_NODE 1
#define CTLTYPE_INT 2
#define CTLTYPE_STRING 3
#define CTLTYPE_S64 4
#define CTLTYPE_OPAQUE 5
#define CTLTYPE_STRUCT CTLTYPE_OPAQUE
#define CTLTYPE_UINT 6
#define CTLTYPE_LONG 7
#define CTLTYPE_ULONG 8
#define CTLTYPE_U64 9
#define CTLFLAG_RD 0x80000000U
#define CTLFLAG_WR 0x40000000U
#define CTLFLAG_RW (CTLFLAG_RD | CTLFLAG_WR)
#define CTLFLAG_ANYBODY 0x10000000U
#define CTLFLAG_SECURE 0x08000000U
#define CTLFLAG_PRISON 0x04000000U
#define CTLFLAG_DYN 0x02000000U
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

struct sysctl_oid;
struct thread;

/** A request to a handler: what is to be read goes out by SYSCTL_OUT(), what is to be
 *  written comes in by SYSCTL_IN(), if newptr is not NULL. The fields are FreeBSD's. */
struct sysctl_req {
	struct thread *td; /* NULL */
	int lock;
	void *oldptr;
	size_t oldlen;
	size_t oldidx;
	int (*oldfunc)(struct sysctl_req *req, const void *p, size_t size);
	const void *newptr;
	size_t newlen;
	size_t newidx;
	int (*newfunc)(struct sysctl_req *req, void *p, size_t size);
};

/** What a handler of SYSCTL_PROC() gets. It returns 0 or an errno, and may call what is
 *  in this header, but not take away its own name. */
#define SYSCTL_HANDLER_ARGS                                                                        \
	struct sysctl_oid *oidp, void *arg1, intmax_t arg2, struct sysctl_req *req
#define SYSCTL_OUT(r, p, l) ((r)->oldfunc)(r, p, l)
#define SYSCTL_IN(r, p, l) ((r)->newfunc)(r, p, l)

/** The names below a node. */
struct sysctl_oid_list {
	struct sysctl_oid *node;
};

/** A name. Static in the unit that defines it, or made by SYSCTL_ADD_*(); the fields are
 *  the library's, some under FreeBSD's names. */
struct sysctl_oid {
	struct sysctl_oid_list oid_children; /* of this one */
	struct sysctl_oid_list *oid_parent;  /* NULL: a root */
	const char *oid_name;
	const char *oid_descr;
	void *oid_arg1; /* of a counter: counter_u64_t *, an array */
	intmax_t oid_arg2;
	int (*oid_handler)(SYSCTL_HANDLER_ARGS); /* NULL: a node */
	const char *oid_fmt;
	size_t size;	      /* of the value, if that is known; otherwise 0 */
	unsigned oid_kind;    /* CTLTYPE_* | CTLFLAG_* */
	unsigned oid_running; /* requests */
	unsigned oid_refcnt;  /* SYSCTL_ADD_NODE() of the same name */
	unsigned reserved;
	struct sysctl_oid *oid_link; /* by full name */
};
PERCPU_ASSERT(sizeof(void *) != 8 || sizeof(struct sysctl_oid) == 96, "in units and the library");

/** The names that were added with it. */
struct sysctl_ctx_list {
	struct percpu_freebsd_added *first;
};

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
 * Read by name, write, or both. A counter is a uint64_t in old; an array or a struct
 * of them is as many, each read by itself. To write to a counter resets it.
 *
 * Parameters
 *	name	dots between its parts: "net.inet.ip.stats"
 *	old	where the values go; NULL: nowhere
 *	oldlen	in: bytes at old; out: bytes stored there, or, if old is
 *		NULL, bytes that there are to store. NULL: 0
 *	newp	NULL: write nothing. Counters do not look at what is there: what is
 *		read and what is left add up to what was added.
 *
 * Returns 0, or
 *	-ENOENT	there is no such name
 *	-EISDIR	it has names below it, not a value
 *	-EPERM	newp, and the name is not CTLFLAG_WR
 *	-ENOMEM	oldlen is too small: what fits was stored, no counter reset
 *	minus what a handler of SYSCTL_PROC() returned
 *
 * Context: any thread, not a signal handler.
 * Ordering: as counter_u64_fetch() of each counter. One that is not allocated
 * reads as 0.
 */
PERCPU_API int percpu_freebsd_sysctlbyname(const char *name, void *old, size_t *oldlen,
					   const void *newp, size_t newlen);
PERCPU_API int percpu_freebsd_sysctlbyname_errno(const char *name, void *old, size_t *oldlen,
						 const void *newp, size_t newlen);

/** The same under FreeBSD's name: 0, or -1 and errno. */
static inline int sysctlbyname(const char *name, void *oldp, size_t *oldlenp, const void *newp,
			       size_t newlen)
{
	return percpu_freebsd_sysctlbyname_errno(name, oldp, oldlenp, newp, newlen);
}

/** What percpu_freebsd_sysctl_foreach() tells of a name, during the call. */
struct percpu_freebsd_name {
	const char *name; /* in full */
	const char *descr;
	size_t size;   /* of the value, in bytes; 0: a node, or a handler's */
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

/*
 * What handlers are, or call: for a counter at arg1, for arg2 of them in an array, and for
 * a value at arg1, or without one the value arg2, which is only read. Opaque: arg2 bytes.
 * access is CTLFLAG_RD or CTLFLAG_RW.
 */
PERCPU_API int percpu_freebsd_handle_counters(SYSCTL_HANDLER_ARGS);
PERCPU_API int percpu_freebsd_handle_value(void *value, size_t size, unsigned access,
					   struct sysctl_req *req);

static inline int sysctl_handle_counter_u64(SYSCTL_HANDLER_ARGS)
{
	(void)arg2;
	return percpu_freebsd_handle_counters(oidp, arg1, 1, req);
}

static inline int sysctl_handle_counter_u64_array(SYSCTL_HANDLER_ARGS)
{
	return percpu_freebsd_handle_counters(oidp, arg1, arg2, req);
}

static inline int sysctl_handle_int(SYSCTL_HANDLER_ARGS)
{
	int v = (int)arg2;

	(void)oidp;
	return percpu_freebsd_handle_value(arg1 ? arg1 : &v, sizeof(v),
					   arg1 ? CTLFLAG_RW : CTLFLAG_RD, req);
}

static inline int sysctl_handle_long(SYSCTL_HANDLER_ARGS)
{
	long v = (long)arg2;

	(void)oidp;
	return percpu_freebsd_handle_value(arg1 ? arg1 : &v, sizeof(v),
					   arg1 ? CTLFLAG_RW : CTLFLAG_RD, req);
}

static inline int sysctl_handle_64(SYSCTL_HANDLER_ARGS)
{
	int64_t v = arg2;

	(void)oidp;
	return percpu_freebsd_handle_value(arg1 ? arg1 : &v, sizeof(v),
					   arg1 ? CTLFLAG_RW : CTLFLAG_RD, req);
}

static inline int sysctl_handle_opaque(SYSCTL_HANDLER_ARGS)
{
	(void)oidp;
	return percpu_freebsd_handle_value(arg1, (size_t)arg2, CTLFLAG_RW, req);
}

/*
 * Names made at run time. A context remembers them: sysctl_ctx_free() takes them away, the
 * last one first. Without a context, NULL, they are there for good.
 */

/** A context without names, or one of zeros. Returns 0. Its calls are not for two threads
 *  at a time. */
static inline int sysctl_ctx_init(struct sysctl_ctx_list *ctx)
{
	ctx->first = NULL;
	return 0;
}

/** Take away what was added with the context. Returns 0, or EBUSY, as FreeBSD does, with
 *  nothing taken away: there are names below that are not of this context. */
PERCPU_API int percpu_freebsd_sysctl_ctx_free(struct sysctl_ctx_list *ctx);

static inline int sysctl_ctx_free(struct sysctl_ctx_list *ctx)
{
	return percpu_freebsd_sysctl_ctx_free(ctx);
}

PERCPU_API struct sysctl_oid *
percpu_freebsd_sysctl_add(struct sysctl_ctx_list *ctx, struct sysctl_oid_list *parent,
			  const char *name, unsigned kind, void *arg1, intmax_t arg2,
			  int (*handler)(SYSCTL_HANDLER_ARGS), const char *fmt, const char *descr);

static inline struct sysctl_oid *percpu_freebsd_add_node(struct sysctl_ctx_list *ctx,
							 struct sysctl_oid_list *parent,
							 const char *name, unsigned access,
							 struct percpu_no_handler *none,
							 const char *descr)
{
	(void)none;
	return percpu_freebsd_sysctl_add(ctx, parent, name, CTLTYPE_NODE | access, NULL, 0, NULL,
					 "N", descr);
}

static inline struct sysctl_oid *percpu_freebsd_add_counters(struct sysctl_ctx_list *ctx,
							     struct sysctl_oid_list *parent,
							     const char *name, unsigned kind,
							     counter_u64_t *counters, intmax_t n,
							     const char *descr)
{
	return percpu_freebsd_sysctl_add(ctx, parent, name, kind | CTLFLAG_STATS, counters, n,
					 percpu_freebsd_handle_counters, "QU", descr);
}

PERCPU_END_DECLS

/** The names below a node, by the node and by its name. */
#define SYSCTL_CHILDREN(node) (&(node)->oid_children)
#define SYSCTL_STATIC_CHILDREN(name) (&sysctl__##name.oid_children)

/**
 * Add a node (if there is one of the name, that is returned), counters, or a handler below
 * parent, which is SYSCTL_CHILDREN(node). Names and descriptions are copied. Return NULL if
 * there is no memory, the name is too long, or something else has it.
 *
 * Context: any thread, not a signal handler. The counters are freed, the unit that has a
 * static parent is unloaded, after sysctl_ctx_free().
 */
#define SYSCTL_ADD_NODE(ctx, parent, nbr, name, access, handler, descr)                            \
	percpu_freebsd_add_node((ctx), (parent), (name), (access), (handler), (descr))
#define SYSCTL_ADD_ROOT_NODE(ctx, nbr, name, access, handler, descr)                               \
	percpu_freebsd_add_node((ctx), NULL, (name), (access), (handler), (descr))
#define SYSCTL_ADD_COUNTER_U64(ctx, parent, nbr, name, access, ptr, descr)                         \
	percpu_freebsd_add_counters((ctx), (parent), (name), CTLTYPE_U64 | (access), (ptr), 1,     \
				    (descr))
#define SYSCTL_ADD_COUNTER_U64_ARRAY(ctx, parent, nbr, name, access, ptr, len, descr)              \
	percpu_freebsd_add_counters((ctx), (parent), (name), CTLTYPE_OPAQUE | (access), (ptr),     \
				    (len), (descr))
#define SYSCTL_ADD_PROC(ctx, parent, nbr, name, access, ptr, arg, handler, fmt, descr)             \
	percpu_freebsd_sysctl_add((ctx), (parent), (name), (access), (ptr), (arg), (handler),      \
				  (fmt), (descr))

/* clang-format off */
/* The arguments that are pasted go no further: "linux" and "unix" are macros. */
#define PERCPU_SYSCTL_OID(id, parent, name, kind, arg1, arg2, handler, fmt, size, descr) \
	struct sysctl_oid id = {                                               \
		{ &id }, parent, name, descr, arg1, arg2, handler, fmt, size,  \
		kind, 0, 1, 0, NULL                                            \
	};                                                                     \
	__attribute__((__constructor__)) static void id##_register(void)           \
	{                                                                      \
		(void)percpu_freebsd_sysctl_register(&id);                     \
	}                                                                      \
	__attribute__((__destructor__)) static void id##_unregister(void)          \
	{                                                                      \
		percpu_freebsd_sysctl_unregister(&id);                         \
	}                                                                      \
	PERCPU_ASSERT(1, "a semicolon follows")

/* A NULL or 0 where a handler would be; p, which must be the address of counters. */
#define PERCPU_SYSCTL_NONE(handler)                                            \
	(0 ? PERCPU_NULL(struct percpu_no_handler *) : (handler))
#define PERCPU_SYSCTL_COUNTERS(p)                                              \
	(1 ? (p) : PERCPU_NULL(counter_u64_t *))

#define PERCPU_SYSCTL_VALUE(parent, name, kind, arg1, arg2, handler, fmt, size, descr) \
	static PERCPU_SYSCTL_OID(sysctl__##parent##_##name,                    \
				 &sysctl__##parent.oid_children, #name, kind,  \
				 arg1, arg2, handler, fmt, size, descr)

/** Use a node of another unit. */
#define SYSCTL_DECL(name) extern struct sysctl_oid sysctl__##name

/** A node: at the root, and below another one. */
#define SYSCTL_ROOT_NODE(nbr, name, access, handler, descr)                    \
	PERCPU_SYSCTL_OID(sysctl___##name, NULL, #name,                        \
			  CTLTYPE_NODE | (access),                             \
			  PERCPU_SYSCTL_NONE(handler), 0, NULL, "N", 0, descr)
#define SYSCTL_NODE(parent, nbr, name, access, handler, descr)                 \
	PERCPU_SYSCTL_OID(sysctl__##parent##_##name,                           \
			  &sysctl__##parent.oid_children, #name,               \
			  CTLTYPE_NODE | (access),                             \
			  PERCPU_SYSCTL_NONE(handler), 0, NULL, "N", 0, descr)

/** A counter; ptr is the address of the counter_u64_t, which may be allocated
 *  later and must be freed after the name is gone, as SYSUNINITs do. */
#define SYSCTL_COUNTER_U64(parent, nbr, name, access, ptr, descr)              \
	PERCPU_SYSCTL_VALUE(parent, name,                                      \
			    CTLTYPE_U64 | CTLFLAG_STATS | (access),            \
			    PERCPU_SYSCTL_COUNTERS(ptr), 1,                    \
			    percpu_freebsd_handle_counters, "QU",              \
			    sizeof(uint64_t), descr)

/** An array of len counters. */
#define SYSCTL_COUNTER_U64_ARRAY(parent, nbr, name, access, ptr, len, descr)   \
	PERCPU_SYSCTL_VALUE(parent, name,                                      \
			    CTLTYPE_OPAQUE | CTLFLAG_STATS | (access),         \
			    PERCPU_SYSCTL_COUNTERS(ptr), (len),                \
			    percpu_freebsd_handle_counters, "S",               \
			    (len) * sizeof(uint64_t), descr)

/** The counters of VNET_PCPUSTAT_DEFINE(type, array): read as that struct. */
#define SYSCTL_VNET_PCPUSTAT(parent, nbr, name, type, array, desc)             \
	PERCPU_ASSERT(PERCPU_PCPUSTAT_FIELDS(type) ==                          \
			      sizeof(VNET(array)) / sizeof(counter_u64_t),     \
		      "the array is of another struct");                       \
	PERCPU_SYSCTL_VALUE(parent, name,                                      \
			    CTLTYPE_OPAQUE | CTLFLAG_STATS |                   \
				    CTLFLAG_VNET | CTLFLAG_RW,                 \
			    VNET(array), PERCPU_PCPUSTAT_FIELDS(type),         \
			    percpu_freebsd_handle_counters, "S",               \
			    sizeof(type), desc)

/** A value that a function reads and writes, without a lock of the library's. */
#define SYSCTL_PROC(parent, nbr, name, access, ptr, arg, handler, fmt, descr)  \
	PERCPU_SYSCTL_VALUE(parent, name, (access), (ptr), (arg), (handler),   \
			    fmt, 0, descr)

/* The nodes that FreeBSD's header declares are a part of their users' names, and so in
 * every unit. */
#define PERCPU_SYSCTL_KNOWN(id, parent, name)                                  \
	static struct sysctl_oid id __attribute__((__unused__)) = {                \
		{ &id }, parent, name, "", NULL, 0, NULL, "N", 0,              \
		CTLTYPE_NODE | CTLFLAG_RW, 0, 1, 0, NULL                       \
	}
#define PERCPU_SYSCTL_ROOT(name)                                               \
	PERCPU_SYSCTL_KNOWN(sysctl___##name, NULL, #name)
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
/* clang-format on */

#endif
