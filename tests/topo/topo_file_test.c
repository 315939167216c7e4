/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo_file_test.c - topology files: output of ibnetdiscover, files written by people, and garbage.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/fixtures/graphs.h"

#define MUTATIONS 3000

static int read_text(struct topo_graph **ret, const char *text, char *error, size_t error_bytes)
{
    return topo_read(ret, "net", text, strlen(text), error, error_bytes);
}

static struct topo_graph *graph_from(const char *text)
{
    struct topo_graph *graph = NULL;
    char error[1280];

    if (read_text(&graph, text, error, sizeof error)) {
        printf("%s\n", error);
        CU_FAIL_FATAL("a good file was refused");
    }
    return graph;
}

static char *text_of(const struct topo_graph *graph, size_t *bytes)
{
    char *text;
    FILE *to = open_memstream(&text, bytes);

    CU_ASSERT_EQUAL(topo_write(graph, to), 0);
    fclose(to);
    return text;
}

/* Number of differing device names. A graph without names has none. */
static uint32_t label_differences(const struct topo_graph *a, const struct topo_graph *b)
{
    uint32_t bad = 0;

    for (uint32_t i = 0; a->label && b->label && i < a->switches + a->nodes; i++) {
        const struct topo_label *x = &a->label[i], *y = &b->label[i];

        bad += strcmp(topo_label_name(a, i), topo_label_name(b, i)) != 0 ||
               strcmp(a->label_text + x->id, b->label_text + y->id) != 0 ||
               strcmp(a->label_text + x->title, b->label_text + y->title) != 0 ||
               (x->guid && x->guid != y->guid);
    }
    return bad;
}

/* Differences between two graphs, routes included. */
static uint32_t differences(const struct topo_graph *a, const struct topo_graph *b)
{
    uint32_t bad = a->nodes != b->nodes || a->switches != b->switches || a->ports != b->ports ||
                   a->levels != b->levels || a->longest != b->longest;

    if (bad)
        return bad;
    for (uint32_t s = 0; s < a->switches; s++) {
        bad += a->sw[s].level != b->sw[s].level;
        for (uint32_t port = 0; port < a->ports; port++) {
            const struct topo_end *x = &a->sw[s].end[port], *y = &b->sw[s].end[port];

            bad += x->kind != y->kind || x->rate != y->rate ||
                   (x->kind != TOPO_END_NONE && (x->id != y->id || x->port != y->port));
        }
        for (uint32_t n = 0; n < a->nodes; n++)
            bad += topo_route_ports(&a->sw[s].route, n) != topo_route_ports(&b->sw[s].route, n);
    }
    for (uint32_t n = 0; n < a->nodes; n++) {
        bad += a->node[n].links != b->node[n].links;
        for (uint32_t i = 0; i < a->node[n].links; i++)
            bad += a->node[n].link[i].sw != b->node[n].link[i].sw ||
                   a->node[n].link[i].port != b->node[n].link[i].port;
    }
    return bad + label_differences(a, b);
}

static void topo_write__is_read_as_the_same_graph(void)
{
    static const char *const specs[] = {
        "kary:2,1",
        "kary:4,2",
        "kary:3,3",
        "kary:2,5",
        "qsnet:16",
        "qsnet:100",
        "qsnet:256",
        "qsnet:300",
        "qsnet:640",
        "qsnet:64,links=2",
        "qsnet:100,links=2,apart=chassis",
        "qsnet:128,rails=2",
        "qsnet:512,tops=4",
        "clos:down=6x12x8,up=4x6,cables=2x1",
    };

    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct topo_graph *graph = graph_of(specs[i]), *again = NULL;
        char error[1280], *text, *second;
        size_t bytes;

        text = text_of(graph, &bytes);
        CU_ASSERT_EQUAL_FATAL(topo_read(&again, "net", text, bytes, error, sizeof error), 0);
        CU_ASSERT_EQUAL(differences(graph, again), 0);
        CU_ASSERT_STRING_EQUAL(again->spec, "net");
        second = text_of(again, &bytes); /* all but the first lines, which name the network */
        CU_ASSERT_STRING_EQUAL(strstr(text, "\nlevel="), strstr(second, "\nlevel="));
        free(text);
        free(second);
        topo_free(graph);
        topo_free(again);
    }
}

/*
 * Everything that ibnetdiscover prints: two leaves, a spine with gaps in its ports, an adapter with
 * two ports, one with an unconnected port, a unit of a switch, a router, a cable from a switch to
 * itself; options -g and -f, and stray lines from standard error.
 */
