/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.c - one request, one reply.
 */
#include "apps/run/ask.h"

#include <errno.h>
#include <string.h>

#include "apps/daemon/conn.h"
#include "apps/run/paths.h"
#include "apps/cli/say.h"

#define ANSWER_MS 5000 /* for a fabric to answer */

struct json_object *ask_request(const char *command)
{
    return json_add_text(json_object_new_object(), "cmd", command);
}

int ask_fabric(const char *name, struct json_object *request, struct json_object **reply,
               pid_t *owner, char *error, size_t error_bytes)
{
    struct conn conn;
    int fd;
    int err = paths_connect(&fd, owner, name, error, error_bytes);

    if (err) {
        json_object_put(request);
        return err;
    }
    conn_open(&conn, fd, CONN_REPLY_MAX);
    err = conn_ask(&conn, request, reply, ANSWER_MS);
    conn_close(&conn);
    if (err)
        return fail(err, error, error_bytes, "fabric '%s' does not answer (%s)", name,
                    strerror(-err));
    if (!emu_json_true(*reply, "ok")) {
        fail(0, error, error_bytes, "fabric '%s': %s", name, emu_json_text(*reply, "error", "?"));
        json_object_put(*reply);
        return -EPROTO;
    }
    return 0;
}
