/* SPDX-License-Identifier: BSD-3-Clause */
/* duo.c - see duo.h. */
#include "tests/world/hostlink/duo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/util/alloc.h"
#include "emu/util/now.h"
#include "emu/util/random.h"
#include "tests/world/bytes.h"
#include "tests/world/hostlink/lane.h"

#define DUO_NODES     1000u
#define DUO_FABRIC    815u
#define DUO_WIRE      16u /* emu_packet_hdr.wire of a segment with index 0; the others follow */
#define DUO_WINDOW    64u
#define DUO_SILENT_NS UINT64_C(20000000)

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "duo: %s\n", what);
    abort();
}

/* --- what an end sends -------------------------------------------------------------- */

static uint64_t entry_seed(const struct duo_end *end, uint32_t from, uint64_t number)
{
    return emu_mix(end->duo->seed ^ (uint64_t)from << 60 ^ (uint64_t)end->number << 40 ^ number);
}

/* What an adapter's own header says of its length: faults may have damaged it on the way. */
static uint8_t own_len(uint64_t seed, uint8_t len)
{
    return seed >> 32 & 31 ? len : (uint8_t)(seed >> 40);
}

/* A buffer for what @seed says, if it is to have one. False: the pool has none. */
static bool entry_buf(struct duo_end *end, uint64_t seed, struct emu_entry *entry, uint8_t *len)
{
    struct emu_pool_cache *cache = &end->dev.worker->cache;

    entry->buf = EMU_NO_BUF;
    *len = (uint8_t)(seed % 8 ? seed % (EMU_PAYLOAD_BYTES + 1) : 0);
    if (!*len)
        return true;
    entry->buf = emu_pool_take(cache);
    if (entry->buf == EMU_NO_BUF)
        return false;
    bytes_fill(emu_pool_bytes(cache->pool, entry->buf), *len, seed);
    *emu_pool_note(cache->pool, entry->buf) = (uint32_t)(seed >> 8);
    return true;
}

static void end_put(struct duo_end *end, struct emu_entry *entry)
{
    if (end->dev.timed)
        entry->time_ps = end->dev.worker->now_ps + 300000;
    emu_tx_send(&end->tx, entry);
    emu_tx_flush(&end->tx);
}

static bool end_send_plain(struct duo_end *end)
{
    uint64_t seed = entry_seed(end, end->host, end->sent);
    struct emu_entry entry = {.hdr = {.dst = (uint32_t)(seed % DUO_NODES),
                                      .src = end->number,
                                      .seq = (uint32_t)end->sent,
                                      .kind = EMU_UNICAST}};

    emu_tx_take_credits(&end->tx);
    if (!end->tx.credits || end->sent == end->limit ||
        !entry_buf(end, seed, &entry, &entry.hdr.len))
        return false;
    entry.born_ns = end->dev.timed ? (uint32_t)(end->dev.worker->now_ps / 1000) : (uint32_t)seed;
    end_put(end, &entry);
    end->sent++;
    return true;
}

static void end_take_channel_credits(struct duo_end *end)
{
    const struct emu_credit *back;

    while ((back = emu_credit_front(&end->tx.credit))) {
        if (back->channel < EMU_VCS &&
            end->vcs.used[back->channel] > end->vcs.promised[back->channel])
            emu_vcs_return(&end->vcs, back->channel);
        else
            end->wrong++;
        emu_credit_skip(&end->tx.credit);
    }
}

static bool end_send_reply(struct duo_end *end)
{
    uint32_t owed = end->owed[end->owed_at % DUO_HELD];
    struct emu_entry entry = {
        .packet = {.tag = owed >> 8, .kind = EMU_PACKET_ACK, .channel = (uint8_t)owed, .last = 1},
        .buf = EMU_NO_BUF};

    if (end->owed_at == end->owed_to || !emu_tx_has_slot(&end->tx))
        return false;
    end->owed_at++;
    end_put(end, &entry);
    return true;
}

