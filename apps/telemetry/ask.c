/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.c - a view of a running fabric, of one moment.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "apps/control/conn.h"
#include "apps/control/ask.h"
#include "apps/control/paths.h"
#include "apps/base/say.h"
#include "apps/telemetry/wish.h"
#include "apps/telemetry/view.h"
#include "emu/now.h"

#define ANSWER_MS 5000 /* for a fabric to answer */

/* @error: what the fabric has said of it, if that is why; else "". */
static int take_until_whole(struct telemetry_view *view, struct conn *conn, char *error,
                            size_t error_bytes)
{
    int64_t end_ms = emu_now_ms() + ANSWER_MS, left_ms;
    struct json_object *line;
    int err = 0;

    while (!err && !view->look) {
        left_ms = end_ms - emu_now_ms();
        err = left_ms > 0 ? conn_wait(conn, &line, (int)left_ms) : -ETIMEDOUT;
        if (err)
            break;
        err = telemetry_view_take(view, line);
        err = err < 0 ? err : 0;
        if (err)
            snprintf(error, error_bytes, "%s", emu_json_text(line, "error", ""));
        json_object_put(line);
    }
    return err;
}

int telemetry_view_read(struct telemetry_view *view, const char *name, char *error,
                        size_t error_bytes)
{
    struct json_object *request = ask_request("subscribe"), *reply = NULL;
    struct conn conn;
    int fd, err = paths_connect(&fd, NULL, name, error, error_bytes);

    json_add_number(request, "telemetry", TELEMETRY_EVERY_LEAST_MS);
    if (err) {
        json_object_put(request);
        return err;
    }
    *error = '\0';
    conn_open(&conn, fd, CONN_TELEMETRY_MAX);
    err = conn_ask(&conn, request, &reply, ANSWER_MS);
    if (!err && !emu_json_true(reply, "ok"))
        err = -EPROTO;
    json_object_put(reply);
    if (!err)
        err = take_until_whole(view, &conn, error, error_bytes);
    conn_close(&conn);
    if (err && !*error) /* nobody has said why */
        fail(err, error, error_bytes, "fabric '%s' does not tell its counters (%s)", name,
             strerror(-err));
    return err;
}
