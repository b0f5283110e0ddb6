/* SPDX-License-Identifier: MIT */
/*
 * l2fwd.c - a DPDK forwarder that counts each packet, in several ways, and another process that
 * reads the counters meanwhile. For instance
 *
 *	l2fwd --count ours --seconds 10 -o /dev/shm/ports &
 *	l2fwd --read /dev/shm/ports --seconds 5
 *	l2fwd --count all
 *	l2fwd --count all --rate 10
 *	l2fwd --count ours --seconds 60 --telemetry ports &
 *	echo /l2fwd/port,0 | dpdk-telemetry.py -f ports
 *
 * Counters like those of rte_lcore_var need an lcore id, which a control thread does not have,
 * and another process cannot see them. Ours are per CPU, so any thread counts, and are in a
 * file.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "l2fwd.h"

static const char usage[] =
	"usage: l2fwd [--count WAY] [OPTION...]\n"
	"       l2fwd --read PATH [--snapshot] [--seconds N]\n"
	"\n"
	"  -c, --count WAY     none, lcore, ours, ours-adds, ours-whole, ours-burst,\n"
	"                      atomic, racy;\n"
	"                      all: each of them in turn, and a table (all)\n"
	"  -n, --counters N    4 or 16 per packet (4; a table has both)\n"
	"  -s, --seconds N     for so long, each way, or until Ctrl-C (1)\n"
	"  -r, --rate MPPS     at this rate of all lcores, which sleep between packets;\n"
	"                      a table then has the share of the CPUs that they use\n"
	"  -d, --device NAME   ring or null: DPDK's net_ring or net_null (ring)\n"
	"  -l, --lcores N      so many (as CPUs, but at least 2 and at most 16)\n"
	"  -o PATH             keep the counters of ours in this file\n"
	"      --telemetry PREFIX  answer /l2fwd/ports and /l2fwd/port,N at DPDK's\n"
	"                      telemetry socket of this file prefix\n"
	"      --read PATH     show the counters in the file of another l2fwd, once\n"
	"                      or for so many seconds\n"
	"      --snapshot      as of one moment each; needs to write there\n"
	"      --help          this text\n"
	"\n"
	"Exit status: 0 all is well, 1 a count was wrong, 2 it could not be done.\n";

static const char *const ways[WAYS] = { "none",	      "lcore",	    "ours",   "ours-adds",
					"ours-whole", "ours-burst", "atomic", "racy" };

const char *way_name(enum way way)
{
	return ways[way];
}

void complain(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "l2fwd: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
}

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

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned number(const char *option, const char *text, unsigned long most)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || n == 0 || n > most) {
		complain("%s wants a number from 1 to %lu, not \"%s\"", option, most, text);
		exit(EXIT_CANNOT);
	}
	return (unsigned)n;
}

static double positive(const char *option, const char *text, unsigned most)
{
	char *end;
	double n = strtod(text, &end);

	if (end != text && !*end && n > 0 && n <= most)
		return n;
	complain("%s wants a number above 0 up to %u, not \"%s\"", option, most, text);
	exit(EXIT_CANNOT);
}

static void parse_way(const char *text, struct options *o)
{
	o->compare = strcmp(text, "all") == 0;
	for (int way = 0; way < WAYS; way++)
		if (strcmp(text, ways[way]) == 0) {
			o->way = (enum way)way;
			return;
		}
	if (o->compare)
		return;
	complain("--count knows no \"%s\"; see l2fwd --help", text);
	exit(EXIT_CANNOT);
}

static unsigned default_lcores(void)
{
	cpu_set_t allowed;
	int cpus = sched_getaffinity(0, sizeof(allowed), &allowed) ? 2 : CPU_COUNT(&allowed);

	return cpus < 2 ? 2 : cpus > MOST_LCORES ? MOST_LCORES : (unsigned)cpus;
}

static void check_options(const struct options *o)
{
	const char *wrong = NULL;

	if (o->scopes != 0 && o->scopes != 1 && o->scopes != SCOPES)
		wrong = "--counters wants 4 or 16";
	else if (strcmp(o->device, "ring") != 0 && strcmp(o->device, "null") != 0)
		wrong = "--device wants ring or null";
	else if (o->snapshot && !o->read)
		wrong = "--snapshot is for --read";
	else if (o->path && (o->compare || o->read || strncmp(ways[o->way], "ours", 4) != 0))
		wrong = "-o wants a --count that begins with ours";
	else if (o->telemetry && (o->read || !*o->telemetry || strchr(o->telemetry, '/')))
		wrong = "--telemetry wants a file prefix without a slash, and no --read";
	if (!wrong)
		return;
	complain("%s; see l2fwd --help", wrong);
	exit(EXIT_CANNOT);
}

/* Take an option that getopt_long() found. */
static void take(int c, struct options *o)
{
	unsigned counters;

	switch (c) {
	case 'c':
		parse_way(optarg, o);
		break;
	case 'n':
		counters = number("--counters", optarg, SCOPES * TALLY_WORDS);
		o->scopes = counters % TALLY_WORDS ? SCOPES + 1 : counters / TALLY_WORDS;
		break;
	case 's':
		o->seconds = positive("--seconds", optarg, 86400);
		break;
	case 'r':
		o->rate = positive("--rate", optarg, 10000) * 1e6;
		break;
	case 'T':
		o->telemetry = optarg;
		break;
	case 'd':
		o->device = optarg;
		break;
	case 'l':
		o->lcores = number("--lcores", optarg, MOST_LCORES);
		break;
	case 'o':
		o->path = optarg;
		break;
	case 'R':
		o->read = optarg;
		break;
	case 'S':
		o->snapshot = true;
		break;
	case 'h':
		fputs(usage, stdout);
		exit(EXIT_OK);
	default:
		complain("see l2fwd --help");
		exit(EXIT_CANNOT);
	}
}

