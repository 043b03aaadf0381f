/* Messages without printf, so that the runtime needs no locale and no stdio. */
#include "mi_error.h"

#include <stdarg.h>

typedef struct {
    mi_error *error;
    size_t used;
} writer;

static void put(writer *out, char c) {
    if (out->used + 1 < sizeof out->error->text) {
        out->error->text[out->used++] = c;
    }
}

static void put_text(writer *out, const char *text) {
    for (; *text != '\0'; text++) {
        put(out, *text);
    }
}

static void put_number(writer *out, int64_t value) {
    char digits[20];
    int count = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0) {
        put(out, '-');
    }
    while (count > 0) {
        put(out, digits[--count]);
    }
}

int32_t mi_fail(mi_error *error, int32_t code, const char *format, ...) {
    if (error == NULL) {
        return code;
    }
    writer out = {error, 0};
    va_list arguments;
    va_start(arguments, format);
    for (const char *c = format; *c != '\0'; c++) {
        if (*c != '%') {
            put(&out, *c);
            continue;
        }
        c++;
        if (*c == 's') {
            put_text(&out, va_arg(arguments, const char *));
        } else if (*c == 'd') {
            put_number(&out, va_arg(arguments, int64_t));
        } else {
            put(&out, *c);
        }
    }
    va_end(arguments);
    error->code = code;
    error->text[out.used] = '\0';
    return code;
}
