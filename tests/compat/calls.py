#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Call each inline function by its exported name, as a binding does.

    calls.py SOURCE WORK

It reads from the headers which functions are inline. One without an exported name, or that is not
called here, is a failure. The library is built to be linked, and to be loaded late. Prints TAP.
"""

import ctypes as c
import errno
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Parts of other inline functions.
INTERNAL = {"percpu_counter_array_commit", "percpu_stats_words2", "percpu_wbuf_append"}
INTERNAL |= {"percpu_extrema_observe_as", "percpu_extrema_order"}
INTERNAL |= {"percpu_histogram_bits", "percpu_histogram_cell", "percpu_histogram_index"}
INTERNAL |= {"percpu_histogram_own_index"}
INTERNAL |= {"percpu_approx_highest", "percpu_approx_try", "percpu_ref_count"}
INTERNAL |= {"percpu_wbuf_entry_of", "percpu_wbuf_is_valid", "percpu_wbuf_marked"}
INTERNAL |= {"percpu_wbuf_words"}
INTERNAL |= {"percpu_critical_self", "percpu_critical_thread", "percpu_section_copy"}
INTERNAL |= {
    "percpu_rwlock_try",
    "percpu_grace_at",
    "percpu_grace_try",
    "percpu_participant_cell",
}

i64, u64, size, ptr = c.c_int64, c.c_uint64, c.c_size_t, c.c_void_p


class Entry(c.Structure):
    """struct percpu_wbuf_entry."""

    _fields_ = (("cell", c.c_size_t), ("n", u64))


def inline_functions(source):
    """Return the names of the headers' public inline functions."""
    names = set()
    for path in (source / "include/percpu").glob("*.h"):
        pattern = r"^PERCPU_INLINE [^(]*?\b(percpu_\w+)\("
        names |= set(re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))
    # Functions that fill in a declaration: a binding fills in the struct itself.
    return {
        n
        for n in names - INTERNAL
        if not n.startswith(("percpu_declare_", "percpu_declaration_of"))
    }


class Library:
    """The library, and which of its functions were called."""

    def __init__(self, path):
        self.so = c.CDLL(str(path))
        self.called = set()

    def make(self, name, *args):
        """Call a function that creates an object; return the object."""
        made = ptr()
        self.same(getattr(self.so, name)(*args, c.byref(made)), 0, name)
        return made

    def call(self, name, *args, result=c.c_int):
        """Call an inline function by its exported name."""
        self.called.add(name)
        function = getattr(self.so, f"{name}_call")
        function.restype = result
        return function(*args)

    def value(self, name, *args):
        """Return the result of a function, of 64 bits."""
        function = getattr(self.so, name)
        function.restype = u64
        return function(*args)

    @staticmethod
    def same(got, expected, what):
        """Assert that both are equal."""
        assert got == expected, f"{what}: {got} instead of {expected}"


def counters(lib):
    """Single counters, static ones, arrays, compact sets."""
    counter = lib.make("percpu_counter_create")
    lib.call("percpu_counter_add", counter, i64(41), result=None)
    lib.call("percpu_counter_inc", counter, result=None)
    lib.call("percpu_counter_inc", counter, result=None)
    lib.call("percpu_counter_dec", counter, result=None)
    lib.same(lib.value("percpu_counter_fetch", counter), 42, "counter")
    static = (u64 * 2)()
    lib.call("percpu_static_counter_add", static, i64(7), result=None)
    lib.same(lib.value("percpu_static_counter_fetch", static), 7, "static counter")
    array = lib.make("percpu_counter_array_create", size(16))
    lib.call("percpu_counter_array_add", array, size(1), i64(5), result=None)
    for words in (2, 4, 8):
        n = (i64 * words)(*range(1, words + 1))
        lib.call("percpu_counter_array_add_n", array, size(8), n, size(words), result=None)
    out = (u64 * 16)()
    lib.value("percpu_counter_array_fetch_all", array, out)
    expected = [0, 5, *[0] * 6, 3, 6, 6, 8, 5, 6, 7, 8]
    lib.same(list(out), expected, "array")
    compact = lib.make("percpu_compact_create", size(2))
    lib.call("percpu_compact_add", compact, size(1), i64(9), result=None)
    lib.same(lib.value("percpu_compact_fetch", compact, size(1)), 9, "compact")


