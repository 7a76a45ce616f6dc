/*
 * Answers and notices of the engine as JSON: results, errors, notifications.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "daemon/peer/result.h"
#include "protocol/json.h"
#include "protocol/line.h"

static const struct message_id seven = {.kind = MESSAGE_ID_INTEGER, .integer = 7};
static const struct message_id seven_text = {.kind = MESSAGE_ID_STRING, .string = "7"};

static void
assert_json(struct cJSON *value, const char *wanted)
{
	char *text = json_print(value);

	ck_assert_str_eq(text, wanted);
	free(text);
	json_free(value);
}

START_TEST(a_denial_is_marked)
{
	struct lock_answer answer = {.reason = REASON_CANCELLED,
	    .text = "denied by an administrator",
	    .slots = -1,
	    .target = -1,
	    .denied = true};
	struct message_error error;

	assert_json(result_error(&answer, &error), "{\"denied\":true}");
	ck_assert_str_eq(error.text, "denied by an administrator");
	answer.denied = false;
	assert_json(result_error(&answer, &error), "{}");
}
END_TEST

START_TEST(notifications_of_a_watch_name_its_request)
{
	struct cJSON *params = json_new_object();

	json_add_string(params, "waiter", "00000012-3");
	assert_json(result_watched(&seven, params), "{\"id\":7,\"waiter\":\"00000012-3\"}");
	assert_json(result_watched(&seven_text, json_new_object()), "{\"id\":\"7\"}");
}
END_TEST

START_TEST(results_have_the_shapes_of_the_wire)
{
	const struct result_facts facts = {
	    .run = 0x12, .now = NSEC_PER_SEC, .heartbeat = 10, .margin = 2 * NSEC_PER_SEC};
	const struct lock_answer answer = {
	    .name = "db",
	    .kind = LOCK_KIND_SEMAPHORE,
	    .lock = 3,
	    .slot = 2,
	    .waited = NSEC_PER_SEC / 2,
	    .safe_until = 20 * NSEC_PER_SEC,
	    .slots = 4,
	};
	struct lock_answer mutex = answer;

	assert_json(result_acquire(&facts, &answer),
	    "{\"lock\":\"00000012-3\",\"name\":\"db\",\"kind\":\"semaphore\",\"slot\":2,"
	    "\"waited\":0.5,\"safe_for\":19,\"safe_until\":20,\"lease\":{\"heartbeat\":10,"
	    "\"margin\":2,\"length\":18,\"renewal\":3.333333333},\"fence\":null}");
	mutex.kind = LOCK_KIND_MUTEX;
	mutex.slot = 0;
	assert_json(result_verify(&facts, &mutex),
	    "{\"lock\":\"00000012-3\",\"name\":\"db\",\"kind\":\"mutex\",\"slot\":null,"
	    "\"safe_for\":19,\"safe_until\":20,\"fence\":null}");
	/* No slot, no lease: an unlimited semaphore. */
	mutex.kind = LOCK_KIND_SEMAPHORE;
	mutex.safe_until = 0;
	assert_json(result_acquire(&facts, &mutex),
	    "{\"lock\":\"00000012-3\",\"name\":\"db\",\"kind\":\"semaphore\",\"slot\":null,"
	    "\"waited\":0.5,\"safe_for\":null,\"safe_until\":null,\"lease\":null,"
	    "\"fence\":null}");
	assert_json(result_verify(&facts, &mutex),
	    "{\"lock\":\"00000012-3\",\"name\":\"db\",\"kind\":\"semaphore\",\"slot\":null,"
	    "\"safe_for\":null,\"safe_until\":null,\"fence\":null}");
	assert_json(result_release(&facts, &answer), "{\"lock\":\"00000012-3\"}");
	assert_json(
	    result_create(&facts, &answer), "{\"name\":\"db\",\"kind\":\"semaphore\",\"slots\":4}");
	assert_json(result_destroy(&facts, &answer), "{\"name\":\"db\"}");
	assert_json(result_size(&facts, &answer), "{\"name\":\"db\",\"slots\":4}");
}
END_TEST

