#include "daemon/broker/directory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/auxiliary.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/name_list.h"
#include "daemon/broker/raw_channel.h"
#include "daemon/broker/request.h"

/* The maximum of unanswered gets. */
#define GETS_MAX 256

enum directory_job_kind { JOB_READ, JOB_ENTER, JOB_LEAVE };

enum directory_job_state {
	JOB_WAITING,      /* waits for the link */
	JOB_DECLARING,    /* waits for declare-ok */
	JOB_READING,      /* waits for the answers to `gets` gets */
	JOB_PUTTING_BACK, /* waits for the end of its channel */
	JOB_CONFIRMING,   /* waits for the confirm of its message */
	JOB_OVER          /* has no channel; its answer is due */
};

struct directory_job {
	TAILQ_ENTRY(directory_job) in_all;
	struct amqp_directory *directory; /* borrowed */
	enum directory_job_kind kind;
	enum directory_job_state state;
	char *queue, *name; /* owned; name: NULL for JOB_READ */
	struct broker_names_done done;
	struct amqp_raw_channel channel;
	int64_t sent_at;

	unsigned gets;
	bool empty;    /* a get found nothing */
	unsigned seen; /* messages */
	struct name_list found;
	uint64_t *to_remove; /* owned; JOB_LEAVE: delivery tags of the found messages */
	size_t remove_room;

	enum broker_answer answer; /* PUTTING_BACK, OVER: the answer */
	int code;
	char *text; /* owned; NULL = "" */
};
TAILQ_HEAD(directory_jobs, directory_job);

struct amqp_directory {
	struct broker *broker;     /* borrowed */
	struct directory_jobs all; /* owned */
	struct timer over;         /* set while a job is OVER */
};

static void
job_set_state(struct directory_job *job, enum directory_job_state state)
{
	switch (state) {
	case JOB_WAITING:
		abort(); /* the first state */
	case JOB_DECLARING:
		assert(job->state == JOB_WAITING);
		break;
	case JOB_READING:
	case JOB_CONFIRMING:
		assert(job->state == JOB_DECLARING);
		break;
	case JOB_PUTTING_BACK:
		assert(job->state == JOB_READING);
		break;
	case JOB_OVER:
		assert(job->state != JOB_OVER && job->channel.number == 0);
		break;
	}
	job->state = state;
}

/* job: in no list any more. */
static void
job_free(struct directory_job *job)
{
	amqp_raw_channel_forget(&job->channel);
	name_list_done(&job->found);
	free(job->to_remove);
	free(job->queue);
	free(job->name);
	free(job->text);
	free(job);
}

/* ---- answers ---- */

/* Answers and frees a job, which is in no list any more. */
static void
job_answer(struct directory_job *job)
{
	struct amqp_directory *directory = job->directory;
	struct broker_names_done done = job->done;
	struct name_list found = {0};
	char *text = job->text;
	const struct broker_reply reply = {
	    .answer = job->answer,
	    .sent_at = job->sent_at,
	    .code = job->code,
	    .text = text != NULL ? text : "",
	};

	job->text = NULL;
	if (job->answer == BROKER_OK) {
		found = job->found;
		job->found = (struct name_list){0};
	}
	job_free(job);
	if (!directory->broker->stopped)
		done.fn(done.ctx, done.id, &reply, (const char *const *)found.all, found.count);
	name_list_done(&found);
	free(text);
}

/* For a job that was never sent: it is answered from the loop. */
static void
job_give_up(struct directory_job *job, const char *text)
{
	struct amqp_directory *directory = job->directory;

	job->answer = BROKER_UNKNOWN;
	job->text = mem_strdup(text);
	job_set_state(job, JOB_OVER);
	timers_set(directory->broker->timers, &directory->over, broker_now(directory->broker));
}

/* Every method of the job is answered. */
static void
job_finish(struct directory_job *job)
{
	amqp_raw_channel_close(&job->channel);
	job_set_state(job, JOB_OVER);
	TAILQ_REMOVE(&job->directory->all, job, in_all);
	job_answer(job);
}

