/* SPDX-License-Identifier: MIT */
/*
 * segment.c - opening segments. A segment is a region with a control at root 0 (control.c), and with
 * owners at root 1 after the first declaration of an owned gauge.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cpu/debug.h"
#include "segment.h"

#define LONGEST_FLAT 200
#define OPEN_TRIES 100 /* while other processes remove the file */
#define NO_PLACE "there is no place for the handle"
#define OPEN_FLAGS                                                                                 \
	(PERCPU_SEGMENT_CREATE | PERCPU_SEGMENT_ANEW | PERCPU_SEGMENT_FOREIGN |                    \
	 PERCPU_SEGMENT_DEBUG | PERCPU_SEGMENT_FALLBACK)

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

/* How to open a segment. */
struct how {
	unsigned flags;
	struct percpu_region_options region;
	const char *program; /* NULL: any */
	struct percpu_making making;
};

/* Make a segment of the region. path is that of its file, or NULL. On failure close the region, and
 * write why, if more is known than the error. -ESTALE: the path leads to another file now, or to
 * none. */
static int begin_segment(struct percpu_region *r, const char *name, const char *path,
			 const struct how *how, struct percpu_segment **ret,
			 struct percpu_reason *why)
{
	struct percpu_segment *s = calloc(1, sizeof(*s));
	int e = s != NULL ? 0 : -ENOMEM;

	if (e == 0) {
		s->region = r;
		s->boot = percpu_segment_boot();
		s->key = choose_key(s);
		e = percpu_region_has_default_lanes(r) ? percpu_control_open(s, &how->making) :
							 -EBADMSG;
		if (e == -EBADMSG)
			(void)percpu_reason_set(why, e,
						"the file is a region with other objects, or is "
						"damaged: use another name");
		if (e == -EPROTO)
			(void)percpu_reason_set(why, e,
						"another version of the library has made the "
						"segment: stop the programs that have it open, and "
						"remove it");
	}
	if (e == 0)
		e = percpu_control_check_program(s, how->program, why);
	if (e == 0)
		e = percpu_counting_begin(s, path);
	if (e == 0)
		e = percpu_generation_complete(s, how->flags & PERCPU_SEGMENT_ANEW);
	if (e == 0 &&
	    percpu_debug_flags(how->flags & PERCPU_SEGMENT_DEBUG, PERCPU_SEGMENT_DEBUG) != 0)
		e = percpu_segment_check_begin(s, name);
	if (e != 0) {
		drop_segment(s, r);
		return e;
	}
	*ret = s;
	return 0;
}

static int read_how(const struct percpu_segment_options *o, unsigned flags, struct how *ret,
		    struct percpu_reason *why)
{
	const unsigned unknown = flags & ~(unsigned)OPEN_FLAGS;
	struct percpu_segment_options opt;
	uint32_t certain = 0;

	if (unknown != 0)
		return percpu_reason_set(why, -EINVAL, "flags %#x are not known", unknown);
	if (percpu_options_read(&opt, sizeof(opt), o) != 0)
		return percpu_reason_set(why, -EINVAL,
					 "its options have another size, or fields that are not "
					 "known");
	if (opt.mode & ~07777U)
		return percpu_reason_set(why, -EINVAL, "its .mode has bits beside 07777");
	if (opt.cpus > PERCPU_MAX_CPUS)
		return percpu_reason_set(why, -E2BIG, "its .cpus is more than %d", PERCPU_MAX_CPUS);
	(void)percpu_possible_cpus(&certain);
	if (opt.cpus != 0 && opt.cpus < certain)
		return percpu_reason_set(why, -EINVAL,
					 "its .cpus is %u, and this machine has %u CPUs", opt.cpus,
					 certain);
	*ret = (struct how){
		.flags = flags,
		.region = { .size = sizeof(ret->region), .cpus = opt.cpus, .mode = opt.mode },
		.program = opt.program,
		.making.mode = opt.mode,
	};
	return percpu_program_read(opt.program, &ret->making, why);
}

