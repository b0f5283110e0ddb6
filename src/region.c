/* SPDX-License-Identifier: MIT */
/*
 * region.c - regions: their chunks and their files.
 *
 * A region grows by chunks; a chunk is complete, in the file, before it is
 * counted in the header of the first, so a process can die at any point.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define MAX_LANE ((size_t)1 << 40)
#define MAX_CHUNKS 65536

pthread_mutex_t percpu_lock = PTHREAD_MUTEX_INITIALIZER;

static struct percpu_region *regions;	     /* under percpu_lock */
static struct percpu_region *default_region; /* likewise */

static void lock(void)
{
	pthread_mutex_lock(&percpu_lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&percpu_lock);
}

/* A child of fork has one thread; it must not find a lock held by another. */
static void before_fork(void)
{
	lock();
	percpu_depots_before_fork();
	percpu_file_locks_before_fork();
}

static void after_fork(void)
{
	percpu_depots_after_fork();
	unlock();
}

static void after_fork_in_child(void)
{
	percpu_file_locks_in_child();
	after_fork();
}

__attribute__((constructor)) static void survive_fork(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* A process that closes any descriptor of a file loses its record lock on it,
 * so not while another thread allocates. */
static void close_file(int fd)
{
	lock();
	close(fd);
	unlock();
}

bool percpu_region_is_zone(const struct percpu_region *r)
{
	return r->lane_size == PERCPU_LANE_SIZE;
}

/* Chunks */

static void describe(const struct percpu_region *r, uint32_t index, struct percpu_chunk *ret)
{
	struct stat st = { 0 };

	memset(ret, 0, sizeof(*ret));
	ret->region = (struct percpu_region *)r;
	ret->lane_size = r->lane_size;
	ret->stride = percpu_stride(r->lane_size);
	ret->cpus = r->cpus;
	ret->index = index;
	ret->fd = r->fd;
	if (r->fd >= 0 && fstat(r->fd, &st) == 0) {
		ret->dev = st.st_dev;
		ret->ino = st.st_ino;
	}
	ret->offset = (off_t)(index * percpu_chunk_size(ret->stride, ret->cpus));
}

/* Both for its index and for its address. */
static void enter_chunk(struct percpu_chunk_table *t, uint32_t index, struct percpu_chunk *k)
{
	size_t mask = 2 * (size_t)t->size - 1, i = percpu_chunk_hash(k->base);

	t->at[index] = k;
	while (t->at[t->size + (i & mask)] != NULL)
		i++;
	__atomic_store_n(&t->at[t->size + (i & mask)], k, __ATOMIC_RELEASE);
}

/* Twice the chunks of the table, which may be NULL: that of a new region. */
static struct percpu_chunk_table *larger_table(struct percpu_chunk_table *old)
{
	uint32_t size = old != NULL ? 2 * old->size : 1;
	struct percpu_chunk_table *t = calloc(1, sizeof(*t) + 3 * (size_t)size * sizeof(t->at[0]));

	if (t == NULL)
		return NULL;
	t->older = old;
	t->size = size;
	for (uint32_t i = 0; old != NULL && i < old->size; i++)
		enter_chunk(t, i, old->at[i]);
	return t;
}

static int append(struct percpu_region *r, struct percpu_chunk *k)
{
	struct percpu_chunk_table *t = r->chunks;

	if (t == NULL || r->n == t->size) {
		t = larger_table(t);
		if (t == NULL)
			return -ENOMEM;
		__atomic_store_n(&r->chunks, t, __ATOMIC_RELEASE);
	}
	if (r->n == 0)
		r->first = k;
	enter_chunk(t, r->n, k);
	__atomic_store_n(&r->n, r->n + 1, __ATOMIC_RELEASE);
	return 0;
}

int percpu_region_grow(struct percpu_region *r)
{
	struct percpu_chunk t, *k;
	int e;

	if (r->n == MAX_CHUNKS)
		return -ENOSPC;
	describe(r, r->n, &t);
	if (r->fd >= 0 &&
	    ftruncate(r->fd, t.offset + (off_t)percpu_chunk_size(t.stride, t.cpus)) != 0)
		return percpu_errno();
	e = percpu_chunk_map(&t, true, &k);
	if (e == 0) {
		if (r->fd >= 0)
			percpu_chunk_place(k);
		e = percpu_chunk_format(k);
		if (e == 0)
			e = append(r, k);
		if (e != 0)
			percpu_chunk_unmap(k);
	}
	if (e != 0) {
		if (r->fd >= 0 && ftruncate(r->fd, t.offset) != 0)
			return e; /* too long does no harm */
		return e;
	}
	__atomic_store_n(&r->first->header->chunks, r->n, __ATOMIC_RELEASE);
	return 0;
}

/* Is this header one that this library could have written for chunk index?
 * The file must be long enough for what it claims. */
static int validate(const struct percpu_header *h, uint32_t index, off_t offset, off_t file_size)
{
	uint64_t size;

	if (h->magic != PERCPU_MAGIC)
		return -EBADMSG;
	if (h->version != PERCPU_VERSION)
		return -EPROTO;
	if (h->index != index || h->lane_size == 0 || h->lane_size > MAX_LANE || h->cpus == 0)
		return -EBADMSG;
	if (h->lane_size % percpu_unit(h->lane_size) != 0)
		return -EBADMSG;
	if (h->stride != percpu_stride(h->lane_size) || h->cpus > PERCPU_MAX_CPUS)
		return -EPROTO;
	size = percpu_chunk_size(h->stride, h->cpus);
	if ((uint64_t)offset > (uint64_t)file_size || size > (uint64_t)(file_size - offset))
		return -EBADMSG;
	return 0;
}

static int read_header(int fd, uint32_t index, off_t offset, struct percpu_header *ret)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return percpu_errno();
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (pread(fd, ret, sizeof(*ret), offset) != (ssize_t)sizeof(*ret))
		return -EBADMSG;
	return validate(ret, index, offset, st.st_size);
}

