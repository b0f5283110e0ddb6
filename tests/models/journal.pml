/* SPDX-License-Identifier: MIT */
/*
 * journal.pml - words of the bias lane that change together (src/memory/journal.c).
 *
 * All stores are releases and all loads acquires, so they are seen in the order of the program. An
 * interleaving covers that they are seen late. So the model has Promela's memory, in which stores
 * are seen at once and in order.
 *
 * Holds: a reader has all words of a change or none, also during a kill, and none that was not
 * committed. A change that was committed is there when the lock is taken next. Words that were
 * freed are not stored to.
 *
 * Bounds: two writers, which change two adjacent words, twice and once, each killed at any step;
 * beside them a reader that takes the lock after two tries (locks), or a reader that may not take
 * it (only). Or (freed) the words of one writer are freed after its end.
 * Not here: locks that time out; words of more than one journal.
 *
 * Run locks: -DLOCKS
 * Run only: -DONLY
 * Run freed: -DFREED
 * Quick: freed
 * Bug BUG_EARLY: turn is made odd before all values are written down
 * Bug BUG_IN_PLACE: the words are stored without being written down
 * Bug BUG_NO_REDO: the process that takes the lock over does not complete the change
 * Bug BUG_NO_LOOK: a reader does not look at turn again
 * Bug BUG_NO_OVERLAY in only: a reader without the lock takes the words while turn is odd
 * Bug BUG_NO_RECOVER in freed: words are freed with a change of them written down
 */
#define WORDS 2
#define NOBODY 0

byte bias[2 * WORDS];		/* of two objects */
byte turn, value[WORDS], offset; /* struct percpu_journal */
byte lock;			/* its holder, or NOBODY */
byte committed[2];		/* the right value of an object's words */
bool dead[3], gone[3];
byte ended;

/* src/cpu/lock.c: percpu_robust_lock() */
inline take_lock(me)
{
	atomic { lock == NOBODY -> lock = me }
}

/* src/cpu/lock.c: percpu_robust_unlock() */
inline unlock(me)
{
	d_step { assert(lock == me); lock = NOBODY }
}

/* src/memory/journal.c: apply() */
inline apply(i)
{
	i = 0;
	do
	:: i < WORDS -> bias[offset + i] = value[i]; i++
	:: else -> break
	od;
	turn = (turn | 1) + 1;
	i = 0
}

/* src/memory/journal.c: lock_journal() */
inline lock_journal(me, i)
{
	take_lock(me);
	if
	:: turn & 1 ->
#ifdef BUG_NO_REDO
		turn++
#else
		apply(i)
#endif
	:: else
	fi
}

/* src/memory/journal.c: percpu_journal_set(), percpu_journal_add() */
inline journal_add(at, i, new)
{
	new = bias[at] + 1;
	assert(bias[at + 1] == bias[at]);
#ifdef BUG_IN_PLACE
	bias[at] = new;
	bias[at + 1] = new;
	committed[at / WORDS]++;
#else
	offset = at;
#ifdef BUG_EARLY
	atomic { turn++; committed[at / WORDS]++ };
#endif
	value[0] = new;
	value[1] = new;
#ifndef BUG_EARLY
	atomic { turn++; committed[at / WORDS]++ };
#endif
	apply(i);
#endif
	new = 0
}

/* src/counts/stats.c: update_locked() */
proctype writer(byte me; byte at; byte n)
{
	byte i, new;

	{
		do
		:: n > 0 ->
			lock_journal(me, i);
			journal_add(at, i, new);
			unlock(me);
			n--
		:: else -> break
		od
	} unless { dead[me] };
	atomic { gone[me] = true; ended++; i = 0; new = 0; n = 0 }
}

/* src/memory/journal.c: copy_words() */
inline copy_words(at)
{
	out0 = bias[at];
	out1 = bias[at + 1]
}

/* The test: check what a reader promises. */
inline check_words(at)
{
	d_step {
		assert(out0 == out1);
		assert(out0 >= least && out0 <= committed[at / WORDS]);
		out0 = 0;
		out1 = 0
	}
}

/* src/memory/journal.c: percpu_journal_read() */
proctype reader(byte me; byte at)
{
	byte t, out0, out1, least, i, n;

	least = committed[at / WORDS];
	do
	:: n < 2 ->
		t = turn;
		if
		:: t & 1 -> break
		:: else
		fi;
		copy_words(at);
		if
#ifdef BUG_NO_LOOK
		:: true ->
#else
		:: turn == t ->
#endif
			check_words(at);
			goto done
		:: else -> n++
		fi
	:: else -> break
	od;
	lock_journal(me, i);
	copy_words(at);
	check_words(at);
	unlock(me);
done:
	ended++
}

/* src/memory/journal.c: read_only(), overlay() */
proctype read_only(byte at)
{
	byte t, out0, out1, least, n, first;

	least = committed[at / WORDS];
	do
	:: n < 2 ->
		t = turn;
		copy_words(at);
#ifndef BUG_NO_OVERLAY
		if
		:: t & 1 ->
			first = offset;
			if
			:: first == at -> out0 = value[0]; out1 = value[1]
			:: else
			fi
		:: else
		fi;
#endif
		if
		:: turn == t -> check_words(at); break
		:: else -> n++
		fi
	:: else -> break /* -ETIMEDOUT */
	od;
	ended++
}

/* src/memory/alloc.c: free_one() */
proctype freeing(byte me; byte at)
{
	byte i;

	gone[2]; /* wait for the last user of the words */
#ifndef BUG_NO_RECOVER
	/* src/memory/journal.c: percpu_journal_recover() */
	if
	:: turn & 1 -> lock_journal(me, i); unlock(me)
	:: else
	fi;
#endif
	d_step { bias[at] = 99; bias[at + 1] = 99; committed[at / WORDS] = 99 }; /* another
										    object has
										    the words now */
	ended++
}

/* The kernel: it may kill a process anywhere, and then frees its lock. src/cpu/lock.c: arm() */
proctype killer(byte who)
{
	if
	:: d_step {
			dead[who] = true;
			if
			:: lock == who -> lock = NOBODY
			:: else
			fi;
			ended++
		}
	:: ended++
	fi
}

init
{
	byte i;

	atomic {
		run writer(1, 0, 2);
		run killer(2);
#ifdef FREED
		run writer(2, WORDS, 1);
		run freeing(3, WORDS)
#else
		run writer(2, 0, 1);
		run killer(1);
#ifdef LOCKS
		run reader(3, 0)
#else
		run read_only(0)
#endif
#endif
	};
#ifdef FREED
	ended == 4;
#else
	ended == 5;
#endif
	lock_journal(4, i);
	assert(bias[0] == committed[0] && bias[1] == committed[0]);
	assert(bias[2] == committed[1] && bias[3] == committed[1])
}
