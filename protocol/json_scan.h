/*
 * RFC 8259, byte by byte: whether a text is one JSON value as strictly as the wire wants it, and
 * where it is not. Builds nothing, allocates nothing; json.c scans with it before cJSON sees a text.
 */
#ifndef PROTOCOL_JSON_SCAN_H
#define PROTOCOL_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/json.h"

/* Longest number: cJSON 1.7.15 parse_number() cuts longer ones. */
#define JSON_NUMBER_MAX 63

bool json_scan(const char *text, size_t len, struct json_error *ret_error);
/*
 * Where the key of the n-th member (from 0) begins, counted over all objects in the order of the
 * text; for a text that json_scan() accepted.
 */
size_t json_scan_key(const char *text, size_t len, size_t n);
/*
 * How many bytes of the UTF-8 sequence at bytes are one character: 1 to 4, or 0 when they are none
 * (overlong, surrogate, above U+10FFFF, cut off). len is at least 1.
 */
size_t json_scan_utf8(const char *bytes, size_t len);

#endif
