/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - an audit of a running fabric (apps/audit/audit.h) as JSON: made by the daemon,
 * printed by the command.
 */
#ifndef APPS_AUDIT_JSON_H
#define APPS_AUDIT_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

struct fabric;
struct fabric_audit;

/**
 * audit_json - audit the fabric. @routes: follow the tables, too. NULL: there is no memory.
 * audit_json_of() - of one that was made.
 * Thread: the fabric's manager.
 */
struct json_object *audit_json(struct fabric *fabric, bool routes);
struct json_object *audit_json_of(const struct fabric_audit *audit);

/** audit_right - did it find nothing? */
bool audit_right(struct json_object *audit);

/** audit_print_wrong - a line for each thing that is wrong, after @before. */
void audit_print_wrong(FILE *out, const char *before, struct json_object *audit);

/** audit_print - for people. @name: of the fabric. */
void audit_print(FILE *out, const char *name, struct json_object *audit);

#endif
