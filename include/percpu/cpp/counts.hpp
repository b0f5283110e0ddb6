/* SPDX-License-Identifier: MIT */
/* counts.hpp - counters, gauges, latest values and extrema. */
#ifndef PERCPU_CPP_COUNTS_HPP
#define PERCPU_CPP_COUNTS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <percpu/counter.h>
#include <percpu/cpp/segment.hpp>
#include <percpu/extrema.h>
#include <percpu/fcounter.h>
#include <percpu/gauge.h>

namespace percpu
{
namespace detail
{

/* Return the value that was fetched, or none. -ENODATA is no error: there is no value. */
template <class T> std::optional<T> fetched(int &e, const T &value) noexcept
{
	if (e == 0)
		return value;
	if (e == -ENODATA)
		e = 0;
	return std::nullopt;
}

/* What the calls of a kind without options have in common. */
struct plain_calls {
	using options = no_options;
	static void describe(percpu_declaration &, const no_options &) noexcept
	{
	}
};

struct counter_calls : plain_calls {
	using object = percpu_counter;
	static constexpr auto kind = PERCPU_METRIC_COUNTER;
	static int declare(percpu_segment *s, const percpu_metric &m, no_options,
			   object **ret) noexcept
	{
		return percpu_segment_counter(s, &m, ret);
	}
	static int create(no_options, object **ret) noexcept
	{
		return percpu_counter_create(ret);
	}
	static void destroy(object *c) noexcept
	{
		percpu_counter_destroy(c);
	}
};

struct fcounter_calls : plain_calls {
	using object = percpu_fcounter;
	static constexpr auto kind = PERCPU_METRIC_FCOUNTER;
	static int declare(percpu_segment *s, const percpu_metric &m, no_options,
			   object **ret) noexcept
	{
		return percpu_segment_fcounter(s, &m, ret);
	}
	static int create(no_options, object **ret) noexcept
	{
		return percpu_fcounter_create(ret);
	}
	static void destroy(object *c) noexcept
	{
		percpu_fcounter_destroy(c);
	}
};

struct gauge_calls : plain_calls {
	using object = percpu_gauge;
	static constexpr auto kind = PERCPU_METRIC_GAUGE;
	static int declare(percpu_segment *s, const percpu_metric &m, no_options,
			   object **ret) noexcept
	{
		return percpu_segment_gauge(s, &m, ret);
	}
	static int create(no_options, object **ret) noexcept
	{
		return percpu_gauge_create(ret);
	}
	static void destroy(object *g) noexcept
	{
		percpu_gauge_destroy(g);
	}
};

struct fgauge_calls : plain_calls {
	using object = percpu_fgauge;
	static constexpr auto kind = PERCPU_METRIC_FGAUGE;
	static int declare(percpu_segment *s, const percpu_metric &m, no_options,
			   object **ret) noexcept
	{
		return percpu_segment_fgauge(s, &m, ret);
	}
	static int create(no_options, object **ret) noexcept
	{
		return percpu_fgauge_create(ret);
	}
	static void destroy(object *g) noexcept
	{
		percpu_fgauge_destroy(g);
	}
};

struct latest_calls : plain_calls {
	using object = percpu_latest;
	static constexpr auto kind = PERCPU_METRIC_LATEST;
	static int declare(percpu_segment *s, const percpu_metric &m, no_options,
			   object **ret) noexcept
	{
		return percpu_segment_latest(s, &m, ret);
	}
	static int create(no_options, object **ret) noexcept
	{
		return percpu_latest_create(ret);
	}
	static void destroy(object *l) noexcept
	{
		percpu_latest_destroy(l);
	}
};

template <class T> struct extrema_calls {
	static_assert(std::is_same_v<T, int64_t> || std::is_same_v<T, double>,
		      "extrema are of int64_t or of double");
	using object = percpu_extrema;
	using options = no_options;
	static constexpr auto kind = PERCPU_METRIC_EXTREMA;
	static constexpr unsigned flags = std::is_same_v<T, double> ? PERCPU_EXTREMA_DOUBLE : 0;
	static void describe(percpu_declaration &d, const no_options &) noexcept
	{
		d.flags = flags;
	}
	static int declare(percpu_segment *s, const percpu_metric &m, no_options,
			   object **ret) noexcept
	{
		return percpu_segment_extrema(s, &m, flags, ret);
	}
	static int create(no_options, object **ret) noexcept
	{
		return percpu_extrema_create(flags, ret);
	}
	static void destroy(object *x) noexcept
	{
		percpu_extrema_destroy(x);
	}
};

} // namespace detail

/** A counter (counter.h). */
class counter : public handle<detail::counter_calls>
{
      public:
	using handle::handle;
	[[gnu::always_inline]] void add(int64_t n) const noexcept
	{
		percpu_counter_add(to, n);
	}
	[[gnu::always_inline]] void inc() const noexcept
	{
		percpu_counter_inc(to);
	}
	uint64_t fetch() const noexcept
	{
		return percpu_counter_fetch(to);
	}
	void zero() const noexcept
	{
		percpu_counter_zero(to);
	}
	uint64_t fetch_zero() const noexcept
	{
		return percpu_counter_fetch_zero(to);
	}
};

/** A counter of doubles (fcounter.h). */
class fcounter : public handle<detail::fcounter_calls>
{
      public:
	using handle::handle;
	[[gnu::always_inline]] int add(double n) const noexcept
	{
		return percpu_fcounter_add(to, n);
	}
	double fetch() const noexcept
	{
		return percpu_fcounter_fetch(to);
	}
	void zero() const noexcept
	{
		percpu_fcounter_zero(to);
	}
	double fetch_zero() const noexcept
	{
		return percpu_fcounter_fetch_zero(to);
	}
};

/** A gauge of integers (gauge.h). */
class gauge : public handle<detail::gauge_calls>
{
      public:
	using handle::handle;
	[[gnu::always_inline]] void add(int64_t n) const noexcept
	{
		percpu_gauge_add(to, n);
	}
	[[gnu::always_inline]] void sub(int64_t n) const noexcept
	{
		percpu_gauge_sub(to, n);
	}
	[[gnu::always_inline]] void inc() const noexcept
	{
		percpu_gauge_inc(to);
	}
	[[gnu::always_inline]] void dec() const noexcept
	{
		percpu_gauge_dec(to);
	}
	int set(int64_t v) const noexcept
	{
		return percpu_gauge_set(to, v);
	}
	int64_t fetch() const noexcept
	{
		return percpu_gauge_fetch(to);
	}
};

/** A gauge of doubles (gauge.h). */
class fgauge : public handle<detail::fgauge_calls>
{
      public:
	using handle::handle;
	[[gnu::always_inline]] int add(double n) const noexcept
	{
		return percpu_fgauge_add(to, n);
	}
	[[gnu::always_inline]] int sub(double n) const noexcept
	{
		return percpu_fgauge_sub(to, n);
	}
	int set(double v) const noexcept
	{
		return percpu_fgauge_set(to, v);
	}
	double fetch() const noexcept
	{
		return percpu_fgauge_fetch(to);
	}
};

/** A value that is only ever set (gauge.h). */
class latest : public handle<detail::latest_calls>
{
      public:
	struct reading {
		double value;
		std::chrono::system_clock::time_point when; /* it was set */
	};

