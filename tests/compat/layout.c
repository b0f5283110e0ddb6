/* SPDX-License-Identifier: MIT */
/*
 * layout.c - the layout of structs in public headers, which programs have inlined. A change of a
 * line here breaks programs that were compiled before. New fields may use padding, or the end of
 * a struct that only the library makes, or that begins with its size. headers.sh compiles this,
 * and checks that all structs are here.
 */
#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/critical.h>
#include <percpu/fence.h>
#include <percpu/grace.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ref.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>
#include <percpu/timer.h>
#include <percpu/variable.h>
#include <percpu/wbuf.h>
#include <percpu/xio.h>
#include <percpu/zone.h>

/* The values for 64-bit machines, for 32-bit ones, and for 32-bit x86, which aligns a uint64_t
 * in a struct to 4 bytes. */
#if defined(__LP64__)
#define ONE_OF(lp64, ilp32, i386) (lp64)
#elif defined(__i386__)
#define ONE_OF(lp64, ilp32, i386) (i386)
#else
#define ONE_OF(lp64, ilp32, i386) (ilp32)
#endif

#define SIZE(type, lp64, ilp32, i386)                                                              \
	PERCPU_ASSERT(sizeof(struct type) == ONE_OF(lp64, ilp32, i386), "the size of " #type)
#define AT(type, field, lp64, ilp32, i386)                                                         \
	PERCPU_ASSERT(offsetof(struct type, field) == ONE_OF(lp64, ilp32, i386),                   \
		      "the offset of " #type "." #field)

SIZE(percpu_rseq, 32, 32, 32);
AT(percpu_rseq, cpu_id_start, 0, 0, 0);
AT(percpu_rseq, cpu_id, 4, 4, 4);
AT(percpu_rseq, rseq_cs, 8, 8, 8);
AT(percpu_rseq, flags, 16, 16, 16);
AT(percpu_rseq, node_id, 20, 20, 20);
AT(percpu_rseq, mm_cid, 24, 24, 24);
AT(percpu_rseq, reserved, 28, 28, 28);

SIZE(percpu_array, 8, 8, 8);
AT(percpu_array, count, 0, 0, 0);
AT(percpu_array, slot, 8, 8, 8);

SIZE(percpu_fifo, 16, 16, 16);
AT(percpu_fifo, head, 0, 0, 0);
AT(percpu_fifo, tail, 8, 8, 8);
AT(percpu_fifo, slot, 16, 16, 16);

SIZE(percpu_copies, 16, 16, 16);
AT(percpu_copies, turn, 0, 0, 0);
AT(percpu_copies, reserved, 8, 8, 8);
AT(percpu_copies, copy, 16, 16, 16);

SIZE(percpu_group_lane, 32, 32, 32);
AT(percpu_group_lane, turn, 0, 0, 0);
AT(percpu_group_lane, names, 8, 8, 8);
AT(percpu_group_lane, reserved, 16, 16, 16);
AT(percpu_group_lane, old, 32, 32, 32);

SIZE(percpu_ring_lane, 128, 128, 128);
AT(percpu_ring_lane, head, 0, 0, 0);
AT(percpu_ring_lane, dropped, 8, 8, 8);
AT(percpu_ring_lane, lock, 16, 16, 16);
AT(percpu_ring_lane, spare, 20, 20, 20);
AT(percpu_ring_lane, reserved, 24, 24, 24);
AT(percpu_ring_lane, tail, 64, 64, 64);
AT(percpu_ring_lane, consumer, 72, 72, 72);
AT(percpu_ring_lane, spare2, 76, 76, 76);
AT(percpu_ring_lane, reserved2, 80, 80, 80);
AT(percpu_ring_lane, slot, 128, 128, 128);

SIZE(percpu_block, 40, 20, 20);
AT(percpu_block, base, 0, 0, 0);
AT(percpu_block, stride, 8, 4, 4);
AT(percpu_block, size, 16, 8, 8);
AT(percpu_block, chunk, 24, 12, 12);
AT(percpu_block, own, 32, 16, 16);

SIZE(percpu_region_options, 40, 24, 24);
AT(percpu_region_options, size, 0, 0, 0);
AT(percpu_region_options, lane_size, 8, 4, 4);
AT(percpu_region_options, cpus, 16, 8, 8);
AT(percpu_region_options, mode, 20, 12, 12);
AT(percpu_region_options, memory, 24, 16, 16);
AT(percpu_region_options, memory_size, 32, 20, 20);

SIZE(percpu_counter_array, 48, 24, 24);
AT(percpu_counter_array, block, 0, 0, 0);
AT(percpu_counter_array, n, 40, 20, 20);

SIZE(percpu_fcounter_array, 48, 24, 24);
AT(percpu_fcounter_array, block, 0, 0, 0);
AT(percpu_fcounter_array, n, 40, 20, 20);

SIZE(percpu_static_counter, 16, 16, 16);
AT(percpu_static_counter, counter, 0, 0, 0);
AT(percpu_static_counter, early, 8, 8, 8);

SIZE(percpu_compact, 56, 40, 32);
AT(percpu_compact, block, 0, 0, 0);
AT(percpu_compact, half, 40, 24, 20);
AT(percpu_compact, n, 48, 32, 28);

SIZE(percpu_extremes, 32, 32, 32);
AT(percpu_extremes, epoch, 0, 0, 0);
AT(percpu_extremes, min, 8, 8, 8);
AT(percpu_extremes, max, 16, 16, 16);
AT(percpu_extremes, reserved, 24, 24, 24);

SIZE(percpu_extrema, 56, 32, 32);
AT(percpu_extrema, block, 0, 0, 0);
AT(percpu_extrema, epoch, 40, 20, 20);
AT(percpu_extrema, kind, 48, 24, 24);
AT(percpu_extrema, takes, 52, 28, 28);

SIZE(percpu_exemplar_label, 16, 8, 8);
AT(percpu_exemplar_label, name, 0, 0, 0);
AT(percpu_exemplar_label, value, 8, 4, 4);

SIZE(percpu_exemplar, 216, 216, 212);
AT(percpu_exemplar, value, 0, 0, 0);
AT(percpu_exemplar, time, 8, 8, 8);
AT(percpu_exemplar, labels, 16, 16, 16);
AT(percpu_exemplar, label_names, 20, 20, 20);
AT(percpu_exemplar, label_values, 36, 36, 36);
AT(percpu_exemplar, text, 52, 52, 52);

SIZE(percpu_ring, 80, 56, 48);
AT(percpu_ring, block, 0, 0, 0);
AT(percpu_ring, mask, 40, 24, 20);
AT(percpu_ring, keep, 48, 32, 28);
AT(percpu_ring, longest, 56, 40, 36);
AT(percpu_ring, next, 64, 44, 40);
AT(percpu_ring, debug, 72, 48, 44);

SIZE(percpu_ring_record, 48, 40, 40);
AT(percpu_ring_record, cpu, 0, 0, 0);
AT(percpu_ring_record, locked, 4, 4, 4);
AT(percpu_ring_record, number, 8, 8, 8);
AT(percpu_ring_record, time, 16, 16, 16);
AT(percpu_ring_record, lost, 24, 24, 24);
AT(percpu_ring_record, size, 32, 32, 32);
AT(percpu_ring_record, data, 40, 36, 36);

SIZE(percpu_stats, 104, 64, 60);
AT(percpu_stats, block, 0, 0, 0);
AT(percpu_stats, record, 40, 20, 20);
AT(percpu_stats, bank, 48, 24, 24);
AT(percpu_stats, banks, 56, 32, 28);
AT(percpu_stats, vector, 64, 40, 36);
AT(percpu_stats, commit, 68, 44, 40);
AT(percpu_stats, words, 72, 48, 44);
AT(percpu_stats, n, 80, 52, 48);
AT(percpu_stats, head, 88, 56, 52);
AT(percpu_stats, flags, 96, 60, 56);

SIZE(percpu_stats_group, 104, 64, 56);
AT(percpu_stats_group, block, 0, 0, 0);
AT(percpu_stats_group, record, 40, 20, 20);
AT(percpu_stats_group, bank, 48, 24, 24);
AT(percpu_stats_group, banks, 56, 32, 28);
AT(percpu_stats_group, head, 64, 40, 36);
AT(percpu_stats_group, words, 72, 44, 40);
AT(percpu_stats_group, n, 80, 48, 44);
AT(percpu_stats_group, totals, 88, 52, 48);
AT(percpu_stats_group, vector, 96, 56, 52);

SIZE(percpu_local, 40, 20, 20);
AT(percpu_local, cell, 0, 0, 0);
AT(percpu_local, guard, 8, 4, 4);
AT(percpu_local, stride, 16, 8, 8);
AT(percpu_local, fallback, 24, 12, 12);
AT(percpu_local, region, 32, 16, 16);

SIZE(percpu_objcache, 40, 32, 32);
AT(percpu_objcache, cell, 0, 0, 0);
AT(percpu_objcache, guard, 8, 4, 4);
AT(percpu_objcache, stride, 16, 8, 8);
AT(percpu_objcache, room, 24, 16, 16);
AT(percpu_objcache, requests, 32, 24, 24);

SIZE(percpu_objcache_options, 80, 44, 44);
AT(percpu_objcache_options, size, 0, 0, 0);
AT(percpu_objcache_options, limit, 8, 4, 4);
AT(percpu_objcache_options, cached, 16, 8, 8);
AT(percpu_objcache_options, ctor, 24, 12, 12);
AT(percpu_objcache_options, dtor, 32, 16, 16);
AT(percpu_objcache_options, arg, 40, 20, 20);
AT(percpu_objcache_options, alloc, 48, 24, 24);
AT(percpu_objcache_options, free, 56, 28, 28);
AT(percpu_objcache_options, backend, 64, 32, 32);
AT(percpu_objcache_options, flags, 72, 36, 36);
AT(percpu_objcache_options, reserved, 76, 40, 40);

SIZE(percpu_objcache_stats, 112, 104, 104);
AT(percpu_objcache_stats, name, 0, 0, 0);
AT(percpu_objcache_stats, size, 32, 32, 32);
AT(percpu_objcache_stats, limit, 40, 36, 36);
AT(percpu_objcache_stats, requested, 48, 40, 40);
AT(percpu_objcache_stats, used, 56, 48, 48);
AT(percpu_objcache_stats, cached, 64, 56, 56);
AT(percpu_objcache_stats, exhausted, 72, 64, 64);
AT(percpu_objcache_stats, failed, 80, 72, 72);
AT(percpu_objcache_stats, allocated, 88, 80, 80);
AT(percpu_objcache_stats, waited, 96, 88, 88);
AT(percpu_objcache_stats, array, 104, 96, 96);

SIZE(percpu_wbuf, 48, 32, 32);
AT(percpu_wbuf, queue, 0, 0, 0);
AT(percpu_wbuf, guard, 8, 4, 4);
AT(percpu_wbuf, mask, 16, 8, 8);
AT(percpu_wbuf, stride, 24, 16, 16);
AT(percpu_wbuf, hints, 32, 20, 20);
AT(percpu_wbuf, hints_to_flush, 40, 24, 24);

SIZE(percpu_wbuf_entry, 16, 16, 12);
AT(percpu_wbuf_entry, cell, 0, 0, 0);
AT(percpu_wbuf_entry, n, 8, 8, 4);

SIZE(percpu_wbuf_options, 64, 32, 32);
AT(percpu_wbuf_options, size, 0, 0, 0);
AT(percpu_wbuf_options, entries, 8, 4, 4);
AT(percpu_wbuf_options, lock, 16, 8, 8);
AT(percpu_wbuf_options, trylock, 24, 12, 12);
AT(percpu_wbuf_options, unlock, 32, 16, 16);
AT(percpu_wbuf_options, arg, 40, 20, 20);
AT(percpu_wbuf_options, hints_to_flush, 48, 24, 24);
AT(percpu_wbuf_options, flush_limit, 56, 28, 28);

SIZE(percpu_wbuf_stats, 32, 32, 28);
AT(percpu_wbuf_stats, entries, 0, 0, 0);
AT(percpu_wbuf_stats, pending, 8, 8, 4);
AT(percpu_wbuf_stats, flushes, 16, 16, 12);
AT(percpu_wbuf_stats, overflows, 24, 24, 20);

SIZE(percpu_image, 48, 24, 24);
AT(percpu_image, start, 0, 0, 0);
AT(percpu_image, stop, 8, 4, 4);
AT(percpu_image, distance, 16, 8, 8);
AT(percpu_image, stride, 24, 12, 12);
AT(percpu_image, chunk, 32, 16, 16);
AT(percpu_image, error, 40, 20, 20);

SIZE(percpu_lwbuf, 48, 40, 36);
AT(percpu_lwbuf, kva, 0, 0, 0);
AT(percpu_lwbuf, page, 8, 8, 4);
AT(percpu_lwbuf, of, 16, 16, 12);
AT(percpu_lwbuf, window, 24, 20, 16);
AT(percpu_lwbuf, length, 32, 24, 20);
AT(percpu_lwbuf, generation, 36, 28, 24);
AT(percpu_lwbuf, flags, 40, 32, 28);
AT(percpu_lwbuf, forks, 44, 36, 32);

SIZE(percpu_lwbuf_options, 32, 20, 20);
AT(percpu_lwbuf_options, size, 0, 0, 0);
AT(percpu_lwbuf_options, window, 8, 4, 4);
AT(percpu_lwbuf_options, max_excess, 16, 8, 8);
AT(percpu_lwbuf_options, backend, 24, 12, 12);
AT(percpu_lwbuf_options, flags, 28, 16, 16);

SIZE(percpu_lwbuf_stats, 64, 64, 64);
AT(percpu_lwbuf_stats, backend, 0, 0, 0);
AT(percpu_lwbuf_stats, reserved, 4, 4, 4);
AT(percpu_lwbuf_stats, used, 8, 8, 8);
AT(percpu_lwbuf_stats, excess, 16, 16, 16);
AT(percpu_lwbuf_stats, max_excess, 24, 24, 24);
AT(percpu_lwbuf_stats, windows, 32, 32, 32);
AT(percpu_lwbuf_stats, mapped, 40, 40, 40);
AT(percpu_lwbuf_stats, bounced, 48, 48, 48);
AT(percpu_lwbuf_stats, address, 56, 56, 56);

SIZE(percpu_sfbuf, 24, 24, 16);
AT(percpu_sfbuf, kva, 0, 0, 0);
AT(percpu_sfbuf, page, 8, 8, 4);
AT(percpu_sfbuf, length, 16, 16, 12);

SIZE(percpu_sfbuf_stats, 40, 40, 40);
AT(percpu_sfbuf_stats, used, 0, 0, 0);
AT(percpu_sfbuf_stats, excess, 8, 8, 8);
AT(percpu_sfbuf_stats, max_excess, 16, 16, 16);
AT(percpu_sfbuf_stats, hits, 24, 24, 24);
AT(percpu_sfbuf_stats, fills, 32, 32, 32);

SIZE(percpu_zone_options, 64, 36, 36);
AT(percpu_zone_options, size, 0, 0, 0);
AT(percpu_zone_options, align, 8, 4, 4);
AT(percpu_zone_options, limit, 16, 8, 8);
AT(percpu_zone_options, region, 24, 12, 12);
AT(percpu_zone_options, ctor, 32, 16, 16);
AT(percpu_zone_options, dtor, 40, 20, 20);
AT(percpu_zone_options, arg, 48, 24, 24);
AT(percpu_zone_options, flags, 56, 28, 28);
AT(percpu_zone_options, reserved, 60, 32, 32);

SIZE(percpu_xio, 40, 24, 24);
AT(percpu_xio, of, 0, 0, 0);
AT(percpu_xio, pages, 8, 4, 4);
AT(percpu_xio, first, 16, 8, 8);
AT(percpu_xio, offset, 24, 16, 16);
AT(percpu_xio, bytes, 32, 20, 20);

SIZE(percpu_zone_stats, 88, 80, 80);
AT(percpu_zone_stats, name, 0, 0, 0);
AT(percpu_zone_stats, size, 32, 32, 32);
AT(percpu_zone_stats, limit, 40, 36, 36);
AT(percpu_zone_stats, used, 48, 40, 40);
AT(percpu_zone_stats, cached, 56, 48, 48);
AT(percpu_zone_stats, requests, 64, 56, 56);
AT(percpu_zone_stats, failures, 72, 64, 64);
AT(percpu_zone_stats, waits, 80, 72, 72);

SIZE(percpu_owner_info, 88, 88, 88);
AT(percpu_owner_info, id, 0, 0, 0);
AT(percpu_owner_info, started, 8, 8, 8);
AT(percpu_owner_info, pid, 16, 16, 16);
AT(percpu_owner_info, alive, 20, 20, 20);
AT(percpu_owner_info, name, 24, 24, 24);

SIZE(percpu_owned, 48, 24, 24);
AT(percpu_owned, block, 0, 0, 0);
AT(percpu_owned, mine, 40, 20, 20);

SIZE(percpu_participant, 72, 40, 40);
AT(percpu_participant, block, 0, 0, 0);
AT(percpu_participant, cell, 40, 20, 20);
AT(percpu_participant, stride, 48, 24, 24);
AT(percpu_participant, state, 56, 28, 28);
AT(percpu_participant, tag, 64, 32, 32);

SIZE(percpu_grace, 72, 40, 40);
AT(percpu_grace, in, 0, 0, 0);

SIZE(percpu_grace_callback, 24, 16, 16);
AT(percpu_grace_callback, next, 0, 0, 0);
AT(percpu_grace_callback, fn, 8, 4, 4);
AT(percpu_grace_callback, cookie, 16, 8, 8);

SIZE(percpu_grace_blocker, 32, 32, 32);
AT(percpu_grace_blocker, id, 0, 0, 0);
AT(percpu_grace_blocker, pid, 8, 8, 8);
AT(percpu_grace_blocker, stopped, 12, 12, 12);
AT(percpu_grace_blocker, sections, 16, 16, 16);
AT(percpu_grace_blocker, awaited, 24, 24, 24);

SIZE(percpu_critical, 56, 32, 32);
AT(percpu_critical, block, 0, 0, 0);
AT(percpu_critical, size, 40, 20, 20);
AT(percpu_critical, owner, 48, 24, 24);

SIZE(percpu_critical_head, 16, 16, 16);
AT(percpu_critical_head, inside, 0, 0, 0);
AT(percpu_critical_head, taken, 8, 8, 8);

SIZE(percpu_rwlock, 72, 40, 40);
AT(percpu_rwlock, in, 0, 0, 0);

SIZE(percpu_rwlock_holder, 32, 32, 32);
AT(percpu_rwlock_holder, id, 0, 0, 0);
AT(percpu_rwlock_holder, reading, 8, 8, 8);
AT(percpu_rwlock_holder, pid, 16, 16, 16);
AT(percpu_rwlock_holder, stopped, 20, 20, 20);
AT(percpu_rwlock_holder, writing, 24, 24, 24);
AT(percpu_rwlock_holder, reserved, 28, 28, 28);

SIZE(percpu_owned_gauge, 48, 24, 24);
AT(percpu_owned_gauge, owned, 0, 0, 0);

SIZE(percpu_owned_fgauge, 48, 24, 24);
AT(percpu_owned_fgauge, owned, 0, 0, 0);

SIZE(percpu_segment_options, 24, 16, 16);
AT(percpu_segment_options, size, 0, 0, 0);
AT(percpu_segment_options, cpus, 8, 4, 4);
AT(percpu_segment_options, mode, 12, 8, 8);
AT(percpu_segment_options, program, 16, 12, 12);

SIZE(percpu_metric, 56, 28, 28);
AT(percpu_metric, size, 0, 0, 0);
AT(percpu_metric, name, 8, 4, 4);
AT(percpu_metric, help, 16, 8, 8);
AT(percpu_metric, unit, 24, 12, 12);
AT(percpu_metric, label_names, 32, 16, 16);
AT(percpu_metric, label_values, 40, 20, 20);
AT(percpu_metric, labels, 48, 24, 24);

SIZE(percpu_metric_fields, 32, 16, 16);
AT(percpu_metric_fields, size, 0, 0, 0);
AT(percpu_metric_fields, label, 8, 4, 4);
AT(percpu_metric_fields, names, 16, 8, 8);
AT(percpu_metric_fields, n, 24, 12, 12);

SIZE(percpu_segment_start, 40, 40, 40);
AT(percpu_segment_start, generation, 0, 0, 0);
AT(percpu_segment_start, real, 8, 8, 8);
AT(percpu_segment_start, boottime, 16, 16, 16);
AT(percpu_segment_start, age, 24, 24, 24);
AT(percpu_segment_start, this_boot, 32, 32, 32);

SIZE(percpu_declaration, 96, 52, 52);
AT(percpu_declaration, size, 0, 0, 0);
AT(percpu_declaration, name, 8, 4, 4);
AT(percpu_declaration, help, 16, 8, 8);
AT(percpu_declaration, unit, 24, 12, 12);
AT(percpu_declaration, label_names, 32, 16, 16);
AT(percpu_declaration, label_values, 40, 20, 20);
AT(percpu_declaration, labels, 48, 24, 24);
AT(percpu_declaration, kind, 56, 28, 28);
AT(percpu_declaration, flags, 60, 32, 32);
AT(percpu_declaration, cap, 64, 36, 36);
AT(percpu_declaration, histogram, 72, 40, 40);
AT(percpu_declaration, fields, 80, 44, 44);
AT(percpu_declaration, ret, 88, 48, 48);

SIZE(percpu_reader_info, 88, 88, 84);
AT(percpu_reader_info, generation, 0, 0, 0);
AT(percpu_reader_info, since, 8, 8, 8);
AT(percpu_reader_info, read, 16, 16, 16);
AT(percpu_reader_info, cpus, 24, 24, 24);
AT(percpu_reader_info, consistent, 28, 28, 28);
AT(percpu_reader_info, pending, 32, 32, 32);
AT(percpu_reader_info, missing, 36, 36, 36);
AT(percpu_reader_info, program, 40, 40, 40);

SIZE(percpu_reader_facts, 104, 104, 104);
AT(percpu_reader_facts, file_bytes, 0, 0, 0);
AT(percpu_reader_facts, disk_bytes, 8, 8, 8);
AT(percpu_reader_facts, cells_used, 16, 16, 16);
AT(percpu_reader_facts, cells_free, 24, 24, 24);
AT(percpu_reader_facts, records_bytes, 32, 32, 32);
AT(percpu_reader_facts, records_most, 40, 40, 40);
AT(percpu_reader_facts, format_major, 48, 48, 48);
AT(percpu_reader_facts, format_minor, 52, 52, 52);
AT(percpu_reader_facts, version, 56, 56, 56);
AT(percpu_reader_facts, chunks, 60, 60, 60);
AT(percpu_reader_facts, chunks_most, 64, 64, 64);
AT(percpu_reader_facts, records_in_use, 68, 68, 68);
AT(percpu_reader_facts, records_removed, 72, 72, 72);
AT(percpu_reader_facts, records_pending, 76, 76, 76);
AT(percpu_reader_facts, counting, 80, 80, 80);
AT(percpu_reader_facts, lock, 84, 84, 84);
AT(percpu_reader_facts, lock_holder, 88, 88, 88);
AT(percpu_reader_facts, reset_unfinished, 92, 92, 92);
AT(percpu_reader_facts, owners_alive, 96, 96, 96);
AT(percpu_reader_facts, owners_dead, 100, 100, 100);

SIZE(percpu_reader_series, 104, 80, 76);
AT(percpu_reader_series, name, 0, 0, 0);
AT(percpu_reader_series, help, 8, 4, 4);
AT(percpu_reader_series, unit, 16, 8, 8);
AT(percpu_reader_series, label_names, 24, 12, 12);
AT(percpu_reader_series, label_values, 32, 16, 16);
AT(percpu_reader_series, field, 40, 20, 20);
AT(percpu_reader_series, fields, 48, 24, 24);
AT(percpu_reader_series, labels, 56, 28, 28);
AT(percpu_reader_series, n, 60, 32, 32);
AT(percpu_reader_series, kind, 64, 36, 36);
AT(percpu_reader_series, flags, 68, 40, 40);
AT(percpu_reader_series, cap, 72, 44, 44);
AT(percpu_reader_series, removed, 76, 48, 48);
AT(percpu_reader_series, since, 80, 56, 52);
AT(percpu_reader_series, overflows, 88, 64, 60);
AT(percpu_reader_series, invalid, 96, 72, 68);

SIZE(percpu_owned_value, 104, 104, 104);
AT(percpu_owned_value, id, 0, 0, 0);
AT(percpu_owned_value, when, 8, 8, 8);
AT(percpu_owned_value, value, 16, 16, 16);
AT(percpu_owned_value, fvalue, 24, 24, 24);
AT(percpu_owned_value, pid, 32, 32, 32);
AT(percpu_owned_value, alive, 36, 36, 36);
AT(percpu_owned_value, name, 40, 40, 40);

SIZE(percpu_fence_report, 1040, 1040, 1036);
AT(percpu_fence_report, fenced, 0, 0, 0);
AT(percpu_fence_report, unfenced, 4, 4, 4);
AT(percpu_fence_report, first_unfenced, 8, 8, 8);
AT(percpu_fence_report, unfenced_cpus, 16, 16, 12);

SIZE(percpu_status, 120, 116, 116);
AT(percpu_status, tier, 0, 0, 0);
AT(percpu_status, registrar, 4, 4, 4);
AT(percpu_status, reason, 8, 8, 8);
AT(percpu_status, rseq_size, 16, 12, 12);
AT(percpu_status, feature_size, 20, 16, 16);
AT(percpu_status, align, 24, 20, 20);
AT(percpu_status, selftest, 28, 24, 24);
AT(percpu_status, possible_cpus, 32, 28, 28);
AT(percpu_status, lanes, 36, 32, 32);
AT(percpu_status, membarrier_cmds, 40, 36, 36);
AT(percpu_status, commit_words, 44, 40, 40);
AT(percpu_status, fence, 48, 44, 44);
AT(percpu_status, cpu_without_lane, 49, 45, 45);
AT(percpu_status, has_mm_cid, 50, 46, 46);
AT(percpu_status, robust, 51, 47, 47);
AT(percpu_status, kernel, 52, 48, 48);

SIZE(percpu_rate_mark, 16, 16, 16);
AT(percpu_rate_mark, ns, 0, 0, 0);
AT(percpu_rate_mark, events, 8, 8, 8);

SIZE(percpu_ref, 8, 8, 8);
AT(percpu_ref, cells, 0, 0, 0);

SIZE(percpu_approx_options, 16, 16, 12);
AT(percpu_approx_options, size, 0, 0, 0);
AT(percpu_approx_options, batch, 8, 8, 4);

SIZE(percpu_approx_control, 64, 64, 64);
AT(percpu_approx_control, base, 0, 0, 0);
AT(percpu_approx_control, middle, 8, 8, 8);
AT(percpu_approx_control, limit, 16, 16, 16);
AT(percpu_approx_control, state, 24, 24, 24);
AT(percpu_approx_control, batch, 32, 32, 32);
AT(percpu_approx_control, busy, 40, 40, 40);
AT(percpu_approx_control, closed, 48, 48, 48);
AT(percpu_approx_control, rest, 56, 56, 56);

SIZE(percpu_approx, 72, 48, 48);
AT(percpu_approx, block, 0, 0, 0);
AT(percpu_approx, control, 40, 20, 20);
AT(percpu_approx, reach, 48, 24, 24);
AT(percpu_approx, span, 56, 32, 32);
AT(percpu_approx, slack, 64, 40, 40);

SIZE(percpu_text, 16, 8, 8);
AT(percpu_text, at, 0, 0, 0);
AT(percpu_text, n, 8, 4, 4);

SIZE(percpu_timer, 8, 8, 8);
AT(percpu_timer, start, 0, 0, 0);

SIZE(percpu_histogram_options, 64, 48, 48);
AT(percpu_histogram_options, size, 0, 0, 0);
AT(percpu_histogram_options, n, 8, 4, 4);
AT(percpu_histogram_options, min, 16, 8, 8);
AT(percpu_histogram_options, max, 24, 16, 16);
AT(percpu_histogram_options, ticks_per_unit, 32, 24, 24);
AT(percpu_histogram_options, buckets_per_octave, 40, 32, 32);
AT(percpu_histogram_options, flags, 44, 36, 36);
AT(percpu_histogram_options, bounds, 48, 40, 40);
AT(percpu_histogram_options, bounds_n, 56, 44, 44);

SIZE(percpu_histogram, 664, 624, 620);
AT(percpu_histogram, block, 0, 0, 0);
AT(percpu_histogram, record, 40, 20, 20);
AT(percpu_histogram, n, 48, 24, 24);
AT(percpu_histogram, limit, 56, 32, 28);
AT(percpu_histogram, tick_limit, 64, 40, 36);
AT(percpu_histogram, origin, 72, 48, 44);
AT(percpu_histogram, last, 80, 56, 52);
AT(percpu_histogram, zero, 88, 64, 60);
AT(percpu_histogram, ticks, 96, 72, 68);
AT(percpu_histogram, low, 104, 80, 76);
AT(percpu_histogram, high, 108, 84, 80);
AT(percpu_histogram, schema, 112, 88, 84);
AT(percpu_histogram, shift, 116, 92, 88);
AT(percpu_histogram, table, 120, 96, 92);
AT(percpu_histogram, own, 632, 608, 604);
AT(percpu_histogram, half, 640, 612, 608);
AT(percpu_histogram, bounds_n, 648, 616, 612);
AT(percpu_histogram, bounds, 656, 620, 616);

SIZE(percpu_histogram_bucket, 24, 24, 24);
AT(percpu_histogram_bucket, count, 0, 0, 0);
AT(percpu_histogram_bucket, ticks, 8, 8, 8);
AT(percpu_histogram_bucket, sum, 16, 16, 16);

SIZE(percpu_histogram_snapshot, 56, 56, 52);
AT(percpu_histogram_snapshot, schema, 0, 0, 0);
AT(percpu_histogram_snapshot, low, 4, 4, 4);
AT(percpu_histogram_snapshot, high, 8, 8, 8);
AT(percpu_histogram_snapshot, n, 12, 12, 12);
AT(percpu_histogram_snapshot, ticks_per_unit, 16, 16, 16);
AT(percpu_histogram_snapshot, count, 24, 24, 24);
AT(percpu_histogram_snapshot, sum, 32, 32, 32);
AT(percpu_histogram_snapshot, refused, 40, 40, 40);
AT(percpu_histogram_snapshot, bounds, 48, 48, 48);
AT(percpu_histogram_snapshot, bucket, 56, 56, 52);

SIZE(percpu_histogram_quantile, 24, 24, 24);
AT(percpu_histogram_quantile, value, 0, 0, 0);
AT(percpu_histogram_quantile, low, 8, 8, 8);
AT(percpu_histogram_quantile, high, 16, 16, 16);

SIZE(percpu_histogram_otlp, 56, 56, 52);
AT(percpu_histogram_otlp, scale, 0, 0, 0);
AT(percpu_histogram_otlp, offset, 4, 4, 4);
AT(percpu_histogram_otlp, n, 8, 8, 8);
AT(percpu_histogram_otlp, zero_count, 16, 16, 12);
AT(percpu_histogram_otlp, zero_threshold, 24, 24, 20);
AT(percpu_histogram_otlp, count, 32, 32, 28);
AT(percpu_histogram_otlp, sum, 40, 40, 36);
AT(percpu_histogram_otlp, above, 48, 48, 44);
