/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth.c - compute the tags of frames: CRC-32C or, if libsodium was built in, keyed tags. Each
 * handshake begins an *incarnation* of the session, with its own keys.
 *
 * Rejected: one key for all incarnations with random nonces, because nonces of 96 bits could repeat
 * in a long run. Rejected: encryption, because messages between programs on one host are not
 * encrypted either.
 */
#include "emu/hostlink/session/auth.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hostlink/session/frame.h"
#include "emu/packet/crc.h"
#include "emu/util/alloc.h"
#include "emu/util/bits.h"

#ifdef EMU_HAS_SODIUM
#include <sodium.h>

struct auth_direction {
    alignas(64) crypto_aead_aes256gcm_state aes; /* expanded key, for AES only */
    uint8_t key[EMU_AUTH_KEY_BYTES];
};
#endif

struct emu_auth {
#ifdef EMU_HAS_SODIUM
    struct auth_direction out, in;
    uint8_t key[EMU_AUTH_KEY_BYTES];
    uint8_t handshake_key[EMU_AUTH_KEY_BYTES];
    bool keyed;
#else
    char nothing;
#endif
};

static void crc_tag(const uint8_t *data, uint32_t bytes, uint8_t tag[EMU_FRAME_TAG_BYTES])
{
    uint32_t crc = emu_crc32(0, data, bytes);

    memset(tag, 0, EMU_FRAME_TAG_BYTES);
    for (unsigned i = 0; i < 4; i++)
        tag[i] = (uint8_t)(crc >> 8 * i);
}

#ifdef EMU_HAS_SODIUM

const char *emu_auth_missing(void)
{
    return NULL;
}

static bool auth_keyed(const struct emu_auth *auth)
{
    return auth->keyed;
}

/* Derive a key from the user's key and the @bytes bytes at @about, by keyed BLAKE2b. */
static void auth_derive(uint8_t ret[EMU_AUTH_KEY_BYTES], const struct emu_auth *auth,
                        const void *about, size_t bytes)
{
    crypto_generichash(ret, EMU_AUTH_KEY_BYTES, about, bytes, auth->key, sizeof auth->key);
}

int emu_auth_create(struct emu_auth **ret, const uint8_t *key)
{
    static const char about[] = "fabemu host link, handshake";
    struct emu_auth *auth;

    if (key && sodium_init() < 0)
        return -ENOTSUP;
    auth = emu_zeros(sizeof *auth);
    if (!auth)
        return -ENOMEM;
    if (key) {
        auth->keyed = true;
        memcpy(auth->key, key, sizeof auth->key);
        auth_derive(auth->handshake_key, auth, about, sizeof about);
    }
    *ret = auth;
    return 0;
}

void emu_auth_destroy(struct emu_auth *auth)
{
    if (auth)
        sodium_memzero(auth, sizeof *auth);
    free(auth);
}

uint32_t emu_auth_checks(const struct emu_auth *auth)
{
    uint64_t checks = emu_bit(EMU_AUTH_CHACHA);

    if (!auth->keyed)
        return (uint32_t)emu_bit(EMU_AUTH_CRC);
    if (crypto_aead_aes256gcm_is_available())
        checks |= emu_bit(EMU_AUTH_AES);
    return (uint32_t)checks;
}

/* Derive the key for frames that we send (@out) or receive. */
static void direction_begin(struct emu_auth *auth, struct auth_direction *direction,
                            const struct emu_auth_incarnation *incarnation, bool out)
{
    struct {
        char about[24];
        uint64_t fabric, from_number, to_number;
        uint16_t from, to;
        uint32_t check;
    } made = {.about = "fabemu host link, life",
              .fabric = incarnation->fabric,
              .from_number = out ? incarnation->mine : incarnation->yours,
              .to_number = out ? incarnation->yours : incarnation->mine,
              .from = out ? incarnation->host : incarnation->peer,
              .to = out ? incarnation->peer : incarnation->host,
              .check = incarnation->check};

    auth_derive(direction->key, auth, &made, sizeof made);
    if (incarnation->check == EMU_AUTH_AES)
        crypto_aead_aes256gcm_beforenm(&direction->aes, direction->key);
}

void emu_auth_begin(struct emu_auth *auth, const struct emu_auth_incarnation *incarnation)
{
    if (!auth->keyed)
        return;
    direction_begin(auth, &auth->out, incarnation, true);
    direction_begin(auth, &auth->in, incarnation, false);
}

