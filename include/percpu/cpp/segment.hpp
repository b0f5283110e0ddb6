/* SPDX-License-Identifier: MIT */
/* segment.hpp - segments, metrics, handles, and owners of single objects. */
#ifndef PERCPU_CPP_SEGMENT_HPP
#define PERCPU_CPP_SEGMENT_HPP

#include <cstddef>
#include <utility>

#include <percpu/cpp/error.hpp>
#include <percpu/declare.h>
#include <percpu/segment.h>

namespace percpu
{

/**
 * The description of a metric: its name, and what is added to it.
 *
 *	percpu::metric("hello_requests_total").help("Answered requests.").label("code", "200")
 *
 * Each call returns a new description. It has pointers to the texts, which must stay until the
 * metric is declared.
 */
class metric
{
      public:
	metric(const char *name) noexcept
	{
		m.size = sizeof(m);
		m.name = name;
	}
	[[nodiscard]] metric help(const char *text) const noexcept
	{
		metric with = *this;

		with.m.help = text;
		return with;
	}
	[[nodiscard]] metric unit(const char *name) const noexcept
	{
		metric with = *this;

		with.m.unit = name;
		return with;
	}
	/** Add a label. A declaration with more than PERCPU_METRIC_LABELS of them fails: E2BIG. */
	[[nodiscard]] metric label(const char *name, const char *value) const noexcept
	{
		metric with = *this;

		if (m.labels < PERCPU_METRIC_LABELS) {
			with.names[m.labels] = name;
			with.values[m.labels] = value;
		}
		with.m.labels++;
		return with;
	}
	/** Return the description in C. It is valid while this one is. */
	percpu_metric get() const noexcept
	{
		percpu_metric in_c = m;

		if (m.labels != 0) {
			in_c.label_names = names;
			in_c.label_values = values;
		}
		return in_c;
	}

      private:
	percpu_metric m = {}; /* without the arrays of labels */
	const char *names[PERCPU_METRIC_LABELS] = {};
	const char *values[PERCPU_METRIC_LABELS] = {};
};

/** The options of a segment, with their defaults: cpus, mode, program. */
struct segment_options : percpu_segment_options {
	segment_options() noexcept : percpu_segment_options()
	{
		size = sizeof(percpu_segment_options);
	}
};

/** A segment, which owns the objects of all metrics that were declared in it. */
class segment
{
      public:
	segment() noexcept = default;
#ifdef __cpp_exceptions
	/** Open a segment, as percpu_segment_open(). flags are those of enum percpu_segment_flags.
	 *  */
	explicit segment(const char *name, unsigned flags = PERCPU_SEGMENT_CREATE,
			 const segment_options &o = {})
	{
		detail::check(percpu_segment_open(name, flags, &o, &object));
	}
#endif
	segment(const char *name, unsigned flags, const segment_options &o,
		std::error_code &ec) noexcept
	{
		ec = detail::code_of(percpu_segment_open(name, flags, &o, &object));
	}
	segment(const char *name, std::error_code &ec) noexcept
		: segment(name, PERCPU_SEGMENT_CREATE, {}, ec)
	{
	}
	/** Take over a segment that was opened in C. */
	explicit segment(percpu_segment *s) noexcept : object(s)
	{
	}
	segment(segment &&from) noexcept : object(std::exchange(from.object, nullptr))
	{
	}
	segment &operator=(segment &&from) noexcept
	{
		segment old(std::move(from));

		std::swap(object, old.object);
		return *this;
	}
	/** Close it, as percpu_segment_close(): no thread may be using its handles. */
	~segment()
	{
		percpu_segment_close(object);
	}

	explicit operator bool() const noexcept
	{
		return object != nullptr;
	}
	percpu_segment *get() const noexcept
	{
		return object;
	}

#ifdef __cpp_exceptions
	/** Take a slot among the owners, as percpu_segment_join(). */
	void join(const char *name, unsigned flags = 0)
	{
		detail::check(percpu_segment_join(object, name, flags));
	}
	/** Declare a metric that tells by its labels alone. */
	void info(const metric &m)
	{
		const percpu_metric in_c = m.get();

		detail::check(percpu_segment_info(object, &in_c));
	}
#endif
	void join(const char *name, unsigned flags, std::error_code &ec) noexcept
	{
		ec = detail::code_of(percpu_segment_join(object, name, flags));
	}
	void info(const metric &m, std::error_code &ec) noexcept
	{
		const percpu_metric in_c = m.get();

		ec = detail::code_of(percpu_segment_info(object, &in_c));
	}

      private:
	percpu_segment *object = nullptr;
};

/** The options of a kind that has none. */
struct no_options {
};

/**
 * A handle: a pointer to an object that a segment or a unique<> owns. Calls has the calls in C of
 * the kind: declare() in a segment, create() in memory of this process, destroy().
 */
template <class Calls> class handle
{
      public:
	using calls = Calls;
	using object = typename Calls::object;
	using options = typename Calls::options;

	constexpr handle() noexcept = default;
	constexpr explicit handle(object *o) noexcept : to(o)
	{
	}
#ifdef __cpp_exceptions
	/** Find or create the object of a metric of the segment. */
	handle(segment &s, const metric &m, const options &o = {})
	{
		detail::check(Calls::declare(s.get(), m.get(), o, &to));
	}
#endif
	handle(segment &s, const metric &m, const options &o, std::error_code &ec) noexcept
	{
		ec = detail::code_of(Calls::declare(s.get(), m.get(), o, &to));
	}
	handle(segment &s, const metric &m, std::error_code &ec) noexcept : handle(s, m, {}, ec)
	{
	}

	constexpr explicit operator bool() const noexcept
	{
		return to != nullptr;
	}
	/** Return the object, for calls in C. */
	constexpr object *get() const noexcept
	{
		return to;
	}

      protected:
	object *to = nullptr;
};

/** The owner of one object in memory of this process; or of none. */
template <class Kind> class unique
{
      public:
	unique() noexcept = default;
	/** Take over an object that was created in C. */
	explicit unique(typename Kind::object *o) noexcept : kind(o)
	{
	}
	unique(unique &&from) noexcept : kind(std::exchange(from.kind, Kind()))
	{
	}
	unique &operator=(unique &&from) noexcept
	{
		unique old(std::move(from));

		std::swap(kind, old.kind);
		return *this;
	}
	/** Free the object: no thread may be using it. */
	~unique()
	{
		if (kind)
			Kind::calls::destroy(kind.get());
	}

	explicit operator bool() const noexcept
	{
		return static_cast<bool>(kind);
	}
	const Kind *operator->() const noexcept
	{
		return &kind;
	}
	/** Return the handle. That of a temporary owner would be of no object. */
	const Kind &operator*() const &noexcept
	{
		return kind;
	}
	const Kind &operator*() const && = delete;

      private:
	Kind kind;
};

/** Create an object in memory of this process, such as make<percpu::counter>(). */
template <class Kind>
[[nodiscard]] unique<Kind> make(const typename Kind::options &o, std::error_code &ec) noexcept
{
	typename Kind::object *made = nullptr;

	ec = detail::code_of(Kind::calls::create(o, &made));
	return unique<Kind>(made);
}

template <class Kind> [[nodiscard]] unique<Kind> make(std::error_code &ec) noexcept
{
	return make<Kind>({}, ec);
}

#ifdef __cpp_exceptions
template <class Kind> [[nodiscard]] unique<Kind> make(const typename Kind::options &o = {})
{
	typename Kind::object *made = nullptr;

	detail::check_plain(Kind::calls::create(o, &made));
	return unique<Kind>(made);
}
#endif

} // namespace percpu

#endif
