/* SPDX-License-Identifier: MIT */
/*
 * test_advice.c - what naming guides say of metrics.
 */
#include <stdio.h>
#include <string.h>

#include "support.h"
#include "segments.h"

/* Assert that there are so many sentences, and that one has these words. */
static void says(const struct percpu_metric *m, enum percpu_metric_kind kind, size_t n,
		 const char *words)
{
	bool found = *words == '\0';
	const char *sentence;
	size_t i = 0;

	for (; (sentence = percpu_metric_advice(m, kind, i)) != NULL; i++)
		found |= strstr(sentence, words) != NULL;
	if (!found || i != n)
		fail_msg("%s: %zu sentences, or none that says \"%s\"", m->name, i, words);
}

static void names(void **state)
{
	struct percpu_metric m = { .size = sizeof(m), .name = "a_total", .help = "h" };

	(void)state;
	says(&m, PERCPU_METRIC_COUNTER, 0, "");
	says(&m, PERCPU_METRIC_STATS, 0, "");
	says(&m, PERCPU_METRIC_GAUGE, 1, "only the name of a counter ends in _total");
	m.name = "a";
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
	says(&m, PERCPU_METRIC_FCOUNTER, 1, "the name of a counter ends in _total");
	says(&m, PERCPU_METRIC_INFO, 1, "the name of an info ends in _info");
	m.name = "a_info";
	says(&m, PERCPU_METRIC_INFO, 0, "");
	says(&m, PERCPU_METRIC_LATEST, 1, "only the name of an info ends in _info");
	m.name = "_total";
	says(&m, PERCPU_METRIC_COUNTER, 1, "the name of a counter ends in _total");
	m.name = "a_bucket";
	says(&m, PERCPU_METRIC_GAUGE, 1, "those of other metrics' series");
	m.name = "a_created";
	says(&m, PERCPU_METRIC_GAUGE, 1, "those of other metrics' series");
	m.name = "a_count";
	says(&m, PERCPU_METRIC_GAUGE, 1, "those of other metrics' series");
	m.name = "a_sum";
	says(&m, PERCPU_METRIC_GAUGE, 1, "those of other metrics' series");
	m.name = "_AZaz09";
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
	m.name = "job:a";
	says(&m, PERCPU_METRIC_GAUGE, 1, "for recording rules");
	m.name = "a.b";
	says(&m, PERCPU_METRIC_GAUGE, 1, "queries must quote it");
	m.name = "1a";
	says(&m, PERCPU_METRIC_GAUGE, 1, "queries must quote it");
	m.name = "\xc3\xa4:";
	says(&m, PERCPU_METRIC_GAUGE, 1, "queries must quote it");
}

static void units(void **state)
{
	struct percpu_metric m = {
		.size = sizeof(m), .name = "a_seconds", .help = "h", .unit = "seconds"
	};

	(void)state;
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
	m.name = "a_seconds_total";
	says(&m, PERCPU_METRIC_COUNTER, 0, "");
	m.name = "a_total";
	says(&m, PERCPU_METRIC_COUNTER, 1, "does not end in the unit");
	m.name = "aseconds";
	says(&m, PERCPU_METRIC_GAUGE, 1, "does not end in the unit");
	m.name = "seconds";
	says(&m, PERCPU_METRIC_GAUGE, 1, "does not end in the unit");
	m.name = "a_seconds_x";
	says(&m, PERCPU_METRIC_GAUGE, 1, "does not end in the unit");
	m.name = "a_milliseconds";
	m.unit = "milliseconds";
	says(&m, PERCPU_METRIC_GAUGE, 1, "no base unit");
	m.unit = "";
	says(&m, PERCPU_METRIC_GAUGE, 1, "seconds and not milliseconds");
	m.name = "milliseconds_a";
	says(&m, PERCPU_METRIC_GAUGE, 1, "seconds and not milliseconds");
	m.name = "millisecondsa";
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
}

/* What words of a name say. */
static void words(void **state)
{
	struct percpu_metric m = { .size = sizeof(m), .name = "a_x_gauge", .help = "h" };

	(void)state;
	says(&m, PERCPU_METRIC_GAUGE, 1, "does not say the type");
	m.name = "histogram";
	says(&m, PERCPU_METRIC_HISTOGRAM, 1, "does not say the type");
	m.name = "gauges";
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
	m.name = "a_ms";
	says(&m, PERCPU_METRIC_GAUGE, 1, "not abbreviated");
	m.name = "kb_a";
	says(&m, PERCPU_METRIC_GAUGE, 1, "not abbreviated");
	m.name = "ams";
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
	m.name = "fooBar";
	says(&m, PERCPU_METRIC_GAUGE, 1, "small letters");
	m.name = "FOO_Bar";
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
}

static void base_units(void **state)
{
	static const char *const all[] = { "seconds", "bytes",	"ratio", "joules",  "volts",
					   "amperes", "meters", "grams", "celsius", "kelvin" };
	char name[32];
	struct percpu_metric m = { .size = sizeof(m), .name = name, .help = "h" };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		(void)snprintf(name, sizeof(name), "a_%s", all[i]);
		m.unit = all[i];
		says(&m, PERCPU_METRIC_GAUGE, 0, "");
	}
}

static void labels(void **state)
{
	static const char *const several[] = { "a", "b:c", "le" };
	static const char *const reserved[] = { "__a", "le", "quantile" }, *const odd[] = { "a-b" };
	struct percpu_metric m = { .size = sizeof(m), .name = "a", .labels = 1 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		m.label_names = &reserved[i];
		says(&m, PERCPU_METRIC_GAUGE, 2, "exposition formats use such names");
	}
	says(&m, PERCPU_METRIC_GAUGE, 2, "there is no help text");
	m.help = "";
	m.label_names = odd;
	says(&m, PERCPU_METRIC_GAUGE, 2, "a label's name has other characters");
	m.help = "h";
	m.label_names = several;
	m.labels = 3;
	says(&m, PERCPU_METRIC_GAUGE, 2, "a label's name has other characters");
	says(&m, PERCPU_METRIC_GAUGE, 2, "exposition formats use such names");
	m.labels = 1;
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
	m.label_names = NULL; /* a segment refuses it */
	says(&m, PERCPU_METRIC_GAUGE, 0, "");
}

static void what_is_no_metric_gets_none(void **state)
{
	struct percpu_metric m = { .size = sizeof(m) };

	(void)state;
	assert_null(percpu_metric_advice(NULL, PERCPU_METRIC_GAUGE, 0));
	assert_null(percpu_metric_advice(&m, PERCPU_METRIC_GAUGE, 0));
	m.name = "a b";
	assert_non_null(percpu_metric_advice(&m, PERCPU_METRIC_GAUGE, 0));
	assert_null(percpu_metric_advice(&m, (enum percpu_metric_kind)0, 0));
	assert_null(percpu_metric_advice(&m, (enum percpu_metric_kind)99, 0));
	m.size = 0;
	assert_null(percpu_metric_advice(&m, PERCPU_METRIC_GAUGE, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),  cmocka_unit_test(units),
		cmocka_unit_test(words),  cmocka_unit_test(base_units),
		cmocka_unit_test(labels), cmocka_unit_test(what_is_no_metric_gets_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