static const char quirks[] =
    "ibwarn: [6931] sim_connect: attached\n"
    "#\n"
    "# Topology file: generated on Fri Nov 20 09:00:00 2026\r\n"
    "#\n"
    "# Initiated from node 0002c903000e0b72 port 0002c903000e0b73\n"
    "\n"
    "Chassis 1 (guid 0x2c90200404728)\n"
    "Hostname: somewhere\n"
    "\n"
    "# Spine Nodes\n"
    "vendid=0x2c9\n"
    "devid=0xbd36\n"
    "sysimgguid=0x2c90200404728\t\t# Chassis 1\n"
    "switchguid=0x2c90200404728(2c90200404728)\t# Spine 1 Chip 1\n"
    "Switch\t129 \"S-0002c90200404728\"\t\t# \"spine [1] \"odd\" name\" enhanced port 0 lid 3 lmc "
    "0\n"
    "[120]\t\"S-0002c90200404001\"[24]\t\t# \"leaf 1\" lid 1 4xQDR s=4 w=2 v=4\n"
    "[7][ext 9]\t\"S-0002c90200404002\"[24][ext 3]\t\t# \"leaf 2\" lid 2 4xQDR\n"
    "[99]\t\"S-0002c90200404728\"[100]\t\t# \"spine\" lid 3 4xQDR\n"
    "[129]\t\"H-aaaa\"[1](aaaa) \t\t# \"Mellanox Technologies Aggregation Node\" lid 9 4xQDR\n"
    "\n"
    "Switch\t24 \"S-0002c90200404001\"\t\t# \"leaf 1\" enhanced port 0 lid 1 lmc 0\n"
    "[1]\t\"H-0002c903000e0b72\"[1](2c903000e0b73) \t\t# \"node01 HCA-1\" lid 4 4xQDR\n"
    "[2]\t\"H-0002c903000e0b80\"[2](2c903000e0b82) \t\t# \"node02 HCA-1\" lid 5 4xQDR\n"
    "[24]\t\"S-0002c90200404728\"[120]\t\t# \"spine\" lid 3 4xQDR\n"
    "[5]\n"
    "\n"
    "Switch\t24 \"S-0002c90200404002\"\t\t# \"leaf 2\" enhanced port 0 lid 2 lmc 0\n"
    "[3]\t\"H-0002c903000e0b72\"[2](2c903000e0b74) \t\t# \"node01 HCA-1\" lid 6 4xQDR\n"
    "[4]\t\"R-bbbb\"[1](bbbb) \t\t# \"router\" lid 7 4xQDR\n"
    "[24]\t\"S-0002c90200404728\"[7]\t\t# \"spine\" lid 3 4xQDR\n"
    "\n"
    "# Chassis Switches\n"
    "Switch\t129 \"S-0002c90200404728\"\t\t# \"spine\" enhanced port 0 lid 3 lmc 0\n"
    "[7][ext 9]\t\"S-0002c90200404002\"[24][ext 3]\t\t# \"leaf 2\" lid 2 4xQDR\n"
    "\n"
    "Non-Chassis Nodes\n"
    "\n"
    "caguid=0x2c903000e0b80\n"
    "Ca\t2 \"H-0002c903000e0b80\"\t\t# \"node02 HCA-1\"\n"
    "[2](2c903000e0b82) \t\"S-0002c90200404001\"[2]\t\t# lid 5 lmc 0 \"leaf 1\" lid 1 4xQDR\n"
    "\n"
    "Hca\t2 \"H-0002c903000e0b72\"\t\t# \"node01 HCA-1\" (scp)\n"
    "[1](2c903000e0b73) \t\"S-0002c90200404001\"[1]\t\t# lid 4 lmc 0 \"leaf 1\" lid 1 4xQDR\n"
    "[2](2c903000e0b74) \t\"S-0002c90200404002\"[3]\t\t# lid 6 lmc 0 \"leaf 2\" lid 2 4xQDR\n"
    "\n"
    "Ca\t1 \"H-aaaa\"\t\t# \"Mellanox Technologies Aggregation Node\"\n"
    "[1](aaaa) \t\"S-0002c90200404728\"[129]\t\t# lid 9 lmc 0 \"spine\" lid 3 4xQDR\n"
    "\n"
    "Rt\t1 \"R-bbbb\"\t\t# \"router\"\n"
    "[1](bbbb) \t\"S-0002c90200404002\"[4]\t\t# lid 7 lmc 0 \"leaf 2\" lid 2 4xQDR";

