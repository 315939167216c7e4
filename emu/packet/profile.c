/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.c - the parameters of the emulated hardware: built-in profiles, files, and --set. Files
 * and --set use the same table of fields.
 */
#include "emu/packet/profile.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/json.h"
#include "emu/util/nearest.h"
#include "emu/util/slurp.h"

#define SECOND_PS 1000000000000u
/* maximum size of a profile's file, because json-c needs up to 250 times as much memory (json.h) */
#define FILE_BYTES_MAX (256u << 10)

enum field_kind { FIELD_U64, FIELD_U32, FIELD_NAMED };

struct field {
    const char *name;
    size_t offset; /* in struct emu_profile */
    enum field_kind kind;
    uint64_t least, most;      /* range of a number */
    const char *const *values; /* FIELD_NAMED: the names of the enum's values in order, then NULL */
    size_t raw;    /* offset of the raw_ field that is set together with this one; 0: none */
    unsigned uses; /* bits IN(enum use): the field has an effect only if all of them hold */
};

#define FIELD(field, ...)                                                          \
    {                                                                              \
        .name = #field, .offset = offsetof(struct emu_profile, field), __VA_ARGS__ \
    }
#define U64(field, low, high, where) \
    FIELD(field, .kind = FIELD_U64, .least = (low), .most = (high), .uses = (where))
#define U32(field, low, high, where) \
    FIELD(field, .kind = FIELD_U32, .least = (low), .most = (high), .uses = (where))
