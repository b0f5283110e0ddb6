/* SPDX-License-Identifier: MIT */
/*
 * text.h - texts of a program or a file, which can have any bytes.
 */
#ifndef PERCPU_SRC_TEXT_H
#define PERCPU_SRC_TEXT_H

#include <stdbool.h>

/** Return whether the text is UTF-8. */
bool percpu_text_is_utf8(const char *text);

/** Replace bytes that are not UTF-8, and those of control characters, each by '?'. */
void percpu_text_make_printable(char *text);

#endif
