/*
 * The subcommands: each gets its options and operands (NULL-terminated, as many as its row in main.c
 * allows), says what there is to say, and returns the exit status.
 */
#ifndef CLIENT_COMMANDS_H
#define CLIENT_COMMANDS_H

#include "client/options.h"

int cmd_run(const struct options *options, char *operands[]);
int cmd_acquire(const struct options *options, char *operands[]);
int cmd_verify(const struct options *options, char *operands[]);
int cmd_create(const struct options *options, char *operands[]);
int cmd_resize(const struct options *options, char *operands[]);
int cmd_destroy(const struct options *options, char *operands[]);
int cmd_size(const struct options *options, char *operands[]);
int cmd_await(const struct options *options, char *operands[]);
int cmd_show(const struct options *options, char *operands[]);
int cmd_watch(const struct options *options, char *operands[]);
int cmd_top(const struct options *options, char *operands[]);
int cmd_grant(const struct options *options, char *operands[]);
int cmd_deny(const struct options *options, char *operands[]);
int cmd_list(const struct options *options, char *operands[]);
int cmd_fsck(const struct options *options, char *operands[]);
int cmd_explain(const struct options *options, char *operands[]);
int cmd_info(const struct options *options, char *operands[]);
int cmd_ping(const struct options *options, char *operands[]);
int cmd_call(const struct options *options, char *operands[]);

#endif
