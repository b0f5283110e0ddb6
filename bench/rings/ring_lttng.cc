/* SPDX-License-Identifier: MIT */
/* ring_lttng.cc - lttng-ust's daemon, sessions and reader, by the commands of its package. */
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/ring.h>

#include "report.h"
#include "ring_lttng.h"

bool lttng::run(const std::string &command) const
{
	return system(("{ " + command + "; } >>" + dir + "/log 2>&1 </dev/null").c_str()) == 0;
}

/* Make a session. Its reader writes to a few small files. */
bool lttng::session(const std::string &name, bool drop, size_t bytes) const
{
	std::string in = " --session=" + name, channel = drop ? "drop" : "overwrite";

	return run("lttng create " + name + (drop ? "" : " --snapshot") + " --output=" + dir + "/" +
		   name) &&
	       run("lttng enable-channel --userspace" + in +
		   (drop ? " --discard --tracefile-size=16M --tracefile-count=4" : " --overwrite") +
		   text(" --num-subbuf=4 --subbuf-size=%zu ", bytes / 4) + channel) &&
	       run("lttng enable-event --userspace" + in + " --channel=" + channel +
		   " 'percpu_ring:" + channel + "*'") &&
	       run("lttng start " + name);
}

#ifndef RING_LTTNG_MODULE
std::string lttng::start(size_t)
{
	return "pkg-config found no lttng-ust";
}
#else
std::string lttng::start(size_t bytes)
{
	char made[] = "/tmp/percpu-ring-XXXXXX";
	void *module;

	if (system("command -v lttng lttng-sessiond babeltrace2 >/dev/null") != 0)
		return "no lttng, lttng-sessiond or babeltrace2";
	if (!mkdtemp(made))
		return "no directory for its session";
	dir = made;
	setenv("LTTNG_HOME", made, 1);
	if (run("lttng --no-sessiond list"))
		return "a session daemon runs already: this would disturb it";
	daemon = fork();
	if (daemon == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execl("/bin/sh", "sh", "-c",
		      "exec lttng-sessiond --no-kernel </dev/null >\"$LTTNG_HOME/daemon\" 2>&1",
		      nullptr);
		_exit(127);
	}
	for (int tries = 0; !run("lttng --no-sessiond list"); tries++) {
		if (tries == 100 || waitpid(daemon, nullptr, WNOHANG) == daemon)
			return "its daemon does not start";
		usleep(100000);
	}
	if (!session("overwrite", false, bytes) || !session("drop", true, bytes))
		return "its daemon makes no session";
	module = dlopen(RING_LTTNG_MODULE, RTLD_NOW);
	if (module)
		*(void **)&emitter = dlsym(module, "ring_lttng_emit");
	return emitter ? "" : "its events cannot be loaded";
}
#endif

void lttng::stop()
{
	run("lttng destroy --no-wait --all");
}

/* Stop the reader, which is a child of the daemon. */
void lttng::stop_reader(int signo) const
{
	run(text("for p in $(pgrep -P %d -x lttng-consumerd); do kill -%d $p; done", int(daemon),
		 signo));
}

/* Return the number that a command prints; -1 if it prints none. */
static int64_t number_of(const std::string &command)
{
	FILE *f = popen(("{ " + command + "; } 2>/dev/null </dev/null").c_str(), "r");
	long long n = -1;

	if (f && fscanf(f, "%lld", &n) != 1)
		n = -1;
	if (f)
		pclose(f);
	return n;
}

int64_t lttng::discarded() const
{
	return number_of("lttng list drop | sed -n 's/.*Discarded events: //p'");
}

/* Return the number of events: the last line of a sum that is printed from time to time. */
static int64_t count_events(const std::string &where)
{
	return number_of("babeltrace2 " + where +
			 " --component=sink.utils.counter"
			 " | awk '/ Event messages?$/ { n = $1 } END { print n + 0 }'");
}

int64_t lttng::kept(bool drop, size_t bytes, uint64_t n)
{
	std::string name = text("kept-%d-%llu", drop, (unsigned long long)n);

	if (!session(name, drop, bytes))
		return -1;
	if (drop)
		stop_reader(SIGSTOP);
	emit(drop, 16, n);
	if (drop)
		stop_reader(SIGCONT);
	if (!run("lttng stop " + name) ||
	    (!drop && !run("lttng snapshot record --session=" + name)) ||
	    !run("lttng destroy " + name))
		return -1;
	return count_events(dir + "/" + name);
}

lttng::~lttng()
{
	if (daemon > 0) {
		run("lttng destroy --all");
		kill(daemon, SIGTERM);
		waitpid(daemon, nullptr, 0);
	}
	if (!dir.empty() && system(("rm -rf " + dir).c_str()) != 0)
		fprintf(stderr, "ring: %s stays\n", dir.c_str());
}