#define U32_BOTH(field, low, high, where)                                            \
    FIELD(field, .kind = FIELD_U32, .least = (low), .most = (high), .uses = (where), \
          .raw = offsetof(struct emu_profile, raw_##field))
#define NAMED(field, where, ...)                       \
    FIELD(field, .kind = FIELD_NAMED, .uses = (where), \
          .values = (const char *const[]){__VA_ARGS__, NULL})

/* A property of a configuration, on which the effect of a field depends. */
enum use {
    ACKS,
    NO_ACKS,
    RAW,
    TIMES,
    SIMULATED,
    CABLE_TIMES,
    XPOINTS,
    SMALL,
    INPUTS,
    UNITS,
    ADAPTERS,
    USES
};

#define ALL     0u
#define IN(use) (1u << (use))

/* Return the properties of a profile on a clock: bits IN(enum use). */
static unsigned uses_of(const struct emu_profile *profile, enum emu_clock_mode mode)
{
    bool raw = mode == EMU_CLOCK_RAW;
    bool xpoints = profile->buffers == EMU_BUFFERS_XPOINT;
    unsigned uses = emu_profile_acknowledged(profile) ? IN(ACKS) : IN(NO_ACKS);

    uses |= raw ? IN(RAW) : IN(TIMES);
    if (mode == EMU_CLOCK_VIRTUAL)
        uses |= IN(SIMULATED);
    /* link-level retry uses cable times for its time-out */
    if (!raw || emu_profile_retries(profile))
        uses |= IN(CABLE_TIMES);
    uses |= xpoints ? IN(XPOINTS) : IN(INPUTS);
    if (profile->buffers == EMU_BUFFERS_INPUT_XPOINT ||
        (xpoints && !raw)) /* clock raw has raw_xpoint_slots */
        uses |= IN(SMALL);
    if (!emu_profile_switches_combine(profile))
        uses |= IN(ADAPTERS);
    else if (profile->buffers != EMU_BUFFERS_INPUT)
        uses |= IN(UNITS);
    return uses;
}

static const char *const use_names[USES] = {
    [ACKS] = "transport=acknowledged",
    [NO_ACKS] = "transport=none",
    [RAW] = "clock raw",
    [TIMES] = "clocks real and virtual, because clock raw has no times",
    [SIMULATED] = "programs on clock virtual",
    [CABLE_TIMES] = "clocks real and virtual, and for clock raw with link_retry=go_back_n",
    [XPOINTS] = "buffers=xpoint",
    [SMALL] = "buffers=input_xpoint, and for buffers=xpoint on clocks real and virtual",
    [INPUTS] = "buffers=input_xpoint or input",
    [UNITS] = "switches that combine",
    [ADAPTERS] = "transport=acknowledged with combining=adapter",
};

#define CHOICE_NAME(upper, lower) #lower,
static const char *const choices[] = {EMU_CHOICES(CHOICE_NAME) NULL};
#undef CHOICE_NAME

static const struct field fields[] = {
    U64(link_ps_per_byte, 1, 1000000, IN(CABLE_TIMES)),
    U64(channel_ps, 0, SECOND_PS, IN(CABLE_TIMES)),
    U64(switch_ps, 0, SECOND_PS, IN(CABLE_TIMES)),
    U64(nic_send_ps, 0, SECOND_PS, IN(TIMES)),
    U64(nic_recv_ps, 0, SECOND_PS, IN(TIMES)),
    U64(call_ps, 0, SECOND_PS, IN(SIMULATED)),
    U64(credit_ps, 0, SECOND_PS, IN(TIMES)),
    U64(bus_ps_per_byte, 0, 1000000, IN(TIMES)),
    U64(host_send_ps, 0, 1000000000, IN(TIMES)),
    U64(host_recv_ps, 0, 1000000000, IN(TIMES)),
    U64(host_word_ps, 0, 1000000, IN(TIMES)),
    U64(share_ps, 0, 1000000000, IN(TIMES)),
    U64(combine_ps, 0, SECOND_PS, IN(NO_ACKS) | IN(UNITS) | IN(TIMES)),
    U64(combine_header_ps, 0, SECOND_PS, IN(TIMES)),
    U64(combine_word_ps, 0, SECOND_PS, IN(TIMES)),
    U32(combine_units, 1, EMU_UNITS_MAX, IN(NO_ACKS) | IN(UNITS)),
    U32(xpoint_slots, 1, EMU_XPOINT_MAX, IN(NO_ACKS) | IN(SMALL)),
    U32(raw_xpoint_slots, 0, EMU_XPOINT_MAX, IN(NO_ACKS) | IN(RAW)),
    U32(input_slots, 1, EMU_INPUT_MAX, IN(NO_ACKS) | IN(INPUTS)),
    U32(combine_states, 1, 1u << 20, IN(UNITS)),
    U32(light_slots, 1, 1u << 16, IN(NO_ACKS)),
    NAMED(buffers, IN(NO_ACKS), "xpoint", "input_xpoint", "input"),
    NAMED(credit, IN(NO_ACKS) | IN(XPOINTS), "row", "counter"),
    FIELD(choice, .kind = FIELD_NAMED, .uses = ALL, .values = choices),
    NAMED(combine_order, ALL, "arrival", "port"),
    NAMED(combine_check, ALL, "parity", "none"),
    NAMED(routing, IN(ACKS), "adaptive", "static", "oblivious"),
    NAMED(link_retry, IN(NO_ACKS), "none", "go_back_n"),
    NAMED(trap, ALL, "edit", "isolate"),
    NAMED(transport, ALL, "none", "acknowledged"),
    U32_BOTH(packet_bytes, 256, 4096, IN(ACKS)),
    U32(raw_packet_bytes, 256, 4096, IN(ACKS) | IN(RAW)),
    U32(channels, 1, 32, IN(ACKS)),
    U32_BOTH(pool_slots, 0, 96, IN(ACKS)),
    U32(raw_pool_slots, 0, 96, IN(ACKS) | IN(RAW)),
    U32(light_pending, 1, 32, IN(ACKS)),
    U64(reply_timeout_ps, 1, SECOND_PS, IN(ACKS)),
    U64(retry_ps, 1, SECOND_PS, IN(ACKS)),
    U32(retry_limit, 1, 1000, IN(ACKS)),
    NAMED(combining, IN(ACKS), "adapter", "switch"),
    NAMED(barrier, IN(ACKS) | IN(ADAPTERS), "conditional", "tree"),
    U64(barrier_root_ps, 0, SECOND_PS, IN(ACKS) | IN(ADAPTERS) | IN(TIMES)),
    U32(tree_width, 1, EMU_TREE_WIDTH_MAX, IN(ACKS) | IN(ADAPTERS)),
    U32(vector_tree_width, 1, EMU_TREE_WIDTH_MAX, IN(ACKS) | IN(ADAPTERS)),
    U32(broadcast_trees, 1, EMU_TREES_MAX, IN(ACKS)),
};

#define FIELDS (sizeof fields / sizeof fields[0])

/* The values of a switch that all built-in profiles share. */
#define ROUTER                                                                               \
    .combine_units = 1, .raw_xpoint_slots = 0, .input_slots = 8, .combine_states = 65536,    \
    .buffers = EMU_BUFFERS_XPOINT, .credit = EMU_CREDIT_ROW, .choice = EMU_CHOICE_NEXT_FREE, \
    .combine_order = EMU_COMBINE_ARRIVAL, .combine_check = EMU_COMBINE_CHECK_PARITY,         \
    .routing = EMU_ROUTING_ADAPTIVE

/* The paper's combine unit: 250 MHz, four cycles per header and one per word. */
#define COMBINING_250_MHZ .combine_header_ps = 16000, .combine_word_ps = 4000

/*
 * The values of QsNet III. Profiles without acknowledgments have them, too, for users who set
 * transport=acknowledged.
 */
#define ACKNOWLEDGMENTS                                                                         \
    .raw_packet_bytes = 3840, .pool_slots = 16, .raw_pool_slots = 90,                           \
    .reply_timeout_ps = 1000000000, .retry_ps = 1000000, .retry_limit = 100,                    \
    .combining = EMU_COMBINING_ADAPTER, .barrier = EMU_BARRIER_BY_CONDITIONAL, .tree_width = 8, \
    .vector_tree_width = 1, .broadcast_trees = 1

#define PACKETS_OF_QSNET3 .packet_bytes = 1024, .channels = 32, .light_pending = 4

/*
 * Where each number comes from: docs/profiles.md and, for qsnet, qsnet2 and sharp,
 * docs/validation.md.
 */
static const struct emu_profile built_in[] = {
    {
        .name = "oq2004",
        .link_ps_per_byte = 800,
        .channel_ps = 20000,
        .switch_ps = 90000,
        .nic_send_ps = 1300000,
        .nic_recv_ps = 1300000,
        .credit_ps = 110000,
        .xpoint_slots = 4,
        .light_slots = 1,
        ROUTER,
        COMBINING_250_MHZ,
        .transport = EMU_TRANSPORT_NONE,
        PACKETS_OF_QSNET3,
        ACKNOWLEDGMENTS,
    },
    {
        .name = "qsnet3",
        .link_ps_per_byte = 400,
        .channel_ps = 20000,
        .switch_ps = 40000,
        .nic_send_ps = 300000,
        .nic_recv_ps = 300000,
        .credit_ps = 60000,
        .xpoint_slots = 16,
        .light_slots = 2,
        ROUTER,
        COMBINING_250_MHZ,
        .transport = EMU_TRANSPORT_ACKNOWLEDGED,
        PACKETS_OF_QSNET3,
        ACKNOWLEDGMENTS,
    },
    {
        .name = "qsnet",          /* Elan3 and Elite3 */
        .link_ps_per_byte = 2500, /* 400 MB/s: Petrini et al., IEEE Micro 22(1), 2002 */
        .channel_ps = 20000,      /* our choice, as in oq2004 */
        .switch_ps = 35000,       /* the same article */
        .nic_send_ps = 922000,   /* calibrated: with nic_recv_ps, user-level latency "under 2 us" */
        .nic_recv_ps = 922000,   /* (Petrini et al., Hot Interconnects 9, 2001, abstract) */
        .bus_ps_per_byte = 3333, /* calibrated: "over 300 MB/s" (the same abstract) */
        .barrier_root_ps = 1844000, /* nic_recv_ps + nic_send_ps: the root's program tests and
                                       broadcasts (QsNet III, section IV-A) */
        .credit_ps = 60000,         /* our choice, as in qsnet3 */
        .xpoint_slots = 16,         /* unused, as in qsnet3 */
        .light_slots = 2,
        ROUTER,
        COMBINING_250_MHZ,
        .transport = EMU_TRANSPORT_ACKNOWLEDGED,
        .packet_bytes = 320, /* IEEE Micro article */
        .channels = 2,       /* the same; van der Steen, Overview of Recent Supercomputers */
        .light_pending = 1,
        ACKNOWLEDGMENTS,
    },
    {
        .name = "qsnet2",        /* Elan4 and Elite4 */
        .link_ps_per_byte = 769, /* 1.3 GB/s: Wikipedia and van der Steen, QsNet II */
        .channel_ps = 20000,     /* our choice, as in oq2004 */
        .switch_ps = 20000,      /* Beecroft et al., IEEE Micro 25(4), 2005 */
        .nic_send_ps = 567000,   /* calibrated: with nic_recv_ps, MPI latency of 1.22 us */
        .nic_recv_ps = 567000,   /* (Quadrics, cited by Wikipedia, QsNet) */
        .share_ps = 300000,      /* our choice: a flag and a value from another processor */
        .credit_ps = 40000,      /* our choice: a round trip of 80 ns */
        .bus_ps_per_byte = 1096, /* calibrated: PCI-X lets MPI reach 912 MB/s (the same) */
        .xpoint_slots = 16,      /* unused, as in qsnet3 */
        .light_slots = 2,
        ROUTER,
        .combine_header_ps = 567000, /* our choice: as long as to receive a message */
        .combine_word_ps = 4000,
        .transport = EMU_TRANSPORT_ACKNOWLEDGED,
        .packet_bytes = 1024, /* our choice, as in qsnet3 */
        .channels = 2,        /* QsNet III, section IV-B: two packets outstanding */
        .light_pending = 1,
        ACKNOWLEDGMENTS,
    },
    {
        .name = "sharp",           /* Switch-IB 2, ConnectX-4, EDR InfiniBand */
        .link_ps_per_byte = 80,    /* 100 Gb/s */
        .channel_ps = 20000,       /* our choice, as in oq2004 */
        .switch_ps = 90000,        /* product brief of Switch-IB 2: 90 ns from port to port */
        .nic_send_ps = 339000,     /* with nic_recv_ps, the adapters' 0.7 us (press release of */
        .nic_recv_ps = 339000,     /* ConnectX-4, 2014), less a cable and the wire time */
        .credit_ps = 50000,        /* our choice: a round trip of 160 ns */
        .host_send_ps = 120000,    /* calibrated: with host_recv_ps, MPI latency of 1.05 us */
        .host_recv_ps = 120000,    /* through one switch */
        .host_word_ps = 500,       /* our choice: a load, an addition and a store */
        .combine_ps = 678000,      /* a pass through an endpoint: nic_recv_ps + nic_send_ps */
        .combine_header_ps = 6667, /* an endpoint takes 150 million messages per second (Dell) */
        .combine_word_ps = 640,    /* 8 bytes at the rate of a port */
        .xpoint_slots = 32,        /* our choice: four round trips */
        .light_slots = 1,
        ROUTER,
        .transport = EMU_TRANSPORT_NONE,
        PACKETS_OF_QSNET3,
        ACKNOWLEDGMENTS,
    },
};

#define BUILT_IN (sizeof built_in / sizeof built_in[0])

__attribute__((format(printf, 3, 4))) static int wrong(char *error, size_t error_bytes,
                                                       const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return -EINVAL;
}

static const struct field *field_find(const char *name, size_t length)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (strlen(fields[i].name) == length && strncmp(fields[i].name, name, length) == 0)
            return &fields[i];
    return NULL;
}

static int no_field(const char *name, int length, char *error, size_t error_bytes)
{
    char names[1024] = "";

    for (size_t i = 0; i < FIELDS; i++) {
        size_t end = strlen(names);
        snprintf(names + end, sizeof names - end, "%s%s", i ? ", " : "", fields[i].name);
    }
    return wrong(error, error_bytes, "a profile has no field '%.*s'; the fields are %s%s", length,
                 name, names, nearest_in(name, names).text);
}

static int field_number(struct emu_profile *profile, const struct field *field, uint64_t number,
                        char *error, size_t error_bytes)
{
    char *at = (char *)profile + field->offset;
    uint32_t small = (uint32_t)number;

    if (number < field->least || number > field->most)
        return wrong(error, error_bytes, "%s=%llu is out of range; it can be %llu to %llu",
                     field->name, (unsigned long long)number, (unsigned long long)field->least,
                     (unsigned long long)field->most);
    if (field->kind == FIELD_U64)
        memcpy(at, &number, sizeof number);
    else
        memcpy(at, &small, sizeof small);
    if (field->raw)
        memcpy((char *)profile + field->raw, &small, sizeof small);
    return 0;
}

/* Set a field of an enum type. Write the enum as an unsigned int; see the static_assert below. */
static int field_named(struct emu_profile *profile, const struct field *field, const char *value,
                       char *error, size_t error_bytes)
{
    char names[128] = "";

    for (unsigned i = 0; field->values[i]; i++) {
        if (strcmp(field->values[i], value) == 0) {
            memcpy((char *)profile + field->offset, &i, sizeof i);
            return 0;
        }
        size_t end = strlen(names);
        snprintf(names + end, sizeof names - end, "%s%s", i ? ", " : "", field->values[i]);
    }
    return wrong(error, error_bytes, "%s=%.40s is unknown; it can be %s%s", field->name, value,
                 names, nearest_in(value, names).text);
}
_Static_assert(sizeof(enum emu_buffers) == sizeof(unsigned) &&
                   sizeof(enum emu_credit_policy) == sizeof(unsigned) &&
                   sizeof(enum emu_choice) == sizeof(unsigned) &&
                   sizeof(enum emu_combine_order) == sizeof(unsigned) &&
                   sizeof(enum emu_combine_check) == sizeof(unsigned) &&
                   sizeof(enum emu_routing) == sizeof(unsigned) &&
                   sizeof(enum emu_link_retry) == sizeof(unsigned) &&
                   sizeof(enum emu_trap) == sizeof(unsigned) &&
                   sizeof(enum emu_transport) == sizeof(unsigned) &&
                   sizeof(enum emu_combining) == sizeof(unsigned) &&
                   sizeof(enum emu_barrier_by) == sizeof(unsigned),
               "field_named() writes an unsigned");

static int field_text(struct emu_profile *profile, const struct field *field, const char *value,
                      char *error, size_t error_bytes)
{
    const char *digits = value + (*value == '-');
    char *end;

    if (field->kind == FIELD_NAMED)
        return field_named(profile, field, value, error, error_bytes);
    errno = 0;
    unsigned long long number = strtoull(digits, &end, 10);
    bool whole = *digits >= '0' && *digits <= '9' && !*end;
    if (!whole || digits != value || errno)
        return wrong(error, error_bytes, "%s=%.40s is %s; it can be %llu to %llu", field->name,
                     value, whole ? "out of range" : "no whole number",
                     (unsigned long long)field->least, (unsigned long long)field->most);
    return field_number(profile, field, number, error, error_bytes);
}

void emu_profile_each(const struct emu_profile *profile,
                      void (*fn)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const char *at = (const char *)profile + fields[i].offset;
        uint64_t large;
        uint32_t small;

        memcpy(&small, at, sizeof small);
        large = small;
        if (fields[i].kind == FIELD_U64)
            memcpy(&large, at, sizeof large);
        fn(ctx, fields[i].name, large);
    }
}