/* By quorum, with a grace of 20 s. Clients of version 0.1.0 compute 18 s from the first two members. */
START_TEST(a_hold_by_quorum_has_a_fence_and_a_lease_of_its_own)
{
	const struct result_facts facts = {
	    .run = 0x12, .now = NSEC_PER_SEC, .heartbeat = 60, .margin = 5 * NSEC_PER_SEC};
	const struct lock_answer answer = {
	    .name = "db",
	    .kind = LOCK_KIND_SEMAPHORE,
	    .lock = 3,
	    .slot = 2,
	    .safe_until = 19 * NSEC_PER_SEC,
	    .grace = 20 * NSEC_PER_SEC,
	    .lease = 18 * NSEC_PER_SEC,
	    .fence = UINT64_C(9007199254740991),
	};

	assert_json(result_acquire(&facts, &answer),
	    "{\"lock\":\"00000012-3\",\"name\":\"db\",\"kind\":\"semaphore\",\"slot\":2,"
	    "\"waited\":0,\"safe_for\":18,\"safe_until\":19,\"lease\":{\"heartbeat\":10,"
	    "\"margin\":2,\"length\":18,\"renewal\":3.6},\"fence\":9007199254740991}");
	assert_json(result_verify(&facts, &answer),
	    "{\"lock\":\"00000012-3\",\"name\":\"db\",\"kind\":\"semaphore\",\"slot\":2,"
	    "\"safe_for\":18,\"safe_until\":19,\"fence\":9007199254740991}");
}
END_TEST

START_TEST(results_of_administration)
{
	const struct result_facts facts = {0};
	struct lock_answer answer = {
	    .name = "db", .slot = 3, .slots = LOCK_UNLIMITED, .target = 5, .warning = "and so"};

	assert_json(result_create(&facts, &answer),
	    "{\"name\":\"db\",\"kind\":\"semaphore\",\"slots\":\"unlimited\",\"warning\":\"and "
	    "so\"}");
	assert_json(result_destroy(&facts, &answer), "{\"name\":\"db\",\"warning\":\"and so\"}");
	assert_json(result_resize(&facts, &answer),
	    "{\"name\":\"db\",\"slots\":\"unlimited\",\"target\":5,\"warning\":\"and so\"}");
	assert_json(result_size(&facts, &answer), "{\"name\":\"db\",\"slots\":\"unlimited\"}");
	assert_json(result_await(&facts, &answer), "{\"name\":\"db\",\"slot\":3}");
	answer.slots = answer.target = 0;
	answer.warning = NULL;
	assert_json(result_resize(&facts, &answer), "{\"name\":\"db\",\"slots\":0,\"target\":0}");
}
END_TEST

START_TEST(results_of_fsck_list_what_was_found)
{
	static struct lock_finding many[RESULT_FINDINGS_MAX + 2];
	const struct lock_finding findings[] = {
	    {.problem = LOCK_PROBLEM_GAP, .slot = 4, .text = "a\n", .repaired = true},
	    {.problem = LOCK_PROBLEM_NOT_LISTED, .text = "b"}};
	struct lock_answer answer = {.name = "db"};
	struct cJSON *result;
	int64_t more = 0;

	assert_json(result_fsck(&(struct result_facts){0}, &answer),
	    "{\"name\":\"db\",\"clean\":true,\"findings\":[],\"converted\":0,\"claim\":null,"
	    "\"more\":0,\"extra\":0,\"holders\":[]}");
	answer.findings = findings;
	answer.finding_count = 2;
	answer.converted = 7;
	answer.claim = LOCK_CLAIM_MIXED;
	assert_json(result_fsck(&(struct result_facts){0}, &answer),
	    "{\"name\":\"db\",\"clean\":false,\"findings\":[{\"problem\":\"gap\",\"slot\":4,"
	    "\"text\":"
	    "\"a\\\\x0a\",\"repaired\":true},{\"problem\":\"not-listed\",\"slot\":null,\"text\":"
	    "\"b\","
	    "\"repaired\":false}],\"converted\":7,\"claim\":\"mixed\",\"more\":0,\"extra\":0,"
	    "\"holders\":[]}");
	answer.findings = many;
	answer.finding_count = RESULT_FINDINGS_MAX + 2;
	result = result_fsck(&(struct result_facts){0}, &answer);
	ck_assert(json_integer(json_get(result, "more"), &more));
	ck_assert_int_eq(more, 2);
	json_free(result);
}
END_TEST

