/* SPDX-License-Identifier: MIT */
/*
 * append.pml - a segment's append against readers (src/segment/record_anchor.c, directory.c,
 * reader_copy.c, src/memory/block.c, root.c).
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
 * Not here: records that are rewritten (their number, which is odd meanwhile); blocks that are
 * made; a full file.
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

/* src/segment/directory.c: percpu_directory_refresh(), walk_on() src/segment/record_anchor.c:
 * look_up_metric() */
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

/* src/segment/record_anchor.c: write_record(), choose_record_callback() */
inline choose_record_callback(me)
{
#ifndef BUG_NO_LOOK
	look_up();
#else
	at = end;
#endif
	moves = false;
	if
	:: found
	:: else ->
		at = end;
		moves = true;
#ifdef BUG_END_FIRST
		end = at + 1;
#endif
		first[at] = 1;
		second[at] = 1;
		key[at] = NONE
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

/* src/memory/block.c: create_at(), start_block(), anchor_key() src/segment/record_anchor.c:
 * announce_record_callback(), percpu_directory_anchor() */
inline declare(me)
{
	look_up();
	if
	:: found && key[at] != NONE -> assert(complete[key[at]])
	:: else ->
		lock_allocator(me);
		choose_record_callback(me);
		if
		:: key[at] != NONE
		:: else ->
			allocate();
#ifdef BUG_KEY_FIRST
			end = (moves -> at + 1 : end);
			key[at] = object;
			complete[object] = true;
#else
			complete[object] = true;
			if
			:: moves -> end = at + 1
			:: else
			fi;
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
	bool found, moves;

	{
		declare(me)
	} unless { dead[me] };
	atomic { at = 0; last = 0; object = 0; found = false; moves = false; ended++ }
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
	bool found, moves;

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
