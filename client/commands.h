/*
 * The subcommands for the table in main.c: those that ask one question, and those that run for
 * longer.
 */
#ifndef CLIENT_COMMANDS_H
#define CLIENT_COMMANDS_H

#include "client/asking.h"
#include "client/tool/options.h"

extern const struct question question_await, question_call, question_create, question_deny,
    question_destroy, question_evict, question_explain, question_fsck, question_grant,
    question_info, question_list, question_metrics, question_ping, question_resize, question_show,
    question_size, question_verify, question_watch;

/* Each gets its options and operands, prints its messages, and returns the exit status. */
int cmd_run(const struct tool_options *options, char *operands[]);
int cmd_acquire(const struct tool_options *options, char *operands[]);
int cmd_release(const struct tool_options *options, char *operands[]);
int cmd_top(const struct tool_options *options, char *operands[]);

#endif
