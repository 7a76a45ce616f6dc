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
/*
 * The credential broker-password. NULL with *ret_what NULL when systemd handed none over, or one with
 * nothing in it: the default that the unit gives it, so that its file may be missing.
 */
char *password_credential(const char **ret_what) __attribute__((warn_unused_result));

#endif
