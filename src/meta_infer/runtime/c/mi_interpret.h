/* Running the commands of a session, from mi_runtime.c. */
#ifndef MI_INTERPRET_H
#define MI_INTERPRET_H

#include "mi_session.h"

/* One run: what the interpreter carries along. */
typedef struct {
    mi_session *s;
    const mi_tensor *inputs, *outputs;
    const mi_run_options *options;          /* NULL: no threads asked for, nothing measured or watched */
    int32_t threads;
    mi_error *error;
} mi_run;

#pragma GCC visibility push(hidden)

/* Run every command once; sizes and addresses are those of the run's inputs by now. */
int32_t mi_interpret(mi_run *r);

/* Make the calls that fill what the plan wants prepared. */
int32_t mi_prepare(mi_session *s, mi_error *error);

#pragma GCC visibility pop

#endif
