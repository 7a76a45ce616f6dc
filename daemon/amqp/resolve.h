/*
 * Names to addresses without blocking: getaddrinfo(3) in a thread of its own, so that names mean what
 * they mean to the rest of the machine (nsswitch.conf, /etc/hosts, a resolv.conf that changed).
 * Addresses in figures need no thread. Owns the lookup; knows nothing of AMQP.
 */
#ifndef AMQP_RESOLVE_H
#define AMQP_RESOLVE_H

struct addrinfo;
struct amqp_resolve;
struct event_base;

/*
 * fn is called once from the loop, never from inside this call. addresses: NULL and why (static or
 * borrowed for the call) on failure; fn takes them and frees them with freeaddrinfo(3). NULL, and fn is
 * not called: no file descriptor is left.
 */
struct amqp_resolve *amqp_resolve_new(struct event_base *base, const char *host, int port,
    void (*fn)(void *ctx, struct addrinfo *addresses, const char *why), void *ctx);
/* Ends it, also after fn was called; fn is not called any more. NULL is fine. */
void amqp_resolve_free(struct amqp_resolve *resolve);

#endif