int emu_profile_set(struct emu_profile *profile, const char *assignment, char *error,
                    size_t error_bytes)
{
    const char *equals = strchr(assignment, '=');

    if (!equals)
        return wrong(error, error_bytes,
                     "'%.80s' sets nothing; write FIELD=VALUE, such as "
                     "choice=random",
                     assignment);
    const struct field *field = field_find(assignment, (size_t)(equals - assignment));
    if (!field)
        return no_field(assignment, (int)(equals - assignment), error, error_bytes);
    return field_text(profile, field, equals + 1, error, error_bytes);
}

/* Fields that are for clock raw only are set last, because other fields set some of them, too. */
static bool is_for_raw(const char *name)
{
    return strncmp(name, "raw_", 4) == 0;
}

static int set_some(struct emu_profile *profile, const char *const *assignments, unsigned count,
                    bool raw, char *error, size_t error_bytes)
{
    for (unsigned i = 0; i < count; i++) {
        int err = is_for_raw(assignments[i]) == raw
                      ? emu_profile_set(profile, assignments[i], error, error_bytes)
                      : 0;
        if (err)
            return err;
    }
    return 0;
}

int emu_profile_set_all(struct emu_profile *profile, const char *const *assignments, unsigned count,
                        char *error, size_t error_bytes)
{
    int err = set_some(profile, assignments, count, false, error, error_bytes);

    return err ? err : set_some(profile, assignments, count, true, error, error_bytes);
}

