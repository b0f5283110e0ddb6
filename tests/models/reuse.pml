/* SPDX-License-Identifier: MIT */
/*
 * reuse.pml - series that are removed, and the reuse of their room, by epochs
 * (src/segment/reuse.c, epoch.c, directory.c).
 *
 * The number of changes is moved between full fences. What is published is stored with release and
 * loaded with acquire. So the model has Promela's memory, in which stores are seen at once and in
 * order. An epoch is a lock on a byte of the file, which the kernel knows at once.
 *
 * Holds: a process never counts by a handle in cells that belong to another series by then, if
 * after percpu_segment_release_removed() it uses no earlier handle. A series that is found is found
 * as a whole, and its removal was not counted before. A series of which no process can have a
 * handle is freed in the end, whichever processes were killed.
 *
 * Bounds: one record, one object. One process, which has tables, takes an epoch, resolves the
 * series three times and counts by the handle, and says in between that it has none. One process
 * removes the series. One frees it and makes another series in its place. Each of these two is
 * killed at any step. One frees it after them. These three have no tables yet.
 * Not here: children of fork, which hold their parent's epoch.
 *
 * Bug BUG_NO_EPOCH: a process frees without asking for the epochs held
 * Bug BUG_EPOCH_LATE: a series is looked up before the epoch is taken
 * Bug BUG_RENEW_EARLY: the new epoch has the removals that are counted after the look
 * Bug BUG_NO_RECOVER: the lock holder does not count the removal of a killed process
 * Bug BUG_TABLES_AMID: tables that were made during a removal stay valid until the change is over
 * Bug BUG_RECOVER_BY_TABLES: such tables say whether the removal of a killed process had begun
 */
#define NONE 255
#define USER 1

#define IN_USE 1
#define REMOVED 2
#define FREE 3

byte changes, removals;			 /* struct percpu_segment_control */
byte state, removal, name, key;		 /* the record */
byte owner;				 /* the series that the cells of the object belong to; 0:
					    none */
byte epoch;				 /* the epoch that is held, or NONE */
byte lock;
bool dead[4];
byte ended;

byte entered_at = NONE, entered_removals; /* the user's tables: the changes and removals when
					     they were made */
bool entered;				  /* the series is in the tables */
byte entered_removal;			  /* the number of the series' removal, or 0 */

/* src/segment/reuse.c: percpu_changes_recover(), lock_directory(), forget_tables() */
inline lock_directory(me)
{
	atomic { lock == 0 -> lock = me };
	if
	:: changes & 1 ->
#ifdef BUG_RECOVER_BY_TABLES
		if
		:: me == USER && entered_at == changes
		:: else -> entered_removal = (state == REMOVED -> removal : 0)
		fi;
		if
		:: entered_removal == removals + 1 -> removals = entered_removal
		:: else
		fi;
#elif !defined(BUG_NO_RECOVER)
		if
		:: state == REMOVED && removal == removals + 1 -> removals = removal
		:: else
		fi;
#endif
		changes++
	:: else
	fi
}

/* src/memory/alloc.c: percpu_region_unlock() */
inline unlock()
{
	lock = 0
}

/* src/segment/epoch.c: await_removals() src/segment/reuse.c: percpu_reuse_await_change() */
inline await_removals(me)
{
	if
	:: changes & 1 -> lock_directory(me); unlock()
	:: else
	fi;
	now = removals
}

/* src/segment/directory.c: percpu_directory_refresh(), is_entered(), walk_again(),
 * percpu_directory_is_unchanged(), percpu_directory_load() */
inline refresh()
{
	do
	:: before = changes;
		counted = removals;
		if
#ifdef BUG_TABLES_AMID
		:: entered_at == before
#else
		:: entered_at == before && (!(before & 1) || entered_removals == counted)
#endif
		:: else ->
			entered_at = NONE;
			entered_removal = 0;
			entered = (state == IN_USE);
			if
			:: entered && name == 1
			:: else ->
				entered = false;
				if
				:: state == REMOVED -> entered_removal = removal
				:: else
				fi
			fi;
			entered_at = before;
			entered_removals = counted
		fi;
		if
		:: changes == before -> break
		:: else
		fi
	od;
	atomic { before = 0; counted = 0 }
}

