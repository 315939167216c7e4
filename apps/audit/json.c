/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - convert the result of an audit to JSON, and print this JSON as text. */
#include "apps/audit/audit.h"

#include <stdlib.h>

#include "apps/control/conn.h"
#include "apps/base/amount.h"
#include "apps/base/fold.h"

static struct json_object *lines(const struct fabric_audit *audit)
{
    struct json_object *wrong = json_object_new_array();

    for (uint32_t i = 0; i < audit->lines; i++)
        json_object_array_add(wrong, json_object_new_string(audit->line[i]));
    return wrong;
}

struct json_object *audit_json_of(const struct fabric_audit *audit)
{
    struct json_object *all = json_object_new_object();

    json_object_object_add(all, "right", json_object_new_boolean(!audit->found));
    json_add_number(all, "found", audit->found);
    json_object_object_add(all, "wrong", lines(audit));
    json_add_number(all, "switches", audit->switches);
    json_add_number(all, "cables", audit->cables);
    if (audit->crossing)
        json_add_number(all, "between_hosts", audit->crossing);
    json_add_number(all, "groups", audit->groups);
    json_add_number(all, "routes", audit->routes);
    json_add_number(all, "buffers", audit->buffers);
    json_add_number(all, "partitioned", audit->partitioned);
    json_add_number(all, "treeless", audit->treeless);
    json_add_number(all, "paused_ns", audit->paused_ns);
    json_add_number(all, "elapsed_ns", audit->elapsed_ns);
    return all;
}

struct json_object *audit_json(struct fabric *fabric, bool routes)
{
    struct fabric_audit *audit = malloc(sizeof *audit);
    struct json_object *all = NULL;

    if (audit && !fabric_audit(fabric, fabric_now_ps(fabric), routes, audit))
        all = audit_json_of(audit);
    free(audit);
    return all;
}

static long long number(struct json_object *audit, const char *name)
{
    return (long long)emu_json_number(audit, name, 0);
}

bool audit_right(struct json_object *audit)
{
    return emu_json_true(audit, "right");
}

void audit_print_wrong(FILE *out, const char *before, struct json_object *audit)
{
    struct json_object *wrong = json_object_object_get(audit, "wrong");
    size_t count = emu_json_count(wrong);
    long long more = number(audit, "found") - (long long)count;

    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s\n", before, json_object_get_string(emu_json_at(wrong, i)));
    if (more > 0)
        fprintf(out, "%sand %lld more\n", before, more);
}

static struct amount counted(struct json_object *audit, const char *name)
{
    return amount_count((uint64_t)number(audit, name));
}

void audit_print(FILE *out, const char *name, struct json_object *audit)
{
    static const struct {
        const char *name, *one;
    } checked[] = {{"cables", "cable"},
                   {"routes", "route"},
                   {"groups", "group"},
                   {"buffers", "buffer"}};
    long long found = number(audit, "found");
    long long partitioned = number(audit, "partitioned"), treeless = number(audit, "treeless");
    struct fold fold;

    out = fold_begin(&fold, out, "               ", FOLD_COLUMNS);
    if (found)
        fprintf(out, "%s: %lld error%s\n", name, found, plural_s(found));
    else
        fprintf(out, "%s: right\n", name);
    audit_print_wrong(out, "  ", audit);
    fprintf(out, "  checked      %s switch%s", counted(audit, "switches").text,
            plural_es(number(audit, "switches")));
    for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++)
        fprintf(out, ", %s %s%s", counted(audit, checked[i].name).text, checked[i].one,
                plural_s(number(audit, checked[i].name)));
    fputs(" in use\n", out);
    if (partitioned || treeless)
        fprintf(out,
                "  links out    without the links that are out of use, %lld route%s and %lld "
                "tree%s are "
                "impossible\n",
                partitioned, plural_s(partitioned), treeless, plural_s(treeless));
    if (number(audit, "between_hosts"))
        fprintf(out, "  hosts        %lld cable%s between hosts: their credits are not added up\n",
                number(audit, "between_hosts"),
                number(audit, "between_hosts") == 1 ? " is" : "s are");
    fprintf(out, "  took         %s", duration_of_ns((double)number(audit, "elapsed_ns")).text);
    fprintf(out, "; the workers were held for %s of this time\n",
            duration_of_ns((double)number(audit, "paused_ns")).text);
    fold_end(&fold);
}