/* The next segment on open channel @c. */
static bool end_send_segment(struct duo_end *end, uint32_t c)
{
    uint32_t tag = end->vcs.tag[c];
    uint64_t seed = entry_seed(end, end->host, (uint64_t)tag << 8 | end->index[c]);
    struct emu_pool *pool = end->dev.worker->cache.pool;
    struct emu_entry entry = {.packet = {.tag = tag,
                                         .kind = end->index[c] ? EMU_PACKET_CONT : EMU_PACKET_HEAD,
                                         .wire = (uint8_t)(DUO_WIRE + end->index[c]),
                                         .channel = (uint8_t)c,
                                         .last = end->left[c] == 1},
                              .crc = (uint32_t)seed};
    uint8_t len;

    if (!(emu_vcs_room(&end->vcs) >> c & 1) || !emu_tx_has_slot(&end->tx) ||
        !entry_buf(end, seed, &entry, &len))
        return false;
    if (entry.buf != EMU_NO_BUF)
        emu_pool_seg(pool, entry.buf)->hdr =
            (struct emu_hdr){.dst = (uint32_t)(seed >> 3), .seq = tag, .len = own_len(seed, len)};
    emu_vcs_spend(&end->vcs, c);
    end->index[c]++;
    end->left[c]--;
    end->sent++;
    end_put(end, &entry);
    return true;
}

static bool end_send_channels(struct duo_end *end)
{
    int c;

    end_take_channel_credits(end);
    if (end_send_reply(end))
        return true;
    for (uint32_t i = 0, first = (uint32_t)emu_splitmix(&end->random); i < EMU_VCS; i++)
        if (end->left[(first + i) % EMU_VCS] && end_send_segment(end, (first + i) % EMU_VCS))
            return true;
    if (end->sent >= end->limit)
        return false;
    c = emu_vcs_open(&end->vcs, end->packets);
    if (c < 0)
        return false;
    end->left[c] = (uint8_t)(1 + emu_splitmix(&end->random) % 4);
    end->index[c] = 0;
    end->packets++;
    return true;
}

/* --- what comes --------------------------------------------------------------------- */

/* Is the payload what @seed says? Of what is longer than its header says all is there by chance. */
static bool payload_is(struct duo_end *end, uint64_t seed, const struct emu_entry *entry,
                       uint8_t len)
{
    struct emu_pool *pool = end->dev.worker->cache.pool;
    uint8_t should = (uint8_t)(seed % 8 ? seed % (EMU_PAYLOAD_BYTES + 1) : 0);
    uint8_t says = should && end->channels ? own_len(seed, should) : should;
    uint8_t bytes[EMU_PAYLOAD_BYTES];

    if (len != says || (entry->buf == EMU_NO_BUF) != !should)
        return false;
    bytes_fill(bytes, should, seed);
    return !should ||
           !memcmp(bytes, emu_pool_bytes(pool, entry->buf), says < should ? says : should);
}

static void end_got_plain(struct duo_end *end, const struct emu_entry *entry)
{
    uint64_t seed = entry_seed(end, !end->host, entry->hdr.seq);

    if (entry->hdr.seq < end->next || entry->hdr.src != end->number ||
        entry->hdr.dst != seed % DUO_NODES || !payload_is(end, seed, entry, entry->hdr.len) ||
        (!end->dev.timed && entry->born_ns != (uint32_t)seed))
        end->wrong++;
    else
        end->lost += entry->hdr.seq - end->next;
    end->next = entry->hdr.seq + 1;
    end->got++;
    end->held[end->held_to++ % DUO_HELD] = 0;
}

static void end_got_segment(struct duo_end *end, const struct emu_entry *entry)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    struct emu_pool *pool = end->dev.worker->cache.pool;
    uint32_t c = hdr->channel;
    uint64_t seed = entry_seed(end, !end->host, (uint64_t)hdr->tag << 8 | (hdr->wire - DUO_WIRE));
    uint8_t len = 0;

    if (entry->buf != EMU_NO_BUF) {
        const struct emu_hdr *own = &emu_pool_seg(pool, entry->buf)->hdr;

        len = own->len;
        end->wrong +=
            own->dst != (uint32_t)(seed >> 3) || own->seq != hdr->tag ||
            (!end->dev.timed && *emu_pool_note(pool, entry->buf) != (uint32_t)(seed >> 8));
    }
    if (hdr->kind == EMU_PACKET_HEAD) {
        end->in_tag[c] = hdr->tag;
        end->in_index[c] = 0;
    }
    end->got++;
    end->held[end->held_to++ % DUO_HELD] = (uint8_t)c;
    if (end->was_cut && (hdr->tag != end->in_tag[c] || hdr->wire - DUO_WIRE != end->in_index[c]))
        return; /* of a packet that began before the cables were up */
    end->wrong += hdr->tag != end->in_tag[c] || hdr->wire - DUO_WIRE != end->in_index[c]++ ||
                  entry->crc != (uint32_t)seed || !payload_is(end, seed, entry, len);
    if (hdr->last)
        end->owed[end->owed_to++ % DUO_HELD] = hdr->tag << 8 | c;
}

