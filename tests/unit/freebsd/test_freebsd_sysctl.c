/* SPDX-License-Identifier: MIT */
/*
 * test_freebsd_sysctl.c - a struct of statistics as in FreeBSD's netinet,
 * counted by threads and read by name; and what names promise: sizes, errors,
 * resets, order, and that nothing is left behind.
 *
 *	test_freebsd_sysctl PLUGIN
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <percpu/seq.h>

#include "support.h"
#include "freebsd_ip.h"
#include "freebsd_read.h"

SYSCTL_NODE(_net, PF_INET, inet, CTLFLAG_RW | CTLFLAG_MPSAFE, 0, "Internet Family");
SYSCTL_NODE(_net_inet, IPPROTO_IP, ip, CTLFLAG_RW | CTLFLAG_MPSAFE, 0, "IP");

static COUNTER_U64_DEFINE_EARLY(early);
SYSCTL_COUNTER_U64(_kern, OID_AUTO, early, CTLFLAG_RW, &early, "from the start");

static counter_u64_t readonly;
COUNTER_U64_SYSINIT(readonly);
SYSCTL_COUNTER_U64(_kern, OID_AUTO, readonly, CTLFLAG_RD, &readonly, "not to be reset");

static counter_u64_t unallocated;
SYSCTL_COUNTER_U64(_kern, OID_AUTO, unallocated, CTLFLAG_RW, &unallocated, "not there yet");

/* "linux" is a macro of gnu11. */
SYSCTL_ROOT_NODE(OID_AUTO, linux, CTLFLAG_RW, NULL, "a root of our own");
static counter_u64_t four[4];
SYSCTL_COUNTER_U64_ARRAY(_linux, OID_AUTO, four, CTLFLAG_RW, four, 4, "four in a row");

/* What a handler says has no size before it is asked. */
static int say_five(SYSCTL_HANDLER_ARGS)
{
	uint64_t v = 5;

	(void)oidp;
	(void)arg1;
	(void)arg2;
	return SYSCTL_OUT(req, &v, sizeof(v));
}

SYSCTL_PROC(_kern_ipc, OID_AUTO, first, CTLTYPE_U64 | CTLFLAG_RD, NULL, 0, say_five, "QU", "five");
SYSCTL_PROC(_kern_ipc, OID_AUTO, sum, CTLTYPE_U64 | CTLFLAG_RD, NULL, 0, say_five, "QU", "five");

void mib_counts(void);	 /* of freebsd_mib.c, */
enum { MIB_NAMES = 28 }; /* which has so many names */

static const char *plugin;

/* The struct */

static void receive(unsigned i, void *arg)
{
	uint8_t packet[2] = { 0x45, i };
	unsigned rounds = *(unsigned *)arg;

	for (unsigned k = 0; k < rounds; k++) {
		ip_input(packet, 2);
		ip_input(packet, 1);
	}
	packet[0] = 0x60;
	ip_input(packet, 2);
}

static void packets_are_counted_and_read_by_name(void **state)
{
	unsigned rounds = test_rounds(20000);
	struct ipstat s;
	size_t size = sizeof(s);

	(void)state;
	reset("net.inet.ip.stats");
	test_team_run(8, receive, &rounds);
	assert_int_equal(sysctlbyname("net.inet.ip.stats", &s, &size, NULL, 0), 0);
	assert_int_equal(size, sizeof(s));
	assert_int_equal(s.ips_total, 8 * (2 * rounds + 1));
	assert_int_equal(s.ips_tooshort, 8 * rounds);
	assert_int_equal(s.ips_badvers, 8);
	assert_int_equal(s.ips_delivered, 8 * rounds);
	assert_int_equal(s.ips_queued, 0);
	for (int kind = 0; kind < 4; kind++)
		assert_int_equal(s.ips_outhist[kind], 2 * rounds);
	assert_int_equal(IPSTAT_FETCH(ips_total), s.ips_total);
	assert_int_equal(IPSTAT_FETCH(ips_outhist[3]), 2 * rounds);
}

