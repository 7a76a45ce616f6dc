/*
 * The data of lockbroker top: the semaphores and mutexes, and the rows of the selected one, as the
 * daemon last reported them. Also filters, selections and the visible part. A selection stays with
 * its lock or row when others come and go. Owns its arrays. It knows no screen, no connection and
 * no clock.
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
/* For so long a row that was denied here is shown as cancelled. */
#define TOP_CANCELLED_MS 3000
#define TOP_CANCELLED_MOST 16

/* Bytes for the names of silent hosts: one line. */
#define TOP_SILENT_SIZE 128

struct top_semaphore {
	char name[ROW_NAME_SIZE];
	int slots;         /* LB_UNLIMITED; -1: unknown, or a mutex */
	int busy, waiting; /* -1: unknown */
	int extra;         /* holders beyond the slots */
	bool missing;      /* listed, but it does not exist */
	bool mutex;        /* a mutex that is held or waited for */
};

/* The rows that pass the filter of a panel, by their index in the model. */
struct top_sight {
	size_t *shown; /* owned */
	size_t count, size;
	size_t selected; /* index in `shown`; 0 if that is empty */
	size_t first;    /* the first visible one */
	char filter[TOP_FILTER_SIZE];
};

struct top_cancelled {
	struct row row;
	int64_t until;
};

struct top_model {
	struct top_semaphore *semaphores;       /* owned; by name; mutexes, too */
	size_t semaphores_count, mutexes_count; /* the first one includes the second */
	bool semaphores_known;                  /* the daemon has listed them; there may be none */
	struct row *rows;                       /* owned; holders, waiters, cancelled */
	size_t rows_count;
	char rows_of[ROW_NAME_SIZE];  /* "": no rows yet */
	bool rows_partial;            /* other daemons or the broker could not be asked */
	int more, rows_more;          /* left out of the two answers */
	char silent[TOP_SILENT_SIZE]; /* silent hosts: their waiters are missing */
	struct top_cancelled cancelled[TOP_CANCELLED_MOST];
	size_t cancelled_count;
	struct top_sight sight[TOP_PANELS];
	enum top_panel focus;
};

void top_model_init(struct top_model *model);
void top_model_done(struct top_model *model);

/* Takes an answer to `list`. False: out of memory or not such an answer; the model is unchanged. */
bool top_model_list(struct top_model *model, const char *json);
/*
 * Takes an answer to `show` for that name. If another name is selected by now, the answer is
 * ignored. top_model_forget_rows() removes the rows.
 */
bool top_model_show(struct top_model *model, const char *name, const char *json, int64_t now);
void top_model_forget_rows(struct top_model *model);
/* A row was denied: it is shown as cancelled for a while. */
void top_model_denied(struct top_model *model, const char *waiter, int64_t now);

/* Moves the selection by so many rows, within those shown. */
void top_model_move(struct top_model *model, enum top_panel panel, long by);
void top_model_filter(struct top_model *model, enum top_panel panel, const char *text);
/* Scrolls until the selected row is within so many lines. */
void top_model_fit(struct top_model *model, enum top_panel panel, size_t lines);

/* The selection. NULL: nothing is shown. */
const struct top_semaphore *top_model_semaphore(const struct top_model *model);
const struct row *top_model_row(const struct top_model *model);
const struct top_semaphore *top_model_semaphore_at(const struct top_model *model, size_t shown);
const struct row *top_model_row_at(const struct top_model *model, size_t shown);

#endif
