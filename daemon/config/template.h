/*
 * Templates of queue names, as a configuration gives them: "{name}-{slot}-A". What one may look like,
 * and whether two of them can ever make the same name. Which queues there are, and what they are for,
 * is daemon/lock/table/names.h's business.
 *
 * The rules, by which every queue name has one reading: {name} once and {slot} once; what touches
 * {slot} is neither {name} nor a digit; the two templates differ in what stands before {name}, or in
 * what stands after it. '=' is kept for lockbroker's own queues.
 */
#ifndef CONFIG_TEMPLATE_H
#define CONFIG_TEMPLATE_H

#include <stdbool.h>

/* Bytes of AMQP's shortstr, and thus of a queue name. */
#define TEMPLATE_QUEUE_MAX 255
/* Bytes of a template that the rule about the longest name leaves, the NUL included. */
#define TEMPLATE_SIZE 64

#define TEMPLATE_NAME "{name}"
#define TEMPLATE_SLOT "{slot}"

/* What stands before and after {name}; {slot} is in one of the two, in these very daemon messages. */
struct template
{
	char head[TEMPLATE_SIZE], tail[TEMPLATE_SIZE];
};

#define TEMPLATE_ERROR_MAX 160
/* False: error says what is wrong, and at which byte. */
bool template_parse(const char *text, struct template *ret, char error[TEMPLATE_ERROR_MAX])
    __attribute__((warn_unused_result));
/* Whether no queue name can be made by both, whatever the lock names and slots. */
bool template_differ(const struct template *one, const struct template *other);

#endif
