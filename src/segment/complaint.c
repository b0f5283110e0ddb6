/* SPDX-License-Identifier: MIT */
/*
 * complaint.c - why calls failed, in words.
 *
 * Each thread has one sentence: why its last call that failed did so, on whatever segment or
 * reader. The sentence is the value of a thread-specific key, whose destructor frees it when the
 * thread ends. A thread has no sentence if there is no memory for it, or if the process has no key
 * left. The library takes the key when a call fails for the first time.
 *
 * In a child of fork, the thread that forked keeps its sentence. Those of the other threads, which
 * the child does not have, are freed when a call fails in the child. The fork itself does not free
 * them, because the program's malloc(3) may have a fork handler that runs later.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "segment.h"

#define NO_REGULAR_FILE "it is no regular file, but a pipe, a socket or a device: use another file"
#define NAME_END 500 /* bytes of a longer name that a sentence has */

int percpu_reason_set(struct percpu_reason *why, int e, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vsnprintf(why->text, sizeof(why->text), format, arguments) >= (int)sizeof(why->text))
		strcpy(why->text + sizeof(why->text) - 4, "...");
	va_end(arguments);
	percpu_text_make_printable(why->text);
	return e;
}

static pthread_key_t complaint_key;
static bool has_complaint_key; /* set under the process lock */

/* The process lock protects these. */
struct percpu_complaint *percpu_complaints;
static struct percpu_complaint *forker; /* of the thread that called the last fork; or NULL */
static bool has_orphans;		/* the others are of threads of the parent */

static void link_complaint(struct percpu_complaint *c)
{
	c->next = percpu_complaints;
	c->at = &percpu_complaints;
	if (c->next != NULL)
		c->next->at = &c->next;
	percpu_complaints = c;
}

static void unlink_complaint(const struct percpu_complaint *c)
{
	*c->at = c->next;
	if (c->next != NULL)
		c->next->at = c->at;
}

/* The destructor of the key. */
static void complaint_end(void *c)
{
	percpu_process_lock();
	unlink_complaint(c);
	percpu_process_unlock();
	free(c);
}

/* Return the sentence of the calling thread, or NULL. */
static struct percpu_complaint *own_complaint(void)
{
	return __atomic_load_n(&has_complaint_key, __ATOMIC_ACQUIRE) ?
		       pthread_getspecific(complaint_key) :
		       NULL;
}

static void complaints_mend_in_child(void)
{
	forker = own_complaint();
	has_orphans = true;
}

__attribute__((constructor)) static void complaints_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = complaints_mend_in_child };

	percpu_fork_register(PERCPU_FORK_COMPLAINTS, &part);
}

/* Free the sentences of threads that this child of fork does not have. The caller has the process
 * lock. */
static void drop_orphans(void)
{
	struct percpu_complaint *c = percpu_complaints, *next;

	if (!has_orphans)
		return;
	has_orphans = false;
	percpu_complaints = NULL;
	for (; c != NULL; c = next) {
		next = c->next;
		if (c == forker)
			link_complaint(c);
		else
			free(c);
	}
}

/* Give the sentence to the calling thread. Returns whether that succeeded. The caller has the
 * process lock. */
static bool have_complaint(struct percpu_complaint *c)
{
	if (!has_complaint_key && pthread_key_create(&complaint_key, complaint_end) == 0)
		__atomic_store_n(&has_complaint_key, true, __ATOMIC_RELEASE);
	if (!has_complaint_key || pthread_setspecific(complaint_key, c) != 0)
		return false;
	link_complaint(c);
	return true;
}

int percpu_error_keep(int e, const struct percpu_reason *why)
{
	struct percpu_complaint *c = own_complaint(), *new = NULL;

	if (c == NULL)
		c = new = malloc(sizeof(*new));
	percpu_process_lock();
	drop_orphans();
	if (new != NULL && have_complaint(new))
		new = NULL;
	percpu_process_unlock();
	if (c != NULL)
		c->why = *why;
	free(new);
	return e;
}

