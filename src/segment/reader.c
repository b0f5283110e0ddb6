/* SPDX-License-Identifier: MIT */
/*
 * reader.c - opening segments to read them from outside, and taking pictures.
 *
 * A reader copies the file into an image (memory/image.c): the directory, the bias lanes, and the
 * sum of all other lanes. The image is a segment, and is read like any other segment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "reader.h"

#define PICTURES 16 /* times, at most, that a picture is begun while the segment is reset */
#define BUFFER (PERCPU_LANE_SIZE + PERCPU_BLOCK_ALIGN)

/* Opening. */

static unsigned char *new_buffer(void)
{
	return aligned_alloc(PERCPU_BLOCK_ALIGN, BUFFER);
}

static int check_file(int fd)
{
	struct stat st;
	const int e = percpu_file_check(fd, 0);

	if (e != 0)
		return e;
	if (fstat(fd, &st) != 0)
		return percpu_errno();
	return st.st_size != 0 ? 0 : -EBADMSG;
}

int percpu_reader_use(struct percpu_reader *r)
{
	r->fd = percpu_descriptor_kept(r->s->region);
	return r->fd >= 0 ? 0 :
			    percpu_reason_set(&r->why, -EBADF,
					      "the program has closed the file's descriptor");
}

/* Return whether the control has changed since before. If not, the headers that were read between
 * have all that the control leads to, and a file that seems damaged is damaged. The generation is
 * not compared: a reset that has only begun has changed nothing else yet. */
static bool has_changed(const struct percpu_reader *r, const struct percpu_directory_state *was)
{
	return was->completed != r->state.completed || was->changes != r->state.changes ||
	       was->end != r->state.end;
}

/* Check that there is a directory. The first picture copies its records. */
static int find_directory(struct percpu_reader *r)
{
	int e = -EBADMSG;

	for (int i = 0; i < 2 && e == -EBADMSG; i++) { /* it may have just been created */
		e = percpu_reader_copy_headers(r);
		if (e == 0)
			e = percpu_reader_copy_control(r);
	}
	return e;
}

/* Make a reader of the file. The reader frees path. On failure write why, if more is known than the
 * error. */
static int begin_reader(int fd, char *path, struct percpu_reader **ret, struct percpu_reason *why)
{
	struct percpu_reader *r = calloc(1, sizeof(*r));
	int e = -ENOMEM;

	if (r == NULL) {
		free(path);
		return e;
	}
	r->path = path;
	r->seeks = -1;
	r->first = new_buffer();
	r->second = new_buffer();
	r->third = new_buffer();
	r->s = calloc(1, sizeof(*r->s));
	if (r->first != NULL && r->second != NULL && r->third != NULL && r->s != NULL)
		e = percpu_image_create(fd, &r->s->region);
	if (e == 0) {
		r->s->boot = percpu_segment_boot();
		r->s->lives = r->lives;
		e = percpu_reader_use(r);
	}
	if (e == 0)
		e = find_directory(r);
	if (e != 0) {
		*why = r->why;
		percpu_reader_close(r);
		return e;
	}
	*ret = r;
	return 0;
}

int percpu_reader_make(int fd, struct percpu_reader **ret, struct percpu_reason *why)
{
	const int e = check_file(fd);

	return e != 0 ? e : begin_reader(fd, NULL, ret, why);
}

/* Take over path, and set *ret to it as an absolute path; or to NULL if the current directory has no
 * path, because it was removed, or is outside of the root. Returns 0 or -ENOMEM. */
static int from_root(char *path, char **ret)
{
	char *here, *all = NULL;
	int e = 0;

	if (*path == '/') {
		*ret = path;
		return 0;
	}
	here = get_current_dir_name();
	if (here != NULL ? asprintf(&all, "%s/%s", here, path) < 0 : errno == ENOMEM)
		e = -ENOMEM;
	free(here);
	free(path);
	if (e == 0)
		*ret = all;
	return e;
}

/* Open the file to read. Of a name that is no path, look in the directory of services, too, and if
 * there is a file, set *path to the path there. The caller frees it. Returns a descriptor or
 * -errno. */
static int open_file_of(struct percpu_opening *o, char **path)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	int fd = open(*path, flags), e = percpu_errno();
	char *other;

	if (fd >= 0 || e != -ENOENT || strchr(o->name, '/') != NULL)
		return fd >= 0 ? fd : e;
	if (asprintf(&other, "%s%s", PERCPU_SERVICE_NAMES, o->name) < 0)
		return -ENOMEM;
	fd = open(other, flags);
	e = percpu_errno();
	o->of_service = fd >= 0 || e != -ENOENT;
	free(*path);
	*path = other;
	return fd >= 0 ? fd : e;
}

static int open_reader(struct percpu_opening *o, struct percpu_reader **ret,
		       struct percpu_reason *why)
{
	int e, fd;
	char *from_here = percpu_segment_path(o->name, &e, why), *path = NULL;

	if (from_here == NULL)
		return e;
	fd = open_file_of(o, &from_here);
	e = fd >= 0 ? check_file(fd) : fd;
	if (e != 0)
		free(from_here);
	else
		e = from_root(from_here, &path);
	if (e == 0)
		e = begin_reader(fd, path, ret, why);
	if (fd >= 0)
		close(fd);
	return e;
}

