/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * goal_test.c - GOAL files: what the parser accepts and refuses, and when operations start and end.
 * Times are those of kary:4,1, a switch with four nodes, with profile oq2004.
 */
#include "tests/test.h"

#include <errno.h>
#include <string.h>

#include "apps/traffic/goal/goal.h"
#include "apps/traffic/goal/node.h"
#include "apps/traffic/run.h"
#include "nic/host/base/wire.h"
#include "tests/apps/traffic/draw.h"

#define NS UINT64_C(1000)

/* Time from the start of a send until its one segment of @payload bytes is in memory. */
static uint64_t flight_ps(uint64_t payload)
{
    return 2600 * NS + 2 * 20 * NS + 90 * NS + (16 + payload) * 800;
}

/* --- the parser --------------------------------------------------------------------- */

static struct goal *parse(const char *text)
{
    struct goal *goal = NULL;
    char error[512] = "";

    CU_ASSERT_FATAL(goal_parse(&goal, "f", text, strlen(text), error, sizeof error) == 0);
    return goal;
}

static void goal_parse__reads_all_of_the_grammar(void)
{
    struct goal *goal = parse("/* first\n line */ num_ranks 3 // second\nrank 2 { }\nrank 0 {\n"
                              "  a1_B: send 10b to 1 tag 7 cpu 2 nic 3\n"
                              "\trecv 20 b from -1 tag -1 /* x\n y */ nic 1\r\n"
                              "late requires tag // a label may have the name of an option\n"
                              "tag irequires a1_B\n tag:calc 5 nic 2 cpu 255\n late : calc 0 }\n"
                              "rank 1\n{\nrecv 10b from 0 tag 4294967294}");

    CU_ASSERT(goal->ranks == 3 && goal->ops == 5 && goal->messages == 1 && goal->pairs == 1);
    CU_ASSERT(goal->rank[0].ops == 4 && goal->rank[0].cpus == 256 && goal->rank[2].ops == 0);
    CU_ASSERT(goal->rank[1].ops == 1 && goal->rank[1].first == 4 && goal->rank[1].cpus == 1);
    const struct goal_op *op = goal->op;
    CU_ASSERT(op[0].kind == GOAL_SEND && op[0].amount == 10 && op[0].peer == 1 && op[0].tag == 7 &&
              op[0].cpu == 2 && op[0].line == 5);
    CU_ASSERT(op[1].kind == GOAL_RECV && op[1].peer == GOAL_ANY && op[1].tag == GOAL_ANY);
    CU_ASSERT(op[2].kind == GOAL_CALC && op[2].amount == 5 && op[2].cpu == 255 && op[2].line == 10);
    CU_ASSERT(op[4].tag == UINT32_MAX - 1);
    CU_ASSERT(goal->waits[0] == 0 && goal->waits[2] == 1 && goal->waits[3] == 1);
    CU_ASSERT(goal->edge[goal->edge_first[0]] == 2 * 2 + GOAL_EDGE_START);
    CU_ASSERT(goal->edge[goal->edge_first[2]] == 2 * 3);
    CU_ASSERT(goal->message[0].op == 0 && goal->message[0].from == 0);
    goal_free(goal);
}

#define GROUP "num_ranks 3\ngroup 1 ranks 0-1\nrank 0 {\n"