def statistics(lib):
    """Adds and updates."""
    stats = lib.make("percpu_stats_create", size(32), size(2), 0)
    lib.call("percpu_stats_add", stats, size(1), size(3), i64(4), result=None)
    n = (u64 * 4)(1, 2, 3, 4)
    lib.same(
        lib.call("percpu_stats_update", stats, size(1), size(0), n, size(4)),
        0,
        "update",
    )
    out = (u64 * 4)()
    lib.same(lib.so.percpu_stats_fetch(stats, size(1), size(1), out), 0, "fetch")
    lib.same(list(out), [1, 2, 3, 8], "statistics")
    group = lib.make("percpu_stats_group_create", size(32), size(1), size(2))
    args = (size(1), n, size(0), n, size(4))
    lib.same(lib.call("percpu_stats_group_update_both", group, *args), 0, "update of both")
    args = (size(1), n, size(4))
    lib.same(lib.call("percpu_stats_group_update", group, *args), 0, "update of one")
    out = (u64 * 8)()
    lib.same(lib.so.percpu_stats_group_fetch(group, size(0), size(2), out), 0, "fetch")
    lib.same(list(out), [1, 2, 3, 4, 2, 4, 6, 8], "a group")


def words(lib):
    """The words of single CPUs; the thread stays on one CPU."""
    local = lib.make("percpu_local_create", size(8), 1)
    value = i64()
    lib.same(lib.call("percpu_local_add", local, i64(5)), 0, "add")
    lib.same(
        lib.call("percpu_local_add_return", local, i64(2), c.byref(value)),
        0,
        "add_return",
    )
    lib.same(value.value, 7, "sum")
    limited = lib.call("percpu_local_add_limit", local, i64(9), i64(10), c.byref(value))
    lib.same((limited, value.value), (-34, 16), "add_limit")
    lib.same(lib.call("percpu_local_store", local, i64(3)), 0, "store")
    swapped = lib.call("percpu_local_cmpxchg", local, i64(3), i64(8), c.byref(value))
    lib.same((swapped, value.value), (0, 3), "cmpxchg")
    lib.same(lib.call("percpu_local_xchg", local, i64(1), c.byref(value)), 0, "xchg")
    lib.same(value.value, 8, "what was there")


def lists(lib):
    """Arrays and queues of single CPUs."""
    item = ptr()
    array = lib.make("percpu_local_create", size(8 + 8 * 4), 1)
    lib.same(lib.call("percpu_local_push", array, u64(4), ptr(0x1230)), 0, "push")
    lib.same(lib.call("percpu_local_pop", array, c.byref(item)), 0, "pop")
    lib.same(item.value, 0x1230, "item")
    lib.same(lib.call("percpu_local_pop", array, c.byref(item)), -2, "pop of nothing")
    queue = lib.make("percpu_local_create", size(16 + 8 * 4), 1)
    two = (u64 * 2)(1, 2)
    results = [lib.call("percpu_local_copy", queue, u64(3), two, u64(2)) for _ in range(3)]
    lib.same(results, [0, 0, -28], "copy until it is full")
    word = u64()
    results = [lib.call("percpu_local_take", queue, u64(3), c.byref(word)) for _ in range(5)]
    lib.same((results, word.value), ([0, 0, 0, 0, -2], 2), "take until it is empty")


def rings(lib):
    """Rings of records."""
    ring = lib.make("percpu_ring_create", size(1024), 0)
    results = [lib.call("percpu_ring_put", ring, b"record", size(n)) for n in (6, 0, 257)]
    lib.same(results, [0, -22, -90], "put one, nothing, and too much")


def shares(lib):
    """Gauges of owners, in a file."""
    with tempfile.NamedTemporaryFile() as file:
        name = f"{file.name}.owners".encode()
    region = lib.make("percpu_region_open", name, 7, None)
    os.unlink(name)
    owners = lib.make("percpu_owners_create_in", region)
    gauge = lib.make("percpu_owned_gauge_create_in", owners, 0)
    lib.same(
        [lib.call("percpu_owned_gauge_add", gauge, i64(n)) for n in (5, -2)],
        [0, 0],
        "add",
    )
    level = i64()
    assert lib.so.percpu_owned_gauge_fetch(gauge, 1, c.byref(level)) == 0
    lib.same(level.value, 3, "level")


