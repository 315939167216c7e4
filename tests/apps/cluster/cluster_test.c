/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster_test.c - cluster files: their content is read, written and mapped to switches; errors
 * name the line; hosts detect that their files differ.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cluster/cluster.h"
#include "apps/cluster/links.h"
#include "tests/test.h"
#include "tests/fixtures/fabric.h"

#define TWO                   \
    "fabric lab\nkey none\n"  \
    "host alpha\nport eth0\n" \
    "host beta\nport eth0\n"

static const char whole[] = "# two hosts and a half\n"
                            "fabric 7\n"
                            "key /etc/lab.key # of all\n"
                            "silent 1500ms\n"
                            "\n"
                            "host alpha share=2\n"
                            "\tport 0000:3b:00.0 mac=02:00:00:00:00:0A\r\n"
                            "    port net_af_packet0,iface=eth1\n"
                            "    switches 5,0-1,3,2\n"
                            "host beta\n"
                            "    port eth0\n"
                            "    switches 4,6-7\n"
                            "host gamma.example_1\n"
                            "    port eth0\n"
                            "    port eth1\n"
                            "    switches 8-11\n"
                            "join gamma.example_1:1 alpha:0\n"
                            "join alpha:0 beta:0\n";

static const char canonical[] = "fabric 7\n"
                                "key /etc/lab.key\n"
                                "silent 1.5s\n"
                                "host alpha share=2\n"
                                "port 0000:3b:00.0 mac=02:00:00:00:00:0a\n"
                                "port net_af_packet0,iface=eth1\n"
                                "switches 0-3,5\n"
                                "host beta share=1\n"
                                "port eth0\n"
                                "switches 4,6-7\n"
                                "host gamma.example_1 share=1\n"
                                "port eth0\n"
                                "port eth1\n"
                                "switches 8-11\n"
                                "join alpha:0 beta:0\n"
                                "join alpha:0 gamma.example_1:1\n";

static struct cluster read_text(const char *text)
{
    struct cluster cluster = {.hosts = 0};
    char error[CLUSTER_ERROR_BYTES] = "";

    if (cluster_text(&cluster, "lab", text, strlen(text), error, sizeof error))
        printf("%s\n", error);
    CU_ASSERT_FATAL(cluster.hosts > 0);
    return cluster;
}

static void cluster_text__reads_all_and_prints_the_same(void)
{
    struct cluster cluster = read_text(whole), again;
    char text[sizeof canonical + 64] = "";
    uint32_t a, b;

    for (uint32_t i = 0; i < 2; i++) {
        FILE *to = fmemopen(text, sizeof text, "w");

        cluster_print(&cluster, to);
        fclose(to);
        CU_ASSERT_STRING_EQUAL(text, canonical);
        again = read_text(text);
        cluster_release(&cluster);
        cluster = again;
    }
    CU_ASSERT_EQUAL(cluster_fabric(&cluster), 7);
    CU_ASSERT_EQUAL(cluster.silent_ns, 1500000000);
    CU_ASSERT_EQUAL(cluster_host(&cluster, "gamma.example_1"), 2);
    CU_ASSERT_EQUAL(cluster_host(&cluster, "gamma"), CLUSTER_HOSTS_MAX);
    CU_ASSERT_EQUAL(cluster_links(&cluster, 2, 0), 1);
    cluster_link(&cluster, 2, 0, 0, &a, &b);
    CU_ASSERT(a == 1 && b == 0);
    cluster_link(&cluster, 0, 2, 0, &a, &b);
    CU_ASSERT(a == 0 && b == 1);
    /* no line names these links: the i-th ports are connected */
    CU_ASSERT_EQUAL(cluster_links(&cluster, 1, 2), 1);
    cluster_link(&cluster, 1, 2, 0, &a, &b);
    CU_ASSERT(a == 0 && b == 0);
    cluster_release(&cluster);
}

/* --- frames of a port ------------------------------------------------------------------ */

