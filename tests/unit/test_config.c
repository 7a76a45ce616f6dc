/*
 * daemon/config: files, options, their precedence, passwords, validation of the whole, printing and
 * comparing.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/config/config.h"
#include "daemon/config/file.h"
#include "daemon/config/keys.h"
#include "tests/unit/unit.h"

static char dir[64], conf[96];
static int warnings;
static enum config_action action;
static struct config_errors errors;

static void
count_warning(void *ctx, enum log_level level, const char *line)
{
	(void)ctx;
	(void)line;
	warnings += level == LOG_LEVEL_WARNING;
}

static void
write_bytes(const char *path, const void *bytes, size_t len, mode_t mode)
{
	FILE *f;

	unlink(path); /* it may be read-only */
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
}

static void
write_conf(const char *text)
{
	write_bytes(conf, text, strlen(text), 0600);
}

static char *
in_dir(const char *name)
{
	return mem_printf("%s/%s", dir, name);
}

static void
setup(void)
{
	strcpy(dir, "/tmp/test_config.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(conf, sizeof(conf), "%s/c", dir);
	unsetenv("CREDENTIALS_DIRECTORY");
	warnings = 0;
	log_set_sink(count_warning, NULL);
	memset(&errors, 0, sizeof(errors));
}

static void
teardown(void)
{
	static const char *const names[] = {"c", "p", "broker-password", "printed"};

	log_set_sink(NULL, NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = in_dir(names[i]);

		unlink(path);
		free(path);
	}
	ck_assert_int_eq(rmdir(dir), 0);
}

#define ARGS_MAX 8

/* Loads with options (ending with NULL), which are copied: they may be blanked. */
static struct config *
load_list(const char *const *list)
{
	char *args[ARGS_MAX + 2] = {mem_strdup("lockbrokerd")};
	int count = 1;
	struct config *config;

	for (; list[count - 1] != NULL; count++) {
		ck_assert_int_lt(count, ARGS_MAX);
		args[count] = mem_strdup(list[count - 1]);
	}
	config = config_load(count, args, &action, &errors);
	for (int i = 0; i < count; i++)
		free(args[i]);
	return config;
}
#define LOAD(...) load_list((const char *const[]){__VA_ARGS__, NULL})

/* Loads a file's text. */
static struct config *
load_text(const char *text)
{
	write_conf(text);
	return LOAD("--config", conf);
}

static void
assert_error(const char *want)
{
	ck_assert_msg(
	    strstr(errors.texts[0], want) != NULL, "want \"%s\" in \"%s\"", want, errors.texts[0]);
}

START_TEST(defaults)
{
	struct config *config = LOAD("--config", "/dev/null");

	ck_assert_msg(config != NULL, "%s", errors.texts[0]);
	ck_assert_int_eq(action, CONFIG_RUN);
	ck_assert_str_eq(config->socket, "/run/lockbroker/lockbroker.sock");
	ck_assert_uint_eq(config->socket_mode, 0660);
	ck_assert_int_eq(config->heartbeat, 10);
	ck_assert_int_eq(config->stop_timeout, INT64_C(30000000000));
	ck_assert_int_eq(config->log_level, LOG_LEVEL_INFO);
	ck_assert_uint_eq(config->broker_count, 1);
	ck_assert_str_eq(config->brokers[0].host, "localhost");
	ck_assert_int_eq(config->brokers[0].port, 5672);
	ck_assert_str_eq(config->brokers[0].vhost, "/");
	ck_assert_str_eq(config->brokers[0].user, "guest");
	ck_assert_str_eq(config->brokers[0].password, "guest");
	config_free(config);
}
END_TEST

/* ---- files ---- */

static const struct {
	const char *text, *want; /* part of the error */
} bad_files[] = {
    {"hartbeat = 5\n", ":1: hartbeat: unknown key; did you mean heartbeat?"},
    {"hostnam = x\n", ":1: hostnam: unknown key; did you mean host-name?"},
    {"broker = memory\n", ":1: broker: URL 1: no broker URL; did you mean memory: (with a colon)?"},
    {"broker = memory://\n",
	":1: broker: URL 1: no broker URL; did you mean memory: (with a colon)?"},
    {"broker = amqp:\n", ":1: broker: URL 1: no broker URL: expected amqp://"},
    {"# c\n\nheartbeat = 5\n heartbeat = 6\n", ":4: heartbeat: already set in line 3"},
    {"heartbeat = 0\n", ":1: heartbeat: '0': expected a number from 1 to 60"},
    {"heartbeat = 61\n", ":1: heartbeat: '61'"},
    {"heartbeat = -1\n", ":1: heartbeat: '-1'"},
    {"heartbeat = 5 ; five\n", ":1: heartbeat: '5 ; five'"},
    {"heartbeat =\n", ":1: heartbeat: ''"},
    {"heartbeat = 99999999999999999999\n", ":1: heartbeat:"},
    {"heartbeat = 5.5\n", ":1: heartbeat:"},
    {"\nmargin = soon\n", ":2: margin: 'soon': expected seconds from 0 to 60"},
    {"socket-mode = 0888\n", ":1: socket-mode: '0888': expected an octal number up to 0777"},
    {"socket-mode = 7777\n", ":1: socket-mode:"},
    {"socket =\n", ":1: socket:"},
    {"socket-group = no-such-group-here\n",
	":1: socket-group: group no-such-group-here does not exist"},
    {"naming = python\n",
	":1: naming: 'python': expected one of amqp-locks, amqp-locks-python, custom"},
    {"naming = custom\nslot-queue = {name}-{slot}-A\n",
	"holder-queue (default): is needed when naming is custom"},
    {"naming = custom\n", "slot-queue (default): is needed when naming is custom"},
    {"holder-queue = {name}-{slot}-B\n",
	":1: holder-queue: is for naming = custom, and naming is amqp-locks"},
    {"naming = custom\nslot-queue = {name}-{slot}\nholder-queue = {name}{slot}-B\n",
	":3: holder-queue: {name}{slot}-B: byte 7: {name} and {slot} need a sign"},
    {"slot-queue = {name}.{slot}.{slot}\nnaming = custom\nholder-queue = x\n",
	":1: slot-queue: {name}.{slot}.{slot}: byte 15: a second {slot}"},
    {"naming = custom\nslot-queue = {name}-{slot}-x\nholder-queue = B-{name}-{slot}-x\n",
	":3: holder-queue: B-{name}-{slot}-x could make the same name as slot-queue, "
	"{name}-{slot}-x; the text before"},
    {"log-level = loud\n", ":1: log-level: 'loud': expected one of error, warning, info, debug"},
    {"sasl = none\n", ":1: sasl:"},
    {"admin-group = a\tb\n", ":1: admin-group: contains a control character"},
    {"foo\n", ":1: expected `key = value`"},
    {"heartbeat = 5\nfoo\nbar = 1\n", ":2: expected `key = value`"},
    {"[access\n", ":1:"},
    {"[acess]\n", ":1: [acess]: unknown section"},
    {"[access] x\n", ":1: [access] x: unknown section"},
    {"[]\n", ":1: []: unknown section"},
    {"[access]\nheartbeat = 5\n",
	":2: heartbeat: unknown key; [access] has only rule; other keys stand above it"},
    {"rule = allow any * *\n", ":1: rule: unknown key"},
    {"[access]\nrule = allow any * *\nrule = alow any * *\n", ":3: rule: a rule must start with"},
    {"config = x\n", ":1: config: unknown key"},
    /* The whole. */
    {"heartbeat = 2\nmargin = 2\n",
	":2: margin: 2.000 s leaves a lease of 2.000 s; lockbroker run needs 2.167 s"},
    {"heartbeat = 1\n", ":1: heartbeat: 1 s leaves a lease of 1.800 s"},
    {"heartbeat = 5\nmargin = 5.5\n",
	":2: margin: 5.500 s is longer than heartbeat, 5 s; expected at most that"},
    {"probe-timeout = 10\n", ":1: probe-timeout: 10.000 s is not less than request-timeout"},
    {"request-timeout = 5\n", "probe-timeout (default): 5.000 s is not less"},
    {"max-buffer-per-uid = 65\n", ":1: max-buffer-per-uid: 65 is more than half of max-buffer"},
    {"tls-cert = /dev/null\n", ":1: tls-cert: also needs tls-key"},
    {"tls-key = /dev/null\n", ":1: tls-key: also needs tls-cert"},
    {"tls-ca = /no/such/ca\n", ":1: tls-ca: /no/such/ca: No such file or directory"},
    {"broker = amqps://h\nsasl = external\n", ":2: sasl: external needs a client certificate"},
    {"broker = amqp://h\nsasl = external\ntls-cert = /dev/null\ntls-key = /dev/null\n",
	":2: sasl: external needs TLS: URL 1"},
    {"broker = amqp://a/x,amqp://b/y\n", ":1: broker: URL 2 names another vhost"},
    {"broker = amqp://u@h\n", ":1: broker: URL 1 names a user, but no password is given"},
    {"password-file = /no/such\n", ":1: password-file: /no/such: No such file or directory"},
};

START_TEST(a_bad_file)
{
	struct config *config = load_text(bad_files[_i].text);

	ck_assert_ptr_null(config);
	ck_assert_msg(strncmp(errors.texts[0], conf, strlen(conf)) == 0 ||
			  strstr(bad_files[_i].want, "(default)") != NULL,
	    "%s", errors.texts[0]);
	assert_error(bad_files[_i].want);
}
END_TEST

START_TEST(bad_bytes)
{
	char *text = mem_alloc(FILE_SIZE_MAX + 2);

	write_bytes(conf, "heartbeat = 5\nmar\0gin = 1\n", 26, 0600);
	ck_assert_ptr_null(LOAD("--config", conf));
	assert_error(":2: the line contains a NUL byte");
	memset(text, '#', FILE_SIZE_MAX + 1);
	write_bytes(conf, text, FILE_LINE_MAX, 0600);
	ck_assert_ptr_null(LOAD("--config", conf));
	assert_error(":1: the line is too long");
	memset(text, '\n', FILE_SIZE_MAX + 1);
	write_bytes(conf, text, FILE_SIZE_MAX + 1, 0600);
	ck_assert_ptr_null(LOAD("--config", conf));
	assert_error("larger than 1 MiB");
	free(text);
	ck_assert_ptr_null(LOAD("--config", "/dev/zero"));
	ck_assert_ptr_null(LOAD("--config", dir));
	assert_error("not a file");
	ck_assert_ptr_null(LOAD("--config", "/no/such/file"));
	assert_error("/no/such/file: No such file or directory");
	/* Nobody will ever write to it. */
	unlink(conf);
	ck_assert_int_eq(mkfifo(conf, 0600), 0);
	ck_assert_ptr_null(LOAD("--config", conf));
	assert_error("not a file");
}
END_TEST

START_TEST(good_files)
{
	struct config *config = load_text("\xef\xbb\xbf; c\r\n"
					  "  heartbeat = 5\r\n"
					  "\tmargin=2.5\r\n"
					  "stop-timeout: 2m\n"
					  "socket-mode = 600\n"
					  "socket-group = root\n"
					  "log-level = debug\n"
					  "[access]\n"
					  "rule = allow any * *\n"
					  "[access]\n"
					  "rule = deny uid:7 acquire,release x#y;z");

	ck_assert_msg(config != NULL, "%s", errors.texts[0]);
	ck_assert_int_eq(config->heartbeat, 5);
	ck_assert_int_eq(config->margin, INT64_C(2500000000));
	ck_assert_int_eq(config->stop_timeout, INT64_C(120000000000));
	ck_assert_uint_eq(config->socket_mode, 0600);
	ck_assert_int_eq(config->log_level, LOG_LEVEL_DEBUG);
	ck_assert_str_eq(access_rules_get(config->access, 0), "allow any * *");
	ck_assert_str_eq(access_rules_get(config->access, 1), "deny uid:7 acquire,release x#y;z");
	ck_assert_ptr_null(access_rules_get(config->access, 2));
	config_free(config);
}
END_TEST

/* ---- options ---- */

START_TEST(bad_options)
{
	ck_assert_ptr_null(LOAD("--hartbeat", "5"));
	assert_error("--hartbeat: unknown option; did you mean --heartbeat?");
	ck_assert_ptr_null(LOAD("--chek-config=yes"));
	assert_error("--chek-config: unknown option; did you mean --check-config?");
	ck_assert_ptr_null(LOAD("--passphrase=secret"));
	ck_assert_ptr_null(strstr(errors.texts[0], "secret"));
	ck_assert_ptr_null(LOAD("-x"));
	assert_error("-x: unknown option");
	ck_assert_ptr_null(LOAD("--heartbeat"));
	assert_error("--heartbeat: needs a value");
	ck_assert_ptr_null(LOAD("--check-config=yes"));
	assert_error("--check-config: takes no value");
	ck_assert_ptr_null(LOAD("--heartbeat", "x", "--config", "/dev/null"));
	assert_error("--heartbeat: 'x': expected a number from 1 to 60");
	ck_assert_ptr_null(LOAD("--config", "/dev/null", "start"));
	assert_error("start: expected an option");
	ck_assert_ptr_null(LOAD("--config", "/dev/null", "--heartbeat=5", "--margin", "8"));
	assert_error("--margin: 8.000 s is longer than heartbeat, 5 s");
}
END_TEST

static void
assert_errors(size_t count, const char *const *wants)
{
	ck_assert_uint_eq(errors.count, count);
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(strstr(errors.texts[i], wants[i]) != NULL, "want \"%s\" in \"%s\"",
		    wants[i], errors.texts[i]);
}
#define ASSERT_ERRORS(...)                                                                         \
	assert_errors(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                      \
	    (const char *const[]){__VA_ARGS__})

START_TEST(every_error_of_a_file_is_reported)
{
	char *text =
	    mem_printf("heartbeat = 90\nno key\n# a comment\n\nmax-races = 1\nmax-races = 2\n"
		       "%0*d\n  ; another\n[acess]\nrule = x\n[access]\nrule = x\nsocket = y\n",
		FILE_LINE_MAX, 0);

	ck_assert_ptr_null(load_text(text));
	ASSERT_ERRORS("c:1: heartbeat: '90'", "c:2: expected `key = value`",
	    "c:6: max-races: already set in line 5", "c:7: the line is too long",
	    "c:9: [acess]: unknown section", "c:12: rule: ", "c:13: socket: unknown key");
	free(text);
	/* The bytes of a mark at the begin are no key. */
	ck_assert_ptr_null(load_text("\xef\xbb\xbf# a comment\nno key"));
	ASSERT_ERRORS("c:2: expected `key = value`");
	ck_assert_ptr_null(load_text("\xef\xbb\xbfno key\nnor this"));
	ASSERT_ERRORS("c:1: expected `key = value`", "c:2: expected `key = value`");
}
END_TEST

START_TEST(every_error_of_the_options_is_reported)
{
	ck_assert_ptr_null(LOAD("--hartbeat=5", "-x", "--heartbeat=x", "--margin"));
	ASSERT_ERRORS(
	    "--hartbeat: unknown option", "-x: unknown option", "--margin: needs a value");
	/* The value of a mistyped option is no mistake of its own. */
	ck_assert_ptr_null(LOAD("--hartbeat", "5"));
	ASSERT_ERRORS("--hartbeat: unknown option");
	write_conf("max-races = 0\n");
	ck_assert_ptr_null(LOAD("--config", conf, "--heartbeat=x", "--margin=-1"));
	ASSERT_ERRORS("c:1: max-races: '0'", "--heartbeat: 'x'", "--margin: '-1'");
}
END_TEST

START_TEST(every_pair_of_values_is_checked)
{
	ck_assert_ptr_null(
	    load_text("broker = amqp://u@h\nheartbeat = 5\nmargin = 8\nnaming = custom\n"
		      "slot-queue = x\nprobe-timeout = 9\nrequest-timeout = 8\n"
		      "tls-cert = /no/such/file\nsocket-group = no-such-group\n"));
	ASSERT_ERRORS("c:1: broker: URL 1 names a user", "c:8: tls-cert: also needs tls-key",
	    "c:3: margin: 8.000 s is longer", "c:5: slot-queue: x: ", "c:6: probe-timeout: 9.000 s",
	    "c:9: socket-group: group no-such-group");
	/* Not with a value that is wrong: its default would be compared. */
	ck_assert_ptr_null(
	    load_text("heartbeat = 90\nmargin = 20\nsocket-group = no-such-group\n"));
	ASSERT_ERRORS("c:1: heartbeat: '90'", "c:3: socket-group");
}
END_TEST

START_TEST(errors_are_counted_beyond_the_limit)
{
	char *text = mem_printf("%*s", 2 * (CONFIG_ERRORS_MAX + 2), "");

	for (size_t i = 0; i < strlen(text); i += 2)
		memcpy(text + i, "x\n", 2);
	ck_assert_ptr_null(load_text(text));
	ck_assert_uint_eq(errors.count, CONFIG_ERRORS_MAX + 2);
	free(text);
}
END_TEST

START_TEST(options_win)
{
	struct config *config;

	write_conf("heartbeat = 5\nbroker = amqp://one\nmax-races = 3\n");
	config = LOAD("--config", conf, "--heartbeat", "7", "--broker=memory:", "--check-config");
	ck_assert_msg(config != NULL, "%s", errors.texts[0]);
	ck_assert_int_eq(action, CONFIG_CHECK);
	ck_assert_int_eq(config->heartbeat, 7);
	ck_assert(config->memory);
	ck_assert_uint_eq(config->broker_count, 0);
	ck_assert_int_eq(config->max_races, 3);
	config_free(config);
	/* A mistake in the file is one though an option overrules it. */
	write_conf("heartbeat = many\n");
	ck_assert_ptr_null(LOAD("--config", conf, "--heartbeat", "7"));
	/* The last of a kind counts. */
	config = LOAD("--config", "/dev/null", "--heartbeat", "7", "--heartbeat", "8");
	ck_assert_int_eq(config->heartbeat, 8);
	config_free(config);
}
END_TEST

START_TEST(help_reads_no_file)
{
	static const struct {
		const char *option;
		enum config_action action;
	} cases[] = {
	    {"--help", CONFIG_HELP}, {"--version", CONFIG_VERSION}, {"-V", CONFIG_VERSION}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config *config = LOAD("--config", "/no/such", cases[i].option, "--nonsense");

		ck_assert_msg(config != NULL, "%s", errors.texts[0]);
		ck_assert_int_eq(action, cases[i].action);
		config_free(config);
	}
}
END_TEST

START_TEST(help_has_every_key)
{
	char *text = NULL, *option;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	int rows = 0;

	config_help(to);
	fclose(to);
	for (const struct config_key *key = config_keys; key->name != NULL; key++, rows++) {
		option = mem_printf("\n  --%s %s\n", key->name, key->arg);
		ck_assert_msg(strstr(text, option) != NULL, "--%s", key->name);
		free(option);
	}
	ck_assert_int_gt(rows, 20);
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		ck_assert_msg(strlen(line) <= 100, "%s", line);
	free(text);
}
END_TEST

/* ---- passwords ---- */

START_TEST(password_is_blanked)
{
	char name[] = "lockbrokerd", key[] = "--broker=amqp://u:geheim@h,amqps://v:x%40y@[::1]/z";
	char other[] = "--config=/dev/null";
	char *args[] = {name, other, key, NULL};
	struct config *config = config_load(3, args, &action, &errors), *again;

	ck_assert_msg(config == NULL, "two vhosts were taken");
	ck_assert_str_eq(key, "--broker=amqp://u:******@h,amqps://v:*****@[::1]/z");
	ck_assert_int_eq(warnings, 1);
	strcpy(key, "--broker=amqp://u:geheim@h,amqps://v:x%40y@[::1]");
	config = config_load(3, args, &action, &errors);
	ck_assert_msg(config != NULL, "%s", errors.texts[0]);
	ck_assert_str_eq(key, "--broker=amqp://u:******@h,amqps://v:*****@[::1]");
	ck_assert_str_eq(config->brokers[0].password, "geheim");
	ck_assert_str_eq(config->brokers[1].password, "x@y");
	ck_assert_str_eq(config->brokers[1].host, "::1");
	ck_assert_int_eq(config->brokers[1].port, 5671);
	/* A reload knows them still, and does not warn again. */
	again = config_reload(config, &errors);
	ck_assert_msg(again != NULL, "%s", errors.texts[0]);
	ck_assert_str_eq(again->brokers[0].password, "geheim");
	ck_assert_int_eq(warnings, 2);
	config_free(again);
	config_free(config);
	/* In a file it needs no blanking, and without one there is nothing to warn of. */
	config_free(load_text("broker = amqp://u:geheim@h\n"));
	config_free(LOAD("--config", "/dev/null", "--broker", "amqp://h"));
	ck_assert_int_eq(warnings, 2);
}
END_TEST

START_TEST(password_precedence)
{
	char *file = in_dir("p"), *credential = in_dir("broker-password");
	const char *const broker = "amqp://a:url@h,amqp://b@h,amqp://h";
	struct config *config;

	write_bytes(credential, "cred", 4, 0600);
	ck_assert_int_eq(setenv("CREDENTIALS_DIRECTORY", dir, 1), 0);
	config = LOAD("--config", "/dev/null", "--broker", broker);
	ck_assert_msg(config != NULL, "%s", errors.texts[0]);
	ck_assert_str_eq(config->brokers[0].password, "url");
	ck_assert_str_eq(config->brokers[1].password, "cred");
	ck_assert_str_eq(config->brokers[2].user, "guest");
	ck_assert_str_eq(config->brokers[2].password, "cred");
	config_free(config);
	write_bytes(file, "file\r\n", 6, 0400);
	warnings = 0;
	config = LOAD("--config", "/dev/null", "--broker", "amqp://b@h", "--password-file", file);
	ck_assert_msg(config != NULL, "%s", errors.texts[0]);
	ck_assert_str_eq(config->brokers[0].password, "file");
	ck_assert_int_eq(warnings, 0);
	config_free(config);
	write_bytes(file, "file\n", 5, 0444);
	config_free(LOAD("--config", "/dev/null", "--password-file", file));
	ck_assert_int_eq(warnings, 1);
	write_bytes(credential, "a\nb\n", 4, 0600);
	ck_assert_ptr_null(LOAD("--config", "/dev/null"));
	assert_error(
	    "broker (default): the credential broker-password: contains more than one line");
	/* The unit's placeholder if there is no password. */
	write_bytes(credential, "\n", 1, 0600);
	config = LOAD("--config", "/dev/null");
	ck_assert_str_eq(config->brokers[0].password, "guest");
	config_free(config);
	unlink(credential);
	config = LOAD("--config", "/dev/null");
	ck_assert_str_eq(config->brokers[0].password, "guest");
	config_free(config);
	free(file);
	free(credential);
}
END_TEST

START_TEST(bad_password_files)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *want;
	} cases[] = {
	    {"", 0, "contains no password"},
	    {"\n", 1, "contains no password"},
	    {"a\nb\n", 4, "contains more than one line"},
	    {"a\n\n", 3, "contains more than one line"},
	    {"a\0b\n", 4, "contains a NUL byte"},
	};
	char *file = in_dir("p"), long_line[300];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_bytes(file, cases[i].bytes, cases[i].len, 0600);
		ck_assert_ptr_null(LOAD("--config", "/dev/null", "--password-file", file));
		assert_error("--password-file: ");
		assert_error(cases[i].want);
	}
	memset(long_line, 'x', sizeof(long_line));
	write_bytes(file, long_line, 256, 0600);
	ck_assert_ptr_null(LOAD("--config", "/dev/null", "--password-file", file));
	assert_error("more than 255 bytes");
	/* Not needed, not read. */
	config_free(LOAD("--config", "/dev/null", "--password-file", file, "--broker", "memory:"));
	free(file);
}
END_TEST

