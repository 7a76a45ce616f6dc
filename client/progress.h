/*
 * The line on a terminal that says how the waiting for the holders of removed slots stands, and is written
 * over as that changes. Where stderr is no terminal there is none.
 */
#ifndef CLIENT_PROGRESS_H
#define CLIENT_PROGRESS_H

#include "client/lockbroker.h"

/*
 * From here on what the daemon tells of it while a call blocks is shown. Only one handle at a time; name is
 * borrowed until progress_end(), which takes the line away.
 */
void progress_begin(struct lb *lb, const char *name);
void progress_end(struct lb *lb);
/* Whether it is worth asking for. */
int progress_wanted(void);

#endif