START_TEST(a_broker_is_suspect_from_a_heartbeat_of_silence_on)
{
	const struct broker_info up = {.locks = BROKER_UP, .why = "", .heartbeat = 10};
	const struct broker_info down = {.locks = BROKER_DOWN, .why = "no\n", .heartbeat = 10};

	assert_json(result_pinged(&up, 10 * NSEC_PER_SEC - 1),
	    "{\"state\":\"up\",\"why\":\"\",\"silent\":9.999999999,\"suspect\":false}");
	assert_json(result_pinged(&up, 10 * NSEC_PER_SEC),
	    "{\"state\":\"up\",\"why\":\"\",\"silent\":10,\"suspect\":true}");
	assert_json(result_pinged(&down, -1),
	    "{\"state\":\"down\",\"why\":\"no\\\\x0a\",\"silent\":null,\"suspect\":false}");
}
END_TEST

START_TEST(the_holder_of_a_removed_slot_is_no_problem)
{
	const struct lock_finding findings[] = {{.problem = LOCK_PROBLEM_ORPHAN, .slot = 3},
	    {.problem = LOCK_PROBLEM_GAP, .slot = 4, .text = "a"}};
	struct lock_answer answer = {.name = "db", .findings = findings, .finding_count = 1};

	assert_json(result_fsck(&(struct result_facts){0}, &answer),
	    "{\"name\":\"db\",\"clean\":true,\"findings\":[],\"converted\":0,\"claim\":null,"
	    "\"more\":0,\"extra\":1,\"holders\":[{\"slot\":3}]}");
	answer.finding_count = 2;
	assert_json(result_fsck(&(struct result_facts){0}, &answer),
	    "{\"name\":\"db\",\"clean\":false,\"findings\":[{\"problem\":\"gap\",\"slot\":4,"
	    "\"text\":\"a\",\"repaired\":false}],\"converted\":0,\"claim\":null,"
	    "\"more\":0,\"extra\":1,\"holders\":[{\"slot\":3}]}");
}
END_TEST

static bool
tells(const void *ctx, const char *name)
{
	return strchr(ctx, *name) == NULL;
}

START_TEST(names_that_a_list_may_not_show_are_not_counted)
{
	static struct lock_listed rows[RESULT_ROWS_MAX + 3];
	const struct result_facts facts = {.tells = tells, .tells_ctx = "sx"};
	struct lock_answer answer = {.rows = rows, .row_count = 2};
	size_t more = 1;

	rows[0] = (struct lock_listed){.name = "secret", .slots = 1};
	rows[1] = (struct lock_listed){.name = "db", .slots = 1, .exists = true};
	assert_json(result_list(&facts, &answer, &more),
	    "{\"semaphores\":[{\"name\":\"db\",\"slots\":1,"
	    "\"busy\":0,\"exists\":true,\"claim\":null}]}");
	ck_assert_uint_eq(more, 0);
	for (size_t i = 2; i < RESULT_ROWS_MAX + 3; i++)
		rows[i] = (struct lock_listed){.name = i == 2 ? "x" : "many", .slots = 1};
	answer.row_count = RESULT_ROWS_MAX + 3;
	json_free(result_list(&facts, &answer, &more));
	ck_assert_uint_eq(more, 1);
}
END_TEST

START_TEST(a_list_stays_below_the_longest_line)
{
	static struct lock_listed rows[RESULT_ROWS_MAX + 1];
	char name[LOCKNAME_MAX + 1];
	struct lock_answer answer = {.rows = rows, .row_count = RESULT_ROWS_MAX + 1};
	struct cJSON *result;
	size_t more = 1;
	char *line;

	assert_json(result_list(&(struct result_facts){0}, &(struct lock_answer){0}, &more),
	    "{\"semaphores\":[]}");
	ck_assert_uint_eq(more, 0);
	rows[0] = (struct lock_listed){
	    .name = "db", .slots = -1, .busy = -1, .exists = true, .claim = LOCK_CLAIM_BY_CONSUMER};
	assert_json(result_list(&(struct result_facts){0},
			&(struct lock_answer){.rows = rows, .row_count = 1}, &more),
	    "{\"semaphores\":[{\"name\":\"db\",\"slots\":null,\"busy\":null,\"exists\":true,"
	    "\"claim\":\"consumer\"}]}");
	memset(name, 'x', LOCKNAME_MAX);
	name[LOCKNAME_MAX] = '\0';
	for (size_t i = 0; i < RESULT_ROWS_MAX + 1; i++)
		rows[i] = (struct lock_listed){.name = name,
		    .slots = LOCK_UNLIMITED,
		    .busy = 10000,
		    .claim = LOCK_CLAIM_BY_QUEUE};
	result = result_list(&(struct result_facts){0}, &answer, &more);
	ck_assert_uint_eq(more, 1);
	line = message_result_line(&seven, result);
	/* The view adds waiters, mutexes and silent hosts. */
	ck_assert_uint_lt(strlen(line), LINE_MAX_OUT / 4 * 3);
	free(line);
}
END_TEST