int percpu_reader_open(const char *name, struct percpu_reader **ret)
{
	struct percpu_opening opening = { .name = name, .reads = true };
	struct percpu_reason why = { "" };
	int cancel, e;

	if (name == NULL || ret == NULL)
		return percpu_error_say(-EINVAL, name == NULL ? "the name of the segment is NULL" :
								"there is no place for the reader");
	cancel = percpu_defer_cancel(); /* open(2) and pread(2) are cancellation points */
	e = open_reader(&opening, ret, &why);
	percpu_restore_cancel(cancel);
	return e != 0 ? percpu_error_keep_opening(e, &opening, &why) : 0;
}

int percpu_reader_open_fd(int fd, struct percpu_reader **ret)
{
	const struct percpu_opening opening = { .fd = fd, .reads = true };
	struct percpu_reason why = { "" };
	int cancel, e;

	if (ret == NULL)
		return percpu_error_say(-EINVAL, "there is no place for the reader");
	cancel = percpu_defer_cancel();
	e = percpu_reader_make(fd, ret, &why);
	percpu_restore_cancel(cancel);
	return e != 0 ? percpu_error_keep_opening(e, &opening, &why) : 0;
}

void percpu_reader_close(struct percpu_reader *r)
{
	if (r == NULL)
		return;
	if (r->s != NULL && r->s->region != NULL) {
		percpu_reader_unlist(r);
		percpu_region_drop(r->s->region);
	}
	percpu_segment_close(r->live);
	free(r->s);
	free(r->first);
	free(r->second);
	free(r->third);
	free(r->path);
	free(r);
}

int percpu_reader_keep_error(struct percpu_reader *r, int e)
{
	return percpu_error_keep(e, &r->why);
}

/* Pictures. */

int percpu_reader_check_name(struct percpu_reader *r)
{
	if (r->path == NULL || !percpu_path_leads_elsewhere(r->path, &r->s->region->file))
		return 0;
	return percpu_reason_set(
		&r->why, -ESTALE,
		"%s was removed or replaced after it was opened: open a new reader", r->path);
}

/* List the series. If that takes all the time, the next call reads their values: if this one went
 * on, it would have a picture without values, and so would each later one while series are removed
 * all the time. */
static int list_in_time(struct percpu_reader *r)
{
	int e = percpu_reader_list(r);

	PERCPU_STEP("reader: listed");
	return e != 0 ? e : percpu_reader_hurry(r);
}

/* Take a picture once. Returns 0; -EAGAIN if the segment was reset meanwhile; -EBADMSG if its
 * directory has changed perhaps, or is damaged; or another error. */
static int take_once(struct percpu_reader *r)
{
	int e;

	percpu_reader_begin_anew(r);
	e = percpu_reader_copy_headers(r);
	if (e == 0)
		e = percpu_reader_copy_directory(r);
	PERCPU_STEP("reader: directory copied");
	if (e == 0)
		e = percpu_reader_copy_headers(r);
	if (e == 0)
		e = percpu_reader_copy_biases(r);
	PERCPU_STEP("reader: biases copied");
	if (e == 0)
		e = percpu_reader_recheck(r);
	if (e == 0 && !r->listed)
		e = list_in_time(r);
	if (e == 0) {
		r->fresh = false;
		e = percpu_reader_gather(r);
	}
	if (e == 0)
		e = percpu_reader_overflows(r);
	if (e == 0)
		percpu_reader_snapshot(r);
	PERCPU_STEP("reader: lanes added up");
	if (e == 0)
		e = percpu_reader_recheck(r);
	return e == 0 && r->changed ? percpu_reader_leave_out(r) : e;
}

static int take_picture(struct percpu_reader *r)
{
	struct percpu_directory_state was;
	int e = percpu_reader_use(r);

	if (e == 0)
		e = percpu_reader_check_name(r);
	if (e != 0)
		return e;
	e = -EAGAIN;
	for (int i = 0; i < PICTURES && (e == -EAGAIN || e == -EBADMSG) && !r->late &&
			percpu_reader_may_begin(r);
	     i++) {
		was = r->state;
		e = take_once(r);
		if (e != 0 && !r->kept) /* the image may mix two states of the directory */
			r->copied = 0;
		if (e == -EBADMSG && !has_changed(r, &was))
			break;
	}
	if (e == 0)
		e = percpu_reader_use(r);
	if (e == -ENOENT) /* the file was a segment when it was opened */
		e = -EBADMSG;
	if (e == 0)
		percpu_reader_drop_records(r);
	r->taken = percpu_segment_now(r->s);
	return e;
}

int percpu_reader_read(struct percpu_reader *r)
{
	int cancel, e;

	if (r == NULL)
		return percpu_error_say(-EINVAL, PERCPU_NO_READER);
	r->why.text[0] = '\0';
	cancel = percpu_defer_cancel();
	percpu_reader_begin(r);
	memset(r->lives, 0, sizeof(r->lives)); /* ask again */
	e = take_picture(r);
	percpu_reader_end(r);
	r->valid = e == 0;
	if (e != 0 && !(e == -EAGAIN && r->kept)) {
		r->copied = 0;
		percpu_reader_unlist(r);
	}
	if (e != 0 || percpu_reader_tell_missing(r)) /* and not the failure of a first try */
		(void)percpu_reader_keep_error(r, e);
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_reader_set_timeout(struct percpu_reader *r, uint64_t timeout_ns)
{
	if (r == NULL)
		return percpu_error_say(-EINVAL, PERCPU_NO_READER);
	r->timeout_ns = timeout_ns;
	return 0;
}