def buffers(lib):
    """Write buffers."""
    wbuf = lib.make("percpu_wbuf_create", None)
    cells, small, real = (u64 * 2)(), c.c_uint32(), c.c_double()
    lib.same(lib.call("percpu_wbuf_add", wbuf, cells, u64(5)), 0, "add")
    lib.same(
        lib.call("percpu_wbuf_add_u32", wbuf, c.byref(small), c.c_uint32(3)),
        0,
        "add_u32",
    )
    lib.same(
        lib.call("percpu_wbuf_add_double", wbuf, c.byref(real), c.c_double(0.5)),
        0,
        "double",
    )
    entries = (Entry * 4)(
        lib.call("percpu_wbuf_entry_u64", cells, u64(1), result=Entry),
        lib.call("percpu_wbuf_entry_u64", c.byref(cells, 8), u64(2), result=Entry),
        lib.call("percpu_wbuf_entry_u32", c.byref(small), c.c_uint32(4), result=Entry),
        lib.call("percpu_wbuf_entry_double", c.byref(real), c.c_double(2), result=Entry),
    )
    lib.same(lib.call("percpu_wbuf_add_n", wbuf, entries, size(4)), 0, "add_n")
    lib.call("percpu_wbuf_hint_flush", wbuf, result=None)
    lib.value("percpu_wbuf_flush", wbuf)
    lib.same([*cells, small.value, real.value], [6, 2, 7, 2.5], "cells")


def doubles(lib):
    """Counters of doubles; values that are no numbers are refused."""
    counter = lib.make("percpu_fcounter_create")
    array = lib.make("percpu_fcounter_array_create", size(2))
    lib.same(lib.call("percpu_fcounter_add", counter, c.c_double(0.5)), 0, "add")
    lib.same(lib.call("percpu_fcounter_add", counter, c.c_double(float("nan"))), -33, "NaN")
    lib.same(lib.call("percpu_fcounter_array_add", array, size(1), c.c_double(1.5)), 0, "add")
    for name, *args in (
        ("percpu_fcounter_fetch", counter),
        ("percpu_fcounter_array_fetch", array),
    ):
        function = getattr(lib.so, name)
        function.restype = c.c_double
        place = [size(1)] if "array" in name else []
        lib.same(function(*args, *place), 1.5 if place else 0.5, name)


def gauges(lib):
    """Of integers, and of doubles."""
    gauge, doubles = lib.make("percpu_gauge_create"), lib.make("percpu_fgauge_create")
    lib.call("percpu_gauge_add", gauge, i64(10), result=None)
    lib.call("percpu_gauge_sub", gauge, i64(2), result=None)
    lib.call("percpu_gauge_inc", gauge, result=None)
    lib.call("percpu_gauge_inc", gauge, result=None)
    lib.call("percpu_gauge_dec", gauge, result=None)
    lib.same(lib.value("percpu_gauge_fetch", gauge), 9, "gauge")
    lib.same(lib.call("percpu_fgauge_add", doubles, c.c_double(2)), 0, "add")
    lib.same(lib.call("percpu_fgauge_sub", doubles, c.c_double(0.5)), 0, "sub")
    lib.so.percpu_fgauge_fetch.restype = c.c_double
    lib.same(lib.so.percpu_fgauge_fetch(doubles), 1.5, "gauge of doubles")


def histograms(lib):
    """A histogram of doubles."""
    histogram, snapshot = lib.make("percpu_histogram_create", None), ptr()
    created = lib.so.percpu_histogram_snapshot_create(histogram, c.byref(snapshot))
    lib.same(created, 0, "a snapshot")
    first = size(0)
    lib.call("percpu_histogram_record", histogram, c.c_double(0.5), result=None)
    lib.call("percpu_histogram_record_at", histogram, first, c.c_double(0.5), result=None)
    lib.call("percpu_histogram_record_ticks", histogram, u64(1), result=None)
    lib.call("percpu_histogram_record_ticks_at", histogram, first, u64(2), result=None)
    lib.same(lib.so.percpu_histogram_fetch(histogram, first, snapshot), 0, "fetch")
    below = lib.so.percpu_histogram_count_below
    below.restype = u64
    lib.same(below(snapshot, c.c_double(0.5), None), 2, "halves")
    lib.same(below(snapshot, c.c_double(2), None), 4, "all")


def extremes(lib):
    """Minima and maxima, of words and of doubles."""
    words = lib.make("percpu_extrema_create", 0)
    reals = lib.make("percpu_extrema_create", 1)
    lib.same(lib.call("percpu_extrema_observe", words, i64(-5)), 0, "observe")
    lib.same(lib.call("percpu_extrema_observe", reals, i64(-5)), -22, "a word among doubles")
    lib.same(lib.call("percpu_extrema_observe_double", reals, c.c_double(0.5)), 0, "observe")
    least, most, low, high = i64(), i64(), c.c_double(), c.c_double()
    lib.same(lib.so.percpu_extrema_fetch(words, c.byref(least), c.byref(most)), 0, "fetch")
    lib.same((least.value, most.value), (-5, -5), "extremes")
    fetch = lib.so.percpu_extrema_fetch_double
    lib.same((fetch(reals, c.byref(low), c.byref(high)), high.value), (0, 0.5), "of doubles")


