/* SPDX-License-Identifier: MIT */
/*
 * percpu-show.c - print all metrics of a segment, with the counts of all processes: as text for
 * Prometheus, or as JSON. Metrics without a value are left out.
 *
 *	percpu-show [--json] SEGMENT
 */
#include <stdio.h>
#include <string.h>

#include <percpu/reader.h>

int main(int argc, char **argv)
{
	const bool json = argc == 3 && strcmp(argv[1], "--json") == 0;
	struct percpu_reader_info info = { .missing = 0 };
	struct percpu_reader *r = NULL;

	if (argc != (json ? 3 : 2) || *argv[argc - 1] == '-')
		return fputs("usage: percpu-show [--json] SEGMENT\n", stderr) < 0 ? 1 : 2;
	if (percpu_reader_open(argv[argc - 1], &r) != 0 || percpu_reader_read(r) != 0)
		return fprintf(stderr, "percpu-show: %s\n", percpu_error()) < 0 ? 2 : 1;
	if (percpu_reader_info(r, &info) == 0 && info.missing != 0)
		fprintf(stderr, "percpu-show: %s\n", percpu_error());
	if (percpu_reader_print(r, stdout, json ? PERCPU_PRINT_JSON : PERCPU_PRINT_PROMETHEUS) != 0)
		return fputs("percpu-show: the output cannot be written\n", stderr) < 0 ? 2 : 1;
	percpu_reader_close(r);
	return 0;
}
