/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostif.c - what a process writes into its host interface: any bytes anywhere in the shared
 * memory, and posts, groups, detaches and attaches in any order. This target steps a real fabric,
 * and the input sets its clock (the linker replaces clock_gettime()).
 *
 * The first byte of the input selects the switch model (machines[]); if its bit 128 is set,
 * free-running numbers start just before they wrap. Commands follow, each a byte (enum command)
 * with parameters.
 *
 * The processes at nodes 0 to 2 are hostile. That at node 3 is well-behaved and takes its segments.
 * At the end the hostile processes detach, and a well-behaved process at node 0 must be able to
 * communicate with node 3.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/audit/audit.h"
#include "apps/fabric/comm.h"
#include "apps/fabric/internal.h"
#include "apps/fabric/sample.h"
#include "emu/util/random.h"
#include "emu/worker/lockstep.h"
#include "tests/fuzz/fuzz.h"

#define NODES      4u
#define HOSTILE    3u /* number of hostile nodes, and the node of the well-behaved process */
#define GROUPS     4u
#define FIRST_WRAP (UINT32_MAX - 20)
#define STEP_NS    1000000u /* advance of the clock between passes while the fabric drains */
#define END_PASSES 3000u
#define WAIT_PS    10000000u /* clock virtual: longest wait of a well-behaved process */

static const struct machine {
    const char *profile;
    enum emu_clock_mode clock;
    const char *set[3];
} machines[] = {
    {"oq2004", EMU_CLOCK_RAW, {0}},
    {"qsnet3", EMU_CLOCK_RAW, {0}},
    {"oq2004", EMU_CLOCK_REAL, {0}},
    {"qsnet3", EMU_CLOCK_REAL, {0}},
    {"oq2004", EMU_CLOCK_RAW, {"combine_units=3", "combine_order=port"}},
    {"qsnet3", EMU_CLOCK_RAW, {"combining=switch"}},
    {"qsnet3", EMU_CLOCK_RAW, {"barrier=tree", "combine_order=port", "tree_width=1"}},
    {"oq2004", EMU_CLOCK_REAL, {"buffers=input_xpoint"}},
    {"oq2004", EMU_CLOCK_REAL, {"buffers=input"}},
    {"oq2004", EMU_CLOCK_REAL, {"credit=counter", "xpoint_slots=1"}},
    {"qsnet3", EMU_CLOCK_REAL, {"combining=switch", "combine_order=port"}},
    {"qsnet3", EMU_CLOCK_RAW, {"channels=1", "pool_slots=0", "retry_limit=2"}},
    {"oq2004", EMU_CLOCK_VIRTUAL, {0}},
    {"qsnet3", EMU_CLOCK_VIRTUAL, {0}},
    {"oq2004", EMU_CLOCK_VIRTUAL, {"buffers=input", "combine_units=3"}},
    {"qsnet3", EMU_CLOCK_VIRTUAL, {"combining=switch", "retry_limit=2"}},
};

enum command {
    POST, /* node, times, dst, kind, len, op, type, seq: one segment, or several in a row */
    /* node, 4 of offset, count: this number of bytes, anywhere in the host interface */
    POKE,
    TAIL,   /* node, 4 of number: sets the tail of the up ring */
    HEAD,   /* node, 4 of number: sets the head of the down ring */
    PASS,   /* count: passes of the workers */
    TAKE,   /* node: takes available segments, as a well-behaved process does */
    GROUP,  /* a bit for each member, 128 for a wide window */
    LEAVE,  /* group, node */
    DETACH, /* node */
    ATTACH, /* node */
    TIME,   /* exponent: advances the clock by a power of two */
    TICK,   /* the periodic tick of the manager */
    FILL,   /* node, count, 2 of seed: random segments */
    SIM,    /* node, word, exponent, difference: a time or number of a wait (simtime.h) */
    WAIT,   /* node, exponent: begins a wait, as a well-behaved process does */
    COMMANDS
};

/* Global, because the wrapper of clock_gettime() has no argument for it. */
static struct fixture {
    struct fabric *fabric;
    uint32_t group[GROUPS];
    uint32_t groups; /* number of groups made so far */
    struct fabric_finished_at finished[NODES];
} fixture;

/* --- processes ---------------------------------------------------------------------- */

/* Return the shared memory of a node's host interface; NULL if no process is attached. */
static struct emu_hostif_shared *shared_of(uint32_t node)
{
    struct emu_hostif *hostif = fixture.fabric->hostif[node];

    return hostif ? hostif->shared : NULL;
}

/* Return whether processes take part in simulated time. */
static bool is_simulated(void)
{
    return fixture.fabric->drive.lockstep;
}