static const struct {
    const char *text, *error;
} wrong[] = {
    {"", "f, line 1: found the end of the file, but expected num_ranks N"},
    {"\nrank 0 {", "f, line 2: found 'rank', but expected num_ranks N"},
    {"num_ranks", "f, line 1: found the end of the file, but expected a number of ranks, a"},
    {"num_ranks 0", "'0', but expected a number of ranks from 1 on"},
    {"num_ranks 65537", "'65537', but expected a number of ranks from 0 to 65536"},
    {"num_ranks 99999999999999999999999", "but expected a number of ranks from 0 to 65536"},
    {"num_ranks 0x2", "'0x2', but expected a number of ranks from 1 on"},
    {"num_ranks 1", "the file ends without a block of rank 0; a rank without operations needs"},
    {"num_ranks 1\nnum_ranks 1", "f, line 2: found 'num_ranks', but expected rank K {"},
    {"num_ranks 1\nrank 1 {}", "line 2: found '1', but expected a rank from 0 to 0"},
    {"num_ranks 1\nrank 0\n calc", "line 3: found 'calc', but expected {"},
    {"num_ranks 1\nrank 0 {\n", "line 2: the block that begins here has no end: } is missing"},
    {"num_ranks 2\nrank 0 {\nrank 1 {", "line 3: a block begins inside the block of line 2"},
    {"num_ranks 2\nrank 0 { }\nrank 1 { }", "line 3: the file ends, and no rank has an operation"},
    {"num_ranks 2\nrank 0 {}\nrank 0 {}", "line 3: rank 0 has a block already, in line 2"},
    {"num_ranks 1 /*\n", "line 1: the comment that begins here has no end"},
    {"num_ranks 1\nrank 0 {\n;}", "line 3: found ';}', but expected send, recv, calc, coll,"},
    {"num_ranks 1\nrank 0 {\nl1 }", "but expected a colon, requires or irequires behind the la"},
    {"num_ranks 1\nrank 0 {\nl1: foo}", "'foo}', but expected send, recv, calc or co"},
    {"num_ranks 1\nrank 0 {\nl1: rank}", "'rank}', but expected send, recv, calc or co"},
    {"num_ranks 1\nrank 0 {\nl1 requires 3}", "'3}', but expected a label"},
    {"num_ranks 1\nrank 0 {\ncalc 1\nl1 requires l1}", "no operation with the label 'l1'; depe"},
    {"num_ranks 1\nrank 0 {\nx: calc 1\nx: calc 2}", "line 4: the label 'x' exists already, in l"},
    {"num_ranks 1\nrank 0 {\ncalc}", "'}', but expected a time in ns, a decimal number"},
    {"num_ranks 1\nrank 0 {\ncalc 5000000000000000}", "a time in ns from 0 to 4611686018427387"},
    {"num_ranks 1\nrank 0 {\ncalc 5 tag 1}", "'tag', but expected the end of the line, o"},
    {"num_ranks 1\nrank 0 {\ncalc 5 cpu 256}", "'256}', but expected a cpu from 0 to 255"},
    {"num_ranks 1\nrank 0 {\ncalc 5 cpu 1 cpu 1}", "'cpu', but expected the end of the l"},
    {"num_ranks 1\nrank 0 {\ncalc 5 calc 5}", "'calc', but expected the end of the line"},
    {"num_ranks 1\nrank 0 {\nx requires x y}", "'y}', but expected the end of the line"},
    {"num_ranks 1\nrank 0 {\nsend -1b to 0}", "'-1b', but expected a size in bytes, a d"},
    {"num_ranks 1\nrank 0 {\nsend 549755813889b to 0}", "a size in bytes from 0 to 549755813888"},
    {"num_ranks 1\nrank 0 {\nsend 8 to 0}", "'to', but expected b (for bytes)"},
    {"num_ranks 1\nrank 0 {\nsend 8kb to 0}", "'kb', but expected b (for bytes)"},
    {"num_ranks 1\nrank 0 {\nsend 8b from 0}", "'from', but expected to RANK"},
    {"num_ranks 1\nrank 0 {\nrecv 8b to 0}", "'to', but expected from RANK"},
    {"num_ranks 1\nrank 0 {\nsend 8b to -1}", "'-1}', but expected a rank, a decimal nu"},
    {"num_ranks 1\nrank 0 {\nsend 8b to 1}", "'1}', but expected a rank from 0 to 0"},
    {"num_ranks 1\nrank 0 {\nsend 8b to 0 tag -1}", "'-1}', but expected a tag, a decima"},
    {"num_ranks 1\nrank 0 {\nrecv 8b from 0 tag 4294967295}", "a tag from 0 to 4294967294"},
    {"num_ranks 1\nrank 0 {\nrecv 8b from -12}", "'-12}', but expected a rank, a dec"},
    {"num_ranks 1\nrank 0 {\nrecv 8b from 0 nic}", "'}', but expected a nic, a decimal"},
    {"num_ranks 1\nrank 0 {\n\033[31m}", "line 3: found '?[31m}', but expected send, recv"},
    {"num_ranks 1\nrank 0 {\nx: calc 1\nx requires x}",
     "line 3: the operations in these lines wai"},
    {"num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb irequires a\n}",
     "wait for each other in a cycle, so none can start: 3, 4"},
    {"num_ranks 2\ngroup 1\n", "line 2: found the end of the line, but expected ranks R R-R"},
    {"num_ranks 2\ngroup 1 ranks 0", "line 2: a group has 2 ranks or more"},
    {"num_ranks 2\ngroup 1 ranks 0 2", "line 2: found '2', but expected a rank from 0 to 1"},
    {"num_ranks 3\ngroup 1 ranks 0 2 0", "line 2: rank 0 is twice in the group"},
    {"num_ranks 3\ngroup 1 ranks 0-2 1",
     "line 2: ranks 1-1 are not in order, or are in the group twice"},
    {"num_ranks 3\ngroup 1 ranks 2-1",
     "line 2: ranks 2-1 are not in order, or are in the group twice"},
    {"num_ranks 2\ngroup 1 ranks 0 1\ngroup 1 ranks 0 1", "line 3: the numbers of groups must asc"},
    {"num_ranks 2\nrank 0 { }\ngroup 1 ranks 0 1", "line 3: found 'group', but expected rank K"},
    {"num_ranks 2\nrank 0 {\ncoll barrier group 1\n}",
     "line 3: the file has no group 1; a group n"},
    {GROUP "coll alltoall 8b group 1", "line 4: found 'alltoall', but expected barrier, broadca"},
    {GROUP "coll barrier group 1 tag 1", "line 4: found 'tag', but expected the end of the lin"},
    {GROUP "coll allreduce 8b SUM F64 group 2", "line 4: the file has no group 2"},
    {GROUP "coll allreduce 9b SUM F64 group 1", "line 4: 9 bytes are not a vector of whole elemen"},
    {GROUP "coll allreduce 0b SUM F64 group 1", "line 4: 0 bytes are not a vector of whole elemen"},
    {GROUP "coll allreduce 8b ADD F64 group 1", "line 4: found 'ADD', but expected an operation"},
    {GROUP "coll allreduce 8b SUM F65 group 1", "line 4: found 'F65', but expected a type, such"},
    {GROUP "coll allreduce 8b BAND F64 group 1",
     "line 4: operation BAND does not apply to type F64"},
    {GROUP "coll reduce 8b SUM F64 group 1", "line 4: found 'group', but expected root RANK"},
    {GROUP "coll broadcast 8b root 2 group 1", "line 4: rank 2 is not in group 1 (line 2)"},
};

