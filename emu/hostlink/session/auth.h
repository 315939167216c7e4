/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth.h - the tag of a frame. Without a key it is a CRC-32C, which anybody on the wire can
 * compute. With a key it proves that the frame comes from the peer and is unchanged (libsodium):
 * - The tag of a handshake frame is a keyed BLAKE2b. It needs no nonce, so no nonce can repeat.
 * - Each incarnation of a session, which begins with a handshake, has two keys, one per direction.
 *   They are derived from the user's key, the fabric, the hosts and the random numbers of the
 *   handshake. The tag of a frame is computed by AES-256-GCM. If one of the two processors lacks
 *   the instructions for it, both hosts use ChaCha20-Poly1305 (RFC 8439). The nonce is the packet
 *   number, which is unique within the incarnation.
 *
 * Nothing is encrypted. The whole frame is "additional data", which is only authenticated. So a
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
    EMU_AUTH_CRC,       /* CRC-32C, followed by 12 zeros */
    EMU_AUTH_HANDSHAKE, /* keyed BLAKE2b */
    EMU_AUTH_AES,
    EMU_AUTH_CHACHA
};

/*
 * The keys of an incarnation are derived from these values. The other host has the same values,
 * with `mine` and `yours`, and `host` and `peer`, exchanged.
 */
struct emu_auth_incarnation {
    uint64_t fabric;
    uint64_t mine; /* the random session numbers from the handshake */
    uint64_t yours;
    uint16_t host;
    uint16_t peer;
    uint8_t check;
};

struct emu_auth;

/** emu_auth_missing - return NULL, or a line for the user that says why keys are not supported. */
const char *emu_auth_missing(void);

/**
 * emu_auth_create - create an object that uses @key (32 bytes), or a CRC if @key is NULL. Errors:
 * -ENOMEM; -ENOTSUP: see emu_auth_missing().
 */
int emu_auth_create(struct emu_auth **ret, const uint8_t *key);
void emu_auth_destroy(struct emu_auth *auth); /* NULL: does nothing */

/** emu_auth_checks - return the supported checks of data frames: bits by enum emu_auth_check. */
uint32_t emu_auth_checks(const struct emu_auth *auth);

uint8_t emu_auth_handshake_check(const struct emu_auth *auth);

/**
 * emu_auth_agree - choose the best check that both hosts support. Both hosts choose the same one.
 * @checks, @theirs: the bits of this host and of the other. Returns false if no check is common.
 */
bool emu_auth_agree(uint32_t checks, uint32_t theirs, uint8_t *ret);

/** emu_auth_begin - derive the keys of a new incarnation and forget the previous ones. */
void emu_auth_begin(struct emu_auth *auth, const struct emu_auth_incarnation *incarnation);

/**
 * emu_auth_seal - compute the tag of the @bytes bytes at @data, and write it right after them.
 * @packet: unique within the incarnation.
 */
void emu_auth_seal(struct emu_auth *auth, uint8_t check, uint64_t packet, uint8_t *data,
                   uint32_t bytes);

/**
 * emu_auth_good - return whether the tag after the @bytes bytes at @data is right. @check: the
 * expected check: emu_auth_handshake_check(), or that of the incarnation. Pure.
 */
bool emu_auth_good(struct emu_auth *auth, uint8_t check, uint64_t packet, const uint8_t *data,
                   uint32_t bytes);

#endif
