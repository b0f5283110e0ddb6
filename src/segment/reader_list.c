/* SPDX-License-Identifier: MIT */
/*
 * reader_list.c - the list of series: for each record, its texts as strings, and the object in the
 * image that its key leads to. Records that are not valid are skipped, and counted as pending.
 */
#include <stdlib.h>
#include <string.h>

#include "reader.h"

/* Texts. */

const char *percpu_reader_string(char **at, const unsigned char *bytes, size_t n)
{
	char *s = *at;

	if (memchr(bytes, '\0', n) != NULL)
		return NULL;
	memcpy(s, bytes, n);
	s[n] = '\0';
	*at += n + 1;
	return s;
}

/* Append the n strings of a row. Returns false if the row has another number of texts, or a text has
 * a 0. */
static bool put_strings(char **at, struct percpu_texts row, const char **ret, size_t n)
{
	struct percpu_text text;

	for (size_t i = 0; i < n; i++) {
		if (!percpu_texts_next(&row, &text))
			return false;
		ret[i] = percpu_reader_string(at, (const unsigned char *)text.at, text.n);
		if (ret[i] == NULL)
			return false;
	}
	return row.at == row.end;
}

static struct percpu_texts values_of(const struct percpu_record_copy *c)
{
	const unsigned char *at = percpu_record_values(c);

	return (struct percpu_texts){ at, at + c->head.label_values };
}

static size_t words_needed(const struct percpu_segment_record *h)
{
	return 2U * h->labels + (h->fields != 0 ? h->fields + 1U : 0);
}

/* Give the series the texts of a record. Returns false if they are not valid. */
static bool take_texts(const struct percpu_record_copy *c, char **at, const char **words,
		       struct percpu_picture_series *ret)
{
	const struct percpu_segment_record *h = &c->head;
	const size_t names = h->labels + (h->fields != 0 ? 1U : 0);
	const unsigned char *bytes = c->bytes;

	ret->name = percpu_reader_string(at, bytes, h->name);
	ret->unit = percpu_reader_string(at, bytes + h->name, h->unit);
	ret->label = words;
	ret->value = words + names;
	if (!put_strings(at, percpu_record_label_names(c), words, names) ||
	    !put_strings(at, values_of(c), ret->value, h->labels + h->fields))
		return false;
	ret->help = percpu_reader_string(at, percpu_record_values(c) + h->label_values, h->help);
	return ret->name != NULL && ret->unit != NULL && ret->help != NULL;
}

static bool is_valid(const struct percpu_picture_series *s)
{
	const struct percpu_metric m = {
		.size = sizeof(m),
		.name = s->name,
		.help = s->help,
		.unit = s->unit,
		.label_names = s->labels != 0 ? s->label : NULL,
		.label_values = s->labels != 0 ? s->value : NULL,
		.labels = s->labels,
	};
	const struct percpu_metric_fields f = {
		.size = sizeof(f),
		.label = s->fields != 0 ? s->label[s->labels] : NULL,
		.names = s->value + s->labels,
		.n = s->fields,
	};
	struct percpu_reason why;

	return percpu_metric_check(&m, percpu_kind_of(s->kind)->has_fields ? &f : NULL, s->kind,
				   &why) == 0;
}

/* Series of one name have most texts in common. */

static size_t *place_of_name(struct percpu_reader *r, const struct percpu_record_copy *c)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < c->head.name; i++)
		hash = hash * 31 + c->bytes[i];
	return &r->alike[hash % PERCPU_ALIKE];
}

/* Return whether two records, without fields, differ in no texts but the values of labels. */
static bool is_alike(const struct percpu_segment_record *a, const struct percpu_segment_record *b)
{
	const size_t before = (size_t)b->name + b->unit + b->label_names;
	const char *const x = (const char *)(a + 1), *const y = (const char *)(b + 1);

	return a->kind == b->kind && a->fields == 0 && b->fields == 0 && a->labels == b->labels &&
	       a->name == b->name && a->unit == b->unit && a->label_names == b->label_names &&
	       a->help == b->help && memcmp(x, y, before) == 0 &&
	       memcmp(x + before + a->label_values, y + before + b->label_values, b->help) == 0;
}

/* If a series of that name is listed whose other texts are the same, share them. They are valid.
 * Returns whether that is done. */
static bool share_texts(struct percpu_reader *r, const struct percpu_record_copy *c,
			struct percpu_picture_series *ret)
{
	const size_t place = *place_of_name(r, c);
	const struct percpu_picture_series *like = place != 0 ? &r->entry[place - 1] : NULL;

	if (like == NULL || !is_alike(percpu_directory_at(r->s, like->at), &c->head))
		return false;
	ret->name = like->name;
	ret->unit = like->unit;
	ret->help = like->help;
	ret->label = like->label;
	ret->value = r->next_word;
	return true;
}

