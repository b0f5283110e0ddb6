/* SPDX-License-Identifier: MIT */
/*
 * init.c - the first and only program of a system that is there to run tests.
 *
 * /programs has one per line: seconds allowed, a CPU feature that it needs or
 * "-", its name, its path, its arguments. Each line of its own starts with
 * "@@", for boot.py to read:
 *
 *	@@ start NAME
 *	... what the program prints ...
 *	@@ end NAME exit STATUS, signal NUMBER, timeout, or feature: MILLISECONDS
 *	@@ done
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ARGS 16

struct program {
	const char *name;
	const char *feature;
	unsigned seconds;
	char *argv[MAX_ARGS + 1];
};

static void make_file_systems(void)
{
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mkdir("/dev/shm", 01777);
	mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
}

static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR);

	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static unsigned long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long)t.tv_sec * 1000 + (unsigned long)t.tv_nsec / 1000000;
}

static int cpu_has(const char *feature)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[8192], *word, *rest;
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f))
		for (word = strtok_r(line, " \t\n", &rest); word && !found;
		     word = strtok_r(NULL, " \t\n", &rest))
			found = strcmp(word, feature) == 0;
	if (f)
		fclose(f);
	return found;
}

static void execute(const struct program *p)
{
	char *env[] = { "PATH=/bin", "HOME=/tmp", "PERCPU_TEST_PATIENCE=8", "PERCPU_TEST_HOTPLUG=1",
			NULL };

	setsid();
	execve(p->argv[0], p->argv, env);
	printf("%s: %s\n", p->argv[0], strerror(errno));
	exit(127);
}

/* Collects orphans, too. Returns false if the time is up before pid has ended. */
static int wait_for(pid_t pid, unsigned long end, int *ret_status)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	pid_t ended;

	while (now_ms() < end) {
		ended = waitpid(-1, ret_status, WNOHANG);
		if (ended == pid)
			return 1;
		if (ended <= 0)
			nanosleep(&nap, NULL);
	}
	return 0;
}

static void run(const struct program *p)
{
	unsigned long begin = now_ms();
	const char *how = "exit";
	int status = 0, value = 0;
	pid_t pid;

	printf("@@ start %s\n", p->name);
	fflush(stdout);
	if (strcmp(p->feature, "-") != 0 && !cpu_has(p->feature)) {
		how = "feature";
	} else {
		pid = fork();
		if (pid == 0)
			execute(p);
		if (!wait_for(pid, begin + p->seconds * 1000UL, &status)) {
			how = "timeout";
		} else if (WIFSIGNALED(status)) {
			how = "signal";
			value = WTERMSIG(status);
		} else {
			value = WEXITSTATUS(status);
		}
		kill(-1, SIGKILL); /* all but this process */
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
	printf("\n@@ end %s %s %d: %lu\n", p->name, how, value, now_ms() - begin);
}

static int parse(char *line, struct program *ret)
{
	char *rest, *seconds = strtok_r(line, " \n", &rest);
	int n = 0;

	ret->feature = strtok_r(NULL, " \n", &rest);
	ret->name = strtok_r(NULL, " \n", &rest);
	while (n < MAX_ARGS && (ret->argv[n] = strtok_r(NULL, " \n", &rest)) != NULL)
		n++;
	ret->argv[n] = NULL;
	if (n == 0)
		return 0;
	ret->seconds = (unsigned)strtoul(seconds, NULL, 10);
	return 1;
}

int main(void)
{
	struct program p;
	char line[1024];
	FILE *f;

	make_file_systems();
	open_console();
	f = fopen("/programs", "re");
	while (f && fgets(line, sizeof(line), f))
		if (parse(line, &p))
			run(&p);
	printf("@@ done\n");
	fflush(stdout);
	sleep(1); /* what the console has not sent yet */
	reboot(RB_POWER_OFF);
	return 1;
}
