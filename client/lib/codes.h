/* The codes of the library in words: a word for programs and a sentence for people. Owns nothing. */
#ifndef CLIENT_LIB_CODES_H
#define CLIENT_LIB_CODES_H

/* What lb_message() says when nothing more is known. Static, never NULL. lockbroker.h has the words. */
const char *code_sentence(int code);

#endif