static struct options parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "count", required_argument, NULL, 'c' },
		{ "counters", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 's' },
		{ "rate", required_argument, NULL, 'r' },
		{ "telemetry", required_argument, NULL, 'T' },
		{ "device", required_argument, NULL, 'd' },
		{ "lcores", required_argument, NULL, 'l' },
		{ "read", required_argument, NULL, 'R' },
		{ "snapshot", no_argument, NULL, 'S' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { .compare = true, .device = "ring", .lcores = default_lcores() };
	int c;

	while ((c = getopt_long(argc, argv, "c:n:s:r:d:l:o:h", longs, NULL)) != -1)
		take(c, &o);
	if (optind < argc) {
		complain("what is \"%s\"? see l2fwd --help", argv[optind]);
		exit(EXIT_CANNOT);
	}
	check_options(&o);
	return o;
}

static int run_one_way(const struct options *o)
{
	struct result result;
	int status = run_once(o, o->way, o->scopes ? o->scopes : 1, o->seconds, &result);

	if (status != EXIT_OK)
		return status;
	for (unsigned port = 0; port < PORTS; port++)
		port_print(port, &result.ports[port]);
	printf("%s: %.1f Mpps\n", way_name(o->way), result.mpps);
	if (o->way == COUNT_RACY)
		printf("lost: %.1f %% of the packets\n", 100 * result.lost);
	return EXIT_OK;
}

/* Return the exit status: what was printed must have got somewhere. */
static int end(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	complain("cannot write to the standard output");
	return status == EXIT_OK ? EXIT_CANNOT : status;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct options o = parse(argc, argv);
	int status;

	if (o.read)
		return end(reader(&o));
	if (o.seconds <= 0)
		o.seconds = 1;
	if (device_open(&o))
		return EXIT_CANNOT;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	status = o.compare ? compare(&o) : run_one_way(&o);
	device_close();
	return end(status);
}
