/*
 * The daemon's configuration: /etc/lockbroker/lockbrokerd.conf (ini), every key also a long option,
 * the option wins. Read whole, validated whole, and only then used: a reload that finds a mistake
 * changes nothing. Keys, their kinds, defaults and texts stand in one table (keys.c), from which
 * --help, --print-config and the manual's lists are made.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/config/access.h"

#define CONFIG_PATH "/etc/lockbroker/lockbrokerd.conf"

/* One host of the broker list, from amqp://user:password@host:port/vhost or amqps://... */
struct config_broker {
	bool tls;
	char *host;
	int port;
	char *vhost;
	char *user, *password; /* guest/guest when nothing says otherwise */
	bool password_given;   /* the URL itself has the password */
};

/* Every pointer is owned. Durations in ns. */
struct config {
	char *file;           /* that was read; "" = there is none */
	char *socket;         /* path */
	unsigned socket_mode; /* 0660 */
	char *socket_group;   /* "" = leave it */
	bool memory;          /* broker = memory: */
	struct config_broker *brokers;
	size_t broker_count;
	char
	    *password_file; /* "" = none; $CREDENTIALS_DIRECTORY/broker-password is looked at too */
	char *sasl;         /* "plain", "external" */
	char *tls_ca, *tls_cert, *tls_key; /* paths; "" = the system's CAs, no client certificate */
	int heartbeat;                     /* seconds */
	int64_t margin;                    /* 0 = a fifth of heartbeat */
	int64_t connect_timeout;
	int64_t request_timeout;
	int64_t probe_timeout;
	int64_t auxiliary_idle;
	char *host_name; /* "" = the machine's */
	int64_t query_timeout;
	int64_t rescan_interval;
	int64_t hint_grace;
	int max_local_handoffs;
	int64_t stop_timeout;
	int max_races;
	char *naming;                    /* "amqp-locks", "amqp-locks-python", "custom" */
	char *slot_queue, *holder_queue; /* custom: templates that go together; else "" */
	int max_locks_per_connection, max_waits_per_connection, max_requests_per_connection;
	int channels_reserve;
	int max_connections_per_uid, max_waits_per_uid, max_watches_per_uid, max_scans_per_uid;
	int max_buffer_per_uid, max_buffer; /* MiB */
	char *admin_group;
	enum log_level log_level;
	struct access_rules *access;
	/*
	 * The command line as it was, passwords included: config_reload() reads it again. Not in a
	 * configuration that was reloaded.
	 */
	int arg_count;
	char **args;
};

/* What main was asked to do besides, or instead of, running. */
enum config_action {
	CONFIG_RUN,
	CONFIG_CHECK, /* --check-config */
	CONFIG_PRINT, /* --print-config */
	CONFIG_HELP,
	CONFIG_VERSION
};

/* Why a configuration is not usable: "FILE:LINE: KEY: what", "--KEY: what", "KEY (default): what". */
struct config_error {
	char text[512];
};

/*
 * Reads options, then the file they name (a missing default file is fine, a missing named one not),
 * and validates the whole. NULL and *ret_error on failure. A password in a --broker URL is blanked in
 * argv (after being taken), and warned of by log_warning. CONFIG_HELP and CONFIG_VERSION read no file
 * and give the defaults.
 *
 * The password of a broker: the one in its URL; else password-file; else the credential
 * $CREDENTIALS_DIRECTORY/broker-password; else, for a URL that names no user, guest.
 */
struct config *config_load(int argc, char *argv[], enum config_action *ret_action,
    struct config_error *ret_error) __attribute__((warn_unused_result));
/*
 * The same options and the file anew, for SIGHUP. A new configuration, to be compared with the running
 * one by config_unreloadable(); NULL and *ret_error on failure.
 */
struct config *config_reload(const struct config *running, struct config_error *ret_error)
    __attribute__((warn_unused_result));
void config_free(struct config *config); /* NULL is fine */

/* Writes the configuration as a file that would give it; passwords are shown as "***". */
void config_print(const struct config *config, FILE *to);
/* --help: usage and all keys, to the width of a terminal (options.c). */
void config_help(FILE *to);
/*
 * Compares: calls `say` with each key that differs and cannot be changed without a restart, and
 * returns how many there were.
 */
int config_unreloadable(const struct config *running, const struct config *wanted,
    void (*say)(void *ctx, const char *key), void *ctx);
/* Of a configuration that was reloaded and compared: the broker logs in with those of the running one. */
void config_forget_passwords(struct config *config);

#endif
