/*
 * TLS for the broker's links: who we trust, who we are, and that the other end is the host that was
 * asked for. At least TLS 1.2; the certificate's name or address is always checked, there is no way to
 * leave that out.
 */
#ifndef AMQP_TLS_H
#define AMQP_TLS_H

#include <stddef.h>

#include <openssl/ssl.h>

/*
 * From PEM files; NULL or "" = the system's CAs, no client certificate; a key may stand in the
 * certificate's file. NULL and *ret_error (malloc'ed) when they cannot be used.
 */
SSL_CTX *amqp_tls_new(const char *ca, const char *cert, const char *key, char **ret_error);
/* A session that will accept no other end than host, a name or an address. NULL: out of memory. */
SSL *amqp_tls_session(SSL_CTX *tls, const char *host);
/* Why the handshake or the connection failed; error: of OpenSSL, 0 = see errno. malloc'ed. */
char *amqp_tls_why(const SSL *session, const char *host, unsigned long error, int system_error);

#endif
