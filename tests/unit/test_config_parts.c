/*
 * daemon/config in parts: access rules, broker URLs.
 */
#include <string.h>
#include <unistd.h>

#include "daemon/config/access.h"
#include "daemon/config/url.h"
#include "tests/unit/unit.h"

/* ---- access rules ---- */

static const char *const bad_rules[] = {
    "",
    "allow",
    "allow any *",
    "allow any * * *",
    "permit any * *",
    "Allow any * *",
    "allow all * *",
    "allow user:no-such-user-here * *",
    "allow user: * *",
    "allow group:no-such-group-here * *",
    "allow uid:x * *",
    "allow uid: * *",
    "allow uid:-1 * *",
    "allow uid:4294967295 * *",
    "allow uid:18446744073709551616 * *",
    "allow gid:1x * *",
    "allow any aquire *",
    "allow any acquire, *",
    "allow any acquire,,release *",
    "allow any *,acquire *",
};

START_TEST(a_bad_rule_names_the_bad_word)
{
	static const struct {
		const char *rule, *error;
	} rows[] = {
	    {"deny user:nemo-here * *", "user nemo-here does not exist"},
	    {"deny group:none-here * *", "group none-here does not exist"},
	    {"deny uid:x * *", "uid:x: expected"},
	    {"deny nobody * *", "nobody: the second word"},
	    {"deny any acquire,relase *", "'relase' is not a method"},
	};
	struct access_rules *rules = access_rules_new();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *error = access_rules_add(rules, rows[i].rule);

		ck_assert_ptr_nonnull(error);
		ck_assert_msg(
		    strncmp(error, rows[i].error, strlen(rows[i].error)) == 0, "%s", error);
	}
	access_rules_free(rules);
}
END_TEST

START_TEST(a_bad_rule)
{
	struct access_rules *rules = access_rules_new();

	ck_assert_msg(
	    access_rules_add(rules, bad_rules[_i]) != NULL, "\"%s\" was taken", bad_rules[_i]);
	ck_assert_ptr_null(access_rules_get(rules, 0));
	access_rules_free(rules);
}
END_TEST

/* A uid that is neither root's nor ours. */
#define OTHER 65533

static const struct {
	const char *rules[4];
	uid_t uid;
	gid_t gid, more;
	const char *method;
	enum access_privilege privilege;
	const char *name;
	bool want;
} cases[] = {
    /* No rule. */
    {{0}, OTHER, 9, 9, "acquire", ACCESS_ANYONE, "db", true},
    {{0}, OTHER, 9, 9, "info", ACCESS_ANYONE, NULL, true},
    {{0}, OTHER, 9, 9, "create", ACCESS_ADMIN, "db", false},
    {{0}, 0, 9, 9, "create", ACCESS_ADMIN, "db", true},
    /* The admin group of these tests is root's. */
    {{0}, OTHER, 0, 9, "create", ACCESS_ADMIN, "db", true},
    {{0}, OTHER, 9, 0, "create", ACCESS_ADMIN, "db", true},
    /* The first match decides. */
    {{"deny any * *", "allow any * *"}, 0, 0, 0, "acquire", ACCESS_ANYONE, "db", false},
    {{"allow any * *", "deny any * *"}, OTHER, 9, 9, "create", ACCESS_ADMIN, "db", true},
    /* Who. */
    {{"allow uid:65533 * *"}, OTHER, 9, 9, "create", ACCESS_ADMIN, "db", true},
    {{"allow uid:65532 * *"}, OTHER, 9, 9, "create", ACCESS_ADMIN, "db", false},
    {{"deny user:root * *"}, 0, 9, 9, "acquire", ACCESS_ANYONE, "db", false},
    {{"deny user:root * *"}, OTHER, 0, 0, "acquire", ACCESS_ANYONE, "db", true},
    {{"deny group:root * *"}, OTHER, 0, 9, "acquire", ACCESS_ANYONE, "db", false},
    {{"deny gid:7 * *"}, OTHER, 9, 7, "acquire", ACCESS_ANYONE, "db", false},
    {{"deny gid:7 * *"}, 7, 9, 9, "acquire", ACCESS_ANYONE, "db", true},
    /* What: whole words. */
    {{"deny any acquire,create *"}, OTHER, 9, 9, "create", ACCESS_ANYONE, "db", false},
    {{"deny any acquire,create *"}, OTHER, 9, 9, "acquire", ACCESS_ANYONE, "db", false},
    {{"deny any acquire,create *"}, OTHER, 9, 9, "release", ACCESS_ANYONE, "db", true},
    {{"deny any acquire,create *"}, OTHER, 9, 9, "creat", ACCESS_ANYONE, "db", true},
    {{"deny any acquire,create *"}, OTHER, 9, 9, "reate", ACCESS_ANYONE, "db", true},
    /* Which. */
    {{"deny any * prod/*"}, OTHER, 9, 9, "acquire", ACCESS_ANYONE, "prod/a/b", false},
    {{"deny any * prod/*"}, OTHER, 9, 9, "acquire", ACCESS_ANYONE, "product", true},
    {{"deny any * db[0-9]"}, OTHER, 9, 9, "acquire", ACCESS_ANYONE, "db7", false},
    {{"deny any * *"}, OTHER, 9, 9, "acquire", ACCESS_ANYONE, ".hidden", false},
    /* Methods without a name. */
    {{"deny any * prod/*"}, OTHER, 9, 9, "info", ACCESS_ANYONE, NULL, true},
    {{"deny any * *"}, OTHER, 9, 9, "info", ACCESS_ANYONE, NULL, false},
    {{"allow any * ci/*", "deny any * *"}, OTHER, 9, 9, "info", ACCESS_ANYONE, NULL, true},
    {{"allow any * ci/*", "deny any * *"}, OTHER, 9, 9, "destroy", ACCESS_ADMIN, NULL, false},
    {{"allow any * *"}, OTHER, 9, 9, "destroy", ACCESS_ADMIN, NULL, true},
};

