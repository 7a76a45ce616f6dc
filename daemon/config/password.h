/*
 * The broker's password from where it belongs: a file, or a credential that systemd hands over.
 */
#ifndef CONFIG_PASSWORD_H
#define CONFIG_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The one line of the file, without its end; owned by the caller. NULL and why (static or of
 * strerror) when it is not to be had. A file that everybody may read is warned of.
 */
char *password_read(const char *path, const char **ret_what) __attribute__((warn_unused_result));
/* Where the credential is; NULL when systemd handed none over. Owned by the caller. */
char *password_credential(void);

#endif