def approximately(lib):
    """An approximate sum, which is exact while all adds fit into one reach."""
    sums = lib.make("percpu_approx_create", None)
    lib.call("percpu_approx_add", sums, i64(1 << 41), result=None)
    lib.same(lib.call("percpu_approx_estimate", sums, result=i64), 1 << 41, "approximate sum")
    limit = i64((1 << 41) + 2)
    lib.same(lib.call("percpu_approx_add_below", sums, i64(2), limit), 0, "below the limit")
    lib.same(lib.call("percpu_approx_add_below", sums, i64(1), limit), -errno.ERANGE, "above")
    lib.same(lib.value("percpu_approx_fetch", sums), (1 << 41) + 2, "exact sum")


def references(lib):
    """A reference count, which is put once more than it was taken."""
    released = c.CFUNCTYPE(None, ptr, ptr)(lambda ref, arg: None)
    ref = lib.make("percpu_ref_create", released, None, 0)
    lib.same(lib.call("percpu_ref_get", ref), 0, "get")
    lib.same(lib.call("percpu_ref_get_many", ref, u64(5)), 0, "get")
    lib.same(lib.call("percpu_ref_tryget", ref, result=c.c_bool), True, "tryget")
    lib.same(lib.call("percpu_ref_tryget_many", ref, u64(2), result=c.c_bool), True, "tryget")
    lib.same(lib.call("percpu_ref_tryget_live", ref, result=c.c_bool), True, "tryget")
    lib.same(lib.call("percpu_ref_put", ref), 0, "put")
    lib.same(lib.call("percpu_ref_put_many", ref, u64(9)), 0, "put")
    lib.same(lib.value("percpu_ref_fetch", ref), 1, "references")
    lib.same(lib.so.percpu_ref_kill(ref), 0, "kill")
    lib.same(lib.call("percpu_ref_tryget_live", ref, result=c.c_bool), False, "tryget")
    lib.same(lib.so.percpu_ref_destroy(ref), 0, "destroy")


def sections(lib):
    """Sections of grace periods."""
    periods = lib.make("percpu_grace_create", 0)
    token = lib.call("percpu_grace_enter", periods)
    lib.same(
        lib.so.percpu_grace_wait_timed(periods, u64(0)),
        -errno.ETIMEDOUT,
        "in a section",
    )
    lib.same(lib.call("percpu_grace_exit", periods, token), 0, "exit")
    lib.same(lib.so.percpu_grace_wait(periods), 0, "in no section")


def lanes(lib):
    """Critical sections: one, and one within it."""
    cell, other = ptr(), ptr()
    lanes = lib.make("percpu_critical_create", size(8))
    lib.same(lib.call("percpu_critical_enter", lanes, c.byref(cell)), 0, "enter")
    lib.same(lib.call("percpu_critical_enter", lanes, c.byref(other)), 0, "enter again")
    lib.same(cell.value == other.value, False, "another lane")
    lib.same(lib.call("percpu_critical_exit", lanes, other), 0, "exit")
    lib.same(lib.call("percpu_critical_exit", lanes, cell), 0, "exit")
    lib.same(lib.call("percpu_critical_exit", lanes, cell), -errno.EPERM, "exit again")
    lib.so.percpu_critical_destroy(lanes)


def locks(lib):
    """A read-mostly lock: free, and then held."""
    lock = lib.make("percpu_rwlock_create", 0)
    reads = [lib.call("percpu_rwlock_read_lock", lock)]
    reads += [lib.call("percpu_rwlock_read_trylock", lock)]
    reads += [lib.call("percpu_rwlock_read_timedlock", lock, u64(0))]
    lib.same(reads, [0, 0, 0], "read")
    lib.same(lib.so.percpu_rwlock_write_trylock(lock), -errno.EBUSY, "read by others")
    unlocks = [lib.call("percpu_rwlock_read_unlock", lock) for _ in range(3)]
    lib.same(unlocks, [0, 0, 0], "unlock")
    lib.same(lib.so.percpu_rwlock_write_lock(lock), 0, "write")
    lib.same(lib.call("percpu_rwlock_read_trylock", lock), -errno.EBUSY, "written")
    lib.same(lib.so.percpu_rwlock_write_unlock(lock), 0, "unlock the write")
    lib.same(lib.so.percpu_rwlock_destroy(lock), 0, "destroy")