START_TEST(rules_allow_and_deny)
{
	struct access_rules *rules = access_rules_new();
	gid_t more[] = {cases[_i].more};
	struct access_subject subject = {
	    .uid = cases[_i].uid,
	    .gid = cases[_i].gid,
	    .groups = more,
	    .group_count = 1,
	};

	access_rules_set_admin_group(rules, "root");
	for (size_t i = 0; cases[_i].rules[i] != NULL; i++)
		ck_assert_ptr_null(access_rules_add(rules, cases[_i].rules[i]));
	ck_assert_int_eq(
	    access_allowed(rules, &subject, cases[_i].method, cases[_i].privilege, cases[_i].name),
	    cases[_i].want);
	access_rules_free(rules);
}
END_TEST

START_TEST(why_not)
{
	static const struct {
		const char *group, *rule, *want;
	} whys[] = {
	    {"root", NULL, "only root, the daemon's user and group root may"},
	    {"", NULL, "only root and the daemon's user may"},
	    {"no-such-group-here", NULL,
		"only root and the daemon's user may; group no-such-group-here "
		"(admin-group) did not exist when the configuration was read"},
	    {"root", "deny any create *", "an access rule denies it"},
	};
	struct access_rules *rules = access_rules_new();
	const struct access_subject subject = {.uid = OTHER, .gid = 9};
	char why[ACCESS_WHY_MAX];

	access_rules_set_admin_group(rules, whys[_i].group);
	if (whys[_i].rule != NULL)
		ck_assert_ptr_null(access_rules_add(rules, whys[_i].rule));
	ck_assert(!access_allowed(rules, &subject, "create", ACCESS_ADMIN, "x"));
	ck_assert_str_eq(
	    access_explain(why, rules, &subject, "create", ACCESS_ADMIN, "x"), whys[_i].want);
	access_rules_free(rules);
}
END_TEST

START_TEST(admin_group_that_is_none)
{
	static const char *const groups[] = {"", "no-such-group-here"};
	struct access_rules *rules = access_rules_new();
	struct access_subject subject = {.uid = OTHER, .gid = 0};

	for (size_t i = 0; i < 2; i++) {
		access_rules_set_admin_group(rules, "root");
		ck_assert(access_allowed(rules, &subject, "create", ACCESS_ADMIN, "x"));
		access_rules_set_admin_group(rules, groups[i]);
		ck_assert(!access_allowed(rules, &subject, "create", ACCESS_ADMIN, "x"));
	}
	subject.uid = geteuid();
	ck_assert(access_allowed(rules, &subject, "create", ACCESS_ADMIN, "x"));
	access_rules_free(rules);
}
END_TEST

