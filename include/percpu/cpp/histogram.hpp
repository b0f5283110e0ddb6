/* SPDX-License-Identifier: MIT */
/* histogram.hpp - histograms of numbers and of durations, and exemplars. */
#ifndef PERCPU_CPP_HISTOGRAM_HPP
#define PERCPU_CPP_HISTOGRAM_HPP

#include <chrono>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <ratio>
#include <type_traits>

#include <percpu/cpp/segment.hpp>
#include <percpu/exemplar.h>
#include <percpu/histogram.h>
#include <percpu/timer.h>

namespace percpu
{

/** The options of a histogram, with their defaults: min, max, buckets_per_octave, bounds, ... */
struct histogram_options : percpu_histogram_options {
	histogram_options() noexcept : percpu_histogram_options()
	{
		size = sizeof(percpu_histogram_options);
	}
};

/** What a histogram had when it was read, as in C: count, sum, bucket[], ... It frees itself. */
struct snapshot_destroy {
	void operator()(percpu_histogram_snapshot *s) const noexcept
	{
		percpu_histogram_snapshot_destroy(s);
	}
};
using histogram_snapshot = std::unique_ptr<percpu_histogram_snapshot, snapshot_destroy>;

namespace detail
{

struct histogram_calls {
	using object = percpu_histogram;
	using options = histogram_options;
	static constexpr auto kind = PERCPU_METRIC_HISTOGRAM;
	static void describe(percpu_declaration &d, const histogram_options &o) noexcept
	{
		d.histogram = &o;
	}
	static int declare(percpu_segment *s, const percpu_metric &m, const histogram_options &o,
			   object **ret) noexcept
	{
		return percpu_segment_histogram(s, &m, &o, ret);
	}
	static int create(const histogram_options &o, object **ret) noexcept
	{
		return percpu_histogram_create(&o, ret);
	}
	static void destroy(object *h) noexcept
	{
		percpu_histogram_destroy(h);
	}
};

/* The metric has been declared before, in this process. */
struct exemplars_calls {
	using object = percpu_exemplars;
	using options = no_options;
	static int declare(percpu_segment *s, const percpu_metric &m, no_options,
			   object **ret) noexcept
	{
		return percpu_segment_exemplars(s, &m, ret);
	}
};

inline int histogram_read(const percpu_histogram *h, histogram_snapshot &ret) noexcept
{
	percpu_histogram_snapshot *made;
	int e = percpu_histogram_snapshot_create(h, &made);

	if (e != 0)
		return e;
	histogram_snapshot s(made);
	e = percpu_histogram_fetch(h, 0, s.get());
	if (e == 0)
		ret = std::move(s);
	return e;
}

} // namespace detail

/** What both kinds of histograms have: one histogram (histogram.h), which is read. */
template <class Calls> class basic_histogram : public handle<Calls>
{
      public:
	using handle<Calls>::handle;
	/** Read it. On an error the snapshot is NULL. */
	histogram_snapshot fetch(std::error_code &ec) const noexcept
	{
		histogram_snapshot s;

		ec = detail::code_of(detail::histogram_read(this->to, s));
		return s;
	}
	void zero(std::error_code &ec) const noexcept
	{
		ec = detail::code_of(percpu_histogram_zero(this->to, 0));
	}
#ifdef __cpp_exceptions
	histogram_snapshot fetch() const
	{
		histogram_snapshot s;

		detail::check_plain(detail::histogram_read(this->to, s));
		return s;
	}
	void zero() const
	{
		detail::check_plain(percpu_histogram_zero(this->to, 0));
	}
#endif
};

/** A histogram of numbers, such as bytes. The options decide whether they are doubles or ticks. */
class histogram : public basic_histogram<detail::histogram_calls>
{
      public:
	using basic_histogram::basic_histogram;
	[[gnu::always_inline]] void record(double v) const noexcept
	{
		percpu_histogram_record(to, v);
	}
	[[gnu::always_inline]] void record_ticks(uint64_t n) const noexcept
	{
		percpu_histogram_record_ticks(to, n);
	}
};

namespace detail
{

/* The name of a unit of time; NULL if it has none. */
template <class Unit> constexpr const char *unit_name() noexcept
{
	using period = typename Unit::period;

	return std::is_same_v<period, std::nano>	 ? "nanoseconds" :
	       std::is_same_v<period, std::micro>	 ? "microseconds" :
	       std::is_same_v<period, std::milli>	 ? "milliseconds" :
	       std::is_same_v<period, std::ratio<1>>	 ? "seconds" :
	       std::is_same_v<period, std::ratio<60>>	 ? "minutes" :
	       std::is_same_v<period, std::ratio<3600>>	 ? "hours" :
	       std::is_same_v<period, std::ratio<86400>> ? "days" :
							   nullptr;
}

/* How many ticks a unit has. */
template <class Tick, class Unit>
using ticks_of = std::ratio_divide<typename Unit::period, typename Tick::period>;

template <class Tick>
constexpr bool is_whole = !std::chrono::treat_as_floating_point_v<typename Tick::rep>;

} // namespace detail

/** The options of a histogram of durations: as of a histogram, with the ticks of its type. */
template <class Tick, class Unit> struct latency_options : histogram_options {
	latency_options() noexcept
	{
		if (detail::is_whole<Tick>)
			ticks_per_unit = static_cast<uint64_t>(detail::ticks_of<Tick, Unit>::num);
	}
};

namespace detail
{

/* A histogram of durations is declared with the unit of its type. */
template <class Tick, class Unit> struct latency_calls : histogram_calls {
	using options = latency_options<Tick, Unit>;
	static void describe(percpu_declaration &d, const options &o) noexcept
	{
		d.histogram = &o;
		d.unit = unit_name<Unit>();
	}
	static int declare(percpu_segment *s, percpu_metric m, const options &o,
			   object **ret) noexcept
	{
		m.unit = unit_name<Unit>();
		return percpu_segment_histogram(s, &m, &o, ret);
	}
};

} // namespace detail

/**
 * A histogram of durations. It is exported in Unit: the metric has its name as the unit, and
 * bounds, min and max are in it. It records whole Ticks, whose sums are exact, or doubles:
 *
 *	latency<>				  doubles of seconds
 *	latency<std::chrono::nanoseconds>	  whole nanoseconds, exported in seconds
 *	latency<std::chrono::microseconds, std::chrono::milliseconds>
 *
 * A duration in another unit is converted: a whole number to the Tick below, a double to the
 * nearest. A negative duration, or one whose count an int64_t cannot hold, is counted as refused.
 * But of doubles with own bounds, negative ones are recorded (histogram.h).
 */
template <class Tick = std::chrono::duration<double>, class Unit = std::chrono::seconds>
class latency : public basic_histogram<detail::latency_calls<Tick, Unit>>
{
	static_assert(!detail::is_whole<Tick> || detail::ticks_of<Tick, Unit>::den == 1,
		      "a unit has a whole number of ticks");
	static_assert(detail::unit_name<Unit>() != nullptr, "a unit from nanoseconds to days");