static void attach(uint32_t node)
{
    struct fabric_attachment incarnation;

    if (shared_of(node))
        return;
    fuzz_must(fabric_attach(fixture.fabric, node, &incarnation) == 0, "a process can attach");
    fuzz_must(incarnation.node == node, "a process is attached at the node that it requests");
    fabric_attachment_close(&incarnation);
}

/* Write and publish the next slot of the up ring, whether it is free or not. */
static void post(uint32_t node, const struct emu_seg *seg)
{
    struct emu_hostif_shared *shared = shared_of(node);

    if (!shared)
        return;
    uint32_t tail = atomic_load_explicit(&shared->up_tail, memory_order_relaxed);
    uint32_t at = emu_hostif_slot_at(tail, atomic_load(&shared->up_shift));
    memcpy(&shared->up[at].seg, seg, sizeof *seg);
    shared->up_ps[at] = is_simulated() ? atomic_load(&shared->sim.now_ps) + shared->nic_send_ps
                                       : (fuzz_now_ns - shared->origin_ns) * 1000u;
    atomic_store_explicit(&shared->up_tail, tail + 1, memory_order_release);
}

/*
 * Take all available segments. Return the number of those from @src with the payload @wanted; 0 if
 * @wanted is NULL.
 */
static uint32_t take(uint32_t node, uint32_t src, const uint8_t *wanted, size_t bytes)
{
    struct emu_hostif_shared *shared = shared_of(node);
    uint32_t found = 0;

    if (!shared)
        return 0;
    uint32_t head = atomic_load_explicit(&shared->down_head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&shared->down_tail, memory_order_acquire);
    if (tail - head > EMU_HOSTIF_SLOTS)
        return 0;
    for (; head != tail; head++) {
        uint32_t at = emu_hostif_slot_at(head, atomic_load(&shared->down_shift));
        const struct emu_seg *seg = &shared->down[at].seg;
        found += wanted && !shared->down_mcast_ref[at] && seg->hdr.kind == EMU_UNICAST &&
                 seg->hdr.src == src && seg->hdr.len == bytes &&
                 memcmp(seg->payload, wanted, bytes) == 0;
    }
    atomic_store_explicit(&shared->down_head, head, memory_order_release);
    return found;
}

/* Wait for at most @most_ps, unless the process waits already. */
static void begin_wait(uint32_t node, uint64_t most_ps)
{
    struct emu_hostif_shared *shared = shared_of(node);
    struct emu_simtime *sim;

    if (!shared)
        return;
    sim = &shared->sim;
    atomic_store(&sim->ready, 1);
    if (atomic_load(&sim->begun) != atomic_load(&sim->ended))
        return;
    if (atomic_load(&sim->ended))
        atomic_store(&sim->now_ps, atomic_load(&sim->end_ps));
    atomic_store(&sim->until_ps, atomic_load(&sim->now_ps) + most_ps);
    atomic_fetch_add(&sim->begun, 1);
}

static void pass(void)
{
    if (is_simulated()) {
        begin_wait(HOSTILE, WAIT_PS);
        emu_lockstep_pass(fixture.fabric->drive.lockstep);
        return;
    }
    for (uint32_t w = 0; w < fixture.fabric->workers; w++)
        emu_worker_pass(fixture.fabric->worker[w]);
}

static void check_bufs(void)
{
    char error[256];

    fuzz_must(fabric_check_bufs(fixture.fabric, error, sizeof error) == 0, error);
}

/* --- commands ----------------------------------------------------------------------- */

static uint32_t read_node(struct fuzz_input *in)
{
    return fuzz_u8(in) % HOSTILE;
}

/* Read the number of a node or group, or any number. */
static uint32_t read_dst(struct fuzz_input *in)
{
    uint8_t dst = fuzz_u8(in);

    if (dst < 8)
        return dst;
    return dst < 8 + GROUPS ? fixture.group[dst - 8] : fuzz_u32(in);
}

static void do_post(struct fuzz_input *in)
{
    uint32_t node = read_node(in);
    uint32_t times = 1 + fuzz_u8(in);
    struct emu_seg seg = {.hdr.dst = read_dst(in)};

    seg.hdr.kind = fuzz_u8(in);
    seg.hdr.len = fuzz_u8(in);
    seg.hdr.op = fuzz_u8(in);
    seg.hdr.type = fuzz_u8(in);
    seg.hdr.seq = (uint32_t)(int8_t)fuzz_u8(in);
    if (seg.hdr.kind == EMU_SET || seg.hdr.kind == EMU_TEST)
        fuzz_bytes(in, seg.payload, sizeof(struct emu_word));
    for (; times; times--) {
        post(node, &seg);
        seg.hdr.seq++;
    }
}