const char *emu_profile_idle(const struct emu_profile *profile, enum emu_clock_mode mode,
                             const char *assignment)
{
    const struct field *field = field_find(assignment, strcspn(assignment, "="));
    unsigned missing = field ? field->uses & ~uses_of(profile, mode) : 0;

    return missing ? use_names[__builtin_ctz(missing)] : NULL;
}

static int load_built_in(struct emu_profile *ret, const char *name, char *error, size_t error_bytes)
{
    for (size_t i = 0; i < BUILT_IN; i++) {
        if (strcmp(built_in[i].name, name) == 0) {
            *ret = built_in[i];
            return 0;
        }
    }
    wrong(error, error_bytes,
          "no profile '%.80s'; use " EMU_PROFILES ", or the path of a JSON file%s", name,
          nearest_in(name, EMU_PROFILES).text);
    return -ENOENT;
}

/* Return whether a name may be printed, because it has no control characters. */
static bool name_ok(const char *name, const char *end)
{
    while (name < end && (unsigned char)*name >= ' ' && *name != 127)
        name++;
    return name == end;
}

static int file_name(struct emu_profile *profile, struct json_object *value, char *error,
                     size_t error_bytes)
{
    const char *name = json_object_get_string(value);
    int length = json_object_get_string_len(value);

    if (!json_object_is_type(value, json_type_string) || length >= (int)sizeof profile->name ||
        !name_ok(name, name + length))
        return wrong(
            error, error_bytes,
            "\"name\" must be a string of up to %zu characters, without control characters",
            sizeof profile->name - 1);
    snprintf(profile->name, sizeof profile->name, "%s", name);
    return 0;
}