static bool end_take(struct duo_end *end)
{
    const struct emu_entry *entry = emu_rx_front(&end->rx, end->dev.worker->now_ps);

    if (!entry || end->deaf || end->held_to - end->held_at == DUO_HELD)
        return false;
    end->wrong += entry->time_ps < end->last_ps;
    end->last_ps = entry->time_ps;
    if (!end->channels)
        end_got_plain(end, entry);
    else if (entry->packet.kind != EMU_PACKET_ACK)
        end_got_segment(end, entry);
    else if (emu_vcs_close(&end->vcs, entry->packet.channel, entry->packet.tag))
        end->replied++;
    else
        end->wrong += !end->was_cut;
    emu_pool_drop(&end->dev.worker->cache, entry->buf);
    emu_rx_skip(&end->rx);
    emu_rx_done(&end->rx, 1);
    return true;
}

static void end_pay(struct duo_end *end)
{
    uint32_t c = end->held[end->held_at % DUO_HELD];
    uint64_t at_ps = end->dev.timed ? end->dev.worker->now_ps + 100000 : 0;

    if (end->held_at == end->held_to)
        return;
    end->held_at++;
    if (end->channels) {
        emu_rx_pay_channel(&end->rx, c, at_ps);
    } else {
        end->rx.owed++;
        emu_rx_pay(&end->rx, end->rx.owner, at_ps);
    }
}

static void end_act(struct duo_end *end)
{
    uint64_t random = emu_splitmix(&end->random);

    for (uint32_t i = random % 8; i; i--)
        if (!(end->channels ? end_send_channels(end) : end_send_plain(end)))
            break;
    for (uint32_t i = (random >> 8) % 8; i && end_take(end); i--)
        ;
    for (uint32_t i = end->stingy ? 0 : (random >> 16) % 8; i; i--)
        end_pay(end);
}

/* With threads ends are devices: they act when something has come, and send all that they may. */
static uint32_t end_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct duo_end *end = (struct duo_end *)dev;
    uint32_t moved = 0;

    (void)until_ps;
    if (!end->duo->threads)
        return 0;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    while (moved < 64 && end_take(end)) {
        end_pay(end);
        moved++;
    }
    while (moved < 128 && (end->channels ? end_send_channels(end) : end_send_plain(end)))
        moved++;
    if (moved)
        emu_dev_again(dev);
    if (dev->timed)
        dev->next_ps = emu_rx_next_ps(&end->rx);
    atomic_store(&end->seen, end->got);
    return moved;
}

/* --- made --------------------------------------------------------------------------- */

static uint64_t host_now_ns(void *ctx)
{
    const struct duo_host *host = ctx;
    int64_t drift = (int64_t)(host->duo->now_ns / 1000) * host->drift_ppm / 1000;

    return host->duo->now_ns + host->skew_ns + (uint64_t)drift;
}

static uint64_t host_random(void *ctx)
{
    return emu_splitmix(ctx);
}

static void end_join(struct duo *h, uint32_t host, uint32_t i, const struct duo_config *config)
{
    struct duo_end *end = &h->host[host].end[i];

    *end = (struct duo_end){.duo = h, .host = host, .number = i};
    end->random = emu_mix(h->seed ^ (uint64_t)host << 32 ^ i);
    end->channels = config->kind == DUO_CHANNELS || (config->kind == DUO_MIXED && i % 2);
    end->credits = config->credits ? config->credits : 16;
    if (!i && config->first)
        end->credits = config->first;
    end->depth = config->depth;
    emu_dev_init(&end->dev, h->host[host].worker, end_step);
    emu_vcs_init(&end->vcs, h->packets.channels, h->packets.pool_slots, end->dev.timed);
}

/* Of a pool that has whole chains only some are left. */
static void host_reserve(struct duo_host *at, uint32_t left)
{
    must(left && left <= EMU_POOL_CHAIN, "buffers");
    for (at->reserved = 0; at->reserved < EMU_POOL_CHAIN - left; at->reserved++)
        must(emu_pool_take(&at->worker->cache) != EMU_NO_BUF, "buffers");
}

static void host_make(struct duo *h, uint32_t host, const struct duo_config *config)
{
    struct duo_host *at = &h->host[host];
    struct emu_clock clock = {.mode = config->mode};

    at->duo = h;
    at->random = emu_mix(h->seed + host);
    at->control = -1;
    at->pool = emu_pool_create(h->bufs);
    must(at->pool && !emu_worker_create(&at->worker, config->cables + 1, &clock, at->pool),
         "a worker");
    if (config->bufs)
        host_reserve(at, config->bufs);
    at->end = emu_zeros(config->cables * sizeof *at->end);
    for (uint32_t i = 0; i < config->cables; i++)
        end_join(h, host, i, config);
}

