#include "daemon/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/margin.h"
#include "daemon/base/mem.h"
#include "daemon/base/nearest.h"
#include "daemon/config/file.h"
#include "daemon/config/keys.h"
#include "daemon/config/options.h"
#include "daemon/config/template.h"
#include "daemon/config/url.h"

#define SECOND INT64_C(1000000000)
/* As in a broker URL. */
#define PASSWORD_MAX 255

/* A configuration that is being read, and the source of each value. */
struct loading {
	struct config *config; /* owned until loaded */
	struct config_errors *errors;
	const char *path; /* borrowed */
	/* by key_index(): 0 = default, -1 = option, else the file's line */
	int lines[KEY_COUNT_MAX];
	bool bad[KEY_COUNT_MAX]; /* by key_index(): the value is not valid */
};

/* ---- making and freeing ---- */

static struct config *
config_new(void)
{
	struct config *config = mem_alloc(sizeof(*config));
	char error[KEY_ERROR_MAX];

	config->access = access_rules_new();
	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		if (!key_parse(key, key->fallback, config, error))
			abort(); /* the default in the table is wrong */
	}
	return config;
}

void
config_free(struct config *config)
{
	if (config == NULL)
		return;
	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		if (key->kind == KEY_STRING || key->kind == KEY_WORD)
			free(*(char **)((char *)config + key->offset));
	}
	for (size_t i = 0; i < config->broker_count; i++)
		url_done(&config->brokers[i]);
	free(config->brokers);
	access_rules_free(config->access);
	free(config->file);
	for (int i = 0; i < config->arg_count; i++) {
		explicit_bzero(config->args[i], strlen(config->args[i]));
		free(config->args[i]);
	}
	free(config->args);
	free(config);
}

void
config_forget_passwords(struct config *config)
{
	for (size_t i = 0; i < config->broker_count; i++) {
		char *password = config->brokers[i].password;

		if (password != NULL)
			explicit_bzero(password, strlen(password));
		free(password);
		config->brokers[i].password = NULL;
	}
}

/* ---- errors ---- */

/* "FILE:LINE: KEY: what", "--KEY: what" or "KEY (default): what". */
static bool fail(struct loading *l, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool
fail(struct loading *l, const char *name, const char *format, ...)
{
	const struct config_key *key = key_find(name);
	int line = l->lines[key_index(key)];
	char what[CONFIG_ERROR_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(what, sizeof(what), format, ap);
	va_end(ap);
	if (line > 0)
		config_errors_add(l->errors, "%s:%d: %s: %s", l->path, line, name, what);
	else
		config_errors_add(
		    l->errors, line < 0 ? "--%s: %s" : "%s (default): %s", name, what);
	return false;
}

/* ---- reading ---- */

static void
say_unknown(const char *name, char *error, size_t size)
{
	struct nearest near = {.word = name, .len = strlen(name)};

	for (const struct config_key *key = config_keys; key->name != NULL; key++)
		nearest_try(&near, key->name);
	if (near.found == NULL)
		snprintf(error, size, "unknown key");
	else
		snprintf(error, size, "unknown key; did you mean %s?", near.found);
}

static bool
take_from_file(void *ctx, const char *section, const char *name, const char *value, int line,
    char *error, size_t size)
{
	struct loading *l = ctx;
	const struct config_key *key = key_find(name);
	const char *what;

	if (strcmp(section, "access") == 0) {
		what = strcmp(name, "rule") != 0
			   ? "unknown key; [access] has only rule; other keys stand above it"
			   : access_rules_add(l->config->access, value);
		snprintf(error, size, "%s", what == NULL ? "" : what);
		return what == NULL;
	}
	if (key == NULL) {
		say_unknown(name, error, size);
		return false;
	}
	if (l->lines[key_index(key)] != 0) {
		snprintf(error, size, "already set in line %d", l->lines[key_index(key)]);
		return false;
	}
	l->lines[key_index(key)] = line;
	l->bad[key_index(key)] = !key_parse(key, value, l->config, error);
	return !l->bad[key_index(key)];
}

static void
take_options(struct loading *l, const struct options *options)
{
	char error[KEY_ERROR_MAX];

	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		const char *text = options->texts[key_index(key)];

		if (text == NULL)
			continue;
		l->lines[key_index(key)] = -1;
		if (key_parse(key, text, l->config, error))
			continue;
		l->bad[key_index(key)] = true;
		fail(l, key->name, "%s", error);
	}
}

/* ---- the broker's password ---- */

static const char no_password[] = "contains no password";

/*
 * Returns the only line of the file, without its end; the caller owns it. On failure it returns
 * NULL and why (static or of strerror). It warns of a file that all users may read.
 */
static char *
password_read(const char *path, const char **ret_what)
{
	char buf[PASSWORD_MAX + 3]; /* room for a line end, and a byte that shows a longer line */
	char *password = NULL;
	struct stat st;
	ssize_t n = -1;
	size_t len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && fstat(fd, &st) == 0)
		n = read(fd, buf, sizeof(buf));
	if (n > 0)
		len = (size_t)n;
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	if (len > 0 && buf[len - 1] == '\r')
		len--;
	if (n < 0)
		*ret_what = strerror(errno);
	else if (len == 0)
		*ret_what = no_password;
	else if (memchr(buf, '\n', len) != NULL)
		*ret_what = "contains more than one line";
	else if (len > PASSWORD_MAX)
		*ret_what = "contains more than 255 bytes";
	else if (memchr(buf, '\0', len) != NULL)
		*ret_what = "contains a NUL byte";
	else {
		*ret_what = NULL;
		password = mem_alloc(len + 1);
		memcpy(password, buf, len);
		if ((st.st_mode & S_IROTH) != 0)
			log_warning("%s: every user can read this password file", path);
	}
	explicit_bzero(buf, sizeof(buf));
	if (fd >= 0)
		close(fd);
	return password;
}

