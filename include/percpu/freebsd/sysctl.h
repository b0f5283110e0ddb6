/* SPDX-License-Identifier: MIT */
/*
 * sysctl.h - counters that a program reads by name, after FreeBSD's sysctl(9)
 * and sysctlbyname(3). Each process has names of its own.
 *
 *	SYSCTL_NODE(_net, OID_AUTO, my, CTLFLAG_RD, NULL, "My protocol");
 *	SYSCTL_COUNTER_U64(_net_my, OID_AUTO, packets, CTLFLAG_RW, &packets, "...");
 *
 *	uint64_t n;
 *	size_t size = sizeof(n);
 *	sysctlbyname("net.my.packets", &n, &size, NULL, 0);
 *
 * The macros register a name before main, and remove it after main, or when the plugin
 * that has it is unloaded. A plugin that counts stays after dlclose(), with its names
 * (docs/cpu/process.md). The macros define an object named after the parent and the name, so
 * the linker refuses a node that is defined twice. The nodes that FreeBSD's header declares
 * exist without a definition. A program may define each of them once, as kern_mib.c does.
 * percpu_freebsd_sysctl_foreach() shows such a node only if it is defined.
 *
 * What the calls have in common, unless one says otherwise.
 * Context: any thread, not a signal handler; a child of fork has its parent's names.
 * Handlers are called without a lock held.
 * Ordering: a thread that finds a name sees all that was stored before it was registered.
 * Counters are read as by counter_u64_fetch().
 * Progress: a call takes one lock of the process while it looks at the names; a call that
 * removes a name waits for the reads of it.
 */
#ifndef PERCPU_FREEBSD_SYSCTL_H
#define PERCPU_FREEBSD_SYSCTL_H

#ifdef _SYS_SYSCTL_H_
#error "this stands in for sys/sysctl.h, which was included before it"
#endif
#define _SYS_SYSCTL_H_ /* makes the original empty if it is included later */

#include <percpu/freebsd/pcpustat.h>

PERCPU_BEGIN_DECLS

/* The kind of a name: its type, which its macro sets, and flags. Only the flag CTLFLAG_WR has
 * an effect. */
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

/** The number of a name. Numbers have no meaning here; the macros ignore the argument. */
#define OID_AUTO (-1)

/** Nodes have no handlers: the argument of SYSCTL_NODE() must be NULL or 0. */
struct percpu_no_handler;

struct sysctl_oid;
struct thread;

/** A request to a handler. The handler returns the old value by SYSCTL_OUT(). If newptr is not
 *  NULL, it gets the new value by SYSCTL_IN(). The fields are FreeBSD's. */
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

/** The arguments of a handler of SYSCTL_PROC(). It returns 0 or an errno, and may make all
 *  calls of this header, but must not remove its own name. */
#define SYSCTL_HANDLER_ARGS                                                                        \
	struct sysctl_oid *oidp, void *arg1, intmax_t arg2, struct sysctl_req *req
#define SYSCTL_OUT(r, p, l) ((r)->oldfunc)(r, p, l)
#define SYSCTL_IN(r, p, l) ((r)->newfunc)(r, p, l)

/** The names below a node. */
struct sysctl_oid_list {
	struct sysctl_oid *node;
};

/** A name. It is static in the unit that defines it, or made by SYSCTL_ADD_*(). The fields
 *  belong to the library; some have FreeBSD's names. */
struct sysctl_oid {
	struct sysctl_oid_list oid_children; /* the names below this one */
	struct sysctl_oid_list *oid_parent;  /* NULL: a root */
	const char *oid_name;
	const char *oid_descr;
	void *oid_arg1; /* of counters: an array of counter_u64_t */
	intmax_t oid_arg2;
	int (*oid_handler)(SYSCTL_HANDLER_ARGS); /* NULL: a node */
	const char *oid_fmt;
	size_t size;	      /* of the value; 0: not known */
	unsigned oid_kind;    /* CTLTYPE_* | CTLFLAG_* */
	unsigned oid_running; /* requests that are in progress */
	unsigned oid_refcnt;  /* calls of SYSCTL_ADD_NODE() for this name */
	unsigned reserved;
	struct sysctl_oid *oid_link; /* the next in the list by full name */
};
#define PERCPU_SYSCTL_NO_HANDLER PERCPU_NULL(int (*)(SYSCTL_HANDLER_ARGS))
#define PERCPU_SYSCTL_NO_PARENT PERCPU_NULL(struct sysctl_oid_list *)
PERCPU_ASSERT(sizeof(void *) != 8 || sizeof(struct sysctl_oid) == 96, "in units and the library");

/** A context: the names that were added with it. */
struct sysctl_ctx_list {
	struct percpu_freebsd_added *first;
};

/**
 * Register a name. The macros call this.
 *
 * Returns 0, or
 *	-EEXIST	the same full name is registered already; that one stays
 *	-ENAMETOOLONG	the full name has more than 255 characters
 *
 * Context: any thread, constructors included; not a signal handler. A child of
 * fork has the names of its parent.
 */
