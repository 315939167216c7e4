/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * web.c - the server of the page: requests of browsers, and data of the fabric.
 *
 * The server is the real one, with libmicrohttpd, on this thread. The input contains what browsers
 * and the fabric send. When the server would sleep, the next line of the input is executed (the
 * linker replaces poll()), so a run depends only on its input, which also advances the time. A line
 * begins with a character:
 *   A to P      send the rest of the line as that browser, which connects first if necessary
 *   a to h      send the rest as the fabric, on its connection of that number
 *   -X          send the rest as X, without the end of the line
 *   ~X /X <X    X closes its connection; shuts it down for sending; reads
 *   R -R ~R     the supervisor sends the last report, with or without a line end; closes
 *   ! _ .       a second passes; the fabric stops listening; the server is told to end
 *   ,           before any of these: execute the next line as well before the server runs
 *
 * A line of a browser gets the line end of HTTP. The token is TOKEN, the port PORT.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "apps/control/paths.h"
#include "apps/web/internal.h"
#include "tests/fuzz/fuzz.h"

#define BROWSERS   16 /* A to P */
#define LINKS      (WEB_LINKS + 1)
#define SAID_BYTES (1u << 16) /* bytes sent by a browser that are checked */
#define TOKEN      "0123456789abcdef0123456789abcdef"
#define PORT       8080
#define SECOND_NS  UINT64_C(1000000000)

struct browser {
    int fd;     /* -1: not connected */
    bool heard; /* it has received part of a reply */
    char said[SAID_BYTES];
    size_t bytes;
};

/* The fabric's end of a connection from the server. */
struct link {
    int fd; /* -1: closed */
    struct emu_json_buf in;
    bool asked; /* its only request has arrived */
};

/* Global, because the replaced library functions have no argument for it. */
static struct fixture {
    struct browser browser[BROWSERS];
    struct link link[LINKS]; /* open connections first, in order */
    unsigned links;
    struct sockaddr_un address;
    socklen_t address_bytes;
    int signal_fd;
    int report_fd; /* -1: closed */
    bool deaf;     /* the fabric refuses connections */
    /* the fabric or the report has sent the token, so browsers may receive it */
    bool token_sent;
    const char *at;
    const char *end;
} fixture;

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* --- invariants --------------------------------------------------------------------- */

