/* SPDX-License-Identifier: MIT */
/*
 * rwlock.pml - read-mostly locks whose owners die (src/owners/rwlock.c, rwlock_write.c,
 * participant.c, participant_join.c).
 *
 * Memory: other CPUs see later what a sequence commits, at the latest when its CPU is fenced or
 * executes a locked instruction. A sleep ends by a wake; or by a death, in the calls that ask for
 * deaths at intervals. A process that is never woken is a state in which nothing goes on.
 *
 * Holds: a writer is alone. After a writer died with the lock, the next process that locks is told.
 * If that one is a reader and does not repair, the next one is told; if it is a writer, no process
 * can lock any more. A writer is told of readers that died with the lock. No living process waits
 * for ever.
 *
 * Bounds: two CPUs and two atomic lanes. Three processes: one reads, by sequences or without, and
 * leaves on any CPU or lane; one writes; one does either, twice. The first two are killed at any
 * step, and the last one writes once (reader); or only the second one is killed (writer); or none
 * is, and a fence may fail, once (lives).
 * Not here: that waiting readers come in before the next writer; waits that are timed; owners'
 * slots that are taken again; threads of one process, which are not killed one by one.
 *
 * Run reader: -DREADER
 * Run writer: -DWRITER
 * Run lives: -DLIVES
 * Bug BUG_NO_FENCE in lives: a writer does not fence when it has closed the lock
 * Bug BUG_LOOK_FIRST in lives: a reader without sequences looks at the state, then counts itself
 * Bug BUG_OTHER_LANE in lives: a refused reader subtracts its count from another lane
 * Bug BUG_NO_WAKE in lives: a reader that leaves does not look whether a writer waits
 * Bug BUG_OPEN_LATE in writer: the writer's word is cleared before the lock is open
 * Bug BUG_NOT_TOLD in writer: a process that takes over from a dead writer opens the lock
 * Bug BUG_DECLINED_OPEN in writer: a reader that was told and does not repair opens the lock
 * Bug BUG_NOT_DROPPED: the counts of a dead reader are not dropped
 * Bug BUG_DROPPED_FIRST: the counts are dropped before the death is noted
 */
#define OPEN 0
#define CLOSING 1
#define WRITING 2
#define REPAIRING_WRITER 3
#define REPAIRING_READER 4
#define LOST 5
#define IS_WRITTEN(s) ((s) >= WRITING && (s) <= REPAIRING_READER)

/* A sleep ends by a wake; or by itself, a while after a death. */
#define MAY_GO_ON(me) \
	(!turn_same[me] || dead[writer] || (writer == 0 && (state != OPEN || dead[1] || dead[2])))

#define DIED 1 /* -EOWNERDEAD */
#define GONE 2 /* -ENOTRECOVERABLE */
#define REFUSED 3
#define FAILED 4 /* a fence */

byte state, writer;
byte own[2], seen[2];	/* the first process's cells of CPUs, as their CPU sees them and as other
			   CPUs do */
byte cell[8];		/* of atomic lanes, two of each process */
byte left;		/* the part of the first process's cells that does not count */
bool running[2];	/* its sequence is in progress */
bool died, told;
byte lock;		/* of the participants, between processes */
bool turn_same[4], drained_same[4]; /* the futex word has the value that this process has loaded */
bool dead[4], reading[4], writing[4];
bool torn;		/* the data that the lock protects are not whole */
bool owed;		/* a reader died with the lock, and no writer was told yet */
byte failures;

/* The kernel: commits become visible. */
active proctype memory()
{
end:
	do
	:: atomic { seen[0] != own[0] -> seen[0] = own[0] }
	:: atomic { seen[1] != own[1] -> seen[1] = own[1] }
	od
}

/* The test: note that a process reads. */
inline begin_reading(me)
{
	reading[me] = true;
	assert(!writing[1] && !writing[2] && !writing[3])
}

/* The test: note that a process writes. */
inline begin_writing(me)
{
	writing[me] = true;
	assert(!reading[1] && !reading[2] && !reading[3]);
	assert(writing[1] + writing[2] + writing[3] == 1)
}

/* src/owners/participant.c: percpu_participants_wake() */
inline wake_drained()
{
	d_step { drained_same[1] = false; drained_same[2] = false; drained_same[3] = false }
}

/* src/owners/rwlock_write.c: percpu_rwlock_hand_on() */
inline hand_on(s)
{
#ifdef BUG_OPEN_LATE
	writer = 0;
	state = s;
#else
	state = s;
	writer = 0;
#endif
	d_step { turn_same[1] = false; turn_same[2] = false; turn_same[3] = false }
}

/* src/owners/rwlock_write.c: percpu_rwlock_take_over(), become_writer() */
inline succeed(me)
{
	won = false;
	w = writer;
	if
	:: (w != 0 && dead[w]) || (w == 0 && state != OPEN) ->
		atomic {
			if
			:: writer == w -> writer = me; won = true
			:: else
			fi;
			w = 0
		}
	:: else -> w = 0
	fi
}

