/* SPDX-License-Identifier: MIT */
/*
 * sysctl.c - the names of sysctl.h: a list of the oids that the program registered, sorted by full
 * name, under a lock.
 *
 * A full name is put together from the oid and its parents when it is needed. Parents stay in
 * memory as long as a unit of the program refers to them. Handlers run without the lock. A thread
 * that removes a name waits until its last request is done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/freebsd.h>

#include "../cpu/cpu.h"

#define NAME_SIZE 256

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t requests_done = PTHREAD_COND_INITIALIZER;
static struct sysctl_oid *first_oid; /* under names_lock */

static void names_lock_take(void)
{
	percpu_mutex_lock(&names_lock);
}

static void names_lock_release(void)
{
	percpu_mutex_unlock(&names_lock);
}

/* Forget running requests: a child of fork does not have the threads that run them. */
static void forget_requests(void)
{
	static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;

	requests_done = fresh;
	for (struct sysctl_oid *oid = first_oid; oid != NULL; oid = oid->oid_link)
		oid->oid_running = 0;
}

__attribute__((constructor)) static void names_join_forks(void)
{
	static const struct percpu_fork_part part = {
		.before = names_lock_take,
		.after = names_lock_release,
		.in_child = forget_requests,
	};

	percpu_fork_register(PERCPU_FORK_NAMES, &part);
}

static const struct sysctl_oid *parent_of(const struct sysctl_oid *oid)
{
	return oid->oid_parent != NULL ? oid->oid_parent->node : NULL;
}

/* Write the full name to the end of buf, and return where it begins; NULL if it is too long. */
static const char *full_name(const struct sysctl_oid *oid, char buf[NAME_SIZE])
{
	char *p = buf + NAME_SIZE - 1;
	size_t len, dot;

	*p = '\0';
	for (; oid != NULL; oid = parent_of(oid)) {
		len = strlen(oid->oid_name);
		dot = parent_of(oid) != NULL;
		if (len + dot > (size_t)(p - buf))
			return NULL;
		p -= len;
		memcpy(p, oid->oid_name, len);
		if (dot)
			*--p = '.';
	}
	return p;
}

/* Return the link to the first oid whose name does not sort before this one. */
static struct sysctl_oid **position(const char *name)
{
	struct sysctl_oid **at = &first_oid;
	char buf[NAME_SIZE];

	while (*at != NULL && strcmp(full_name(*at, buf), name) < 0)
		at = &(*at)->oid_link;
	return at;
}

/* Insert the oid. The caller has the lock. Returns 0; -ENAMETOOLONG; or -EEXIST, and sets
 * *ret_other to the oid that has the name. */
static int insert(struct sysctl_oid *oid, struct sysctl_oid **ret_other)
{
	char buf[NAME_SIZE], other[NAME_SIZE];
	const char *name = full_name(oid, buf);
	struct sysctl_oid **at;

	if (name == NULL)
		return -ENAMETOOLONG;
	at = position(name);
	if (*at != NULL && strcmp(full_name(*at, other), name) == 0) {
		*ret_other = *at;
		return -EEXIST;
	}
	oid->oid_link = *at;
	*at = oid;
	return 0;
}

int percpu_freebsd_sysctl_register(struct sysctl_oid *oid)
{
	struct sysctl_oid *other;
	int e;

	names_lock_take();
	e = insert(oid, &other);
	names_lock_release();
	return e;
}

/* Remove the oid, and wait for its requests. The caller has the lock. The wait releases it. */
static void take_away(struct sysctl_oid *oid)
{
	struct sysctl_oid **at = &first_oid;

	while (*at != NULL && *at != oid)
		at = &(*at)->oid_link;
	if (*at == NULL)
		return;
	*at = oid->oid_link;
	while (oid->oid_running != 0)
		pthread_cond_wait(&requests_done, &names_lock);
}

void percpu_freebsd_sysctl_unregister(struct sysctl_oid *oid)
{
	int cancel = percpu_defer_cancel();

	names_lock_take();
	take_away(oid);
	names_lock_release();
	percpu_restore_cancel(cancel);
}

/* Find the oid of a name. Returns 0, -ENOENT, or -EISDIR for a node. Names below a node follow it
 * in the list, because '.' sorts before all characters that names have. */
static int find_oid(const char *name, struct sysctl_oid **ret)
{
	struct sysctl_oid *oid = *position(name);
	size_t len = strlen(name);
	const char *found;
	char buf[NAME_SIZE];

	if (oid == NULL)
		return -ENOENT;
	found = full_name(oid, buf);
	if (strncmp(found, name, len) != 0)
		return -ENOENT;
	if (found[len] != '\0')
		return found[len] == '.' ? -EISDIR : -ENOENT;
	if (oid->oid_handler == NULL)
		return -EISDIR;
	*ret = oid;
	return 0;
}