/* ---- URLs ---- */

static const struct {
	const char *url, *host;
	int port;
	const char *user, *password, *vhost; /* password: NULL = none was given to a user */
	const char *printed; /* the password as asterisks, with which it is no good URL */
} good_urls[] = {
    {"amqp://h", "h", 5672, "guest", "guest", "/", "amqp://h:5672/%2F"},
    {"amqp://h/", "h", 5672, "guest", "guest", "/", "amqp://h:5672/%2F"},
    {"amqp://h//", "h", 5672, "guest", "guest", "/", "amqp://h:5672/%2F"},
    {"amqp://h/%2f", "h", 5672, "guest", "guest", "/", "amqp://h:5672/%2F"},
    {"amqps://h:1/v", "h", 1, "guest", "guest", "v", "amqps://h:1/v"},
    {"amqps://h", "h", 5671, "guest", "guest", "/", "amqps://h:5671/%2F"},
    {"amqp://u@h", "h", 5672, "u", NULL, "/", "amqp://u@h:5672/%2F"},
    {"amqp://u:@h", "h", 5672, "u", "", "/", "amqp://u:***@h:5672/%2F"},
    {"amqp://guest:p@h", "h", 5672, "guest", "p", "/", "amqp://guest:***@h:5672/%2F"},
    {"amqp://u%3a:p%2F%2C%40@h", "h", 5672, "u:", "p/,@", "/", "amqp://u%3A:***@h:5672/%2F"},
    {"amqp://u:\xc3\xa4@h", "h", 5672, "u", "\xc3\xa4", "/", "amqp://u:***@h:5672/%2F"},
    {"amqp://[::1]:65535", "::1", 65535, "guest", "guest", "/", "amqp://[::1]:65535/%2F"},
    {"AMQP://h", "h", 5672, "guest", "guest", "/", "amqp://h:5672/%2F"},
    {"amqp://u%80:%ff@h/v%C3%A4", "h", 5672, "u\x80", "\xff", "v\xc3\xa4",
	"amqp://u%80:***@h:5672/v%C3%A4"},
    {"amqp://h/v/w", "h", 5672, "guest", "guest", "v/w", "amqp://h:5672/v%2Fw"},
    {"amqp://h//v", "h", 5672, "guest", "guest", "/v", "amqp://h:5672/%2Fv"},
    {"amqp://127.0.0.1/a%20b", "127.0.0.1", 5672, "guest", "guest", "a b",
	"amqp://127.0.0.1:5672/a%20b"},
};

START_TEST(a_good_url)
{
	struct config_broker broker, again;
	const char *error = url_parse(good_urls[_i].url, strlen(good_urls[_i].url), &broker);
	char *printed;

	ck_assert_msg(error == NULL, "%s", error);
	ck_assert_str_eq(broker.host, good_urls[_i].host);
	ck_assert_int_eq(broker.port, good_urls[_i].port);
	ck_assert_str_eq(broker.user, good_urls[_i].user);
	ck_assert_pstr_eq(broker.password, good_urls[_i].password);
	ck_assert_str_eq(broker.vhost, good_urls[_i].vhost);
	ck_assert_int_eq(broker.tls, good_urls[_i].url[4] == 's');
	printed = url_format(&broker);
	ck_assert_str_eq(printed, good_urls[_i].printed);
	error = url_parse(printed, strlen(printed), &again);
	ck_assert_int_eq(error == NULL, !broker.password_given);
	if (error == NULL) {
		ck_assert_str_eq(again.host, broker.host);
		ck_assert_str_eq(again.user, broker.user);
		ck_assert_str_eq(again.vhost, broker.vhost);
		url_done(&again);
	}
	url_done(&broker);
	free(printed);
}
END_TEST

