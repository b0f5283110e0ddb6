/* SPDX-License-Identifier: MIT */
/*
 * percpu.hpp - the library for C++17 and later: handles, owners, errors.
 *
 *	struct metrics {
 *		percpu::segment file{ "hello" };
 *		percpu::counter requests{ file, "hello_requests_total" };
 *		percpu::latency<> seconds{ file, "hello_request_seconds" };
 *	};
 *
 * Ownership. There are handles and owners.
 *
 *	A handle is a pointer: counter, fcounter, gauge, fgauge, latest, owned_gauge, owned_fgauge,
 *	histogram, latency, extrema, stats, family, exemplars. It is copied freely, and counts. It
 *	owns nothing, and must not be used when its owner is gone.
 *	An owner is moved and never copied. A segment owns all objects that were declared in it.
 *	unique<Kind> owns one object in memory of this process; make<Kind>() creates it.
 *
 * A moved owner takes its objects along: handles stay valid. A handle of a temporary owner does not
 * compile. Handles that were assigned nothing, or whose declaration failed, and owners that were
 * moved from, convert to false. A program must not count by one of these, as in C by a NULL: it
 * gets SIGSEGV.
 *
 * Errors. A call that can fail throws percpu::error; without memory for its texts, std::bad_alloc.
 * The same call with a std::error_code & as its last argument (of family::with(), the first) stores
 * the error there, or 0, and throws nothing. With -fno-exceptions only these calls are declared.
 * Calls that count throw nothing. Those of them that can fail return 0 or -errno, which a program
 * may ignore, as in C.
 *
 * A member does what the call of that name in C does, with the same errors, Context, Ordering,
 * Progress and units: counter.h, segment.h, and so on. get() returns the object for other calls in
 * C. Names and texts are UTF-8 and end with a 0; the values of a family's labels are
 * std::string_view.
 *
 * A call that counts is the inline function in C, in the same instructions: tests/objects/twins.py
 * compares them.
 */
#ifndef PERCPU_PERCPU_HPP
#define PERCPU_PERCPU_HPP

#include <percpu/cpp/counts.hpp>
#include <percpu/cpp/error.hpp>
#include <percpu/cpp/family.hpp>
#include <percpu/cpp/histogram.hpp>
#include <percpu/cpp/owned.hpp>
#include <percpu/cpp/segment.hpp>
#include <percpu/cpp/stats.hpp>
#include <percpu/percpu.h>

#endif
