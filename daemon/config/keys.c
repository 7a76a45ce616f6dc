#include "daemon/config/keys.h"

#include <string.h>

#include "daemon/config/template.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)

static const char *const sasl_words[] = {"plain", "external", NULL};
static const char *const naming_words[] = {"amqp-locks", "amqp-locks-python", "custom", NULL};
/* In the order of enum log_level. */
static const char *const level_words[] = {"error", "warning", "info", "debug", NULL};

#define AT(field) offsetof(struct config, field)

/* clang-format off */
const struct config_key config_keys[] = {
	{"socket", KEY_STRING, AT(socket), "/run/lockbroker/lockbroker.sock", "PATH", 1, 107,
	    NULL, false,
	    "The Unix socket at which peers are served. Not used when systemd hands over a socket."},
	{"socket-mode", KEY_MODE, AT(socket_mode), "0660", "MODE", 0, 0777, NULL, false,
	    "The socket's permissions, octal: who may write to it may ask for locks."},
	{"socket-group", KEY_STRING, AT(socket_group), "", "GROUP", 0, 64, NULL, false,
	    "The socket's group. Empty: the one that the daemon runs as."},
	{"broker", KEY_BROKERS, 0, "amqp://localhost", "URL[,URL...]", 0, 0, NULL, false,
	    "The RabbitMQ to keep the locks in: amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// "
	    "for TLS. Special characters are written %XX, IPv6 addresses in brackets. The port is "
	    "5672 or, with TLS, 5671 when not given, the vhost /. More than one URL: hosts of one "
	    "cluster, tried in turn, which all have to say the same name "
	    "(rabbitmqctl set_cluster_name). Or memory: for a broker inside the daemon, for this host "
	    "alone, which forgets everything when the daemon ends: for development."},
	{"password-file", KEY_STRING, AT(password_file), "", "PATH", 0, 1024, NULL, false,
	    "A file whose one line is the password for every broker URL that has none. When this is "
	    "empty the systemd credential broker-password is used if there is one."},
	{"sasl", KEY_WORD, AT(sasl), "plain", "MECHANISM", 0, 0, sasl_words, false,
	    "How to log in: plain sends user and password, external lets the TLS client "
	    "certificate speak."},
	{"tls-ca", KEY_STRING, AT(tls_ca), "", "PATH", 0, 1024, NULL, false,
	    "Certificates (PEM) that the broker's certificate has to descend from. Empty: the "
	    "system's."},
	{"tls-cert", KEY_STRING, AT(tls_cert), "", "PATH", 0, 1024, NULL, false,
	    "The daemon's own certificate (PEM) to show to the broker. Empty: none."},
	{"tls-key", KEY_STRING, AT(tls_key), "", "PATH", 0, 1024, NULL, false,
	    "The private key (PEM) of tls-cert."},
	{"heartbeat", KEY_INTEGER, AT(heartbeat), "10", "SECONDS", 1, 60, NULL, false,
	    "The AMQP heartbeat. RabbitMQ frees the locks of a host that is silent for two to three "
	    "heartbeats. 5 to 20 is sensible: with less, a short delay costs the host its locks; with "
	    "more, the locks of a dead host stay busy for minutes. If RabbitMQ asks for a shorter "
	    "heartbeat, that one is used. The lease of a lock, two heartbeats less the margin, must "
	    "last at least a third of a heartbeat and 1.5 seconds: lockbroker run needs that time to "
	    "end a command. The daemon does not start with values that leave less, and refuses a "
	    "RabbitMQ whose heartbeat leaves less."},
	{"margin", KEY_DURATION, AT(margin), "0", "SECONDS", 0, 60 * SECOND, NULL, false,
	    "How long before RabbitMQ could give a slot to somebody else it counts as lost: the lease "
	    "of a hold is two heartbeats less this after the last answer. 0: a fifth of the heartbeat. "
	    "At most the heartbeat; where RabbitMQ wants a shorter heartbeat, at most that one."},
	{"connect-timeout", KEY_DURATION, AT(connect_timeout), "10", "SECONDS",
	    100 * MS, 300 * SECOND, NULL, false,
	    "How long TCP, TLS and AMQP handshake together may take before the next address of the "
	    "host, the next host or a new try."},
	{"request-timeout", KEY_DURATION, AT(request_timeout), "10", "SECONDS",
	    100 * MS, 300 * SECOND, NULL, true,
	    "How long a request that does not wait by itself may take until it is answered "
	    "broker-unavailable. A waiter whose claim is not answered for so long goes back to its "
	    "place in the line. Longer than probe-timeout."},
	{"probe-timeout", KEY_DURATION, AT(probe_timeout), "5", "SECONDS",
	    10 * MS, 60 * SECOND, NULL, false,
	    "How long to wait for the broker to say whether queues exist before that counts as not "
	    "known."},
	{"side-idle", KEY_DURATION, AT(side_idle), "60", "SECONDS", 0, 24 * HOUR, NULL, false,
	    "After how long without use the second connection to the broker is closed."},
	{"query-timeout", KEY_DURATION, AT(query_timeout), "0.5", "SECONDS", 10 * MS, 60 * SECOND,
	    NULL, true,
	    "How long the daemons of other hosts have to answer when somebody wants to see who holds "
	    "and who waits; who does not answer by then is named."},
	{"host-name", KEY_STRING, AT(host_name), "", "NAME", 0, 255, NULL, false,
	    "The name under which this host is shown to the others. Empty: the machine's."},
	{"rescan-interval", KEY_DURATION, AT(rescan_interval), "5", "SECONDS", 50 * MS, HOUR, NULL, true,
	    "How often, on average, a waiting request looks for slots that became free without a "
	    "word, as those of a host that crashed."},
	{"hint-grace", KEY_DURATION, AT(hint_grace), "0.005", "SECONDS", 0, SECOND, NULL, true,
	    "For how long a slot that was freed here is left to whoever waits for it behind another "
	    "daemon and was told. More where the daemons are further from the broker than a few "
	    "milliseconds. 0: not at all, nor to clients that poll and stand in no line."},
	{"max-local-handoffs", KEY_INTEGER, AT(max_local_handoffs), "16", "N", 0, 1000000, NULL, true,
	    "How many times in a row a slot goes from holder to waiter inside the daemon, which costs the "
	    "broker nothing, before somebody who waits behind another daemon has a turn. 0: never; every "
	    "slot that is released goes by the broker."},
	{"stop-timeout", KEY_DURATION, AT(stop_timeout), "30", "SECONDS", 0, HOUR, NULL, true,
	    "How long holders have to release when the daemon is told to stop; what is left then is "
	    "taken away. The unit's TimeoutStopSec has to be longer."},
	{"max-races", KEY_INTEGER, AT(max_races), "16", "N", 1, 1000, NULL, true,
	    "How many times an acquire may find a free slot taken from under it by somebody else "
	    "before it is answered contended."},
	{"naming", KEY_WORD, AT(naming), "amqp-locks", "NAMING", 0, 0, naming_words, false,
	    "How queues are named: as amqp-locks names them, as its Python relative does, or, with "
	    "custom, as slot-queue and holder-queue say. Everybody who shares locks has to use the "
	    "same."},
	{"slot-queue", KEY_STRING, AT(slot_queue), "", "TEMPLATE", 0, TEMPLATE_SIZE, NULL, false,
	    "The queue that is a slot, when naming is custom, as in {name}/{slot}/slot."},
	{"holder-queue", KEY_STRING, AT(holder_queue), "", "TEMPLATE", 0, TEMPLATE_SIZE, NULL, false,
	    "The queue that its holder has, when naming is custom, as in {name}/{slot}/holder."},
	{"max-locks-per-connection", KEY_INTEGER, AT(max_locks_per_connection), "1024", "N", 1, 65535, NULL, true,
	    "How many locks one connection to the socket may hold."},
	{"max-waits-per-connection", KEY_INTEGER, AT(max_waits_per_connection), "1024", "N", 1, 65535, NULL, true,
	    "How many requests of one connection may wait for locks."},
	{"channels-reserve", KEY_INTEGER, AT(channels_reserve), "256", "N", 0, 65535, NULL, true,
	    "How many channels of the connection to the broker one user leaves to the others. Each lock "
	    "that is held takes one channel, and RabbitMQ allows 2047 by default. The reserve is at most "
	    "half of what the broker allows. If a user has taken the rest, its requests wait, or are "
	    "refused as too-many-locks if their timeout is 0. Root, the daemon's own user and "
	    "members of admin-group are exempt."},
	{"max-requests-per-connection", KEY_INTEGER, AT(max_requests_per_connection), "64", "N", 1, 65535, NULL,
	    true,
	    "How many requests of one connection are worked on at once, those that wait not counted. "
	    "More are read only when one has been answered."},
	{"max-connections-per-uid", KEY_INTEGER, AT(max_connections_per_uid), "20000", "N", 1, 1000000, NULL, true,
	    "How many connections the processes of one user may have open. The daemon's limit of "
	    "descriptors may allow less; see lockbrokerd(8)."},
	{"max-waits-per-uid", KEY_INTEGER, AT(max_waits_per_uid), "20000", "N", 1, 1000000, NULL, true,
	    "How many requests of the processes of one user, root as well, may wait for locks, over all "
	    "connections. What is more is refused as too-many-waiters."},
	{"max-watches-per-uid", KEY_INTEGER, AT(max_watches_per_uid), "64", "N", 1, 1000000, NULL, true,
	    "How many watches the processes of one user, root as well, may have. A watch more is refused "
	    "as too-many-waiters."},
	{"max-looks-per-uid", KEY_INTEGER, AT(max_looks_per_uid), "2", "N", 1, 1000000, NULL, true,
	    "How many requests of size, show, list, explain and fsck the processes of one user may have "
	    "at the broker at once: they ask about many queues, and acquires wait behind them. More "
	    "wait until the broker has answered one."},
	{"max-buffer-per-uid", KEY_INTEGER, AT(max_buffer_per_uid), "16", "MIB", 4, 65536, NULL, true,
	    "Memory, in MiB, for what the connections of one user have not read, have sent in part, or "
	    "are still to be answered. Nothing is read from them while it is used up. Not more than half "
	    "of max-buffer."},
	{"max-buffer", KEY_INTEGER, AT(max_buffer), "128", "MIB", 8, 131072, NULL, true,
	    "Memory, in MiB, for the connections of all users together, counted as in "
	    "max-buffer-per-uid. While all of it is in use, the daemon reads only from users that use less "
	    "than 256 KiB. The unit's MemoryMax must be larger."},
	{"admin-group", KEY_STRING, AT(admin_group), "lockbroker-admin", "GROUP", 0, 64, NULL, true,
	    "The group whose members may, besides root and the daemon's own user, do what changes "
	    "semaphores for everybody. A group that does not exist has no members; empty: no group."},
	{"log-level", KEY_LEVEL, AT(log_level), "info", "LEVEL", 0, 0, level_words, true,
	    "The least grave messages that are logged."},
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