/* Set the name or a field from one member of the file's object. The member is not "base". */
static int file_member(struct emu_profile *profile, const char *key, struct json_object *value,
                       char *error, size_t error_bytes)
{
    if (strcmp(key, "name") == 0)
        return file_name(profile, value, error, error_bytes);
    const struct field *field = field_find(key, strlen(key));
    if (!field)
        return no_field(key, (int)strnlen(key, 80), error, error_bytes);
    if (field->kind == FIELD_NAMED && json_object_is_type(value, json_type_string))
        return field_named(profile, field, json_object_get_string(value), error, error_bytes);
    if (field->kind != FIELD_NAMED && json_object_is_type(value, json_type_int) &&
        json_object_get_int64(value) >= 0)
        return field_number(profile, field, json_object_get_uint64(value), error, error_bytes);
    return wrong(error, error_bytes, "\"%s\" must be a %s", field->name,
                 field->kind == FIELD_NAMED ? "string" : "whole number of at least 0");
}

/* Set fields from the members of the file's object: those for clock raw only, or all others. */
static int file_members(struct emu_profile *profile, struct json_object *object, bool raw,
                        char *error, size_t error_bytes)
{
    json_object_object_foreach(object, key, value)
    {
        if (strcmp(key, "base") == 0 || is_for_raw(key) != raw)
            continue;
        int err = file_member(profile, key, value, error, error_bytes);
        if (err)
            return err;
    }
    return 0;
}

