/* SPDX-License-Identifier: MIT */
/*
 * banks.pml - snapshots of counters that belong together, by two banks (src/counts/stats_read.c).
 *
 * Memory: other CPUs see later what a CPU commits to a cell, each cell for itself and in any order,
 * at the latest when the CPU is fenced. For stores that is weaker than x86-64 and aarch64. A
 * sequence that is fenced, or preempted by another one of its CPU, is aborted. The words of the
 * control are exchanged by locked instructions, or stored with release and loaded with acquire: in
 * the order of the program.
 *
 * Holds: a snapshot is of one moment between its begin and its end, of all objects and CPUs. The
 * values that resets took are in no snapshot afterwards, and once in the results of the resets,
 * since the bias only grows. A reset of several objects is seen as a whole unless its reader was
 * killed in it.
 *
 * Bounds: two CPUs, two objects of one cell per bank. A writer adds to the first object on the one
 * CPU, and then to the second on the other; another one adds to the first object there. Two
 * readers with one try each (pair); or one with three (again); or one that resets, and is killed at
 * any step while it has the lock, beside one that reads and the first writer (reset). Fences fail
 * anywhere. The number of changes of a bank does not wrap. A process that is killed elsewhere is
 * one that does not go on, which the model includes.
 * Not here: atomic lanes, of which no snapshot is of one moment; records in two copies
 * (tests/litmus, turn.litmus); the journal, which is journal.pml; turns, which save time only.
 *
 * Run pair: -DPAIR
 * Run again: -DAGAIN
 * Run reset: -DRESET
 * Bug BUG_NO_FENCE: no fence after the switch
 * Bug BUG_NO_DRAIN: a fence aborts sequences, but earlier commits stay invisible
 * Bug BUG_FENCED_EARLY in pair: the number of the fenced bank is stored before the fence
 * Bug BUG_NO_REDO: a reader that finds the fence missing does not fence
 * Bug BUG_LATE_REST: the bank at rest is summed after it has become the bank in use
 * Bug BUG_NO_LOOK: a reader does not look whether another one has switched meanwhile
 * Bug BUG_NO_RESETS in reset: a reader does not look whether another one resets
 */
#define CPUS 2
#define CELL(cpu, b, o) ((cpu) * 4 + (b) * 2 + (o))
#define LOW(x) ((x) & 3) /* what the first writer has added */
#define HIGH(x) ((x) >> 2)

byte bank, fenced;	/* number of changes; the last change that was fenced; bit 0: the bank */
byte resets, bias[2];	/* struct percpu_stats_control, and the bias lane */
byte cell[8], own[8];	/* as other CPUs see them, and as their own CPU does */
byte running[CPUS];	/* the writer whose sequence is in progress there, from 1 on */
byte holder;		/* of the journal's lock, from 1 on */
byte done[2];		/* the sum of all adds */
bool half;		/* a reader was killed in a reset */
bool dead[2];
byte ended;

/* The kernel: commits become visible. The end label lets the loop stay here at the end. */
active proctype memory()
{
	byte i;

end:
	do
	:: atomic { cell[0] != own[0] -> cell[0] = own[0] }
	:: atomic { cell[1] != own[1] -> cell[1] = own[1] }
	:: atomic { cell[2] != own[2] -> cell[2] = own[2] }
	:: atomic { cell[3] != own[3] -> cell[3] = own[3] }
	:: atomic { cell[4] != own[4] -> cell[4] = own[4] }
	:: atomic { cell[5] != own[5] -> cell[5] = own[5] }
	:: atomic { cell[6] != own[6] -> cell[6] = own[6] }
	:: atomic { cell[7] != own[7] -> cell[7] = own[7] }
	od
}

/* include/percpu/arch/spec.h: percpu_seq_bank_add() */
inline bank_add(me, o, n)
{
	d_step { cpu = (me + o + 1) & 1; running[cpu] = me }; /* arm; abort any other sequence there */
	atomic {
		if
		:: running[cpu] == me -> b = bank & 1
		:: else -> goto again
		fi
	};
	atomic {
		if
		:: running[cpu] == me -> v = own[CELL(cpu, b, o)] + n
		:: else -> b = 0; goto again
		fi
	};
	atomic { /* commit */
		if
		:: running[cpu] == me ->
			own[CELL(cpu, b, o)] = v;
			done[o] = done[o] + n;
			running[cpu] = 0;
			b = 0;
			v = 0;
			cpu = 0
		:: else -> b = 0; v = 0; goto again
		fi
	}
}

/* src/counts/stats.c: add_by_sequence() */
proctype writer(byte me; byte n; byte last)
{
	byte cpu, b, v, o;

again:
	do
	:: o < last -> bank_add(me, o, n); o++
	:: else -> break
	od;
	o = 0
}

/* src/cpu/visit.c: percpu_visit(); one CPU after the other */
inline fence_cpu(c)
{
	d_step {
		running[c] = 0;
#ifndef BUG_NO_DRAIN
		cell[CELL(c, 0, 0)] = own[CELL(c, 0, 0)];
		cell[CELL(c, 0, 1)] = own[CELL(c, 0, 1)];
		cell[CELL(c, 1, 0)] = own[CELL(c, 1, 0)];
		cell[CELL(c, 1, 1)] = own[CELL(c, 1, 1)];
#endif
	}
}

/* src/counts/stats_read.c: fence_bank() */
inline fence_bank(n)
{
#ifdef BUG_FENCED_EARLY
	fenced = n;
#endif
#ifndef BUG_NO_FENCE
	if
	:: fence_cpu(0)
	:: goto next_try /* -ETIMEDOUT */
	fi;
	if
	:: fence_cpu(1)
	:: goto next_try
	fi;
#endif
	fenced = n
}

