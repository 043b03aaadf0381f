/* Words and numbers in, lines out. */
#include "mi_agent_text.h"

#include "mi_driver.h"

enum { STDOUT = 1, LONGEST = 256 };

agent_words agent_read(const char *path, const char *magic) {
    int64_t bytes = -1;
    char *text = driver_map_file(path, 0, &bytes);
    agent_words words = {text, text + bytes};
    if (!driver_same(agent_word(&words), magic)) {
        driver_die(path, ": is no request that this program knows", NULL);
    }
    return words;
}

static int blank(char c) {
    return c == ' ' || c == '\n';
}

const char *agent_word(agent_words *words) {
    while (words->at < words->end && blank(*words->at)) {
        words->at++;
    }
    char *begin = words->at;
    while (words->at < words->end && !blank(*words->at)) {
        words->at++;
    }
    if (begin == words->end || words->at == words->end) {
        driver_die("the request ends too early", NULL);
    }
    *words->at++ = 0;
    return begin;
}

int64_t agent_number(agent_words *words) {
    const char *text = agent_word(words);
    int64_t sign = *text == '-' ? -1 : 1, value = 0;
    for (text += *text == '-'; *text != 0; text++) {
        if (*text < '0' || *text > '9') {
            driver_die("the request has no number where one is due: ", text, NULL);
        }
        value = value * 10 + (*text - '0');
    }
    return sign * value;
}

int64_t *agent_numbers(agent_words *words, int64_t count) {
    int64_t *made = driver_memory(count * (int64_t)sizeof *made);
    for (int64_t i = 0; i < count; i++) {
        made[i] = agent_number(words);
    }
    return made;
}

typedef struct {
    char text[LONGEST];
    int64_t length;
} line;

static void add(line *l, const char *text) {
    while (*text != 0 && l->length < LONGEST) {
        l->text[l->length++] = *text++;
    }
}

static void add_number(line *l, int64_t value, int digits) {
    char text[24];
    int at = 23;
    text[at] = 0;
    if (value < 0) {
        add(l, "-");
        value = -value;
    }
    for (; value > 0 || digits > 0; digits--) {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    }
    add(l, text + at);
}

/* To the picosecond. */
static void add_seconds(line *l, double seconds) {
    const int64_t unit = 1000000000000;
    int64_t picoseconds = (int64_t)(seconds * (double)unit + 0.5);
    add_number(l, picoseconds / unit, 1);
    add(l, ".");
    add_number(l, picoseconds % unit, 12);
}

static void say(line *l) {
    add(l, "}\n");
    driver_write(STDOUT, l->text, l->length);
}

static line begin_at(int64_t key) {
    line l = {.length = 0};
    add(&l, "{\"at\": ");
    add_number(&l, key, 1);
    return l;
}

void agent_say_at(int64_t key, int64_t patience) {
    driver_alarm(patience);
    line l = begin_at(key);
    say(&l);
}

void agent_say_time(int64_t key, double seconds, const char *name, double value) {
    line l = begin_at(key);
    add(&l, ", \"seconds\": ");
    add_seconds(&l, seconds);
    add(&l, ", \"");
    add(&l, name);
    add(&l, "\": ");
    add_seconds(&l, value);
    say(&l);
}

void agent_say_done(void) {
    line l = {.length = 0};
    add(&l, "{\"done\": true");
    say(&l);
}

void agent_say_round(int64_t point, int64_t whole, const int64_t *commands, int64_t count) {
    line l = {.length = 0};
    add(&l, "{\"point\": ");
    add_number(&l, point, 1);
    add(&l, ", \"whole\": ");
    add_number(&l, whole, 1);
    add(&l, ", \"commands\": [");
    for (int64_t i = 0; i < count; i++) {
        add(&l, i > 0 ? ", " : "");
        add_number(&l, commands[i], 1);
        if (l.length > LONGEST / 2) {
            driver_write(STDOUT, l.text, l.length);
            l.length = 0;
        }
    }
    add(&l, "]");
    say(&l);
}

double agent_quantile(double *values, int64_t count, double share) {
    for (int64_t i = 1; i < count; i++) {
        double value = values[i];
        int64_t k = i;
        for (; k > 0 && values[k - 1] > value; k--) {
            values[k] = values[k - 1];
        }
        values[k] = value;
    }
    double place = share * (double)(count - 1);
    int64_t low = (int64_t)place;
    double rest = place - (double)low;
    return low + 1 < count ? values[low] + rest * (values[low + 1] - values[low]) : values[low];
}
