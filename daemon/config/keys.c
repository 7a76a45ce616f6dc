#include "daemon/config/keys.h"

#include <string.h>

#include "daemon/config/template.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)

static const char *const sasl_words[] = {"plain", "external", NULL};
static const char *const server_words[] = {"4", "untested", NULL};
static const char *const product_words[] = {"RabbitMQ", "any", NULL};
static const char *const naming_words[] = {"amqp-locks", "amqp-locks-python", "custom", NULL};
static const char *const claim_words[] = {"exclusive-queue", "consumer", "quorum", NULL};
static const char *const format_words[] = {"text", "json", NULL};
/* In the order of enum log_level. */
static const char *const level_words[] = {"error", "warning", "info", "debug", NULL};

#define AT(field) offsetof(struct config, field)

/* clang-format off */
const struct config_key config_keys[] = {
	{"socket", KEY_STRING, AT(socket), "/run/lockbroker/lockbroker.sock", "PATH", 1, 107,
	    NULL, false,
	    "The Unix socket for clients. Not used if systemd hands over a socket."},
	{"socket-mode", KEY_MODE, AT(socket_mode), "0660", "MODE", 0, 0777, NULL, false,
	    "The socket's permissions, octal. A user that may write to the socket may request "
	    "locks."},
	{"socket-group", KEY_STRING, AT(socket_group), "", "GROUP", 0, 64, NULL, false,
	    "The socket's group. Empty: the group of the daemon."},
	{"broker", KEY_BROKERS, 0, "amqp://localhost", "URL[,URL...]", 0, 0, NULL, false,
	    "The RabbitMQ that keeps the locks: amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// "
	    "for TLS. Write special characters as %XX, IPv6 addresses in brackets. Default port: "
	    "5672, with TLS 5671. Default vhost: /. Several URLs are hosts of one cluster, which "
	    "the daemon tries in turn. They must all have the same cluster name (rabbitmqctl "
	    "set_cluster_name). memory: is a broker inside the daemon, for development. Its locks "
	    "are for this host alone, and end with the daemon."},
	{"broker-product", KEY_WORD, AT(broker_product), "RabbitMQ", "PRODUCT", 0, 0, product_words,
	    false,
	    "RabbitMQ: the daemon uses no other broker. any: the broker's name does not matter. "
	    "Promises about leases and losses are then not tested: another broker may free a "
	    "slot earlier than RabbitMQ does."},
	{"password-file", KEY_STRING, AT(password_file), "", "PATH", 0, 1024, NULL, true,
	    "A file with one line: the password for every broker URL that has none. A reload reads "
	    "it again. Empty: the systemd credential broker-password is used if it exists."},
	{"sasl", KEY_WORD, AT(sasl), "plain", "MECHANISM", 0, 0, sasl_words, false,
	    "The login mechanism. plain sends user and password. external uses the TLS client "
	    "certificate."},
	{"tls-ca", KEY_STRING, AT(tls_ca), "", "PATH", 0, 1024, NULL, false,
	    "CA certificates (PEM) for the broker's certificate. Empty: those of the system."},
	{"tls-cert", KEY_STRING, AT(tls_cert), "", "PATH", 0, 1024, NULL, false,
	    "The daemon's client certificate (PEM). Empty: none."},
	{"tls-key", KEY_STRING, AT(tls_key), "", "PATH", 0, 1024, NULL, false,
	    "The private key (PEM) of tls-cert."},
	{"heartbeat", KEY_INTEGER, AT(heartbeat), "10", "SECONDS", 1, 60, NULL, false,
	    "The AMQP heartbeat. RabbitMQ frees the locks of a host that is silent for two to "
	    "three heartbeats. Useful values: 5 to 20. With less, a short delay costs the host "
	    "its locks. With more, the locks of a dead host stay busy for minutes. If RabbitMQ "
	    "asks for a shorter heartbeat, that one is used. A lease is two heartbeats less the "
	    "margin. It must last at least a third of a heartbeat and 1.5 seconds, so that "
	    "lockbroker run can end a command. The daemon does not start with values that leave "
	    "less. It also refuses a RabbitMQ whose heartbeat leaves less."},
	{"margin", KEY_DURATION, AT(margin), "0", "SECONDS", 0, 60 * SECOND, NULL, false,
	    "A hold counts as lost this long before RabbitMQ can free its slot. A lease ends two "
	    "heartbeats less this margin after the last answered request. 0: a fifth of the "
	    "heartbeat. At most the heartbeat that daemon and RabbitMQ agree on. With more than two "
	    "thirds of it, a client with several locks can lose all of them when one node of a "
	    "cluster falls silent."},
	{"connect-timeout", KEY_DURATION, AT(connect_timeout), "10", "SECONDS",
	    100 * MS, 300 * SECOND, NULL, false,
	    "The time limit for the TCP, TLS and AMQP handshakes together. Then the daemon tries "
	    "the next address, the next host, or starts again."},
	{"connect-grace", KEY_DURATION, AT(connect_grace), "3", "SECONDS", 0, 60 * SECOND, NULL, false,
	    "How long a daemon that has just started waits for its first connection to the broker. "
	    "Until then clients can connect, and their requests wait. An acquire with a time limit "
	    "ends at its limit nevertheless. The wait also ends if the last host that was tried "
	    "refuses the login. If several hosts are configured, each but the last has "
	    "a third of this time at first. 0: no time."},
	{"request-timeout", KEY_DURATION, AT(request_timeout), "10", "SECONDS",
	    100 * MS, 300 * SECOND, NULL, true,
	    "The time limit for a request that does not wait for a slot. Then it is answered "
	    "broker-unavailable. A waiter that tries a free slot, and gets no answer from the "
	    "broker in this time, returns to its place in the local queue. Must be longer than "
	    "probe-timeout."},
	{"probe-timeout", KEY_DURATION, AT(probe_timeout), "5", "SECONDS",
	    10 * MS, 60 * SECOND, NULL, false,
	    "The time limit for a probe, which asks the broker whether a queue exists. Then the "
	    "daemon does not know whether it exists."},
	{"auxiliary-idle", KEY_DURATION, AT(auxiliary_idle), "60", "SECONDS", 0, 24 * HOUR, NULL, false,
	    "The daemon closes the auxiliary connection to the broker after this time without use."},
	{"query-timeout", KEY_DURATION, AT(query_timeout), "0.5", "SECONDS", 10 * MS, 60 * SECOND,
	    NULL, true,
	    "How long the daemons of other hosts have to answer a query, as for show. A host that "
	    "does not answer in time is named as silent."},
	{"host-name", KEY_STRING, AT(host_name), "", "NAME", 0, 255, NULL, false,
	    "The name of this host in the output of show, watch and top. Empty: the machine's "
	    "host name."},
	{"rescan-interval", KEY_DURATION, AT(rescan_interval), "5", "SECONDS", 50 * MS, HOUR, NULL, true,
	    "The longest time between two scans for free slots while clients wait. A rescan finds "
	    "slots that became free without a hint, such as those of a host that crashed. A hint "
	    "is a message between daemons: a slot may be free."},
	{"hint-grace", KEY_DURATION, AT(hint_grace), "0.005", "SECONDS", 0, SECOND, NULL, true,
	    "How long the daemon leaves a freed slot to others: to waiters of other daemons, or "
	    "to programs that poll. A hint has told other daemons of the slot. Use more if the "
	    "daemons are further from the broker than a few milliseconds. 0: no time."},
	{"max-local-handoffs", KEY_INTEGER, AT(max_local_handoffs), "16", "N", 0, 1000000, NULL, true,
	    "How many times in a row a slot is handed off inside the daemon before waiters of "
	    "other daemons have a turn. A hand-off costs the broker nothing. 0: never; every "
	    "released slot goes through the broker."},
	{"stop-timeout", KEY_DURATION, AT(stop_timeout), "30", "SECONDS", 0, HOUR, NULL, true,
	    "How long holders have to release their locks when the daemon stops. Then the daemon "
	    "ends the locks that are left. TimeoutStopSec of the unit must be longer."},
	{"max-races", KEY_INTEGER, AT(max_races), "16", "N", 1, 1000, NULL, true,
	    "How many times an acquire may lose the race for a free slot before it is answered "
	    "contended."},
	{"claim", KEY_WORD, AT(claim), "exclusive-queue", "WAY", 0, 0, claim_words, true,
	    "How the slots of new semaphores, and free mutexes, are held. exclusive-queue: the daemon "
	    "of the holder declares an exclusive queue, as other programs of the amqp-locks scheme "
	    "do. consumer: it is the exclusive consumer of a durable queue. That is faster. In a "
	    "cluster it is safer under the conditions in SAFETY.md. quorum: it is the active "
	    "consumer of a replicated queue, so that two daemons never hold a slot, and each hold "
	    "has a fencing number. This needs RabbitMQ 4.0 and naming amqp-locks. Existing slots "
	    "are held as before; fsck --convert of lockbroker(1) changes them from one way to "
	    "another."},
	{"quorum-connections", KEY_INTEGER, AT(quorum_connections), "2", "N", 1, 8, NULL, false,
	    "The number of connections for locks that are held by quorum queues. RabbitMQ can end "
	    "one of them with all its locks if one claim fails. These locks are spread over them, "
	    "and no other lock is on them. They are made when they are needed."},
	{"quorum-servers", KEY_WORD, AT(quorum_servers), "4", "VERSIONS", 0, 0, server_words, true,
	    "The versions of RabbitMQ at which slots may be created that are held by quorum queues. "
	    "4: 4.0 and later. untested: 3.10 to 3.13, too, for tests of programs: an upgrade of "
	    "such a server to 4.0 ends these slots."},
	{"naming", KEY_WORD, AT(naming), "amqp-locks", "NAMING", 0, 0, naming_words, false,
	    "How queues are named: see QUEUE NAMES in lockbrokerd.conf(5). All programs that share "
	    "locks must use the same names."},
	{"slot-queue", KEY_STRING, AT(slot_queue), "", "TEMPLATE", 0, TEMPLATE_SIZE, NULL, false,
	    "The slot queue if naming is custom, for example {name}/{slot}/slot."},
	{"holder-queue", KEY_STRING, AT(holder_queue), "", "TEMPLATE", 0, TEMPLATE_SIZE, NULL, false,
	    "The holder queue if naming is custom, for example {name}/{slot}/holder."},
	{"max-locks-per-connection", KEY_INTEGER, AT(max_locks_per_connection), "1024", "N", 1, 65535, NULL, true,
	    "The limit of locks that one client connection holds."},
	{"max-waits-per-connection", KEY_INTEGER, AT(max_waits_per_connection), "1024", "N", 1, 65535, NULL, true,
	    "The limit of requests of one client connection that wait for locks."},
	{"channels-reserve", KEY_INTEGER, AT(channels_reserve), "256", "N", 0, 65535, NULL, true,
	    "The number of channels to the broker that one user must leave to the others. Each "
	    "lock that is held takes one channel, and RabbitMQ allows 2047 by default. The "
	    "reserve is at most half of the channels that the broker allows. If a user has taken "
	    "the rest, its requests wait, or are refused as too-many-locks if their timeout is 0. "
	    "Root, the daemon's own user and members of admin-group are exempt."},
	{"max-mutexes-per-uid", KEY_INTEGER, AT(max_mutexes_per_uid), "2000", "N", 1, 1000000, NULL, true,
	    "The limit of mutexes that one user uses, if claim is consumer or quorum. Each of them is a "
	    "durable queue, which costs RabbitMQ 30 to 55 KiB until a minute after its last use. By "
	    "quorum it costs 0.12 MiB until an hour after that. A "
	    "mutex counts for so long, and can be acquired again meanwhile. Acquires of other "
	    "mutexes are refused as too-many-locks. Root, the daemon's own user and members of "
	    "admin-group are exempt."},
	{"max-requests-per-connection", KEY_INTEGER, AT(max_requests_per_connection), "64", "N", 1, 65535, NULL,
	    true,
	    "The limit of requests of one client connection that are in progress, waiters not "
	    "counted. The daemon reads more only after it has answered one."},
	{"max-connections-per-uid", KEY_INTEGER, AT(max_connections_per_uid), "20000", "N", 1, 1000000, NULL, true,
	    "The limit of client connections of one user. The daemon's limit of descriptors may "
	    "allow less; see lockbrokerd(8)."},
	{"max-waits-per-uid", KEY_INTEGER, AT(max_waits_per_uid), "20000", "N", 1, 1000000, NULL, true,
	    "The limit of requests of one user, root included, that wait for locks. Further "
	    "requests are refused as too-many-waiters."},
	{"max-watches-per-uid", KEY_INTEGER, AT(max_watches_per_uid), "64", "N", 1, 1000000, NULL, true,
	    "The limit of watches of one user, root included. Further watches are refused as "
	    "too-many-waiters."},
	{"max-scans-per-uid", KEY_INTEGER, AT(max_scans_per_uid), "2", "N", 1, 1000000, NULL, true,
	    "The limit of requests of one user that scan semaphores at the broker at the same "
	    "time: size, show, list, explain and fsck. They ask about many queues, and acquires "
	    "wait behind them. Further requests wait."},
	{"max-buffer-per-uid", KEY_INTEGER, AT(max_buffer_per_uid), "16", "MIB", 4, 65536, NULL, true,
	    "Memory, in MiB, for the unread answers, partial requests and open requests of one "
	    "user's connections. While all of it is in use, nothing is read from them. Not more than "
	    "half of max-buffer."},
	{"max-buffer", KEY_INTEGER, AT(max_buffer), "128", "MIB", 8, 131072, NULL, true,
	    "Memory, in MiB, for the connections of all users together, counted as in "
	    "max-buffer-per-uid. While all of it is in use, the daemon reads only from users that "
	    "use less than 256 KiB. The unit's MemoryMax must be larger."},
	{"admin-group", KEY_STRING, AT(admin_group), "lockbroker-admin", "GROUP", 0, 64, NULL, true,
	    "Members of this group may administer semaphores, as may root and the daemon's own "
	    "user. A group that does not exist has no members. Empty: no group."},
	{"log-level", KEY_LEVEL, AT(log_level), "info", "LEVEL", 0, 0, level_words, true,
	    "Minimum severity to log."},
	{"log-format", KEY_WORD, AT(log_format), "text", "FORMAT", 0, 0, format_words, true,
	    "The form of log lines that do not go to journald: text, or one JSON "
	    "object for each event. See LOG in lockbrokerd(8)."},
	{0},
};
/* clang-format on */

_Static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= KEY_COUNT_MAX, "KEY_COUNT_MAX");

const struct config_key *
key_find(const char *name)
{
	for (const struct config_key *key = config_keys; key->name != NULL; key++) {
		if (strcmp(key->name, name) == 0)
			return key;
	}
	return NULL;
}

size_t
key_index(const struct config_key *key)
{
	return (size_t)(key - config_keys);
}
