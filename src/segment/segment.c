/* SPDX-License-Identifier: MIT */
/*
 * segment.c - opening segments. A segment is a region with a control at root 0, and with owners at
 * root 1 after the first declaration of an owned gauge.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../cpu/debug.h"
#include "segment.h"

#define LONGEST_FLAT 200
#define NO_PLACE "there is no place for the handle"
#define OF_WRITERS                                                                                 \
	(PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_CREATE | PERCPU_SEGMENT_ANEW |                      \
	 PERCPU_SEGMENT_FOREIGN | PERCPU_SEGMENT_FALLBACK)

static struct percpu_segment_control *control_of(const struct percpu_block *b)
{
	return (struct percpu_segment_control *)percpu_block_bias(b);
}

/* CLOCK_BOOTTIME is another clock in each time namespace, so each counts as a boot of its own. */
uint64_t percpu_segment_boot(void)
{
	const uint64_t boot = percpu_boot_id();

	return boot != 0 ? boot ^ percpu_namespace("time") << 32 : 0;
}

static struct percpu_segment_time moment_in(uint64_t boot)
{
	return (struct percpu_segment_time){ percpu_clock_ns(CLOCK_REALTIME),
					     percpu_clock_ns(CLOCK_BOOTTIME), boot };
}

struct percpu_segment_time percpu_segment_now(const struct percpu_segment *s)
{
	return moment_in(s->boot);
}

static void start_segment(struct percpu_block *b)
{
	struct percpu_segment_control *c = control_of(b);

	c->version = PERCPU_SEGMENT_VERSION;
	c->started[1] = moment_in(percpu_segment_boot());
	c->generation = c->completed = 1;
}

static int adopt_segment(const struct percpu_block *found, struct percpu_plan *p)
{
	(void)p;
	return __atomic_load_n(&control_of(found)->version, __ATOMIC_RELAXED) ==
			       PERCPU_SEGMENT_VERSION ?
		       0 :
		       -EPROTO;
}

/* Find the control, or create it in a region that was opened to write. The caller frees *ret. */
static int find_control(struct percpu_region *r, struct percpu_block **ret)
{
	struct percpu_block none = { .base = NULL };
	struct percpu_plan p = {
		.kind = PERCPU_KIND_SEGMENT,
		.size = sizeof(struct percpu_segment_control),
		.align = PERCPU_BLOCK_ALIGN,
		.handle = &none,
		.handle_size = sizeof(none),
		.start = start_segment,
		.adopt = adopt_segment,
	};
	int e = percpu_block_open(r, PERCPU_SEGMENT_ROOT, &p, ret);

	return e == -EEXIST ? -EBADMSG : e;
}

/* Create the control of a new file before it gets its name, so that it is a segment by then. */
static int make_control(struct percpu_region *r)
{
	struct percpu_block *b = NULL;
	int e = find_control(r, &b);

	free(b);
	return e;
}

static int open_control(struct percpu_segment *s)
{
	struct percpu_block *b = NULL;
	int e = find_control(s->region, &b);

	if (e != 0)
		return e;
	s->control = control_of(b);
	s->control_key = percpu_region_key(s->region, b->base);
	free(b);
	return 0;
}

static void drop_segment(struct percpu_segment *s, struct percpu_region *r)
{
	if (s != NULL) {
		free(s->series.slot);
		free(s->families.slot);
		free(s->fallback);
	}
	free(s);
	percpu_region_close(r);
}

/* Choose a secret for hashes; a weak one if the kernel has no random bytes yet. libc's getrandom()
 * would be a cancellation point. */
static struct percpu_hash_key choose_key(const struct percpu_segment *s)
{
	struct percpu_hash_key key = { { percpu_now_ns(), (uintptr_t)s } }, random;

	if (syscall(SYS_getrandom, &random, sizeof(random), GRND_NONBLOCK) == sizeof(random))
		key = random;
	return key;
}

/* Make a segment of the region. On failure close the region, and write why, if more is known than
 * the error. */
static int begin_segment(struct percpu_region *r, const char *name, unsigned flags,
			 struct percpu_segment **ret, struct percpu_reason *why)
{
	struct percpu_segment *s = calloc(1, sizeof(*s));
	int e = s != NULL ? 0 : -ENOMEM;