static const char *const bad_urls[] = {
    "",
    "h",
    "h:5672",
    "http://h",
    "memory:",
    "amqp:",
    "amqp:/h",
    "amqp://",
    "amqp:///v",
    "amqp://:5",
    "amqp://u:p@",
    "amqp://u:p@/v",
    "amqp://::1/",
    "amqp://[::1",
    "amqp://[::1]x",
    "amqp://[fe80::1%25eth0]",
    "amqp://[]/",
    "amqp://h:",
    "amqp://h:0",
    "amqp://h:65536",
    "amqp://h:99999999999999999999",
    "amqp://h:-1",
    "amqp://h:5x",
    "amqp://h/v?heartbeat=1",
    "amqp://h/v#f",
    "amqp://a b",
    "amqp://a%20b",
    "amqp://h\n",
    "amqp://u%00:p@h",
    "amqp://u%zz@h",
    "amqp://u%4@h",
    "amqp://u:p:q@h",
    "amqp://u:p@q@h",
    "amqp://:p@h",
    "amqp://u:***@h",
};

START_TEST(a_bad_url)
{
	struct config_broker broker = {.port = 77};

	ck_assert_msg(url_parse(bad_urls[_i], strlen(bad_urls[_i]), &broker) != NULL,
	    "\"%s\" was taken", bad_urls[_i]);
	ck_assert_int_eq(broker.port, 77);
}
END_TEST

START_TEST(long_urls)
{
	struct config_broker broker;
	char url[4096] = "amqp://h/";

	memset(url + 9, 'v', 255);
	ck_assert_ptr_null(url_parse(url, 9 + 255, &broker));
	url_done(&broker);
	url[9 + 255] = 'v';
	ck_assert_ptr_nonnull(url_parse(url, 9 + 256, &broker));
	memset(url + 9, 'v', sizeof(url) - 9);
	ck_assert_ptr_nonnull(url_parse(url, sizeof(url), &broker));
}
END_TEST

START_TEST(blanking)
{
	static const struct {
		const char *list, *want;
		bool met;
	} lists[] = {
	    {"amqp://u:pw@h", "amqp://u:**@h", true},
	    {"amqp://h,amqp://u:pw@h:5/v,amqps://x:y@z", "amqp://h,amqp://u:**@h:5/v,amqps://x:*@z",
		true},
	    {"amqp://u:p@q/w@h", "amqp://u:*****@h", true},
	    {"amqp://u@h:5", "amqp://u@h:5", false},
	    {"amqp://u:@h:5", "amqp://u:@h:5", false},
	    {"amqp://[::1]:5", "amqp://[::1]:5", false},
	    {"memory:", "memory:", false},
	    {"", "", false},
	    {",,", ",,", false},
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		char list[128];

		strcpy(list, lists[i].list);
		ck_assert_int_eq(url_blank(list), lists[i].met);
		ck_assert_str_eq(list, lists[i].want);
	}
}
END_TEST

static Suite *
access_suite(void)
{
	Suite *suite = suite_create("access");
	TCase *tc = tcase_create("access");

	tcase_add_test(tc, a_bad_rule_names_the_bad_word);
	tcase_add_loop_test(tc, a_bad_rule, 0, (int)(sizeof(bad_rules) / sizeof(bad_rules[0])));
	tcase_add_loop_test(tc, rules_allow_and_deny, 0, (int)(sizeof(cases) / sizeof(cases[0])));
	tcase_add_loop_test(tc, why_not, 0, 4);
	tcase_add_test(tc, admin_group_that_is_none);
	suite_add_tcase(suite, tc);
	return suite;
}

static Suite *
url_suite(void)
{
	Suite *suite = suite_create("url");
	TCase *tc = tcase_create("url");

	tcase_add_loop_test(tc, a_good_url, 0, (int)(sizeof(good_urls) / sizeof(good_urls[0])));
	tcase_add_loop_test(tc, a_bad_url, 0, (int)(sizeof(bad_urls) / sizeof(bad_urls[0])));
	tcase_add_test(tc, long_urls);
	tcase_add_test(tc, blanking);
	suite_add_tcase(suite, tc);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {access_suite, url_suite};

	return unit_run(makers, 2);
}
