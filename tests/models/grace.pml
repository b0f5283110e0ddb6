/* SPDX-License-Identifier: MIT */
/*
 * grace.pml - grace periods (src/owners/grace.h, grace_wait.c, participant.c).
 *
 * Memory: other CPUs see later what a sequence commits, at the latest when its CPU is fenced or
 * executes a locked instruction.
 *
 * Holds: no section after a wait uses an object that was replaced before it. No living thread waits
 * for ever. Without deaths and failing fences each change that a thread waits for wakes it.
 *
 * Bounds: two CPUs and two atomic lanes. A reader, whose sections begin on the one and end on the
 * other, by sequences or without. A process that replaces the object, and waits for a grace period,
 * beside two sections (one), which are killed at any step (dies); or two such processes, beside one
 * section (two). A period may be in progress before. A fence may fail, once, except in "two".
 * A process that is killed in a wait is one that does not go on: it holds nothing.
 * Not here: the choice between several fences (all do); periods that are polled; callbacks; more
 * ends of sections than begins; owners' slots that are taken again.
 *
 * Run one: -DONE -DSECTIONS=2
 * Run two: -DTWO -DSECTIONS=1
 * Run dies: -DDIES -DSECTIONS=2
 * Quick: one
 * Bug BUG_NO_FENCE: a period is not fenced
 * Bug BUG_FENCED_EARLY in two: the number of the fenced period is stored before the fence
 * Bug BUG_BANK_LATE: a section counts in the bank that was in use before
 * Bug BUG_LOOK_FIRST in two: a reader without sequences looks at the state and then counts itself
 * Bug BUG_COOKIE: a wait that begins in a period ends with it
 * Bug BUG_NOT_DROPPED in dies: the counts of a dead reader are not dropped
 * Bug BUG_NO_WAKE in one: a reader that ends a section does not wake a waiting process
 */
#define BANK(s) (((s) / 2) % 2)
#define AWAITS(s, b) ((s) % 2 == 0 && BANK(s) != (b))
#define MAX 3 /* the most objects: those that are replaced, and their replacements */

byte state, fenced;
byte own[4], seen[4];	/* the reader's cells of CPUs, 2 * CPU + bank: as the CPU sees them, and
			   as other CPUs do */
byte cell[4];		/* the reader's cells in atomic lanes */
byte left[2];		/* the part of the cells that does not count */
bool running[2];	/* its sequence is in progress */
bool same[4];		/* the futex word has the value that this process has loaded */
byte waiters;
bool dead[4];
byte current, next;	/* the object that sections use; the next one */
bool freed[MAX];
bool failing;		/* a fence has failed, or none may */

/* The kernel: commits become visible. */
active proctype memory()
{
end:
	do
	:: atomic { seen[0] != own[0] -> seen[0] = own[0] }
	:: atomic { seen[1] != own[1] -> seen[1] = own[1] }
	:: atomic { seen[2] != own[2] -> seen[2] = own[2] }
	:: atomic { seen[3] != own[3] -> seen[3] = own[3] }
	od
}

/* The kernel: an instruction that makes all stores of the CPU visible. */
inline drain_stores()
{
	seen[0] = own[0];
	seen[1] = own[1];
	seen[2] = own[2];
	seen[3] = own[3]
}

/* src/owners/participant.c: percpu_participants_wake() */
inline wake()
{
	d_step { same[2] = false; same[3] = false }
}

/* include/percpu/arch/spec.h: percpu_seq_narrow_add_if(); its tries may be used up */
inline add_if(expected, cpu, k)
{
	atomic {
		done = false;
		if
#ifdef BUG_BANK_LATE
		:: c = cpu; running[cpu] = true
#else
		:: state == expected -> c = cpu; running[cpu] = true
#endif
		:: c = 2
		fi
	};
	if
	:: c < 2 ->
		atomic {
			if
			:: running[c] -> own[2 * c + b] = own[2 * c + b] + k; running[c] = false; done = true
			:: else
			fi;
			c = 0
		}
	:: else -> c = 0
	fi
}

/* src/owners/grace.c: percpu_grace_enter_slow() include/percpu/grace.h: percpu_grace_enter()
 * src/owners/participant.c: percpu_participants_enter() */
inline enter()
{
	do
	:: atomic { s = state; b = BANK(s) };
		add_if(s, 0, 1);
		if
		:: done -> break
		:: else
		fi;
#ifdef BUG_LOOK_FIRST
		if
		:: state == s -> done = true
		:: else
		fi;
#endif
		atomic {
			cell[b] = cell[b] + 1;
			drain_stores()
		};
#ifdef BUG_LOOK_FIRST
		if
		:: done -> break
		:: else
		fi;
#else
		if
		:: state == s -> break
		:: else
		fi;
#endif
		cell[b] = cell[b] - 1;
		wake()
	od;
	atomic { s = 0; done = false }
}

/* include/percpu/grace.h: percpu_grace_exit(), percpu_grace_at()
 * src/owners/grace.c: percpu_grace_exit_slow(), is_grace_awaited()
 * src/owners/participant.c: percpu_participants_leave() */
