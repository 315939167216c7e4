/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.c - one request, one reply.
 */
#include "apps/control/ask.h"

#include <errno.h>
#include <string.h>

#include "apps/control/conn.h"
#include "apps/control/paths.h"
#include "apps/base/say.h"

#define ANSWER_MS 5000 /* for a fabric to answer */

struct json_object *ask_request(const char *command)
{
    return json_add_text(json_object_new_object(), "cmd", command);
}

int ask_check(const char *name, struct json_object *object, const struct ask_field *fields,
              char *error, size_t error_bytes)
{
    struct json_object *value;

    for (; fields && fields->name; fields++)
        if (!json_object_object_get_ex(object, fields->name, &value) ||
            !json_object_is_type(value, fields->type))
            return fail(-EPROTO, error, error_bytes,
                        "fabric '%s': its reply has no field \"%s\" of type %s; use the fabemu "
                        "that started it",
                        name, fields->name, json_type_to_name(fields->type));
    return 0;
}

int ask_fabric(const char *name, struct json_object *request, const struct ask_field *fields,
               struct json_object **reply, pid_t *owner, char *error, size_t error_bytes)
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
        fail(0, error, error_bytes, "fabric '%s': %s", name,
             emu_json_text(*reply, "error", "it refuses without giving a reason"));
        json_object_put(*reply);
        return -EPROTO;
    }
    err = ask_check(name, *reply, fields, error, error_bytes);
    if (err)
        json_object_put(*reply);
    return err;
}