static void topo_read__accepts_ibnetdiscover_output(void)
{
    struct topo_graph *graph = graph_from(quirks), *again;
    uint64_t unreachable;
    size_t bytes;

    CU_ASSERT_EQUAL(graph->nodes, 2);    /* in the order of their Ca lines */
    CU_ASSERT_EQUAL(graph->switches, 3); /* in the order of their Switch lines */
    CU_ASSERT_EQUAL(graph->ports, 24);
    CU_ASSERT_EQUAL(graph->levels, 2);
    CU_ASSERT(graph->sw[0].level == 1 && graph->sw[1].level == 0 && graph->sw[2].level == 0);
    CU_ASSERT_EQUAL(graph->parts.left_out, 2);
    CU_ASSERT_EQUAL(graph->parts.loops, 1);
    CU_ASSERT_EQUAL(graph->node[0].links, 1);
    CU_ASSERT(graph->node[0].link[0].sw == 1 && graph->node[0].link[0].port == 1);
    CU_ASSERT_EQUAL(graph->node[0].link[0].number, 2);
    CU_ASSERT_EQUAL(graph->node[1].links, 2);
    CU_ASSERT(graph->node[1].link[1].sw == 2 && graph->node[1].link[1].port == 2);
    /*
     * The spine's ports 7 and 120 exceed a switch's limit here: ports are renumbered without gaps.
     */
    CU_ASSERT(graph->sw[0].end[0].id == 2 && graph->sw[0].end[0].number == 7);
    CU_ASSERT(graph->sw[0].end[1].id == 1 && graph->sw[0].end[1].number == 120);
    CU_ASSERT_EQUAL(graph->sw[0].end[2].kind, TOPO_END_NONE);
    CU_ASSERT_EQUAL(topo_route_ports(&graph->sw[0].route, 1), 3); /* both links of node 1 */

    char *text = text_of(graph, &bytes);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "[120]\t\"S-0002c90200404001\"[24]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Ca\t2 \"H-0002c903000e0b80\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Switch\t129 \"S-0002c90200404728\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "switchguid=0x2c90200404728(2c90200404728)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "[2]\t\"S-0002c90200404001\"[2]\t")); /* no GUID */
    again = graph_from(text);
    CU_ASSERT_EQUAL(differences(graph, again), 0);
    topo_free(again);
    CU_ASSERT_EQUAL_FATAL(topo_without(&again, graph, NULL, 0, &unreachable), 0);
    char *copied = text_of(again, &bytes);
    CU_ASSERT_STRING_EQUAL(copied, text);
    free(copied);
    free(text);
    topo_free(graph);
    topo_free(again);
}

/* Host names, descriptions and GUIDs are kept; names are unique. */
static void topo_read__keeps_names(void)
{
    struct topo_graph *graph = graph_from(quirks);

    CU_ASSERT_STRING_EQUAL(topo_switch_name(graph, 0), "spine [1] \"odd\" name");
    CU_ASSERT_STRING_EQUAL(topo_switch_name(graph, 1), "leaf 1");
    CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 0), "node02");
    CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 1), "node01");
    CU_ASSERT_EQUAL(graph->label[0].guid, 0x2c90200404728);
    CU_ASSERT_EQUAL(graph->label[1].guid, 0x2c90200404001); /* from the identity */
    CU_ASSERT_EQUAL(graph->label[3].guid, 0x2c903000e0b80);
    CU_ASSERT_EQUAL(topo_find_node(graph, "node01", 6), 1);
    CU_ASSERT_EQUAL(topo_find_node(graph, "H-0002c903000e0b72", 18), 1);
    CU_ASSERT_EQUAL(topo_find_node(graph, "leaf 1", 6), TOPO_NONE);
    CU_ASSERT_EQUAL(topo_find_switch(graph, "leaf 1", 6), 1);
    topo_free(graph);

    /*
     * Two adapters of one host, two unnamed switches, and a description that is another device's
     * identity.
     */
    graph = graph_from("Switch 4 \"S-1\" # \"Quantum Mellanox Technologies\"\n[1] \"H-1\"[1]\n"
                       "[2] \"H-2\"[1]\n[4]\"S-2\"[4]\n"
                       "Switch 4 \"S-2\" # \"Quantum Mellanox Technologies\"\n[1] \"H-3\"[1]\n"
                       "[2] \"H-4\"[1]\n"
                       "Ca 1 \"H-1\" # \"ann mlx5_0\"\nCa 1 \"H-2\" # \"ann mlx5_1\"\n"
                       "Ca 1 \"H-3\" # \"H-1 HCA-1\"\nCa 1 \"H-4\" # \"MF0;bob:X/U1\"\n");
    CU_ASSERT_STRING_EQUAL(topo_switch_name(graph, 0), "S-1");
    CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 0), "ann mlx5_0");
    CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 1), "ann mlx5_1");
    CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 2), "H-1 HCA-1");
    CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 3), "bob");
    topo_free(graph);
}

