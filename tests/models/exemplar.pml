/* SPDX-License-Identifier: MIT */
/*
 * exemplar.pml - a slot of exemplars, in which threads store that are stopped or killed
 * (src/counts/exemplar_store.c).
 *
 * The state changes by compare-and-swap, with acquire by the thread that claims the slot, and with
 * release when its copy is complete. Between the two, the thread looks at the state before each word;
 * a store is not done before the look that it depends on. A checksum makes the order of the words of
 * a copy irrelevant. So the model has Promela's memory.
 *
 * Holds: what is read in the end is the exemplar that was stored last. If a thread was stopped for
 * longer than a claim lasts, it may be the one before, or one that is complete and whose thread was
 * killed right then; or none, if a thread was also killed in the middle of the other copy. Without a
 * stop, a thread that is killed while it stores changes nothing. What was stored before a reset is
 * not read after it.
 *
 * Bounds: one slot, with copies of one word and a checksum. Three threads store once each; one
 * resets the slot once. One of the four is stopped at any step, for any time, and another one is
 * killed at any step. A read when all have ended; and one amid them, which reads word by word.
 * Not here: two threads that are stopped, which can damage both copies; a claim that another thread
 * takes over too early, which is as if its thread was stopped.
 *
 * Bug BUG_PARITY: a thread stores in the copy that the parity of its turn names
 * Bug BUG_NO_LOOK: a thread does not look whether its turn is over
 * Bug BUG_BLIND: a thread makes its copy the valid one without looking whether its turn is over
 * Bug BUG_NO_RESETS: the checksum does not include the number of resets
 * Bug BUG_RESET_ENDS: a reset ends the claim of the thread that stores
 * Bug BUG_NO_END: a thread whose turn a reset has ended keeps its claim
 * Bug BUG_NO_CHECK: a reader takes the valid copy without a look at the checksum
 */
#define THREADS 4 /* the last one resets */
#define RESETTER 3
#define NOBODY 255

#define WORDS 2 /* the exemplar's number, and the checksum */

typedef exemplar {
	byte word[WORDS]
}

exemplar copy[2];
byte turn;
bit resets;
bool has, claim;
bit valid;

/* What the model knows, and the threads do not. */
byte holder = NOBODY;		/* whose claim it is */
byte stopped = NOBODY, killed = NOBODY;
byte last, before;		/* the exemplars that were stored last, 0: none */
bool old[THREADS + 1];		/* exemplars that were there before the reset */
bool was_reset;
byte ended;

/* src/counts/exemplar_store.c: checksum_of() */
#ifdef BUG_NO_RESETS
#define sum_of(n, resets) (n)
#else
#define sum_of(n, resets) ((n) + 8 * (resets))
#endif

/* The test: the thread may be killed here, or stopped, until it is scheduled again. */
inline step(me)
{
	if
	:: atomic { killed == NOBODY && stopped != me -> killed = me; goto over }
	:: atomic { stopped == NOBODY && killed == NOBODY -> stopped = me }
	:: true
	fi
}

/* src/counts/exemplar_store.c: is_claimed(). A claim is left after a second by a thread that was
 * stopped or killed. */
#define is_left (holder == stopped || holder == killed)

/* src/counts/exemplar_store.c: put_in_turn() */
inline put_word(me, c, i, n)
{
	if
#ifndef BUG_NO_LOOK
	:: !(claim && turn == mine && resets == epoch) -> goto lost
#endif
	:: else
	fi;
	step(me);
	copy[c].word[i] = n
}

/* src/counts/exemplar_store.c: store_in(), fill_copy(), end_turn() */
proctype store(byte me)
{
	byte mine, seen, sum;
	bit c, epoch;

	atomic { seen = turn; epoch = resets };
	step(me);
	atomic {
		if
		:: turn == seen && resets == epoch && (!claim || is_left) ->
			turn++;
			claim = true;
			holder = me;
			mine = turn;
			sum = sum_of(me + 1, resets);
#ifdef BUG_PARITY
			c = turn % 2
#else
			c = 1 - valid
#endif
		:: else -> goto over /* another thread stores */
		fi
	}
	put_word(me, c, 0, me + 1);
	put_word(me, c, 1, sum);
	step(me);
	atomic {
		if
#ifdef BUG_BLIND
		:: true ->
#else
		:: claim && turn == mine && resets == epoch ->
#endif
			valid = c;
			has = true;
			claim = false;
			holder = NOBODY;
			before = last;
			last = me + 1;
			goto over
		:: else
		fi
	}
lost:	step(me);
	/* end_turn() */
	atomic {
		if
#ifndef BUG_NO_END
		:: claim && turn == mine -> claim = false; holder = NOBODY
#endif
		:: else
		fi
	}
over:	ended++
}

/* src/counts/exemplar_store.c: reset_slot(), reset_state() */
proctype reset()
{
	step(RESETTER);
	atomic {
		resets++;
		has = false;
#ifdef BUG_RESET_ENDS
		claim = false;
		holder = NOBODY;
#endif
		old[last] = true;
		old[before] = true;
		last = 0;
		before = 0;
		was_reset = true
	}
over:	ended++
}

/* src/counts/exemplar_store.c: percpu_exemplars_fetch(), read_exemplar_copy(). The last one reads
 * when all others have ended. */
proctype fetch(bool is_last)
{
	byte a, sum, result;
	bit c, seen;
	bool clean;

	if
	:: is_last ->
		ended == THREADS;
		assert(!claim || stopped != NOBODY || killed != NOBODY)
	:: !is_last
	fi;
	atomic {
		clean = was_reset;
		if
		:: !has -> assert(!is_last || last == 0); goto over
		:: else
		fi;
		c = valid;
		seen = resets
	}
	a = copy[c].word[0];
	sum = copy[c].word[1];
	if
#ifdef BUG_NO_CHECK
	:: true -> result = a
#else
	:: a != 0 && sum == sum_of(a, seen) -> result = a
#endif
	:: else ->
		a = copy[1 - c].word[0];
		sum = copy[1 - c].word[1];
		if
		:: a != 0 && sum == sum_of(a, seen) -> result = a
		:: else
		fi
	fi;
	assert(!(clean && result != 0 && old[result])); /* from before a reset */
	if
	:: is_last ->
		assert(result == last || stopped != NOBODY);
		assert(result == last || result == before || result == killed + 1 ||
		       (result == 0 && killed != NOBODY))
	:: else
	fi;
over:	skip
}

init {
	atomic {
		run store(0);
		run store(1);
		run store(2);
		run reset();
		run fetch(false);
		run fetch(true)
	}
}
