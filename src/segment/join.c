/* SPDX-License-Identifier: MIT */
/*
 * join.c - joining a segment's owners by a name, and leaving them.
 */
#include "segment.h"

/* Write why the process could not join. */
static void tell_why(int e, const struct percpu_owner_wish *w, struct percpu_reason *why)
{
	switch (e) {
	case -EINVAL:
		(void)percpu_reason_set(why, e, "the name of an owner is empty");
		break;
	case -ENAMETOOLONG:
		(void)percpu_reason_set(why, e, "the name of an owner has more than %d bytes",
					PERCPU_OWNER_NAME_SIZE - 1);
		break;
	case -EEXIST:
		(void)percpu_reason_set(why, e,
					"owner \"%s\": process %u has this name, and lives: join "
					"without PERCPU_OWNERS_RESUME, or by another name",
					w->name, w->living);
		break;
	case -EALREADY:
		(void)percpu_reason_set(why, e,
					"owner \"%s\": this process has joined before, by another "
					"name or none: join before the first update of an owned "
					"gauge",
					w->name);
		break;
	default:
		(void)percpu_reason_set(why, e, "owner \"%.63s\": %s", w->name, percpu_strerror(e));
	}
}

int percpu_segment_join(struct percpu_segment *s, const char *name, unsigned flags)
{
	struct percpu_owner_wish w = { .name = name, .resumes = flags & PERCPU_OWNERS_RESUME };
	struct percpu_owners *o;
	struct percpu_reason why;
	int e = 0;

	if (s == NULL || name == NULL)
		return percpu_error_say(-EINVAL, s == NULL ? "the segment is NULL" :
							     "the name of the owner is NULL");
	if ((flags & ~PERCPU_OWNERS_RESUME) != 0)
		return percpu_error_keep(percpu_reason_set(&why, -EINVAL, "flags %#x are not known",
							   flags & ~PERCPU_OWNERS_RESUME),
					 &why);
	o = percpu_segment_owners(s, &e);
	if (o != NULL)
		e = percpu_owner_join_as(o, &w);
	else if (e == -EEXIST) /* something else is at the root */
		e = -EBADMSG;
	if (e == 0)
		return 0;
	tell_why(e, &w, &why);
	return percpu_error_keep(e, &why);
}

int percpu_segment_leave(struct percpu_segment *s)
{
	struct percpu_owners *o;

	if (s == NULL)
		return percpu_error_say(-EINVAL, "the segment is NULL");
	percpu_process_lock();
	o = s->owners;
	percpu_process_unlock();
	percpu_owners_leave(o); /* NULL: it has not joined */
	return 0;
}