/* What is read by resets while threads count, and what is left. */
static void resets_lose_nothing(void **state)
{
	unsigned rounds = test_rounds(20000);
	struct ipstat s = { 0 };
	struct test_team team;
	uint64_t total = 0, delivered = 0;
	size_t size = sizeof(s);

	(void)state;
	reset("net.inet.ip.stats");
	test_team_start(&team, 4, receive, &rounds);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(sysctlbyname("net.inet.ip.stats", &s, &size, &s, size), 0);
		total += s.ips_total;
		delivered += s.ips_delivered;
	}
	test_team_join(&team);
	assert_int_equal(total + IPSTAT_FETCH(ips_total), 4 * (2 * rounds + 1));
	assert_int_equal(delivered + IPSTAT_FETCH(ips_delivered), 4 * rounds);
}

/* Sizes and errors */

static void a_small_buffer_gets_what_fits(void **state)
{
	const uint64_t sevens = 0x0707070707070707;
	uint64_t v[5] = { sevens, sevens, sevens, sevens, sevens };
	size_t size = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		counter_u64_add(four[i], 0x0101010101010101 * (i + 1));
	assert_int_equal(sysctlbyname("linux.four", NULL, &size, NULL, 0), 0);
	assert_int_equal(size, 32);
	size = 20;
	errno = 0;
	assert_int_equal(sysctlbyname("linux.four", v, &size, v, sizeof(v)), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(size, 20);
	assert_int_equal(v[1], 0x0202020202020202);
	assert_memory_equal(&v[2], "\3\3\3\3\7\7\7\7", 8);
	assert_int_equal(v[3], sevens);
	assert_int_equal(sysctlbyname("linux.four", v, NULL, NULL, 0), -1);
	size = sizeof(v);
	assert_int_equal(sysctlbyname("linux.four", v, &size, NULL, 0), 0);
	assert_int_equal(size, 32);
	for (int i = 0; i < 4; i++)
		assert_int_equal(v[i], 0x0101010101010101 * (i + 1));
	assert_int_equal(v[4], sevens);
	reset("linux.four");
	assert_int_equal(sysctlbyname("linux.four", v, &size, NULL, 0), 0);
	assert_int_equal(v[0] + v[1] + v[2] + v[3], 0);
}

static void errors_are_told_apart(void **state)
{
	static const char *const absent[] = { "",
					      ".",
					      "kern.earl",
					      "kern.early.",
					      "kern.early.x",
					      "early",
					      "net.in",
					      "zzz",
					      "net.inet.ip.stats.ips_total" };
	static const char *const nodes[] = { "kern", "net", "net.inet", "net.inet.ip", "linux" };

	(void)state;
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		assert_fails(absent[i], NULL, ENOENT);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		assert_fails(nodes[i], NULL, EISDIR);
	counter_u64_add(readonly, 3);
	assert_fails("kern.readonly", &plugin, EPERM);
	assert_int_equal(read_one("kern.readonly"), 3);
	assert_int_equal(read_one("kern.unallocated"), 0);
	reset("kern.unallocated");
}

static void early_counters_have_names(void **state)
{
	uint64_t v, any = 1234;
	size_t size = sizeof(v);

	(void)state;
	counter_u64_add(early, 4);
	assert_int_equal(read_one("kern.early"), 4);
	assert_int_equal(sysctlbyname("kern.early", &v, &size, &any, sizeof(any)), 0);
	assert_int_equal(v, 4);
	assert_int_equal(counter_u64_fetch(early), 0);
}

/* Registration */

static struct sysctl_oid counter_oid(struct sysctl_oid *parent, const char *name, counter_u64_t *c)
{
	return (struct sysctl_oid){
		.oid_parent = &parent->oid_children,
		.oid_name = name,
		.oid_descr = name,
		.oid_arg1 = c,
		.oid_arg2 = 1,
		.oid_handler = percpu_freebsd_handle_counters,
		.size = sizeof(uint64_t),
		.oid_kind = CTLTYPE_U64 | CTLFLAG_RW,
	};
}

static void the_second_of_a_name_is_refused(void **state)
{
	counter_u64_t other = counter_u64_alloc(M_WAITOK);
	struct sysctl_oid twin = counter_oid(&sysctl___kern, "early", &other);
	struct sysctl_oid same_node = {
		.oid_children = { &same_node },
		.oid_parent = &sysctl___net.oid_children,
		.oid_name = "inet",
		.oid_descr = "",
		.oid_kind = CTLTYPE_NODE,
	};
	struct sysctl_oid below = counter_oid(&same_node, "other", &other);

	(void)state;
	counter_u64_add(other, 99);
	assert_int_equal(percpu_freebsd_sysctl_register(&twin), -EEXIST);
	assert_int_equal(read_one("kern.early"), counter_u64_fetch(early));
	percpu_freebsd_sysctl_unregister(&twin);
	assert_int_equal(read_one("kern.early"), counter_u64_fetch(early));

	/* Under a node that was refused, names are as under the first. */
	assert_int_equal(percpu_freebsd_sysctl_register(&same_node), -EEXIST);
	assert_int_equal(percpu_freebsd_sysctl_register(&below), 0);
	assert_int_equal(read_one("net.inet.other"), 99);
	percpu_freebsd_sysctl_unregister(&below);
	assert_fails("net.inet.other", NULL, ENOENT);
	counter_u64_free(other);
}

static void long_names_are_refused(void **state)
{
	char name[252] = "";
	counter_u64_t c = NULL;
	struct sysctl_oid oid = counter_oid(&sysctl___dev, name, &c);

	(void)state;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(strlen("dev.") + strlen(name), 255);
	assert_int_equal(percpu_freebsd_sysctl_register(&oid), 0);
	percpu_freebsd_sysctl_unregister(&oid);
	oid.oid_parent = &sysctl___kern.oid_children;
	assert_int_equal(percpu_freebsd_sysctl_register(&oid), -ENAMETOOLONG);
	assert_fails(name, NULL, ENOENT);
}

struct walk {
	unsigned n, stop;
	char last[256];
};

static int look(const struct percpu_freebsd_name *n, void *arg)
{
	struct walk *w = arg;
	char copy[256];
	size_t size;
	int e;

	assert_true(strcmp(w->last, n->name) < 0);
	snprintf(w->last, sizeof(w->last), "%s", n->name);
	snprintf(copy, sizeof(copy), "%s", n->name);
	e = sysctlbyname(copy, NULL, &size, NULL, 0);
	if ((n->kind & CTLTYPE) == CTLTYPE_NODE)
		assert_int_equal(n->size, 0);
	else if (strncmp(n->name, "kern.ipc.", 9) == 0)
		assert_int_equal(n->size, 0);
	else
		assert_int_equal(e == 0 ? size : 0, n->size);
	if (strcmp(n->name, "net.inet.ip.stats") == 0) {
		assert_int_equal(n->size, sizeof(struct ipstat));
		assert_non_null(strstr(n->descr, "netinet/ip_var.h"));
		assert_int_equal(n->kind & (CTLTYPE | CTLFLAG_RW | CTLFLAG_VNET),
				 CTLTYPE_OPAQUE | CTLFLAG_RW | CTLFLAG_VNET);
	}
	if (strcmp(n->name, "linux") == 0)
		assert_string_equal(n->descr, "a root of our own");
	if (strcmp(n->name, "kern") == 0)
		assert_string_equal(n->descr, "High kernel, proc, limits &c");
	return ++w->n == w->stop ? 42 : 0;
}

static void all_names_can_be_walked(void **state)
{
	struct walk all = { 0 }, some = { .stop = 2 };

	(void)state;
	assert_int_equal(percpu_freebsd_sysctl_foreach(look, &all), 0);
	assert_int_equal(all.n, 10 + MIB_NAMES);
	assert_string_equal(all.last, "vm.stats.misc");
	assert_int_equal(percpu_freebsd_sysctl_foreach(look, &some), 42);
	assert_int_equal(some.n, 2);
}

/* The roots that FreeBSD's header declares are another unit's here (freebsd_mib.c). */
static void nodes_may_be_the_programs(void **state)
{
	static const char *const nodes[] = { "debug.sizeof", "hw.bus.devices", "kern.ipc",
					     "kern.sched",   "p1003_1b",       "sysctl" };

	(void)state;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		assert_fails(nodes[i], NULL, EISDIR);
	mib_counts();
	assert_int_equal(read_one("kern.early"), counter_u64_fetch(early));
}

static void an_unloaded_plugin_leaves_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		void *handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);

		assert_non_null(handle);
		assert_int_equal(read_one("dev.plugin.plugged"), 0);
		assert_fails("dev.plugin", NULL, EISDIR);
		assert_int_equal(dlclose(handle), 0);
		assert_fails("dev.plugin.plugged", NULL, ENOENT);
		assert_fails("dev.plugin", NULL, ENOENT);
	}
}

