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

/* False: not all of it could be written. */
static bool write_all(int fd, const char *at, size_t bytes)
{
    while (bytes) {
        ssize_t wrote = write(fd, at, bytes);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        bytes -= (size_t)wrote;
    }
    return true;
}

/* All of it, or the file gets no more: a line in parts is none. */
void daemon_write_line(int *fd, const char *what, const char *line, size_t bytes)
{
    if (*fd < 0 || (write_all(*fd, line, bytes) && write_all(*fd, "\n", 1)))
        return;
    say("%s are no longer written: %s", what, strerror(errno));
    *fd = -1;
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
    daemon_write_line(&daemon->events_fd, "events", text, bytes);
    daemon_write_line(&daemon->record_fd, "snapshots", text, bytes);
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
    if (daemon->events_fd >= 0 || daemon->record_fd >= 0)
        write_event(daemon, event);
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
    return daemon->events_fd >= 0 || daemon->record_fd >= 0;
}
