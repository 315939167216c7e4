/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quantity_test.c - times, sizes and shares are parsed exactly; amounts are printed; the most
 * similar name is found for a misspelt word.
 */
#include <string.h>

#include "apps/base/amount.h"
#include "apps/base/quantity.h"
#include "emu/util/nearest.h"
#include "tests/test.h"

static const struct quantity_form times = {.units = quantity_times,
                                           .bare = 1000,
                                           .most = UINT64_MAX};
static const struct quantity_form sizes = {.units = quantity_sizes, .bare = 1, .most = UINT64_MAX};
static const struct quantity_form shares = {.units = quantity_shares,
                                            .bare = QUANTITY_SHARE_ONE,
                                            .most = 10 * QUANTITY_SHARE_ONE};

static void units__are_exact(void)
{
    static const struct {
        const struct quantity_form *form;
        const char *text;
        uint64_t value;
    } rows[] = {
        {&times, "0", 0},
        {&times, "1", 1000},
        {&times, "1.5", 1500},
        {&times, "7ps", 7},
        {&times, "1ms", 1000000000},
        {&times, "12.5e-3us", 12500},
        {&times, "1.5min", UINT64_C(90000000000000)},
        {&times, "1h", UINT64_C(3600000000000000)},
        {&sizes, "240", 240},
        {&sizes, "240B", 240},
        {&sizes, "1K", 1024},
        {&sizes, "1.5KiB", 1536},
        {&sizes, "1kB", 1000},
        {&sizes, "1KB", 1000},
        {&sizes, "1MB", 1000000},
        {&sizes, "1MiB", 1 << 20},
        {&sizes, "2G", UINT64_C(1) << 31},
        {&sizes, "999999999999999999", UINT64_C(999999999999999999)},
        {&shares, "0.5", 500000000},
        {&shares, "50%", 500000000},
        {&shares, "0.1%", 1000000},
        {&shares, "1e-9", 1},
        {&shares, "10", 10 * QUANTITY_SHARE_ONE},
    };
    uint64_t value;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        value = 12345;
        CU_ASSERT_TRUE(quantity_read(rows[i].text, rows[i].form, &value));
        CU_ASSERT_EQUAL(value, rows[i].value);
    }
}