/* An object whose sequences a thread may be in stays, as its constructor asks for. */
static void what_has_sequences_stays(void **state)
{
	void *handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL), *again;
	int local;

	(void)state;
	assert_non_null(handle);
	percpu_object_stay(&local);  /* of no object */
	percpu_object_stay(&plugin); /* of the program */
	percpu_object_stay(dlsym(handle, "sysctl___dev_plugin"));
	assert_int_equal(dlclose(handle), 0);
	again = dlopen(plugin, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(again);
	assert_int_equal(dlclose(again), 0);
	assert_int_equal(read_one("dev.plugin.plugged"), 0);
}

/* Threads that register, read, reset, walk and unregister; and forks meanwhile. */

struct commotion {
	bool stop;	  /* atomic */
	unsigned strange; /* atomic: what should not have happened */
};

static int ignore(const struct percpu_freebsd_name *n, void *arg)
{
	(void)arg;
	return n->name[0] == '\0';
}

static void stir(unsigned i, void *arg)
{
	struct commotion *c = arg;
	char name[] = "thread_0";
	counter_u64_t counter = counter_u64_alloc(M_WAITOK);
	struct sysctl_oid oid = counter_oid(&sysctl___user, name, &counter);
	char full[32];
	uint64_t v;
	size_t size = sizeof(v);
	bool good = true;

	name[7] += (char)i;
	snprintf(full, sizeof(full), "user.%s", name);
	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		good = good && percpu_freebsd_sysctl_register(&oid) == 0;
		counter_u64_add(counter, i + 1);
		good = good && sysctlbyname(full, &v, &size, name, 1) == 0 && v == i + 1;
		good = good && percpu_freebsd_sysctl_foreach(ignore, NULL) == 0;
		percpu_freebsd_sysctl_unregister(&oid);
		good = good && sysctlbyname(full, &v, &size, NULL, 0) == -1 && errno == ENOENT;
	}
	counter_u64_free(counter);
	if (!good)
		__atomic_fetch_add(&c->strange, 1, __ATOMIC_RELAXED);
}