static void goal_parse__names_line_and_remedy_of_each_error(void)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct goal *goal = NULL;
        char error[512] = "";
        int err = goal_parse(&goal, "f", wrong[i].text, strlen(wrong[i].text), error, sizeof error);

        CU_ASSERT(err == -EINVAL && !goal);
        CU_ASSERT(strstr(error, wrong[i].error) != NULL);
        if (!strstr(error, wrong[i].error))
            printf("%zu: %s\n", i, error);
    }
}

static void goal_parse__refuses_the_binary_form(void)
{
    const char text[] = "\x7f\x10\0\0\0\0\0\0\1\0\0\0";
    struct goal *goal = NULL;
    char error[512] = "";

    CU_ASSERT(goal_parse(&goal, "f", text, sizeof text, error, sizeof error) == -EINVAL);
    CU_ASSERT(strstr(error, "f has the binary form of GOAL; give the text form") != NULL);
}

/* Every shorter or changed text is accepted or refused, with an error. */
static void goal_parse__survives_any_change(void)
{
    static const char text[] = "num_ranks 2\nrank 0 {\na: send 8b to 1 tag 2 cpu 1 nic 0\n"
                               "b: recv 8b from -1 tag -1 /* c */\nb requires a // d\n}\n"
                               "rank 1 {\ncalc 7\n}\n";
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < TEST_ALONE(20000u); i++) {
        char copy[sizeof text], error[512] = "";
        size_t bytes = i % 2 ? sizeof text - 1 : test_draw(&seed, 0, sizeof text - 1);
        struct goal *goal = NULL;

        memcpy(copy, text, sizeof text);
        for (uint64_t changes = test_draw(&seed, 0, 2); changes; changes--)
            copy[test_draw(&seed, 0, sizeof text - 2)] = (char)test_random(&seed);
        int err = goal_parse(&goal, "f", copy, bytes, error, sizeof error);
        CU_ASSERT(err ? error[0] && !goal : goal != NULL);
        goal_free(goal);
    }
}

/* --- playing ------------------------------------------------------------------------ */

/* Play @text on @topo: "qsnet:…" with profile qsnet3. Returns traffic_run()'s error. */
static int play(struct traffic_result *result, const char *topo, const char *text, uint32_t threads,
                char error[static 640])
{
    struct traffic_config config = draw_config_of(topo, "uniform");
    struct goal *goal = parse(text);

    if (strncmp(topo, "qsnet", 5) == 0)
        CU_ASSERT_FATAL(emu_profile_load(&config.fabric.profile, "qsnet3", error, 640) == 0);
    config.goal = goal;
    config.fabric.threads = threads;
    int err = traffic_run(result, &config, error, 640);
    traffic_pattern_release(&config.pattern);
    goal_free(goal);
    return err;
}