static void invalid__is_reported(void)
{
    static const struct quantity_form ten = {.units = quantity_times, .least = 10, .most = 1000};
    static const struct {
        const struct quantity_form *form;
        const char *text;
        enum quantity_verdict verdict;
    } rows[] = {
        {&times, "", QUANTITY_WRONG},
        {&times, "ms", QUANTITY_WRONG},
        {&times, "-1ms", QUANTITY_WRONG},
        {&times, "+1ms", QUANTITY_WRONG},
        {&times, " 1ms", QUANTITY_WRONG},
        {&times, ".ms", QUANTITY_WRONG},
        {&times, "1 ms", QUANTITY_OK}, /* the caller parses the rest, " ms" */
        {&times, "1MS", QUANTITY_WRONG},
        {&times, "1msec", QUANTITY_WRONG},
        {&times, "1%", QUANTITY_WRONG},
        {&times, "0x10", QUANTITY_WRONG},
        {&times, "0.0001", QUANTITY_FINE},
        {&times, "1e30h", QUANTITY_LARGE},
        {&times, "99999999999999999999999", QUANTITY_LARGE},
        {&times, "1e9999", QUANTITY_WRONG},
        {&sizes, "0.3B", QUANTITY_FINE},
        {&sizes, "1mb", QUANTITY_WRONG},
        {&sizes, "18446744073709551616", QUANTITY_LARGE},
        {&sizes, "17179869184G", QUANTITY_LARGE},
        {&shares, "1001%", QUANTITY_LARGE},
        {&ten, "9ps", QUANTITY_SMALL},
        {&ten, "1001ps", QUANTITY_LARGE},
        {&ten, "10", QUANTITY_WRONG}, /* this one needs a unit */
        {&ten, "0", QUANTITY_SMALL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *at = rows[i].text;
        uint64_t value = 12345;

        CU_ASSERT_EQUAL(quantity_scan(&at, rows[i].form, &value), rows[i].verdict);
        CU_ASSERT_TRUE(rows[i].verdict == QUANTITY_OK || value == 12345);
        CU_ASSERT_TRUE(rows[i].verdict == QUANTITY_OK || at == rows[i].text);
        CU_ASSERT_FALSE(quantity_read(rows[i].text, rows[i].form, &value));
    }
}

static void scan__stops_after_the_unit(void)
{
    const char *at = "10%:0.9:rest";
    uint64_t value;

    CU_ASSERT_EQUAL(quantity_scan(&at, &shares, &value), QUANTITY_OK);
    CU_ASSERT_STRING_EQUAL(at, ":0.9:rest");
    at++;
    CU_ASSERT_EQUAL(quantity_scan(&at, &shares, &value), QUANTITY_OK);
    CU_ASSERT_EQUAL(value, 900000000);
    CU_ASSERT_STRING_EQUAL(at, ":rest");
}

static void amounts__have_three_digits(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes_text[] = {
        {0, "0 B"},
        {8, "8 B"},
        {999, "999 B"},
        {1000, "0.98 KiB"},
        {1024, "1 KiB"},
        {1536, "1.50 KiB"},
        {4096, "4 KiB"},
        {1 << 20, "1 MiB"},
        {1500000, "1.43 MiB"},
        {UINT64_MAX, "16 EiB"},
    };

    for (size_t i = 0; i < sizeof sizes_text / sizeof sizes_text[0]; i++)
        CU_ASSERT_STRING_EQUAL(amount_of_bytes(sizes_text[i].bytes).text, sizes_text[i].text);
    CU_ASSERT_STRING_EQUAL(amount_count(0).text, "0");
    CU_ASSERT_STRING_EQUAL(amount_count(999).text, "999");
    CU_ASSERT_STRING_EQUAL(amount_count(1000).text, "1,000");
    CU_ASSERT_STRING_EQUAL(amount_count(573269).text, "573,269");
    CU_ASSERT_STRING_EQUAL(amount_of_real(0, 1).text, "0.0");
    CU_ASSERT_STRING_EQUAL(amount_of_real(999.96, 1).text, "1,000.0");
    CU_ASSERT_STRING_EQUAL(amount_of_real(1234567.891, 2).text, "1,234,567.89");
    CU_ASSERT_STRING_EQUAL(amount_of_real(1234.5, 0).text, "1,234");
    CU_ASSERT_STRING_EQUAL(amount_of_real(1e18, 1).text, "1,000,000,000,000,000,000.0");
    CU_ASSERT_STRING_EQUAL(amount_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

static const char *resembles(const char *word)
{
    static const char *const names[] = {"run", "status", "traffic", "top", "topo"};
    struct nearest nearest = nearest_to(word);

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        nearest_try(&nearest, names[i]);
    return nearest.name ? nearest.name : "";
}

static void nearest__differs_by_few_letters(void)
{
    struct nearest none = nearest_to("status");

    CU_ASSERT_STRING_EQUAL(resembles("stauts"), "status");
    CU_ASSERT_STRING_EQUAL(resembles("trafic"), "traffic");
    CU_ASSERT_STRING_EQUAL(resembles("trafficc"), "traffic");
    CU_ASSERT_STRING_EQUAL(resembles("rn"), "run");
    CU_ASSERT_STRING_EQUAL(resembles("tpoo"), "topo");
    CU_ASSERT_STRING_EQUAL(resembles("fly"), "");
    CU_ASSERT_STRING_EQUAL(resembles(""), "");
    CU_ASSERT_STRING_EQUAL(resembles("x"), "");
    CU_ASSERT_STRING_EQUAL(resembles("statusstatusstatusstatusstatusstatusstatus"), "");
    CU_ASSERT_STRING_EQUAL(nearest_question(&none, "--").text, "");
    nearest_try(&none, "status");
    CU_ASSERT_STRING_EQUAL(nearest_question(&none, "--").text, "; did you mean '--status'?");
}

/* Finds the most similar entry of a printed list for the first word that is not in it. */
static void nearest__is_found_in_a_list(void)
{
    static const char list[] = "device, auto, tree[:K], permutation:N or a number of MiB";
    static const char *const rows[][2] = {
        {"atuo", "; did you mean 'auto'?"},
        {"tre:4", "; did you mean 'tree'?"},
        {"permuation=3", "; did you mean 'permutation'?"},
        {"auto,devcie,tre", "; did you mean 'device'?"},
        {"auto", ""},
        {"auto:3,device=2", ""},
        {"5x", ""},
        {"I", ""},
        {"", ""},
        {"somethingelse", ""},
        {"nothingthatisaslongasthiscanbeasuggestion", ""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CU_ASSERT_STRING_EQUAL(nearest_in(rows[i][0], list).text, rows[i][1]);
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(units__are_exact),
        CASE(invalid__is_reported),
        CASE(scan__stops_after_the_unit),
        CASE(amounts__have_three_digits),
        CASE(nearest__differs_by_few_letters),
        CASE(nearest__is_found_in_a_list),
        {NULL, NULL},
    };

    return test_run("quantity", cases);
}