	if (e == 0) {
		s->region = r;
		s->boot = percpu_segment_boot();
		s->key = choose_key(s);
		e = percpu_region_has_default_lanes(r) ? open_control(s) : -EBADMSG;
		if (e == -EBADMSG)
			(void)percpu_reason_set(why, e,
						"the file is a region with other objects, or is "
						"damaged: use another name");
	}
	if (e == 0 && r->writable)
		e = percpu_generation_complete(s, flags & PERCPU_SEGMENT_ANEW);
	if (e == 0 && percpu_debug_flags(flags & PERCPU_SEGMENT_DEBUG, PERCPU_SEGMENT_DEBUG) != 0)
		e = percpu_segment_check_begin(s, name);
	if (e != 0) {
		drop_segment(s, r);
		return e;
	}
	*ret = s;
	return 0;
}

static int read_segment_options(const struct percpu_segment_options *o, unsigned flags,
				struct percpu_region_options *ret, struct percpu_reason *why)
{
	const unsigned unknown = flags & ~(OF_WRITERS | PERCPU_SEGMENT_DEBUG);
	struct percpu_segment_options opt;

	if (unknown != 0)
		return percpu_reason_set(why, -EINVAL, "flags %#x are not known", unknown);
	if ((flags & OF_WRITERS) != 0 && !(flags & PERCPU_SEGMENT_WRITE))
		return percpu_reason_set(why, -EINVAL, "flags %#x need PERCPU_SEGMENT_WRITE",
					 flags & OF_WRITERS);
	if (percpu_options_read(&opt, sizeof(opt), o) != 0)
		return percpu_reason_set(why, -EINVAL,
					 "its options have another size, or fields that are not "
					 "known");
	*ret = (struct percpu_region_options){ .size = sizeof(*ret),
					       .cpus = opt.cpus,
					       .mode = opt.mode };
	return 0;
}

/* Return whether the file must be this user's. */
static bool must_own(unsigned flags)
{
	return (flags & (PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_FOREIGN)) == PERCPU_SEGMENT_WRITE;
}

static unsigned region_flags(unsigned flags)
{
	return PERCPU_REGION_OWNERS | (flags & PERCPU_SEGMENT_WRITE ? PERCPU_REGION_WRITE : 0) |
	       (flags & PERCPU_SEGMENT_CREATE ? PERCPU_REGION_CREATE : 0);
}

char *percpu_segment_path(const char *name, int *e, struct percpu_reason *why)
{
	const size_t length = strlen(name);
	char *path;

	*e = 0;
	if (strchr(name, '/') == NULL) {
		if (*name == '\0' || *name == '.' ||
		    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				 "_.-") != length)
			*e = percpu_reason_set(why, -EINVAL,
					       "a name is of letters, digits, '_', '.' and '-', "
					       "and begins with no '.'; a path has a '/'");
		else if (length > LONGEST_FLAT)
			*e = percpu_reason_set(why, -ENAMETOOLONG,
					       "a name has at most %d characters; a path has a '/'",
					       LONGEST_FLAT);
	}
	if (*e != 0)
		return NULL;
	*e = -ENOMEM;
	if (asprintf(&path, "%s%s", strchr(name, '/') == NULL ? PERCPU_FLAT_NAMES : "", name) < 0)
		return NULL;
	return path;
}

/* Write why the file has no region, if that can be seen in *file. failed: file was not set. */
static void tell_of_file(int failed, const struct stat *file, struct percpu_reason *why)
{
	if (!failed)
		(void)percpu_reason_of_file(file, why);
}

static int open_path(const char *name, unsigned flags, const struct percpu_segment_options *o,
		     struct percpu_segment **ret, struct percpu_reason *why)
{
	struct percpu_region_options options;
	struct percpu_region *r;
	struct stat st;
	unsigned how;
	char *path;
	int e = read_segment_options(o, flags, &options, why);

	if (e != 0)
		return e;
	path = percpu_segment_path(name, &e, why);
	if (path == NULL)
		return e;
	how = region_flags(flags) | PERCPU_REGION_NO_LINK |
	      (must_own(flags) ? PERCPU_REGION_OWN : 0);
	e = percpu_file_open(path, how, &options, make_control, &r);
	if (e == -EBADMSG)
		tell_of_file(lstat(path, &st), &st, why);
	free(path);
	return e != 0 ? e : begin_segment(r, name, flags, ret, why);
}