	using handle::handle;
	int set(double v) const noexcept
	{
		return percpu_latest_set(to, v);
	}
	/** Read it; nothing if it was never set. */
	std::optional<reading> fetch(std::error_code &ec) const noexcept
	{
		int e;
		const auto r = read(e);

		ec = detail::code_of(e);
		return r;
	}
#ifdef __cpp_exceptions
	std::optional<reading> fetch() const
	{
		int e;
		const auto r = read(e);

		detail::check_plain(e);
		return r;
	}
#endif

      private:
	std::optional<reading> read(int &e) const noexcept
	{
		using std::chrono::system_clock;
		reading r = {};
		uint64_t ns = 0;

		e = percpu_latest_fetch(to, &r.value, &ns);
		r.when += std::chrono::duration_cast<system_clock::duration>(
			std::chrono::nanoseconds(static_cast<int64_t>(ns)));
		return detail::fetched(e, r);
	}
};

/** The minimum and the maximum of what was observed (extrema.h): of int64_t or of double. */
template <class T> class extrema : public handle<detail::extrema_calls<T>>
{
      public:
	struct range {
		T min, max;
	};

	using handle<detail::extrema_calls<T>>::handle;
	[[gnu::always_inline]] int observe(T v) const noexcept
	{
		if constexpr (std::is_same_v<T, double>)
			return percpu_extrema_observe_double(this->to, v);
		else
			return percpu_extrema_observe(this->to, v);
	}
	/** Read both; nothing if nothing was observed. */
	std::optional<range> fetch(std::error_code &ec) const noexcept
	{
		int e;
		const auto r = read(e);

		ec = detail::code_of(e);
		return r;
	}
	void reset(std::error_code &ec) const noexcept
	{
		ec = detail::code_of(percpu_extrema_reset(this->to));
	}
#ifdef __cpp_exceptions
	std::optional<range> fetch() const
	{
		int e;
		const auto r = read(e);

		detail::check_plain(e);
		return r;
	}
	void reset() const
	{
		detail::check_plain(percpu_extrema_reset(this->to));
	}
#endif

      private:
	std::optional<range> read(int &e) const noexcept
	{
		range r = {};

		if constexpr (std::is_same_v<T, double>)
			e = percpu_extrema_fetch_double(this->to, &r.min, &r.max);
		else
			e = percpu_extrema_fetch(this->to, &r.min, &r.max);
		return detail::fetched(e, r);
	}
};

} // namespace percpu

#endif
