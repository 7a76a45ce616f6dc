#include "daemon/amqp/tls.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "daemon/base/mem.h"

static bool
is_given(const char *path)
{
	return path != NULL && path[0] != '\0';
}

static const char *
openssl_words(void)
{
	unsigned long error = ERR_peek_last_error();
	const char *words = ERR_reason_error_string(error);

	/* A failed fopen() is an error of the system library, for which OpenSSL has no text. */
	if (ERR_SYSTEM_ERROR(error))
		words = strerror(ERR_GET_REASON(error));
	return words != NULL ? words : "no reason is given";
}

static char *
file_error(const char *what, const char *path)
{
	/* The first error names the cause. The last one is often too general ("PEM lib"). */
	unsigned long first = ERR_peek_error();
	const char *words =
	    ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) : openssl_words();

	return mem_printf("%s %s: %s", what, path, words);
}

static char *
load_files(SSL_CTX *tls, const char *ca, const char *cert, const char *key)
{
	if (!is_given(ca)) {
		if (SSL_CTX_set_default_verify_paths(tls) != 1)
			return mem_printf("the system's CA certificates: %s", openssl_words());
	} else if (SSL_CTX_load_verify_file(tls, ca) != 1) {
		return file_error("CA file", ca);
	}
	if (!is_given(cert))
		return NULL;
	if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1)
		return file_error("certificate", cert);
	if (!is_given(key))
		key = cert;
	if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
		return file_error("private key", key);
	if (SSL_CTX_check_private_key(tls) != 1)
		return mem_printf("private key %s does not match certificate %s", key, cert);
	return NULL;
}

/* The daemon has no terminal to ask for the key's passphrase. */
static int
no_passphrase(char *buf, int size, int writing, void *ctx)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)ctx;
	return 0;
}

SSL_CTX *
amqp_tls_new(const char *ca, const char *cert, const char *key, char **ret_error)
{
	SSL_CTX *tls;
	char *error;

	ERR_clear_error();
	tls = SSL_CTX_new(TLS_client_method());
	if (tls == NULL || SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1) {
		error = mem_printf("OpenSSL: %s", openssl_words());
	} else {
		SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
		SSL_CTX_set_default_passwd_cb(tls, no_passphrase);
		error = load_files(tls, ca, cert, key);
	}
	if (error == NULL)
		return tls;
	ERR_clear_error();
	SSL_CTX_free(tls);
	*ret_error = error;
	return NULL;
}

static bool
is_address(const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

SSL *
amqp_tls_session(SSL_CTX *tls, const char *host)
{
	SSL *session = SSL_new(tls);
	bool ok;

	if (session == NULL)
		return NULL;
	SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (is_address(host))
		ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1;
	else
		ok = SSL_set1_host(session, host) == 1 &&
		     SSL_set_tlsext_host_name(session, host) == 1;
	if (ok)
		return session;
	SSL_free(session);
	return NULL;
}

char *
amqp_tls_why(const SSL *session, const char *host, unsigned long error, int system_error)
{
	long verified = SSL_get_verify_result(session);
	const char *words = error != 0 ? ERR_reason_error_string(error) : NULL;

	if (verified != X509_V_OK)
		return mem_printf("TLS: the certificate of %s is rejected: %s", host,
		    X509_verify_cert_error_string(verified));
	if (words != NULL)
		return mem_printf("TLS: %s", words);
	return mem_printf("TLS: %s",
	    system_error != 0 ? strerror(system_error) : "the other end closed the connection");
}
