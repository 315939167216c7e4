/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c - store and read the calls of a recording. */
#include "emu/hostif/calls.h"

#include <inttypes.h>
#include <stdio.h>

/* set in the kind's byte if node and size are those of the last call of this kind */
#define SAME 0x80u

/* --- numbers ------------------------------------------------------------------------- */

static size_t number_put(uint64_t number, uint8_t *ret)
{
    size_t bytes = 0;

    for (; number >= 0x80; number >>= 7)
        ret[bytes++] = (uint8_t)(number | 0x80);
    ret[bytes++] = (uint8_t)number;
    return bytes;
}

/* Read a number at *@at that ends before @end. Return false if there is no such number. */
static bool number_get(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;

        if (shift == 63 && byte > 1)
            return false;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* --- calls --------------------------------------------------------------------------- */

/* In a recording, 0 stands for EMU_CALL_NO_NODE. */
static uint64_t node_number(const struct emu_call *call)
{
    return (uint32_t)(call->node + 1);
}

size_t emu_call_put(struct emu_calls *calls, const struct emu_call *call, uint8_t *ret)
{
    struct emu_call *last = &calls->last[call->kind];
    bool same = last->node == call->node && last->bytes == call->bytes;
    size_t bytes = 1;

    ret[0] = (uint8_t)(call->kind | (same ? SAME : 0));
    if (!same) {
        bytes += number_put(node_number(call), ret + bytes);
        bytes += number_put(call->bytes, ret + bytes);
    }
    *last = *call;
    return bytes + number_put(call->ns, ret + bytes);
}

size_t emu_call_get(struct emu_calls *calls, const uint8_t *from, size_t bytes,
                    struct emu_call *ret)
{
    const uint8_t *at = from, *end = from + bytes;
    uint64_t node;
    uint8_t kind;

    if (!bytes || (*at & ~SAME) >= EMU_CALL_KINDS)
        return 0;
    kind = *at++;
    *ret = calls->last[kind & ~SAME];
    ret->kind = (enum emu_call_kind)(kind & ~SAME);
    if (!(kind & SAME)) {
        if (!number_get(&at, end, &node) || node > UINT32_MAX || !number_get(&at, end, &ret->bytes))
            return 0;
        ret->node = (uint32_t)node - 1;
    }
    if (!number_get(&at, end, &ret->ns))
        return 0;
    calls->last[ret->kind] = *ret;
    return (size_t)(at - from);
}

void emu_call_text(const struct emu_call *call, char *text, size_t bytes)
{
    /* `name` describes the call. `node` is the preposition before its node; NULL: it has no node */
    static const struct {
        const char *name, *node;
    } words[EMU_CALL_KINDS] = {
        [EMU_CALL_END] = {"the end of the process", NULL},
        [EMU_CALL_POLL] = {"a poll", NULL},
        [EMU_CALL_CLOCK] = {"a reading of the clock", NULL},
        [EMU_CALL_SEND] = {"a send", "to"},
        [EMU_CALL_RECEIVE] = {"a receive", "from"},
        [EMU_CALL_PUT] = {"a put", "to"},
        [EMU_CALL_GET] = {"a get", "from"},
        [EMU_CALL_ATOMIC] = {"an atomic", "at"},
        [EMU_CALL_BATCH] = {"a batch", "to"},
        [EMU_CALL_EVENT] = {"a wait for events", NULL},
        [EMU_CALL_NOTICE] = {"a receive of a notice", NULL},
        [EMU_CALL_SET] = {"the setting of a word", NULL},
        [EMU_CALL_TEST] = {"a conditional", NULL},
        [EMU_CALL_BROADCAST_PUT] = {"a broadcast put", NULL},
        [EMU_CALL_BARRIER] = {"a barrier", NULL},
        [EMU_CALL_BROADCAST] = {"a broadcast", "from"},
        [EMU_CALL_REDUCE] = {"a reduction", "to"},
        [EMU_CALL_ALLREDUCE] = {"an all-reduce", NULL},
    };
    int used = snprintf(text, bytes, "%s", words[call->kind].name);

    if ((call->bytes || words[call->kind].node) && used < (int)bytes)
        used += snprintf(text + used, bytes - (size_t)used, " of %" PRIu64 " bytes", call->bytes);
    if (!words[call->kind].node || used >= (int)bytes)
        return;
    if (call->node == EMU_CALL_NO_NODE)
        snprintf(text + used, bytes - (size_t)used, " %s any node", words[call->kind].node);
    else
        snprintf(text + used, bytes - (size_t)used, " %s node %" PRIu32, words[call->kind].node,
                 call->node);
}
