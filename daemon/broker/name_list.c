#include "daemon/broker/name_list.h"

#include <stdlib.h>

#include "daemon/base/mem.h"

void
name_list_add(struct name_list *list, const char *name)
{
	if (list->count == list->room) {
		list->room = list->room == 0 ? 16 : 2 * list->room;
		list->all = mem_grow(list->all, list->room, sizeof(*list->all));
	}
	list->all[list->count++] = mem_strdup(name);
}

void
name_list_done(struct name_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->all[i]);
	free(list->all);
	*list = (struct name_list){0};
}
