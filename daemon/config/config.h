/*
 * The daemon's configuration, from /etc/lockbroker/lockbrokerd.conf (ini) and the command line.
 * Each key is also a long option, which overrides the file. The module reads all, checks all, and
 * only then returns a struct config. A reload with an error therefore changes nothing. Keys, kinds,
 * defaults and texts are in one table (keys.c), from which --help, --print-config and the lists of
 * the manual are made. It does not use the settings itself.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/config/access.h"
#include "daemon/config/errors.h"

#define CONFIG_PATH "/etc/lockbroker/lockbrokerd.conf"

/* One host of the broker list, from amqp://user:password@host:port/vhost or amqps://... */
struct config_broker {
	bool tls;
	char *host;
	int port;
	char *vhost;
	char *user, *password; /* guest/guest by default */
	bool password_given;   /* the password is from the URL */
};

/* Every pointer is owned. Durations in ns. */
struct config {
	char *file;           /* the file that was read; "" = none */
	char *socket;         /* path */
	unsigned socket_mode; /* 0660 */
	char *socket_group;   /* "" = unchanged */
	bool memory;          /* broker = memory: */
	struct config_broker *brokers;
	size_t broker_count;
	char *password_file;               /* "" = none; see config_load() */
	char *broker_product;              /* "RabbitMQ", "any" */
	char *sasl;                        /* "plain", "external" */
	char *tls_ca, *tls_cert, *tls_key; /* paths; "" = the system's CAs, no client certificate */
	int heartbeat;                     /* seconds */
	int64_t margin;                    /* 0 = a fifth of heartbeat */
	int64_t connect_timeout;
	int64_t connect_grace;
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
	char *claim;                     /* "exclusive-queue", "consumer" */
	char *naming;                    /* "amqp-locks", "amqp-locks-python", "custom" */
	char *slot_queue, *holder_queue; /* custom: templates that go together; else "" */
	int max_locks_per_connection, max_waits_per_connection, max_requests_per_connection;
	int channels_reserve;
	int max_mutexes_per_uid;
	int quorum_connections;
	char *quorum_servers; /* "4", "untested" */
	int max_connections_per_uid, max_waits_per_uid, max_watches_per_uid, max_scans_per_uid;
	int max_buffer_per_uid, max_buffer; /* MiB */
	char *admin_group;
	enum log_level log_level;
	char *log_format; /* "text", "json" */
	struct access_rules *access;
	/*
	 * The command line, with its passwords: config_reload() reads it again. A configuration
	 * that was reloaded has none.
	 */
	int arg_count;
	char **args;
};

/* The task of the program, besides running or instead of it. */
enum config_action {
	CONFIG_RUN,
	CONFIG_CHECK, /* --check-config */
	CONFIG_PRINT, /* --print-config */
	CONFIG_HELP,
	CONFIG_VERSION
};

/*
 * Reads the options, then the file that they name, and checks the whole. The default file may be
 * missing, a named file may not. On failure it returns NULL and sets *ret_errors. CONFIG_HELP and
 * CONFIG_VERSION read no file and return the defaults.
 *
 * The password of a broker is the one in its URL, else password-file, else the credential
 * $CREDENTIALS_DIRECTORY/broker-password. If there is none and the URL names no user, it is guest.
 * A password in a --broker URL is read, then overwritten in argv, and log_warning() warns of it.
 */
struct config *config_load(int argc, char *argv[], enum config_action *ret_action,
    struct config_errors *ret_errors) __attribute__((warn_unused_result));
/*
 * For SIGHUP: reads the file again, with the same options. Returns a new configuration, which
 * config_unreloadable() compares with the running one. On failure it returns NULL and sets
 * *ret_errors.
 */
struct config *config_reload(const struct config *running, struct config_errors *ret_errors)
    __attribute__((warn_unused_result));
void config_free(struct config *config); /* NULL is fine */

/* Writes the configuration as a configuration file. Passwords become "***". */
void config_print(const struct config *config, FILE *to);
/* Writes the text of --help: usage and all keys (options.c). */
void config_help(FILE *to);
/*
 * Calls `say` for each key that differs and cannot be changed without a restart. Returns their
 * number.
 */
int config_unreloadable(const struct config *running, const struct config *wanted,
    void (*say)(void *ctx, const char *key), void *ctx);
/*
 * Exchanges the passwords that differ, if the broker URLs are the same otherwise. Returns whether
 * the running configuration has a new one.
 */
bool config_take_passwords(struct config *running, struct config *wanted);
/*
 * Removes the passwords of a configuration that was reloaded and compared. The broker uses those of
 * the running one.
 */
void config_forget_passwords(struct config *config);

#endif
