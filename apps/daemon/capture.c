/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.c - captures of a running fabric. A client of the control socket can start a capture; it
 * then gets the capture rings, and reads them itself. With --capture the daemon starts a capture at
 * its own start.
 */
#include <errno.h>
#include <string.h>

#include "apps/capture/capture.h"
#include "apps/capture/filter.h"
#include "apps/daemon/client.h"
#include "apps/base/message.h"

static void refuse(struct daemon *daemon, struct client *client, int err)
{
    if (client->remote) /* file descriptors cannot be sent to another host */
        daemon_reply_error(daemon, client, err,
                           "only cables of host %s, the coordinator, can be captured: run "
                           "\"fabemu capture\" there",
                           daemon->config->hosts->name[0]);
    else if (err == -EBUSY)
        daemon_reply_error(
            daemon, client, err,
            "another client is capturing already; only one capture can run at a time");
    else if (err == -ENODEV)
        daemon_reply_error(daemon, client, err,
                           "none of the cables that the filter selects ends on this host");
    else
        daemon_reply_error(daemon, client, err, "cannot capture: %s", strerror(-err));
}

void daemon_capture(struct daemon *daemon, struct client *client, struct json_object *request)
{
    const struct topo_graph *graph = daemon->graph;
    int64_t snap = emu_json_number(request, "snaplen", CAPTURE_SNAP_MOST);
    char error[CAPTURE_ERROR_BYTES];
    struct capture_filter filter;
    int memfd, err;

    if (client->remote) {
        refuse(daemon, client, -ENOTSUP);
        return;
    }
    if (snap < 0 || snap > CAPTURE_SNAP_MOST)
        snap = CAPTURE_SNAP_MOST;
    err = capture_filter_read(&filter, emu_json_text(request, "filter", ""), (uint32_t)snap,
                              daemon->fabric, graph, error, sizeof error);
    if (err) {
        daemon_reply_error(daemon, client, err, "%s", error);
        return;
    }
    err = fabric_capture_start(daemon->fabric,
                               &(struct fabric_capture){.directions_of = filter.directions_of,
                                                        .filter = filter.tap},
                               &memfd);
    capture_filter_release(&filter);
    if (err) {
        refuse(daemon, client, err);
        return;
    }
    client->captures = true;
    daemon_send_with(daemon, client, conn_ok(), (const int[EMU_JSON_FDS]){memfd, -1, -1});
}

void daemon_capture_left(struct daemon *daemon, struct client *client)
{
    if (client->captures)
        fabric_capture_stop(daemon->fabric);
    client->captures = false;
}

void daemon_capture_stop(struct daemon *daemon, struct client *client, struct json_object *request)
{
    (void)request;
    if (!client->captures) {
        daemon_reply_error(daemon, client, -ENOENT, "this connection has not started a capture");
        return;
    }
    daemon_capture_left(daemon, client);
    daemon_send(daemon, client, conn_ok());
}

int daemon_capture_open(struct daemon *daemon, char *error, size_t error_bytes)
{
    const struct capture_plan *plan = daemon->config->capture;

    if (!plan || !plan->files)
        return 0;
    if (daemon->config->hosts)
        print_message("the capture contains only the cables of this host");
    return capture_begin(&daemon->capture, daemon->fabric, daemon->graph, plan, error, error_bytes);
}

void daemon_capture_close(struct daemon *daemon)
{
    if (capture_end(daemon->capture, daemon->fabric))
        daemon->unwritten = true;
    daemon->capture = NULL;
}