/* Sessions hold frames that arrived out of order. All together leave frames for receiving. */
static void links_session__leaves_frames_for_receiving(void)
{
    static const char *const port[] = {"", "port a\n", "port a\nport b\nport c\n"};
    static const uint8_t digest[CLUSTER_DIGEST_BYTES];
    static char text[4096];

    for (uint32_t hosts = 2; hosts <= CLUSTER_HOSTS_MAX; hosts++) {
        uint32_t ports = 1 + hosts % 2, held[3] = {0};
        struct cluster cluster;

        strcpy(text, "fabric 7\nkey none\n");
        for (uint32_t h = 0; h < hosts; h++)
            sprintf(text + strlen(text), "host h%u\n%s", h, port[ports]);
        cluster = read_text(text);
        for (uint32_t h = 1; h < hosts; h++)
            for (uint32_t i = 0; i < cluster_links(&cluster, 0, h); i++) {
                uint32_t window = links_session(&cluster, 0, h, i, digest, NULL).window;

                CU_ASSERT(window >= EMU_FRAME_WINDOW_LEAST && !(window & (window - 1)));
                CU_ASSERT_EQUAL(window == 1024, hosts == 2);
                held[i] += EMU_SESSION_FRAMES(window);
            }
        for (uint32_t p = 0; p < cluster.host[0].ports; p++)
            CU_ASSERT(held[p] && held[p] <= links_port(&cluster, 0, p).frames);
        cluster_release(&cluster);
    }
}

/* A link supports up to 64 sessions over one port. */
static void join__of_too_many_ports_is_refused(void)
{
    char text[8192] = "fabric 7\nkey none\n", error[CLUSTER_ERROR_BYTES] = "";
    struct cluster cluster;

    for (uint32_t h = 0; h < 10; h++) {
        sprintf(text + strlen(text), "host h%u\n", h);
        for (uint32_t p = 0; p < CLUSTER_PORTS_MAX; p++)
            sprintf(text + strlen(text), "port p%u\n", p);
    }
    for (uint32_t h = 1; h < 9; h++) /* 8 joins with each of 8 hosts, and one pair with h9 */
        for (uint32_t p = 0; p < CLUSTER_PORTS_MAX; p++)
            sprintf(text + strlen(text), "join h0:0 h%u:%u\n", h, p);
    CU_ASSERT_EQUAL(cluster_text(&cluster, "lab", text, strlen(text), error, sizeof error), -E2BIG);
    CU_ASSERT_STRING_EQUAL(error,
                           "lab: port 0 of host h0 is joined with 65 ports; 64 are possible");
    strcat(text, "join h0:1 h9:0\n");
    cluster = read_text(text);
    CU_ASSERT_EQUAL(cluster_sessions(&cluster, 0, 0), CLUSTER_HOSTS_MAX);
    cluster_release(&cluster);
}

/* --- errors ------------------------------------------------------------------------- */

#define BEGIN "fabric 7\nkey none\n"

