/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_create.c - create and destroy the buffers of a file, handle forks, and read statistics.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <percpu/counter.h>

#include "../cpu/debug.h"
#include "lwbuf.h"

#ifndef F_SEAL_FUTURE_WRITE /* since Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define LARGEST_WINDOW ((size_t)1 << 20)
#define MOST_BUFFERS 65536
#define HUGE_PAGES_MAGIC 0x958458f6u /* HUGETLBFS_MAGIC of linux/magic.h, which musl lacks */
#define EXCESS_BYTES ((size_t)64 << 20)
#define EXCESS_MOST 1024
#define KNOWN_FLAGS (PERCPU_LWBUF_WRITABLE | PERCPU_LWBUF_KEEPS_SIZE | PERCPU_LWBUF_DEBUG)

static pthread_mutex_t lwbufs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct percpu_lwbufs *lwbufs; /* under the lock */

static uint64_t buffers_in_use(const struct percpu_lwbufs *f)
{
	return percpu_counter_fetch(f->used) + percpu_counter_fetch(f->addresses) +
	       __atomic_load_n(&f->bounces.out, __ATOMIC_RELAXED) -
	       percpu_sfbufs_bounces(f->shared);
}

/* Forks */

static void lwbufs_lock_all(void)
{
	percpu_mutex_lock(&lwbufs_lock);
	for (struct percpu_lwbufs *f = lwbufs; f != NULL; f = f->next) {
		percpu_sfbufs_lock(f->shared);
		percpu_mutex_lock(&f->lock);
	}
}

static void lwbufs_unlock_all(void)
{
	for (struct percpu_lwbufs *f = lwbufs; f != NULL; f = f->next) {
		percpu_mutex_unlock(&f->lock);
		percpu_sfbufs_unlock(f->shared);
	}
	percpu_mutex_unlock(&lwbufs_lock);
}

/* Note how many buffers are in use: those of the parent's other threads are never freed here. */
static void lwbufs_note_in_child(void)
{
	for (struct percpu_lwbufs *f = lwbufs; f != NULL; f = f->next) {
		f->inherited = (int64_t)buffers_in_use(f);
		f->forks++;
		percpu_sfbufs_in_child(f->shared);
	}
}

__attribute__((constructor)) static void lwbuf_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = lwbufs_lock_all,
						      .after = lwbufs_unlock_all,
						      .in_child = lwbufs_note_in_child };

	percpu_fork_register(PERCPU_FORK_LWBUFS, &part);
}

/* Creation */

static bool is_power_of_two(size_t n)
{
	return (n & (n - 1)) == 0;
}

/* Replace zeros by the defaults. Return 0 or -EINVAL. */
static int complete_lwbuf_options(struct percpu_lwbuf_options *o)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (o->window == 0)
		o->window = page;
	if (o->max_excess == 0)
		o->max_excess = EXCESS_BYTES / o->window < EXCESS_MOST ? EXCESS_BYTES / o->window :
									 EXCESS_MOST;
	if (!is_power_of_two(o->window) || o->window < page || o->window > LARGEST_WINDOW ||
	    o->max_excess > MOST_BUFFERS || (unsigned)o->backend > PERCPU_LWBUF_BOUNCE ||
	    (o->flags & ~(uint32_t)KNOWN_FLAGS))
		return -EINVAL;
	o->flags = percpu_debug_flags(o->flags, PERCPU_LWBUF_DEBUG);
	return 0;
}

/* What the creation needs to know about a file. */
struct seen_file {
	uint64_t size, device, inode;
	bool keeps_size;
	bool has_small_pages; /* windows can be mapped */
};