/* Check when the last and the first rank of @text ends. */
static void ends(const char *text, uint64_t last_ps, uint64_t first_ps)
{
    struct traffic_result result;
    char error[640] = "";

    CU_ASSERT_FATAL(play(&result, "kary:4,1", text, 1, error) == 0);
    CU_ASSERT_EQUAL(result.goal.finish_ps.most_ps, last_ps);
    CU_ASSERT_EQUAL(result.goal.finish_ps.least_ps, first_ps);
    if (result.goal.finish_ps.most_ps != last_ps || result.goal.finish_ps.least_ps != first_ps)
        printf("%s\n", text);
}

/* Check that @text ends in network @topo with -EPROTO or -EINVAL, and @why in the error. */
static void fails_in(const char *topo, const char *text, int want, const char *why)
{
    struct traffic_result result;
    char error[640] = "";

    CU_ASSERT_EQUAL(play(&result, topo, text, 1, error), want);
    CU_ASSERT(strstr(error, why) != NULL);
    if (!strstr(error, why))
        printf("%s\n", error);
}

static void fails(const char *text, int want, const char *why)
{
    fails_in("kary:4,1", text, want, why);
}

static void goal_player__cpus_run_ready_operations_in_order(void)
{
    ends("num_ranks 1\nrank 0 {\ncalc 5\ncalc 6\ncalc 0\n}", 11 * NS, 11 * NS);
    ends("num_ranks 1\nrank 0 {\ncalc 5 cpu 1\ncalc 6 cpu 200\n}", 6 * NS, 6 * NS);
    /* c is ready before b, which is before it in the file */
    ends("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 10\nc: calc 20 cpu 1\nd: calc 1\n"
         "b requires c\nd requires b\n}",
         31 * NS, 31 * NS);
    ends("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 10 cpu 1\nb requires a\n}", 15 * NS, 15 * NS);
    ends("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 10 cpu 1\nb irequires a\n}", 10 * NS, 10 * NS);
    ends("num_ranks 1\nrank 0 {\na: calc 5\nx: calc 0\nb: calc 9 cpu 1\nb irequires x\n"
         "b requires x\n}",
         14 * NS, 14 * NS);
}

static void goal_player__eager_messages_take_the_profiles_time(void)
{
    const char *one = "num_ranks 2\nrank 0 {\nsend %db to 1\n}\nrank 1 {\nrecv %db from 0\n}";
    const struct {
        int bytes;
        uint64_t wire; /* all segments, with two headers each */
    } sizes[] = {{0, 48}, {8, 56}, {192, 240}, {193, 256 + 33}, {416, 256 + 256}, {8192, 0}};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t wire = sizes[i].wire ? sizes[i].wire : 8192 + 64 + 32 * 36;
        char text[128];

        snprintf(text, sizeof text, one, sizes[i].bytes, sizes[i].bytes);
        ends(text, flight_ps(0) - 16 * 800 + wire * 800 + GOAL_POLL_PS, 0);
    }
}

/* A rendezvous takes three latencies, and the send ends after a fourth. */
static void goal_player__long_messages_wait_for_their_receive(void)
{
    uint64_t rts_ps = flight_ps(48), cts_ps = flight_ps(32), fin_ps = flight_ps(24);
    uint64_t data_ps = flight_ps(0) - 16 * 800 + (8193 + 36 * 24) * 800;

    ends("num_ranks 2\nrank 0 {\nsend 8193b to 1\n}\nrank 1 {\nrecv 8193b from 0\n}",
         rts_ps + cts_ps + data_ps + GOAL_POLL_PS + fin_ps,
         rts_ps + cts_ps + data_ps + GOAL_POLL_PS);
    ends("num_ranks 2\nrank 0 {\nsend 8193b to 1\n}\nrank 1 {\na: calc 50000\nb: recv 8193b from "
         "0\nb requires a\n}",
         50000 * NS + cts_ps + data_ps + GOAL_POLL_PS + fin_ps,
         50000 * NS + cts_ps + data_ps + GOAL_POLL_PS);
    /* a rank computes, and its adapter goes on */
    ends("num_ranks 2\nrank 0 {\nsend 8193b to 1\n}\nrank 1 {\nrecv 8193b from 0\ncalc 90000\n}",
         90000 * NS, rts_ps + cts_ps + data_ps + GOAL_POLL_PS + fin_ps);
}

static void goal_player__messages_to_oneself_take_no_time(void)
{
    ends("num_ranks 1\nrank 0 {\nsend 8b to 0\nrecv 8b from 0\n}", GOAL_POLL_PS, GOAL_POLL_PS);
    ends("num_ranks 1\nrank 0 {\na: send 9000b to 0\nb: calc 70\nc: recv 9000b from 0\n"
         "c requires b\nd: calc 1\nd requires a\n}",
         71 * NS + GOAL_POLL_PS, 71 * NS + GOAL_POLL_PS);
}

