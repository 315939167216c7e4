/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth.h - the tag of a frame: who made it, and that nothing in it was changed.
 *
 * Without a key it is a CRC-32C, and whoever reaches the wire can make one. With a key (libsodium):
 *
 * - Frames of the handshake have a keyed BLAKE2b. It needs no nonce, so none can come twice.
 * - Each life of a session has two keys of its own, one a direction, made of the key, the fabric,
 *   the hosts and the handshake's random numbers. Its frames have the tag of AES-256-GCM, or, where
 *   one of the two processors lacks the instructions, of ChaCha20-Poly1305 (RFC 8439); the nonce is
 *   the packet number, which no other frame of the life has.
 *
 * Nothing is hidden: the whole frame is "additional data", which is only checked. So a frame that
 * is kept for sending again stays as it is.
 *
 * Owner: the session.
 */
#ifndef EMU_HOSTLINK_AUTH_H
#define EMU_HOSTLINK_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_AUTH_KEY_BYTES 32

enum emu_auth_check {
    EMU_AUTH_CRC,       /* CRC-32C, and twelve zeros */
    EMU_AUTH_HANDSHAKE, /* keyed BLAKE2b */
    EMU_AUTH_AES,       /* AES-256-GCM */
    EMU_AUTH_CHACHA     /* ChaCha20-Poly1305 */
};

/* What the keys of a life are made of: the same at both ends, with the sides exchanged. */
struct emu_auth_incarnation {
    uint64_t fabric;
    uint64_t mine; /* session numbers */
    uint64_t yours;
    uint16_t host;
    uint16_t peer;
    uint8_t check;
};

struct emu_auth;

/** emu_auth_missing - NULL, or why no key can be used: a line for the user. */
const char *emu_auth_missing(void);

/**
 * emu_auth_create - with @key (32 bytes), or NULL: the CRC. Errors: -ENOMEM; -ENOTSUP, see
 * emu_auth_missing().
 */
int emu_auth_create(struct emu_auth **ret, const uint8_t *key);
void emu_auth_destroy(struct emu_auth *auth); /* NULL: does nothing */

/** emu_auth_checks - what frames of a life can have here: bits by enum emu_auth_check. */
uint32_t emu_auth_checks(const struct emu_auth *auth);

/** emu_auth_handshake_check - what frames of the handshake have. */
uint8_t emu_auth_handshake_check(const struct emu_auth *auth);

/**
 * emu_auth_agree - what both can do, by the bits of both; the same at both ends.
 * Returns false: nothing.
 */
bool emu_auth_agree(uint32_t checks, uint32_t theirs, uint8_t *ret);

/** emu_auth_begin - the keys of a new life; those of the last are forgotten. */
void emu_auth_begin(struct emu_auth *auth, const struct emu_auth_incarnation *incarnation);

/**
 * emu_auth_seal - the tag of the @bytes at @data, right behind them. @packet: never twice in a
 * life.
 */
void emu_auth_seal(struct emu_auth *auth, uint8_t check, uint64_t packet, uint8_t *data,
                   uint32_t bytes);

/**
 * emu_auth_good - is it right? @check is one that the caller expects: emu_auth_handshake_check() or
 * the life's. Pure.
 */
bool emu_auth_good(struct emu_auth *auth, uint8_t check, uint64_t packet, const uint8_t *data,
                   uint32_t bytes);

#endif
