/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c - files with the calls that processes make to libfabemu (--compute record, replay). */
#include "apps/calls/calls.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/control/conn.h"
#include "emu/hostif/calls.h"
#include "emu/util/clock.h"
#include "emu/util/json.h"
#include "emu/util/slurp.h"

#define FORMAT 1

bool calls_check(const uint8_t *data, size_t bytes, uint64_t *calls)
{
    struct emu_calls last = {0};
    struct emu_call call = {.kind = EMU_CALL_POLL};
    uint64_t ns = 0;
    size_t used;

    *calls = 0;
    for (; bytes && (used = emu_call_get(&last, data, bytes, &call)); data += used, bytes -= used) {
        if (call.ns > EMU_LAST_PS / 1000 || (ns += call.ns) > EMU_LAST_PS / 1000)
            return false; /* after the end of simulated time */
        if (call.kind == EMU_CALL_END)
            return bytes == used;
        *calls += !emu_call_is_soft(call.kind);
    }
    return false;
}

/* --- reading -------------------------------------------------------------------------- */

/*
 * Read one entry of the list of processes. The calls of the process begin at @at. The file has
 * @left bytes from there on.
 */
static int part_read(struct json_object *entry, const char *path, const uint8_t *at, size_t left,
                     struct calls_part *ret, char *error, size_t error_bytes)
{
    int64_t rank = emu_json_number(entry, "rank", -1), bytes = emu_json_number(entry, "bytes", -1);
    uint64_t calls;

    if (rank < 0 || bytes < 0)
        return fail(-EINVAL, error, error_bytes, "%s: its list of processes is not valid", path);
    if (!json_object_get_boolean(json_object_object_get(entry, "ended")))
        return fail(-EINVAL, error, error_bytes,
                    "%s is not complete: when it was recorded, the process of rank %lld did not "
                    "end well",
                    path, (long long)rank);
    if ((uint64_t)bytes > left)
        return fail(-EINVAL, error, error_bytes, "%s is cut off in the calls of rank %lld", path,
                    (long long)rank);
    *ret = (struct calls_part){.rank = rank, .data = at, .bytes = (size_t)bytes};
    if (!calls_check(at, ret->bytes, &calls) ||
        (int64_t)calls != emu_json_number(entry, "calls", -1))
        return fail(-EINVAL, error, error_bytes, "%s: the calls of rank %lld are not valid", path,
                    (long long)rank);
    return 0;
}

static int parts_read(struct calls_file *file, struct json_object *list, const char *path,
                      const uint8_t *at, size_t left, char *error, size_t error_bytes)
{
    size_t count = emu_json_count(list);
    int err = 0;

    file->part = calloc(count + 1, sizeof *file->part);
    if (!file->part)
        return fail(-ENOMEM, error, error_bytes, "%s: %s", path, strerror(ENOMEM));
    for (; file->parts < count && !err; file->parts++) {
        struct calls_part *part = &file->part[file->parts];

        err = part_read(emu_json_at(list, file->parts), path, at, left, part, error, error_bytes);
        at += part->bytes;
        left -= part->bytes;
    }
    if (!err && !count)
        err = fail(-EINVAL, error, error_bytes, "%s: its list of processes is empty", path);
    if (!err && left)
        err = fail(-EINVAL, error, error_bytes, "%s: %zu bytes follow its calls", path, left);
    return err;
}

int calls_read(struct calls_file *ret, const char *path, char *error, size_t error_bytes)
{
    struct json_object *head = NULL;
    enum json_tokener_error bad;
    size_t bytes = 0, line;
    char *end;
    int err;

    *ret = (struct calls_file){0};
    err = emu_slurp(path, CALLS_FILE_MOST, &ret->text, &bytes);
    if (err) {
        calls_release(ret);
        return fail(err, error, error_bytes, "cannot read %s: %s", path, emu_slurp_why(err));
    }
    end = memchr(ret->text, '\n', bytes);
    line = end ? (size_t)(end - ret->text) : 0;
    if (line && line < INT32_MAX && *ret->text == '{')
        head = emu_json_parse(ret->text, (int)line, &bad);
    if (!head || emu_json_number(head, "calls", 0) != FORMAT)
        err = fail(-EINVAL, error, error_bytes,
                   "%s is not a file of calls (format %d), as --compute record:FILE writes it",
                   path, FORMAT);
    else
        err = parts_read(ret, json_object_object_get(head, "processes"), path,
                         (const uint8_t *)end + 1, bytes - line - 1, error, error_bytes);
    json_object_put(head);
    if (err)
        calls_release(ret);
    return err;
}

void calls_release(struct calls_file *file)
{
    free(file->part);
    free(file->text);
    *file = (struct calls_file){0};
}

/* --- writing -------------------------------------------------------------------------- */

void calls_write(FILE *out, struct json_object *origin, const struct calls_part *part, size_t parts)
{
    struct json_object *head = json_object_new_object(), *list = json_object_new_array();

    json_add_number(head, "calls", FORMAT);
    json_object_object_add(head, "origin", origin);
    json_object_object_add(head, "processes", list);
    for (size_t i = 0; i < parts; i++) {
        struct json_object *one = json_object_new_object();
        uint64_t calls;
        bool ended = calls_check(part[i].data, part[i].bytes, &calls);

        json_add_number(one, "rank", (uint64_t)part[i].rank);
        json_add_number(one, "calls", calls);
        json_add_number(one, "bytes", part[i].bytes);
        json_object_object_add(one, "ended", json_object_new_boolean(ended));
        json_object_array_add(list, one);
    }
    fprintf(out, "%s\n",
            json_object_to_json_string_ext(head, JSON_C_TO_STRING_PLAIN |
                                                     JSON_C_TO_STRING_NOSLASHESCAPE));
    for (size_t i = 0; i < parts; i++)
        fwrite(part[i].data, 1, part[i].bytes, out);
    json_object_put(head);
}
