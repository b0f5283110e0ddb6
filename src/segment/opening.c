/* SPDX-License-Identifier: MIT */
/*
 * opening.c - why segments and readers could not be opened, in words. An error number has several
 * causes. So look at the file, and name the one that it was.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment.h"

#define NO_REGULAR_FILE "it is no regular file, but a pipe, a socket or a device: use another file"
#define REMOVE "stop the programs that have it open, and remove it"
#define NAME_END 500 /* bytes of a longer name that a sentence has */

/* What is seen of the file. */
struct look {
	bool is_there; /* and *st is set */
	bool has_head; /* and *head is set */
	struct stat st;
	struct {
		uint64_t magic;
		uint32_t version;
		uint32_t index;
	} head; /* as in struct percpu_header */
};

/* Return what is in front of the name in the path of the file. */
static const char *prefix_of(const struct percpu_opening *o)
{
	if (strchr(o->name, '/') != NULL)
		return "";
	return o->of_service ? PERCPU_SERVICE_NAMES : PERCPU_FLAT_NAMES;
}

static char *path_of(const struct percpu_opening *o)
{
	char *path;

	return asprintf(&path, "%s%s", prefix_of(o), o->name) < 0 ? NULL : path;
}

/* Look at the file of this descriptor. */
static void look_into(int fd, struct look *l)
{
	l->is_there = fstat(fd, &l->st) == 0;
	l->has_head = l->is_there && S_ISREG(l->st.st_mode) &&
		      pread(fd, &l->head, sizeof(l->head), 0) == (ssize_t)sizeof(l->head);
}

/* Only a regular file is opened. */
static void look_at_path(const char *path, struct look *l)
{
	int fd;

	l->is_there = lstat(path, &l->st) == 0;
	if (!l->is_there || !S_ISREG(l->st.st_mode))
		return;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	look_into(fd, l);
	close(fd);
}

static struct look look_at(const struct percpu_opening *o)
{
	const int cancel = percpu_defer_cancel();
	struct look l = { .is_there = false };
	char *path;

	if (o->name == NULL) {
		look_into(o->fd, &l);
	} else {
		path = path_of(o);
		if (path != NULL)
			look_at_path(path, &l);
		free(path);
	}
	percpu_restore_cancel(cancel);
	return l;
}

/* Return whether the directory of the file is not there. */
static bool lacks_directory(const struct percpu_opening *o)
{
	char *path = o->name != NULL ? path_of(o) : NULL;
	struct stat st;
	bool lacks;

	if (path == NULL)
		return false;
	strrchr(path, '/')[1] = '\0';
	lacks = stat(path, &st) != 0;
	free(path);
	return lacks;
}

static const char *why_not_found(const struct percpu_opening *o)
{
	if (lacks_directory(o))
		return strchr(o->name, '/') != NULL ?
			       "there is no such directory" :
			       "there is no /dev/shm, or none below the root directory of this "
			       "process (chroot(2)): mount a tmpfs there, or name a path";
	if (o->creates)
		return "no file can be created in this directory, which was perhaps removed: name "
		       "another one";
	return "there is no such file: the first process that counts creates it, with "
	       "PERCPU_SEGMENT_CREATE";
}

/* Return whether a path has too many symbolic links in front of its file. */
static bool leads_in_circles(const char *name)
{
	struct stat st;

	return name != NULL && strchr(name, '/') != NULL && lstat(name, &st) != 0 && errno == ELOOP;
}

static const char *why_not_permitted(const struct percpu_opening *o)
{
	const struct look l = look_at(o);

	return l.is_there && l.st.st_uid != geteuid() ?
		       "the file is another user's: PERCPU_SEGMENT_FOREIGN counts in it nevertheless" :
		       "the file is sealed (fcntl(2), F_ADD_SEALS), or immutable (chattr(1))";
}

static const char *why_no_access(const struct percpu_opening *o)
{
	return look_at(o).is_there ? "the permissions of the file do not allow it: chmod(1)" :
				     "the permissions of its directory do not allow it: chmod(1)";
}

