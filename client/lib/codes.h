/*
 * The codes of the library in words: a word for programs, and a sentence for people. Owns nothing.
 */
#ifndef CLIENT_LIB_CODES_H
#define CLIENT_LIB_CODES_H

/* The default text of lb_message(). Static, never NULL. The words are declared in lockbroker.h. */
const char *code_sentence(int code);

#endif