PERCPU_API int percpu_freebsd_sysctl_register(struct sysctl_oid *oid);

/**
 * Remove a name, if it is registered. The macros call this. It returns when no thread reads
 * the counters any more.
 *
 * Context: as percpu_freebsd_sysctl_register().
 */
PERCPU_API void percpu_freebsd_sysctl_unregister(struct sysctl_oid *oid);

/**
 * Read by name, write, or both. In old, a counter is a uint64_t. An array or a struct of
 * counters is as many uint64_t, each read separately. Writing to a counter resets it.
 *
 * Parameters
 *	name	the full name, with dots between its parts: "net.inet.ip.stats"
 *	old	where the values are stored; NULL: nowhere
 *	oldlen	in: bytes at old. Out: bytes stored there, or, if old is NULL, the size of
 *		the values. NULL: 0 bytes
 *	newp	NULL: write nothing. A counter ignores the bytes at newp, and is reset:
 *		the values read and the values left add up to all adds
 *
 * Returns 0, or
 *	-ENOENT	there is no such name
 *	-EISDIR	the name is a node: it has no value
 *	-EPERM	newp is not NULL, and the name is not CTLFLAG_WR
 *	-ENOMEM	oldlen is too small: as much as fits was stored, no counter was reset
 *	minus the errno that a handler of SYSCTL_PROC() returned
 *
 * A counter that is not allocated reads as 0.
 *
 * Context: any thread, not a signal handler.
 * Ordering: as counter_u64_fetch() of each counter.
 */
PERCPU_API int percpu_freebsd_sysctlbyname(const char *name, void *old, size_t *oldlen,
					   const void *newp, size_t newlen);

/** Read or write as percpu_freebsd_sysctlbyname(). Returns 0, or -1 and errno. */
PERCPU_API int percpu_freebsd_sysctlbyname_errno(const char *name, void *old, size_t *oldlen,
						 const void *newp, size_t newlen);

/** Read or write by name, under FreeBSD's name. Returns 0, or -1 and errno. */
static inline int sysctlbyname(const char *name, void *oldp, size_t *oldlenp, const void *newp,
			       size_t newlen)
{
	return percpu_freebsd_sysctlbyname_errno(name, oldp, oldlenp, newp, newlen);
}

/** A name, as percpu_freebsd_sysctl_foreach() passes it. It is valid during the call. */
struct percpu_freebsd_name {
	const char *name; /* the full name */
	const char *descr;
	size_t size;   /* of the value, in bytes; 0: a node, or a value of a handler */
	unsigned kind; /* CTLTYPE_* | CTLFLAG_* */
};

/**
 * Call fn for each registered name, in the order of strcmp(), until it returns a value
 * other than 0. fn gets copies, made before the first call, so it may read, register and
 * unregister names.
 *
 * Returns the last return value of fn, 0 if there is no name, or -ENOMEM.
 * Context: any thread, not a signal handler.
 */
PERCPU_API int
percpu_freebsd_sysctl_foreach(int (*fn)(const struct percpu_freebsd_name *n, void *arg), void *arg);

/*
 * Handlers, and functions for handlers. They read and write a counter at arg1, an array of
 * arg2 counters at arg1, or a value at arg1. If arg1 is NULL, the value is arg2 itself, and
 * can only be read. An opaque value has arg2 bytes. access is CTLFLAG_RD or CTLFLAG_RW.
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
 * Names that are made at run time. A context lists them, and sysctl_ctx_free() removes them,
 * the last one first. Names that were added without a context (NULL) stay for good.
 */

/** Make ctx a context without names. A context of zeros needs no such call. Returns 0. Only
 *  one thread at a time may use a context. */
static inline int sysctl_ctx_init(struct sysctl_ctx_list *ctx)
{
	ctx->first = PERCPU_NULL(struct percpu_freebsd_added *);
	return 0;
}

/** Remove the names that were added with the context. Returns 0; or EBUSY, as FreeBSD does, if
 *  there are names below them that are not of this context: then nothing is removed. */
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
	return percpu_freebsd_sysctl_add(ctx, parent, name, CTLTYPE_NODE | access,
					 PERCPU_NULL(void *), 0, PERCPU_SYSCTL_NO_HANDLER, "N",
					 descr);
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

/* The list of names below a node: by the node, and by its name. */
#define SYSCTL_CHILDREN(node) (&(node)->oid_children)
#define SYSCTL_STATIC_CHILDREN(name) (&sysctl__##name.oid_children)

/**
 * Add a node, counters, or a handler below parent, which is SYSCTL_CHILDREN(node). Names
 * and descriptions are copied. If there is a node of that name already, SYSCTL_ADD_NODE()
 * returns it. All return NULL if there is no memory, the name is too long, or the name is
 * taken.
 *
 * Context: any thread, not a signal handler. Call sysctl_ctx_free() before you free the
 * counters, and before a unit with a static parent is unloaded.
 */
#define SYSCTL_ADD_NODE(ctx, parent, nbr, name, access, handler, descr)                            \
	percpu_freebsd_add_node((ctx), (parent), (name), (access), (handler), (descr))