def objects(lib):
    """Object caches."""
    obj, again = ptr(), ptr()
    cache = lib.make("percpu_objcache_create", b"calls", size(8), None)
    lib.same(lib.call("percpu_objcache_get", cache, 0, c.byref(obj)), 0, "get")
    lib.call("percpu_objcache_put", cache, obj, result=None)
    lib.same(lib.call("percpu_objcache_get", cache, 0, c.byref(again)), 0, "get again")
    lib.same(again.value, obj.value, "the same object")


def windows(lib):
    """Buffers of a file of one page and 5 bytes."""
    with tempfile.TemporaryFile() as file:
        file.write(bytes(mmap.PAGESIZE) + b"12345")
        file.flush()
        file_windows = lib.make("percpu_lwbuf_create", file.fileno(), None)
    buffer = (u64 * 8)()
    assert lib.so.percpu_lwbuf_alloc(file_windows, u64(1), 0, buffer) == 0
    shared = lib.make("percpu_sfbuf_alloc", file_windows, u64(1), 0)
    for name, b in ("percpu_lwbuf", buffer), ("percpu_sfbuf", shared):
        lib.same(lib.call(f"{name}_page", b, result=u64), 1, f"{name}: page")
        lib.same(lib.call(f"{name}_length", b, result=size), 5, f"{name}: length")
        address = lib.call(f"{name}_kva", b, result=ptr)
        lib.same(c.string_at(address, 5), b"12345", f"{name}: bytes")


def rest(lib):
    """Objects that are found by their addresses: a zone's items, and variables of an image."""
    zone = lib.make("percpu_zone_create", b"calls", size(8), None)
    item = lib.make("percpu_zone_alloc", zone, 0)
    first = lib.call("percpu_zone_get", item, 0, result=ptr)
    lib.same(first, item.value, "the first CPU's copy")
    assert lib.call("percpu_zone_get", item, 1, result=ptr) > first
    variable = (u64 * 1)()
    image = (ptr * 6)(c.addressof(variable), c.addressof(variable) + 8)
    lib.call("percpu_variable_add", image, variable, i64(3), result=None)
    lib.same(lib.value("percpu_variable_sum", image, variable), 3, "variable")


def build(source, work, late):
    """Return the path of a library."""
    path = work / f"libpercpu{late}.so"
    command = [
        "cc",
        "-std=gnu11",
        "-O0",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        late,
    ]
    command += [
        f"-I{source}/include",
        f"{source}/src/percpu_all.c",
        "-pthread",
        "-o",
        path,
    ]
    command += [f"-Wl,--version-script={source}/src/libpercpu.map", "-Wl,-z,nodelete"]
    subprocess.run([part for part in command if part], check=True)
    return path


def try_all(source, work, late):
    """Return what is wrong, or None."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lib = Library(build(source, work, late))
    inline = inline_functions(source)
    lacking = [name for name in inline if not hasattr(lib.so, f"{name}_call")]
    if lacking:
        return f"not exported: {sorted(lacking)}"
    try:
        parts = (
            counters,
            doubles,
            statistics,
            words,
            lists,
            rings,
            buffers,
            objects,
            windows,
        )
        more = (
            gauges,
            histograms,
            shares,
            extremes,
            approximately,
            references,
            sections,
            lanes,
        )
        for part in (*parts, *more, locks, rest):
            part(lib)
    except AssertionError as wrong:
        return str(wrong)
    return None if lib.called == inline else f"not called here: {sorted(inline ^ lib.called)}"


def main():
    """Print a line per library: each in a process of its own."""
    source, work = (pathlib.Path(arg).resolve() for arg in sys.argv[1:3])
    if len(sys.argv) == 4:
        wrong = try_all(source, work, sys.argv[3].strip("'"))
        sys.exit(wrong)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    kinds = {"linked": "", "loaded late": "-DPERCPU_LATE"}
    for number, (kind, late) in enumerate(kinds.items(), 1):
        command = [sys.executable, __file__, source, work, f"'{late}'"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print("# " + done.stderr.strip().replace("\n", "\n# "))
        print(f"{'ok' if done.returncode == 0 else 'not ok'} {number} - as a library {kind}")
    print(f"1..{len(kinds)}")


if __name__ == "__main__":
    main()