/*
 * A device's description is untrusted text: it is cut to printable characters and a maximum length.
 */
static void topo_read__cleans_descriptions(void)
{
    static const char *const titles[][2] = {
        {"<b>x</b>", "<b>x</b>"}, /* the page escapes these */
        {"red \033[31m", "red ?[31m"},
        {"bell\a tab\t del\177", "bell? tab? del?"},
        {"c1 \302\233 end", "c1 ? end"},
        {"turned \342\200\256 end", "turned ? end"},
        {"arabic mark \330\234 end", "arabic mark ? end"},
        {"latin \351\350", "latin ??"},
        {"cut \342\202", "cut ??"},
        {"long \300\257 \355\240\200", "long ?? ???"},
        {"good \303\251 \342\202\254", "good \303\251 \342\202\254"},
        {"0123456789012345678901234567890123456789012345678901234567890\342\202\254",
         "0123456789012345678901234567890123456789012345678901234567890"},
    };
    char text[512], error[1280];
    struct topo_graph *graph;

    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        snprintf(text, sizeof text,
                 "Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\nCa 1 \"a\" # \"%s\"\nCa 1 \"b\"\n",
                 titles[i][0]);
        graph = graph_from(text);
        CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 0), titles[i][1]);
        topo_free(graph);
    }
    CU_ASSERT_EQUAL(read_text(&graph, "Switch 4 \"s\351\"\n", error, sizeof error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(
        error, "net, line 1: the name in quotes is not UTF-8, or has control characters");
    CU_ASSERT_EQUAL(read_text(&graph, "Switch 4 \"s\177\"\n", error, sizeof error), -EINVAL);
}

/* Rates are data rates without the coding overhead; a cable has the lower rate of its two ends. */
static void topo_read__keeps_rates(void)
{
    static const struct {
        const char *name;
        uint32_t ps;
    } rates[] = {{"4xSDR", 1000},  {"1xSDR", 4000}, {"4xDDR", 500}, {"4xQDR", 250}, {"12xQDR", 83},
                 {"4xFDR10", 200}, {"4xFDR", 147},  {"1xFDR", 587}, {"4xEDR", 80},  {"4xHDR", 40},
                 {"2xHDR", 80},    {"4xNDR", 20},   {"8xNDR", 10},  {"4xXDR", 10}};
    struct topo_graph *graph;
    struct topo_rates all;
    char text[16];

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        uint8_t rate = topo_rate_scan(rates[i].name, strlen(rates[i].name));

        CU_ASSERT_NOT_EQUAL(rate, 0);
        CU_ASSERT_STRING_EQUAL(topo_rate_name(rate, text), rates[i].name);
        CU_ASSERT_EQUAL(topo_rate_ps(rate), rates[i].ps);
    }
    CU_ASSERT_EQUAL(topo_rate_scan("4xFDRx", 6), 0);
    CU_ASSERT_EQUAL(topo_rate_scan("3xFDR", 5), 0);
    CU_ASSERT_EQUAL(topo_rate_scan("4xfdr10", 7), topo_rate_scan("4xFDR10", 7));
    CU_ASSERT_EQUAL(topo_rate_ps(0), 0);

    graph = graph_from(quirks);
    topo_rates(graph, &all);
    CU_ASSERT_EQUAL(all.cables[topo_rate_scan("4xQDR", 5)], 5);
    CU_ASSERT_EQUAL(all.fastest, topo_rate_scan("4xQDR", 5));
    CU_ASSERT_EQUAL(all.cables[0], 0);
    topo_free(graph);

    graph = graph_from("Switch 4 \"s\"\n[1] \"a\"[1] # \"4xNDR\" lid 1 4xHDR\n[2] \"b\"[1]\n"
                       "[3] \"c\"[1] # 4xEDR\n"
                       "Ca 1 \"a\"\n[1] \"s\"[1] # lid 1 lmc 0 \"s\" lid 2 2xHDR\n"
                       "Ca 1 \"b\"\nCa 1 \"c\"\n[1] \"s\"[3] # \"s\" 4xHDR\n");
    topo_rates(graph, &all);
    CU_ASSERT_STRING_EQUAL(topo_rate_name(graph->sw[0].end[0].rate, text), "2xHDR");
    CU_ASSERT_STRING_EQUAL(topo_rate_name(graph->sw[0].end[2].rate, text), "4xEDR");
    CU_ASSERT_EQUAL(graph->sw[0].end[1].rate, 0);
    CU_ASSERT_EQUAL(all.cables[0], 1);
    CU_ASSERT_EQUAL(topo_rate_ps(all.fastest), 80);
    CU_ASSERT_EQUAL(graph->parts.rate_unknown, 0);
    topo_free(graph);
}