/* The receive that gets the first message ends first, so its calc shows which one that was. */
static void goal_player__matches_in_order(void)
{
    uint64_t first_ps = flight_ps(32) + GOAL_POLL_PS, byte_ps = 800;

    /* of two receives, the first message takes the one that was posted first */
    ends("num_ranks 2\nrank 0 {\nsend 0b to 1\nsend 0b to 1\n}\nrank 1 {\na: recv 0b from 0\n"
         "b: recv 0b from 0\nc: calc 10000\nc requires a\n}",
         first_ps + 10000 * NS, 0);
    ends("num_ranks 2\nrank 0 {\nsend 0b to 1\nsend 0b to 1\n}\nrank 1 {\nb: recv 0b from 0\n"
         "a: recv 0b from 0\nc: calc 10000\nc requires a\n}",
         first_ps + 48 * byte_ps + 10000 * NS, 0);
    /* tags select */
    ends("num_ranks 2\nrank 0 {\nsend 0b to 1 tag 1\nsend 0b to 1 tag 2\n}\nrank 1 {\n"
         "a: recv 0b from 0 tag 2\nb: recv 0b from 0 tag 1\nc: calc 10000\nc requires b\n}",
         first_ps + 10000 * NS, 0);
    /* a wildcard takes the message that arrives first */
    ends("num_ranks 3\nrank 0 {\na: calc 9\nb: send 0b to 1 tag 5\nb requires a\n}\nrank 1 {\n"
         "a: recv 1b from -1 tag -1\nb: recv 1b from -1 tag -1\nc: calc 10000\nc requires a\n}\n"
         "rank 2 {\nsend 1b to 1 tag 9\n}",
         first_ps + byte_ps + 10000 * NS, 0);
    /* a receive takes the message that has waited longest */
    ends("num_ranks 2\nrank 0 {\nsend 1b to 1 tag 1\nsend 2b to 1 tag 2\n}\nrank 1 {\n"
         "a: calc 20000\nb: recv 1b from -1 tag -1\nb requires a\n"
         "c: recv 2b from 0 tag -1\nc requires b\n}",
         20000 * NS + 2 * GOAL_POLL_PS, 0);
}

static void goal_player__names_operations_that_cannot_end(void)
{
    fails("num_ranks 4\nrank 0 {\n}\nrank 1 {}\nrank 2 { }\nrank 3 {\na: recv 8b from 2 tag 5\n"
          "b: calc 1\nb requires a\n}",
          -EPROTO,
          "2 of 2 operations at 1 rank cannot end: rank 3: recv of 8 bytes from 2 tag 5 never "
          "matched (line 7)");
    fails("num_ranks 2\nrank 0 {\nsend 9000b to 1\n}\nrank 1 {\nrecv 1b from -1 tag 3\n}", -EPROTO,
          "rank 0: send of 9000 bytes to 1 tag 0 never matched (line 3); rank 1: recv of 1 byte "
          "from any tag 3 never matched (line 6)");
    fails("num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\n}", -EPROTO,
          "messages were not received: rank 0: send of 8 bytes to 1 tag 0 never received (line 3)");
    fails("num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 7b from 0\n}", -EINVAL,
          "rank 1: recv of 7 bytes from 0 tag 0 (line 6) has matched a message that is longer");
    fails("num_ranks 1\nrank 0 {\ncalc 4000000000000000\ncalc 4000000000000000\n}", -EINVAL,
          "rank 0: calc 4000000000000000 (line 4) would end after more than 53 days");
    fails("num_ranks 5\nrank 0 {}rank 1 {}rank 2 {}rank 3 {}rank 4 {calc 1}", -EINVAL,
          "the file has 5 ranks, and the network has 4 nodes");
}

/* --- random programs ---------------------------------------------------------------- */

#define RANDOM_RANKS 8u

/*
 * Write a program that always completes: a random list of messages and calcs, in which each rank
 * executes its part in the order of the list, except that operations may wait for less.
 */