/* include/percpu/arch/spec.h: percpu_seq_narrow_add_if(); its tries may be used up */
inline add_if(me, k, done)
{
	atomic {
		if
		:: state == OPEN && me == 1 -> c = 0; running[0] = true; done = false
		:: state == OPEN && me == 1 -> c = 1; running[1] = true; done = false
		:: true -> c = 2
		fi
	};
	if
	:: c < 2 ->
		atomic {
			if
			:: running[c] ->
				own[c] = own[c] + k;
				running[c] = false;
				done = true;
				if
				:: k == 1 -> begin_reading(me)
				:: else
				fi
			:: else
			fi;
			c = 0
		}
	:: else -> c = 0
	fi
}

/* src/owners/participant.c: percpu_participants_enter() */
inline enter(me)
{
	won = false;
	add_if(me, 1, won);
	if
	:: won -> r = 0
	:: else ->
		atomic {
			if
			:: l = 0
			:: me == 1 -> l = 1
			fi;
#ifdef BUG_LOOK_FIRST
			won = (state == OPEN)
		};
		atomic {
			cell[2 * me + l] = cell[2 * me + l] + 1;
			seen[0] = own[0]; seen[1] = own[1]
		};
		atomic {
			if
			:: won -> r = 0; begin_reading(me)
#else
			cell[2 * me + l] = cell[2 * me + l] + 1;
			seen[0] = own[0];
			seen[1] = own[1]
		};
		atomic {
			if
			:: state == OPEN -> r = 0; begin_reading(me)
#endif
			:: else -> r = REFUSED
			fi
		};
		if
		:: r == REFUSED ->
#ifdef BUG_OTHER_LANE
			cell[2 * me + 1 - l] = cell[2 * me + 1 - l] - 1;
#else
			cell[2 * me + l] = cell[2 * me + l] - 1;
#endif
			wake_drained()
		:: else
		fi
	fi;
	d_step { l = 0; won = false }
}

/* src/owners/participant.c: percpu_participants_leave() */
inline leave(me)
{
	reading[me] = false;
	won = false;
	add_if(me, 255, won);
	if
	:: won
	:: else ->
		atomic {
			if
			:: l = 0
			:: me == 1 -> l = 1
			fi;
			cell[2 * me + l] = cell[2 * me + l] - 1;
			seen[0] = own[0];
			seen[1] = own[1]
		};
#ifndef BUG_NO_WAKE
		if
		:: state != OPEN -> wake_drained()
		:: else
		fi
#endif
	fi;
	d_step { l = 0; won = false }
}

/* src/owners/rwlock.c: take_over_to_read() */
inline take_over_to_read(me)
{
	if
#ifdef BUG_NOT_TOLD
	:: true ->
#else
	:: !IS_WRITTEN(state) ->
#endif
		if
		:: state == LOST -> hand_on(LOST) /* only with a race: the lock was lost after
						     the refusal */
		:: else -> hand_on(OPEN)
		fi;
		enter(me)
#ifndef BUG_NOT_TOLD
	:: else ->
		state = REPAIRING_READER;
		atomic { cell[2 * me] = cell[2 * me] + 1; r = DIED; begin_reading(me) }
#endif
	fi
}

/* src/owners/rwlock.c: percpu_rwlock_read_lock_slow(), wait_to_read(), try_to_read() */
inline read_lock(me)
{
	do
	:: turn_same[me] = true;
		enter(me);
		if
		:: r == 0 -> break
		:: r != 0 && state == LOST -> r = GONE; break
		:: else
		fi;
		succeed(me);
		if
		:: won -> take_over_to_read(me)
		:: else
		fi;
		if
		:: r != REFUSED -> break
		:: else
		fi;
		MAY_GO_ON(me)
	od;
	turn_same[me] = false
}

/* src/owners/rwlock.c: percpu_rwlock_read_unlock_slow() */
inline read_unlock(me)
{
	if
	:: state == REPAIRING_READER && writer == me ->
		atomic { reading[me] = false; cell[2 * me] = cell[2 * me] - 1 };
#ifdef BUG_DECLINED_OPEN
		hand_on(OPEN)
#else
		hand_on(REPAIRING_READER)
#endif
	:: else -> assert(!IS_WRITTEN(state) && state != LOST); leave(me)
	fi
}

/* src/owners/participant_join.c: percpu_participants_drop_dead(), drop_if_dead(), drop_slot() */
inline drop_dead(me)
{
	atomic { lock == 0 -> lock = me };
#ifndef BUG_NOT_DROPPED
	atomic {
		n = seen[0] + seen[1] + cell[2] + cell[3];
		if
		:: n == left -> n = 0; lock = 0; goto dropped
		:: else
		fi
	};
#ifdef BUG_DROPPED_FIRST
	left = n;
	died = true;
#else
	died = true;
	left = n;
#endif
#endif
	lock = 0;
dropped:
	n = 0
}