static unsigned region_flags(unsigned flags)
{
	return PERCPU_REGION_OWNERS | PERCPU_REGION_WRITE | PERCPU_REGION_NO_LINK |
	       (flags & PERCPU_SEGMENT_CREATE ? PERCPU_REGION_CREATE : 0) |
	       (flags & PERCPU_SEGMENT_FOREIGN ? 0 : PERCPU_REGION_OWN);
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

static int open_path(const char *name, unsigned flags, const struct percpu_segment_options *o,
		     struct percpu_segment **ret, struct percpu_reason *why)
{
	struct percpu_region *r;
	struct how how;
	char *path;
	int e = read_how(o, flags, &how, why);

	if (e != 0)
		return e;
	path = percpu_segment_path(name, &e, why);
	if (path == NULL)
		return e;
	e = -ESTALE;
	for (int try = 0; try < OPEN_TRIES && e == -ESTALE; try++) {
		e = percpu_file_open(path, region_flags(flags), &how.region, percpu_control_make,
				     &how.making, &r);
		PERCPU_STEP("segment: file opened");
		if (e == 0)
			e = begin_segment(r, name, path, &how, ret, why);
	}
	free(path);
	return e == -ESTALE ? percpu_reason_set(why, -ETIMEDOUT,
						"other processes remove the file again and again") :
			      e;
}

static int open_descriptor(int fd, const char *name, unsigned flags,
			   const struct percpu_segment_options *o, struct percpu_segment **ret,
			   struct percpu_reason *why)
{
	struct percpu_region *r;
	struct how how;
	int e = read_how(o, flags, &how, why);

	how.making.mode = 0; /* the file is the caller's */
	if (e == 0)
		e = percpu_file_open_fd(fd, region_flags(flags), &how.region, percpu_control_make,
					&how.making, &r);
	return e != 0 ? e : begin_segment(r, name, NULL, &how, ret, why);
}

int percpu_segment_open_private(const char *name, unsigned flags,
				const struct percpu_segment_options *o, struct percpu_segment **ret)
{
	const unsigned kept = flags & PERCPU_SEGMENT_DEBUG;
	const int fd = memfd_create("percpu", MFD_CLOEXEC);
	struct percpu_segment *s = NULL;
	struct percpu_reason why;
	int e = fd < 0 ? percpu_errno() :
			 open_descriptor(fd, name, kept | PERCPU_SEGMENT_CREATE, o, &s, &why);

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

bool percpu_segment_falls_back(unsigned flags, int e)
{
	return (flags & PERCPU_SEGMENT_FALLBACK) && e != -EINVAL && e != -ENAMETOOLONG &&
	       e != -EILSEQ && e != -E2BIG;
}

/* What an open call returns that has failed with e: why is kept, or the segment is private. */
static int end_failed(int e, const struct percpu_opening *opening, const struct percpu_reason *why,
		      unsigned flags, const struct percpu_segment_options *o,
		      struct percpu_segment **ret)
{
	const char *const name = opening->name != NULL ? opening->name : "of a descriptor";

	(void)percpu_error_keep_opening(e, opening, why);
	return percpu_segment_falls_back(flags, e) &&
			       percpu_segment_open_private(name, flags, o, ret) == 0 ?
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
	char name[32];
	int e;

	(void)snprintf(name, sizeof(name), "of descriptor %d", fd);
	e = ret != NULL ? open_descriptor(fd, name, flags, o, ret, &why) :
			  percpu_reason_set(&why, -EINVAL, NO_PLACE);
	return e != 0 ? end_failed(e, &opening, &why, flags, o, ret) : 0;
}

const char *percpu_segment_fallback(const struct percpu_segment *s)
{
	if (s == NULL)
		return NULL;
	if (s->check != NULL)
		percpu_segment_check_use(s);
	return s->fallback;
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
