/*
 * TLS for the broker's links: trusted CAs, the daemon's certificate, and the check of the broker's
 * certificate. At least TLS 1.2. The name or address in the certificate is always checked; no
 * setting turns that off.
 */
#ifndef AMQP_TLS_H
#define AMQP_TLS_H

#include <stddef.h>

#include <openssl/ssl.h>

/*
 * Reads PEM files. NULL or "": the system's CAs, no client certificate. The key may stand in the
 * file of the certificate. Returns NULL and *ret_error (malloc'ed) if the files cannot be used.
 */
SSL_CTX *amqp_tls_new(const char *ca, const char *cert, const char *key, char **ret_error);
/* A session that accepts only host, a name or an address, as its other end. NULL: out of memory. */
SSL *amqp_tls_session(SSL_CTX *tls, const char *host);
/*
 * Why the handshake or the connection failed, malloc'ed. error: of OpenSSL; 0 = system_error is an
 * errno.
 */
char *amqp_tls_why(const SSL *session, const char *host, unsigned long error, int system_error);

#endif
