/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm.c - connections of FI_EP_MSG endpoints: connect, accept, reject, shut down.
 *
 * Each FI_EP_MSG endpoint, and each passive endpoint, has a *channel*: a separate queue for
 * messages about connections. A client sends CM_CONNECT to the channel of a passive endpoint. The
 * server answers CM_ACCEPT, with the address of the endpoint that it uses, or CM_REJECT. The client
 * confirms CM_ACCEPT by CM_CONFIRM. CM_SHUTDOWN ends a connection, or an attempt that the server
 * has accepted. If a channel has closed, the send of a CM_CONNECT or CM_ACCEPT to it fails, which
 * ends the attempt to connect. When a channel closes, it answers CM_REJECT to each CM_CONNECT that
 * has arrived, and CM_SHUTDOWN to each CM_ACCEPT. The messages come from other processes, so the
 * receiver checks each field.
 *
 * A callback of the adapter only appends a message to the list of its channel. The threads that
 * read the event queue handle the list (ofi_cm_step()), because a callback must not call the
 * adapter.
 */
#include "nic/ofi/cm.h"

#include <stdlib.h>
#include <string.h>

#define CM_PROBE_MS 1000 /* interval between checks of the peer; limit of ofi_cm_drain() */

enum cm_kind { CM_CONNECT = 1, CM_ACCEPT, CM_CONFIRM, CM_REJECT, CM_SHUTDOWN, CM_KINDS };

struct cm_message {
    uint32_t kind;        /* enum cm_kind */
    uint16_t channel;     /* queue of the sender's channel */
    uint16_t bytes;       /* bytes of data */
    struct ofi_addr addr; /* address of the sender's endpoint */
    uint8_t data[OFI_CM_DATA_BYTES];
};
#define CM_HEAD_BYTES offsetof(struct cm_message, data)

/*
 * Return whether the send of such a message completes only when the peer receives it. If the peer's
 * channel has closed, this send fails.
 */
static bool cm_awaits_receipt(enum cm_kind kind)
{
    return kind == CM_CONNECT || kind == CM_ACCEPT;
}

struct cm_op {
    struct fabemu_req req;
    struct ofi_cm *cm;
    struct cm_op *next;      /* next in cm->ops */
    struct cm_op *next_done; /* next in cm->done */
    bool sent;
    struct cm_message message;
};

/* --- channels ----------------------------------------------------------------------- */

/* Callback of the adapter. The channel's lock is never held during a call of the adapter. */
static void cm_done(struct fabemu_req *req)
{
    struct cm_op *op = container_of(req, struct cm_op, req);
    struct ofi_cm *cm = op->cm;

    op->next_done = NULL;
    pthread_mutex_lock(&cm->lock);
    *cm->done_end = op;
    cm->done_end = &op->next_done;
    pthread_mutex_unlock(&cm->lock);
    if (cm->eq)
        ofi_source_wake(ofi_eq_source(&cm->eq->fid));
}

static struct cm_op *op_add(struct ofi_cm *cm, bool sent)
{
    struct cm_op *op = calloc(1, sizeof *op);

    if (!op)
        return NULL;
    op->cm = cm;
    op->sent = sent;
    op->req.done = cm_done;
    op->next = cm->ops;
    cm->ops = op;
    return op;
}

static void op_remove(struct cm_op *op)
{
    struct cm_op **at = &op->cm->ops;

    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    free(op);
}

static int op_receive(struct cm_op *op)
{
    const struct fabemu_iov iov = {.base = &op->message, .bytes = sizeof op->message};

    return fabemu_recv(op->cm->queue, FABEMU_ANY_NODE, 0, 0, &iov, 1, &op->req);
}

/* Send a message to the channel @queue of @peer. Errors: -FI_ENOMEM, or those of fabemu_send(). */
static int cm_send(struct ofi_cm *cm, enum cm_kind kind, const struct ofi_addr *addr,
                   const struct ofi_peer *peer, uint16_t queue, const void *data, size_t bytes)
{
    const struct fabemu_dest dest = {.node = peer->node,
                                     .queue = queue,
                                     .incarnation = peer->incarnation,
                                     .matched = cm_awaits_receipt(kind)};
    struct fabemu_iov iov = {.bytes = CM_HEAD_BYTES + bytes};
    struct cm_op *op = op_add(cm, true);
    int err;

    if (!op)
        return -FI_ENOMEM;
    op->message = (struct cm_message){.kind = kind,
                                      .channel = fabemu_queue_id(cm->queue),
                                      .bytes = (uint16_t)bytes,
                                      .addr = *addr};
    if (bytes)
        memcpy(op->message.data, data, bytes);
    iov.base = &op->message;
    err = fabemu_send(cm->queue, &dest, &iov, 1, &op->req);
    if (err)
        op_remove(op);
    return err ? -ofi_errno(err) : 0;
}