/* The text of an explanation. */
static const char *
explained(struct lock_explanation why, enum lock_kind kind, const char *hindrance)
{
	static char text[1024];
	const struct lock_answer answer = {.name = "db", .kind = kind, .explanation = &why};
	struct cJSON *result =
	    result_explain(&(struct result_facts){.hindrance = hindrance}, &answer);
	const char *words = NULL;

	ck_assert(json_string(json_get(result, "text"), &words));
	snprintf(text, sizeof(text), "%s", words);
	json_free(result);
	return text;
}

START_TEST(explanations_are_sentences)
{
	const struct lock_explanation free_one = {.verdict = LOCK_VERDICT_FREE,
	    .slots = 3,
	    .busy = 1,
	    .uncounted = 2,
	    .claim = LOCK_CLAIM_BY_QUEUE};
	const struct lock_answer answer = {.name = "db", .explanation = &free_one};
	const struct lock_answer unknown = {.name = "db"};
	const struct result_facts stopping = {
	    .hindrance = "it stops\n", .hindered = REASON_DRAINING};

	assert_json(result_explain(&(struct result_facts){0}, &answer),
	    "{\"name\":\"db\",\"kind\":\"semaphore\",\"verdict\":\"free\",\"slots\":3,\"busy\":1,"
	    "\"here\":0,\"waiting\":0,\"uncounted\":2,\"extra\":0,"
	    "\"claim\":\"exclusive-queue\",\"reason\":"
	    "null,"
	    "\"text\":\"1 of 3 slots are busy: an "
	    "acquire "
	    "gets a free one; 2 more slots above a gap do not count (see fsck); its "
	    "slots are held by exclusive queues\"}");
	assert_json(result_explain(&stopping, &unknown),
	    "{\"name\":\"db\",\"kind\":\"semaphore\",\"verdict\":null,\"slots\":null,\"busy\":null,"
	    "\"here\":null,\"waiting\":null,\"uncounted\":null,\"extra\":null,"
	    "\"claim\":null,"
	    "\"reason\":\"draining\",\"text\":\"it stops\\\\x0a\"}");
	ck_assert_str_eq(
	    explained((struct lock_explanation){.verdict = LOCK_VERDICT_GATE, .extra = 1},
		LOCK_KIND_SEMAPHORE, NULL),
	    "it has 0 slots: an acquire waits until it is resized; 1 holder of removed slots, or "
	    "without a slot, still works");
	ck_assert_str_eq(explained(free_one, LOCK_KIND_MUTEX, "no"),
	    "no; the mutex is free: an acquire gets it; 2 more slots above a gap do not count (see "
	    "fsck)");
	ck_assert_str_eq(explained((struct lock_explanation){.verdict = LOCK_VERDICT_FULL,
				       .slots = 2,
				       .busy = 2,
				       .unreachable = 1,
				       .claim = LOCK_CLAIM_BY_CONSUMER},
			     LOCK_KIND_SEMAPHORE, NULL),
	    "2 of 2 slots are busy, none held by clients of this daemon: an acquire waits "
	    "until one is released; the holder queues of 1 cannot be reached, so these slots count "
	    "as busy; its slots are held by consumers");
	ck_assert_str_eq(
	    explained((struct lock_explanation){.verdict = LOCK_VERDICT_UNKNOWN, .unreachable = 1},
		LOCK_KIND_MUTEX, NULL),
	    "the node of the mutex's queue cannot be reached, so the broker does not say whether "
	    "it is busy");
	ck_assert_str_eq(
	    explained((struct lock_explanation){.verdict = LOCK_VERDICT_FULL, .here = 1},
		LOCK_KIND_MUTEX, NULL),
	    "the mutex is held by a client of this daemon: an acquire waits until its holder "
	    "releases it");
	ck_assert_str_eq(explained(
			     (struct lock_explanation){
				 .verdict = LOCK_VERDICT_FULL, .slots = 3, .busy = 3, .here = -1},
			     LOCK_KIND_SEMAPHORE, NULL),
	    "3 of 3 slots are busy, an unknown number held by clients of this daemon: an acquire "
	    "waits until one is released");
	for (int here = 1; here <= 2; here++)
		ck_assert_str_eq(
		    explained(
			(struct lock_explanation){
			    .verdict = LOCK_VERDICT_FULL, .slots = 2, .busy = 2, .here = here},
			LOCK_KIND_SEMAPHORE, NULL),
		    here == 1 ? "2 of 2 slots are busy, 1 held by clients of this daemon: an "
				"acquire waits until one is released"
			      : "2 of 2 slots are busy, all held by clients of this daemon: an "
				"acquire waits until one is released");
	for (enum lock_verdict verdict = LOCK_VERDICT_FREE; verdict <= LOCK_VERDICT_UNKNOWN;
	     verdict++)
		for (int kind = LOCK_KIND_SEMAPHORE; kind <= LOCK_KIND_PERSISTENT_MUTEX; kind++)
			ck_assert_uint_gt(
			    strlen(explained((struct lock_explanation){.verdict = verdict},
				(enum lock_kind)kind, NULL)),
			    20);
}
END_TEST

