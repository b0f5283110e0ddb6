/* SPDX-License-Identifier: MIT */
/*
 * removal.pml - series that are removed, found again, and freed (src/segment/remove.c).
 *
 * The number of changes is moved, and presences are looked for, between full fences. States are
 * stored with release and loaded with acquire. So the model has Promela's memory, in which stores
 * are seen at once and in order. A presence is a lock on a byte of the file, as is the lock of
 * resets: the kernel drops both when the process ends.
 *
 * Holds: a process counts by a handle, and resets an object, only in the series' own cells. No
 * object is reset while its series is in use. Whichever processes were killed, the locks can be had
 * and the number of changes is even in the end, and a removed series is freed. If a reader's picture
 * has a series, then with the start and the counts of one life.
 *
 * Bounds: one record, one object. Two processes are present, find the series twice, count, and
 * remove it. One process, which has no family, frees it and makes another series in its cells. One
 * of these is killed at any step. One process frees after them. In the other run, a reader takes the
 * place of one of the two.
 * Not here: children of fork, which have their parent's presence; records that are added.
 *
 * Run users: -DUSERS=2
 * Run reader: -DUSERS=1 -DREADER
 *
 * Bug BUG_NO_SECOND_LOOK: a process frees without a look for others after its change has begun
 * Bug BUG_LATE: a series is found before the process is present
 * Bug BUG_NO_WAIT: a process is present amid a change
 * Bug BUG_NOT_AGAIN: the state is not looked at again under the lock of resets
 * Bug BUG_NO_RECOVER: a lock holder leaves the number of changes of a killed process as it is
 * Bug BUG_NESTED: an object is reset, with the lock of its journal, under that of the allocator
 * Bug BUG_NO_COPY in reader: the reader does not copy records again after a change
 * Bug BUG_ONE_COPY in reader: the reader copies records once again, and not twice
 * Bug BUG_ANY_START in reader: the reader does not compare when the series began
 * Bug BUG_ANY_STATE in reader: the reader does not look whether the series is still in use
 */
#define FREEING 2 /* the process without a family */
#define LAST 3

#define NOBODY 255

#define IN_USE 1
#define REMOVED 2
#define FREE 3

byte changes;
byte state = IN_USE;
byte owner = 1; /* the series that the cells of the object belong to; 0: none; 2: another one */
byte start = 1; /* in the record: when the life of the series began */
byte counts = 1; /* the life whose counts the object has */
bool present[2];
byte alloc = NOBODY, journal = NOBODY, resets = NOBODY; /* locks: their holders */
bool killed;
byte ended;

#define is_odd (changes % 2 == 1)
#define nobody_present (!present[0] && !present[1])

/* The kernel, when a process ends: it frees the lock that list_op_pending names, which is
 * the last one that was taken, and drops locks of the file. */
inline die(me)
{
	if
	:: journal == me -> journal = NOBODY
	:: journal != me && alloc == me -> alloc = NOBODY
	:: else
	fi;
	if
	:: resets == me -> resets = NOBODY
	:: else
	fi;
	if
	:: me < 2 -> present[me] = false
	:: else
	fi
}

/* The test: the process may be killed here. */
inline step(me)
{
	if
	:: atomic { me != LAST && !killed -> killed = true; die(me); goto over }
	:: true
	fi
}

/* src/segment/remove.c: percpu_directory_lock() */
inline lock(me)
{
	atomic { alloc == NOBODY -> alloc = me };
	step(me);
	if
#ifndef BUG_NO_RECOVER
	:: is_odd -> changes++
#endif
	:: else
	fi
}

/* src/memory/alloc.c: percpu_region_unlock() */
inline unlock()
{
	alloc = NOBODY
}

/* src/segment/remove.c: begin_change() */
inline begin_change(me)
{
	assert(!is_odd); /* a process that reads without the lock sees that a change has begun */
	changes++;
	step(me)
}

/* src/segment/remove.c: end_change() */
inline end_change(me)
{
	step(me);
	changes++;
	step(me)
}

/* src/segment/remove.c: percpu_presence_hold(), await_end_of_change() */
inline be_present(me)
{
	present[me] = true;
	step(me);
#ifndef BUG_NO_WAIT
	if
	:: is_odd -> lock(me); unlock()
	:: else
	fi
#endif
}

/* src/segment/remove.c: renew_object(). A reset may take the lock of a journal. */
inline renew_object(me)
{
	atomic { journal == NOBODY -> journal = me };
	step(me);
	assert(owner == 1 && state != IN_USE);
	counts = start + 1;
	journal = NOBODY;
	step(me)
}