int percpu_region_refresh(struct percpu_region *r)
{
	uint32_t there =
		r->fd < 0 ? r->n : __atomic_load_n(&r->first->header->chunks, __ATOMIC_ACQUIRE);
	struct percpu_header h;
	struct percpu_chunk t, *k;
	int e = 0;

	while (r->n < there && r->n < MAX_CHUNKS && e == 0) {
		describe(r, r->n, &t);
		e = read_header(r->fd, r->n, t.offset, &h);
		if (e == 0 && (h.lane_size != r->lane_size || h.cpus != r->cpus))
			e = -EBADMSG;
		if (e == 0)
			e = percpu_chunk_map(&t, r->writable, &k);
		if (e != 0)
			break;
		e = append(r, k);
		if (e != 0)
			percpu_chunk_unmap(k);
	}
	return e;
}

/* Regions */

static int new_region(int fd, bool writable, size_t lane_size, uint32_t cpus,
		      struct percpu_region **ret)
{
	struct percpu_region *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->fd = fd;
	r->writable = writable;
	r->lane_size = lane_size;
	r->cpus = cpus;
	*ret = r;
	return 0;
}

static void free_region(struct percpu_region *r)
{
	struct percpu_chunk_table *t, *older;

	for (uint32_t i = 0; i < r->n; i++)
		percpu_chunk_unmap(r->chunks->at[i]);
	for (t = r->chunks; t != NULL; t = older) {
		older = t->older;
		free(t);
	}
	free(r);
}

static void enlist(struct percpu_region *r)
{
	lock();
	r->next = regions;
	regions = r;
	unlock();
}

static bool all_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

/* Options of this version with the defaults filled in. */
static int check_options(const struct percpu_region_options *o, struct percpu_region_options *ret)
{
	int cpus = percpu_possible_cpus();
	size_t unit;

	memset(ret, 0, sizeof(*ret));
	if (o != NULL) {
		if (o->size < sizeof(*ret) ||
		    !all_zero((const unsigned char *)o + sizeof(*ret), o->size - sizeof(*ret)))
			return -EINVAL;
		*ret = *o;
	}
	if (cpus < 0 || ret->cpus > PERCPU_MAX_CPUS)
		return -E2BIG;
	if (ret->cpus == 0)
		ret->cpus = cpus;
	if (ret->cpus < (uint32_t)cpus || ret->lane_size > MAX_LANE || (ret->mode & ~07777U))
		return -EINVAL;
	if (ret->lane_size == 0)
		ret->lane_size = PERCPU_LANE_SIZE;
	unit = percpu_unit(ret->lane_size);
	ret->lane_size = (ret->lane_size + unit - 1) / unit * unit;
	if (ret->mode == 0)
		ret->mode = 0600;
	return 0;
}

/* The region for a new file, or for private memory with fd -1. */
static int create(int fd, const struct percpu_region_options *o, struct percpu_region **ret)
{
	struct percpu_region *r;
	int e;

	percpu_init();
	e = new_region(fd, true, o->lane_size, o->cpus, &r);
	if (e != 0)
		return e;
	e = percpu_region_grow(r);
	if (e != 0) {
		free_region(r);
		return e;
	}
	enlist(r);
	*ret = r;
	return 0;
}

int percpu_region_create(const struct percpu_region_options *o, struct percpu_region **ret)
{
	struct percpu_region_options opt;
	int e;

	if (ret == NULL)
		return -EINVAL;
	e = check_options(o, &opt);
	return e != 0 ? e : create(-1, &opt, ret);
}