/* Copy to the caller as many bytes as there is room for. Returns 0, or ENOMEM if that is not
 * all. */
static int copy_out(struct sysctl_req *req, const void *p, size_t size)
{
	size_t at = req->oldidx, n = 0;

	req->oldidx += size;
	if (req->oldptr == NULL)
		return 0;
	if (at < req->oldlen)
		n = req->oldlen - at < size ? req->oldlen - at : size;
	memcpy((char *)req->oldptr + at, p, n);
	return n == size ? 0 : ENOMEM;
}

static int copy_in(struct sysctl_req *req, void *p, size_t size)
{
	if (req->newptr == NULL)
		return 0;
	if (req->newlen - req->newidx < size)
		return EINVAL;
	memcpy(p, (const char *)req->newptr + req->newidx, size);
	req->newidx += size;
	return 0;
}

int percpu_freebsd_handle_counters(SYSCTL_HANDLER_ARGS)
{
	counter_u64_t *c = arg1;
	size_t n = (size_t)arg2, room = req->oldlen - req->oldidx;
	bool fits =
		req->oldptr == NULL || (req->oldlen >= req->oldidx && room / sizeof(uint64_t) >= n);
	bool reset = req->newptr != NULL && fits;
	uint64_t v;

	(void)oidp;
	for (size_t i = 0; i < n; i++) {
		v = reset ? percpu_freebsd_fetch_zero(c[i]) : counter_u64_fetch(c[i]);
		(void)SYSCTL_OUT(req, &v, sizeof(v));
	}
	return fits ? 0 : ENOMEM;
}

int percpu_freebsd_handle_value(void *value, size_t size, unsigned access, struct sysctl_req *req)
{
	int e = SYSCTL_OUT(req, value, size);

	if (e != 0 || req->newptr == NULL)
		return e;
	return (access & CTLFLAG_WR) ? SYSCTL_IN(req, value, size) : EPERM;
}

static int begin_request(const char *name, bool writes, struct sysctl_oid **ret)
{
	int e;

	names_lock_take();
	e = find_oid(name, ret);
	if (e == 0 && writes && !((*ret)->oid_kind & CTLFLAG_WR))
		e = -EPERM;
	if (e == 0)
		(*ret)->oid_running++;
	names_lock_release();
	return e;
}

/* Count the request as done. In a child that was forked during the request, oid_running is 0. */
static void end_request(struct sysctl_oid *oid)
{
	names_lock_take();
	if (oid->oid_running != 0 && --oid->oid_running == 0)
		pthread_cond_broadcast(&requests_done);
	names_lock_release();
}