int ofi_cm_data_check(const void *data, size_t bytes)
{
    return bytes > OFI_CM_DATA_BYTES || (bytes && !data) ? -FI_EINVAL : 0;
}

int ofi_cm_open(struct ofi_cm *cm, struct fabemu *fab, struct fid *fid, uint16_t queue)
{
    int err = queue == OFI_QUEUE_NONE ? fabemu_queue_open_any(fab, 1, &cm->queue)
                                      : fabemu_queue_open(fab, queue, &cm->queue);

    if (err)
        return -ofi_errno(err);
    cm->fab = fab;
    cm->fid = fid;
    pthread_mutex_init(&cm->lock, NULL);
    cm->done_end = &cm->done;
    return 0;
}

int ofi_cm_start(struct ofi_cm *cm, struct fid_eq *eq, unsigned receives)
{
    int err = 0;

    ofi_eq_add(eq, cm);
    ofi_eq_lock(eq);
    for (unsigned i = 0; i < receives && !err; i++) {
        struct cm_op *op = op_add(cm, false);

        err = op ? op_receive(op) : -ENOMEM;
    }
    ofi_eq_unlock(eq);
    if (err)
        ofi_eq_remove(cm);
    return err ? -ofi_errno(err) : 0;
}

void ofi_cm_close(struct ofi_cm *cm)
{
    if (!cm->queue)
        return;
    /* each callback appends to the list of completed messages, so free nothing before the last
       callback */
    for (struct cm_op *op = cm->ops; op; op = op->next)
        fabemu_abort(cm->fab, &op->req);
    while (cm->ops) {
        struct cm_op *op = cm->ops;

        cm->ops = op->next;
        free(op);
    }
    cm->done = NULL; /* its operations are freed, and the channel may be opened again */
    fabemu_queue_close(cm->queue);
    cm->queue = NULL;
    pthread_mutex_destroy(&cm->lock);
}

/* --- events ------------------------------------------------------------------------- */

static void cm_report(struct ofi_cm *cm, uint32_t event, struct fi_info *info, const void *data,
                      size_t bytes)
{
    union {
        struct fi_eq_cm_entry entry;
        uint8_t bytes[sizeof(struct fi_eq_cm_entry) + OFI_CM_DATA_BYTES];
    } out = {.entry = {.fid = cm->fid, .info = info}};

    if (bytes)
        memcpy(out.entry.data, data, bytes);
    ofi_eq_report(cm->eq, event, &out, sizeof out.entry + bytes);
}

static void cm_report_error(struct ofi_cm *cm, int error, const void *data, size_t bytes)
{
    const struct fi_eq_err_entry entry = {.fid = cm->fid,
                                          .context = cm->fid->context,
                                          .err = error,
                                          .prov_errno = error,
                                          .err_data = (void *)data,
                                          .err_data_size = bytes};

    cm->state = CM_CLOSED;
    atomic_store_explicit(&cm->connected, false, memory_order_relaxed);
    ofi_eq_report_error(cm->eq, &entry);
}

/* Note that the endpoint is connected and may send data. O5 pairs with O4 in ofi_cm_peer(). */
static void cm_connected(struct ofi_cm *cm, const void *data, size_t bytes)
{
    cm->state = CM_CONNECTED;
    cm->breaks = fabemu_breaks(cm->fab, cm->peer.node);
    cm->probe_ms = ofi_clock_ms() + CM_PROBE_MS;
    atomic_store_explicit(&cm->connected, true, memory_order_release); /* O5 */
    cm_report(cm, FI_CONNECTED, NULL, data, bytes);
}

static void cm_disconnected(struct ofi_cm *cm)
{
    cm->state = CM_CLOSED;
    atomic_store_explicit(&cm->connected, false, memory_order_relaxed);
    cm_report(cm, FI_SHUTDOWN, NULL, NULL, 0);
}

/* --- messages that arrive ----------------------------------------------------------- */

static struct ofi_peer peer_of(const struct ofi_addr *addr)
{
    struct ofi_peer peer = {.node = addr->node, .incarnation = addr->incarnation};

    memcpy(peer.queue, addr->queue, sizeof peer.queue);
    return peer;
}