/* Create a file next to path under a name of its own. */
static int open_temporary(const char *path, mode_t mode, char **ret_name)
{
	static unsigned counter;
	char *name;
	int fd;

	do {
		if (asprintf(&name, "%s.%ld-%u", path, (long)getpid(),
			     __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED)) < 0)
			return -ENOMEM;
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd >= 0) {
			*ret_name = name;
			return fd;
		}
		fd = percpu_errno();
		free(name);
	} while (fd == -EEXIST);
	return fd;
}

int percpu_region_create_file(const char *path, const struct percpu_region_options *o,
			      struct percpu_region **ret)
{
	struct percpu_region_options opt;
	struct percpu_region *r;
	char *name = NULL;
	int fd, e;

	if (path == NULL || ret == NULL)
		return -EINVAL;
	e = check_options(o, &opt);
	if (e != 0)
		return e;
	fd = open_temporary(path, opt.mode, &name);
	if (fd < 0)
		return fd;
	e = create(fd, &opt, &r);
	if (e != 0) {
		close_file(fd);
	} else if (link(name, path) != 0) {
		e = percpu_errno();
		percpu_region_close(r);
	} else {
		*ret = r;
	}
	unlink(name);
	free(name);
	return e;
}

static int duplicate(int fd, bool writable)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY ||
	    (writable && (flags & O_ACCMODE) != O_RDWR))
		return -EBADF;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? percpu_errno() : fd;
}

int percpu_region_create_fd(int fd, const struct percpu_region_options *o,
			    struct percpu_region **ret)
{
	struct percpu_region_options opt;
	struct stat st;
	int e;

	if (ret == NULL)
		return -EINVAL;
	e = check_options(o, &opt);
	if (e != 0)
		return e;
	fd = duplicate(fd, true);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) != 0)
		e = percpu_errno();
	else if (st.st_size != 0)
		e = -EEXIST;
	else
		e = create(fd, &opt, ret);
	if (e != 0)
		close_file(fd);
	return e;
}

/* Open the region in fd, which is then the region's. */
static int open_region(int fd, bool writable, struct percpu_region **ret)
{
	struct percpu_header h;
	struct percpu_region *r;
	struct percpu_chunk t, *k;
	int cpus = percpu_possible_cpus(), e;

	percpu_init();
	e = read_header(fd, 0, 0, &h);
	if (e != 0)
		return e;
	if (cpus < 0 || (writable && h.cpus < (uint32_t)cpus))
		return cpus < 0 ? -E2BIG : -ERANGE;
	e = new_region(fd, writable, h.lane_size, h.cpus, &r);
	if (e != 0)
		return e;
	describe(r, 0, &t);
	e = percpu_chunk_map(&t, writable, &k);
	if (e == 0) {
		e = append(r, k);
		if (e != 0)
			percpu_chunk_unmap(k);
	}
	if (e == 0)
		e = percpu_region_refresh(r);
	if (e != 0) {
		free_region(r);
		return e;
	}
	enlist(r);
	*ret = r;
	return 0;
}

int percpu_region_open_fd(int fd, int writable, struct percpu_region **ret)
{
	int e;

	if (ret == NULL)
		return -EINVAL;
	fd = duplicate(fd, writable);
	if (fd < 0)
		return fd;
	e = open_region(fd, writable, ret);
	if (e != 0)
		close_file(fd);
	return e;
}

int percpu_region_open(const char *path, int writable, struct percpu_region **ret)
{
	int fd, e;

	if (path == NULL || ret == NULL)
		return -EINVAL;
	/* Not blocking, should it be a pipe. */
	fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return percpu_errno();
	e = open_region(fd, writable, ret);
	if (e != 0)
		close_file(fd);
	return e;
}

void percpu_region_close(struct percpu_region *r)
{
	struct percpu_region **at;

	if (r == NULL)
		return;
	lock();
	for (at = &regions; *at != NULL && *at != r; at = &(*at)->next)
		;
	if (*at == r)
		*at = r->next;
	unlock();
	if (r->fd >= 0)
		close_file(r->fd);
	free_region(r);
}

int percpu_region_default(struct percpu_region **ret)
{
	struct percpu_region *r;
	int e = 0;

	if (__atomic_load_n(&default_region, __ATOMIC_ACQUIRE) == NULL) {
		e = percpu_region_create(NULL, &r);
		if (e != 0)
			return e;
		lock();
		if (default_region == NULL) {
			__atomic_store_n(&default_region, r, __ATOMIC_RELEASE);
			r = NULL;
		}
		unlock();
		percpu_region_close(r); /* another thread was first */
	}
	*ret = __atomic_load_n(&default_region, __ATOMIC_ACQUIRE);
	return 0;
}

struct percpu_region *percpu_region_find(const void *cell)
{
	struct percpu_region *r;

	pthread_mutex_lock(&percpu_lock);
	for (r = regions; r != NULL && percpu_region_chunk(r, cell) == NULL; r = r->next)
		;
	pthread_mutex_unlock(&percpu_lock);
	return r;
}