static struct directory_job *
directory_first_over(const struct amqp_directory *directory)
{
	struct directory_job *job;

	TAILQ_FOREACH (job, &directory->all, in_all)
		if (job->state == JOB_OVER)
			break;
	return job;
}

static void
directory_on_over(void *ctx, uint64_t id)
{
	struct amqp_directory *directory = ctx;
	struct directory_job *job = directory_first_over(directory);

	(void)id;
	if (job == NULL)
		return;
	TAILQ_REMOVE(&directory->all, job, in_all);
	/* One job for each run: its callback may cause the answers of the others. */
	if (directory_first_over(directory) != NULL)
		timers_set(
		    directory->broker->timers, &directory->over, broker_now(directory->broker));
	job_answer(job);
}

/* ---- sending ---- */

static void
job_send_declare(const struct directory_job *job)
{
	amqp_table_entry_t type = amqp_entry_text("x-queue-type", "classic");
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(job->queue),
	    .passive = job->kind != JOB_ENTER,
	    .durable = job->kind == JOB_ENTER,
	};

	if (job->kind == JOB_ENTER) {
		declare.arguments.num_entries = 1;
		declare.arguments.entries = &type;
	}
	amqp_raw_channel_send(&job->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

static void
job_send_name(const struct directory_job *job)
{
	amqp_basic_publish_t fields = {.routing_key = amqp_cstring_bytes(job->queue)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
	    .delivery_mode = AMQP_DELIVERY_PERSISTENT,
	};

	amqp_raw_channel_publish(
	    &job->channel, &fields, &properties, amqp_cstring_bytes(job->name));
}

static void
job_send(struct directory_job *job)
{
	struct amqp_directory *directory = job->directory;
	amqp_confirm_select_t select = {0};

	job->sent_at = broker_now(directory->broker);
	if (!amqp_raw_channel_open(&job->channel, BROKER_NAME_MAX)) {
		job_give_up(job, "the auxiliary connection has no channel left");
		return;
	}
	job_set_state(job, JOB_DECLARING);
	if (job->kind == JOB_ENTER)
		amqp_raw_channel_send(&job->channel, AMQP_CONFIRM_SELECT_METHOD, &select);
	job_send_declare(job);
	if (job->kind == JOB_ENTER)
		job_send_name(job);
}

/* left: the known number of messages. One more get finds the end. */
static void
job_send_gets(struct directory_job *job, uint32_t left)
{
	amqp_basic_get_t get = {.queue = amqp_cstring_bytes(job->queue)};

	while (!job->empty && job->gets < GETS_MAX && job->gets <= left) {
		job->gets++;
		amqp_raw_channel_send(&job->channel, AMQP_BASIC_GET_METHOD, &get);
	}
}

/* All messages were seen: removes those that leave, and puts the others back. */
static void
job_put_back(struct directory_job *job)
{
	amqp_basic_consume_t consume = {.queue = amqp_cstring_bytes(job->queue)};

	if (job->seen > BROKER_DIRECTORY_MAX) {
		job->answer = BROKER_REFUSED;
		job->text = mem_printf("the queue has more than %d messages", BROKER_DIRECTORY_MAX);
	} else {
		job->answer = BROKER_OK;
		for (size_t i = 0; job->kind == JOB_LEAVE && i < job->found.count; i++)
			amqp_raw_channel_ack(&job->channel, job->to_remove[i]);
	}
	amqp_raw_channel_send(&job->channel, AMQP_BASIC_CONSUME_METHOD, &consume);
	job_set_state(job, JOB_PUTTING_BACK);
	amqp_channels_close_raw(job->directory->broker->channels, job->channel.number);
}

/* ---- receiving ---- */

static void
job_find_name(struct directory_job *job, const char *name)
{
	if (job->kind == JOB_LEAVE) {
		if (job->found.count == job->remove_room) {
			job->remove_room = job->remove_room == 0 ? 16 : 2 * job->remove_room;
			job->to_remove =
			    mem_grow(job->to_remove, job->remove_room, sizeof(*job->to_remove));
		}
		job->to_remove[job->found.count] = job->channel.delivery;
		FAULT(FIRST_NAME_LEAVES, job->to_remove[job->found.count] = job->found.count + 1);
	}
	name_list_add(&job->found, name);
}

/* Takes a whole message. A message that is not a name is foreign. */
static void
job_take_message(struct directory_job *job)
{
	const struct amqp_content *content = &job->channel.content;

	if (content->size > content->body_max ||
	    !broker_is_name(content->body, (size_t)content->size))
		return;
	if (job->kind == JOB_READ || strcmp(content->body, job->name) == 0)
		job_find_name(job, content->body);
}

/* Beyond the maximum no more gets are sent, but the answers to earlier ones still come. */
static bool
job_take_got(struct directory_job *job, const amqp_basic_get_ok_t *got)
{
	if (job->state != JOB_READING || job->gets == 0 ||
	    !amqp_raw_channel_announce(&job->channel, got->delivery_tag))
		return false;
	job->gets--;
	if (++job->seen <= BROKER_DIRECTORY_MAX)
		job_send_gets(job, got->message_count);
	return true;
}

static bool
job_take_empty(struct directory_job *job)
{
	if (job->state != JOB_READING || job->gets == 0 ||
	    job->channel.content.state != AMQP_CONTENT_IDLE)
		return false;
	job->gets--;
	job->empty = true;
	if (job->gets == 0)
		job_put_back(job);
	return true;
}

static bool
job_take_declared(struct directory_job *job, const amqp_queue_declare_ok_t *declared)
{
	if (job->state != JOB_DECLARING)
		return false;
	if (job->kind == JOB_ENTER) {
		job_set_state(job, JOB_CONFIRMING);
		return true;
	}
	job_set_state(job, JOB_READING);
	job_send_gets(job, declared->message_count);
	return true;
}

static bool
job_take_confirm(struct directory_job *job, bool taken)
{
	if (job->state != JOB_CONFIRMING)
		return false;
	if (taken) {
		job->answer = BROKER_OK;
		name_list_add(&job->found, job->name);
	} else {
		job->answer = BROKER_UNKNOWN;
		job->text = mem_strdup("the broker did not accept the message");
	}
	job_finish(job);
	return true;
}

static bool
job_on_message(void *ctx)
{
	struct directory_job *job = ctx;

	job_take_message(job);
	if (job->gets == 0)
		job_put_back(job);
	return true;
}

static bool
job_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct directory_job *job = ctx;

	switch (frame->method) {
	case AMQP_CONFIRM_SELECT_OK_METHOD:
		return true;
	case AMQP_QUEUE_DECLARE_OK_METHOD:
		return job_take_declared(job, frame->fields);
	case AMQP_BASIC_GET_OK_METHOD:
		return job_take_got(job, frame->fields);
	case AMQP_BASIC_GET_EMPTY_METHOD:
		return job_take_empty(job);
	case AMQP_BASIC_ACK_METHOD:
		return job_take_confirm(job, true);
	case AMQP_BASIC_NACK_METHOD:
		return job_take_confirm(job, false);
	default:
		return false;
	}
}

