/* SPDX-License-Identifier: MIT */
/*
 * freebsd_sysctl.c - the names of sysctl.h: a list of the oids that units of
 * the program registered, sorted by full name, under a lock.
 *
 * A full name is put together from the oid and its parents when it is needed;
 * parents stay in memory as long as a unit that refers to them. Under the lock
 * are only calls that take none: fetch, reset, malloc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/freebsd.h>

#include "internal.h"

#define NAME_SIZE 256

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sysctl_oid *first_oid; /* under names_lock */

void percpu_names_lock(void)
{
	pthread_mutex_lock(&names_lock);
}

void percpu_names_unlock(void)
{
	pthread_mutex_unlock(&names_lock);
}

/* The full name, at the end of buf; NULL if it is longer. */
static const char *full_name(const struct sysctl_oid *oid, char buf[NAME_SIZE])
{
	char *p = buf + NAME_SIZE - 1;
	size_t len, dot;

	*p = '\0';
	for (; oid != NULL; oid = oid->parent) {
		len = strlen(oid->name);
		dot = oid->parent != NULL;
		if (len + dot > (size_t)(p - buf))
			return NULL;
		p -= len;
		memcpy(p, oid->name, len);
		if (dot)
			*--p = '.';
	}
	return p;
}

/* Where the first registered name is that does not come before this one. */
static struct sysctl_oid **position(const char *name)
{
	struct sysctl_oid **at = &first_oid;
	char buf[NAME_SIZE];

	while (*at != NULL && strcmp(full_name(*at, buf), name) < 0)
		at = &(*at)->next;
	return at;
}

int percpu_freebsd_sysctl_register(struct sysctl_oid *oid)
{
	char buf[NAME_SIZE], other[NAME_SIZE];
	const char *name = full_name(oid, buf);
	struct sysctl_oid **at;
	int e = 0;

	if (name == NULL)
		return -ENAMETOOLONG;
	percpu_names_lock();
	at = position(name);
	if (*at != NULL && strcmp(full_name(*at, other), name) == 0) {
		e = -EEXIST;
	} else {
		oid->next = *at;
		*at = oid;
	}
	percpu_names_unlock();
	return e;
}

void percpu_freebsd_sysctl_unregister(struct sysctl_oid *oid)
{
	struct sysctl_oid **at = &first_oid;

	percpu_names_lock();
	while (*at != NULL && *at != oid)
		at = &(*at)->next;
	if (*at != NULL)
		*at = oid->next;
	percpu_names_unlock();
}

/* The names below a node follow it, for '.' sorts before what names are of. */
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
	if (oid->counter == NULL)
		return -EISDIR;
	*ret = oid;
	return 0;
}

static uint64_t read_and_reset(counter_u64_t c)
{
	if (percpu_freebsd_early(c) != NULL)
		return percpu_static_counter_fetch_zero(percpu_freebsd_early(c));
	return percpu_counter_fetch_zero(percpu_freebsd_counter(c));
}

/* Copy as many bytes of the values as there is room for. */
static void copy_out(const struct sysctl_oid *oid, char *old, size_t room, bool reset)
{
	uint64_t v;

	for (size_t i = 0; i < oid->n && i * sizeof(v) < room; i++) {
		v = reset ? read_and_reset(oid->counter[i]) : counter_u64_fetch(oid->counter[i]);
		memcpy(old + i * sizeof(v), &v,
		       room - i * sizeof(v) < sizeof(v) ? room - i * sizeof(v) : sizeof(v));
	}
}

static int access_counters(const struct sysctl_oid *oid, char *old, size_t *oldlen, bool reset)
{
	size_t size = oid->n * sizeof(uint64_t), room = oldlen != NULL ? *oldlen : 0;
	bool fits = old == NULL || room >= size;

	if (reset && !(oid->kind & CTLFLAG_WR))
		return -EPERM;
	if (old != NULL)
		copy_out(oid, old, room, reset && fits);
	else
		for (size_t i = 0; reset && i < oid->n; i++)
			counter_u64_zero(oid->counter[i]);
	if (oldlen != NULL && fits)
		*oldlen = size;
	return fits ? 0 : -ENOMEM;
}

int percpu_freebsd_sysctlbyname(const char *name, void *old, size_t *oldlen, int reset)
{
	struct sysctl_oid *oid;
	int e;

	percpu_names_lock();
	e = find_oid(name, &oid);
	if (e == 0)
		e = access_counters(oid, old, oldlen, reset);
	percpu_names_unlock();
	return e;
}

/* All names and descriptions in one block, behind an array that tells them. */
static int copy_names(struct percpu_freebsd_name **ret, size_t *ret_n)
{
	struct percpu_freebsd_name *list;
	size_t n = 0, bytes = 0;
	char buf[NAME_SIZE], *p;

	for (const struct sysctl_oid *oid = first_oid; oid != NULL; oid = oid->next, n++)
		bytes += strlen(full_name(oid, buf)) + strlen(oid->descr) + 2;
	list = malloc(n * sizeof(*list) + bytes + 1);
	if (list == NULL)
		return -ENOMEM;
	*ret = list;
	*ret_n = n;
	p = (char *)(list + n);
	for (const struct sysctl_oid *oid = first_oid; oid != NULL; oid = oid->next, list++) {
		list->size = oid->n * sizeof(uint64_t);
		list->kind = oid->kind;
		list->name = p;
		p = stpcpy(p, full_name(oid, buf)) + 1;
		list->descr = p;
		p = stpcpy(p, oid->descr) + 1;
	}
	return 0;
}

int percpu_freebsd_sysctl_foreach(int (*fn)(const struct percpu_freebsd_name *n, void *arg),
				  void *arg)
{
	struct percpu_freebsd_name *list;
	size_t n;
	int e;

	percpu_names_lock();
	e = copy_names(&list, &n);
	percpu_names_unlock();
	if (e != 0)
		return e;
	for (size_t i = 0; i < n && e == 0; i++)
		e = fn(&list[i], arg);
	free(list);
	return e;
}
