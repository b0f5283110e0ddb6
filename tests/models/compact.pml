/* SPDX-License-Identifier: MIT */
/*
 * compact.pml - windows and checkpoints of compact counters (src/counts/compact.c).
 *
 * In small: cells of 5 bits, windows of 2, checkpoints rounded to multiples of 4. That just meets
 * the rule there: 2 (N + 1) X and the rounding stay below half of the range of a cell, 16.
 *
 * Memory is Promela's, in which stores are seen at once and in order. What CPUs reorder is in
 * tests/litmus: checkpoint.litmus, checkpoint-sum.litmus and window.litmus.
 *
 * Holds: a fetch returns what was counted at a moment between its begin and its end.
 *
 * Bounds: two CPUs with a thread each (two), or one with two threads (one); up to 17 adds of 1 in
 * all, more than the range that a checkpoint serves; one fetch, which begins early. A killed
 * process is one that does not go on.
 * Not here: that numbers of checkpoints repeat; adds of X and more, atomic lanes, resets; adds
 * that go down.
 *
 * Run two: -DCPUS=2
 * Run one: -DCPUS=1
 * Bug BUG_NO_WINDOW: an add is not refused at the end of its window
 * Bug BUG_OTHERS in one: a thread crosses by a checkpoint that it has not made
 * Bug BUG_NO_LOOK: a fetch does not look at the checkpoint again
 * Bug BUG_WIDE: windows are as wide as a cell
 */
#ifdef BUG_WIDE
#define X 32
#else
#define X 2
#endif
#define FIRST 20 /* so that sums and a cell wrap */
#define MAX (FIRST + 17)
#define RANGE 32
#define WINDOW(v) (((v) + X / 2) / X)

byte cell[2];		/* they wrap */
byte since;		/* the checkpoint */
bool same[3];		/* since has the number, in its lower bits, that the thread loaded */
byte total;		/* the sum of all adds */
byte running[2];	/* whose sequence is in progress */

/* src/counts/compact.c: whole() */
inline whole(from, cells, result)
{
	result = (RANGE + cells - from % RANGE) % RANGE;
	if
	:: result < RANGE / 2 -> result = from + result
	:: else -> result = from + result - RANGE /* only with a bug: all adds go up */
	fi
}

/* src/counts/compact.c: sum_cells() */
inline sum_cells(cells)
{
	cells = cell[0];
	cells = (cells + cell[1]) % RANGE
}

/* include/percpu/arch/spec.h: percpu_seq_narrow_add() */
inline narrow_add(self, c)
{
	atomic { running[c] = self; v = cell[c] }; /* arm, and load */
	atomic {
		if
		:: running[c] != self -> v = 0; goto again
#ifndef BUG_NO_WINDOW
		:: running[c] == self && WINDOW(v) != WINDOW(v + 1) -> refused = true
		:: running[c] == self && WINDOW(v) == WINDOW(v + 1) ->
#else
		:: else ->
#endif
			cell[c] = (v + 1) % RANGE;
			total++
		fi;
		running[c] = 0;
		v = 0
	}
}

/* src/counts/compact.c: make_checkpoint() */
inline make_checkpoint(self, c)
{
	same[self] = true;
	sum_cells(v);
#ifdef BUG_OTHERS
	v = 0;
	made = true
#else
	atomic { /* the exchange makes the CPU's stores visible */
		if
		:: same[self] ->
			whole(since, v, s);
			assert(s <= total && total - s < RANGE / 2);
			since = s & 252;
			same[0] = false;
			same[1] = false;
			same[2] = false;
			same[self] = true;
			made = true
		:: else -> made = false
		fi;
		v = 0;
		s = 0
	}
#endif
}

/* include/percpu/arch/spec.h: percpu_seq_narrow_add_if() */
inline narrow_add_if(self, c)
{
	atomic { /* arm, and look at the checkpoint */
		if
		:: same[self] -> running[c] = self
		:: else -> goto again
		fi
	};
	atomic { /* commit: no other thread stores to the cell meanwhile */
		same[self] = false;
		if
		:: running[c] == self ->
			cell[c] = (cell[c] + 1) % RANGE;
			total++;
			running[c] = 0
		:: else
		fi
	}
}

/* src/counts/compact.c: try_add(), percpu_compact_add_slow() */
proctype thread(byte me; byte cpu)
{
	byte v, s;
	bool refused, made;

again:
	do
	:: total < MAX ->
		narrow_add(me, cpu);
		if
		:: refused ->
			make_checkpoint(me, cpu);
			if
			:: made -> made = false; narrow_add_if(me, cpu)
			:: else -> same[me] = false
			fi
		:: else
		fi
	:: else -> break
	od
}

/* src/counts/compact.c: narrow_total(), percpu_compact_fetch() */
proctype fetch()
{
	byte least, s, sum, sum2;

	atomic {
		if
		:: total < FIRST + 2 -> least = total /* windows and checkpoints repeat */
		:: else -> goto out
		fi
	};
	do
	:: atomic { s = since; same[0] = true };
		sum_cells(sum);
		if
#ifdef BUG_NO_LOOK
		:: true ->
#else
		:: same[0] ->
#endif
			break
		:: else
		fi
	od;
	atomic {
		whole(s, sum, sum2);
		assert(sum2 >= least && sum2 <= total);
		same[0] = false
	};
out:
	skip
}

init
{
	atomic {
		cell[0] = FIRST;
		since = FIRST;
		total = FIRST;
		run thread(1, 0);
		run thread(2, CPUS - 1);
		run fetch()
	}
}