/*
 * The channel is closed: code 0 for our close, else for a refused method. The broker did not
 * perform the methods behind that.
 */
static void
job_on_closed(void *ctx, int code, const char *text)
{
	struct directory_job *job = ctx;
	bool declaring = job->state == JOB_DECLARING, reading = job->state == JOB_READING,
	     refused = job->channel.blames && (declaring || reading),
	     missing =
		 refused && code == AMQP_NOT_FOUND &&
		 amqp_request_refusal(&amqp_request_declare_slot, code, text) == BROKER_ABSENT;

	if (code == 0) {
		job_finish(job);
		return;
	}
	job->answer = !refused                             ? BROKER_UNKNOWN
		      : code == AMQP_NOT_FOUND && !missing ? BROKER_UNREACHABLE
							   : BROKER_REFUSED;
	job->code = code;
	free(job->text);
	job->text = mem_strdup(text);
	/* A directory that does not exist has no names. */
	if (missing && declaring && job->kind != JOB_ENTER) {
		job->answer = BROKER_OK;
		job->code = 0;
		job->text[0] = '\0';
	}
	job_finish(job);
}

/* ---- outside ---- */

static struct directory_job *
job_new(struct amqp_directory *directory, enum directory_job_kind kind, const char *queue,
    const char *name, struct broker_names_done done)
{
	static const struct amqp_raw_channel_events events = {
	    .method = job_on_method, .message = job_on_message, .closed = job_on_closed};
	struct directory_job *job = mem_alloc(sizeof(*job));

	assert(strlen(queue) <= UINT8_MAX);
	job->directory = directory;
	job->kind = kind;
	job->state = JOB_WAITING;
	job->queue = mem_strdup(queue);
	job->name = mem_strdup(name);
	job->done = done;
	amqp_raw_channel_init(&job->channel, directory->broker->channels, &events, job);
	job->sent_at = broker_now(directory->broker);
	TAILQ_INSERT_TAIL(&directory->all, job, in_all);
	return job;
}

