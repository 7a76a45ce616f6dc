/*
 * The ids of locks and waiters on the wire, "RRRRRRRR-N". R is the run of the daemon, drawn at its
 * start; N is the engine's number. Pure.
 */
#ifndef VIEW_WIRE_ID_H
#define VIEW_WIRE_ID_H

#include <stdbool.h>
#include <stdint.h>

#define WIRE_ID_SIZE 32
/* Returns buf. */
const char *wire_id_write(char buf[WIRE_ID_SIZE], uint32_t run, uint64_t number);
/* False: no daemon writes such an id. */
bool wire_id_parse(const char *text, uint32_t *ret_run, uint64_t *ret_number);
/* A run alone, "RRRRRRRR". */
const char *wire_id_run(char buf[WIRE_ID_SIZE], uint32_t run);
bool wire_id_parse_run(const char *text, uint32_t *ret_run);

#endif