static void auth_tag(const struct emu_auth *auth, bool out, uint8_t check, uint64_t packet,
                     const uint8_t *data, uint32_t bytes, uint8_t *tag)
{
    const struct auth_direction *direction = out ? &auth->out : &auth->in;
    uint8_t nonce[12] = {0}, none[1]; /* there is no ciphertext */

    static_assert(sizeof nonce == crypto_aead_aes256gcm_NPUBBYTES &&
                      sizeof nonce == crypto_aead_chacha20poly1305_IETF_NPUBBYTES,
                  "a nonce is a packet number and zeros");
    for (unsigned i = 0; i < 8; i++)
        nonce[i] = (uint8_t)(packet >> 8 * i);
    if (check == EMU_AUTH_CRC)
        crc_tag(data, bytes, tag);
    else if (check == EMU_AUTH_HANDSHAKE)
        crypto_generichash(tag, EMU_FRAME_TAG_BYTES, data, bytes, auth->handshake_key,
                           sizeof auth->handshake_key);
    else if (check == EMU_AUTH_AES)
        crypto_aead_aes256gcm_encrypt_detached_afternm(none, tag, NULL, NULL, 0, data, bytes, NULL,
                                                       nonce, &direction->aes);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(none, tag, NULL, NULL, 0, data, bytes,
                                                           NULL, nonce, direction->key);
}

static bool same_tag(const uint8_t *a, const uint8_t *b)
{
    return sodium_memcmp(a, b, EMU_FRAME_TAG_BYTES) == 0; /* takes constant time */
}

#else

const char *emu_auth_missing(void)
{
    return "this fabemu was built without libsodium, so it cannot use a key: install libsodium and "
           "rebuild fabemu, or omit the key if nobody else is on the wire";
}

static bool auth_keyed(const struct emu_auth *auth)
{
    (void)auth;
    return false;
}

int emu_auth_create(struct emu_auth **ret, const uint8_t *key)
{
    struct emu_auth *auth;

    if (key)
        return -ENOTSUP;
    auth = emu_zeros(sizeof *auth);
    if (!auth)
        return -ENOMEM;
    *ret = auth;
    return 0;
}

void emu_auth_destroy(struct emu_auth *auth)
{
    free(auth);
}

uint32_t emu_auth_checks(const struct emu_auth *auth)
{
    (void)auth;
    return (uint32_t)emu_bit(EMU_AUTH_CRC);
}

void emu_auth_begin(struct emu_auth *auth, const struct emu_auth_incarnation *incarnation)
{
    (void)auth;
    (void)incarnation;
}

static void auth_tag(const struct emu_auth *auth, bool out, uint8_t check, uint64_t packet,
                     const uint8_t *data, uint32_t bytes, uint8_t *tag)
{
    (void)auth;
    (void)out;
    (void)check;
    (void)packet;
    crc_tag(data, bytes, tag);
}

static bool same_tag(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, EMU_FRAME_TAG_BYTES) == 0;
}

#endif

uint8_t emu_auth_handshake_check(const struct emu_auth *auth)
{
    return auth_keyed(auth) ? EMU_AUTH_HANDSHAKE : EMU_AUTH_CRC;
}

bool emu_auth_agree(uint32_t checks, uint32_t theirs, uint8_t *ret)
{
    static const uint8_t best_first[] = {EMU_AUTH_AES, EMU_AUTH_CHACHA, EMU_AUTH_CRC};

    for (unsigned i = 0; i < sizeof best_first; i++)
        if (checks & theirs & emu_bit(best_first[i])) {
            *ret = best_first[i];
            return true;
        }
    return false;
}

void emu_auth_seal(struct emu_auth *auth, uint8_t check, uint64_t packet, uint8_t *data,
                   uint32_t bytes)
{
    auth_tag(auth, true, check, packet, data, bytes, data + bytes);
}

bool emu_auth_good(struct emu_auth *auth, uint8_t check, uint64_t packet, const uint8_t *data,
                   uint32_t bytes)
{
    uint8_t tag[EMU_FRAME_TAG_BYTES];

    auth_tag(auth, false, check, packet, data, bytes, tag);
    /* a CRC is not secret, so the comparison may take variable time */
    if (check == EMU_AUTH_CRC)
        return memcmp(tag, data + bytes, sizeof tag) == 0;
    return same_tag(tag, data + bytes);
}