/* Sends a job at once if there is a link. Else it waits for one. */
static void
job_begin(struct directory_job *job)
{
	struct broker *broker = job->directory->broker;

	if (amqp_channels_link(broker->channels) != NULL)
		job_send(job);
	amqp_auxiliary_need(broker);
}

void
broker_directory_read(struct broker *broker, const char *queue, struct broker_names_done done)
{
	job_begin(job_new(broker->directory, JOB_READ, queue, NULL, done));
}

void
broker_directory_leave(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	job_begin(job_new(broker->directory, JOB_LEAVE, queue, name, done));
}

void
broker_directory_enter(
    struct broker *broker, const char *queue, const char *name, struct broker_names_done done)
{
	struct directory_job *job = job_new(broker->directory, JOB_ENTER, queue, name, done);

	assert(broker_is_name(name, strlen(name)));
	if (!broker->blocked) {
		job_begin(job);
		return;
	}
	job_give_up(job, BROKER_ALARM_WORDS);
	amqp_auxiliary_need(broker);
}

bool
amqp_directory_in_use(const struct amqp_directory *directory)
{
	return !TAILQ_EMPTY(&directory->all);
}

void
amqp_directory_go(struct amqp_directory *directory)
{
	struct directory_job *job;

	TAILQ_FOREACH (job, &directory->all, in_all)
		if (job->state == JOB_WAITING)
			job_send(job);
}

void
amqp_directory_fail(struct amqp_directory *directory)
{
	struct directory_jobs lost = TAILQ_HEAD_INITIALIZER(lost);
	struct directory_job *job;

	TAILQ_CONCAT(&lost, &directory->all, in_all);
	while ((job = TAILQ_FIRST(&lost)) != NULL) {
		TAILQ_REMOVE(&lost, job, in_all);
		amqp_raw_channel_forget(&job->channel);
		if (job->state != JOB_OVER) {
			job->answer = BROKER_UNKNOWN;
			job_set_state(job, JOB_OVER);
		}
		job_answer(job);
	}
}

struct amqp_directory *
amqp_directory_new(struct broker *broker)
{
	struct amqp_directory *directory = mem_alloc(sizeof(*directory));

	directory->broker = broker;
	TAILQ_INIT(&directory->all);
	timer_init(&directory->over, directory_on_over, directory, 0);
	return directory;
}

void
amqp_directory_free(struct amqp_directory *directory)
{
	amqp_directory_fail(directory);
	timers_cancel(directory->broker->timers, &directory->over);
	free(directory);
}