static int open_descriptor(int fd, unsigned flags, const struct percpu_segment_options *o,
			   struct percpu_segment **ret, struct percpu_reason *why)
{
	struct percpu_region_options options;
	struct percpu_region *r;
	struct stat st;
	char name[32];
	int e = read_segment_options(o, flags, &options, why);

	if (e == 0 && must_own(flags))
		e = percpu_file_check_owner(fd);
	if (e == 0)
		e = percpu_file_open_fd(fd, region_flags(flags), &options, make_control, &r);
	if (e == -EBADMSG)
		tell_of_file(fstat(fd, &st), &st, why);
	(void)snprintf(name, sizeof(name), "of descriptor %d", fd);
	return e != 0 ? e : begin_segment(r, name, flags, ret, why);
}

/* Open a segment in a file of this process and of its forks alone, because of the sentence that
 * the thread has. Returns 0 or -errno. */
static int open_private(unsigned flags, const struct percpu_segment_options *o,
			struct percpu_segment **ret)
{
	const unsigned kept = flags & (PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_DEBUG);
	const int fd = memfd_create("percpu", MFD_CLOEXEC);
	struct percpu_segment *s = NULL;
	struct percpu_reason why;
	int e = fd < 0 ? percpu_errno() :
			 open_descriptor(fd, kept | PERCPU_SEGMENT_CREATE, o, &s, &why);

	if (fd >= 0)
		close(fd);
	if (e != 0)
		return e;
	s->fallback = strdup(percpu_error());
	if (s->fallback == NULL) {
		percpu_segment_close(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

/* What an open call returns that has failed with e: why is kept, or the segment is private. */
static int end_failed(int e, const struct percpu_opening *opening, const struct percpu_reason *why,
		      unsigned flags, const struct percpu_segment_options *o,
		      struct percpu_segment **ret)
{
	(void)percpu_error_keep_opening(e, opening, why);
	return (flags & PERCPU_SEGMENT_FALLBACK) && e != -EINVAL &&
			       open_private(flags, o, ret) == 0 ?
		       0 :
		       e;
}

int percpu_segment_open(const char *name, unsigned flags, const struct percpu_segment_options *o,
			struct percpu_segment **ret)
{
	const struct percpu_opening opening = { .name = name,
						.creates = flags & PERCPU_SEGMENT_CREATE };
	struct percpu_reason why = { "" };
	int e;

	if (name == NULL)
		return percpu_error_say(-EINVAL, "the name of the segment is NULL");
	e = ret != NULL ? open_path(name, flags, o, ret, &why) :
			  percpu_reason_set(&why, -EINVAL, NO_PLACE);
	return e != 0 ? end_failed(e, &opening, &why, flags, o, ret) : 0;
}

int percpu_segment_open_fd(int fd, unsigned flags, const struct percpu_segment_options *o,
			   struct percpu_segment **ret)
{
	const struct percpu_opening opening = { .fd = fd };
	struct percpu_reason why = { "" };
	int e = ret != NULL ? open_descriptor(fd, flags, o, ret, &why) :
			      percpu_reason_set(&why, -EINVAL, NO_PLACE);

	return e != 0 ? end_failed(e, &opening, &why, flags, o, ret) : 0;
}

const char *percpu_segment_fallback(const struct percpu_segment *s)
{
	return s != NULL ? s->fallback : NULL;
}

void percpu_segment_close(struct percpu_segment *s)
{
	if (s == NULL)
		return;
	if (s->check != NULL) {
		percpu_segment_check_close(s);
		return;
	}
	percpu_segment_detach_all(s);
	percpu_segment_drop_families(s);
	percpu_owners_detach(s->owners);
	percpu_presence_drop(s->presence);
	drop_segment(s, s->region);
}

struct percpu_owners *percpu_segment_owners(struct percpu_segment *s, int *e)
{
	struct percpu_owners *o, *found;

	percpu_process_lock();
	found = s->owners;
	percpu_process_unlock();
	if (found != NULL)
		return found;
	*e = percpu_owners_open(s->region, PERCPU_OWNERS_ROOT, &o);
	if (*e != 0)
		return NULL;
	o->lives = s->lives;
	percpu_process_lock();
	if (s->owners == NULL) {
		s->owners = o;
		o = NULL;
	}
	found = s->owners;
	percpu_process_unlock();
	percpu_owners_detach(o); /* another thread was first */
	return found;
}
