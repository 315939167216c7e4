/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.c - what happens to the fabric, told to whoever has subscribed, and to files.
 */
#include "apps/daemon/client.h"

void daemon_subscribe(struct daemon *daemon, struct client *client, struct json_object *request)
{
    if (!json_object_object_get_ex(request, "telemetry", NULL))
        daemon_send(daemon, client, conn_ok());
    else if (!telemetry_serve_subscribe(daemon, client, request))
        return;
    client->subscribed = true;
}

static void write_event(struct daemon *daemon, struct json_object *event)
{
    size_t bytes;
    const char *text =
        json_object_to_json_string_length(event,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE,
                                          &bytes);

    if (!text)
        return;
    lines_put(&daemon->events, text, bytes);
    lines_put(&daemon->snapshots, text, bytes);
}

static bool has_file(const struct daemon *daemon)
{
    return daemon->events.fd >= 0 || daemon->snapshots.fd >= 0;
}

void daemon_notify_owner(struct daemon *daemon, struct json_object *event)
{
    if (daemon->owner)
        daemon_send(daemon, daemon->owner, event);
    else
        json_object_put(event);
}

void daemon_publish(struct daemon *daemon, struct json_object *event)
{
    if (has_file(daemon))
        write_event(daemon, event);
    timeline_serve_event(daemon, event);
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->subscribed && !client->gone)
            daemon_send(daemon, client, json_object_get(event));
    json_object_put(event);
}

struct json_object *daemon_event(const struct daemon *daemon, const char *what, uint64_t at_ps)
{
    struct json_object *event = conn_event(what);
    double s = (double)(at_ps - daemon->began_ps) * 1e-12;

    json_object_object_add(event, "s", json_object_new_double(s));
    return event;
}

bool daemon_has_subscribers(const struct daemon *daemon)
{
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->subscribed && !client->gone)
            return true;
    return has_file(daemon) || daemon->timeline;
}