/* Cables with a rate that is not known are counted once, unless their other end has a known one. */
static void topo_read__counts_unknown_rates(void)
{
    struct topo_graph *graph =
        graph_from("Switch 4 \"s\"\n[1] \"a\"[1] # 4xFOO\n[2] \"b\"[1] # \"b\" lid 1 4x??\?\n"
                   "[3] \"c\"[1] # 4xBAR 4xFOO\n"
                   "Ca 1 \"a\"\n[1] \"s\"[1] # \"s\" 0xfee 4xHDR\n"
                   "Ca 1 \"b\"\n[1] \"s\"[2] # lid 1 lmc 0 \"s\" lid 2 4xFOO\nCa 1 \"c\"\n");

    CU_ASSERT_EQUAL(graph->parts.rate_unknown, 2);
    CU_ASSERT_STRING_EQUAL(graph->parts.rate, "4x??\?");
    topo_free(graph);
}

/* A file written by hand: each cable once, no GUIDs, made-up names. */
static void topo_read__accepts_hand_written_files(void)
{
    struct topo_graph *graph =
        graph_from("Switch 4 \"left\"\n[1] \"ann\"[1]\n[4]\"right\"[4]\n"
                   "Switch 4 \"right\"\n[1] \"bob\" [1] w=4 # 4x?? 3xfaster 2x\n"
                   "Ca 1 \"ann\"\nCa 1 \"bob\"\n");

    size_t bytes;
    char *text = text_of(graph, &bytes);

    CU_ASSERT_EQUAL(graph->nodes, 2);
    CU_ASSERT_EQUAL(graph->longest, 2);
    CU_ASSERT_EQUAL(topo_hops(graph, 0, 1), 2);
    CU_ASSERT_PTR_NULL(strstr(text, "guid=")); /* no GUID is invented */
    free(text);
    topo_free(graph);
}

#define TWO "Ca 1 \"a\"\nCa 1 \"b\"\n"

