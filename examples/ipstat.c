/* SPDX-License-Identifier: MIT */
/*
 * ipstat.c - count packets with many threads of many processes at once.
 *
 * Worker processes, forked as a web server forks them, take packets from an interface or a
 * capture file and count them per protocol, as FreeBSD counts in struct ipstat and struct
 * tcpstat. The counters are one array in a shared region: all workers add to it, at the cost of
 * a plain addition each. Other programs may read it, also when the workers are dead.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipstat.h"

static const char usage[] =
	"usage: ipstat -i INTERFACE | -r FILE | --attach PATH | --demo\n"
	"\n"
	"  -i INTERFACE   count the packets that an interface sees, until Ctrl-C\n"
	"  -r FILE        count the packets in a capture file\n"
	"  -p PROCESSES   worker processes (3)\n"
	"  -t THREADS     threads in each (2)\n"
	"  -s SECONDS     stop after so long; with --attach: watch so long\n"
	"  -o PATH        keep the counters in this file, and leave it there;\n"
	"                 without: in /dev/shm, until the program ends\n"
	"  --attach PATH  show the counters in a file of another ipstat\n"
	"  --demo         make traffic, count it, kill a worker, check the totals,\n"
	"                 and compare with racy and with atomic counting\n"
	"  --help         this text\n"
	"\n"
	"Exit status: 0 all is well, 1 a check failed, 2 it could not be done.\n";

enum { MOST_WORKERS = 256 }; /* as many sockets fit into a fanout group */

static volatile sig_atomic_t signaled;

static void on_signal(int number)
{
	(void)number;
	signaled = 1;
}

bool interrupted(void)
{
	return signaled;
}

void complain(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "ipstat: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
}

static const char *attach_error(int err)
{
	switch (err) {
	case -EBADMSG:
	case -EISDIR:
		return "this is no file of counters; \"ipstat -o PATH\" makes one";
	case -EPROTO:
	case -ERANGE:
		return "a file of another version or another machine";
	case -ENODATA:
		return "a file of counters, but not of ipstat's";
	default:
		return strerror(-err);
	}
}

static int attach_open(const char *path, struct percpu_region **ret_region,
		       struct percpu_counter_array **ret)
{
	int err = percpu_region_open(path, 0, NULL, ret_region);

	if (err)
		return err;
	err = percpu_counter_array_open(*ret_region, 0, FIELDS, ret);
	if (err) {
		percpu_region_close(*ret_region);
		return err == -ENOENT || err == -EEXIST ? -ENODATA : err;
	}
	return 0;
}

/* Show the counters of other processes, which may have ended. */
static int attach(const struct options *o)
{
	struct percpu_region *region;
	struct percpu_counter_array *counters;
	struct picture picture;
	struct counts c;
	int err = attach_open(o->attach, &region, &counters);

	if (err) {
		complain("cannot attach to %s: %s", o->attach, attach_error(err));
		return EXIT_USAGE;
	}
	show_start(&picture);
	do {
		percpu_counter_array_fetch_all(counters, (uint64_t *)&c);
		show_update(&picture, &c);
		if (o->seconds)
			usleep(50000);
	} while (!interrupted() && now() - picture.start < o->seconds);
	show_totals(&c);
	percpu_counter_array_detach(counters);
	percpu_region_close(region);
	return EXIT_OK;
}

/* Check that all captured packets are counted, but for those that killed workers had in hand. */
static bool print_account(const struct session *s, const struct counts *c)
{
	uint64_t doubtful = s->crew.board->doubtful, total = c->link.links_total;
	struct ring_totals t;

	if (doubtful)
		printf("%" PRIu64 " packets were in the hands of killed workers: counted, in part "
		       "counted or not\n",
		       doubtful);
	if (!s->crew.rings)
		return true;
	rings_totals(s->crew.rings, s->crew.processes * s->crew.threads, &t);
	printf("captured %" PRIu64 ", dropped for want of room %" PRIu64 "\n", t.captured,
	       t.dropped);
	return total <= t.captured && t.captured - total <= doubtful;
}

static int count_in(const struct options *o, struct session *s)
{
	struct counts c;
	bool started = session_start(s) == 0;

	while (started && !interrupted() && session_step(s))
		if (o->seconds && now() - s->picture.start >= o->seconds)
			break;
	session_finish(s);
	session_read(s, &c);
	show_totals(&c);
	if (!print_account(s, &c)) {
		complain("the counts do not match what was captured");
		return EXIT_WRONG;
	}
	return started && !s->crew.failed ? EXIT_OK : EXIT_USAGE;
}

static int count(const struct options *o)
{
	struct session s;
	int status;

	if (session_open(o, &s))
		return EXIT_USAGE;
	(void)percpu_selftest(); /* wait for the verdict, to print the final tier */
	printf("counting with %u processes of %u threads, tier %s, in %s\n", o->processes,
	       o->threads, percpu_tier_name(percpu_status()->tier), s.path);
	fflush(stdout);
	status = count_in(o, &s);
	session_close(&s);
	return status;
}

static unsigned number(char option, const char *text, unsigned long most)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || n == 0 || n > most) {
		complain("-%c wants a number from 1 to %lu, not \"%s\"", option, most, text);
		exit(EXIT_USAGE);
	}
	return (unsigned)n;
}

static struct options parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "attach", required_argument, NULL, 'A' },
		{ "demo", no_argument, NULL, 'D' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { .processes = 3, .threads = 2 };
	int c;

	while ((c = getopt_long(argc, argv, "i:r:p:t:s:o:h", longs, NULL)) != -1) {
		switch (c) {
		case 'i':
			o.interface = optarg;
			break;
		case 'r':
			o.file = optarg;
			break;
		case 'p':
			o.processes = number('p', optarg, MOST_WORKERS);
			break;
		case 't':
			o.threads = number('t', optarg, MOST_WORKERS);
			break;
		case 's':
			o.seconds = number('s', optarg, 86400);
			break;
		case 'o':
			o.region = optarg;
			break;
		case 'A':
			o.attach = optarg;
			break;
		case 'D':
			o.demo = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(EXIT_OK);
		default:
			complain("see ipstat --help");
			exit(EXIT_USAGE);
		}
	}
	if (optind < argc) {
		complain("what is \"%s\"? see ipstat --help", argv[optind]);
		exit(EXIT_USAGE);
	}
	if (!!o.interface + !!o.file + !!o.attach + o.demo != 1) {
		complain("say one of -i INTERFACE, -r FILE, --attach PATH, --demo; see --help");
		exit(EXIT_USAGE);
	}
	if (o.processes * o.threads > MOST_WORKERS) {
		complain("-p times -t is more than %d", MOST_WORKERS);
		exit(EXIT_USAGE);
	}
	return o;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct options o = parse(argc, argv);

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (o.attach)
		return attach(&o);
	if (o.demo)
		return demo(&o);
	return count(&o);
}
