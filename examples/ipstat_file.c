/* SPDX-License-Identifier: MIT */
/*
 * ipstat_file.c - packets from a capture file: worker thread w of n counts the packets w, w + n,
 * w + 2n, ... Each thread opens the file itself.
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>

#include "ipstat.h"

static pcap_t *file_open(const char *path)
{
	char why[PCAP_ERRBUF_SIZE] = "";
	FILE *stream = fopen(path, "rb");
	pcap_t *file;

	if (!stream) {
		complain("cannot open %s: %s", path, strerror(errno));
		return NULL;
	}
	file = pcap_fopen_offline(stream, why);
	if (!file) {
		complain("%s is no capture file: %s; -r wants one that \"tcpdump -w\" wrote", path,
			 why);
		fclose(stream);
	}
	return file;
}

int file_check(const char *path)
{
	pcap_t *file = file_open(path);
	int link;

	if (!file)
		return -1;
	link = pcap_datalink(file);
	pcap_close(file);
	if (decode_knows_link(link))
		return 0;
	complain("%s has packets of link type %s, which is not known here; "
		 "Ethernet and \"any\" captures are",
		 path, pcap_datalink_val_to_name(link) ? pcap_datalink_val_to_name(link) : "?");
	return -1;
}

int file_run(const char *path, const struct worker *w)
{
	pcap_t *file = file_open(path);
	struct pcap_pkthdr *header;
	const uint8_t *data;
	struct tally t;
	bool in_hand;
	uint64_t mine = worker_next(w, &in_hand);
	int link, r;

	if (!file)
		return -EIO;
	link = pcap_datalink(file);
	for (uint64_t number = 0; (r = pcap_next_ex(file, &header, &data)) == 1; number++) {
		if (number != mine * w->of + w->index)
			continue;
		decode_frame(link, data, header->caplen, header->len, &t);
		if (in_hand)
			worker_set_aside(w, &t);
		else
			worker_count(w, mine, &t);
		worker_done(w, mine);
		in_hand = false;
		mine++;
	}
	if (r == PCAP_ERROR && w->index == 0)
		complain("%s: %s; what comes before is counted", path, pcap_geterr(file));
	pcap_close(file);
	return r == PCAP_ERROR ? -EIO : 0;
}