/* ---- printing and comparing ---- */

static char *
print_text(const struct config *config)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	config_print(config, to);
	ck_assert_int_eq(fclose(to), 0);
	return text;
}

static const char *const printable[] = {
    "",
    "heartbeat = 5\nmargin = 1.25\nrescan-interval = 0.05\nsocket-mode = 0600\nadmin-group =\n",
    "broker = amqps://[::1]:7/a%2Fb%2Cc,amqps://h%2Da:5671/a%2Fb%2Cc\nnaming = amqp-locks-python\n",
    "naming = custom\nslot-queue = {name}/{slot}#;A\nholder-queue = {name}/{slot}#;B\n",
    "broker = memory:\nlog-level = error\nsocket = /a b;c#d\n",
    "[access]\nrule = allow user:root create,destroy a;b#*\nrule = deny any * *\n",
};

START_TEST(a_printed_configuration_loads)
{
	struct config *config = load_text(printable[_i]), *again;
	char *text, *twice;

	ck_assert_msg(config != NULL, "%s", errors.texts[0]);
	text = print_text(config);
	again = load_text(text);
	ck_assert_msg(again != NULL, "%s\n%s", errors.texts[0], text);
	twice = print_text(again);
	ck_assert_str_eq(text, twice);
	ck_assert_int_eq(config_unreloadable(config, again, NULL, NULL), 0);
	free(text);
	free(twice);
	config_free(config);
	config_free(again);
}
END_TEST

