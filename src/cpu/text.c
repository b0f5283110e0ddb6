/* SPDX-License-Identifier: MIT */
/*
 * text.c - texts of a program or a file, which can have any bytes.
 */
#include <stdint.h>
#include <string.h>

#include "text.h"

/* Return how many bytes the character of UTF-8 has that a text of left bytes begins with; 0 if it is
 * not valid. */
static size_t character_size(const char *text, size_t left)
{
	const unsigned char *const s = (const unsigned char *)text;
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t code = n == 1 ? *s : *s & (0x7fU >> n);

	if (n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return n == 0 || code < least[n] || code > 0x10ffff || code >> 11 == 0x1b ? 0 : n;
}

bool percpu_text_is_utf8(const char *text, size_t n)
{
	size_t size;

	for (; n != 0; text += size, n -= size) {
		size = *text != '\0' ? character_size(text, n) : 0;
		if (size == 0)
			return false;
	}
	return true;
}

int percpu_text_shown(const char *text, size_t n, size_t most)
{
	if (n <= most)
		return (int)n;
	while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
		most--;
	return (int)most;
}

/* Return whether the character is a control character. Those from U+0080 to U+009f begin with the
 * byte 0xc2. */
static bool is_control(const char *text)
{
	const unsigned char *const s = (const unsigned char *)text;

	return s[0] < ' ' || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

void percpu_text_make_printable(char *text)
{
	size_t n;

	for (size_t left = strlen(text); left != 0; text += n, left -= n) {
		n = character_size(text, left);
		if (n != 0 && !is_control(text))
			continue;
		n = n == 0 ? 1 : n;
		memset(text, '?', n);
	}
}
