/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn_test.c - connections of the control socket: how much may be queued for a peer that does not
 * read.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "apps/control/conn.h"
#include "tests/test.h"

#define LARGE (CONN_OUT_MAX + (3u << 20)) /* a snapshot of the largest network */

/* {"x":"aaa…"} of @bytes. The caller's to free. */
static char *line_make(size_t bytes)
{
    char *line = malloc(bytes);

    CU_ASSERT_PTR_NOT_NULL_FATAL(line);
    memset(line, 'a', bytes);
    memcpy(line, "{\"x\":\"", 6);
    memcpy(line + bytes - 2, "\"}", 2);
    return line;
}

static void pair_open(struct conn ends[2])
{
    int fd[2];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    for (int i = 0; i < 2; i++)
        conn_open(&ends[i], fd[i], CONN_TELEMETRY_MAX);
}

static void pair_close(struct conn ends[2])
{
    conn_close(&ends[0]);
    conn_close(&ends[1]);
}

/*
 * Send what @ends[0] has queued, and receive the next line at the peer: returns the length of its
 * "x".
 */
static size_t take(struct conn ends[2])
{
    struct json_object *line;
    size_t bytes;

    for (;;) {
        int sent = conn_flush(&ends[0]), got = conn_next(&ends[1], &line);

        if (got == 1)
            break;
        CU_ASSERT_EQUAL_FATAL(got, 0);
        CU_ASSERT_TRUE_FATAL(sent == 0 || sent == -EAGAIN);
        CU_ASSERT_EQUAL_FATAL(conn_fill(&ends[1]), 0);
    }
    bytes = strlen(emu_json_text(line, "x", ""));
    json_object_put(line);
    return bytes;
}

/* Events are queued behind the snapshot, as they are without one. */
static void conn_put_line__accepts_a_snapshot_of_the_largest_network(void)
{
    struct conn ends[2];
    char *line = line_make(LARGE);

    pair_open(ends);
    CU_ASSERT_EQUAL(conn_put_line(&ends[0], line, LARGE), 0);
    CU_ASSERT_EQUAL(conn_put(&ends[0], json_add_text(conn_event("e"), "x", "after")), 0);
    CU_ASSERT_EQUAL(take(ends), LARGE - 8);
    CU_ASSERT_EQUAL(take(ends), 5);
    CU_ASSERT_EQUAL(ends[0].out.bytes, 0);
    pair_close(ends);
    free(line);
}

static void conn_put__is_bounded_behind_a_line_and_without(void)
{
    for (int large = 0; large < 2; large++) {
        struct conn ends[2];
        char *line = line_make(LARGE);
        size_t before;
        int err = 0;

        pair_open(ends);
        line[1u << 20] = '\0'; /* events of a megabyte */
        if (large) {
            char *whole = line_make(LARGE);

            CU_ASSERT_EQUAL(conn_put_line(&ends[0], whole, LARGE), 0);
            free(whole);
        }
        before = ends[0].out.bytes;
        for (int i = 0; i < 100 && !err; i++)
            err = conn_put(&ends[0], json_add_text(conn_event("e"), "x", line + 6));
        CU_ASSERT_EQUAL(err, -ENOBUFS);
        CU_ASSERT_TRUE(ends[0].out.bytes - before <= CONN_OUT_MAX);
        CU_ASSERT_TRUE(ends[0].out.bytes - before > CONN_OUT_MAX - (2u << 20));
        pair_close(ends);
        free(line);
    }
}

/* json-c needs much more memory for a list than for any other three bytes of a request. */
static void conn_next__refuses_a_request_of_many_lists(void)
{
    for (uint32_t more = 0; more < 2; more++) {
        char text[4096] = "{\"x\":\"\\\"[[{{\",\"of\":[0";
        struct json_object *line = NULL;
        struct conn ends[2];

        for (uint32_t i = 0; i < CONN_CONTAINERS_MAX - 2 + more; i++)
            strcat(text, ",[]");
        strcat(text, "]}");
        pair_open(ends);
        ends[1].containers_max = CONN_CONTAINERS_MAX;
        CU_ASSERT_EQUAL(conn_put_line(&ends[0], text, strlen(text)), 0);
        CU_ASSERT_EQUAL(conn_put_line(&ends[0], "{}", 2), 0);
        CU_ASSERT_EQUAL(conn_flush(&ends[0]), 0);
        CU_ASSERT_EQUAL(conn_fill(&ends[1]), 0);
        CU_ASSERT_EQUAL(conn_next(&ends[1], &line), more ? -EBADMSG : 1);
        json_object_put(line);
        line = NULL;
        CU_ASSERT_EQUAL(conn_next(&ends[1], &line), 1); /* the next line is taken */
        json_object_put(line);
        pair_close(ends);
    }
}

/*
 * An agent host puts a request into an object of its own and forwards it. If the coordinator could
 * not parse this line, it would declare the host lost.
 */
static void conn_next__takes_a_request_of_nested_lists_when_it_is_forwarded(void)
{
    char text[1024] = "{\"x\":";
    struct json_object *line = NULL, *message;
    struct conn ends[2];

    memset(text + 5, '[', CONN_CONTAINERS_MAX - 1);
    memset(text + 5 + CONN_CONTAINERS_MAX - 1, ']', CONN_CONTAINERS_MAX - 1);
    strcat(text, "}");
    pair_open(ends);
    ends[1].containers_max = CONN_CONTAINERS_MAX;
    CU_ASSERT_EQUAL(conn_put_line(&ends[0], text, strlen(text)), 0);
    CU_ASSERT_EQUAL(conn_flush(&ends[0]), 0);
    CU_ASSERT_EQUAL(conn_fill(&ends[1]), 0);
    CU_ASSERT_EQUAL(conn_next(&ends[1], &line), 1);
    message = json_add_number(json_object_new_object(), "client", 1);
    json_object_object_add(message, "line", line);
    ends[1].containers_max = SIZE_MAX;
    CU_ASSERT_EQUAL(conn_put(&ends[0], message), 0);
    CU_ASSERT_EQUAL(conn_flush(&ends[0]), 0);
    CU_ASSERT_EQUAL(conn_fill(&ends[1]), 0);
    line = NULL;
    CU_ASSERT_EQUAL(conn_next(&ends[1], &line), 1);
    json_object_put(line);
    pair_close(ends);
}

static void conn_put_line__refuses_lines_too_long_for_readers(void)
{
    struct conn ends[2];
    char *line = line_make(CONN_TELEMETRY_MAX + 1);

    pair_open(ends);
    CU_ASSERT_EQUAL(conn_put_line(&ends[0], line, CONN_TELEMETRY_MAX + 1), -ENOBUFS);
    CU_ASSERT_EQUAL(ends[0].out.bytes, 0);
    pair_close(ends);
    free(line);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(conn_put_line__accepts_a_snapshot_of_the_largest_network),
        CASE(conn_put__is_bounded_behind_a_line_and_without),
        CASE(conn_next__refuses_a_request_of_many_lists),
        CASE(conn_next__takes_a_request_of_nested_lists_when_it_is_forwarded),
        CASE(conn_put_line__refuses_lines_too_long_for_readers),
        {NULL, NULL},
    };

    return test_run("conn", cases);
}