/* An invalid file and its error text. */
static const struct wrong_file {
    const char *text, *error;
} wrong_files[] = {
    {"", "net: there is no Switch line: this is not the output of ibnetdiscover"},
    {"# nothing\n\n", "net: there is no Switch line: this is not the output of ibnetdiscover"},
    {"Switch 4 \"s\"\n", "net: the file has 0 Ca lines; a network has at least 2 nodes"},
    {"Switch 4 \"s\"\n[1] \"a\"[1]\nCa 1 \"a\"\n",
     "net: the file has 1 Ca line; a network has at least 2 nodes"},
    {"hello\n", "net, line 1: 'hello' is none of: Switch, Ca, [PORT], NAME=VALUE, # comment"},
    {"\n\nswitch 4 \"s\"\n",
     "net, line 3: 'switch 4 \"s\"' is none of: Switch, Ca, [PORT], NAME=VALUE, # comment"},
    {"[1] \"a\"[1]\n", "net, line 1: this port comes before any Switch or Ca line"},
    {"Switch \"s\"\n", "net, line 1: no number of ports; want: Switch 36 \"NAME\""},
    {"Switch 4 s\n", "net, line 1: no name of 1 to 63 characters in quotes; want: Switch 4 "
                     "\"NAME\""},
    {"Switch 4 \"s\n", "net, line 1: no name of 1 to 63 characters in quotes; want: Switch 4 "
                       "\"NAME\""},
    {"Switch 0 \"s\"\n", "net, line 1: \"s\" has 0 ports; want 1 to 254"},
    {"Switch 4294967297 \"s\"\n", "net, line 1: \"s\" has 999999999 ports; want 1 to 254"},
    {"Switch 4 \"s\"\n[5] \"a\"[1]\n", "net, line 2: there is no port 5: \"s\" has ports 1 to 4"},
    {"Switch 4 \"s\"\n[0] \"a\"[1]\n", "net, line 2: there is no port 0: \"s\" has ports 1 to 4"},
    {"Switch 4 \"s\"\n[x] \"a\"[1]\n", "net, line 2: no port number; want: [1] \"NAME\"[2]"},
    {"Switch 4 \"s\"\n[1] \"a\"\n",
     "net, line 2: no port number behind \"a\"; want: [1] \"NAME\"[2]"},
    {"Switch 4 \"s\"\n[1] a[1]\n", "net, line 2: no name of 1 to 63 characters in quotes; want: "
                                   "[1] \"NAME\"[2]"},
    {"Switch 4 \"s\"\n[1] \"a\"[1]\n",
     "net, line 2: the cable leads to \"a\", which no Switch or Ca line describes"},
    {"Switch 4 \"s\"\n[1] \"a\"[2]\n" TWO,
     "net, line 2: the cable leads to port 2 of \"a\", which has ports 1 to 1"},
    {"Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"a\"[1]\n" TWO,
     "net, line 3: port 1 of \"a\" is cabled to \"s\"[2], but line 2 has it cabled to "
     "\"s\"[1]"},
    {"Switch 4 \"s\"\n[1] \"a\"[1]\n[1] \"b\"[1]\n" TWO,
     "net, line 3: port 1 of \"s\" is cabled to \"b\"[1], but line 2 has it cabled to "
     "\"a\"[1]"},
    {"Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n" TWO "[1] \"s\"[1]\n",
     "net, line 6: port 1 of \"s\" is cabled to \"b\"[1], but line 2 has it cabled to "
     "\"a\"[1]"},
    {"Switch 4 \"s\"\n[1] \"a\"[1]\n" TWO, "net, line 4: \"b\" has no cable"},
    {"Switch 4 \"s\"\nCa 1 \"a\"\n[1] \"b\"[1]\nCa 1 \"b\"\n",
     "net, line 3: the cable joins two adapters: there must be a switch between them"},
    {"Switch 9 \"s\"\n[1] \"a\"[1]\n[2] \"a\"[2]\n[3] \"a\"[3]\n[4] \"a\"[4]\n[5] \"a\"[5]\n"
     "[6] \"b\"[1]\nCa 5 \"a\"\nCa 1 \"b\"\n",
     "net, line 8: \"a\" has 5 cables; fabemu supports at most 4"},
    {"Switch 4 \"s\"\n" TWO "Switch 5 \"s\"\n",
     "net, line 4: \"s\" is described differently in line 1"},
    {"Switch 4 \"s\"\nCa 4 \"s\"\n", "net, line 2: \"s\" is described differently in line 1"},
    {"Rt \"r\"\n", "net, line 1: no number of ports; want: Rt 36 \"NAME\""},
    {"level=x\n", "net, line 1: level must be a number from 0 to 65535"},
    {"level=65536\n", "net, line 1: level must be a number from 0 to 65535"},
    {"level=1\nSwitch 4 \"s\"\n[1] \"a\"[1]\n[4] \"t\"[4]\nSwitch 4 \"t\"\n[1] \"b\"[1]\n" TWO,
     "net, line 5: \"t\" has no level=N line before it; other switches have one"},
    {"level=1\nSwitch 4 \"s\"\n[1] \"a\"[1]\n[4] \"t\"[4]\nlevel=1\nSwitch 4 \"t\"\n"
     "[1] \"b\"[1]\n" TWO,
     "net: switch 0 (s) and switch 1 (t) have the same level=1 and a cable between them: one must "
     "be higher"},
    {"Switch\t : 0x0010e08028c7a0a0 ports 36 \"x\" enhanced port 0 lid 3 lmc 0\n",
     "net, line 1: this is a list of devices without their cables; run ibnetdiscover without -l, "
     "-S, -H and -R"},
    {"SW     1  1 0x0008f10400410015 4x SDR - CA     4  1 0x8f1 ( 'a' - 'b' )\n",
     "net, line 1: this is a list of ports; run ibnetdiscover without -p"},
    {"Switch 4 \"s\"\n< [1] \"a\"[1]\n",
     "net, line 2: this is a difference of two networks; run ibnetdiscover without --diff"},
    {"Switch 4 \"s\"\n[1] \"a\"[1] # \"4xFRD\" lid 4 4xFRD\n",
     "net, line 2: '4xFRD' is not the rate of a cable; did you mean '4xFDR'?"},
    {"Switch 4 \"s\"\n\x1b[2J\n", "net, line 2: a control character: this is not a text file"},
};