static void draw_program(uint64_t *seed, char *text, size_t bytes)
{
    char *part[RANDOM_RANKS];
    uint32_t count[RANDOM_RANKS] = {0};
    size_t used = (size_t)snprintf(text, bytes, "num_ranks %u\n", RANDOM_RANKS);

    for (uint32_t r = 0; r < RANDOM_RANKS; r++)
        part[r] = calloc(1, 1 << 16);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t from = (uint32_t)test_draw(seed, 0, RANDOM_RANKS - 1);
        uint32_t to = (uint32_t)test_draw(seed, 0, RANDOM_RANKS - 1);
        uint64_t size = test_draw(seed, 0, 1) ? test_draw(seed, 0, 600) : test_draw(seed, 0, 20000);
        uint32_t calc = test_draw(seed, 0, 3) == 0;
        uint32_t who[2] = {from, to};

        for (uint32_t side = 0; side < (calc ? 1u : 2u); side++) {
            char *at = part[who[side]] + strlen(part[who[side]]);
            uint32_t n = count[who[side]]++, cpu = (uint32_t)test_draw(seed, 0, 2);

            if (calc)
                at += sprintf(at, "l%u: calc %u cpu %u\n", n, (unsigned)size, cpu);
            else
                at += sprintf(at, "l%u: %s %ub %s %u tag %u cpu %u\n", n, side ? "recv" : "send",
                              (unsigned)size, side ? "from" : "to", who[!side], i, cpu);
            /* a receive from oneself must not wait for the end of the send */
            bool own = side && from == to;
            if (n && test_draw(seed, 0, 2))
                sprintf(at, "l%u %s l%u\n", n,
                        own || test_draw(seed, 0, 1) ? "irequires" : "requires", n - 1);
        }
    }
    for (uint32_t r = 0; r < RANDOM_RANKS; r++) {
        used += (size_t)snprintf(text + used, bytes - used, "rank %u {\n%s}\n", r, part[r]);
        free(part[r]);
    }
}

static const char *const topos[] = {"kary:4,2", "qsnet:16"};

/* Play @trials programs that @draw writes, each with 1, 2 and 1 workers. The results are equal. */
static void complete_alike(void (*draw)(uint64_t *seed, char *text, size_t bytes), uint32_t trials,
                           bool messages)
{
    static char text[RANDOM_RANKS << 16];
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < trials; i++) {
        struct traffic_result result[3];
        char error[640] = "";

        draw(&seed, text, sizeof text);
        for (uint32_t t = 0; t < 3; t++) {
            int err = play(&result[t], topos[i % 2], text, 1 + t % 2, error);

            if (err)
                printf("%s\n%s\n", error, text);
            CU_ASSERT_FATAL(err == 0);
        }
        CU_ASSERT(!messages || (result[0].goal.messages > 0 && result[0].latency.messages > 0));
        for (uint32_t t = 1; t < 3; t++) {
            CU_ASSERT_EQUAL(result[0].digest, result[t].digest);
            CU_ASSERT(memcmp(&result[0].goal, &result[t].goal, sizeof result[0].goal) == 0);
        }
    }
}

static void goal_player__random_programs_complete_alike_with_any_workers(void)
{
    complete_alike(draw_program, TEST_TRIALS(40u), true);
}

/* --- collectives -------------------------------------------------------------------- */

/* Write a collective of the ranks 0 to 7, or of 2 to 5. Some have more segments than a window. */
static void draw_coll(uint64_t *seed, char *text, size_t bytes)
{
    static const char *const names[] = {"barrier", "broadcast", "reduce", "allreduce"};
    uint32_t kind = (uint32_t)test_draw(seed, 0, 3), group = (uint32_t)test_draw(seed, 1, 2);
    uint32_t size = 8 * (uint32_t)test_draw(seed, 1, test_draw(seed, 0, 9) ? 200 : 9000);
    char vector[32] = "", root[16] = "";

    if (kind)
        snprintf(vector, sizeof vector, " %ub%s", size, kind > 1 ? " SUM F64" : "");
    if (kind == 1 || kind == 2)
        snprintf(root, sizeof root, " root %u", (uint32_t)test_draw(seed, 2, 5));
    snprintf(text, bytes, "coll %s%s%s group %u", names[kind], vector, root, group);
}

/*
 * Write a program whose ranks all start the same collectives in the same order. Each collective
 * waits for one of the last three, so that several are pending.
 */
static void draw_colls(uint64_t *seed, char *text, size_t bytes)
{
    char coll[64][80];
    size_t used = (size_t)snprintf(text, bytes,
                                   "num_ranks %u\ngroup 1 ranks 0-7\n"
                                   "group 2 wide ranks 5 2-4\n",
                                   RANDOM_RANKS);

    for (uint32_t i = 0; i < 64; i++)
        draw_coll(seed, coll[i], sizeof coll[i]);
    for (uint32_t r = 0; r < RANDOM_RANKS; r++) {
        used += (size_t)snprintf(text + used, bytes - used, "rank %u {\n", r);
        for (uint32_t i = 0; i < 64; i++) {
            bool member = strstr(coll[i], "group 1") || (r >= 2 && r <= 5);

            used += (size_t)snprintf(text + used, bytes - used, "o%u: calc %u\n", i,
                                     (uint32_t)test_draw(seed, 0, 900));
            if (i)
                used +=
                    (size_t)snprintf(text + used, bytes - used, "o%u irequires p%u\n", i, i - 1);
            if (i > 3)
                used += (size_t)snprintf(text + used, bytes - used, "o%u requires p%u\n", i, i - 3);
            used += (size_t)snprintf(text + used, bytes - used, "p%u: %s\np%u requires o%u\n", i,
                                     member ? coll[i] : "calc 0", i, i);
        }
        used += (size_t)snprintf(text + used, bytes - used, "}\n");
    }
}

