/* SPDX-License-Identifier: MIT */
/*
 * ref.pml - the kill of a reference count (src/owners/ref.h, ref.c, ref_mode.c).
 *
 * Memory: other CPUs see later what a sequence commits, at the latest when its CPU is fenced or
 * exchanges a word. Numbers wrap, at 256 here.
 *
 * Holds: the release function is called once, by the thread that takes the count to 0, and no
 * thread has a reference then. No percpu_ref_tryget_live() succeeds once the kill has returned.
 * In the end nothing is left of the count.
 *
 * Bounds: two CPUs. Two users, each of which gets a reference and puts it, once, or one of them
 * twice (kill), on any CPU, with or without a sequence. One thread kills; or (switches) it makes
 * the count atomic and per CPU again before that. Its fences may fail, twice.
 * Not here: counts of more than one; revival; calls against the rules.
 *
 * Run kill: -DKILL
 * Run switches: -DSWITCHES
 * Bug BUG_NO_FENCE: the cells are summed without a fence
 * Bug BUG_NO_SPREAD: a put takes the word for the count while the cells count, too
 * Bug BUG_FOLD_TWICE: the word says that the cells do not count before it has their sum
 * Bug BUG_LIVE: a get by the word does not look whether the count was killed
 * Bug BUG_OPEN_EARLY in switches: sequences count before the word says so
 * Bug BUG_NO_ZERO in switches: the cells keep the sum that the word has taken over
 */
#define LARGEST 100 /* PERCPU_REF_MAX */

byte own[2], seen[2], bias; /* the cells, as their CPU sees them and as other CPUs do; and their
			       zero */
bool closed;		/* the cells have no address */
byte number;		/* the word's number; an exchange changes it with both bits at once */
bool spread, killed;
byte running[2];	/* the thread whose sequence is in progress */
byte references;	/* references that exist; at first the initial one */
byte released;
bool returned; /* the kill */
byte ended;

/* The kernel: commits become visible. */
active proctype memory()
{
end:
	do
	:: atomic { seen[0] != own[0] -> seen[0] = own[0] }
	:: atomic { seen[1] != own[1] -> seen[1] = own[1] }
	od
}

/* src/owners/ref.c: percpu_ref_put_counted() */
inline put_counted()
{
	atomic {
		seen[c] = own[c];
		if
#ifdef BUG_NO_SPREAD
		:: true ->
#else
		:: !spread ->
#endif
			assert(number > 0 && number <= LARGEST)
#ifndef BUG_NO_SPREAD
		:: else
#endif
		fi;
		number = number - 1;
		references--;
		if
#ifdef BUG_NO_SPREAD
		:: number == 0 ->
#else
		:: number == 0 && !spread ->
#endif
			assert(references == 0 && released == 0);
			released++
		:: else
		fi
	}
}

/* src/owners/ref.c: get_counted(), percpu_ref_tryget_live_slow() */
inline get_counted()
{
	atomic {
		seen[c] = own[c];
		if
#ifdef BUG_LIVE
		:: !(number == 0 && !spread) ->
#else
		:: !killed && !(number == 0 && !spread) ->
#endif
			assert(!returned);
			number = number + 1;
			references++;
			has = true
		:: else
		fi
	}
}

/* include/percpu/arch/spec.h: percpu_seq_add_at(), which finds the word closed or not */
inline add_at(self, n)
{
	atomic { /* arm, on any CPU; or the tries are used up */
		slow = false;
		if
		:: c = 0; running[c] = self
		:: c = 1; running[c] = self
		:: slow = true
		fi
	};
	if
	:: slow
	:: else ->
		atomic {
			if
			:: running[c] != self -> slow = true /* aborted: slow, as when the tries
								are used up */
			:: else ->
				if
				:: !closed
				:: else -> slow = true; running[c] = 0
				fi
			fi
		};
		if
		:: slow
		:: else ->
			atomic {
				if
				:: running[c] == self -> v = own[c] + n
				:: else -> slow = true
				fi
			};
			if
			:: slow
			:: else ->
				atomic {
					if
					:: running[c] == self ->
						own[c] = v;
						running[c] = 0;
						references = references + n;
						assert(n != 1 || !returned);
						has = (n == 1)
					:: else -> slow = true
					fi;
					v = 0
				}
			fi
		fi
	fi
}

/* include/percpu/ref.h: percpu_ref_tryget_live(), percpu_ref_put_many(), percpu_ref_count() */
proctype user(byte me; byte n)
{
	byte c, v;
	bool slow, has;

	do
	:: n > 0 ->
		add_at(me, 1);
		if
		:: slow -> get_counted()
		:: else
		fi;
		if
		:: !has -> break
		:: else
		fi;
		assert(released == 0);
		add_at(me, 255);
		/* src/owners/ref.c: percpu_ref_put_slow() */
		if
		:: slow -> put_counted()
		:: else
		fi;
		atomic { has = false; n-- }
	:: else -> break
	od;
	atomic { n = 0; c = 0; slow = false; ended++ }
}

/* src/cpu/barrier.c: percpu_barrier() */
inline fence_cpu(i)
{
	d_step { running[i] = 0; seen[i] = own[i] }
}

/* src/owners/ref_mode.c: close_cells(); failed says whether it has returned an error */
inline close_cells()
{
	failed = false;
	if
	:: !closed ->
		closed = true;
#ifndef BUG_NO_FENCE
		fence_cpu(0);
		if
		:: failures > 0 -> atomic { failures--; failed = true; closed = false }
		:: fence_cpu(1)
		fi
#endif
	:: else
	fi
}

/* src/owners/ref_mode.c: fold_cells() */
inline fold_cells(dead)
{
	sum = 0;
	if
	:: spread ->
		sum = seen[0];
		sum = sum + seen[1] - bias
	:: else
	fi;
#ifdef BUG_FOLD_TWICE
	spread = false;
	atomic { number = number + sum; killed = dead; sum = 0 }
#else
	atomic { number = number + sum; spread = false; killed = dead; sum = 0 }
#endif
}

/* src/owners/ref_mode.c: make_percpu(), prepare_cells(), open_cells() */
inline make_percpu()
{
	if
	:: spread
	:: else ->
#ifndef BUG_NO_ZERO
		bias = seen[0];
		bias = bias + seen[1];
#endif
#ifdef BUG_OPEN_EARLY
		closed = false;
		spread = true
#else
		spread = true;
		closed = false
#endif
	fi
}

/* src/owners/ref_mode.c: percpu_ref_kill(), make_dead(), percpu_ref_switch_to_atomic() */
proctype controller(byte failures)
{
	byte sum, c;
	bool failed;

#ifdef SWITCHES
	close_cells();
	if
	:: failed
	:: else -> fold_cells(false); make_percpu()
	fi;
#endif
	do
	:: close_cells();
		if
		:: failed
		:: else -> break
		fi
	od;
	fold_cells(true);
	put_counted();
	atomic { returned = true; ended++ }
}

init
{
	atomic {
		number = 1;
		spread = true;
		references = 1;
#ifdef SWITCHES
		run user(1, 1);
#else
		run user(1, 2);
#endif
		run user(2, 1);
		run controller(2)
	};
	ended == 3;
	assert(released == 1 && references == 0 && number == 0)
}