      public:
	/** Records the time from its creation to its end, by timer.h. It is neither copied nor
	 *  moved. */
	class [[nodiscard]] timer
	{
	      public:
		explicit timer(latency l) noexcept : of(l), begun(percpu_timer_start())
		{
		}
		timer(const timer &) = delete;
		timer &operator=(const timer &) = delete;
		~timer()
		{
			if constexpr (std::is_same_v<typename Unit::period, std::ratio<1>>)
				percpu_timer_record(begun, of.get());
			else
				of.record(
					std::chrono::duration<double>(percpu_timer_elapsed(begun)));
		}

	      private:
		const latency of;
		const percpu_timer begun;
	};

	using basic_histogram<detail::latency_calls<Tick, Unit>>::basic_histogram;
	template <class Rep, class Period>
	[[gnu::always_inline]] void record(std::chrono::duration<Rep, Period> d) const noexcept
	{
		using given = std::chrono::duration<Rep, Period>;
		using ratio = std::ratio_divide<Period, typename Tick::period>;

		if constexpr (!detail::is_whole<Tick> || !detail::is_whole<given>) {
			const std::chrono::duration<double, typename Unit::period> in_units = d;

			percpu_histogram_record(this->to, in_units.count());
		} else {
			int64_t ticks;

			if (__builtin_mul_overflow(d.count(), ratio::num, &ticks))
				ticks = -1;
			else if (ticks > 0) /* what is negative stays so, and is refused */
				ticks /= ratio::den;
			percpu_histogram_record_ticks(this->to, static_cast<uint64_t>(ticks));
		}
	}
	/** Return a timer: auto t = seconds.time(); */
	timer time() const noexcept
	{
		return timer(*this);
	}
};

/** The exemplars of a counter, a counter of doubles or a histogram of a segment (exemplar.h). */
class exemplars : public handle<detail::exemplars_calls>
{
      public:
	using handle::handle;
	/** Store the exemplar of an event, as percpu_exemplars_store(). */
	int store(double value, std::initializer_list<percpu_exemplar_label> labels) const noexcept
	{
		return percpu_exemplars_store(to, value, labels.begin(), labels.size());
	}
};

} // namespace percpu

#endif