static int look_at_file(int fd, uint32_t flags, struct seen_file *ret)
{
	bool writable = flags & PERCPU_LWBUF_WRITABLE;
	int mode = fcntl(fd, F_GETFL), seals;
	struct statfs fs;
	struct stat st;

	if (mode < 0 || fstat(fd, &st) != 0 || fstatfs(fd, &fs) != 0)
		return percpu_errno();
	if (!S_ISREG(st.st_mode) || (writable && (mode & O_APPEND)))
		return -EINVAL;
	if ((mode & O_PATH) || (mode & O_ACCMODE) == O_WRONLY ||
	    (writable && (mode & O_ACCMODE) != O_RDWR))
		return -EACCES;
	seals = fcntl(fd, F_GET_SEALS);
	if (writable && seals > 0 && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return -EPERM;
	ret->keeps_size =
		(flags & PERCPU_LWBUF_KEEPS_SIZE) || (seals > 0 && (seals & F_SEAL_SHRINK));
	ret->has_small_pages = (uint32_t)fs.f_type != HUGE_PAGES_MAGIC;
	ret->size = (uint64_t)st.st_size;
	ret->device = st.st_dev;
	ret->inode = st.st_ino;
	return 0;
}

/* Return whether PERCPU_LWBUF_AUTO maps all of a file of this size. */
static bool is_small(uint64_t size)
{
	uint64_t most = sizeof(void *) < 8 ? UINT64_C(256) << 20 : UINT64_C(1) << 45;
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur / 4 < most)
		most = limit.rlim_cur / 4;
	return size <= most;
}

/* Map the file, except a last page of which it has only a part: its length may change. */
static void map_all(struct percpu_lwbufs *f, uint64_t size)
{
	int prot = f->flags & PERCPU_LWBUF_WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ;
	uint64_t pages = size >> f->shift;
	void *at;

	if (pages == 0 || pages << f->shift > SIZE_MAX)
		return;
	at = mmap(NULL, (size_t)(pages << f->shift), prot, MAP_SHARED, f->fd, 0);
	if (at == MAP_FAILED)
		return;
	f->direct = at;
	f->direct_pages = pages;
}

static int make_lwbuf_parts(struct percpu_lwbufs *f, const struct percpu_lwbuf_options *o,
			    const struct seen_file *file)
{
	bool wants_all = o->backend == PERCPU_LWBUF_DIRECT ||
			 (o->backend == PERCPU_LWBUF_AUTO && is_small(file->size));
	int e = percpu_window_pool_init(f, &f->windows, false);

	f->device = file->device;
	f->inode = file->inode;
	f->blocks = f->windows.blocks;
	if (e == 0)
		e = percpu_window_pool_init(f, &f->bounces, true);
	if (e == 0)
		e = percpu_counter_create(&f->used);
	if (e == 0)
		e = percpu_counter_create(&f->addresses);
	if (e == 0)
		e = percpu_counter_create(&f->sharers);
	if (e == 0)
		e = percpu_sfbufs_create(o->max_excess, &f->shared);
	if (e == 0 && f->maps)
		e = percpu_window_table_create(f, o->max_excess);
	if (e != 0)
		return e;
	/* A direct buffer has no window to check. */
	if (file->keeps_size && wants_all && !(f->flags & PERCPU_LWBUF_DEBUG))
		map_all(f, file->size);
	if (o->backend == PERCPU_LWBUF_DIRECT && f->direct == NULL && file->size >> f->shift != 0 &&
	    !(f->flags & PERCPU_LWBUF_DEBUG))
		return -ENOMEM;
	return 0;
}

static void free_lwbuf_parts(struct percpu_lwbufs *f)
{
	int cancel = percpu_defer_cancel(); /* canceled in close(), it would leak the rest */

	if (f->direct != NULL)
		munmap(f->direct, (size_t)(f->direct_pages << f->shift));
	percpu_window_pool_fini(&f->windows);
	percpu_window_pool_fini(&f->bounces);
	percpu_sfbufs_destroy(f->shared);
	percpu_local_destroy(f->table);
	percpu_counter_destroy(f->used);
	percpu_counter_destroy(f->addresses);
	percpu_counter_destroy(f->sharers);
	if (f->fd >= 0)
		close(f->fd);
	percpu_mutex_destroy(&f->lock);
	free(f);
	percpu_restore_cancel(cancel);
}

