/*
 * What lockbroker top shows: the semaphores and the rows of the one that is selected, as the daemon last told
 * them; filters, selections and what of it is in sight. A selection stays with its semaphore or row when
 * others come and go. Owns its arrays; knows no screen, no connection and no clock.
 */
#ifndef CLIENT_TOP_MODEL_H
#define CLIENT_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/tool/row.h"

enum top_panel { TOP_SEMAPHORES, TOP_ROWS };
#define TOP_PANELS 2

/* Bytes of a filter with its NUL. */
#define TOP_FILTER_SIZE 64
/* A row that was denied here is shown so long as cancelled. */
#define TOP_CANCELLED_MS 3000
#define TOP_CANCELLED_MOST 16

/* As many names of hosts as a line has room for. */
#define TOP_SILENT_SIZE 128

struct top_semaphore {
	char name[ROW_NAME_SIZE];
	int slots;         /* LB_UNLIMITED; -1 = not known */
	int busy, waiting; /* -1 = not known */
	bool missing;      /* listed, and not there */
};

/* What passes the filter of a panel, by its number in the model. */
struct top_sight {
	size_t *shown; /* owned */
	size_t count, size;
	size_t selected; /* in shown; 0 when there is nothing */
	size_t first;    /* the topmost in sight */
	char filter[TOP_FILTER_SIZE];
};

struct top_cancelled {
	struct row row;
	int64_t until;
};

struct top_model {
	struct top_semaphore *semaphores; /* owned; by name */
	size_t semaphores_count;
	bool semaphores_known; /* they were told of, be it that there are none */
	struct row *rows;      /* owned; holders, waiters, cancelled */
	size_t rows_count;
	char rows_of[ROW_NAME_SIZE];  /* "" = there are none yet */
	bool rows_partial;            /* others could not be asked, or the broker not */
	int more, rows_more;          /* of both, that did not fit into the answers */
	char silent[TOP_SILENT_SIZE]; /* hosts that did not answer: what waits there is missing */
	struct top_cancelled cancelled[TOP_CANCELLED_MOST];
	size_t cancelled_count;
	struct top_sight sight[TOP_PANELS];
	enum top_panel focus;
};

void top_model_init(struct top_model *model);
void top_model_done(struct top_model *model);

/* The answer to `list`. False: out of memory, or it is none, and nothing has changed. */
bool top_model_list(struct top_model *model, const char *json);
/*
 * The answer to `show` for that name; not heard when another one is selected by now. The same goes for
 * the rows, when there are none (any more).
 */
bool top_model_show(struct top_model *model, const char *name, const char *json, int64_t now);
void top_model_forget_rows(struct top_model *model);
/* A row that was denied: the next rows show it as cancelled for a while. */
void top_model_denied(struct top_model *model, const char *waiter, int64_t now);

/* Up and down by so many, within what is shown. */
void top_model_move(struct top_model *model, enum top_panel panel, long by);
void top_model_filter(struct top_model *model, enum top_panel panel, const char *text);
/* Scrolls so that the selected one is within so many lines. */
void top_model_fit(struct top_model *model, enum top_panel panel, size_t lines);

/* What is selected; NULL = nothing is shown. */
const struct top_semaphore *top_model_semaphore(const struct top_model *model);
const struct row *top_model_row(const struct top_model *model);
const struct top_semaphore *top_model_semaphore_at(const struct top_model *model, size_t shown);
const struct row *top_model_row_at(const struct top_model *model, size_t shown);

#endif
