/* SPDX-License-Identifier: MIT */
/*
 * trace_json.c - events in Chrome's trace format (JSON), for Perfetto, Speedscope and
 * chrome://tracing.
 */
#include <inttypes.h>

#include "trace.h"

static uint64_t first_ns;
static bool any;

/* Return the length of the UTF-8 character at s, or 0 if it is none. */
static int utf8_length(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	int n = s[0] < 0x80	      ? 1 :
		(s[0] & 0xe0) == 0xc0 ? 2 :
		(s[0] & 0xf0) == 0xe0 ? 3 :
		(s[0] & 0xf8) == 0xf0 ? 4 :
					0;
	uint32_t c = n > 1 ? s[0] & (0x7fU >> n) : s[0];

	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) /* also the zero at the end */
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return n == 0 || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

/* Print a string. Each byte that is not UTF-8 becomes U+FFFD. */
static void put_string(const char *string)
{
	const unsigned char *s = (const unsigned char *)string;
	int n;

	putchar('"');
	for (; *s != 0; s += n > 0 ? n : 1) {
		n = utf8_length(s);
		if (n == 0)
			fputs("\\ufffd", stdout);
		else if (*s == '"' || *s == '\\') /* viewers support the short form best */
			printf("\\%c", *s);
		else if (*s < ' ')
			printf("\\u%04x", *s);
		else
			fwrite(s, 1, (size_t)n, stdout);
	}
	putchar('"');
}

void trace_json_begin(void)
{
	printf("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
}

/* Print an event. Times are microseconds since the first event: absolute ones exceed a double's
 * precision. */
void trace_json_event(const struct trace_seen *seen)
{
	const struct trace_event *e = &seen->event;
	uint64_t ns;

	if (!any)
		first_ns = seen->ns;
	ns = seen->ns - first_ns;
	printf("%s\n{\"name\":", any ? "," : "");
	put_string(e->name);
	printf(",\"ph\":\"%c\",\"ts\":%" PRIu64 ".%03u,\"pid\":%" PRIu32 ",\"tid\":%" PRIu32,
	       e->phase, ns / 1000, (unsigned)(ns % 1000), e->pid, e->tid);
	if (e->phase == TRACE_INSTANT)
		fputs(",\"s\":\"t\"", stdout); /* its scope: the thread */
	/* A counter has its value alone: a viewer charts each argument. */
	printf(",\"args\":{\"value\":%" PRId64, e->value);
	if (e->phase != TRACE_COUNTER)
		printf(",\"cpu\":%u", seen->cpu);
	fputs("}}", stdout);
	any = true;
}

void trace_json_end(uint64_t lost)
{
	printf("\n],\"otherData\":{\"lost\":%" PRIu64 "}}\n", lost);
}
