/* SPDX-License-Identifier: MIT */
/*
 * reader_limit.c - what a picture may cost: lanes without data are not read where reading all of
 * them costs more than the file has; what others change while it is read is read again within a
 * budget for the whole picture, and so is the picture begun again; and there may be a time after which
 * no more is begun.
 *
 * A file can have lanes for thousands of CPUs, all of them holes, at no cost for the process that
 * makes it. The cost of a read is counted as its bytes, and PERCPU_NEAR for the call; that of making
 * the list of series as PERCPU_NEAR for each record.
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "reader.h"

#define PLENTY 4      /* so many bytes are read for each that the file has */
#define AGAIN_TIMES 8 /* so often all may be read again, */
#define AGAIN_FREE (UINT64_C(16384) * (PERCPU_NEAR + 4096)) /* or so much, if that is more; */
#define BEGIN_TIMES 3 /* likewise, of pictures that are begun: the whole */
#define BEGIN_FREE (4 * AGAIN_FREE)
#define LOOKS 1024 /* records that are listed between two looks at whether they have changed */

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

/* Each may be as short as a record can be. */
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

/* The file systems whose holes are what no process has stored to, by whatever mapping. Some others
 * do not know of stores that are in the page cache alone: there, everything counts as data. */
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

/* Looking moves the offset of an open file, and so it is not that of the caller's descriptor. */
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
	const uint64_t first = percpu_reader_place(r, p->chunk, 0, p->offset);
	const uint64_t at = first + lane * (uint64_t)PERCPU_STRIDE;
	uint64_t behind;
	off_t data;

	if (!r->skips || r->seeks < 0)
		return lane;
	percpu_reader_charge(r, 0);
	data = lseek(r->seeks, (off_t)at, SEEK_DATA);
	percpu_full_fence(); /* what is read later is loaded later */
	if (data < 0)
		return percpu_errno() == -ENXIO ? 2 * r->cpus : lane;
	behind = (uint64_t)data - first;
	behind = behind / PERCPU_STRIDE + (behind % PERCPU_STRIDE >= bytes);
	return behind < 2 * r->cpus ? (uint32_t)behind : 2 * r->cpus;
}

/* Series without a value. */

static const char *reason_of(const struct percpu_reader *r, const struct percpu_entry *s)
{
	if (s->error != -EAGAIN)
		return "because no consistent snapshot of it could be taken";
	return r->late ? "because the time for the picture was over" :
			 "because others changed them while they were read";
}

void percpu_reader_tell_missing(struct percpu_reader *r)
{
	const struct percpu_entry *first = NULL;

	r->missing = 0;
	for (size_t i = 0; i < r->n && r->flawed; i++)
		if (r->entry[i].error != 0) {
			first = first != NULL ? first : &r->entry[i];
			r->missing++;
		}
	r->flawed = first != NULL;
	if (first != NULL)
		(void)percpu_reason_set(&r->why, first->error,
					"%s and %u other series: no value, %s", first->name,
					r->missing - 1, reason_of(r, first));
}
