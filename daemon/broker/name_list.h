/*
 * A list of texts, which it owns: names of a directory, bodies of messages. Zeroed is empty.
 */
#ifndef BROKER_NAME_LIST_H
#define BROKER_NAME_LIST_H

#include <stddef.h>

struct name_list {
	char **all; /* owned, and each */
	size_t count, room;
};

void name_list_add(struct name_list *list, const char *name);
void name_list_done(struct name_list *list); /* and it is empty after */

#endif