/* Name the profile after its file. A name inside the file replaces this name later. */
static void name_after(struct emu_profile *profile, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t length = strlen(base);

    if (length > 5 && strcmp(base + length - 5, ".json") == 0)
        length -= 5;
    snprintf(profile->name, sizeof profile->name, "%.*s", (int)length, base);
}

static int load_object(struct emu_profile *ret, const char *path, struct json_object *object,
                       char *error, size_t error_bytes)
{
    struct emu_profile profile;
    struct json_object *base;
    const char *base_name = "oq2004";
    char what[512];
    int err;

    if (!json_object_is_type(object, json_type_object))
        return wrong(error, error_bytes, "profile %s is no JSON object; see docs/profiles.md",
                     path);
    if (json_object_object_get_ex(object, "base", &base)) {
        if (!json_object_is_type(base, json_type_string))
            return wrong(error, error_bytes,
                         "profile %s: \"base\" must be the name of a built-in "
                         "profile",
                         path);
        base_name = json_object_get_string(base);
    }
    err = load_built_in(&profile, base_name, error, error_bytes);
    if (err)
        return wrong(error, error_bytes, "profile %s: \"base\" must be one of " EMU_PROFILES, path);
    name_after(&profile, path);
    err = file_members(&profile, object, false, what, sizeof what);
    if (!err) /* the raw_ fields come last, wherever they are in the file */
        err = file_members(&profile, object, true, what, sizeof what);
    if (err)
        return wrong(error, error_bytes, "profile %s: %s", path, what);
    *ret = profile;
    return 0;
}