/*
 * The credential broker-password. NULL and *ret_what NULL: systemd passed none, or an empty one. An
 * empty credential is the default in the unit, so that its file may be missing.
 */
static char *
password_credential(const char **ret_what)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	char *path, *password = NULL;

	*ret_what = NULL;
	if (dir == NULL || *dir == '\0')
		return NULL;
	path = mem_printf("%s/broker-password", dir);
	if (access(path, F_OK) == 0) {
		password = password_read(path, ret_what);
		if (password == NULL && *ret_what == no_password)
			*ret_what = NULL;
	}
	free(path);
	return password;
}

/* Sets the password of brokers whose URL has none: from password-file, else from the credential. */
static bool
take_password(struct loading *l)
{
	struct config *config = l->config;
	bool wanted = false;
	char *password;
	const char *what;

	for (size_t i = 0; i < config->broker_count; i++)
		wanted |= !config->brokers[i].password_given;
	if (!wanted)
		return true;
	if (*config->password_file != '\0') {
		password = password_read(config->password_file, &what);
		if (password == NULL)
			return fail(l, "password-file", "%s: %s", config->password_file, what);
	} else {
		password = password_credential(&what);
		if (password == NULL && what != NULL)
			return fail(l, "broker", "the credential broker-password: %s", what);
	}
	if (password == NULL)
		return true;
	for (size_t i = 0; i < config->broker_count; i++) {
		struct config_broker *broker = &config->brokers[i];

		if (broker->password_given)
			continue;
		free(broker->password);
		broker->password = mem_strdup(password);
	}
	explicit_bzero(password, strlen(password));
	free(password);
	return true;
}

/* ---- whether values go together ---- */

static bool
check_brokers(struct loading *l)
{
	const struct config *config = l->config;
	bool external = strcmp(config->sasl, "external") == 0;

	if (!take_password(l))
		return false;
	for (size_t i = 0; i < config->broker_count; i++) {
		const struct config_broker *broker = &config->brokers[i];

		/* Each vhost has its own queues: two vhosts would both grant the same lock. */
		if (strcmp(broker->vhost, config->brokers[0].vhost) != 0)
			return fail(l, "broker",
			    "URL %zu names another vhost than the first; all URLs must name one "
			    "vhost",
			    i + 1);
		if (!external && broker->password == NULL)
			return fail(l, "broker",
			    "URL %zu names a user, but no password is given; use password-file or "
			    "the credential broker-password",
			    i + 1);
		if (external && !broker->tls)
			return fail(l, "sasl",
			    "external needs TLS: URL %zu of broker is not amqps://", i + 1);
	}
	if (external && config->broker_count > 0 && *config->tls_cert == '\0')
		return fail(
		    l, "sasl", "external needs a client certificate: set tls-cert and tls-key");
	return true;
}

