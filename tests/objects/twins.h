/* SPDX-License-Identifier: MIT */
/* twins.h - the functions that twins.c has by the calls in C, and twins.cc by the classes of C++. A
 * handle of C++ is passed as the pointer in C is. */
#ifndef TESTS_OBJECTS_TWINS_H
#define TESTS_OBJECTS_TWINS_H

#include <stdint.h>

struct port {
	uint64_t packets, bytes, drops, errors;
};

#endif