/* Parse the file. If that fails, return NULL and write the reason to @why. */
static struct json_object *read_json(const char *path, char *why, size_t why_bytes)
{
    struct json_object *object = NULL;
    enum json_tokener_error bad;
    size_t bytes;
    char *text;
    int err = emu_slurp(path, FILE_BYTES_MAX, &text, &bytes);

    if (!err && bytes)
        object = emu_json_parse(text, (int)bytes, &bad);
    if (err)
        snprintf(why, why_bytes, "%s", emu_slurp_why(err));
    else if (!bytes)
        snprintf(why, why_bytes, "it is empty");
    else if (!object && bad == json_tokener_continue)
        snprintf(why, why_bytes, "not JSON: it ends too early");
    else if (!object)
        snprintf(why, why_bytes, "not JSON: %s", json_tokener_error_desc(bad));
    free(text);
    return object;
}

int emu_profile_load(struct emu_profile *ret, const char *what, char *error, size_t error_bytes)
{
    size_t length = strlen(what);
    char why[160];

    if (!strchr(what, '/') && !(length > 5 && strcmp(what + length - 5, ".json") == 0))
        return load_built_in(ret, what, error, error_bytes);
    struct json_object *object = read_json(what, why, sizeof why);
    if (!object) {
        wrong(error, error_bytes, "profile %s: %s; see docs/profiles.md", what, why);
        return -ENOENT;
    }
    int err = load_object(ret, what, object, error, error_bytes);
    json_object_put(object);
    return err;
}

/* The field with the number of credits of a cable to a switch, for each value of `buffers`. */
struct buffers {
    size_t slots; /* offset of the field in struct emu_profile */
    bool has_raw; /* clock raw has raw_xpoint_slots credits; false: at least so many */
};

static const struct buffers buffers[] = {
    [EMU_BUFFERS_XPOINT] = {offsetof(struct emu_profile, xpoint_slots), true},
    [EMU_BUFFERS_INPUT_XPOINT] = {offsetof(struct emu_profile, input_slots), false},
    [EMU_BUFFERS_INPUT] = {offsetof(struct emu_profile, input_slots), false},
};

uint32_t emu_profile_credits(const struct emu_profile *profile)
{
    uint32_t slots;

    memcpy(&slots, (const char *)profile + buffers[profile->buffers].slots, sizeof slots);
    return slots;
}

#define LINKS_AHEAD 16u /* a reply may wait for this many links whose channels are all full */

/* On clock raw a credit takes an iteration of the worker's loop, so more credits are needed. */
static void profile_raw_credits(struct emu_profile *raw)
{
    const struct buffers *at = &buffers[raw->buffers];

    if (!raw->raw_xpoint_slots)
        raw->raw_xpoint_slots = EMU_RAW_SLOTS;
    if (at->has_raw || emu_profile_credits(raw) < raw->raw_xpoint_slots)
        memcpy((char *)raw + at->slots, &raw->raw_xpoint_slots, sizeof raw->raw_xpoint_slots);
}

/*
 * Return the least time-out of replies. It allows for threads that wait for cores and, on clock
 * real, for replies that wait for LINKS_AHEAD links.
 */
static uint64_t profile_timeout_ps(const struct emu_profile *profile, enum emu_clock_mode mode)
{
    uint64_t full_ps = (uint64_t)LINKS_AHEAD * profile->channels * profile->packet_bytes *
                       profile->link_ps_per_byte;

    if (mode == EMU_CLOCK_RAW || full_ps < EMU_HOST_DELAY_PS)
        return EMU_HOST_DELAY_PS;
    return full_ps < SECOND_PS ? full_ps : SECOND_PS;
}

struct emu_profile emu_profile_on(const struct emu_profile *profile, enum emu_clock_mode mode)
{
    struct emu_profile on = *profile;
    uint64_t timeout_ps = profile_timeout_ps(profile, mode);

    if (mode == EMU_CLOCK_RAW) {
        profile_raw_credits(&on);
        on.packet_bytes = on.raw_packet_bytes;
        on.pool_slots = on.raw_pool_slots;
    }
    if (mode != EMU_CLOCK_VIRTUAL && on.reply_timeout_ps < timeout_ps)
        on.reply_timeout_ps = timeout_ps;
    return on;
}