static bool
check_tls(struct loading *l)
{
	const struct config *config = l->config;
	const struct {
		const char *key, *path;
	} files[] = {{"tls-ca", config->tls_ca}, {"tls-cert", config->tls_cert},
	    {"tls-key", config->tls_key}};

	if (config->memory)
		return true;
	if (*config->tls_cert != '\0' && *config->tls_key == '\0')
		return fail(l, "tls-cert", "also needs tls-key");
	if (*config->tls_key != '\0' && *config->tls_cert == '\0')
		return fail(l, "tls-key", "also needs tls-cert");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (*files[i].path != '\0' && access(files[i].path, R_OK) != 0)
			return fail(l, files[i].key, "%s: %s", files[i].path, strerror(errno));
	}
	return true;
}

static bool
check_lease(struct loading *l)
{
	const struct config *config = l->config;
	int64_t heartbeat = config->heartbeat * SECOND, lease, needed;
	char text[128];

	/*
	 * The margin is at most the negotiated heartbeat (margin.h), so more would have no effect.
	 */
	if (config->margin > heartbeat)
		return fail(l, "margin",
		    "%.3f s is longer than heartbeat, %d s; expected at most that",
		    (double)config->margin / SECOND, config->heartbeat);
	if (margin_leaves_lease(heartbeat, config->margin, &lease, &needed))
		return true;
	snprintf(text, sizeof(text),
	    "leaves a lease of %.3f s; lockbroker run needs %.3f s to end a command in time",
	    (double)lease / SECOND, (double)needed / SECOND);
	if (config->margin > 0)
		return fail(l, "margin", "%.3f s %s", (double)config->margin / SECOND, text);
	return fail(l, "heartbeat", "%d s %s", config->heartbeat, text);
}

/* A template without `naming = custom` would have no effect, which is an error. */
static bool
check_template(struct loading *l, const char *key, const char *text, struct template *ret)
{
	bool custom = strcmp(l->config->naming, "custom") == 0;
	char error[TEMPLATE_ERROR_MAX];

	if (!custom && *text != '\0')
		return fail(l, key, "is for naming = custom, and naming is %s", l->config->naming);
	if (custom && *text == '\0')
		return fail(l, key, "is needed when naming is custom");
	if (custom && !template_parse(text, ret, error))
		return fail(l, key, "%s: %s", text, error);
	return true;
}

static bool
check_naming(struct loading *l)
{
	const struct config *config = l->config;
	struct template slot, holder;

	if (!check_template(l, "slot-queue", config->slot_queue, &slot) ||
	    !check_template(l, "holder-queue", config->holder_queue, &holder))
		return false;
	if (strcmp(config->naming, "custom") == 0 && !template_differ(&slot, &holder))
		return fail(l, "holder-queue",
		    "%s could make the same name as slot-queue, %s; the text before {name}, or the "
		    "text after it, must differ",
		    config->holder_queue, config->slot_queue);
	if (strcmp(config->claim, "quorum") == 0 && strcmp(config->naming, "amqp-locks") != 0)
		return fail(l, "claim", "quorum is for naming = amqp-locks, and naming is %s",
		    config->naming);
	return true;
}

static bool
check_timeouts(struct loading *l)
{
	const struct config *config = l->config;

	return config->probe_timeout < config->request_timeout ||
	       fail(l, "probe-timeout",
		   "%.3f s is not less than request-timeout, %.3f s; a request would end before "
		   "its probe",
		   (double)config->probe_timeout / SECOND,
		   (double)config->request_timeout / SECOND);
}

/* Otherwise one user could keep the others out. */
static bool
check_buffers(struct loading *l)
{
	const struct config *config = l->config;

	return config->max_buffer_per_uid <= config->max_buffer / 2 ||
	       fail(l, "max-buffer-per-uid", "%d is more than half of max-buffer, %d",
		   config->max_buffer_per_uid, config->max_buffer);
}

static bool
check_group(struct loading *l)
{
	const char *group = l->config->socket_group;

	return *group == '\0' || getgrnam(group) != NULL ||
	       fail(l, "socket-group", "group %s does not exist", group);
}