/* Return whether a message is well-formed, and its address names the process that has sent it. */
static bool message_is_valid(const struct cm_op *op)
{
    const struct cm_message *message = &op->message;

    return op->req.bytes >= CM_HEAD_BYTES && message->kind >= CM_CONNECT &&
           message->kind < CM_KINDS && message->bytes <= OFI_CM_DATA_BYTES &&
           op->req.bytes == CM_HEAD_BYTES + message->bytes &&
           message->addr.node == op->req.src_node &&
           message->addr.incarnation == op->req.src_incarnation;
}

static bool is_from_peer(const struct ofi_cm *cm, const struct cm_op *op)
{
    return op->req.src_node == cm->peer.node &&
           (!cm->peer.incarnation || op->req.src_incarnation == cm->peer.incarnation);
}

static void handle_accept(struct ofi_cm *cm, const struct cm_message *message)
{
    if (cm->state != CM_CONNECTING)
        return;
    cm->peer = peer_of(&message->addr);
    cm->peer_channel = message->channel;
    cm_connected(cm, message->data, message->bytes);
    cm_send(cm, CM_CONFIRM, &cm->addr, &cm->peer, cm->peer_channel, NULL, 0);
}

static void handle_message(struct ofi_cm *cm, const struct cm_op *op)
{
    const struct cm_message *message = &op->message;

    if (!message_is_valid(op))
        return;
    if (cm->state == CM_LISTENING) {
        if (message->kind == CM_CONNECT)
            ofi_pep_request(cm, &message->addr, message->channel, message->data, message->bytes);
        return;
    }
    if (!is_from_peer(cm, op))
        return;
    if (message->kind == CM_ACCEPT)
        handle_accept(cm, message);
    else if (message->kind == CM_REJECT && cm->state == CM_CONNECTING)
        cm_report_error(cm, FI_ECONNREFUSED, message->data, message->bytes);
    else if (message->kind == CM_CONFIRM && cm->state == CM_ACCEPTING)
        cm_connected(cm, NULL, 0);
    else if (message->kind == CM_SHUTDOWN && cm->state == CM_CONNECTED)
        cm_disconnected(cm);
    else if (message->kind == CM_SHUTDOWN &&
             (cm->state == CM_CONNECTING || cm->state == CM_ACCEPTING))
        cm_report_error(cm, FI_ECONNABORTED, NULL, 0);
}

/* Handle the end of a send. With -ECANCELED, the channel to which the message went has closed. */
static void handle_sent(struct ofi_cm *cm, const struct cm_op *op)
{
    int error = op->req.status ? ofi_errno(op->req.status) : 0;

    if (error && cm->state == CM_CONNECTING)
        cm_report_error(cm, error == FI_ECANCELED ? FI_ECONNREFUSED : error, NULL, 0);
    else if (error && cm->state == CM_ACCEPTING)
        cm_report_error(cm, error == FI_ECANCELED ? FI_ECONNABORTED : error, NULL, 0);
}

static struct cm_op *done_take(struct ofi_cm *cm)
{
    struct cm_op *op;

    pthread_mutex_lock(&cm->lock);
    op = cm->done;
    if (op)
        cm->done = op->next_done;
    if (!cm->done)
        cm->done_end = &cm->done;
    pthread_mutex_unlock(&cm->lock);
    return op;
}

/*
 * Find peers that do not answer. A process that dies sends no CM_SHUTDOWN, and a server may leave a
 * CM_CONNECT unanswered.
 */
static void cm_check_time(struct ofi_cm *cm)
{
    uint64_t silence_ms = fabemu_info(cm->fab)->bounds.silence_ms;
    int64_t now = ofi_clock_ms();

    if (cm->state == CM_CONNECTED && fabemu_breaks(cm->fab, cm->peer.node) != cm->breaks) {
        cm_disconnected(cm);
    } else if (cm->state == CM_ACCEPTING && fabemu_breaks(cm->fab, cm->peer.node) != cm->breaks) {
        cm_report_error(cm, FI_ECONNABORTED, NULL, 0);
    } else if ((cm->state == CM_CONNECTED || cm->state == CM_ACCEPTING) && now >= cm->probe_ms) {
        fabemu_ping(cm->fab, cm->peer.node);
        cm->probe_ms = now + CM_PROBE_MS;
    } else if ((cm->state == CM_CONNECTING || cm->state == CM_ACCEPTING) &&
               silence_ms != FABEMU_FOREVER && now - cm->began_ms >= (int64_t)silence_ms) {
        cm_report_error(cm, FI_ETIMEDOUT, NULL, 0);
    }
}