START_TEST(errors_say_what_is_known)
{
	const int held[] = {3, 5};
	struct lock_answer answer = {
	    .reason = REASON_WOULD_BLOCK, .slots = 3, .target = -1, .busy = -1, .waiting = 0};
	struct message_error error;

	assert_json(result_error(&answer, &error), "{\"slots\":3,\"busy\":null,\"waiting\":0}");
	ck_assert_str_eq(error.text, reason_message(REASON_WOULD_BLOCK));
	answer.reason = REASON_ALREADY_EXISTS;
	assert_json(result_error(&answer, &error), "{\"slots\":3}");
	answer.slots = answer.target = LOCK_UNLIMITED;
	assert_json(
	    result_error(&answer, &error), "{\"slots\":\"unlimited\",\"target\":\"unlimited\"}");
	answer = (struct lock_answer){.reason = REASON_TIMEOUT,
	    .slots = 2,
	    .target = 2,
	    .busy = -1,
	    .waiting = -1,
	    .held = held,
	    .held_count = 2,
	    .warning = "and so"};
	assert_json(result_error(&answer, &error),
	    "{\"slots\":2,\"busy\":null,\"waiting\":null,\"target\":2,\"left\":2,"
	    "\"holders\":[{\"slot\":3},{\"slot\":5}],\"warning\":\"and so\"}");
	answer =
	    (struct lock_answer){.reason = REASON_BROKER_BLOCKED, .target = 4, .unchanged = true};
	assert_json(result_error(&answer, &error), "{\"target\":4,\"changed\":false}");
	answer = (struct lock_answer){
	    .reason = REASON_INVALID_PARAMS, .target = -1, .text = "no", .parameter = "add"};
	assert_json(result_error(&answer, &error), "{}");
	ck_assert_str_eq(error.parameter, "add");
	answer.reason = REASON_BROKER_REFUSED;
	answer.text = "ACCESS_REFUSED - 'a'\r\n\xff";
	assert_json(result_error(&answer, &error), "{}");
	ck_assert_str_eq(
	    error.text, "the broker refused the daemon: ACCESS_REFUSED - 'a'\\x0d\\x0a\\xff");
	ck_assert_str_eq(error.parameter, "");
	ck_assert_int_eq(error.reason, REASON_BROKER_REFUSED);
}
END_TEST

START_TEST(a_refusal_of_the_broker_is_not_one_of_the_user)
{
	struct lock_answer answer = {.reason = REASON_BROKER_REFUSED, .slots = -1, .target = -1};
	struct message_error error;

	json_free(result_error(&answer, &error));
	ck_assert_str_eq(error.text, "the broker refused the daemon");
	answer.text = "ACCESS_REFUSED";
	json_free(result_error(&answer, &error));
	ck_assert_str_eq(error.text, "the broker refused the daemon: ACCESS_REFUSED");
	answer.reason = REASON_BROKER_UNAVAILABLE;
	json_free(result_error(&answer, &error));
	ck_assert_str_eq(error.text, "ACCESS_REFUSED");
}
END_TEST