START_TEST(no_password_is_printed)
{
	struct config *config = load_text("broker = amqp://us%65r:ge%2Fheim@h:1/v\n");
	char *text = print_text(config);

	ck_assert_ptr_nonnull(strstr(text, "broker = amqp://user:***@h:1/v\n"));
	/* Nor does what was printed pass for the real thing. */
	ck_assert_ptr_null(load_text(text));
	assert_error("broker: URL 1: the password is asterisks");
	free(text);
	config_free(config);
}
END_TEST

static void
say(void *ctx, const char *key)
{
	strcat(ctx, key);
	strcat(ctx, " ");
}

START_TEST(options_that_a_reload_cannot_change)
{
	struct config *running, *wanted;
	char said[256] = "";

	write_conf("broker = amqp://h\n");
	running = LOAD("--config", conf, "--heartbeat", "6");
	ck_assert_msg(running != NULL, "%s", errors.texts[0]);
	write_conf("broker = amqp://h,amqp://i\nheartbeat = 9\nauxiliary-idle = 1\nmax-races = 9\n"
		   "log-level = debug\n[access]\nrule = allow any * *\n");
	wanted = config_reload(running, &errors);
	ck_assert_msg(wanted != NULL, "%s", errors.texts[0]);
	ck_assert_int_eq(wanted->heartbeat, 6);
	ck_assert_int_eq(wanted->max_races, 9);
	ck_assert_int_eq(config_unreloadable(running, wanted, say, said), 2);
	ck_assert_str_eq(said, "broker auxiliary-idle ");
	config_free(wanted);
	write_conf("nonsense\n");
	ck_assert_ptr_null(config_reload(running, &errors));
	config_free(running);
}
END_TEST

