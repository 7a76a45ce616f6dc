/*
 * Reads the configuration file, ini format by inih, and passes each key or rule on with its line.
 * It adds to inih: line numbers, all errors, limits, and errors for input that inih would silently
 * cut or skip. It does not know which keys exist.
 */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"

/* Maximum bytes of a line, with its end, and of a file. */
#define FILE_LINE_MAX 8192
#define FILE_SIZE_MAX (1024 * 1024)

/*
 * Called for each `key = value`. section is "" or "access". Returns false and a text in error (size
 * bytes) if the value is not valid.
 */
typedef bool file_handler(void *ctx, const char *section, const char *key, const char *value,
    int line, char *error, size_t size);

/*
 * Reads a whole file, and adds its errors, which name file, line and key. may_be_missing: a file
 * that does not exist counts as empty. Returns whether the file could be read.
 */
bool file_read(const char *path, bool may_be_missing, file_handler *handler, void *ctx,
    struct config_errors *errors) __attribute__((warn_unused_result));

#endif