static void topo_read__reports_the_wrong_line(void)
{
    for (size_t i = 0; i < sizeof wrong_files / sizeof wrong_files[0]; i++) {
        const struct wrong_file *file = &wrong_files[i];
        struct topo_graph *graph = NULL;
        char error[1280] = "";

        CU_ASSERT_EQUAL(read_text(&graph, file->text, error, sizeof error), -EINVAL);
        if (strcmp(error, file->error) != 0)
            printf("file %zu: %s\n", i, error);
        CU_ASSERT_STRING_EQUAL(error, file->error);
        CU_ASSERT_PTR_NULL(graph);
    }
}

static void topo_read__refuses_more_cables_than_a_switch_has(void)
{
    static const struct {
        uint32_t cables;
        int err;
        const char *error;
    } some[] = {
        {60, 0, ""},
        {61, -EOVERFLOW,
         "switches of 61 ports need the program fabemu-wide, which is not installed: build it "
         "with -Dwide=enabled"},
        {252, -EOVERFLOW,
         "switches of 252 ports need the program fabemu-wide, which is not installed: build it "
         "with -Dwide=enabled"},
        {253, -EINVAL, "net, line 1: \"big\" has 253 cables; fabemu supports at most 252"},
    };
    struct topo_graph *graph = NULL;
    char error[1280], *text;
    size_t bytes;

    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        uint32_t nodes = some[i].cables;
        FILE *to = open_memstream(&text, &bytes);

        fprintf(to, "Switch 254 \"big\"\n");
        for (uint32_t n = 0; n < nodes; n++)
            fprintf(to, "[%u] \"h%u\"[1]\n", 254 - n, n);
        for (uint32_t n = 0; n < nodes; n++)
            fprintf(to, "Ca 1 \"h%u\"\n", n);
        fclose(to);
        int err = topo_read(&graph, "net", text, bytes, error, sizeof error);
        CU_ASSERT_EQUAL(err, some[i].err);
        if (err)
            CU_ASSERT_STRING_EQUAL(error, some[i].error);
        topo_free(graph);
        graph = NULL;
        free(text);
    }
}

static void topo_read__refuses_binary_files(void)
{
    static char rubbish[70000];
    struct topo_graph *graph = NULL;
    uint64_t random = test_seed();
    char error[1280], tiny[8];

    CU_ASSERT_EQUAL(topo_read(&graph, "net", "# \0", 3, error, sizeof error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error,
                           "net: there is no Switch line: this is not the output of ibnetdiscover");
    CU_ASSERT_EQUAL(topo_read(&graph, "net", "a\0b", 3, error, sizeof error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "net, line 1: a zero byte: this is not a text file");
    memset(rubbish, '7', sizeof rubbish);
    CU_ASSERT_EQUAL(topo_read(&graph, "net", rubbish, sizeof rubbish, error, sizeof error),
                    -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "net, line 1: longer than 4096 characters: this is no topology "
                                  "file");
    CU_ASSERT_EQUAL(topo_read(&graph, "net", rubbish, 9, tiny, sizeof tiny), -EINVAL);
    CU_ASSERT_EQUAL(strlen(tiny), 7);
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < 500; i++)
            rubbish[i] = (char)test_random(&random);
        CU_ASSERT_EQUAL(topo_read(&graph, "net", rubbish, 500, error, sizeof error), -EINVAL);
    }
    CU_ASSERT_PTR_NULL(graph);
}

/*
 * One change to a text: a byte, a number, a line removed or duplicated, two lines swapped, or the
 * tail cut off.
 */