static void do_poke(struct fuzz_input *in)
{
    uint32_t node = read_node(in);
    uint32_t at = fuzz_u32(in);
    size_t count = fuzz_u8(in);
    size_t all = emu_hostif_bytes(NODES);
    uint8_t bytes[255];

    at %= (uint32_t)all;
    count = fuzz_bytes(in, bytes, count < all - at ? count : all - at);
    if (shared_of(node))
        memcpy((uint8_t *)shared_of(node) + at, bytes, count);
}

static void do_fill(struct fuzz_input *in)
{
    uint32_t node = read_node(in);
    uint32_t count = 4u * fuzz_u8(in);
    uint64_t random = fuzz_u16(in);
    struct emu_seg seg;

    for (; count; count--) {
        for (size_t i = 0; i < sizeof seg; i += sizeof random) {
            uint64_t word = emu_splitmix(&random);
            memcpy((uint8_t *)&seg + i, &word, sizeof word);
        }
        seg.hdr.kind %= EMU_TEST + 2;
        seg.hdr.dst = seg.hdr.dst % 2 ? seg.hdr.dst / 2 % (NODES + 1)
                                      : fixture.group[seg.hdr.dst / 2 % GROUPS];
        seg.hdr.len = seg.hdr.len % 4 ? seg.hdr.len : seg.hdr.len % 17;
        seg.hdr.seq %= 300;
        seg.hdr.op %= 8;
        seg.hdr.type %= 12;
        post(node, &seg);
    }
}

static void do_group(struct fuzz_input *in)
{
    uint8_t members = fuzz_u8(in);
    uint32_t *group = &fixture.group[fixture.groups % GROUPS];
    uint32_t nodes[NODES], count = 0;
    char error[256];

    for (uint32_t n = 0; n < NODES; n++)
        if ((members >> n & 1) && shared_of(n))
            nodes[count++] = n;
    int err =
        members & 128
            ? fabric_group_create_wide(fixture.fabric, nodes, count, group, error, sizeof error)
            : fabric_group_create(fixture.fabric, nodes, count, group, error, sizeof error);
    fixture.groups += !err;
}

static void do_pass(struct fuzz_input *in)
{
    uint32_t passes = 1 + fuzz_u8(in) % 64;

    for (; passes; passes--) {
        pass();
        take(HOSTILE, 0, NULL, 0);
    }
    check_bufs();
}

static void do_rings(struct fuzz_input *in, enum command command)
{
    uint32_t node = read_node(in), number = fuzz_u32(in);
    struct emu_hostif_shared *shared = shared_of(node);

    if (shared)
        atomic_store_explicit(command == TAIL ? &shared->up_tail : &shared->down_head, number,
                              memory_order_release);
}

/* Read the records of finished operations at @node, as the timeline does. */
static void read_finished(uint32_t node)
{
    static struct emu_finished ring[EMU_FINISHED_SLOTS];
    uint64_t missed = 0;
    uint32_t count = fabric_finished(fixture.fabric, node, &fixture.finished[node], ring, &missed);

    fuzz_must(count <= EMU_FINISHED_SLOTS, "a ring has at most EMU_FINISHED_SLOTS records");
    for (uint32_t i = 0; i < count; i++)
        fuzz_must(ring[i].kind >= EMU_MULTICAST && ring[i].kind < EMU_FINISHED_KINDS,
                  "the kind of a finished operation exists");
}

/* Tick, and read what processes report, as the daemon does. */
static void do_tick(void)
{
    struct fabric_totals totals;
    struct emu_pending pending;
    struct fabric_comm comm;
    uint32_t nodes[NODES];

    fabric_tick(fixture.fabric, nodes, NODES);
    for (uint32_t n = 0; n < NODES; n++) {
        read_finished(n);
        if (fabric_pending(fixture.fabric, n, &pending))
            fuzz_must(pending.groups <= EMU_PENDING_GROUPS,
                      "a report has at most EMU_PENDING_GROUPS groups");
    }
    fabric_totals_read(fixture.fabric, &totals);
    fuzz_must(!fabric_comm_read(fixture.fabric, &comm), "no memory");
    fuzz_must(comm.pairs <= NODES * NODES, "there are at most NODES * NODES pairs");
    fabric_comm_free(&comm);
}