int percpu_lwbuf_create(int fd, const struct percpu_lwbuf_options *o, struct percpu_lwbufs **ret)
{
	struct percpu_lwbuf_options opt;
	struct percpu_lwbufs *f;
	struct seen_file file = { .size = 0 };
	int e;

	if (ret == NULL || percpu_options_read(&opt, sizeof(opt), o) != 0 ||
	    complete_lwbuf_options(&opt) != 0)
		return -EINVAL;
	e = look_at_file(fd, opt.flags, &file);
	if (e != 0)
		return e;
	if ((opt.backend == PERCPU_LWBUF_DIRECT && !file.keeps_size) ||
	    (opt.backend == PERCPU_LWBUF_WINDOW && !(file.keeps_size && file.has_small_pages)))
		return -ENOTSUP;
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	percpu_mutex_init(&f->lock);
	f->flags = opt.flags;
	f->backend = opt.backend;
	f->maps = file.keeps_size && file.has_small_pages && opt.backend != PERCPU_LWBUF_BOUNCE;
	f->size = opt.window;
	f->shift = (unsigned)__builtin_ctzl(opt.window);
	f->max_excess = opt.max_excess;
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	/* F_DUPFD fails with -EINVAL if RLIMIT_NOFILE allows no descriptor from 3 on. */
	if (f->fd < 0)
		e = errno == EINVAL ? -EMFILE : percpu_errno();
	else
		e = make_lwbuf_parts(f, &opt, &file);
	if (e != 0) {
		free_lwbuf_parts(f);
		return e;
	}
	percpu_mutex_lock(&lwbufs_lock);
	f->next = lwbufs;
	lwbufs = f;
	percpu_mutex_unlock(&lwbufs_lock);
	*ret = f;
	return 0;
}

bool percpu_lwbufs_exist(const struct percpu_lwbufs *wanted)
{
	const struct percpu_lwbufs *f;

	percpu_mutex_lock(&lwbufs_lock);
	for (f = lwbufs; f != NULL && f != wanted; f = f->next)
		;
	percpu_mutex_unlock(&lwbufs_lock);
	return f != NULL;
}

/* The lock of the list keeps the files from being destroyed meanwhile. */
void percpu_lwbufs_reclaim(void)
{
	percpu_mutex_lock(&lwbufs_lock);
	for (struct percpu_lwbufs *f = lwbufs; f != NULL; f = f->next)
		(void)!percpu_lwbuf_reclaim(f);
	percpu_mutex_unlock(&lwbufs_lock);
}

int percpu_lwbuf_destroy(struct percpu_lwbufs *f)
{
	struct percpu_lwbufs **p = &lwbufs;

	if (f == NULL)
		return 0;
	if ((int64_t)buffers_in_use(f) > __atomic_load_n(&f->inherited, __ATOMIC_RELAXED) ||
	    !percpu_sfbufs_idle(f->shared))
		return -EBUSY;
	percpu_mutex_lock(&lwbufs_lock);
	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	percpu_mutex_unlock(&lwbufs_lock);
	free_lwbuf_parts(f);
	return 0;
}

/* Return how often the window was allocated. */
static uint64_t allocations(const struct percpu_window *w)
{
	uint64_t n = 0;

	for (unsigned seat = 0; seat < PERCPU_WINDOW_SEATS; seat++)
		n += (__atomic_load_n(&w->generation[seat], __ATOMIC_RELAXED) + 1) / 2;
	return n;
}

static uint64_t reserved_by(const struct percpu_window_pool *p)
{
	return (uint64_t)__atomic_load_n(&p->room, __ATOMIC_RELAXED) << p->shift;
}

void percpu_lwbuf_stats(const struct percpu_lwbufs *f, struct percpu_lwbuf_stats *ret)
{
	const struct percpu_window *w;
	uint64_t error = 0;

	if (f == NULL || ret == NULL)
		return;
	memset(ret, 0, sizeof(*ret));
	ret->backend = f->direct != NULL ? PERCPU_LWBUF_DIRECT :
		       f->maps		 ? PERCPU_LWBUF_WINDOW :
					   PERCPU_LWBUF_BOUNCE;
	ret->used = buffers_in_use(f);
	ret->max_excess = __atomic_load_n(&f->max_excess, __ATOMIC_RELAXED);
	for (uint32_t id = 1; id <= __atomic_load_n(&f->windows.most, __ATOMIC_ACQUIRE); id++) {
		w = percpu_window_at(f->blocks, id);
		ret->windows += allocations(w);
		error += percpu_window_excess_error(f, w);
	}
	ret->excess = percpu_window_excess(f);
	ret->excess -= error < ret->excess ? error : ret->excess;
	ret->mapped = __atomic_load_n(&f->mapped, __ATOMIC_RELAXED);
	ret->bounced = __atomic_load_n(&f->bounced, __ATOMIC_RELAXED);
	ret->address =
		(f->direct_pages << f->shift) + reserved_by(&f->windows) + reserved_by(&f->bounces);
}
