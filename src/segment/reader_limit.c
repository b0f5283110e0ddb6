/* SPDX-License-Identifier: MIT */
/*
 * reader_limit.c - what a picture may cost.
 *
 * - A file can have lanes for thousands of CPUs, all of them holes, at no cost for the process that
 *   makes it. If reading all lanes costs more than PLENTY times the file's data, the reader
 *   searches them for data, and skips the holes.
 * - Values that other processes change while they are read are read again, within a budget for the
 *   whole picture. Another budget limits how often the picture is begun again.
 * - The program may set a timeout, after which no read is begun.
 *
 * A read costs its bytes, and PERCPU_NEAR for the call. A record that is listed costs PERCPU_NEAR.
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "reader.h"

/* Lanes are searched for data if reading all costs more than so many times the data of the file. */
#define PLENTY 4

/* The budget for values that are read again: so many times the cost of reading everything once, or
 * AGAIN_FREE if that is more. */
#define AGAIN_TIMES 8
#define AGAIN_FREE (UINT64_C(16384) * (PERCPU_NEAR + 4096))

/* The budget for pictures that are begun: so many times the cost of a whole one, or BEGIN_FREE if
 * that is more. */
#define BEGIN_TIMES 3
#define BEGIN_FREE (4 * AGAIN_FREE)

#define LOOKS 1024 /* records that are listed between two checks whether records have changed */

void percpu_reader_begin(struct percpu_reader *r)
{
	const uint64_t now = r->timeout_ns != 0 ? percpu_now_ns() : 0;

	r->deadline = r->timeout_ns == 0	       ? 0 :
		      r->timeout_ns < UINT64_MAX - now ? now + r->timeout_ns :
							 UINT64_MAX;
	r->late = r->skips = r->repeats = r->kept = false;
	r->cost = r->lanes = r->again = r->before = 0;
	r->looked = r->begun = r->whole = 0;
}

void percpu_reader_begin_anew(struct percpu_reader *r)
{
	r->before = r->cost - r->again;
	r->kept = false;
}

bool percpu_reader_may_begin(struct percpu_reader *r)
{
	const uint64_t all = r->cost - r->again + r->looked;

	percpu_reader_expect(r, all - r->begun);
	r->begun = all;
	return all < BEGIN_FREE || all < BEGIN_TIMES * r->whole;
}

void percpu_reader_expect(struct percpu_reader *r, uint64_t cost)
{
	r->whole = cost > r->whole ? cost : r->whole;
}

bool percpu_reader_is_late(struct percpu_reader *r)
{
	if (!r->late && r->deadline != 0)
		r->late = percpu_now_ns() >= r->deadline;
	return r->late;
}

int percpu_reader_hurry(struct percpu_reader *r)
{
	if (!percpu_reader_is_late(r))
		return 0;
	r->kept = true;
	return percpu_reason_set(&r->why, -EAGAIN,
				 "the time for the picture was over before any value was read");
}

int percpu_reader_may_list(struct percpu_reader *r)
{
	int e = percpu_reader_hurry(r);

	if (e != 0 || (r->n + r->pending) % LOOKS != LOOKS - 1)
		return e;
	PERCPU_STEP("reader: records listed");
	return percpu_reader_recheck(r);
}

void percpu_reader_charge(struct percpu_reader *r, size_t bytes)
{
	r->cost += PERCPU_NEAR + bytes;
	if (r->repeats)
		r->again += PERCPU_NEAR + bytes;
}

/* Assume that each record is as short as a record can be. */
uint64_t percpu_reader_cost_of_records(uint64_t bytes)
{
	return bytes / sizeof(struct percpu_segment_record) * PERCPU_NEAR;
}

bool percpu_reader_may_repeat(struct percpu_reader *r)
{
	const uint64_t times = AGAIN_TIMES * (r->cost - r->again - r->before);

	return !percpu_reader_is_late(r) && r->again < (times > AGAIN_FREE ? times : AGAIN_FREE);
}

/* Holes. */

/* Return whether the file system's holes are exactly where no process has stored, also by a
 * mapping. Some file systems do not know of stores that are only in the page cache. There,
 * everything counts as data. */
static bool tells_of_holes(int fd)
{
	static const uint32_t types[] = { 0x01021994, 0xef53, 0x58465342, 0x9123683e };
	struct statfs f; /* tmpfs, ext4, XFS, Btrfs */

	if (fstatfs(fd, &f) == 0)
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
			if ((uint32_t)f.f_type == types[i])
				return true;
	return false;
}

/* Search lanes for data from now on. lseek(2) moves the file offset, so a file that the caller
 * opened is opened again for the search. */
static void begin_to_look(struct percpu_reader *r)
{
	r->skips = true;
	if (tells_of_holes(r->fd))
		r->seeks = r->path != NULL ? r->fd : percpu_descriptor_anew(r->s->region, r->fd);
}

void percpu_reader_measure(struct percpu_reader *r)
{
	struct stat st;

	r->has = fstat(r->fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

void percpu_reader_end(struct percpu_reader *r)
{
	if (r->seeks >= 0 && r->path == NULL)
		close(r->seeks);
	r->seeks = -1;
}

void percpu_reader_plan(struct percpu_reader *r, size_t lanes, size_t bytes)
{
	const uint64_t all = lanes * (uint64_t)(bytes + PERCPU_NEAR);

	if (!r->skips && r->lanes + all > PLENTY * r->has)
		begin_to_look(r);
	if (!r->skips)
		r->lanes += all;
}

uint32_t percpu_reader_seek(struct percpu_reader *r, const struct percpu_part *p, size_t bytes,
			    uint32_t lane)
{
	const uint64_t first = percpu_reader_file_offset(r, p->chunk, 0, p->offset);
	const uint64_t at = first + lane * (uint64_t)PERCPU_STRIDE;
	uint64_t behind;
	off_t data;

	if (!r->skips || r->seeks < 0)
		return lane;
	percpu_reader_charge(r, 0);
	data = lseek(r->seeks, (off_t)at, SEEK_DATA);
	percpu_full_fence(); /* later reads load after this one */
	if (data < 0)
		return percpu_errno() == -ENXIO ? 2 * r->cpus : lane;
	behind = (uint64_t)data - first;
	behind = behind / PERCPU_STRIDE + (behind % PERCPU_STRIDE >= bytes);
	return behind < 2 * r->cpus ? (uint32_t)behind : 2 * r->cpus;
}

/* Series without a value. */

static const char *reason_of(const struct percpu_reader *r, const struct percpu_picture_series *s)
{
	if (s->error != -EAGAIN)
		return "because no consistent snapshot of it could be taken";
	return r->late ? "because the time for the picture was over" :
			 "because others changed them while they were read";
}

bool percpu_reader_tell_missing(struct percpu_reader *r)
{
	const struct percpu_picture_series *first = NULL;

	r->missing = 0;
	for (size_t i = 0; i < r->n && r->flawed; i++)
		if (r->entry[i].error != 0) {
			first = first != NULL ? first : &r->entry[i];
			r->missing++;
		}
	r->flawed = first != NULL;
	if (r->missing == 1)
		(void)percpu_reason_set(&r->why, first->error, "%s: no value, %s", first->name,
					reason_of(r, first));
	else if (first != NULL)
		(void)percpu_reason_set(&r->why, first->error,
					"%s and %u more series: no value, %s", first->name,
					r->missing - 1, reason_of(r, first));
	return first != NULL;
}