void ofi_cm_step(struct ofi_cm *cm)
{
    struct cm_op *op;

    fabemu_progress(cm->fab);
    while ((op = done_take(cm))) {
        if (op->sent)
            handle_sent(cm, op);
        else if (!op->req.status)
            handle_message(cm, op);
        if (op->sent || op_receive(op))
            op_remove(op);
    }
    cm_check_time(cm);
}

/* --- calls -------------------------------------------------------------------------- */

int ofi_cm_connect(struct ofi_cm *cm, const struct ofi_addr *own, const struct ofi_addr *server,
                   const void *data, size_t bytes)
{
    int err = ofi_cm_data_check(data, bytes);

    if (err)
        return err;
    if (cm->state != CM_IDLE)
        return -FI_EOPBADSTATE;
    cm->addr = *own;
    cm->peer = peer_of(server);
    cm->began_ms = ofi_clock_ms();
    err = cm_send(cm, CM_CONNECT, own, &cm->peer, server->queue[OFI_UNTAGGED], data, bytes);
    if (!err)
        cm->state = CM_CONNECTING;
    return err;
}

int ofi_cm_accept(struct ofi_cm *cm, const struct ofi_addr *own, const struct ofi_request *request,
                  const void *data, size_t bytes)
{
    int err = ofi_cm_data_check(data, bytes);

    if (err)
        return err;
    if (cm->state != CM_IDLE)
        return -FI_EOPBADSTATE;
    cm->addr = *own;
    cm->peer = peer_of(&request->addr);
    cm->peer_channel = request->channel;
    cm->began_ms = ofi_clock_ms();
    cm->probe_ms = cm->began_ms + CM_PROBE_MS;
    cm->breaks = fabemu_breaks(cm->fab, cm->peer.node);
    err = cm_send(cm, CM_ACCEPT, own, &cm->peer, cm->peer_channel, data, bytes);
    if (!err)
        cm->state = CM_ACCEPTING;
    return err;
}

int ofi_cm_reject(struct ofi_cm *cm, const struct ofi_addr *own, const struct ofi_request *request,
                  const void *data, size_t bytes)
{
    const struct ofi_peer peer = peer_of(&request->addr);
    int err = ofi_cm_data_check(data, bytes);

    return err ? err : cm_send(cm, CM_REJECT, own, &peer, request->channel, data, bytes);
}

int ofi_cm_shutdown(struct ofi_cm *cm)
{
    if (cm->state != CM_CONNECTED)
        return -FI_ENOTCONN;
    cm_disconnected(cm); /* as with other providers, both endpoints get FI_SHUTDOWN */
    return cm_send(cm, CM_SHUTDOWN, &cm->addr, &cm->peer, cm->peer_channel, NULL, 0);
}

/* Answer a message to a channel that is being closed, so that its sender does not wait. */
static void cm_refuse(struct ofi_cm *cm, const struct cm_op *op, const struct ofi_addr *own)
{
    const struct cm_message *message = &op->message;
    const struct ofi_peer peer = peer_of(&message->addr);

    if (cm->state == CM_LISTENING && message->kind == CM_CONNECT)
        cm_send(cm, CM_REJECT, own, &peer, message->channel, NULL, 0);
    else if (cm->state == CM_CONNECTING && message->kind == CM_ACCEPT && is_from_peer(cm, op))
        cm_send(cm, CM_SHUTDOWN, own, &peer, message->channel, NULL, 0);
}

void ofi_cm_refuse(struct ofi_cm *cm, const struct ofi_addr *own)
{
    const struct cm_op *op;

    for (struct cm_op *at = cm->ops; at; at = at->next)
        if (!at->sent)
            fabemu_abort(cm->fab, &at->req);
    while ((op = done_take(cm)))
        if (!op->sent && !op->req.status && message_is_valid(op))
            cm_refuse(cm, op, own);
    /*
     * The peer may be connected already. So may this end, if a message arrived after
     * ofi_cm_shutdown().
     */
    if (cm->state == CM_ACCEPTING || cm->state == CM_CONNECTED)
        cm_send(cm, CM_SHUTDOWN, own, &cm->peer, cm->peer_channel, NULL, 0);
}

int ofi_cm_drain(struct ofi_cm *cm)
{
    struct ofi_wait wait = ofi_wait_begin(cm->fab, CM_PROBE_MS);

    for (struct cm_op *op = cm->ops; op; op = op->next)
        while (op->sent && !cm_awaits_receipt(op->message.kind) &&
               fabemu_req_status(&op->req) == FABEMU_PENDING)
            if (!ofi_wait_step(&wait))
                return -FI_ETIMEDOUT;
    return 0;
}
