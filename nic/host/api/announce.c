/* SPDX-License-Identifier: BSD-3-Clause */
/* announce.c - queues that other processes of the host can find by their numbers */
#include "nic/host/api/announce.h"

#include <errno.h>
#include <json-c/json.h>

#include "emu/util/json.h"
#include "nic/host/api/open.h"
#include "nic/host/base/base.h"
#include "nic/host/control/control.h"
#include "nic/host/rx/queue.h"

/* Send the request @cmd about queue @id, and wait for the reply. Errors: nic_control_request(). */
static int queue_request(struct fabemu *fab, const char *cmd, uint32_t id,
                         struct json_object **reply)
{
    struct json_object *request = json_object_new_object();

    json_object_object_add(request, "cmd", json_object_new_string(cmd));
    json_object_object_add(request, "queue", json_object_new_int((int32_t)id));
    return nic_control_request(fab->control, request, reply);
}

int fabemu_queue_announce(struct fabemu_queue *queue)
{
    struct json_object *reply = NULL;
    int err;

    if (nic_is_defunct(queue->fab))
        return nic_fail_defunct();
    if (queue->id > UINT16_MAX)
        return -EINVAL;
    err = queue_request(queue->fab, "queue_announce", queue->id, &reply);
    if (err)
        return err;
    json_object_put(reply);
    queue->announced = true;
    return 0;
}

void nic_queue_withdraw(struct fabemu_queue *queue)
{
    struct json_object *reply = NULL;

    if (!queue->announced)
        return;
    queue->announced = false;
    if (queue_request(queue->fab, "queue_withdraw", queue->id, &reply) == 0)
        json_object_put(reply);
}

int fabemu_queue_find(struct fabemu *fab, uint16_t id, uint32_t *node, uint64_t *incarnation)
{
    struct json_object *reply = NULL;
    int64_t at, number;
    int err;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    err = queue_request(fab, "queue_find", id, &reply);
    if (err)
        return err;
    at = emu_json_number(reply, "node", -1);
    number = emu_json_number(reply, "incarnation", 0);
    json_object_put(reply);
    if (at < 0 || at >= fab->info.nodes || number <= 0)
        return nic_fail(-EPROTO, "the fabric's reply does not name a process of this fabric");
    *node = (uint32_t)at;
    *incarnation = (uint64_t)number;
    return 0;
}