static void goal_player__random_collectives_complete_alike_with_any_workers(void)
{
    complete_alike(draw_colls, TEST_TRIALS(20u), false);
}

static void goal_player__names_collectives_that_cannot_end(void)
{
    fails("num_ranks 2\ngroup 1 ranks 0 1\nrank 0 {\ncoll barrier group 1\n}\nrank 1 {}", -EPROTO,
          "1 of 1 operation at 1 rank cannot end: rank 0: barrier waits for other ranks of "
          "its group");
    fails("num_ranks 2\ngroup 1 ranks 0 1\nrank 0 {\ncoll broadcast 8b root 0 group 1\n}\n"
          "rank 1 {\ncoll broadcast 16b root 0 group 1\n}",
          -EINVAL,
          "rank 1: broadcast of 16 bytes (line 7) does not match the collective of another rank");
    fails("num_ranks 2\ngroup 1 ranks 0 1\nrank 0 {\ncoll broadcast 8b root 0 group 1\n}\n"
          "rank 1 {\na: calc 100000\nb: coll broadcast 16b root 0 group 1\nb requires a\n}",
          -EINVAL,
          "rank 1: broadcast of 16 bytes (line 8) does not match the collective of another rank");
    fails("num_ranks 2\ngroup 1 ranks 0 1\nrank 0 {\ncoll broadcast 8b root 0 group 1\n}\n"
          "rank 1 {\ncoll broadcast 8b root 1 group 1\n}",
          -EINVAL, "broadcast of 8 bytes (line");
    fails("num_ranks 2\ngroup 1 ranks 0 1\nrank 0 {\ncoll broadcast 8b root 0 group 1\n}\n"
          "rank 1 {\ncoll barrier group 1\n}",
          -EINVAL, "rank 1: barrier (line 7) does not match the collective of another rank");
}

#define FOUR "num_ranks 4\ngroup 1 ranks 0-3\nrank 0 {\n"

/* With acknowledgments, the network repeats a barrier's conditional and is never idle. */
static void goal_player__a_barrier_that_a_rank_never_starts_is_an_error(void)
{
    struct traffic_result result;
    char error[640] = "";

    for (uint32_t t = 0; t < 2; t++) {
        fails_in(topos[t],
                 FOUR "coll barrier group 1\n}\nrank 1 {\ncoll barrier group 1\n}\n"
                      "rank 2 {\ncoll barrier group 1\n}\nrank 3 {\ncalc 5\n}",
                 -EPROTO, "3 of 4 operations at 3 ranks cannot end: rank 0: barrier waits for");
        fails_in(topos[t],
                 FOUR "coll barrier group 1\n}\nrank 1 {\ncoll barrier group 1\n}\n"
                      "rank 2 {\ncoll barrier group 1\n}\nrank 3 {\n"
                      "coll allreduce 8b SUM F64 group 1\n}",
                 -EINVAL,
                 "rank 3: allreduce of 8 bytes (line 13) does not match the collective of rank 0");
        /* a rank that computes for long is not missing */
        CU_ASSERT(play(&result, topos[t],
                       FOUR "coll barrier group 1\n}\nrank 1 {\ncoll barrier group 1\n}\n"
                            "rank 2 {\ncoll barrier group 1\n}\nrank 3 {\na: calc 200000000\n"
                            "b: coll barrier group 1\nb requires a\n}",
                       1, error) == 0);
    }
}