/* Each with all keys whose values it compares. Of a value that is wrong it would see the default. */
static const struct {
	bool (*check)(struct loading *l);
	const char *keys[6];
} checks[] = {
    {check_brokers, {"broker", "password-file", "sasl", "tls-cert"}},
    {check_tls, {"broker", "tls-ca", "tls-cert", "tls-key"}},
    {check_lease, {"heartbeat", "margin"}},
    {check_naming, {"naming", "slot-queue", "holder-queue", "claim"}},
    {check_timeouts, {"probe-timeout", "request-timeout"}},
    {check_buffers, {"max-buffer", "max-buffer-per-uid"}},
    {check_group, {"socket-group"}},
};

static void
check_together(struct loading *l)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		bool bad = false;

		for (const char *const *key = checks[i].keys; *key != NULL; key++)
			bad |= l->bad[key_index(key_find(*key))];
		if (!bad)
			(void)checks[i].check(l);
	}
}

/* ---- loading ---- */

static struct config *
load(const struct options *options, struct config_errors *ret_errors)
{
	struct loading l = {.errors = ret_errors};
	bool named = options->path != NULL;

	l.config = config_new();
	l.path = named ? options->path : CONFIG_PATH;
	if (options->action == CONFIG_HELP || options->action == CONFIG_VERSION)
		return l.config;
	l.config->file = mem_strdup(named || access(l.path, F_OK) == 0 ? l.path : "");
	if (file_read(l.path, !named, take_from_file, &l, ret_errors)) {
		take_options(&l, options);
		check_together(&l);
	}
	if (ret_errors->count == 0) {
		access_rules_set_admin_group(l.config->access, l.config->admin_group);
		return l.config;
	}
	config_free(l.config);
	return NULL;
}

static void
keep_args(struct config *config, int argc, char *argv[])
{
	config->arg_count = argc;
	config->args = mem_alloc(sizeof(char *) * ((size_t)argc + 1));
	for (int i = 0; i < argc; i++)
		config->args[i] = mem_strdup(argv[i]);
}

struct config *
config_load(
    int argc, char *argv[], enum config_action *ret_action, struct config_errors *ret_errors)
{
	struct config *config;
	struct options options;
	bool met = false;

	ret_errors->count = 0;
	if (!options_parse(argc, argv, &options, ret_errors))
		return NULL;
	config = load(&options, ret_errors);
	if (config != NULL)
		keep_args(config, argc, argv);
	/* All arguments: an earlier --broker that is overridden may contain a password, too. */
	for (int i = 1; i < argc; i++)
		met |= url_blank(argv[i]);
	if (met)
		log_warning("--broker: other users can read a password on the command line at "
			    "first; use password-file or the credential broker-password");
	if (config != NULL)
		*ret_action = options.action;
	return config;
}

struct config *
config_reload(const struct config *running, struct config_errors *ret_errors)
{
	struct options options;

	ret_errors->count = 0;
	if (!options_parse(running->arg_count, running->args, &options, ret_errors))
		return NULL;
	return load(&options, ret_errors);
}

/* ---- showing and comparing ---- */

void
config_print(const struct config *config, FILE *to)
{
	const char *rule;

	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		char *text = key_format(key, config);

		fprintf(to, "%s = %s\n", key->name, text);
		free(text);
	}
	fprintf(to, "\n[access]\n");
	for (size_t i = 0; (rule = access_rules_get(config->access, i)) != NULL; i++)
		fprintf(to, "rule = %s\n", rule);
}

/* Whether the text of the key, which has no passwords, is the same. */
static bool
same_text(const struct config_key *key, const struct config *a, const struct config *b)
{
	char *one = key_format(key, a), *other = key_format(key, b);
	bool same = strcmp(one, other) == 0;

	free(one);
	free(other);
	return same;
}

int
config_unreloadable(const struct config *running, const struct config *wanted,
    void (*say)(void *ctx, const char *key), void *ctx)
{
	int count = 0;

	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		if (key->reloadable || same_text(key, running, wanted))
			continue;
		say(ctx, key->name);
		count++;
	}
	return count;
}

bool
config_take_passwords(struct config *running, struct config *wanted)
{
	bool taken = false;

	if (!same_text(key_find("broker"), running, wanted))
		return false;
	for (size_t i = 0; i < running->broker_count; i++) {
		char **old = &running->brokers[i].password, **new = &wanted->brokers[i].password;
		char *kept = *old;

		if (*old == NULL || *new == NULL || strcmp(*old, *new) == 0)
			continue;
		*old = *new;
		*new = kept;
		taken = true;
	}
	return taken;
}