START_TEST(notices_become_notifications)
{
	const struct result_facts facts = {.run = 0x12, .now = NSEC_PER_SEC};
	const int held[] = {4, 6};
	struct lock_notice notice = {.kind = LOCK_NOTICE_LOST,
	    .lock = 3,
	    .name = "db",
	    .slot = 2,
	    .reason = REASON_DRAINING,
	    .text = "x"};
	struct cJSON *params = NULL;

	ck_assert_str_eq(result_notice(&facts, &notice, NULL, &params), "lost");
	assert_json(params,
	    "{\"lock\":\"00000012-3\",\"name\":\"db\",\"slot\":2,\"reason\":\"draining\","
	    "\"why\":\"x\"}");
	notice.kind = LOCK_NOTICE_SUSPECT;
	ck_assert_str_eq(result_notice(&facts, &notice, NULL, &params), "suspect");
	assert_json(params, "{\"lock\":\"00000012-3\"}");
	notice.kind = LOCK_NOTICE_LEASE;
	notice.safe_until = 3 * NSEC_PER_SEC / 2;
	ck_assert_str_eq(result_notice(&facts, &notice, NULL, &params), "lease");
	assert_json(params, "{\"safe_for\":0.5,\"safe_until\":1.5}");
	notice.kind = LOCK_NOTICE_WAITING;
	notice.position = 1;
	notice.busy = -1;
	ck_assert_str_eq(result_notice(&facts, &notice, &seven_text, &params), "waiting");
	assert_json(params, "{\"id\":\"7\",\"position\":1,\"busy\":null,\"extra\":0}");
	notice.kind = LOCK_NOTICE_HOLDERS;
	ck_assert_str_eq(result_notice(&facts, &notice, &seven, &params), "holders");
	assert_json(params, "{\"id\":7,\"left\":0,\"holders\":[]}");
	notice.held = held;
	notice.held_count = 2;
	result_notice(&facts, &notice, &seven, &params);
	assert_json(params, "{\"id\":7,\"left\":2,\"holders\":[{\"slot\":4},{\"slot\":6}]}");
	notice.kind = LOCK_NOTICE_BROKER;
	notice.state = BROKER_LOGIN_REFUSED;
	notice.text = "no\nway";
	ck_assert_str_eq(result_notice(&facts, &notice, NULL, &params), "broker");
	assert_json(params, "{\"state\":\"refused\",\"why\":\"no\\\\x0away\"}");
	notice.kind = LOCK_NOTICE_VANISHED;
	ck_assert_ptr_null(result_notice(&facts, &notice, NULL, &params));
	notice.kind = LOCK_NOTICE_STUCK;
	ck_assert_ptr_null(result_notice(&facts, &notice, NULL, &params));
}
END_TEST

static Suite *
results_suite(void)
{
	Suite *suite = suite_create("results");
	TCase *tcase = tcase_create("results");

	tcase_add_test(tcase, a_denial_is_marked);
	tcase_add_test(tcase, notifications_of_a_watch_name_its_request);
	tcase_add_test(tcase, results_have_the_shapes_of_the_wire);
	tcase_add_test(tcase, a_hold_by_quorum_has_a_fence_and_a_lease_of_its_own);
	tcase_add_test(tcase, results_of_administration);
	tcase_add_test(tcase, results_of_fsck_list_what_was_found);
	tcase_add_test(tcase, the_holder_of_a_removed_slot_is_no_problem);
	tcase_add_test(tcase, a_broker_is_suspect_from_a_heartbeat_of_silence_on);
	tcase_add_test(tcase, names_that_a_list_may_not_show_are_not_counted);
	tcase_add_test(tcase, a_list_stays_below_the_longest_line);
	tcase_add_test(tcase, explanations_are_sentences);
	tcase_add_test(tcase, errors_say_what_is_known);
	tcase_add_test(tcase, a_refusal_of_the_broker_is_not_one_of_the_user);
	tcase_add_test(tcase, notices_become_notifications);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {results_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
