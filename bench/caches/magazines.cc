/* SPDX-License-Identifier: MIT */
/* magazines.cc - a get or put that finds the loaded magazine empty or full. */
#include <percpu/local.h>

#include "magazines.h"

#if defined(__x86_64__)

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "report.h"

magazine *magazine::make(uint64_t room)
{
	void *m = aligned_alloc(64, (sizeof(magazine) + room * sizeof(void *) + 63) / 64 * 64);

	if (!m)
		abort();
	return new (m) magazine();
}

magazine *magazine::of(uint64_t *count)
{
	return reinterpret_cast<magazine *>(reinterpret_cast<char *>(count) -
					    offsetof(magazine, count));
}

magazines::magazines(uint64_t objects, size_t object_bytes)
	: room(objects), bytes(object_bytes), depot(percpu_status()->possible_cpus)
{
	must(percpu_local_create(sizeof(uint64_t *), PERCPU_LOCAL_LOCK, &words), "words");
	must(percpu_counter_create(&requests), "a counter");
	cell = words->cell;
	guard = words->guard;
	stride = words->stride;
	for (unsigned cpu = 0; cpu < depot.size(); cpu++) {
		magazine *loaded = magazine::make(room), *other = magazine::make(room);

		loaded->other = &other->count;
		other->other = &loaded->count;
		*static_cast<uint64_t **>(percpu_local_cell(words, cpu)) = &loaded->count;
	}
}

static uint64_t *&loaded_at(const percpu_local *words)
{
	return *static_cast<uint64_t **>(percpu_local_cell(words, unsigned(sched_getcpu())));
}

/* Exchange the other magazine for a full or an empty one of the depot, and load that. */
bool magazines::visit(bool wants_full)
{
	uint64_t *&loaded = loaded_at(words);
	shelf &s = depot[unsigned(sched_getcpu())];
	magazine *old = magazine::of(magazine::of(loaded)->other), *fresh;

	pthread_mutex_lock(&s.lock);
	magazine *&from = wants_full ? s.full : s.empty;
	fresh = from;
	if (fresh)
		from = fresh->next;
	else if (!wants_full)
		fresh = magazine::make(room);
	if (fresh) {
		magazine *&to = old->count ? s.full : s.empty;

		old->next = to;
		to = old;
		fresh->other = loaded;
		magazine::of(loaded)->other = &fresh->count;
		loaded = &fresh->count;
	}
	pthread_mutex_unlock(&s.lock);
	return fresh;
}

/* If the other magazine has objects, or room, load it by one store. Returns whether it was
 * loaded. */
static bool exchange(const percpu_local *words, bool (*serves)(uint64_t count, uint64_t room),
		     uint64_t room)
{
	uint64_t *&loaded = loaded_at(words);
	uint64_t *other = magazine::of(loaded)->other;

	if (!serves(*other, room))
		return false;
	loaded = other;
	return true;
}

static bool has_some(uint64_t count, uint64_t)
{
	return count != 0;
}

static bool has_room(uint64_t count, uint64_t room)
{
	return count < room;
}

[[gnu::noinline]] int magazines::get_slow(void **ret)
{
	void *obj;

	while (pop(cell, guard, stride, &obj))
		if (!exchange(words, has_some, room) && !visit(true)) {
			obj = malloc(bytes);
			if (!obj)
				return -ENOMEM;
			break;
		}
	percpu_counter_inc(requests);
	*ret = obj;
	return 0;
}

[[gnu::noinline]] void magazines::put_slow(void *obj)
{
	while (push(cell, guard, stride, room, obj))
		if (!exchange(words, has_room, room))
			visit(false);
}

#endif
