/* SPDX-License-Identifier: MIT */
/*
 * text.h - texts of a program or a file, which can have any bytes.
 */
#ifndef PERCPU_SRC_TEXT_H
#define PERCPU_SRC_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/** Return whether a text of n bytes is UTF-8 without a 0. */
bool percpu_text_is_utf8(const char *text, size_t n);

/** Return how many bytes of a text of n bytes a sentence shows: at most so many, and no part of a
 *  character. */
int percpu_text_shown(const char *text, size_t n, size_t most);

/** Replace bytes that are not UTF-8, and those of control characters, each by '?'. */
void percpu_text_make_printable(char *text);

#endif