static int read_in_child(void *arg)
{
	struct ipstat s = { 0 };
	size_t size = sizeof(s);

	(void)arg;
	return sysctlbyname("net.inet.ip.stats", &s, &size, &s, size) != 0;
}

static void threads_and_children_do_not_disturb(void **state)
{
	struct commotion c = { 0 };
	struct test_team team;

	(void)state;
	test_needs_forks_beside_malloc();
	test_team_start(&team, 4, stir, &c);
	for (int i = 0; i < 20; i++)
		test_in_child(read_in_child, NULL);
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	assert_int_equal(c.strange, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_are_counted_and_read_by_name),
		cmocka_unit_test(resets_lose_nothing),
		cmocka_unit_test(a_small_buffer_gets_what_fits),
		cmocka_unit_test(errors_are_told_apart),
		cmocka_unit_test(early_counters_have_names),
		cmocka_unit_test(the_second_of_a_name_is_refused),
		cmocka_unit_test(long_names_are_refused),
		cmocka_unit_test(all_names_can_be_walked),
		cmocka_unit_test(nodes_may_be_the_programs),
		cmocka_unit_test(an_unloaded_plugin_leaves_nothing),
		cmocka_unit_test(what_has_sequences_stays),
		cmocka_unit_test(threads_and_children_do_not_disturb),
	};

	if (argc != 2)
		return 2;
	plugin = argv[1];
	COUNTER_ARRAY_ALLOC(four, 4, M_WAITOK);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
