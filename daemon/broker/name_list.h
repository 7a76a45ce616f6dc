/* A list that owns its texts: names of a directory, bodies of messages. A zeroed list is empty. */
#ifndef BROKER_NAME_LIST_H
#define BROKER_NAME_LIST_H

#include <stddef.h>

struct name_list {
	char **all; /* the array and each text are owned */
	size_t count, room;
};

void name_list_add(struct name_list *list, const char *name);
void name_list_done(struct name_list *list); /* the list is empty after this */

#endif
