/* SPDX-License-Identifier: MIT */
/*
 * append.pml - a segment's append against readers (src/segment/declare.c, directory.c, reader_copy.c,
 * src/memory/block.c, root.c).
 *
 * What is published, the end and the key, is stored with release and loaded with acquire, or
 * exchanged. All that is read in front of that is read in the order of the program. So the model
 * has Promela's memory, in which stores are seen at once and in order.
 *
 * Holds: a record in front of the end is whole, for a process of the segment and for a reader of
 * the file. An object that a record leads to is complete; or, in a reader's copy, is not there. A
 * metric exists once, with one object, whichever processes declare it and wherever they are killed.
 * No object is left that no record leads to.
 *
 * Bounds: two processes that declare one metric, killed at any step; one that declares it after
 * them; a reader that copies the file. Records of two words; room for two records and three
 * objects.
 * Not here: records that are removed; blocks that are made; a full file.
 *
 * Bug BUG_END_FIRST: the end is moved before the record is written
 * Bug BUG_KEY_FIRST: the key is stored before the object is complete
 * Bug BUG_NO_LOOK: the lock holder does not look again whether the metric is there
 * Bug BUG_NO_NOTE: it is not noted which object is being created
 * Bug BUG_NO_RECOVER: the process that takes the lock does not free what was being created
 * Bug BUG_BIAS_FIRST: a reader copies objects before records
 */
#define NONE 0

byte end;		/* the number of records */
byte first[2], second[2]; /* the words of records: 1, if it is the metric; or what was there
			     before */
byte key[2];		/* the objects that the records lead to, from 1 on */
bool used[4];		/* what is allocated */
bool complete[4];	/* the object has been created */
byte noted, noted_at;	/* struct percpu_header: the object being placed, and its record */
byte lock;
bool dead[4];
byte ended;

/* src/memory/root.c: percpu_creation_recover(), recover_note() */
inline recover()
{
	if
	:: noted != NONE ->
#ifndef BUG_NO_RECOVER
		if
		:: key[noted_at] != noted -> atomic { used[noted] = false; complete[noted] = false }
		:: else
		fi;
#endif
		noted = NONE
	:: else
	fi
}

/* src/cpu/lock.c: percpu_robust_lock() src/memory/alloc.c: percpu_region_alloc_at() */
inline lock_allocator(me)
{
	atomic { lock == NONE -> lock = me };
	recover()
}

/* src/memory/alloc.c: percpu_region_unlock() */
inline unlock_allocator()
{
	recover();
	lock = NONE
}

/* src/segment/directory.c: percpu_directory_refresh(), walk_on(), find_record() */
inline look_up()
{
	at = 0;
	found = false;
	last = end;
	do
	:: at < last ->
		assert(first[at] == 1 && second[at] == 1);
		found = true;
		break
	:: else -> break
	od
}

/* src/segment/declare.c: add_locked(), append_record() */
inline add_record(me)
{
#ifndef BUG_NO_LOOK
	look_up();
#else
	at = end;
#endif
	if
	:: found
	:: else ->
		at = end;
#ifdef BUG_END_FIRST
		end = at + 1;
#endif
		first[at] = 1;
		second[at] = 1;
		key[at] = NONE;
#ifndef BUG_END_FIRST
		end = at + 1
#endif
	fi
}

/* src/memory/alloc.c: alloc_anywhere() src/memory/root.c: percpu_creation_note() */
inline allocate()
{
	atomic {
		if
		:: !used[1] -> object = 1
		:: used[1] && !used[2] -> object = 2 /* only with a bug */
		:: used[1] && used[2] -> assert(!used[3]); object = 3 /* only with a bug */
		fi
	};
#ifndef BUG_NO_NOTE
	noted_at = at;
	noted = object;
#endif
	used[object] = true
}

/* src/segment/declare.c: find_record_of(), percpu_segment_open_metric() src/memory/block.c:
 * percpu_block_open_at(), create_at(), start_block(), anchor_key() */
inline declare(me)
{
	look_up();
	if
	:: found
	:: else ->
		lock_allocator(me);
		add_record(me);
		unlock_allocator()
	fi;
	if
	:: key[at] != NONE -> assert(complete[key[at]])
	:: else ->
		lock_allocator(me);
		if
		:: key[at] != NONE
		:: else ->
			allocate();
#ifdef BUG_KEY_FIRST
			key[at] = object;
			complete[object] = true;
#else
			complete[object] = true;
			key[at] = object;
#endif
		fi;
		unlock_allocator();
		assert(complete[key[at]])
	fi
}

/* The test: a process. */
proctype process(byte me)
{
	byte at, last, object;
	bool found;

	{
		declare(me)
	} unless { dead[me] };
	atomic { at = 0; last = 0; object = 0; found = false; ended++ }
}

/* src/segment/reader_copy.c: percpu_reader_copy_directory(), percpu_reader_copy_control(), copy_block(),
 * percpu_reader_copy_headers(), percpu_reader_copy_biases() */
proctype reader()
{
	byte has, one, two, leads;
	bool is_used[4], is_complete[4];

#ifdef BUG_BIAS_FIRST
	is_complete[1] = complete[1];
	is_complete[2] = complete[2];
	is_complete[3] = complete[3];
#endif
	has = end;
	one = first[0];
	two = second[0];
	leads = key[0];
	is_used[1] = used[1];
	is_used[2] = used[2];
	is_used[3] = used[3];
#ifndef BUG_BIAS_FIRST
	is_complete[1] = complete[1];
	is_complete[2] = complete[2];
	is_complete[3] = complete[3];
#endif
	assert(has == 0 || (one == 1 && two == 1));
	assert(has == 0 || leads == NONE || !is_used[leads] || is_complete[leads]);
	atomic { has = 0; one = 0; two = 0; leads = 0 }
}

/* The kernel: it may kill a process anywhere, and then frees its lock. */
proctype killer(byte me)
{
	if
	:: d_step {
			dead[me] = true;
			if
			:: lock == me -> lock = NONE
			:: else
			fi
		}
	:: true
	fi
}

init
{
	byte at, last, object;
	bool found;

	atomic {
		run process(1);
		run process(2);
		run killer(1);
		run killer(2);
		run reader()
	};
	ended == 2;
	declare(3);
	lock_allocator(3);
	unlock_allocator();
	assert(end == 1 && key[0] != NONE && used[key[0]] && complete[key[0]]);
	assert(used[1] + used[2] + used[3] == 1)
}