/* The root of a broadcast and the other ranks of a reduce do not wait for the rest of the group. */
static void goal_player__a_collective_that_no_rank_answers_is_an_error(void)
{
    static const char two[] = "num_ranks 2\ngroup 1 ranks 0 1\nrank 0 {\n";
    static const struct {
        const char *ranks, *why;
    } cases[] = {
        {"coll broadcast 800b root 0 group 1\n}\nrank 1 {\ncalc 5\n}",
         "rank 0: broadcast of 800 bytes (line 4) has no counterpart at rank 1 of its group"},
        {"calc 5\n}\nrank 1 {\ncoll reduce 8b SUM F64 root 0 group 1\n}",
         "rank 1: reduce of 8 bytes (line 7) has no counterpart at rank 0 of its group"},
        {"coll broadcast 8b root 0 group 1\ncoll broadcast 16b root 0 group 1\n}\nrank 1 {\n"
         "coll broadcast 8b root 0 group 1\n}",
         "rank 0: broadcast of 16 bytes (line 5) has no counterpart at rank 1 of its group"},
    };
    char text[300];

    for (uint32_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            snprintf(text, sizeof text, "%s%s", two, cases[i].ranks);
            fails_in(topos[t], text, -EINVAL, cases[i].why);
        }
        fails_in(topos[t],
                 FOUR "coll reduce 8b SUM F64 root 0 group 1\n}\nrank 1 {\n"
                      "coll reduce 8b SUM F64 root 0 group 1\n}\nrank 2 {\n"
                      "coll reduce 8b SUM F64 root 3 group 1\n}\nrank 3 {\n"
                      "coll reduce 8b SUM F64 root 0 group 1\n}",
                 -EINVAL,
                 "rank 2: reduce of 8 bytes (line 10) does not match the collective of rank 0");
    }
}

/* The order of starts counts, which may differ from the order of the file. */
static void goal_player__compares_collectives_in_the_order_of_their_starts(void)
{
    struct traffic_result result;
    char error[640] = "";

    for (uint32_t t = 0; t < 2; t++)
        CU_ASSERT(play(&result, topos[t],
                       "num_ranks 2\ngroup 1 ranks 1 0\nrank 0 {\n"
                       "coll broadcast 8b root 0 group 1\ncoll reduce 8b SUM F64 root 1 group 1\n"
                       "}\nrank 1 {\na: coll reduce 8b SUM F64 root 1 group 1\n"
                       "b: coll broadcast 8b root 0 group 1\na irequires b\n}",
                       1, error) == 0);
}

/* --- numbers of the adapter library --------------------------------------------------- */

static void goal_wire__has_the_librarys_headers(void)
{
    CU_ASSERT(GOAL_SHORT_BYTES == sizeof(struct nic_wire_short));
    CU_ASSERT(GOAL_FIRST_BYTES == sizeof(struct nic_wire_msg));
    CU_ASSERT(GOAL_MORE_BYTES == sizeof(struct nic_wire_head));
    CU_ASSERT(GOAL_DATA_BYTES == sizeof(struct nic_wire_data));
    CU_ASSERT(GOAL_CTS_BYTES == sizeof(struct nic_wire_cts));
    CU_ASSERT(GOAL_FIN_BYTES == sizeof(struct nic_wire_fin));
}

/* The segments of a message have room for it and its headers, and no more. */
static void goal_wire_len__adds_up(void)
{
    for (uint64_t bytes = 0; bytes < 20000; bytes += bytes < 2000 ? 1 : 13) {
        enum goal_packet what = bytes <= GOAL_EAGER_BYTES ? GOAL_EAGER : GOAL_DATA;
        uint32_t segments = goal_wire_segments(what, bytes);
        uint64_t sum = 0, headers = GOAL_DATA_BYTES * segments;

        for (uint32_t left = segments; left; left--)
            sum += goal_wire_len(what, bytes, left);
        if (what == GOAL_EAGER)
            headers = segments == 1 ? GOAL_SHORT_BYTES
                                    : GOAL_FIRST_BYTES + (segments - 1) * GOAL_MORE_BYTES;
        CU_ASSERT_EQUAL(sum, bytes + headers);
    }
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(goal_parse__reads_all_of_the_grammar),
        CASE(goal_parse__names_line_and_remedy_of_each_error),
        CASE(goal_parse__refuses_the_binary_form),
        CASE(goal_parse__survives_any_change),
        CASE(goal_player__cpus_run_ready_operations_in_order),
        CASE(goal_player__eager_messages_take_the_profiles_time),
        CASE(goal_player__long_messages_wait_for_their_receive),
        CASE(goal_player__messages_to_oneself_take_no_time),
        CASE(goal_player__matches_in_order),
        CASE(goal_player__names_operations_that_cannot_end),
        CASE(goal_player__random_programs_complete_alike_with_any_workers),
        CASE(goal_player__random_collectives_complete_alike_with_any_workers),
        CASE(goal_player__names_collectives_that_cannot_end),
        CASE(goal_player__a_barrier_that_a_rank_never_starts_is_an_error),
        CASE(goal_player__a_collective_that_no_rank_answers_is_an_error),
        CASE(goal_player__compares_collectives_in_the_order_of_their_starts),
        CASE(goal_wire__has_the_librarys_headers),
        CASE(goal_wire_len__adds_up),
        {NULL, NULL},
    };
    int failed = test_run("goal", cases);

    draw_end();
    return failed;
}
