/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm.h - connections of FI_EP_MSG endpoints. Unless a comment says otherwise, the caller holds the
 * lock of the channel's event queue (ofi_eq_lock()).
 */
#ifndef NIC_OFI_CM_H
#define NIC_OFI_CM_H

#include "nic/ofi/ep.h"

#define OFI_CM_DATA_BYTES 256 /* FI_OPT_CM_DATA_SIZE */
/* requests for connections that the program has neither accepted nor rejected */
#define OFI_REQUESTS_MAX 4096u

enum ofi_cm_state {
    CM_IDLE,
    CM_LISTENING,  /* the channel of a passive endpoint */
    CM_CONNECTING, /* a client that waits for the server's answer */
    CM_ACCEPTING,  /* a server that waits for the client's confirmation */
    CM_CONNECTED,
    CM_CLOSED
};

struct cm_op;

/* A channel; cm.c describes it. */
struct ofi_cm {
    struct fabemu *fab;
    struct fid *fid;   /* the endpoint or passive endpoint */
    struct fid_eq *eq; /* NULL: not bound yet */
    struct fabemu_queue *queue;
    struct ofi_cm *next; /* next in the list of the event queue */
    enum ofi_cm_state state;
    struct ofi_addr addr;   /* address of the endpoint */
    struct ofi_peer peer;   /* the endpoint's peer; does not change while `connected` is set */
    uint16_t peer_channel;  /* queue of the peer's channel */
    _Atomic bool connected; /* data may be sent; read without a lock */
    uint64_t breaks;        /* fabemu_breaks() of the peer's node when the connection began */
    int64_t began_ms;       /* when the attempt to connect began */
    int64_t probe_ms;       /* when the peer is checked next */
    struct cm_op *ops;      /* all messages in progress or not handled yet */
    pthread_mutex_t lock;   /* protects the two fields below; callbacks take it */
    /* messages that were sent or have arrived, and are not handled yet; oldest first */
    struct cm_op *done;
    struct cm_op **done_end; /* the end of that list */
};

/*
 * A client's request for a connection: fi_info.handle of an FI_CONNREQ event. It exists until it is
 * accepted or rejected or its passive endpoint closes, and longer if an endpoint still refers to
 * it. The fabric's list of all requests shows whether the request of a handle still exists. The
 * fields from refs to next are protected by fabric->request_lock.
 */
struct ofi_request {
    struct fid fid;
    struct ofi_fabric *fabric;
    uint32_t refs;
    bool answered;            /* a thread accepts or rejects it, or has done so */
    struct ofi_pep *pep;      /* the passive endpoint, until the request is answered; then NULL */
    struct ofi_request *next; /* next in the list of the fabric */
    struct ofi_addr addr;     /* address of the client's endpoint */
    uint16_t channel;         /* queue of the client's channel */
};

/**
 * ofi_cm_open - open a channel at @queue, or at any queue if that is OFI_QUEUE_NONE. @cm was
 * zeroed, or closed by ofi_cm_close(). Lock: none.
 */
int ofi_cm_open(struct ofi_cm *cm, struct fabemu *fab, struct fid *fid, uint16_t queue);
/**
 * ofi_cm_start - add the channel to @eq, and receive messages. Lock: none.
 * @receives: number of receives to post. This many messages can arrive before the first is handled.
 * Errors: -FI_ENOMEM and those of fabemu_recv(); then the caller closes the channel.
 */
int ofi_cm_start(struct ofi_cm *cm, struct fid_eq *eq, unsigned receives);
/** ofi_cm_close - close the channel. The caller has removed it from its event queue. Lock: none. */
void ofi_cm_close(struct ofi_cm *cm);

/** ofi_cm_step - step the adapter, handle arrived messages, and check the time limits. */
void ofi_cm_step(struct ofi_cm *cm);

/** ofi_cm_data_check - check data for the peer of a connection. Pure. Errors: -FI_EINVAL. */
int ofi_cm_data_check(const void *data, size_t bytes);
/**
 * ofi_cm_connect, ofi_cm_accept, ofi_cm_reject, ofi_cm_shutdown - send the message for this step of
 * a connection.
 * @own: address of the endpoint. Errors: -FI_EOPBADSTATE, -FI_EINVAL (too much data), -FI_ENOTCONN,
 * and those of fabemu_send().
 */
int ofi_cm_connect(struct ofi_cm *cm, const struct ofi_addr *own, const struct ofi_addr *server,
                   const void *data, size_t bytes);
int ofi_cm_accept(struct ofi_cm *cm, const struct ofi_addr *own, const struct ofi_request *request,
                  const void *data, size_t bytes);
int ofi_cm_reject(struct ofi_cm *cm, const struct ofi_addr *own, const struct ofi_request *request,
                  const void *data, size_t bytes);
int ofi_cm_shutdown(struct ofi_cm *cm);
/**
 * ofi_cm_refuse - let the channel accept no more messages, and refuse each message that has arrived
 * and was not handled. The caller has removed the channel from its event queue. @own: as above.
 * Lock: none.
 * ofi_cm_drain - wait for the last messages that are being sent, for at most a second. Lock: none.
 */
void ofi_cm_refuse(struct ofi_cm *cm, const struct ofi_addr *own);
int ofi_cm_drain(struct ofi_cm *cm);

/** ofi_cm_peer - get the peer of a connected endpoint. Lock: none. Errors: -FI_ENOTCONN. */
static inline int ofi_cm_peer(const struct ofi_cm *cm, struct ofi_peer *ret)
{
    if (!atomic_load_explicit(&cm->connected, memory_order_acquire)) /* O4 pairs with O5 in cm.c */
        return -FI_ENOTCONN;
    *ret = cm->peer;
    return 0;
}

/* eq.c: the channels of an event queue, and their lock */
void ofi_eq_lock(struct fid_eq *eq);
void ofi_eq_unlock(struct fid_eq *eq);
void ofi_eq_add(struct fid_eq *eq, struct ofi_cm *cm);
/** ofi_eq_remove - remove the channel from its event queue, if it has one. Lock: none. */
void ofi_eq_remove(struct ofi_cm *cm);

/* pep.c */
int ofi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                 void *context);
/** ofi_pep_request - report a client's request for a connection to the passive endpoint of @cm. */
void ofi_pep_request(struct ofi_cm *cm, const struct ofi_addr *client, uint16_t channel,
                     const void *data, size_t bytes);

/**
 * ofi_request_hold - find a request by its handle, and add a reference. NULL: there is no such
 * request.
 * ofi_request_release - drop a reference.
 */
struct ofi_request *ofi_request_hold(struct ofi_fabric *fabric, const struct fid *handle);
void ofi_request_release(struct ofi_request *request);
/**
 * ofi_request_answer - begin to accept or reject the request. @pep: NULL, or the passive endpoint
 * that the request must have. Returns false if the request has another passive endpoint, or was
 * answered before.
 * ofi_request_answered - end the answer. @sent: the answer was sent; if not, another answer may be
 * tried.
 */
bool ofi_request_answer(struct ofi_request *request, const struct ofi_pep *pep);
void ofi_request_answered(struct ofi_request *request, bool sent);

#endif
