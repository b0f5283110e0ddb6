/* SPDX-License-Identifier: MIT */
/* stats.hpp - statistics: counters of a struct, which are updated and read together. */
#ifndef PERCPU_CPP_STATS_HPP
#define PERCPU_CPP_STATS_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <percpu/cpp/segment.hpp>
#include <percpu/stats.h>

namespace percpu
{

namespace detail
{

inline int stats_declare(percpu_segment *s, const metric &m, const char *label,
			 const char *const *names, size_t n, percpu_stats **ret) noexcept
{
	const percpu_metric in_c = m.get();
	percpu_metric_fields f = {};

	f.size = sizeof(f);
	f.label = label;
	f.names = names;
	f.n = n;
	return percpu_segment_stats(s, &in_c, &f, 0, ret);
}

/* Converts to uint64_t, and to nothing else. */
struct word {
	template <class T, class = std::enable_if_t<std::is_same_v<T, uint64_t>>>
	operator T() const noexcept;
};

/* An array of words needs no braces of its own here. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-braces"

/* Return whether T can be initialized by as many words. With more than it has fields, it cannot. */
template <class T, size_t... I>
auto is_of(std::index_sequence<I...>)
	-> decltype(T{ (static_cast<void>(I), word())... }, std::true_type());
template <class T> std::false_type is_of(...);

#pragma GCC diagnostic pop

template <class T, size_t N>
constexpr bool is_of_words = decltype(is_of<T>(std::make_index_sequence<N>()))::value;

/* The calls in C for one object of a struct in memory of this process. */
template <class T> struct stats_calls {
	using object = percpu_stats;
	using options = no_options;
	static int create(no_options, object **ret) noexcept
	{
		return percpu_stats_create(sizeof(T), 1, 0, ret);
	}
	static void destroy(object *s) noexcept
	{
		percpu_stats_destroy(s);
	}
};

} // namespace detail

/**
 * Statistics (stats.h) of a struct T whose fields are uint64_t and arrays of uint64_t: one object.
 *
 *	struct port { uint64_t packets, bytes; };
 *	percpu::stats<port> ports{ file, "port_events_total", "event", { "packets", "bytes" } };
 *
 *	ports.add(&port::packets, 1);
 *	ports.update({ 1, length });
 */
template <class T> class stats
{
	static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> &&
			      std::is_aggregate_v<T> && sizeof(T) % 8 == 0 &&
			      detail::is_of_words<T, sizeof(T) / 8> &&
			      !detail::is_of_words<T, sizeof(T) / 8 + 1>,
		      "statistics are of a struct of uint64_t");
	static_assert(sizeof(T) <= 8 * PERCPU_STATS_MAX_COMMIT,
		      "statistics have at most PERCPU_STATS_MAX_COMMIT fields");

      public:
	using calls = detail::stats_calls<T>;
	using object = percpu_stats;
	using options = no_options;

	constexpr stats() noexcept = default;
	constexpr explicit stats(object *o) noexcept : to(o)
	{
	}
	/** Declare them in a segment. Each field is a series, which has one of these names as the
	 *  value of that label. */
	template <size_t N>
	stats(segment &s, const metric &m, const char *label, const char *const (&names)[N],
	      std::error_code &ec) noexcept
	{
		static_assert(N == sizeof(T) / 8,
			      "statistics have one name per field of the struct");
		ec = detail::code_of(detail::stats_declare(s.get(), m, label, names, N, &to));
	}
#ifdef __cpp_exceptions
	template <size_t N>
	stats(segment &s, const metric &m, const char *label, const char *const (&names)[N])
	{
		static_assert(N == sizeof(T) / 8,
			      "statistics have one name per field of the struct");
		detail::check(detail::stats_declare(s.get(), m, label, names, N, &to));
	}
#endif
	constexpr explicit operator bool() const noexcept
	{
		return to != nullptr;
	}
	constexpr object *get() const noexcept
	{
		return to;
	}

	/** Add n to a field, as percpu_stats_add(). */
	[[gnu::always_inline]] void add(uint64_t T::*field, int64_t n) const noexcept
	{
		percpu_stats_add(to, 0, offset_of(field) / 8, n);
	}
	/** Add n to element i of a field that is an array. i must be below N. */
	template <size_t N>
	[[gnu::always_inline]] void add(uint64_t (T::*field)[N], size_t i, int64_t n) const noexcept
	{
		percpu_stats_add(to, 0, offset_of(field) / 8 + i, n);
	}
	/** Add each field of delta, with one commit, as percpu_stats_update(). */
	[[gnu::always_inline]] int update(const T &delta) const noexcept
	{
		return percpu_stats_update(to, 0, 0, reinterpret_cast<const uint64_t *>(&delta),
					   sizeof(T) / 8);
	}

	/** Read each field by itself. */
	T fetch(std::error_code &ec) const noexcept
	{
		return read(percpu_stats_fetch, ec);
	}
	/** Read all fields as they were at one moment. */
	T snapshot(std::error_code &ec) const noexcept
	{
		return read(percpu_stats_snapshot, ec);
	}
	/** Take a snapshot, and reset. */
	T fetch_zero(std::error_code &ec) const noexcept
	{
		return read(percpu_stats_fetch_zero, ec);
	}
#ifdef __cpp_exceptions
	T fetch() const
	{
		return read(percpu_stats_fetch);
	}
	T snapshot() const
	{
		return read(percpu_stats_snapshot);
	}
	T fetch_zero() const
	{
		return read(percpu_stats_fetch_zero);
	}
#endif

      private:
	using reading = int(const percpu_stats *, size_t, size_t, void *);

	template <class Field> static size_t offset_of(Field T::*field) noexcept
	{
		const T some = {};

		return static_cast<size_t>(reinterpret_cast<const char *>(&(some.*field)) -
					   reinterpret_cast<const char *>(&some));
	}
	T read(reading *call, std::error_code &ec) const noexcept
	{
		T values = {};

		ec = detail::code_of(call(to, 0, 1, &values));
		return values;
	}
#ifdef __cpp_exceptions
	T read(reading *call) const
	{
		T values = {};

		detail::check_plain(call(to, 0, 1, &values));
		return values;
	}
#endif

	object *to = nullptr;
};

} // namespace percpu

#endif
