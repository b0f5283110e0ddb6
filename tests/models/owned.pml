/* SPDX-License-Identifier: MIT */
/*
 * owned.pml - the values that owners leave in an owned gauge that is a sum (src/owners/owned.c).
 *
 * All stores of accounts and turns are releases and all loads acquires. So the model has Promela's
 * memory, in which stores are seen at once and in order.
 *
 * Holds: a fetch of all has each update that was done before it, of the living and the dead, once,
 * and none that is done after it. A fetch of the living has no update of a process that had ended
 * before, and all updates of a process that lives, with those of the dead ones whose values it has
 * resumed.
 *
 * Bounds: three processes that have the slot one after the other. Each takes it when the process
 * before was killed, at any step, or has ended. The first one has updated once and ended. Each
 * thread of the other two updates once, and the second process has two threads; or (living) the
 * second process has two threads that update twice. One fetch. With RESUME, each of the two may
 * resume the values of the process before, by its name; and in `resumed`, the second process has one
 * thread.
 * Not here: how a slot is taken; several slots, which are added up; leaving without ending; gauges
 * of values with their times.
 *
 * Run all: -DALL
 * Run living: -DLIVING
 * Run resumed_all: -DALL -DRESUME
 * Run resumed: -DLIVING -DRESUME
 * Bug BUG_TURN_FIRST: turn is stored before the account is filled in
 * Bug BUG_IN_PLACE: the account that is valid is filled in again
 * Bug BUG_NO_FOLD: the last owner's value is not folded
 * Bug BUG_NO_LOCK: a thread that fills in an account does not look whether turn has changed
 * Bug BUG_MADE_TWICE in living: a thread takes another thread's account for that of a dead owner
 * Bug BUG_NO_LOOK: a fetch does not look at turn again
 * Bug BUG_NOT_ASKED in living: a fetch of the living takes the slot's owner for the account's
 * Bug BUG_MAKER_ALONE in resumed: a fetch of the living knows no other owner of an account than the
 *	one that has made it
 * Bug BUG_ANEW in resumed: a thread makes an account although its process has resumed one
 * Bug BUG_ANY_BEFORE in resumed: a process uses an account that it has not resumed
 */
byte turn;		/* twice the owner that filled in the valid account, plus the number of
			   that account */
byte value[2], left[2]; /* struct percpu_owned_account */
byte slot;		/* the slot's owner */
byte first[4];		/* of each owner: the first one of those whose values it has */
bool dead[4];
byte threads[4];	/* of the process that have not ended */
bool lock[4];		/* the process lock */
byte added;		/* the number of updates done */
#ifdef LIVING
byte by[4];		/* their number by process */
#define DONE_BY(id) by[id]++
#else
#define DONE_BY(id) skip
#endif

/* src/owners/owned_update.c: percpu_owned_is_turn_of(); src/owners/owners.h: percpu_owner_has_those_of() */
#define has_those_of(id, of) (of >= first[id] && of <= id)
#ifdef BUG_ANEW
#define is_turn_of(id, t) (t / 2 == id)
#elif defined(BUG_ANY_BEFORE)
#define is_turn_of(id, t) (t != 0)
#else
#define is_turn_of(id, t) (t != 0 && has_those_of(id, t / 2))
#endif

/* src/owners/owned.c: percpu_owned_load() */
inline load_account(t, v, l)
{
	do
	:: t = turn;
		if
		:: t == 0 -> v = 0; l = 0; break
		:: else
		fi;
		v = value[t & 1];
		l = left[t & 1];
		if
#ifdef BUG_NO_LOOK
		:: true -> break
#else
		:: turn == t -> break
#endif
		:: else
		fi
	od
}

/* src/owners/owned_update.c: fill_in_account() */
inline fill_in(i)
{
	value[i] = 1; /* the first update */
	left[i] = l
}