/* src/owners/participant.c: percpu_participants_drain(), percpu_participants_sum_cells() */
inline drain(me)
{
	do
	:: drained_same[me] = true;
		n = 0 - left;
		n = n + seen[0];
		n = n + seen[1];
		n = n + cell[2];
		n = n + cell[3];
		n = n + cell[6];
		if
		:: n == 0 -> break
		:: else -> n = 0
		fi;
		if
		:: dead[1] && !asked -> asked = true; drop_dead(me) /* once is enough */
		:: else -> (!drained_same[me] || (dead[1] && !asked))
		fi
	od;
	atomic { drained_same[me] = false; asked = false }
}

/* src/cpu/visit.c: percpu_visit() */
inline fence_cpu(i)
{
	d_step { running[i] = false; seen[i] = own[i] }
}

/* src/owners/rwlock_write.c: close_rwlock() */
inline close(me)
{
	state = CLOSING;
#ifndef BUG_NO_FENCE
	fence_cpu(0);
	if
	:: fence_cpu(1)
	:: failures > 0 -> atomic { failures--; r = FAILED }
	fi;
#endif
	if
	:: r != FAILED -> drain(me); state = WRITING
	:: else
	fi
}

/* src/owners/rwlock_write.c: are_readers_dead() */
inline are_readers_dead()
{
	if
	:: died ->
		told = true;
		died = false
	:: else
	fi
}

/* src/owners/rwlock_write.c: take_turn_to_write(), begin_to_write() */
inline write_lock(me)
{
	r = 0;
	do
	:: turn_same[me] = true;
		if
		:: state == LOST -> r = GONE; break
		:: else
		fi;
		atomic {
			if
			:: writer == 0 -> writer = me; won = true
			:: else -> won = false
			fi
		};
		if
		:: won -> break
		:: else
		fi;
		succeed(me);
		if
		:: won -> break
		:: else
		fi;
		MAY_GO_ON(me)
	od;
	atomic { turn_same[me] = false; won = false };
	if
	:: r == GONE
	:: else ->
		if
		:: state == LOST -> hand_on(LOST); r = GONE
		:: !IS_WRITTEN(state) && state != LOST ->
			close(me);
			if
			:: r == FAILED -> hand_on(OPEN)
			:: else ->
				are_readers_dead();
				atomic { r = (told -> DIED : 0); begin_writing(me) }
			fi
		:: else ->
			state = REPAIRING_WRITER;
			drain(me);
			are_readers_dead();
			atomic { r = DIED; begin_writing(me) }
		fi
	fi
}

/* src/owners/rwlock_write.c: percpu_rwlock_write_unlock() */
inline write_unlock(me)
{
	writing[me] = false;
	told = false;
	if
	:: state == WRITING -> hand_on(OPEN)
	:: else -> assert(state == REPAIRING_WRITER); hand_on(LOST)
	fi
}

/* src/owners/rwlock_write.c: percpu_rwlock_consistent() */
inline consistent(me)
{
	assert(writer == me);
	if
	:: state == REPAIRING_WRITER -> state = WRITING
	:: state == REPAIRING_READER -> hand_on(OPEN)
	:: else -> assert(told); told = false /* readers have died: nothing to repair */
	fi
}

/* The test: a section that reads. */
inline read(me)
{
	read_lock(me);
	if
	:: r == GONE
	:: r == 0 -> assert(!torn); read_unlock(me)
	:: r == DIED ->
		if
		:: torn = false; consistent(me)
		:: true
		fi;
		read_unlock(me)
	fi;
	r = 0
}

/* The test: a section that writes. */
inline write(me)
{
	write_lock(me);
	if
	:: r == GONE || r == FAILED
	:: r == 0 -> assert(!torn && !owed); torn = true; torn = false; write_unlock(me)
	:: r == DIED ->
		owed = false;
		if
		:: torn = false; consistent(me)
		:: true
		fi;
		write_unlock(me)
	fi;
	r = 0
}

/* The test: a process. */
proctype process(byte me; bool reads; bool writes)
{
	byte r, w, l, c, n;
	bool won, asked;

	{
		if
		:: reads -> read(me)
		:: writes -> write(me)
		fi;
		if
		:: reads && writes -> read(me)
		:: reads && writes -> write(me)
		:: else
		fi
	} unless { dead[me] };
	atomic { r = 0; w = 0; l = 0; c = 0; n = 0; won = false; asked = false; reads = false; writes = false }
}

/* The kernel: it may kill a process anywhere. Its commits stay. src/cpu/lock.c: arm() */
proctype killer(byte me)
{
	if
	:: d_step {
			dead[me] = true;
			if
			:: lock == me -> lock = 0
			:: else
			fi;
			seen[0] = own[0];
			seen[1] = own[1];
			owed = owed || (me == 1 && reading[1]);
			reading[me] = false;
			writing[me] = false;
			turn_same[me] = false;
			drained_same[me] = false
		}
	:: true
	fi
}

init
{
	atomic {
#ifdef LIVES
		failures = 1;
#endif
		run process(1, true, false);
		run process(2, false, true);
#ifdef READER
		run process(3, false, true);
		run killer(1);
#else
		run process(3, true, true);
#endif
#ifndef LIVES
		run killer(2)
#endif
	}
}
