/* SPDX-License-Identifier: MIT */
/*
 * telemetry.c - answer DPDK's own clients, such as dpdk-telemetry.py: /l2fwd/ports lists the ports,
 * and /l2fwd/port,N has the counts of one. A thread of DPDK answers, which is no lcore; the lcores
 * do not notice.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_telemetry.h>
#include <rte_version.h>

#include "l2fwd.h"

static const char *const scopes[SCOPES] = { "", "vlan_", "class_", "tenant_" };
static const char *const fields[TALLY_WORDS] = { "packets", "bytes", "wire_bytes", "segments" };

static int add(struct rte_tel_data *d, const char *name, uint64_t n)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(d, name, n);
#else
	return rte_tel_data_add_dict_u64(d, name, n);
#endif
}

static int list_ports(const char *command, const char *parameters, struct rte_tel_data *d)
{
	(void)command;
	(void)parameters;
	(void)rte_tel_data_start_array(d, RTE_TEL_INT_VAL);
	for (int port = 0; port < PORTS; port++)
		(void)rte_tel_data_add_array_int(d, port);
	return 0;
}

static int one_port(const char *command, const char *parameters, struct rte_tel_data *d)
{
	char *end = NULL, name[64];
	unsigned long number = parameters ? strtoul(parameters, &end, 10) : PORTS;
	struct port all[PORTS];
	const uint64_t *words;
	int err;

	(void)command;
	if (!end || end == parameters || *end || number >= PORTS)
		return -EINVAL;
	err = run_counts(all);
	if (err)
		return err;
	(void)rte_tel_data_start_dict(d);
	for (unsigned s = 0; s < SCOPES; s++) {
		words = (const uint64_t *)&all[number].scope[s];
		for (unsigned i = 0; i < TALLY_WORDS && (s == 0 || words[0]); i++) {
			snprintf(name, sizeof(name), "%s%s", scopes[s], fields[i]);
			(void)add(d, name, words[i]);
		}
	}
	(void)add(d, "drops", all[number].drops);
	(void)add(d, "polls", all[number].polls);
	return 0;
}

int telemetry_open(void)
{
	if (rte_telemetry_register_cmd("/l2fwd/ports", list_ports,
				       "Returns the numbers of the ports. No parameters.") == 0 &&
	    rte_telemetry_register_cmd("/l2fwd/port", one_port,
				       "Returns the counts of a port. Parameter: its number.") == 0)
		return 0;
	complain("DPDK registers no commands of telemetry");
	return -1;
}
