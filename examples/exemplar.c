/* SPDX-License-Identifier: MIT */
/*
 * exemplar.c - requests with the id of a trace: which one was slow?
 *
 *	cc exemplar.c $(pkg-config --cflags --libs percpu)
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>

/* Serve a request, and return how many seconds that took. */
static double serve(int i)
{
	return i % 250 == 77 ? 0.4 : 0.003;
}

int main(void)
{
	struct percpu_exemplars *x = NULL;
	struct percpu_histogram *h = NULL;
	struct percpu_exemplar slow;
	char id[32];
	int e = percpu_histogram_create(NULL, &h);

	if (e == 0)
		e = percpu_exemplars_create(h, &x);
	for (int i = 0; i < 1000 && e == 0; i++) {
		const double took = serve(i);

		percpu_histogram_record(h, took);
		snprintf(id, sizeof(id), "trace-%d", i);
		(void)percpu_exemplars_store(x, took,
					     &(struct percpu_exemplar_label){ "trace_id", id }, 1);
	}
	if (e != 0) {
		fprintf(stderr, "exemplar: %s\n", percpu_strerror(e));
		return 1;
	}
	for (size_t i = 0; (e = percpu_exemplars_fetch(x, i, &slow)) != -EINVAL; i++)
		if (e == 0 && slow.labels == 1)
			printf("%g s: %s %s\n", slow.value, slow.text + slow.label_names[0],
			       slow.text + slow.label_values[0]);
	percpu_exemplars_destroy(x);
	percpu_histogram_destroy(h);
	return 0;
}
