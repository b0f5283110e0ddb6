/* SPDX-License-Identifier: MIT */
/*
 * wbuf.c - counters that are fields of a program's own objects: adds wait in a buffer, and are
 * applied together.
 *
 *	cc wbuf.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/wbuf.h>

static struct session {
	char name[24];
	uint64_t packets PERCPU_ALIGNED_WORD, bytes;
} session = { .name = "one" };

int main(void)
{
	uint64_t *const cells[] = { &session.packets, &session.bytes };
	struct percpu_wbuf *w;
	uint64_t now[2];
	int e = percpu_wbuf_create(NULL, &w);

	for (int i = 0; i < 1000 && e == 0; i++) {
		/* percpu_wbuf_read() sees both adds, or neither. */
		const struct percpu_wbuf_entry adds[] = {
			percpu_wbuf_entry_u64(&session.packets, 1),
			percpu_wbuf_entry_u64(&session.bytes, 64),
		};

		e = percpu_wbuf_add_n(w, adds, 2);
	}
	if (e != 0) {
		fprintf(stderr, "wbuf: %s\n", strerror(-e));
		return 1;
	}
	percpu_wbuf_read(w, cells, 2, now);
	printf("%s: %" PRIu64 " packets, %" PRIu64 " bytes\n", session.name, now[0], now[1]);
	percpu_wbuf_destroy(w);
	return now[1] != 64 * now[0] || now[0] != 1000;
}
