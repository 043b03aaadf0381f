/* Words and numbers in, lines out: what the measuring programs speak with the search. */
#ifndef MI_AGENT_TEXT_H
#define MI_AGENT_TEXT_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A request as text: words apart by blanks or line ends. */
typedef struct {
    char *at, *end;
} agent_words;

/* The words of a file, the first of which must be `magic`. Dies when it is not. */
agent_words agent_read(const char *path, const char *magic);

/* The next word, and the next as a decimal number. Both die at the end of the request. */
const char *agent_word(agent_words *words);
int64_t agent_number(agent_words *words);
int64_t *agent_numbers(agent_words *words, int64_t count);

/* Print {"at": key}, so that the search knows what runs, and set the alarm to `patience` nanoseconds. */
void agent_say_at(int64_t key, int64_t patience);

/* Print {"at": key, "seconds": ..., "NAME": ...}; times in seconds. */
void agent_say_time(int64_t key, double seconds, const char *name, double value);
void agent_say_done(void);

/* Print {"point": point, "whole": whole, "commands": [...]}; times in nanoseconds. */
void agent_say_round(int64_t point, int64_t whole, const int64_t *commands, int64_t count);

/* The value below which `share` of the values lie, linear between neighbours as numpy.percentile has it; sorts them. */
double agent_quantile(double *values, int64_t count, double share);

#pragma GCC visibility pop

#endif