static const struct {
    const char *text, *error;
} refused[] = {
    {"", "lab: the file has no host; a host is two lines: host NAME, port DEVICE"},
    {"host a\nport x\n", "lab: no line names the fabric; write, for example: fabric 7"},
    {"fabric 7\nhost a\nport x\n", "lab: no line names the key; write key FILE, or key none"},
    {"fabric 7\nfabric 8\n", "lab, line 2: fabric is given twice; give it once"},
    {"fabric a/b\n",
     "lab, line 1: fabric 'a/b': it must be a name of letters, digits, '.', '_' and "
     "'-', 63 characters at most"},
    {"fabric 7 8\n", "lab, line 1: '8' after fabric; nothing may follow it"},
    {"silent soon\n",
     "lab, line 1: silent 'soon': it must be a time from 10ms to 86400s, such as 2s"},
    {"silent 1ms\n",
     "lab, line 1: silent '1ms': it must be a time from 10ms to 86400s, such as 2s"},
    {"node 3\n", "lab, line 1: 'node' is unknown; a line begins with fabric, key, silent, host, "
                 "port, switches or join"},
    {"port x\n", "lab, line 1: port comes before the first host"},
    {BEGIN "host a\nhost b\n", "lab, line 4: host a has no port; it needs a line: port DEVICE"},
    {BEGIN "host a\n", "lab, line 3: host a has no port; it needs a line: port DEVICE"},
    {BEGIN "host a\nport x\nhost a\n",
     "lab, line 5: host a is given twice; give it all of its lines at once"},
    {BEGIN "host a share=0\n",
     "lab, line 3: 'share=0' after a host; only share=N may follow, from 1 to 1000"},
    {BEGIN "host a\nport x\nport x\n", "lab, line 5: port x is given twice at host a"},
    {BEGIN "host a\nport x mac=02:00\n", "lab, line 4: 'mac=02:00' after a port; only an address "
                                         "may follow, such as mac=02:00:00:00:00:01"},
    {BEGIN "host a\nport x mac=03:00:00:00:00:00\n",
     "lab, line 4: 'mac=03:00:00:00:00:00' after a port; only an address may follow, such as "
     "mac=02:00:00:00:00:01"},
    {BEGIN "host a\nport x mac=02:00:00:00:00:01\nhost b\nport x mac=02:00:00:00:00:01\n",
     "lab, line 6: this mac address belongs to port 0 of host a"},
    {BEGIN "host a\nport x\nfabric 8\n",
     "lab, line 5: fabric comes after a host; write it before the first one"},
    {BEGIN "host a\nport x\nswitches 3-1\n",
     "lab, line 5: switches '3-1': it must be like 0-3,8, or auto"},
    {BEGIN "host a\nport x\nswitches 1,\n",
     "lab, line 5: switches '1,': it must be like 0-3,8, or auto"},
    {BEGIN "host a\nport x\nswitches 0-3,2\n", "lab, line 5: host a has a switch of 2-2 twice"},
    {BEGIN "host a\nport x\nswitches 0-3\nhost b\nport x\nswitches 3-5\n",
     "lab, line 8: switch 3 is on host a already"},
    {BEGIN "host a\nport x\nswitches auto\nswitches 1\n",
     "lab, line 6: switches is given twice at host a; write one line"},
    {BEGIN "host a\nport x\nhost b\nport x\nswitches 3-5\n",
     "lab: host b lists its switches and host a does not; list them for all hosts, or for none"},
    {TWO "join alpha:0 delta:0\n", "lab, line 7: there is no host 'delta' in this file"},
    {TWO "join alpha:0 beta:1\n",
     "lab, line 7: host beta has 1 port, from 0 on: there is no port 1"},
    {TWO "join alpha:0 alpha:0\n", "lab, line 7: host alpha is joined with itself"},
    {TWO "join alpha:0 beta:0\njoin beta:0 alpha:0\n",
     "lab, line 8: these ports are joined already"},
    {TWO "join alpha beta\n",
     "lab, line 7: join 'alpha': it must be HOST:PORT HOST:PORT, ports from 0"},
    {"fabric \x01\n", "lab, line 1: the line has control character 1; a cluster file is text"},
};

static void cluster_text__names_the_error(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct cluster cluster;
        char error[CLUSTER_ERROR_BYTES] = "";

        CU_ASSERT_EQUAL(cluster_text(&cluster, "lab", refused[i].text, strlen(refused[i].text),
                                     error, sizeof error),
                        -EINVAL);
        if (strcmp(error, refused[i].error) != 0)
            printf("row %zu: %s\n", i, error);
        CU_ASSERT_STRING_EQUAL(error, refused[i].error);
    }
}

/* One host, port or range above the limit is refused; the limit itself is accepted. */
static void cluster_text__has_limits(void)
{
    static char text[1 << 16];
    struct cluster cluster;
    char error[CLUSTER_ERROR_BYTES];

    for (uint32_t over = 0; over < 2; over++) {
        size_t end = (size_t)sprintf(text, BEGIN);

        for (uint32_t h = 0; h < CLUSTER_HOSTS_MAX + over; h++) {
            end += (size_t)sprintf(text + end, "host h%u\nswitches ", h);
            for (uint32_t i = 0; i < CLUSTER_RANGES_MAX; i++)
                end += (size_t)sprintf(text + end, "%s%u", i ? "," : "",
                                       2 * (CLUSTER_RANGES_MAX * h + i));
            for (uint32_t i = 0; i < CLUSTER_PORTS_MAX; i++)
                end += (size_t)sprintf(text + end, "\nport p%u", i);
            end += (size_t)sprintf(text + end, "\n");
        }
        CU_ASSERT_EQUAL(cluster_text(&cluster, "lab", text, end, error, sizeof error),
                        over ? -E2BIG : 0);
        if (!over)
            cluster_release(&cluster);
    }
    CU_ASSERT(strstr(error, "more than 64 hosts") != NULL);
    snprintf(text, sizeof text,
             BEGIN "host a\nport 1\nport 2\nport 3\nport 4\nport 5\nport 6\n"
                   "port 7\nport 8\nport 9\n");
    CU_ASSERT_EQUAL(cluster_text(&cluster, "lab", text, strlen(text), error, sizeof error), -E2BIG);
    CU_ASSERT_STRING_EQUAL(error, "lab, line 12: host a has more than 8 ports");
}

