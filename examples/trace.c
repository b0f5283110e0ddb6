/* SPDX-License-Identifier: MIT */
/*
 * trace.c - the events of several processes, in one order: each process puts events into a file,
 * and other processes read them, while it runs or after it was killed.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace.h"

static const char usage[] =
	"usage: trace record FILE [-p PROCESSES] [-n REQUESTS] [-s BYTES]\n"
	"       trace mark FILE NAME [VALUE]\n"
	"       trace print FILE [-f]\n"
	"       trace json FILE\n"
	"\n"
	"  record   processes of two threads serve requests, and put events into FILE\n"
	"  mark     put one event there: of a shell script, for instance\n"
	"  print    print the events of all processes in order; -f: and wait for more\n"
	"  json     print them in Chrome's trace format: for ui.perfetto.dev\n"
	"\n"
	"  -p PROCESSES  that many (3)\n"
	"  -n REQUESTS   of each thread (1000)\n"
	"  -s BYTES      for events per CPU, if FILE is new (1048576): a power of two. The\n"
	"                oldest events make room for new ones\n"
	"\n"
	"Exit status: 0 all is well, 1 it could not be done, 2 wrong usage.\n";

static volatile bool stop;
static unsigned long processes = 3, requests = 1000, size = TRACE_SIZE;
static bool follow;

static void on_signal(int number)
{
	(void)number;
	stop = true;
}

static const char *explain(int error)
{
	switch (error) {
	case -EBADMSG:
	case -EISDIR:
		return "this is no file of events; \"trace record\" makes one";
	case -ENOENT:
		return "there is no such file, or no events are in it";
	case -EEXIST:
		return "a file of another program; name another one";
	case -EPROTO:
	case -ERANGE:
		return "a file of another version or another machine";
	case -EINVAL:
		return "-s wants a power of two from 1024 to 1073741824";
	default:
		return strerror(-error);
	}
}

static int complain(const char *path, int error)
{
	fflush(stdout);
	fprintf(stderr, "trace: %s: %s\n", path, explain(error));
	return 1;
}

static void *serve(void *unused)
{
	(void)unused;
	for (unsigned long i = 0; i < requests; i++) {
		trace_put(TRACE_BEGIN, "request", (int64_t)i);
		if (i % 4 == 0)
			trace_put(TRACE_INSTANT, "miss", (int64_t)i);
		trace_put(TRACE_COUNTER, "served", (int64_t)i);
		trace_put(TRACE_END, "request", (int64_t)i);
	}
	return NULL;
}

static void be_worker(void)
{
	pthread_t second;

	if (pthread_create(&second, NULL, serve, NULL) != 0)
		_exit(1);
	serve(NULL);
	pthread_join(second, NULL);
	_exit(0);
}

static int record(const char *path)
{
	int e = trace_open(path, size), status, failed = 0;
	unsigned long started = 0;

	if (e != 0)
		return complain(path, e);
	trace_put(TRACE_INSTANT, "start", (int64_t)processes);
	for (; started < processes; started++) {
		pid_t pid = fork();

		if (pid == 0)
			be_worker();
		if (pid < 0) {
			failed = complain("fork", -errno);
			break;
		}
	}
	for (unsigned long i = 0; i < started; i++)
		if (wait(&status) < 0 || status != 0)
			failed = 1;
	trace_close();
	return failed;
}

static int mark(const char *path, const char *name, const char *value)
{
	int e = trace_open(path, size);

	if (e != 0)
		return complain(path, e);
	e = trace_put(TRACE_INSTANT, name, strtoll(value, NULL, 0));
	trace_close();
	return e == 0 ? 0 : complain(path, e);
}

/* Print an event: SECONDS CPU PROCESS THREAD PHASE VALUE NAME. */
static void print_event(const struct trace_seen *seen)
{
	const struct trace_event *e = &seen->event;

	printf("%" PRIu64 ".%09" PRIu64 " %u %" PRIu32 " %" PRIu32 " %c %" PRId64 " ",
	       seen->ns / 1000000000, seen->ns % 1000000000, seen->cpu, e->pid, e->tid, e->phase,
	       e->value);
	for (const char *c = e->name; *c != 0; c++)
		putchar((unsigned char)*c < ' ' ? '?' : *c);
	putchar('\n');
}

static int print(const char *path)
{
	/* An interrupted write continues: else a part of the output would be lost. */
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	uint64_t lost = 0;
	int e;

	if (follow) {
		sigaction(SIGINT, &sa, NULL);
		sigaction(SIGTERM, &sa, NULL);
	}
	e = trace_read(path, follow, &stop, print_event, &lost);
	if (e != 0)
		return complain(path, e);
	if (lost > 0)
		printf("# %" PRIu64 " older events were overwritten\n", lost);
	return 0;
}

static int json(const char *path)
{
	uint64_t lost = 0;
	int e;

	trace_json_begin();
	e = trace_read(path, false, NULL, trace_json_event, &lost);
	if (e != 0)
		return complain(path, e);
	trace_json_end(lost);
	return 0;
}

static bool number(const char *text, unsigned long most, unsigned long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == 0 && errno == 0 && *ret <= most;
}

/* Parse the options. Returns false if an option is unknown, or has no valid number. */
static bool parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "p:n:s:f")) != -1) {
		if (c == 'f')
			follow = true;
		else if (c == '?' || !number(optarg, c == 'p' ? 1000 : 1UL << 30,
					     c == 'p' ? &processes :
					     c == 'n' ? &requests :
							&size))
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const char *verb, *path;
	int n = -1;

	if (parse(argc, argv))
		n = argc - optind - 2; /* arguments after the file */
	if (n >= 0) {
		verb = argv[optind];
		path = argv[optind + 1];
		argv += optind + 2;
		if (strcmp(verb, "record") == 0 && n == 0)
			return record(path);
		if (strcmp(verb, "mark") == 0 && (n == 1 || n == 2))
			return mark(path, argv[0], n == 2 ? argv[1] : "0");
		if (strcmp(verb, "print") == 0 && n == 0)
			return print(path);
		if (strcmp(verb, "json") == 0 && n == 0)
			return json(path);
	}
	fputs(usage, stderr);
	return 2;
}