static bool take_values(struct percpu_reader *r, const struct percpu_record_copy *c,
			struct percpu_picture_series *s)
{
	struct percpu_reason why;

	if (!put_strings(&r->next_text, values_of(c), s->value, s->labels))
		return false;
	for (size_t i = 0; i < s->labels; i++)
		if (percpu_metric_check_text(s->name, s->value[i], PERCPU_METRIC_VALUE, "", "",
					     &why) != 0)
			return false;
	return true;
}

/* Give the series its texts. Returns false if they are not valid. */
static bool take_all_texts(struct percpu_reader *r, const struct percpu_record_copy *c,
			   struct percpu_picture_series *s)
{
	s->labels = c->head.labels;
	s->fields = c->head.fields;
	if (share_texts(r, c, s))
		return take_values(r, c, s);
	return take_texts(c, &r->next_text, r->next_word, s) && is_valid(s);
}

/* Let series behind this one, which is listed, share its texts. */
static void offer_texts(struct percpu_reader *r, const struct percpu_record_copy *c)
{
	const struct percpu_picture_series *s = &r->entry[r->n];

	*place_of_name(r, c) = r->n + 1;
	r->next_word = s->value + s->labels + s->fields;
}

/* Objects. */

static int attach_entry(struct percpu_segment *image, uint64_t key, struct percpu_picture_series *s)
{
	const struct percpu_kind_row *kind = percpu_kind_of(s->kind);
	int e = kind->attach(image, key, s->fields, &s->object);

	if (e == 0 && kind->find_cells != NULL)
		s->cells = kind->find_cells(s->object);
	s->key = key;
	return e;
}

/* Return the word of r->begins, and the bit in it, for the place of a key; NULL if there is no such
 * place. */
static uint64_t *taken_at(const struct percpu_reader *r, uint64_t key, uint64_t *ret_bit)
{
	const uint64_t chunk = ((key & PERCPU_KEY_CELL) >> PERCPU_KEY_CHUNK_SHIFT) - 1;
	const uint64_t offset = key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1);
	const uint64_t unit = offset / sizeof(uint64_t);

	*ret_bit = UINT64_C(1) << unit % 64;
	return chunk < r->chunks && unit < PERCPU_UNITS ? &r->begins[chunk][unit / 64] : NULL;
}

/* Attach to the object of a key, unless another series has it. In a damaged file several records
 * can have one object: the first record gets it. So no two series have cells in common. */
static int attach_once(struct percpu_reader *r, uint64_t key, struct percpu_picture_series *s)
{
	uint64_t bit, *taken = taken_at(r, key, &bit);
	int e = taken == NULL	    ? -ENOENT :
		(*taken & bit) != 0 ? -EEXIST :
				      attach_entry(r->s, key, s);

	if (e == 0)
		*taken |= bit;
	return e;
}

/* Attach to the exemplars of a series. If the key leads to none, or to what another series has, the
 * series has none in the picture. Returns 0 or -ENOMEM. */
static int attach_exemplars(struct percpu_reader *r, uint64_t key, struct percpu_picture_series *s)
{
	uint64_t bit, *taken = taken_at(r, key, &bit);
	int e;

	if (taken == NULL || (*taken & bit) != 0 || !percpu_kind_of(s->kind)->has_exemplars)
		return 0;
	e = percpu_exemplars_attach(r->s->region, key, percpu_histogram_of_kind(s->kind, s->object),
				    &s->exemplars);
	if (e == 0)
		*taken |= bit;
	return e == -ENOMEM ? e : 0;
}

/* The list of series. */

/* Order series by name, and series of one name as they were declared. */
static int compare_entries(const void *a, const void *b)
{
	const struct percpu_picture_series *x = a, *y = b;
	const int c = x->name != y->name ? strcmp(x->name, y->name) : 0;

	return c != 0 ? c : (x->at > y->at) - (x->at < y->at);
}

/* Allocate the lists, with room for all records. Returns 0 or -ENOMEM. */
static int make_lists(struct percpu_reader *r, struct percpu_record_copy *c)
{
	size_t n = 0, words = 0;
	struct percpu_segment_record *at;
	uint64_t place = 0;

	while (percpu_directory_next(r->s, PERCPU_SERIES | PERCPU_FAMILIES, &place, c, &at)) {
		n++;
		words += words_needed(&c->head);
	}
	r->entry = calloc(n + 1, sizeof(*r->entry));
	r->part = calloc(n + 1, sizeof(*r->part));
	r->set = calloc(n + 1, sizeof(*r->set));
	r->run = calloc(n + 1, sizeof(*r->run));
	r->words = calloc(words + 1, sizeof(*r->words));
	r->text = malloc((size_t)r->copied + 1); /* a record has more bytes than its texts */
	memset(r->alike, 0, sizeof(r->alike));
	r->chunks = r->s->region->n;
	r->begins = calloc(r->chunks, sizeof(*r->begins));
	r->next_text = r->text;
	r->next_word = r->words;
	return r->begins != NULL && r->entry != NULL && r->part != NULL && r->set != NULL &&
			       r->run != NULL && r->words != NULL && r->text != NULL ?
		       0 :
		       -ENOMEM;
}