/* src/segment/remove.c: percpu_series_revive(), mark_revived() */
inline revive(me)
{
	atomic { resets == NOBODY -> resets = me };
	step(me);
	if
#ifdef BUG_NOT_AGAIN
	:: true ->
#else
	:: state == REMOVED ->
#endif
#ifdef BUG_NESTED
		lock(me);
		renew_object(me);
		unlock();
#else
		if
		:: owner != 0 -> renew_object(me)
		:: else /* its key was cleared when it was freed, and the state was not stored */
		fi;
#endif
		lock(me);
		begin_change(me);
		start++;
		step(me);
		state = IN_USE;
		end_change(me);
		unlock()
	:: else
	fi;
	resets = NOBODY
}

/* src/segment/declare.c: find_record_of(). It gives no handle of a series that was freed: this one would
 * be added, with cells of its own. */
inline find(me, has)
{
	has = true;
	if
	:: state == IN_USE
	:: state == REMOVED -> revive(me)
	:: state == FREE -> has = false
	fi;
	if
	:: atomic { has && owner == 0 -> owner = 1; counts = start } /* the object is created */
	:: else
	fi
}

/* src/segment/remove.c: percpu_series_remove() */
inline remove(me)
{
	lock(me);
	if
	:: state == IN_USE -> begin_change(me); state = REMOVED; end_change(me)
	:: else
	fi;
	unlock()
}

/* src/segment/remove.c: percpu_series_free_removed(), free_series() */
inline free_removed(me)
{
	if
	:: nobody_present ->
		lock(me);
		begin_change(me);
		if
#ifdef BUG_NO_SECOND_LOOK
		:: state == REMOVED ->
#else
		:: nobody_present && state == REMOVED ->
#endif
			step(me);
			owner = (owner == 1 -> 0 : owner);
			step(me);
			state = FREE
		:: else
		fi;
		end_change(me);
		unlock()
	:: else
	fi
}

/* The test: a process that is present. */
proctype user(byte me)
{
	bool has;

#ifdef BUG_LATE
	find(me, has);
	be_present(me);
#else
	be_present(me);
	find(me, has);
#endif
	step(me);
	assert(!has || owner == 1); /* it counts */
	remove(me);
	find(me, has);
	step(me);
	assert(!has || owner == 1);
	if
	:: remove(me)
	:: true
	fi;
	present[me] = false;
over:	ended++
}

/* The test: a process that frees, and makes another series. */
proctype freeing()
{
	free_removed(FREEING);
	step(FREEING);
	atomic {
		if
		:: owner == 0 -> owner = 2
		:: else
		fi
	};
over:	ended++
}

#ifdef READER
/* src/segment/reader_copy.c: copy_records(). pread(2) copies words in any order. The record has a key as
 * long as it has an object. */
inline copy_record(in_use, begun)
{
	if
	:: in_use = (state == IN_USE && owner == 1); begun = start
	:: begun = start; in_use = (state == IN_USE && owner == 1)
	fi
}

/* src/segment/reader_list.c: is_as_listed() */
inline compare(in_use, begun, again_in_use, again)
{
#ifdef BUG_ANY_START
	in_use = in_use && again_in_use;
#elif defined(BUG_ANY_STATE)
	in_use = in_use && again == begun;
#else
	in_use = in_use && again_in_use && again == begun;
#endif
}

/* src/segment/reader.c: take_once(); src/segment/reader_copy.c: percpu_reader_leave_out() */
proctype reader()
{
	byte was, begun, again, has, whose;
	bool in_use, again_in_use;

	was = changes;
	copy_record(in_use, begun);
	atomic { has = counts; whose = owner };
	if
#ifndef BUG_NO_COPY
	:: was != changes || was % 2 == 1 ->
		copy_record(again_in_use, again);
		compare(in_use, begun, again_in_use, again);
#ifndef BUG_ONE_COPY
		copy_record(again_in_use, again);
		compare(in_use, begun, again_in_use, again)
#endif
#endif
	:: else
	fi;
	assert(!in_use || (has == begun && whose == 1));
	ended++
}
#endif

init
{
	atomic {
		run user(0);
#ifdef READER
		run reader();
#else
		run user(1);
#endif
		run freeing()
	};
	ended == 3;
	free_removed(LAST);
	assert(!is_odd && state != REMOVED && alloc == NOBODY);
	assert(state != FREE || owner != 1)
over:	skip
}
