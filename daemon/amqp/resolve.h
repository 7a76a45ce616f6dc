/*
 * Looks up addresses of a name without blocking, by getaddrinfo(3) in a thread. So the name means
 * the same as to other programs of the machine (nsswitch.conf, /etc/hosts, a changed resolv.conf).
 * A numeric address needs no thread. It owns the lookup, and knows nothing of AMQP.
 */
#ifndef AMQP_RESOLVE_H
#define AMQP_RESOLVE_H

struct addrinfo;
struct amqp_resolve;
struct event_base;

/*
 * Begins a lookup. fn is called once, from the loop, never from inside this call. fn takes the
 * addresses, and frees them with freeaddrinfo(3). On failure addresses is NULL, and why is static
 * or borrowed for the call. Returns NULL, and fn is not called, if no file descriptor is left.
 */
struct amqp_resolve *amqp_resolve_new(struct event_base *base, const char *host, int port,
    void (*fn)(void *ctx, struct addrinfo *addresses, const char *why), void *ctx);
/* Ends a lookup, before or after fn is called. fn is not called after this. NULL is fine. */
void amqp_resolve_free(struct amqp_resolve *resolve);

#endif
