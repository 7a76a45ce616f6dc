/* The parameters of a call, as JSON, for methods that are about one name or one waiter. Owns nothing. */
#ifndef CLIENT_JSON_PARAMS_H
#define CLIENT_JSON_PARAMS_H

/* A name or an id, each byte escaped, and what goes with it. */
#define JSON_PARAMS_SIZE 512

/* {"MEMBER":"VALUE" and more}; value: at most 200 bytes. What is no UTF-8 in it the library refuses. */
void json_params(
    char ret[JSON_PARAMS_SIZE], const char *member, const char *value, const char *more);

#endif