/* List the records from r->at on. Returns 0, -ENOMEM, or as percpu_reader_may_list(). */
static int list_records(struct percpu_reader *r, struct percpu_record_copy *c)
{
	const struct percpu_segment_control *control = r->s->control;
	struct percpu_segment_record *record;
	struct percpu_picture_series *s;
	uint64_t at = r->at;
	int e;

	r->began = control->started[r->state.generation % 2];
	while (percpu_directory_next(r->s, PERCPU_SERIES, &at, c, &record)) {
		r->looked += percpu_reader_cost_of_records(at - r->at);
		e = percpu_reader_may_list(r);
		if (e != 0)
			return e;
		r->at = at;
		s = &r->entry[r->n];
		*s = (struct percpu_picture_series){ .kind = c->head.kind };
		s->declared = c->head.declared;
		s->at = at - c->head.size;
		e = -ENOENT;
		if (take_all_texts(r, c, s) && c->head.key != 0)
			e = attach_once(r, c->head.key, s);
		if (e == -ENOMEM)
			return e;
		if (e != 0) {
			r->pending++;
			continue;
		}
		offer_texts(r, c);
		r->n++;
		e = attach_exemplars(r, c->head.exemplars, s);
		if (e != 0)
			return e;
	}
	r->looked += percpu_reader_cost_of_records(at - r->at);
	return 0;
}

static void end_list(struct percpu_reader *r)
{
	free(r->begins);
	r->begins = NULL;
	r->at = 0;
}

int percpu_reader_list(struct percpu_reader *r)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	int e = c != NULL ? 0 : -ENOMEM;

	if (e == 0 && r->begins == NULL) {
		percpu_reader_unlist(r);
		r->s->seen = r->copied;
		e = make_lists(r, c);
	}
	if (e == 0)
		e = list_records(r, c);
	if (e == 0) {
		percpu_reader_collect_parts(
			r); /* in the order of records, which is mostly theirs */
		qsort(r->entry, r->n, sizeof(*r->entry), compare_entries);
		e = percpu_reader_list_families(r, c, r->next_text);
	}
	if (e == 0) {
		percpu_reader_collect_sets(r);
		r->listed = r->fresh = true;
	} else if (e == -ENOMEM) {
		(void)percpu_reason_set(&r->why, e, "there is no memory for the segment's series");
	}
	free(c);
	if (!r->kept)
		end_list(r);
	return e;
}

static void detach_series(struct percpu_picture_series *s)
{
	percpu_reader_free_snapshot(s);
	percpu_exemplars_detach(s->exemplars);
	if (s->object != NULL)
		percpu_kind_detach(s->kind, s->object);
}

/* Return whether the copied record says that the series is in use, has the same object as when it
 * was listed, and has not begun anew since. */
static bool is_as_listed(const struct percpu_reader *r, const struct percpu_picture_series *s)
{
	const struct percpu_segment_record *now = percpu_directory_at(r->s, s->at);

	return now->state == PERCPU_RECORD_IN_USE && now->key == s->key &&
	       now->declared.real == s->declared.real &&
	       now->declared.boottime == s->declared.boottime &&
	       now->declared.boot == s->declared.boot;
}

void percpu_reader_drop_changed(struct percpu_reader *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++)
		if (is_as_listed(r, &r->entry[i]))
			r->entry[kept++] = r->entry[i];
		else
			detach_series(&r->entry[i]);
	r->n = kept;
}

void percpu_reader_unlist(struct percpu_reader *r)
{
	for (size_t i = 0; i < r->n; i++)
		detach_series(&r->entry[i]);
	percpu_owners_detach(r->s->owners);
	r->s->owners = NULL;
	end_list(r);
	free(r->entry);
	free(r->part);
	free(r->set);
	free(r->run);
	free(r->family);
	free(r->words);
	free(r->text);
	r->entry = NULL;
	r->part = NULL;
	r->set = NULL;
	r->run = NULL;
	r->family = NULL;
	r->words = NULL;
	r->text = NULL;
	r->n = r->parts = r->sets = r->runs = r->families = 0;
	r->pending = r->missing = 0;
	r->flawed = false;
	r->listed = r->fresh = false;
}