START_TEST(a_new_password_is_taken)
{
	char *file = in_dir("p"), *other = in_dir("q"), said[64] = "", *text;
	struct config *running, *wanted;

	write_bytes(file, "one\n", 4, 0600);
	running = LOAD("--config", "/dev/null", "--password-file", file);
	wanted = config_reload(running, &errors);
	ck_assert(!config_take_passwords(running, wanted));
	config_free(wanted);
	write_bytes(file, "two\n", 4, 0600);
	wanted = config_reload(running, &errors);
	ck_assert_int_eq(config_unreloadable(running, wanted, say, said), 0);
	ck_assert(config_take_passwords(running, wanted));
	ck_assert_str_eq(running->brokers[0].password, "two");
	ck_assert_str_eq(wanted->brokers[0].password, "one");
	config_free(wanted);
	config_free(running);
	/* Another file. */
	text = mem_printf("broker = amqp://u@h\npassword-file = %s\n", file);
	write_conf(text);
	free(text);
	running = LOAD("--config", conf);
	write_bytes(other, "more\n", 5, 0600);
	text = mem_printf("broker = amqp://u@h\npassword-file = %s\n", other);
	write_conf(text);
	free(text);
	wanted = config_reload(running, &errors);
	ck_assert_int_eq(config_unreloadable(running, wanted, say, said), 0);
	ck_assert(config_take_passwords(running, wanted));
	ck_assert_str_eq(running->brokers[0].password, "more");
	config_free(wanted);
	config_free(running);
	/* Another broker needs a restart, and so does its password. */
	write_conf("broker = amqp://u@h\n");
	write_bytes(file, "three\n", 6, 0600);
	running = LOAD("--config", conf, "--password-file", file);
	write_conf("broker = amqp://u@i\n");
	write_bytes(file, "four\n", 5, 0600);
	wanted = config_reload(running, &errors);
	ck_assert(!config_take_passwords(running, wanted));
	ck_assert_str_eq(running->brokers[0].password, "three");
	config_free(wanted);
	config_free(running);
	unlink(other);
	free(file);
	free(other);
}
END_TEST