/* --- a cluster and a network -------------------------------------------------------- */

static int place(const char *text, const char *spec, uint32_t *host_of, char *error)
{
    struct cluster cluster = read_text(text);
    struct topo_graph *graph = fixture_graph(spec, 64);
    int err = cluster_place(&cluster, graph, host_of, error, CLUSTER_ERROR_BYTES);

    topo_free(graph);
    cluster_release(&cluster);
    return err;
}

static void cluster_place__follows_the_file(void)
{
    uint32_t host_of[64], nodes[2] = {0};
    char error[CLUSTER_ERROR_BYTES] = "";
    static const uint32_t named[] = {0, 0, 0, 0, 1, 0, 1, 1, 2, 2, 2, 2};

    CU_ASSERT_EQUAL(place(whole, "kary:2,3", host_of, error), 0);
    CU_ASSERT_EQUAL(memcmp(host_of, named, sizeof named), 0);
    CU_ASSERT_EQUAL(place(whole, "kary:4,2", host_of, error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "host gamma.example_1 has switch 11, but kary:4,2 has only "
                                  "switches 0 to 7");
    CU_ASSERT_EQUAL(place(whole, "kary:2,4", host_of, error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "switch 12 of kary:2,4 is on no host");
    CU_ASSERT_EQUAL(place(TWO, "kary:4,2", host_of, error), 0);
    for (uint32_t s = 0; s < 8; s++)
        nodes[host_of[s] & 1]++;
    CU_ASSERT(nodes[0] == 4 && nodes[1] == 4);
    CU_ASSERT_EQUAL(place(TWO, "kary:4,1", host_of, error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "2 hosts are too many for 1 switch: each must have one");
}

/* --- agreement of hosts ------------------------------------------------------------- */

static void digest_of(const char *text, const char *spec, const char *set, uint64_t seed,
                      uint8_t *ret)
{
    struct fabric_config config = {.seed = seed};
    struct cluster cluster = read_text(text);
    struct topo_graph *graph = fixture_graph(spec, 64);

    config.graph = graph;
    fixture_profile(&config.profile, "qsnet3", set);
    CU_ASSERT_EQUAL(cluster_digest(&cluster, &config, ret), 0);
    topo_free(graph);
    cluster_release(&cluster);
}

static void cluster_digest__differs_when_hosts_do(void)
{
    uint8_t digest[6][CLUSTER_DIGEST_BYTES], again[CLUSTER_DIGEST_BYTES];

    digest_of(TWO, "kary:4,2", NULL, 1, digest[0]);
    digest_of(TWO, "kary:4,2", NULL, 2, digest[1]);
    digest_of(TWO, "kary:2,4", NULL, 1, digest[2]);
    digest_of(TWO, "kary:4,2", "combining=switch", 1, digest[3]);
    digest_of(TWO "join alpha:0 beta:0\n", "kary:4,2", NULL, 1, digest[4]);
    digest_of(whole, "kary:4,2", NULL, 1, digest[5]);
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t j = 0; j < i; j++)
            for (uint32_t at = 0; at < CLUSTER_DIGEST_BYTES; at += 8)
                CU_ASSERT(memcmp(&digest[i][at], &digest[j][at], 8) != 0);
    digest_of("# the same, written otherwise\n" TWO "switches auto\n", "kary:4,2", NULL, 1, again);
    CU_ASSERT_EQUAL(memcmp(again, digest[0], sizeof again), 0);
}

/* Return the number of open sockets of this process. */
static uint32_t sockets_open(void)
{
    uint32_t count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        struct stat st;

        count += fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
    }
    return count;
}

/* A port that cannot be opened: the sockets of its host links are closed. */
/* Write a key file with these bytes and this mode. Returns the result of cluster_key(). */
static void links_open__leaves_nothing_on_an_error(void)
{
    struct cluster cluster = read_text("fabric lab\nkey none\n"
                                       "host alpha\nport net_none0\n"
                                       "host beta\nport net_none0\n");
    struct topo_graph *graph = fixture_graph("kary:2,2", 64);
    struct fabric_config config = {.graph = graph};
    char error[1024] = "";
    uint32_t host_of[4] = {0, 0, 1, 1}, sockets = 0;
    struct links *links;

    fixture_profile(&config.profile, "oq2004", NULL);
    for (int i = 0; i < 2; i++) { /* the first call loads DPDK */
        sockets = sockets_open();
        CU_ASSERT_NOT_EQUAL(links_open(&links, &cluster, 0, &config, host_of, error, sizeof error),
                            0);
    }
    CU_ASSERT_EQUAL(sockets_open(), sockets);
    topo_free(graph);
    cluster_release(&cluster);
}

static int key_of(const char *text, size_t bytes, mode_t mode, uint8_t *key, char *error)
{
    char path[] = "/tmp/cluster_test.XXXXXX";
    struct cluster cluster = read_text(TWO);
    int fd = mkstemp(path), err;

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL_FATAL(write(fd, text, bytes), (ssize_t)bytes);
    CU_ASSERT_EQUAL_FATAL(fchmod(fd, mode), 0);
    close(fd);
    strcpy(cluster.key, path);
    err = cluster_key(&cluster, key, error, CLUSTER_ERROR_BYTES);
    unlink(path);
    cluster_release(&cluster);
    return err;
}

static void cluster_key__must_be_private(void)
{
    static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
    uint8_t key[CLUSTER_KEY_BYTES], raw[CLUSTER_KEY_BYTES];
    char error[CLUSTER_ERROR_BYTES] = "";
    struct cluster cluster = read_text(TWO);

    for (uint32_t i = 0; i < CLUSTER_KEY_BYTES; i++)
        raw[i] = (uint8_t)i;
    CU_ASSERT_EQUAL(key_of(hex, sizeof hex - 1, 0600, key, error), 0);
    CU_ASSERT_EQUAL(memcmp(key, raw, sizeof raw), 0);
    memset(key, 0, sizeof key);
    CU_ASSERT_EQUAL(key_of((const char *)raw, sizeof raw, 0400, key, error), 0);
    CU_ASSERT_EQUAL(memcmp(key, raw, sizeof raw), 0);
    CU_ASSERT_EQUAL(key_of(hex, sizeof hex - 1, 0640, key, error), -EACCES);
    CU_ASSERT_EQUAL(key_of(hex, sizeof hex - 1, 0604, key, error), -EACCES);
    CU_ASSERT_EQUAL(key_of(hex, sizeof hex - 3, 0600, key, error), -EINVAL);
    CU_ASSERT_EQUAL(key_of("", 0, 0600, key, error), -EINVAL);
    CU_ASSERT_EQUAL(cluster_key(&cluster, key, error, sizeof error), -ENOENT);
    strcpy(cluster.key, "/nowhere/at/all");
    CU_ASSERT_EQUAL(cluster_key(&cluster, key, error, sizeof error), -EIO);
    cluster_release(&cluster);
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(links_session__leaves_frames_for_receiving),
        CASE(join__of_too_many_ports_is_refused),
        CASE(cluster_text__reads_all_and_prints_the_same),
        CASE(cluster_text__names_the_error),
        CASE(cluster_text__has_limits),
        CASE(cluster_place__follows_the_file),
        CASE(cluster_digest__differs_when_hosts_do),
        CASE(links_open__leaves_nothing_on_an_error),
        CASE(cluster_key__must_be_private),
        {NULL, NULL},
    };

    return test_run("cluster", cases);
}
