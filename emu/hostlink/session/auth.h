/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth.h - the tag of a frame: proves the sender, and that the frame is unchanged.
 *
 * Without a key it is a CRC-32C, which anybody on the wire can compute. With a key (libsodium):
 *
 * - Handshake frames have a keyed BLAKE2b, which needs no nonce, so none can repeat.
 * - Each incarnation of a session has two keys, one per direction, derived from the key, the
 *   fabric, the hosts and the handshake's random numbers. Its frames have the tag of AES-256-GCM
 *   or, where one of the two processors lacks the instructions, of ChaCha20-Poly1305 (RFC 8439).
 *   The nonce is the packet number, unique within the incarnation.
 *
 * Nothing is encrypted: the whole frame is "additional data", which is only authenticated. So a
 * frame that is kept for retransmission stays unchanged.
 *
 * Owner: the session.
 */
#ifndef EMU_HOSTLINK_AUTH_H
#define EMU_HOSTLINK_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_AUTH_KEY_BYTES 32

enum emu_auth_check {
    EMU_AUTH_CRC,       /* CRC-32C and 12 zeros */
    EMU_AUTH_HANDSHAKE, /* keyed BLAKE2b */
    EMU_AUTH_AES,       /* AES-256-GCM */
    EMU_AUTH_CHACHA     /* ChaCha20-Poly1305 */
};

/* Inputs of the keys of an incarnation: the same at both ends, with the hosts exchanged. */
struct emu_auth_incarnation {
    uint64_t fabric;
    uint64_t mine; /* session numbers */
    uint64_t yours;
    uint16_t host;
    uint16_t peer;
    uint8_t check;
};

struct emu_auth;

/** emu_auth_missing - NULL, or why keys are not supported: a line for the user. */
const char *emu_auth_missing(void);

/**
 * emu_auth_create - with @key (32 bytes), or NULL: use the CRC. Errors: -ENOMEM; -ENOTSUP, see
 * emu_auth_missing().
 */
int emu_auth_create(struct emu_auth **ret, const uint8_t *key);
void emu_auth_destroy(struct emu_auth *auth); /* NULL: does nothing */

/** emu_auth_checks - checks supported here for data frames: bits by enum emu_auth_check. */
uint32_t emu_auth_checks(const struct emu_auth *auth);

/** emu_auth_handshake_check - the check of handshake frames. */
uint8_t emu_auth_handshake_check(const struct emu_auth *auth);

/**
 * emu_auth_agree - the best check that both hosts support, by the bits of both; the same result on
 * both. Returns false if there is none.
 */
bool emu_auth_agree(uint32_t checks, uint32_t theirs, uint8_t *ret);

/** emu_auth_begin - derive the keys of a new incarnation and forget the previous ones. */
void emu_auth_begin(struct emu_auth *auth, const struct emu_auth_incarnation *incarnation);

/**
 * emu_auth_seal - write the tag of the @bytes at @data right behind them. @packet: unique within
 * the incarnation.
 */
void emu_auth_seal(struct emu_auth *auth, uint8_t check, uint64_t packet, uint8_t *data,
                   uint32_t bytes);

/**
 * emu_auth_good - is the tag right? @check is one that the caller expects:
 * emu_auth_handshake_check() or that of the incarnation. Pure.
 */
bool emu_auth_good(struct emu_auth *auth, uint8_t check, uint64_t packet, const uint8_t *data,
                   uint32_t bytes);

#endif