#define SYSCTL_ADD_ROOT_NODE(ctx, nbr, name, access, handler, descr)                               \
	SYSCTL_ADD_NODE(ctx, PERCPU_SYSCTL_NO_PARENT, nbr, name, access, handler, descr)
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
/* Define a name. Arguments that are pasted must not pass through another macro, which would
 * expand "linux" and "unix". */
#define PERCPU_SYSCTL_OID(id, parent, name, kind, arg1, arg2, handler, fmt, size, descr) \
	struct sysctl_oid id = {                                               \
		{ &id }, parent, name, descr, arg1, arg2, handler, fmt, size,  \
		kind, 0, 1, 0, PERCPU_NULL(struct sysctl_oid *)                \
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

/* Does not compile if the handler is not NULL or 0. */
#define PERCPU_SYSCTL_NONE(handler)                                            \
	(0 ? PERCPU_NULL(struct percpu_no_handler *) : (handler))
/* Does not compile if p is not an address of counters. */
#define PERCPU_SYSCTL_COUNTERS(p)                                              \
	(1 ? (p) : PERCPU_NULL(counter_u64_t *))

#define PERCPU_SYSCTL_VALUE(parent, name, kind, arg1, arg2, handler, fmt, size, descr) \
	static PERCPU_SYSCTL_OID(sysctl__##parent##_##name,                    \
				 &sysctl__##parent.oid_children, #name, kind,  \
				 arg1, arg2, handler, fmt, size, descr)

/** Declare a node of another unit. */
#define SYSCTL_DECL(name) extern struct sysctl_oid sysctl__##name

/** Define a node at the root. */
#define SYSCTL_ROOT_NODE(nbr, name, access, handler, descr)                    \
	PERCPU_SYSCTL_NODE(PERCPU_SYSCTL_NODE_ID(sysctl___##name),             \
			   PERCPU_SYSCTL_NO_PARENT, #name, access, handler, descr)
/** Define a node below another one. */
#define SYSCTL_NODE(parent, nbr, name, access, handler, descr)                 \
	PERCPU_SYSCTL_NODE(PERCPU_SYSCTL_NODE_ID(sysctl__##parent##_##name),   \
			   &sysctl__##parent.oid_children, #name, access,      \
			   handler, descr)

/* Define a node. This macro expands the id before it is pasted. */
#define PERCPU_SYSCTL_NODE(id, parent, name, access, handler, descr)           \
	PERCPU_SYSCTL_OID(id, parent, name, CTLTYPE_NODE | (access),           \
			  PERCPU_SYSCTL_NONE(handler), 0,                      \
			  PERCPU_SYSCTL_NO_HANDLER, "N", 0, descr)

/* The identifier of a node that the program defines: normally id. Each unit already has static
 * nodes for some ids (sysctl_nodes.h); for these it is that of PERCPU_SYSCTL_OWN_<id>. Names
 * below such a node refer to the static one, and have the same full name. */
#define PERCPU_SYSCTL_NODE_ID(id) PERCPU_SYSCTL_PICK(PERCPU_SYSCTL_OWN_##id, id, )
#define PERCPU_SYSCTL_PICK(...) PERCPU_SYSCTL_SECOND(__VA_ARGS__)
#define PERCPU_SYSCTL_SECOND(first, second, ...) second

/** Define the name of a counter. ptr is the address of the counter_u64_t. The counter may be
 *  allocated later, and must be freed after the name was removed, as SYSUNINITs do. */
#define SYSCTL_COUNTER_U64(parent, nbr, name, access, ptr, descr)              \
	PERCPU_SYSCTL_VALUE(parent, name,                                      \
			    CTLTYPE_U64 | CTLFLAG_STATS | (access),            \
			    PERCPU_SYSCTL_COUNTERS(ptr), 1,                    \
			    percpu_freebsd_handle_counters, "QU",              \
			    sizeof(uint64_t), descr)

/** Define the name of an array of len counters. */
#define SYSCTL_COUNTER_U64_ARRAY(parent, nbr, name, access, ptr, len, descr)   \
	PERCPU_SYSCTL_VALUE(parent, name,                                      \
			    CTLTYPE_OPAQUE | CTLFLAG_STATS | (access),         \
			    PERCPU_SYSCTL_COUNTERS(ptr), (len),                \
			    percpu_freebsd_handle_counters, "S",               \
			    (len) * sizeof(uint64_t), descr)

/** Define the name of the counters of VNET_PCPUSTAT_DEFINE(type, array). A read returns that
 *  struct. */
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

/** Define the name of a value that a function reads and writes. The library holds no lock
 *  meanwhile. */
#define SYSCTL_PROC(parent, nbr, name, access, ptr, arg, handler, fmt, descr)  \
	PERCPU_SYSCTL_VALUE(parent, name, (access), (ptr), (arg), (handler),   \
			    fmt, 0, descr)

/* clang-format on */

#include <percpu/freebsd/sysctl_nodes.h>

#endif