static void mutate(char *text, size_t *bytes, size_t room, uint64_t *random)
{
    size_t at = test_random(random) % *bytes;
    char *line = memrchr(text, '\n', at + 1);
    char *end = memchr(text + at, '\n', *bytes - at);

    line = line ? line : text;
    end = end ? end : text + *bytes;
    size_t length = (size_t)(end - line);
    switch (test_random(random) % 6) {
    case 0:
        text[at] = (char)test_random(random);
        break;
    case 1:
        for (; at < *bytes && (text[at] < '0' || text[at] > '9');)
            at++;
        if (at < *bytes)
            text[at] = (char)('0' + test_random(random) % 10);
        break;
    case 2:
        memmove(line, end, (size_t)(text + *bytes - end));
        *bytes -= length;
        break;
    case 3:
        if (*bytes + length > room)
            break;
        memmove(end + length, end, (size_t)(text + *bytes - end));
        memcpy(end, line, length);
        *bytes += length;
        break;
    case 4:
        text[at] = "\"[]()#= \n"[test_random(random) % 9];
        break;
    default:
        if (test_random(random) % 8 == 0)
            *bytes = at;
    }
    *bytes = *bytes ? *bytes : 1;
}

/*
 * Mutations of valid files, from a fixed seed so that every run is the same: the result is a graph
 * that passes its check and survives a round trip, or a one-line error.
 */
static void topo_read__survives_mutations(void)
{
    struct topo_graph *base[2] = {graph_of("qsnet:20,links=2,apart=router"), graph_of("kary:3,2")};
    uint64_t random = 20261120;
    uint32_t good = 0, bad = 0;
    size_t room = 65536;
    char *text = malloc(room);

    for (uint32_t round = 0; round < MUTATIONS; round++) {
        size_t bytes = sizeof quirks - 1, copied;
        char *from = round % 3 == 2 ? strdup(quirks) : text_of(base[round % 3], &bytes);
        struct topo_graph *graph = NULL;
        char error[1280] = "";

        copied = bytes;
        memcpy(text, from, bytes);
        for (uint64_t changes = 1 + test_random(&random) % 6; changes; changes--)
            mutate(text, &copied, room, &random);
        if (topo_read(&graph, "net", text, copied, error, sizeof error)) {
            CU_ASSERT(strncmp(error, "net", 3) == 0 && !strchr(error, '\n') && !graph);
            bad++;
        } else {
            struct topo_graph *again;
            char *second = text_of(graph, &bytes);

            CU_ASSERT(graph_passes(graph));
            again = graph_from(second);
            CU_ASSERT_EQUAL(differences(graph, again), 0);
            topo_free(again);
            topo_free(graph);
            free(second);
            good++;
        }
        free(from);
    }
    CU_ASSERT(good > MUTATIONS / 20);
    CU_ASSERT(bad > MUTATIONS / 20);
    free(text);
    topo_free(base[0]);
    topo_free(base[1]);
}

static void topo_parse__reads_files(void)
{
    char name[] = "/tmp/fabemu-topo-XXXXXX.net";
    int fd = mkstemps(name, 4);
    struct topo_graph *graph = graph_of("kary:4,2"), *again = NULL;
    char error[1280];

    CU_ASSERT_FATAL(fd >= 0);
    FILE *to = fdopen(fd, "w");
    CU_ASSERT_EQUAL(topo_write(graph, to), 0);
    fclose(to);
    again = graph_of(name);
    CU_ASSERT_EQUAL(differences(graph, again), 0);
    CU_ASSERT_STRING_EQUAL(again->spec, name);
    topo_free(graph);
    topo_free(again);
    unlink(name);

    graph = NULL;
    CU_ASSERT_EQUAL(topo_parse(&graph, name, error, sizeof error), -EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "cannot read the topology: No such file"));
    CU_ASSERT_EQUAL(topo_parse(&graph, "no.topo", error, sizeof error), -EIO);
    CU_ASSERT_EQUAL(topo_parse(&graph, "/tmp", error, sizeof error), -EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "Is a directory"));
    CU_ASSERT_PTR_NULL(graph);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(topo_write__is_read_as_the_same_graph),
        CASE(topo_read__accepts_ibnetdiscover_output),
        CASE(topo_read__keeps_names),
        CASE(topo_read__cleans_descriptions),
        CASE(topo_read__keeps_rates),
        CASE(topo_read__counts_unknown_rates),
        CASE(topo_read__accepts_hand_written_files),
        CASE(topo_read__reports_the_wrong_line),
        CASE(topo_read__refuses_more_cables_than_a_switch_has),
        CASE(topo_read__refuses_binary_files),
        CASE(topo_read__survives_mutations),
        CASE(topo_parse__reads_files),
        {NULL, NULL},
    };

    return test_run("topo_file", cases);
}