static const char *why_no_segment(const struct percpu_opening *o)
{
	const struct look l = look_at(o);

	if (!l.is_there)
		return "the file is no segment: use another name";
	if (!S_ISREG(l.st.st_mode))
		return NO_REGULAR_FILE;
	if (l.st.st_size == 0)
		return "the file is empty: remove it, and create the segment with "
		       "PERCPU_SEGMENT_CREATE; or open the empty file by its descriptor, with that "
		       "flag";
	if (l.has_head && l.head.magic == __builtin_bswap64(PERCPU_MAGIC))
		return "the file was written by a machine of the other byte order: use another name";
	if (!l.has_head || l.head.magic != PERCPU_MAGIC)
		return "the file is no segment: use another name";
	return "the file was a segment, and is damaged or cut short: " REMOVE;
}

static const char *why_not_understood(const struct percpu_opening *o)
{
	const struct look l = look_at(o);

	return l.has_head && (uint16_t)l.head.version == PERCPU_FORMAT_MAJOR ?
		       "the file was written on another kind of machine: use another name" :
		       "the file was written by another version of the library: " REMOVE;
}

static const char *why_not_opened(int e, const struct percpu_opening *o)
{
	switch (e) {
	case -ENOENT:
		return why_not_found(o);
	case -ELOOP:
		return leads_in_circles(o->name) ?
			       "the path has too many symbolic links, or some "
			       "that lead to each other: name another one" :
			       "the file is a symbolic link, which is not followed: name the file itself";
	case -E2BIG:
		return "the machine has more CPUs than PERCPU_MAX_CPUS";
	case -EISDIR:
		return "it is a directory: name a file in it";
	case -ENXIO: /* open(2) of a socket */
		return NO_REGULAR_FILE;
	case -EPERM:
		return why_not_permitted(o);
	case -EACCES:
		return why_no_access(o);
	case -EROFS:
		return "the file system is read-only: name a file elsewhere; to read, open a reader";
	case -EBADMSG:
		return why_no_segment(o);
	case -EPROTO:
		return why_not_understood(o);
	case -ERANGE:
		return "the file has lanes for fewer CPUs than this machine may have: use another "
		       "name, or open a reader";
	case -ENOSPC:
		return "the disk is full";
	case -ETIMEDOUT:
		return "another process has held a lock of the file for a second, and may be "
		       "stopped: try again";
	default:
		return percpu_strerror(e);
	}
}

/* Return the name, or the end of a long one. */
static const char *end_of_name(const char *name)
{
	const size_t n = strlen(name);
	const char *at = n > NAME_END ? name + n - NAME_END : name;

	while (at != name && ((unsigned char)*at & 0xc0) == 0x80) /* within a character */
		at++;
	return at;
}

int percpu_error_keep_opening(int e, const struct percpu_opening *o,
			      const struct percpu_reason *why)
{
	const char *const text = *why->text != '\0' ? why->text : why_not_opened(e, o);
	const char *const name = o->name != NULL ? end_of_name(o->name) : NULL;
	const bool is_flat = name != NULL && strchr(o->name, '/') == NULL;
	const bool is_general = text != why->text;
	struct percpu_reason told;

	if (is_flat && is_general && o->reads && e == -ENOENT)
		(void)percpu_reason_set(&told, e,
					"segment \"%s\" (" PERCPU_FLAT_NAMES
					"%s, or else " PERCPU_SERVICE_NAMES "%s): %s",
					name, name, name, text);
	else if (is_flat && (is_general || o->of_service))
		(void)percpu_reason_set(&told, e, "segment \"%s\" (%s%s): %s", name, prefix_of(o),
					name, text);
	else if (name != NULL)
		(void)percpu_reason_set(&told, e, "segment \"%s%s\": %s",
					name != o->name ? "..." : "", name, text);
	else
		(void)percpu_reason_set(&told, e, "segment of descriptor %d: %s", o->fd, text);
	return percpu_error_keep(e, &told);
}