inline exit()
{
	s = state;
	if
	:: AWAITS(s, b)
	:: else -> add_if(s, 1, 255)
	fi;
	if
	:: done
	:: else ->
		s = state;
		atomic {
			cell[2 + b] = cell[2 + b] - 1;
			drain_stores()
		};
#ifndef BUG_NO_WAKE
		if
		:: AWAITS(s, b) || state != s -> wake()
		:: else
		fi
#endif
	fi;
	d_step { s = 0; b = 0; done = false }
}

/* The test: sections. */
proctype reader()
{
	byte s, b, c, at, n;
	bool done;

	{
		do
		:: n < SECTIONS ->
			enter();
			at = current;
			atomic { assert(!freed[at]); at = 0 };
			exit();
			n++
		:: else -> break
		od
	} unless { dead[1] };
	atomic { s = 0; b = 0; c = 0; at = 0; n = 0; done = false }
}

/* src/cpu/visit.c: percpu_visit() */
inline fence_cpu(i)
{
	d_step { running[i] = false; seen[2 * i] = own[2 * i]; seen[2 * i + 1] = own[2 * i + 1] }
}

/* src/owners/grace_wait.c: tell_grace_waiters() */
inline tell()
{
	if
	:: waiters != 0 -> wake()
	:: else
	fi
}

/* src/owners/grace_wait.c: fence_period(), note_fence() */
inline fence_period()
{
	if
	:: fenced == s
	:: else ->
#ifdef BUG_FENCED_EARLY
		fenced = s;
#endif
#ifndef BUG_NO_FENCE
		fence_cpu(0);
		if
		:: fence_cpu(1)
		:: !failing -> failing = true; goto out
		fi;
#endif
		d_step { fenced = (fenced < s -> s : fenced) };
		tell()
	fi
}

/* src/owners/participant_join.c: percpu_participants_drop_dead(), drop_slot() */
inline drop_dead()
{
#ifndef BUG_NOT_DROPPED
	atomic {
		left[0] = seen[0] + seen[2] + cell[0] + cell[2];
		left[1] = seen[1] + seen[3] + cell[1] + cell[3]
	}
#else
	skip
#endif
}

/* src/owners/grace_wait.c: end_period(), count_sections()
 * src/owners/participant.c: percpu_participants_sum_cells() */
inline count_sections()
{
	atomic { b = 1 - BANK(s); n = seen[b] - left[b] };
	n = n + seen[2 + b];
	n = n + cell[b];
	atomic { n = n + cell[2 + b]; b = 0 }
}

/* src/owners/grace_wait.c: help_period(), advance_period(), percpu_grace_await(),
 * sleep_for_news() */
inline wait(me)
{
	atomic { waiters++; waits = true };
	do
	:: same[me] = true;
		s = state;
		if
		:: s >= cookie -> break
		:: s < cookie && s % 2 == 1 ->
			atomic {
				if
				:: state == s -> state = s + 1
				:: else
				fi
			}
		:: else ->
			fence_period();
			count_sections();
			if
			:: n == 0 ->
				atomic {
					if
					:: state == s -> state = s + 1; n = 1
					:: else
					fi
				};
				if
				:: n == 1 -> tell()
				:: else
				fi
			:: n != 0 && dead[1] && !asked -> asked = true; drop_dead()
			:: else -> n = 0; (!same[me] || (dead[1] && !asked)) /* once is enough */
			fi
		fi;
		atomic { n = 0; s = 0 }
	od;
	atomic { over = true; same[me] = false; s = 0; waiters--; waits = false }
}

/* src/owners/grace_wait.c: percpu_grace_wait_timed(), percpu_grace_next(), percpu_grace_start() */
proctype writer(byte me)
{
	byte s, b, n, cookie, old;
	bool over, waits, asked;

	{
		atomic { old = current; current = next; next++ };
#ifdef BUG_COOKIE
		atomic { cookie = state + (state % 2 == 0 -> 1 : 2) };
#else
		cookie = (state + 2) | 1;
#endif
		wait(me);
out:
		if
		:: over -> freed[old] = true
		:: else /* the fence has failed */
		fi
	} unless { dead[me] };
	atomic {
		waiters = waiters - (waits && !dead[me] -> 1 : 0);
		s = 0; b = 0; n = 0; cookie = 0; old = 0; over = false; waits = false; asked = false; same[me] = false
	}
}

/* The kernel: it may kill a process anywhere. Its commits stay. */
proctype killer(byte me)
{
	if
	:: d_step {
			dead[me] = true;
			if
			:: me == 1 -> drain_stores()
			:: else
			fi
		}
	:: true
	fi
}

init
{
	atomic {
		next = 1;
		if
		:: state = 0
		:: state = 1
		fi;
		run reader();
#ifdef TWO
		failing = true;
		run writer(2);
#endif
		run writer(3);
#ifdef DIES
		run killer(1)
#endif
	}
}
