/* SPDX-License-Identifier: MIT */
/* error.hpp - errors of calls in C++. */
#ifndef PERCPU_CPP_ERROR_HPP
#define PERCPU_CPP_ERROR_HPP

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <percpu/error.h>

namespace percpu
{

/** Why a call failed. what() is the library's sentence. code() has the error number, in
 *  std::generic_category(). */
class error : public std::system_error
{
      public:
	/** e is -errno; text is copied. */
	error(int e, const char *text)
		: std::system_error(-e, std::generic_category()), sentence(text)
	{
	}
	const char *what() const noexcept override
	{
		return sentence.what();
	}

      private:
	std::runtime_error sentence; /* a string whose copies throw nothing */
};

namespace detail
{

/* Convert 0 or -errno. */
inline std::error_code code_of(int e) noexcept
{
	return { -e, std::generic_category() };
}

#ifdef __cpp_exceptions
/* Throw if a call failed for which percpu_error() has a sentence. Without memory for a sentence it
 * is "". */
inline void check(int e)
{
	if (e != 0) {
		const char *sentence = percpu_error();

		throw error(e, *sentence ? sentence : percpu_strerror(e));
	}
}

/* Throw if another call failed. */
inline void check_plain(int e)
{
	if (e != 0)
		throw error(e, percpu_strerror(e));
}
#endif

} // namespace detail
} // namespace percpu

#endif
