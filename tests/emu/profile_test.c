/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile_test.c - profile fields for clock raw only, and fields that are set together with another
 * one.
 */
#include "emu/packet/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

static struct emu_profile loaded(const char *what)
{
    struct emu_profile ret;
    char error[256];

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&ret, what, error, sizeof error), 0);
    return ret;
}

static int set(struct emu_profile *profile, const char *assignment)
{
    char error[1024];

    return emu_profile_set(profile, assignment, error, sizeof error);
}

static struct emu_profile loaded_text(const char *text)
{
    char path[] = "/tmp/fabemu-profile-XXXXXX.json";
    int fd = mkstemps(path, 5);
    struct emu_profile ret;
    FILE *file;

    CU_ASSERT_FATAL(fd >= 0);
    file = fdopen(fd, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_TRUE(fputs(text, file) >= 0);
    CU_ASSERT_EQUAL(fclose(file), 0);
    ret = loaded(path);
    unlink(path);
    return ret;
}

/* Clock raw has its own default packets and pools; other clocks do not. */
static void raw__has_its_own_packets_and_pools(void)
{
    struct emu_profile profile = loaded("qsnet3"), raw;

    CU_ASSERT_EQUAL(profile.packet_bytes, 1024);
    CU_ASSERT_EQUAL(profile.pool_slots, 16);
    for (enum emu_clock_mode mode = EMU_CLOCK_REAL; mode <= EMU_CLOCK_VIRTUAL; mode++) {
        CU_ASSERT_EQUAL(emu_profile_on(&profile, mode).packet_bytes, 1024);
        CU_ASSERT_EQUAL(emu_profile_on(&profile, mode).pool_slots, 16);
    }
    raw = emu_profile_on(&profile, EMU_CLOCK_RAW);
    CU_ASSERT_EQUAL(raw.packet_bytes, 3840);
    CU_ASSERT_EQUAL(raw.pool_slots, 90);
    raw = emu_profile_on(&raw, EMU_CLOCK_RAW); /* a second call changes nothing */
    CU_ASSERT_EQUAL(raw.packet_bytes, 3840);
    CU_ASSERT_EQUAL(raw.pool_slots, 90);
}

/* Setting a field sets it for all clocks, unless clock raw's field is set as well. */
static void set__applies_to_raw_too(void)
{
    struct emu_profile profile = loaded("qsnet3");

    CU_ASSERT_EQUAL(set(&profile, "packet_bytes=512"), 0);
    CU_ASSERT_EQUAL(profile.packet_bytes, 512);
    CU_ASSERT_EQUAL(emu_profile_on(&profile, EMU_CLOCK_RAW).packet_bytes, 512);
    CU_ASSERT_EQUAL(set(&profile, "raw_packet_bytes=2048"), 0);
    CU_ASSERT_EQUAL(profile.packet_bytes, 512);
    CU_ASSERT_EQUAL(emu_profile_on(&profile, EMU_CLOCK_RAW).packet_bytes, 2048);
    CU_ASSERT_EQUAL(set(&profile, "pool_slots=0"), 0);
    CU_ASSERT_EQUAL(emu_profile_on(&profile, EMU_CLOCK_RAW).pool_slots, 0);
    CU_ASSERT_EQUAL(set(&profile, "raw_pool_slots=96"), 0);
    CU_ASSERT_EQUAL(emu_profile_on(&profile, EMU_CLOCK_RAW).pool_slots, 96);
    CU_ASSERT_EQUAL(profile.pool_slots, 0);
}

/* Clock raw's own field takes precedence in either order. */
static void set_all__order_does_not_matter(void)
{
    static const char *const sets[][3] = {{"raw_pool_slots=60", "pool_slots=8",
                                           "raw_packet_bytes=512"},
                                          {"pool_slots=8", "raw_packet_bytes=512",
                                           "raw_pool_slots=60"}};
    char error[640] = "";

    for (size_t i = 0; i < 2; i++) {
        struct emu_profile profile = loaded("qsnet3");

        CU_ASSERT_EQUAL(emu_profile_set_all(&profile, sets[i], 3, error, sizeof error), 0);
        CU_ASSERT_EQUAL(profile.pool_slots, 8);
        CU_ASSERT_EQUAL(profile.raw_pool_slots, 60);
        CU_ASSERT_EQUAL(profile.raw_packet_bytes, 512);
        CU_ASSERT_EQUAL(emu_profile_set_all(&profile, sets[i], 0, error, sizeof error), 0);
    }
}

/* An out-of-range value changes neither field. */
static void set__out_of_range_changes_nothing(void)
{
    static const char *const wrong[] = {"packet_bytes=255",   "packet_bytes=4097",
                                        "raw_packet_bytes=0", "raw_packet_bytes=4097",
                                        "pool_slots=97",      "raw_pool_slots=97"};
    struct emu_profile profile = loaded("qsnet3");

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CU_ASSERT_TRUE(set(&profile, wrong[i]) < 0);
    CU_ASSERT_EQUAL(profile.packet_bytes, 1024);
    CU_ASSERT_EQUAL(profile.raw_packet_bytes, 3840);
    CU_ASSERT_EQUAL(profile.pool_slots, 16);
    CU_ASSERT_EQUAL(profile.raw_pool_slots, 90);
}

/* In a file, the order of the two fields does not matter. */
static void file__order_does_not_matter(void)
{
    static const char *const texts[] = {
        "{\"base\": \"qsnet3\", \"packet_bytes\": 512, \"raw_packet_bytes\": 3072}",
        "{\"raw_packet_bytes\": 3072, \"packet_bytes\": 512, \"base\": \"qsnet3\"}",
    };

    for (size_t i = 0; i < 2; i++) {
        struct emu_profile profile = loaded_text(texts[i]);

        CU_ASSERT_EQUAL(profile.packet_bytes, 512);
        CU_ASSERT_EQUAL(profile.raw_packet_bytes, 3072);
        CU_ASSERT_EQUAL(profile.raw_pool_slots, 90);
    }
    CU_ASSERT_EQUAL(loaded_text("{\"packet_bytes\": 512}").raw_packet_bytes, 512);
}

/* A field is reported as unused where the switch model or the clock ignores it. */
static void idle__fields_are_reported_as_unused(void)
{
    static const struct {
        const char *profile, *set; /* @set: the setting that selects another switch model */
        enum emu_clock_mode mode;
        const char *field;
        bool idle;
    } cases[] = {
        {"oq2004", NULL, EMU_CLOCK_RAW, "channels=8", true},
        {"qsnet3", NULL, EMU_CLOCK_RAW, "channels=8", false},
        {"oq2004", "transport=acknowledged", EMU_CLOCK_RAW, "channels=8", false},
        {"oq2004", NULL, EMU_CLOCK_RAW, "xpoint_slots=2", true},
        {"oq2004", NULL, EMU_CLOCK_REAL, "xpoint_slots=2", false},
        {"oq2004", "buffers=input_xpoint", EMU_CLOCK_RAW, "xpoint_slots=2", false},
        {"oq2004", "buffers=input", EMU_CLOCK_VIRTUAL, "xpoint_slots=2", true},
        {"oq2004", NULL, EMU_CLOCK_RAW, "raw_xpoint_slots=2", false},
        {"oq2004", NULL, EMU_CLOCK_VIRTUAL, "raw_xpoint_slots=2", true},
        {"qsnet3", NULL, EMU_CLOCK_RAW, "raw_xpoint_slots=2", true},
        {"oq2004", NULL, EMU_CLOCK_RAW, "switch_ps=1", true},
        {"oq2004", NULL, EMU_CLOCK_REAL, "switch_ps=1", false},
        {"oq2004", "link_retry=go_back_n", EMU_CLOCK_RAW, "switch_ps=1", false},
        {"qsnet3", NULL, EMU_CLOCK_RAW, "link_retry=go_back_n", true},
        {"oq2004", NULL, EMU_CLOCK_REAL, "input_slots=3", true},
        {"oq2004", "buffers=input", EMU_CLOCK_REAL, "input_slots=3", false},
        {"oq2004", "buffers=input", EMU_CLOCK_REAL, "credit=counter", true},
        {"oq2004", NULL, EMU_CLOCK_RAW, "credit=counter", false},
        {"oq2004", "buffers=input", EMU_CLOCK_REAL, "combine_states=3", true},
        {"qsnet3", NULL, EMU_CLOCK_RAW, "combine_states=3", true},
        {"qsnet3", "combining=switch", EMU_CLOCK_RAW, "combine_states=3", false},
        {"qsnet3", "combining=switch", EMU_CLOCK_RAW, "tree_width=3", true},
        {"qsnet3", NULL, EMU_CLOCK_RAW, "tree_width=3", false},
        {"qsnet3", NULL, EMU_CLOCK_REAL, "raw_pool_slots=3", true},
        {"qsnet3", NULL, EMU_CLOCK_REAL, "pool_slots=3", false},
        {"qsnet3", NULL, EMU_CLOCK_RAW, "pool_slots=3", false},
        {"oq2004", NULL, EMU_CLOCK_VIRTUAL, "combine_ps=3", false},
        {"oq2004", NULL, EMU_CLOCK_RAW, "combine_ps=3", true},
        {"qsnet3", "combining=switch", EMU_CLOCK_VIRTUAL, "combine_ps=3", true},
        {"qsnet3", NULL, EMU_CLOCK_VIRTUAL, "barrier_root_ps=3", false},
        {"oq2004", NULL, EMU_CLOCK_VIRTUAL, "barrier_root_ps=3", true},
        {"oq2004", NULL, EMU_CLOCK_RAW, "host_send_ps=3", true},
        {"oq2004", NULL, EMU_CLOCK_RAW, "choice=random", false},
        {"oq2004", NULL, EMU_CLOCK_RAW, "transport=none", false},
        {"oq2004", NULL, EMU_CLOCK_RAW, "no_such_field=1", false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct emu_profile profile = loaded(cases[i].profile);

        if (cases[i].set)
            CU_ASSERT_EQUAL(set(&profile, cases[i].set), 0);
        bool idle = emu_profile_idle(&profile, cases[i].mode, cases[i].field) != NULL;
        if (idle != cases[i].idle)
            printf("%s %s, clock %d: %s\n", cases[i].profile, cases[i].set, (int)cases[i].mode,
                   cases[i].field);
        CU_ASSERT_EQUAL(idle, cases[i].idle);
    }
}

/* The papers' profiles lack the times of published machines, so their results do not change. */
static void built_in__papers_have_no_host_times(void)
{
    static const char *const papers[] = {"oq2004", "qsnet3"};
    static const char *const machines[] = {"qsnet", "qsnet2", "sharp"};

    for (size_t i = 0; i < sizeof papers / sizeof papers[0]; i++) {
        struct emu_profile profile = loaded(papers[i]);

        CU_ASSERT_EQUAL(profile.bus_ps_per_byte | profile.host_send_ps | profile.host_recv_ps |
                            profile.host_word_ps | profile.share_ps | profile.combine_ps |
                            profile.barrier_root_ps,
                        0);
    }
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        CU_ASSERT_STRING_EQUAL(loaded(machines[i]).name, machines[i]);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(raw__has_its_own_packets_and_pools),  CASE(set__applies_to_raw_too),
        CASE(set_all__order_does_not_matter),      CASE(set__out_of_range_changes_nothing),
        CASE(file__order_does_not_matter),         CASE(idle__fields_are_reported_as_unused),
        CASE(built_in__papers_have_no_host_times), {NULL, NULL},
    };

    return test_run("profile", cases);
}