/* src/counts/stats_read.c: add_bank() */
inline add_bank(b)
{
	sum[0] = sum[0] + cell[CELL(0, b, 0)];
	sum[0] = sum[0] + cell[CELL(1, b, 0)];
	sum[1] = sum[1] + cell[CELL(0, b, 1)];
	sum[1] = sum[1] + cell[CELL(1, b, 1)]
}

/* src/memory/journal.c: percpu_journal_lock() */
inline lock_journal()
{
	atomic { holder == 0 -> holder = me + 1 }
}

/* src/cpu/lock.c: percpu_robust_unlock() */
inline unlock_journal()
{
	holder = 0
}

/* src/counts/stats_read.c: subtract_resets(), subtract_bias() */
inline subtract_resets()
{
	r = resets;
#ifndef BUG_NO_RESETS
	if
	:: r & 1 ->
		lock_journal();
		d_step { resets = resets + (resets & 1); r = resets };
		unlock_journal()
	:: else
	fi;
#endif
	less[0] = bias[0];
	less[1] = bias[1];
#ifndef BUG_NO_RESETS
	if
	:: resets != r -> goto next_try /* -EAGAIN */
	:: else
	fi
#endif
}

/* src/memory/journal.c: percpu_journal_add(); adds what the reset returns, for each writer */
inline set_bias(o)
{
	d_step {
		assert(LOW(sum[o]) >= LOW(bias[o]) && HIGH(sum[o]) >= HIGH(bias[o]));
		bias[o] = sum[o]
	}
}

/* src/counts/stats_read.c: reset(), move_to_bias() */
inline reset()
{
	lock_journal();
	if
	:: bank == next ->
		resets = resets | 1;
		inside = true;
		set_bias(0);
		set_bias(1);
		inside = false;
		resets = resets + 1
	:: else
	fi;
	unlock_journal()
}

/* The test: a sum is of one moment, and that moment has existed. */
inline check_moment(x, y)
{
	assert(LOW(x) - LOW(y) <= 1 && LOW(x) >= LOW(y));
	assert(HIGH(x) - HIGH(y) <= 1 && HIGH(x) >= HIGH(y))
}

/* The test: check a snapshot that has succeeded. */
inline check_snapshot()
{
	d_step {
		assert(LOW(sum[0]) >= LOW(least[0]) && HIGH(sum[0]) >= HIGH(least[0]));
		assert(LOW(sum[1]) >= LOW(least[1]) && HIGH(sum[1]) >= HIGH(least[1]));
		assert(LOW(sum[0]) <= LOW(done[0]) && HIGH(sum[0]) <= HIGH(done[0]));
		assert(LOW(sum[1]) <= LOW(done[1]) && HIGH(sum[1]) <= HIGH(done[1]));
		check_moment(sum[0], sum[1]);
		assert(LOW(less[0]) <= LOW(sum[0]) && HIGH(less[0]) <= HIGH(sum[0]));
		assert(LOW(less[1]) <= LOW(sum[1]) && HIGH(less[1]) <= HIGH(sum[1]));
		if
		:: half
		:: else -> check_moment(less[0], less[1])
		fi
	}
}

/* src/counts/stats_read.c: take() */
proctype reader(byte me; byte tries; bool zero)
{
	byte b, next, r, sum[2], less[2], least[2];
	bool inside;

	{ do
	:: tries > 0 ->
		d_step { least[0] = done[0]; least[1] = done[1] };
		b = bank;
		if
		:: fenced != b ->
#ifndef BUG_NO_REDO
			fence_bank(b)
#endif
		:: else
		fi;
#ifndef BUG_LATE_REST
		add_bank(1 - (b & 1));
#endif
		next = b + 1;
		atomic {
			if
			:: bank == b -> bank = next
			:: else -> goto next_try /* -EAGAIN */
			fi
		};
		fence_bank(next);
		add_bank(b & 1);
#ifdef BUG_LATE_REST
		add_bank(1 - (b & 1));
#endif
		if
		:: zero -> reset()
		:: else ->
			subtract_resets();
			if
#ifdef BUG_NO_LOOK
			:: true ->
#else
			:: bank == next ->
#endif
				check_snapshot()
			:: else
			fi
		fi;
next_try:
		atomic {
			b = 0; next = 0; r = 0; tries--;
			sum[0] = 0; sum[1] = 0; less[0] = 0; less[1] = 0; least[0] = 0; least[1] = 0
		}
	:: else -> break
	od } unless { dead[me] };
	atomic { /* the kernel frees its lock; the next process to take the lock completes the
		    journal */
		if
		:: holder == me + 1 -> holder = 0
		:: else
		fi;
		half = half || inside;
		b = 0; next = 0; r = 0; tries = 0; inside = false;
		sum[0] = 0; sum[1] = 0; less[0] = 0; less[1] = 0; least[0] = 0; least[1] = 0;
		ended++
	}
}

/* The kernel: it may kill a reader that has the lock. */
proctype killer()
{
	if
	:: holder == 2 -> dead[1] = true
	:: true
	fi
}

init
{
	atomic {
		run writer(1, 1, 2);
#ifndef RESET
		run writer(2, 4, 1);
#endif
#ifdef AGAIN
		run reader(0, 3, false);
		ended++
#else
		run reader(0, 1, false);
#ifdef RESET
		run reader(1, 1, true);
		run killer()
#else
		run reader(1, 1, false)
#endif
#endif
	};
	ended == 2;
	assert(LOW(bias[0]) <= LOW(done[0]) && HIGH(bias[0]) <= HIGH(done[0]));
	assert(LOW(bias[1]) <= LOW(done[1]) && HIGH(bias[1]) <= HIGH(done[1]))
}