static void do_sim(struct fuzz_input *in)
{
    struct emu_hostif_shared *shared = shared_of(read_node(in));
    uint8_t which = fuzz_u8(in);
    uint64_t value = UINT64_C(1) << fuzz_u8(in) % 64;

    value += (uint64_t)(int64_t)(int8_t)fuzz_u8(in);
    if (!shared)
        return;
    _Atomic uint64_t *const times[] = {&shared->sim.now_ps, &shared->sim.until_ps,
                                       &shared->sim.end_ps, &shared->sim.reached_ps,
                                       &shared->sim.base_ns};
    _Atomic uint32_t *const numbers[] = {&shared->sim.begun, &shared->sim.ended,
                                         &shared->sim.ready};

    if (which < 128)
        atomic_store(times[which % 5], value);
    else
        atomic_store(numbers[which % 3], (uint32_t)value);
}

static void do_wait(struct fuzz_input *in)
{
    uint32_t node = read_node(in);

    begin_wait(node, UINT64_C(1) << fuzz_u8(in) % 64);
}

static void do_command(struct fuzz_input *in)
{
    enum command command = fuzz_u8(in) % COMMANDS;

    switch (command) {
    case POST:
        do_post(in);
        break;
    case POKE:
        do_poke(in);
        break;
    case TAIL:
    case HEAD:
        do_rings(in, command);
        break;
    case PASS:
        do_pass(in);
        break;
    case TAKE:
        take(read_node(in), 0, NULL, 0);
        break;
    case GROUP:
        do_group(in);
        break;
    case LEAVE:
        command = fuzz_u8(in) % GROUPS;
        fabric_group_leave(fixture.fabric, fixture.group[command], fuzz_u8(in) % NODES);
        break;
    case DETACH:
        fabric_detach(fixture.fabric, read_node(in));
        break;
    case ATTACH:
        attach(read_node(in));
        break;
    case TIME:
        fuzz_now_ns += UINT64_C(1) << fuzz_u8(in) % 52;
        break;
    case TICK:
        do_tick();
        break;
    case SIM:
        do_sim(in);
        break;
    case WAIT:
        do_wait(in);
        break;
    default:
        do_fill(in);
    }
}

/* --- checks at the end -------------------------------------------------------------- */

/* Let well-behaved processes at nodes 0 and 3 send a segment to each other. */
static void check_well_behaved(void)
{
    static const uint8_t said[] = "a text that no fuzzer generates";
    uint32_t arrived[2] = {0}, remote[2] = {0, HOSTILE}, nodes[NODES];
    struct emu_seg seg = {.hdr = {.kind = EMU_UNICAST, .len = sizeof said}};

    for (uint32_t n = 0; n < HOSTILE; n++)
        fabric_detach(fixture.fabric, n);
    attach(0);
    memcpy(seg.payload, said, sizeof said);
    for (uint32_t i = 0; i < 2; i++) {
        seg.hdr.dst = remote[!i];
        post(remote[i], &seg);
    }
    for (uint32_t i = 0; i < END_PASSES && !(arrived[0] && arrived[1]); i++) {
        begin_wait(0, WAIT_PS);
        pass();
        fuzz_now_ns += STEP_NS;
        for (uint32_t k = 0; k < 2; k++)
            arrived[k] += take(remote[k], remote[!k], said, sizeof said);
        if (i % 1000 == 999)
            fabric_tick(fixture.fabric, nodes, NODES);
    }
    fuzz_must(arrived[0] == 1 && arrived[1] == 1,
              "well-behaved processes receive one segment each");
    check_bufs();
}

static struct topo_graph *start(uint8_t which)
{
    const struct machine *machine = &machines[which % 128 % (sizeof machines / sizeof machines[0])];
    struct fabric_config config = {.name = "fuzz",
                                   .clock = machine->clock,
                                   .threads = 1,
                                   .first = which & 128 ? FIRST_WRAP : 0,
                                   .start_stopped = true};
    struct topo_graph *graph;
    char error[256];

    fuzz_must(topo_parse(&graph, "kary:2,2", error, sizeof error) == 0, error);
    fuzz_must(emu_profile_load(&config.profile, machine->profile, error, sizeof error) == 0, error);
    for (unsigned i = 0; i < 3 && machine->set[i]; i++)
        fuzz_must(emu_profile_set(&config.profile, machine->set[i], error, sizeof error) == 0,
                  error);
    config.graph = graph;
    fixture = (struct fixture){0};
    fuzz_now_ns = 1000000000000u;
    fuzz_must(fabric_start(&fixture.fabric, &config, error, sizeof error) == 0, error);
    return graph;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input in = {.at = data, .left = bytes};
    struct topo_graph *graph = start(fuzz_u8(&in));

    for (uint32_t n = 0; n < NODES; n++)
        attach(n);
    fabric_expect(fixture.fabric, NODES);
    while (in.left)
        do_command(&in);
    check_well_behaved();
    fabric_stop(fixture.fabric);
    topo_free(graph);
    return 0;
}