struct emu_session_config duo_session(const struct duo *h, uint32_t host)
{
    return (struct emu_session_config){.fabric = DUO_FABRIC,
                                       .host = (uint16_t)host,
                                       .peer = (uint16_t)!host,
                                       .digest = "one cluster file",
                                       .silent_ns = h->threads ? UINT64_MAX : DUO_SILENT_NS,
                                       .window = DUO_WINDOW};
}

void duo_begin(struct duo *h, uint32_t host)
{
    struct duo_host *at = &h->host[host];
    struct emu_hostlink_peer peer = {.session = duo_session(h, host), .cables = h->cables};
    struct emu_hostlink_config config = {
        .port = h->threads ? lane_port(h->lane, host) : wire_port(h->wire, host),
        .nodes = DUO_NODES,
        .peers = &peer,
        .count = 1,
        .now_ns = at->worker->clock.mode || h->threads ? NULL : host_now_ns,
        .now_ctx = at};
    int control[2];

    peer.session.random = host_random;
    peer.session.random_ctx = &at->random;
    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, control), "sockets");
    at->control = control[0];
    at->control_ended = false;
    peer.control_fd = control[1];
    must(!emu_hostlink_create(&at->link, at->worker, &config), "a device");
    for (uint32_t i = 0; i < h->cables; i++) {
        struct duo_end *end = &at->end[i];

        must(!emu_hostlink_join(at->link, 0, i, &end->tx, &end->rx, &end->dev, 0, NULL,
                                end->credits, end->depth, end->channels ? &h->packets : &h->plain),
             "a cable");
    }
}

void duo_open(struct duo *h, const struct duo_config *config)
{
    char error[128];

    memset(h, 0, sizeof *h);
    h->seed = h->random = config->seed;
    h->cables = config->cables;
    h->bufs = config->bufs ? EMU_POOL_CHAIN : 4096 + 512 * config->cables;
    h->now_ns = config->mode ? emu_now_ns() : 1 + emu_mix(h->seed) % (UINT64_C(1) << 33);
    must(!emu_profile_load(&h->plain, "oq2004", error, sizeof error) &&
             !emu_profile_load(&h->packets, "qsnet3", error, sizeof error),
         "profiles");
    h->threads = config->threads;
    if (h->threads) {
        h->lane = lane_create(4 * DUO_WINDOW + 128, 1514);
        must(h->lane, "sockets");
    } else {
        h->wire = wire_create(2, 4 * DUO_WINDOW + 128, 1514, h->seed);
        wire_at(h->wire, h->now_ns);
    }
    for (uint32_t host = 0; host < 2; host++) {
        if (!h->threads)
            wire_faults(h->wire, host)->delay_ns = 5000;
        host_make(h, host, config);
        duo_begin(h, host);
    }
}

void duo_end(struct duo *h, uint32_t host)
{
    struct duo_host *at = &h->host[host];

    for (uint32_t i = 0; i < h->cables; i++)
        emu_link_unjoin(&at->end[i].tx);
    emu_hostlink_destroy(at->link);
    at->link = NULL;
    if (at->control >= 0)
        close(at->control);
    at->control = -1;
}

void duo_close(struct duo *h)
{
    for (uint32_t host = 0; host < 2; host++) {
        if (h->host[host].link)
            duo_end(h, host);
        emu_worker_destroy(h->host[host].worker);
        emu_pool_destroy(h->host[host].pool);
        free(h->host[host].end);
    }
    if (h->threads)
        lane_destroy(h->lane);
    else
        wire_destroy(h->wire);
}

void duo_limit(struct duo *h, uint64_t entries)
{
    for (uint32_t i = 0; i < 2 * h->cables; i++)
        h->host[i / h->cables].end[i % h->cables].limit = entries;
}

/* --- time goes on ------------------------------------------------------------------- */

void duo_step(struct duo *h)
{
    h->now_ns += 1000 + emu_splitmix(&h->random) % 10000;
    if (h->host[0].worker->clock.mode != EMU_CLOCK_RAW)
        h->now_ns = emu_now_ns();
    wire_at(h->wire, h->now_ns);
    for (uint32_t host = 0; host < 2; host++) {
        if (!h->host[host].link)
            continue;
        for (uint32_t i = 0; i < h->cables; i++)
            end_act(&h->host[host].end[i]);
        emu_worker_pass(h->host[host].worker);
    }
}

bool duo_until(struct duo *h, bool (*is)(struct duo *h), uint32_t steps)
{
    while (!is(h)) {
        if (!steps--)
            return false;
        duo_step(h);
    }
    return true;
}

