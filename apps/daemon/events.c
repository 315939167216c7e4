/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.c - what happens to the fabric, told to whoever has subscribed, and to a file.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "apps/daemon/client.h"
#include "apps/say.h"

void daemon_subscribe(struct daemon *daemon, struct client *client, struct json_object *request)
{
    if (!json_object_object_get_ex(request, "telemetry", NULL))
        daemon_send(daemon, client, conn_ok());
    else if (!telemetry_serve_subscribe(daemon, client, request))
        return;
    client->subscribed = true;
}

/* All of it, or the file gets no more: a line in parts is none. */
static void file_line(struct daemon *daemon, struct json_object *event)
{
    const char *text = json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN |
                                                                 JSON_C_TO_STRING_NOSLASHESCAPE);
    size_t bytes = strlen(text);
    char *line = malloc(bytes + 1);
    size_t done = 0;
    ssize_t wrote = 1;

    if (!line)
        return;
    memcpy(line, text, bytes);
    line[bytes++] = '\n';
    while (done < bytes && wrote > 0) {
        wrote = write(daemon->events_fd, line + done, bytes - done);
        if (wrote < 0 && errno == EINTR)
            wrote = 1;
        else
            done += wrote > 0 ? (size_t)wrote : 0;
    }
    free(line);
    if (done == bytes)
        return;
    say("events are no longer written: %s", strerror(wrote < 0 ? errno : EIO));
    daemon->events_fd = -1;
}

void daemon_tell_owner(struct daemon *daemon, struct json_object *event)
{
    if (daemon->owner)
        daemon_send(daemon, daemon->owner, event);
    else
        json_object_put(event);
}

void daemon_tell_all(struct daemon *daemon, struct json_object *event)
{
    if (daemon->events_fd >= 0)
        file_line(daemon, event);
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->subscribed && !client->gone)
            daemon_send(daemon, client, json_object_get(event));
    json_object_put(event);
}

bool daemon_is_heard(const struct daemon *daemon)
{
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->subscribed && !client->gone)
            return true;
    return daemon->events_fd >= 0;
}
