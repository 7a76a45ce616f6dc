/*
 * How the broker is reached: hosts, login, TLS and timeouts. It owns the strings of a copy, except
 * the passwords.
 */
#ifndef AMQP_SETTINGS_H
#define AMQP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amqp_host {
	bool tls;
	const char *host; /* name or address; IPv6 without brackets */
	int port;
	const char *vhost, *user;
	/* Borrowed until broker_set_password(), or for the broker's life: a secret is not copied. */
	const char *password;
};

/* amqp_settings_copy() copies the other strings. Durations are in ns. */
struct amqp_settings {
	const struct amqp_host *hosts;
	size_t host_count;
	bool external; /* SASL EXTERNAL instead of PLAIN */
	/* PEM files; NULL or "": the system's CAs, no client certificate. */
	const char *tls_ca, *tls_cert, *tls_key;
	int heartbeat;           /* seconds, as wanted; the server may lower it */
	int64_t margin;          /* of a lease, as wanted (margin.h); 0: a fifth of the heartbeat */
	int64_t connect_timeout; /* TCP, TLS and AMQP handshake together */
	/*
	 * The same in the first round through the hosts, for all addresses of a host together. It
	 * does not apply to the last host. 0: as connect_timeout.
	 */
	int64_t first_timeout;
	int64_t probe_timeout;
	/*
	 * The pause between tries to connect has full jitter: first at most backoff_first, then
	 * doubled up to backoff_most. 0: 100 ms, 10 s.
	 */
	int64_t backoff_first, backoff_most;
	int64_t auxiliary_idle; /* an auxiliary connection that is not used so long is closed */
	int64_t ack_after;      /* deliveries to a watch are acknowledged after this; 0: 20 s */
	bool in_process;        /* the server is part of this process: links are not logged */
	const char *name;       /* connection_name, less " (locks)" or " (auxiliary)" */
	bool any_product;       /* brokers other than RabbitMQ are used, too */
	/*
	 * How long the test of exclusive queues may take (daemon/broker/broker.c). 0: the daemon
	 * uses the broker without it.
	 */
	int64_t exclusion_timeout;
	/* Connections of holds by quorum, at most BROKER_QUORUM_MOST. 0: 2. */
	unsigned quorum_connections;
	/* How long a release by quorum waits for its proof. 0: AMQP_QUORUM_PROOF. */
	int64_t proof_timeout;
	bool replays; /* the seed decides all random values, names of inboxes too */
};

/*
 * Copies all but the TLS file names, which have been used by then, and the passwords, which remain
 * the owner's.
 */
void amqp_settings_copy(struct amqp_settings *ret, const struct amqp_settings *settings);
void amqp_settings_done(struct amqp_settings *copy);

#endif
