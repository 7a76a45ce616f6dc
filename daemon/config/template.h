/*
 * Templates of queue names in the configuration, such as "{name}-{slot}-A": which templates are
 * valid, and whether two of them can make the same name. It does not know the purpose of the
 * queues: daemon/lock/names.h does.
 *
 * By these rules each queue name has only one meaning:
 * - {name} and {slot} each occur once.
 * - Next to {slot} is neither {name} nor a digit.
 * - The two templates differ before {name}, or after it.
 * - '=' is reserved for lockbroker's own queues.
 */
#ifndef CONFIG_TEMPLATE_H
#define CONFIG_TEMPLATE_H

#include <stdbool.h>

/* Maximum bytes of a short string of AMQP, and so of a queue name. */
#define TEMPLATE_QUEUE_MAX 255
/* Maximum bytes of a template, with the NUL. The longest lock name leaves no more in a queue name. */
#define TEMPLATE_SIZE 64

#define TEMPLATE_NAME "{name}"
#define TEMPLATE_SLOT "{slot}"

/* The text before and after {name}. One of them contains {slot}, literally. */
struct template
{
	char head[TEMPLATE_SIZE], tail[TEMPLATE_SIZE];
};

#define TEMPLATE_ERROR_MAX 160
/* False: error says why, and at which byte. */
bool template_parse(const char *text, struct template *ret, char error[TEMPLATE_ERROR_MAX])
    __attribute__((warn_unused_result));
/* Whether no queue name fits both, for any lock names and slots. */
bool template_differ(const struct template *one, const struct template *other);

#endif