int percpu_error_say(int e, const char *sentence)
{
	struct percpu_reason why;

	return percpu_error_keep(percpu_reason_set(&why, e, "%s", sentence), &why);
}

const char *percpu_error(void)
{
	const struct percpu_complaint *c = own_complaint();

	return c != NULL ? c->why.text : "";
}

/* Opening. */

int percpu_reason_of_file(const struct stat *file, struct percpu_reason *why)
{
	if (!S_ISREG(file->st_mode))
		return percpu_reason_set(why, -EBADMSG, NO_REGULAR_FILE);
	if (file->st_size == 0)
		return percpu_reason_set(
			why, -EBADMSG,
			"the file is empty: remove it, and create the segment with "
			"PERCPU_SEGMENT_CREATE; or open the empty file by its descriptor, with "
			"that flag");
	return 0;
}

/* Return whether a file was not found because its directory is not there. */
static bool lacks_directory(const char *name)
{
	const char *const path = strchr(name, '/') != NULL ? name : PERCPU_FLAT_NAMES;
	struct stat st;
	char *directory;
	bool lacks;

	if (asprintf(&directory, "%.*s", (int)(strrchr(path, '/') + 1 - path), path) < 0)
		return false;
	lacks = stat(directory, &st) != 0;
	free(directory);
	return lacks;
}

static const char *why_not_found(const struct percpu_opening *o)
{
	if (o->name != NULL && lacks_directory(o->name))
		return "there is no such directory";
	if (o->creates)
		return "no file can be created in this directory, which was perhaps removed: name "
		       "another one";
	return "there is no such file, or it has no segment yet: the first process that counts "
	       "creates it, with PERCPU_SEGMENT_CREATE";
}

/* Return whether a path has too many symbolic links in front of its file. */
static bool leads_in_circles(const char *name)
{
	struct stat st;

	return name != NULL && strchr(name, '/') != NULL && lstat(name, &st) != 0 && errno == ELOOP;
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
		return "more CPUs than PERCPU_MAX_CPUS: .cpus is too large, or the machine is";
	case -EISDIR:
		return "it is a directory: name a file in it";
	case -ENXIO: /* open(2) of a socket */
		return NO_REGULAR_FILE;
	case -EPERM:
		return "the file is another user's: PERCPU_SEGMENT_FOREIGN counts in it "
		       "nevertheless; or it is sealed (fcntl(2), F_ADD_SEALS)";
	case -EACCES:
		return "the permissions of the file, or of its directory, do not allow it: chmod(1)";
	case -EROFS:
		return "the file system is read-only: open the segment to read";
	case -EBADMSG:
		return "the file is no segment: use another name; or it was one, and is damaged or "
		       "cut short, or was written by a machine of the other byte order: stop the "
		       "programs that have it open, and remove it";
	case -EPROTO:
		return "the file was written by another version of the library, or on another kind "
		       "of machine: stop the programs that have it open, and remove it";
	case -ERANGE:
		return "the file has lanes for fewer CPUs than this machine may have: open it to "
		       "read, or use another name";
	case -ENOSPC:
		return "the disk is full";
	case -EINVAL:
		return "an option is not valid: .cpus is below the number of this machine's CPUs, "
		       "or .mode has other bits than 07777";
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
	struct percpu_reason told;

	if (name != NULL && text != why->text && strchr(o->name, '/') == NULL)
		(void)percpu_reason_set(&told, e, "segment \"%s\" (" PERCPU_FLAT_NAMES "%s): %s",
					name, name, text);
	else if (name != NULL)
		(void)percpu_reason_set(&told, e, "segment \"%s%s\": %s",
					name != o->name ? "..." : "", name, text);
	else
		(void)percpu_reason_set(&told, e, "segment of descriptor %d: %s", o->fd, text);
	return percpu_error_keep(e, &told);
}