bool duo_are_up(struct duo *h)
{
    return h->host[0].link && h->host[1].link &&
           emu_hostlink_phase(h->host[0].link, 0) == EMU_HOSTLINK_UP &&
           emu_hostlink_phase(h->host[1].link, 0) == EMU_HOSTLINK_UP;
}

/* Has @end nothing any more, and has it all that @far has sent? */
static bool end_is_done(const struct duo_end *end, const struct duo_end *far)
{
    if (end->sent < end->limit || end->held_at != end->held_to || end->owed_at != end->owed_to ||
        end->got + end->lost != far->sent)
        return false;
    if (end->channels)
        return !end->vcs.open && !end->vcs.occupied;
    return end->tx.credits == end->credits + end->depth;
}

bool duo_are_done(struct duo *h)
{
    for (uint32_t i = 0; i < 2 * h->cables; i++) {
        uint32_t host = i / h->cables, n = i % h->cables;

        if (!end_is_done(&h->host[host].end[n], &h->host[!host].end[n]))
            return false;
    }
    return true;
}

bool duo_are_at_rest(struct duo *h)
{
    for (uint32_t i = 0; i < 2 * h->cables; i++) {
        const struct duo_end *end = &h->host[i / h->cables].end[i % h->cables];

        if (end->sent < end->limit || end->held_at != end->held_to ||
            end->owed_at != end->owed_to || emu_ring_front(&end->rx.data) ||
            (end->channels ? end->vcs.open || end->vcs.occupied
                           : end->tx.credits != end->credits + end->depth))
            return false;
    }
    return true;
}

void duo_links_down(struct duo *h)
{
    for (uint32_t i = 0; i < 2 * h->cables; i++) {
        struct duo_end *end = &h->host[i / h->cables].end[i % h->cables];

        end->was_cut = true;
        end->vcs.open = 0;
        memset(end->left, 0, sizeof end->left);
        end->owed_at = end->owed_to;
    }
}

/* --- what must hold ----------------------------------------------------------------- */

static const char *end_check(const struct duo_host *at, const struct duo_end *end)
{
    const char *wrong = emu_hostlink_check(at->link, 0, end->number);

    if (wrong)
        return wrong;
    if (end->wrong)
        return "entries came that should not, or as they should not";
    return end->channels ? emu_link_check_segments(&end->rx)
                         : emu_link_check(&end->rx, end->held_to - end->held_at, end->credits);
}

/* Buffers that the host's cables hold are those that are out of its pool. */
static bool host_bufs_add_up(const struct duo *h, const struct duo_host *at)
{
    uint64_t held = emu_hostlink_bufs(at->link) + at->reserved;

    for (uint32_t i = 0; i < h->cables; i++)
        held += emu_link_bufs(&at->end[i].rx);
    return emu_pool_out(at->pool, at->worker->cache.count) == held;
}

uint64_t duo_wrong(struct duo *h)
{
    uint64_t wrong = 0;

    for (uint32_t host = 0; host < 2; host++) {
        const struct duo_host *at = &h->host[host];

        if (!at->link)
            continue;
        for (uint32_t i = 0; i < h->cables; i++) {
            const char *what = end_check(at, &at->end[i]);

            if (what && !wrong++)
                printf("host %u cable %u: %s\n", host, i, what);
        }
        if (!host_bufs_add_up(h, at) && !wrong++)
            printf("host %u: buffers do not add up\n", host);
        if (at->control_wrong && !wrong++)
            printf("host %u: control bytes came that should not\n", host);
    }
    return wrong;
}

/* --- the control channel ------------------------------------------------------------ */

static uint8_t control_byte(uint32_t from, uint64_t at)
{
    return (uint8_t)emu_mix((uint64_t)from << 62 ^ at);
}

void duo_control(struct duo *h, uint32_t host, uint32_t bytes)
{
    struct duo_host *at = &h->host[host];
    uint8_t piece[4096];
    ssize_t n;

    if (at->control < 0)
        return;
    if (bytes > sizeof piece)
        bytes = sizeof piece;
    for (uint32_t i = 0; i < bytes; i++)
        piece[i] = control_byte(host, at->control_sent + i);
    n = bytes ? send(at->control, piece, bytes, MSG_NOSIGNAL) : 0;
    if (n > 0)
        at->control_sent += (uint64_t)n;
    while ((n = recv(at->control, piece, sizeof piece, 0)) > 0)
        for (ssize_t i = 0; i < n; i++)
            at->control_wrong += piece[i] != control_byte(!host, at->control_got++);
    at->control_ended |= !n;
}