int percpu_freebsd_sysctlbyname(const char *name, void *old, size_t *oldlen, const void *newp,
				size_t newlen)
{
	struct sysctl_req req = { .oldptr = old,
				  .oldlen = oldlen != NULL ? *oldlen : 0,
				  .oldfunc = copy_out,
				  .newptr = newp,
				  .newlen = newlen,
				  .newfunc = copy_in };
	int e, cancel = percpu_defer_cancel();
	struct sysctl_oid *oid;

	e = begin_request(name, newp != NULL, &oid);
	if (e == 0) {
		e = -oid->oid_handler(oid, oid->oid_arg1, oid->oid_arg2, &req);
		end_request(oid);
		if (oldlen != NULL && (e == 0 || e == -ENOMEM))
			*oldlen = old != NULL && req.oldidx > req.oldlen ? req.oldlen : req.oldidx;
	}
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_freebsd_sysctlbyname_errno(const char *name, void *old, size_t *oldlen, const void *newp,
				      size_t newlen)
{
	int e = percpu_freebsd_sysctlbyname(name, old, oldlen, newp, newlen);

	if (e == 0)
		return 0;
	errno = -e;
	return -1;
}

/* Copy all names and descriptions into one block, behind an array that points to them. The caller
 * has the lock. */
static int copy_names(struct percpu_freebsd_name **ret, size_t *ret_n)
{
	struct percpu_freebsd_name *list;
	size_t n = 0, bytes = 0;
	char buf[NAME_SIZE], *p;

	for (const struct sysctl_oid *oid = first_oid; oid != NULL; oid = oid->oid_link, n++)
		bytes += strlen(full_name(oid, buf)) + strlen(oid->oid_descr) + 2;
	list = malloc(n * sizeof(*list) + bytes + 1);
	if (list == NULL)
		return -ENOMEM;
	*ret = list;
	*ret_n = n;
	p = (char *)(list + n);
	for (const struct sysctl_oid *oid = first_oid; oid != NULL; oid = oid->oid_link, list++) {
		list->size = oid->size;
		list->kind = oid->oid_kind;
		list->name = p;
		p = stpcpy(p, full_name(oid, buf)) + 1;
		list->descr = p;
		p = stpcpy(p, oid->oid_descr) + 1;
	}
	return 0;
}

int percpu_freebsd_sysctl_foreach(int (*fn)(const struct percpu_freebsd_name *n, void *arg),
				  void *arg)
{
	struct percpu_freebsd_name *list;
	size_t n;
	int e;

	names_lock_take();
	e = copy_names(&list, &n);
	names_lock_release();
	if (e != 0)
		return e;
	for (size_t i = 0; i < n && e == 0; i++)
		e = fn(&list[i], arg);
	free(list);
	return e;
}

/* Names made at run time. */

struct percpu_freebsd_added {
	struct percpu_freebsd_added *next; /* the one that the context added before */
	struct sysctl_oid *oid;
};

struct made_oid {
	struct sysctl_oid oid;
	char text[]; /* name, format, description */
};

static struct sysctl_oid *make_oid(const char *name, const char *fmt, const char *descr)
{
	size_t size = strlen(name) + strlen(fmt) + strlen(descr) + 3;
	struct made_oid *made = malloc(sizeof(*made) + size);
	char *p;

	if (made == NULL)
		return NULL;
	p = stpcpy(made->text, name) + 1;
	made->oid = (struct sysctl_oid){ .oid_children = { &made->oid },
					 .oid_name = made->text,
					 .oid_fmt = p,
					 .oid_refcnt = 1 };
	p = stpcpy(p, fmt) + 1;
	made->oid.oid_descr = p;
	strcpy(p, descr);
	return &made->oid;
}

struct sysctl_oid *percpu_freebsd_sysctl_add(struct sysctl_ctx_list *ctx,
					     struct sysctl_oid_list *parent, const char *name,
					     unsigned kind, void *arg1, intmax_t arg2,
					     int (*handler)(SYSCTL_HANDLER_ARGS), const char *fmt,
					     const char *descr)
{
	struct percpu_freebsd_added *added = ctx != NULL ? malloc(sizeof(*added)) : NULL;
	struct sysctl_oid *oid = make_oid(name, fmt, descr), *other = NULL;
	int e = -ENOMEM;

	if (oid != NULL && (ctx == NULL || added != NULL)) {
		oid->oid_parent = parent;
		oid->oid_kind = kind | CTLFLAG_DYN;
		oid->oid_arg1 = arg1;
		oid->oid_arg2 = arg2;
		oid->oid_handler = handler;
		if (handler == percpu_freebsd_handle_counters)
			oid->size = (size_t)arg2 * sizeof(uint64_t);
		names_lock_take();
		e = insert(oid, &other);
		if (e == -EEXIST && handler == NULL && other->oid_handler == NULL)
			other->oid_refcnt++;
		else
			other = NULL;
		names_lock_release();
	}
	if (e != 0) {
		free(oid);
		oid = other;
	}
	if (oid == NULL || ctx == NULL) {
		free(added);
		return oid;
	}
	*added = (struct percpu_freebsd_added){ .next = ctx->first, .oid = oid };
	ctx->first = added;
	return oid;
}

static bool added_by(const struct sysctl_ctx_list *ctx, const struct sysctl_oid *oid)
{
	for (const struct percpu_freebsd_added *a = ctx->first; a != NULL; a = a->next)
		if (a->oid == oid)
			return true;
	return false;
}

/* Return whether a name of another context is below a name that would be removed. */
static bool is_busy(const struct sysctl_ctx_list *ctx)
{
	for (const struct sysctl_oid *o = first_oid; o != NULL; o = o->oid_link)
		if (o->oid_parent != NULL && !added_by(ctx, o) && added_by(ctx, parent_of(o)) &&
		    parent_of(o)->oid_refcnt == 1)
			return true;
	return false;
}

int percpu_freebsd_sysctl_ctx_free(struct sysctl_ctx_list *ctx)
{
	int cancel = percpu_defer_cancel();
	struct percpu_freebsd_added *a;
	int e = 0;

	names_lock_take();
	if (is_busy(ctx))
		e = EBUSY;
	while (e == 0 && (a = ctx->first) != NULL) {
		ctx->first = a->next;
		if (--a->oid->oid_refcnt == 0) {
			take_away(a->oid);
			free(a->oid); /* never a static oid: it has a reference of its own */
		}
		free(a);
	}
	names_lock_release();
	percpu_restore_cancel(cancel);
	return e;
}