/* src/owners/owned_update.c: turn_over() */
inline turn_over(id)
{
	atomic { !lock[id] -> lock[id] = true };
	if
#ifdef BUG_NO_LOCK
	:: true ->
#else
	:: turn == t ->
#endif
#ifdef BUG_IN_PLACE
		i = t & 1;
#else
		i = 1 - (t & 1);
#endif
#ifdef BUG_TURN_FIRST
		atomic { turn = 2 * id + i; added++; DONE_BY(id); done++ };
		fill_in(i)
#else
		fill_in(i);
		atomic { turn = 2 * id + i; added++; DONE_BY(id); done++ }
#endif
	:: else
	fi;
	lock[id] = false
}

/* src/owners/owned_update.c: find_account(), make_account(), begin_account() */
proctype thread(byte id; byte updates)
{
	byte t, v, l, i, done;

	{
		do
		:: done < updates ->
			t = turn;
			if
			:: is_turn_of(id, t) ->
				/* src/owners/owned_update.c: percpu_owned_gauge_add_slow() */
				atomic { value[t & 1]++; added++; DONE_BY(id); done++ }
			:: else ->
				load_account(t, v, l);
				if
#ifndef BUG_MADE_TWICE
				:: is_turn_of(id, t)
#endif
				:: else ->
					/* src/owners/owned.c: percpu_owned_fold() */
#ifndef BUG_NO_FOLD
					l = l + v;
#endif
					turn_over(id)
				fi
			fi;
			d_step { t = 0; v = 0; l = 0; i = 0 }
		:: else -> break
		od
	} unless { dead[id] };
	atomic {
		t = 0; v = 0; l = 0; i = 0; done = 0;
		threads[id]--;
		if
		:: threads[id] == 0 -> dead[id] = true
		:: else
		fi
	}
}

/* src/owners/owner_slot.c: take_slot(), become_owner() */
proctype process(byte id; byte n; byte updates)
{
	atomic {
		slot == id - 1 && dead[id - 1] -> slot = id;
		first[id] = id;
#ifdef RESUME
		if
		:: first[id] = first[id - 1]
		:: true
		fi;
#endif
		threads[id] = n;
		run thread(id, updates);
		if
		:: n == 2 -> run thread(id, updates)
		:: else
		fi;
		n = 0;
		updates = 0
	}
}

/* The kernel: it may kill a process anywhere. */
proctype killer(byte id)
{
	if
	:: slot == id -> dead[id] = true
	:: true
	fi
}

#ifndef LIVING
/* src/owners/owned_read.c: fold_all(), load_owned_share() */
proctype fetch_all()
{
	byte least, t, v, l;

	least = added;
	load_account(t, v, l);
	assert(v + l >= least && v + l <= added)
}
#else
/* src/owners/owned_read.c: fold_all(), look_at_owner(), load_owned_share() */
proctype fetch_living()
{
	byte t, v, l, had, who, now;
	bool was_dead[4], alive;

	atomic {
		was_dead[1] = dead[1];
		was_dead[2] = dead[2];
		was_dead[3] = dead[3];
		who = slot;
		had = (dead[slot] -> 0 : by[slot] + (first[slot] < slot -> by[slot - 1] : 0) +
						 (first[slot] + 1 < slot -> by[slot - 2] : 0))
	};
	load_account(t, v, l);
	atomic {
		now = slot;
#ifdef BUG_NOT_ASKED
		alive = !dead[slot];
#elif defined(BUG_MAKER_ALONE)
		alive = (slot == t / 2 && !dead[slot]);
#else
		alive = (has_those_of(slot, t / 2) && !dead[slot]);
#endif
	};
	atomic {
		assert(!alive || !was_dead[now]);
		assert(alive || had == 0 || dead[who]);
		assert(!alive || who != now || v >= had);
		assert(!alive || v <= by[now] + (first[now] < now -> by[now - 1] : 0) +
					 (first[now] + 1 < now -> by[now - 2] : 0))
	}
}
#endif

init
{
	atomic {
		slot = 1;
		dead[1] = true;
		turn = 2 * 1 + 1;
		value[1] = 1;
		added = 1;
		first[1] = 1;
		DONE_BY(1);
		run process(3, 1, 1);
		run killer(2);
#ifdef LIVING
#ifdef RESUME
		run process(2, 1, 2);
#else
		run process(2, 2, 2);
#endif
		run killer(3);
		run fetch_living()
#else
		run process(2, 2, 1);
		run fetch_all()
#endif
	}
}
