/*
 * Checks byte by byte whether a text is one JSON value by RFC 8259 and the limits of PROTOCOL.md, "Framing".
 * Allocates nothing. json.c scans each text with it before cJSON parses it.
 */
#ifndef PROTOCOL_JSON_SCAN_H
#define PROTOCOL_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/json.h"

/* Bytes of the longest number: parse_number() of cJSON 1.7.15 cuts off longer ones. */
#define JSON_NUMBER_MAX 63

bool json_scan(const char *text, size_t len, struct json_error *ret_error);
/*
 * The byte at which the name of the n-th member begins. n counts from 0 over all objects, in the order of the
 * text. json_scan() must have accepted the text.
 */
size_t json_scan_key(const char *text, size_t len, size_t n);
/*
 * The number of bytes, 1 to 4, of the UTF-8 character at bytes. 0: there is no valid character (overlong,
 * surrogate, above U+10FFFF, incomplete). len is at least 1.
 */
size_t json_scan_utf8(const char *bytes, size_t len);

#endif
