/*
 * How the broker is reached, and with which patience.
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
	const char *password; /* borrowed as long as the broker lives: a secret is not copied */
};

/* Other strings are copied by amqp_settings_copy. Durations in ns. */
struct amqp_settings {
	const struct amqp_host *hosts;
	size_t host_count;
	bool external; /* SASL EXTERNAL instead of PLAIN */
	/* PEM files; NULL or "": system CAs, no certificate. */
	const char *tls_ca, *tls_cert, *tls_key;
	int heartbeat;           /* seconds, asked for; the server may lower it */
	int64_t margin;          /* of a lease, as wanted (margin.h); 0: a fifth of the heartbeat */
	int64_t connect_timeout; /* TCP, TLS and AMQP handshake together */
	int64_t probe_timeout;
	/* Between tries to connect, full jitter: at most so long first, doubled up to the most. 0: 100 ms, 10 s */
	int64_t backoff_first, backoff_most;
	int64_t auxiliary_idle; /* the auxiliary connection is closed after so long without use */
	int64_t ack_after;      /* what a watch is delivered is acknowledged then; 0: 20 s */
	bool in_process;        /* its server is part of this process: links are not logged */
	const char *name;       /* connection_name in the management UI: "lockbrokerd HOST" */
	bool replays;           /* the seed decides all that is drawn, names of inboxes too */
};

/* All but the TLS files, which are used up by then, and the passwords, which stay the owner's. */
void amqp_settings_copy(struct amqp_settings *ret, const struct amqp_settings *settings);
void amqp_settings_done(struct amqp_settings *copy);

#endif
