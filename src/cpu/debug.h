/* SPDX-License-Identifier: MIT */
/*
 * debug.h - debug modes of objects: the PERCPU_..._DEBUG flags, and PERCPU_DEBUG=1 in the
 * environment, which turns all of them on.
 *
 * Only these functions of the library print, and only percpu_debug_die() aborts.
 */
#ifndef PERCPU_SRC_DEBUG_H
#define PERCPU_SRC_DEBUG_H

/** Return the flags, with the debug flag as well if PERCPU_DEBUG is 1 in the environment. */
unsigned percpu_debug_flags(unsigned flags, unsigned debug);

/** Print "libpercpu: ", the text and a line feed to standard error, up to 500 bytes, made
 *  printable (text.h). */
void percpu_debug_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Do the same, and abort. */
void percpu_debug_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