static bool contains(const char *text, size_t bytes, const char *word)
{
    return memmem(text, bytes, word, strlen(word));
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

/* Return whether the browser has sent the token, perhaps with characters as %XX. */
static bool said_token(const struct browser *browser)
{
    static char plain[SAID_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < browser->bytes; i++) {
        const char *at = browser->said + i;
        bool coded = *at == '%' && i + 2 < browser->bytes && hex_digit(at[1]) >= 0 &&
                     hex_digit(at[2]) >= 0;

        plain[used++] = coded ? (char)(hex_digit(at[1]) * 16 + hex_digit(at[2])) : *at;
        i += coded ? 2 : 0;
    }
    return contains(plain, used, TOKEN);
}

/* Return whether the first request of a browser has a single origin, that of another page. */
static bool is_foreign(const struct browser *browser)
{
    static char header[SAID_BYTES + 1];
    size_t bytes = browser->bytes;
    const char *names = header;

    for (size_t i = 0; i + 2 < bytes; i++) /* find the end of the request as lenient servers do */
        if (browser->said[i] == '\n' &&
            (browser->said[i + 1] == '\n' || !memcmp(browser->said + i + 1, "\r\n", 2)))
            bytes = i + 1;
    memcpy(header, browser->said, bytes);
    header[bytes] = '\0';
    for (unsigned origins = 0; (names = strcasestr(names, "origin")); names++)
        if (++origins > 1)
            return false;
    return strstr(header, "\r\nOrigin: null\r\n");
}

/*
 * Check that only requests with the token and with our host name get a reply with status 200, and
 * that no reply contains the token.
 */
static void check_answer(struct browser *browser, const char *text, size_t bytes)
{
    bool first = !browser->heard && bytes;
    bool ours = contains(browser->said, browser->bytes, "127.0.0.1:8080") ||
                contains(browser->said, browser->bytes, "localhost:8080");
    bool full = browser->bytes == SAID_BYTES;

    fuzz_must(fixture.token_sent || !contains(text, bytes, TOKEN), "no reply contains the token");
    if (contains(text, bytes, "HTTP/1.1 200"))
        fuzz_must(full || (ours && said_token(browser)),
                  "only a browser with the token gets status 200");
    if (first && strncmp(text, "HTTP/1.1 200", 12) == 0)
        fuzz_must(!is_foreign(browser), "no other page gets status 200");
    browser->heard |= first;
}

/* Check that a request to the fabric is one of the page's, with no other fields. */
static void check_request(struct json_object *ask)
{
    static const struct {
        const char *cmd, *fields[4];
    } may[] = {{"faults", {NULL}},
               {"status", {NULL}},
               {"report", {NULL}},
               {"check", {NULL}},
               {"fault", {"fault"}},
               {"fault_clear", {"fault"}},
               {"fault_kinds", {"where", "for"}},
               {"pace", {"who", "hold", "every_ms", "for_ms"}},
               {"subscribe", {"telemetry", "fold"}}};
    const char *cmd = emu_json_text(ask, "cmd", "");
    size_t i = 0;

    while (i < sizeof may / sizeof may[0] && strcmp(may[i].cmd, cmd) != 0)
        i++;
    fuzz_must(i < sizeof may / sizeof may[0],
              "the fabric gets only requests that the page may make");
    json_object_object_foreach(ask, key, value)
    {
        bool known = strcmp(key, "cmd") == 0;

        (void)value;
        for (unsigned k = 0; k < 4 && may[i].fields[k]; k++)
            known |= strcmp(key, may[i].fields[k]) == 0;
        fuzz_must(known, "a request to the fabric has only known fields");
    }
}

/* --- browsers ----------------------------------------------------------------------- */

static void browser_close(struct browser *browser)
{
    if (browser->fd >= 0)
        close(browser->fd);
    browser->fd = -1;
    browser->bytes = 0;
    browser->heard = false;
}

static void browser_read(struct browser *browser)
{
    static char text[1u << 18];
    size_t used = 0;
    ssize_t got;

    while (browser->fd >= 0 && used < sizeof text &&
           (got = recv(browser->fd, text + used, sizeof text - used, MSG_DONTWAIT)) > 0)
        used += (size_t)got;
    check_answer(browser, text, used);
}

static void browser_send(struct browser *browser, const char *text, size_t bytes, bool line)
{
    static char copy[SAID_BYTES];
    size_t room = SAID_BYTES - browser->bytes;

    bytes = bytes < SAID_BYTES - 2 ? bytes : SAID_BYTES - 2;
    memcpy(copy, text, bytes);
    memcpy(copy + bytes, "\r\n", 2);
    bytes += line ? 2 : 0;
    if (browser->fd < 0) {
        browser->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        fuzz_must(browser->fd >= 0, "a browser can create a socket");
        room = SAID_BYTES;
        if (connect(browser->fd, (struct sockaddr *)&fixture.address, fixture.address_bytes)) {
            browser_close(browser);
            return;
        }
    }
    if (send(browser->fd, copy, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        browser_read(browser);
        return;
    }
    room = bytes < room ? bytes : room;
    memcpy(browser->said + browser->bytes, copy, room);
    browser->bytes += room;
}

/* --- the fabric --------------------------------------------------------------------- */

/* Read the request of a connection. */
static void link_read(struct link *link)
{
    struct json_object *ask;
    int got;

    if (link->fd < 0 || link == fixture.link) /* the first connection sends no request */
        return;
    while (emu_json_read(&link->in, link->fd, NULL, MSG_DONTWAIT) > 0)
        continue;
    while ((got = emu_json_next(&link->in, WEB_BODY_BYTES * 32, SIZE_MAX, &ask)) == 1) {
        fuzz_must(!link->asked, "a connection has only one request");
        link->asked = true;
        check_request(ask);
        json_object_put(ask);
    }
    fuzz_must(got == 0, "a request to the fabric is an object");
}

static void link_close(struct link *link)
{
    link_read(link);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    emu_json_free(&link->in);
}

/* Remove the connections that the server has closed. */
static void links_settle(void)
{
    unsigned kept = 1;

    for (unsigned i = 1; i < fixture.links; i++) {
        struct pollfd fd = {.fd = fixture.link[i].fd, .events = POLLRDHUP};

        link_read(&fixture.link[i]);
        if (fixture.link[i].fd >= 0 && __real_poll(&fd, 1, 0) > 0)
            link_close(&fixture.link[i]);
        if (fixture.link[i].fd >= 0)
            fixture.link[kept++] = fixture.link[i];
    }
    fixture.links = fixture.links ? kept : 0;
}

/* Replaces the one in apps/control/paths.c. */
int paths_connect(int *fd, pid_t *owner, const char *name, char *error, size_t error_bytes)
{
    int pair[2];

    (void)owner, (void)name;
    if (fixture.deaf) {
        strncpy(error, "nobody listens", error_bytes);
        return -ECONNREFUSED;
    }
    links_settle();
    fuzz_must(fixture.links < LINKS, "the server has at most LINKS connections to the fabric");
    fuzz_must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
              "a pair of sockets can be created");
    fixture.link[fixture.links++] = (struct link){.fd = pair[1]};
    *fd = pair[0];
    return 0;
}

static void link_send(struct link *link, const char *text, size_t bytes)
{
    fixture.token_sent |= contains(text, bytes, TOKEN);
    if (link->fd >= 0 && send(link->fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        link_read(link);
}

/* --- the input ---------------------------------------------------------------------- */

static void ring(int fd)
{
    uint64_t one = 1;

    fuzz_must(write(fd, &one, sizeof one) == sizeof one || errno == EAGAIN,
              "an eventfd can be written");
}

static void report_close(void)
{
    if (fixture.report_fd >= 0)
        close(fixture.report_fd);
    fixture.report_fd = -1;
}

static void report(const char *text, size_t bytes)
{
    fixture.token_sent |= contains(text, bytes, TOKEN);
    if (fixture.report_fd >= 0 && write(fixture.report_fd, text, bytes) < 0)
        report_close();
}

static struct browser *browser_of(char letter)
{
    return letter >= 'A' && letter < 'A' + BROWSERS ? &fixture.browser[letter - 'A'] : NULL;
}

static struct link *link_of(char letter)
{
    return letter >= 'a' && letter <= 'h' && (unsigned)(letter - 'a') < fixture.links
               ? &fixture.link[letter - 'a']
               : NULL;
}

/* Send @text as browser or connection @letter; with @line also the line end that follows it. */
static void send_as(char letter, const char *text, size_t bytes, bool line)
{
    if (browser_of(letter))
        browser_send(browser_of(letter), text, bytes, line);
    else if (link_of(letter))
        link_send(link_of(letter), text, bytes + line);
    else if (letter == 'R')
        report(text, bytes + line);
}

/* Do @what (~, / or <) to the browser or connection @letter. */
static void do_to(char what, char letter)
{
    struct browser *browser = browser_of(letter);
    struct link *link = link_of(letter);
    int fd = browser ? browser->fd : link ? link->fd : -1;

    if (what == '/' && fd >= 0)
        shutdown(fd, SHUT_WR);
    else if (what == '<' && browser)
        browser_read(browser);
    else if (what == '~' && browser)
        browser_close(browser);
    else if (what == '~' && link)
        link_close(link);
    else if (what == '~' && letter == 'R')
        report_close();
}

/* Execute a line of the input. @line: a line end follows it in the input. */
static void do_line(const char *at, size_t bytes, bool line)
{
    if (!bytes)
        return;
    if (isalpha((unsigned char)*at))
        send_as(*at, at + 1, bytes - 1, line);
    else if (*at == '-' && bytes > 1)
        send_as(at[1], at + 2, bytes - 2, false);
    else if (bytes > 1)
        do_to(*at, at[1]);
    else if (*at == '!')
        fuzz_now_ns += SECOND_NS;
    else if (*at == '_')
        fixture.deaf = true;
    else if (*at == '.')
        ring(fixture.signal_fd);
}

/* Replaces sleeping: execute the next line; after the last one, tell the server to end. */
static void do_next(void)
{
    bool more = true;

    links_settle();
    if (fixture.at == fixture.end)
        ring(fixture.signal_fd);
    while (more && fixture.at < fixture.end) {
        const char *line = fixture.at;
        const char *end = memchr(line, '\n', (size_t)(fixture.end - line));
        size_t bytes = (size_t)((end ? end : fixture.end) - line);

        fixture.at = end ? end + 1 : fixture.end;
        more = *line == ',';
        do_line(line + more, bytes - more, end);
    }
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int ready = __real_poll(fds, count, 0);

    if (ready || !timeout_ms)
        return ready;
    do_next();
    return __real_poll(fds, count, 0);
}

/* --- a run -------------------------------------------------------------------------- */

static int listen_somewhere(void)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    fixture.address_bytes = sizeof fixture.address;
    fuzz_must(fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof any.sun_family) &&
                  !listen(fd, BROWSERS) &&
                  !getsockname(fd, (struct sockaddr *)&fixture.address, &fixture.address_bytes),
              "a socket can listen");
    return fd;
}

static void begin(struct web *web, const uint8_t *data, size_t bytes)
{
    int pipe[2];

    fuzz_now_ns = 1000 * SECOND_NS;
    for (unsigned i = 0; i < BROWSERS; i++) {
        fixture.browser[i].fd = -1;
        fixture.browser[i].bytes = 0;
        fixture.browser[i].heard = false;
    }
    fixture.links = 0;
    fixture.deaf = fixture.token_sent = false;
    fixture.at = (const char *)data;
    fixture.end = fixture.at + bytes;
    fixture.signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fuzz_must(fixture.signal_fd >= 0 && !pipe2(pipe, O_CLOEXEC | O_NONBLOCK), "a pipe");
    fixture.report_fd = pipe[1];
    *web = WEB_NONE;
    web->listen_fd = listen_somewhere();
    web->port = PORT;
    web->parent_fd = pipe[0];
    memcpy(web->token, TOKEN, sizeof TOKEN);
}

/* Check that the server, which has ended, has left no connection or descriptor open. */
static void check_end(struct web *web, int fd_before)
{
    char byte;
    int fd;

    for (unsigned i = 0; i < fixture.links; i++) {
        link_read(&fixture.link[i]);
        fuzz_must(fixture.link[i].fd < 0 || recv(fixture.link[i].fd, &byte, 1, MSG_DONTWAIT) == 0 ||
                      errno == ECONNRESET,
                  "no connection to the fabric is left open");
        link_close(&fixture.link[i]);
    }
    for (unsigned i = 0; i < BROWSERS; i++) {
        browser_read(&fixture.browser[i]);
        browser_close(&fixture.browser[i]);
    }
    fuzz_must(web->listen_fd < 0, "the server has closed its listening socket");
    if (web->parent_fd >= 0)
        close(web->parent_fd);
    report_close();
    close(fixture.signal_fd);
    fd = dup(STDERR_FILENO);
    fuzz_must(fd == fd_before, "no descriptor is left open");
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct web web;
    char error[512] = "";
    int before = dup(STDERR_FILENO);

    close(before);
    signal(SIGPIPE, SIG_IGN);
    begin(&web, data, bytes);
    fuzz_must(web_serve(&web, "fuzz", fixture.signal_fd, NULL, error, sizeof error) == 0, error);
    check_end(&web, before);
    return 0;
}