static Suite *
config_suite(void)
{
	Suite *suite = suite_create("config");
	TCase *tc = tcase_create("config");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, defaults);
	tcase_add_loop_test(tc, a_bad_file, 0, (int)(sizeof(bad_files) / sizeof(bad_files[0])));
	tcase_add_test(tc, bad_bytes);
	tcase_add_test(tc, good_files);
	tcase_add_test(tc, bad_options);
	tcase_add_test(tc, every_error_of_a_file_is_reported);
	tcase_add_test(tc, every_error_of_the_options_is_reported);
	tcase_add_test(tc, every_pair_of_values_is_checked);
	tcase_add_test(tc, errors_are_counted_beyond_the_limit);
	tcase_add_test(tc, options_win);
	tcase_add_test(tc, help_reads_no_file);
	tcase_add_test(tc, help_has_every_key);
	tcase_add_test(tc, password_is_blanked);
	tcase_add_test(tc, password_precedence);
	tcase_add_test(tc, bad_password_files);
	tcase_add_loop_test(
	    tc, a_printed_configuration_loads, 0, (int)(sizeof(printable) / sizeof(printable[0])));
	tcase_add_test(tc, no_password_is_printed);
	tcase_add_test(tc, options_that_a_reload_cannot_change);
	tcase_add_test(tc, a_new_password_is_taken);
	suite_add_tcase(suite, tc);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {config_suite};

	return unit_run(makers, 1);
}
