/*
 * The configuration file, ini by inih: lines in, texts of keys and rules out, each with its line.
 * Adds what inih does not do: line numbers, an end at the first error, limits, refusal of what
 * inih would silently cut or skip.
 */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"

/* Bytes of a line, line end included, and of a file. */
#define FILE_LINE_MAX 8192
#define FILE_SIZE_MAX (1024 * 1024)

/*
 * One `key = value`. False and error (of size bytes) when it is not to be had; section is "" or
 * "access".
 */
typedef bool file_handler(void *ctx, const char *section, const char *key, const char *value,
    int line, char *error, size_t size);

/*
 * Reads a whole file. False and *ret_error, which names file, line and key. may_be_missing: a file
 * that does not exist counts as empty.
 */
bool file_read(const char *path, bool may_be_missing, file_handler *handler, void *ctx,
    struct config_error *ret_error) __attribute__((warn_unused_result));

#endif