/* src/segment/record_anchor.c: look_up_metric() src/memory/block.c: percpu_block_open_at() */
inline look_up()
{
	handle = 0;
	gone = (state == REMOVED && removal <= removals);
	refresh();
	if
	:: entered -> handle = key /* 0: no object yet; a process that needs it takes the lock */
	:: else
	fi;
	assert(!gone || handle == 0);
	gone = false
}

/* The test: a thread that counts. */
inline count()
{
	assert(handle == 0 || owner == 1);
	handle = 0
}

/* src/segment/epoch.c: percpu_epoch_hold(), percpu_segment_release_removed(), renew_epoch() */
proctype user()
{
	byte now, before, counted, handle;
	bool gone;

#ifdef BUG_EPOCH_LATE
	look_up();
	await_removals(USER);
	epoch = now;
#else
	await_removals(USER);
	epoch = now;
	look_up();
#endif
	count();
	look_up();
	count();
	await_removals(USER);
#ifdef BUG_RENEW_EARLY
	look_up();
	await_removals(USER);
	epoch = now;
	count();
#else
	epoch = now;
	look_up();
	count();
#endif
	epoch = NONE; /* percpu_segment_close() */
	atomic { now = 0; ended++ }
}

/* src/segment/reuse.c: percpu_reuse_remove(), remove_record(), begin_change(), end_change() */
inline remove(me)
{
	lock_directory(me);
	if
	:: state == IN_USE && name == 1 ->
		changes++;
		removal = removals + 1;
		state = REMOVED;
		removals = removal;
		changes++
	:: else
	fi;
	unlock()
}

/* src/segment/reuse.c: percpu_reuse_free(), free_series(), free_record()
 * src/segment/epoch.c: percpu_epoch_first() src/memory/root.c: percpu_anchor_free() */
inline free(me)
{
	number = removals;
#ifndef BUG_NO_EPOCH
	atomic {
		if
		:: epoch < number -> number = epoch
		:: else
		fi
	};
#endif
	lock_directory(me);
	if
	:: state == REMOVED && removal <= number ->
		key = 0;
		owner = 0;
		changes++;
		state = FREE;
		changes++
	:: else
	fi;
	unlock()
}

/* src/segment/reuse.c: percpu_reuse_rewrite(), store_record()
 * src/segment/record_anchor.c: choose_spare()
 * src/memory/block.c: create_at() */
inline rewrite(me, new)
{
	lock_directory(me);
	if
	:: state == FREE && key == 0 ->
		owner = new;
		changes++;
		name = new;
		removal = 0;
		state = IN_USE;
		changes++;
		key = 1
	:: else
	fi;
	unlock()
}

/* The test: a process that removes the series. */
proctype remover(byte me)
{
	{
		remove(me)
	} unless { dead[me] };
	ended++
}

/* The test: a process that frees the series, and makes another one. */
proctype other(byte me)
{
	byte number;

	{
		free(me);
		rewrite(me, 2)
	} unless { dead[me] };
	atomic { number = 0; ended++ }
}

/* The kernel: it may kill a process anywhere, and then frees its lock. */
proctype killer(byte me)
{
	if
	:: d_step {
			dead[me] = true;
			if
			:: lock == me -> lock = 0
			:: else
			fi
		}
	:: true
	fi
}

init
{
	byte number;

	atomic {
		state = IN_USE;
		name = 1;
		key = 1;
		owner = 1;
		epoch = NONE;
		run user();
		run remover(2);
		run other(3);
		run killer(2);
		run killer(3)
	};
	ended == 3;
	lock_directory(4);
	unlock();
	if
	:: state == REMOVED -> free(4); assert(state == FREE)
	:: else
	fi
}
