/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.h - a command asks a running fabric something (docs/control.md).
 */
#ifndef APPS_CONTROL_ASK_H
#define APPS_CONTROL_ASK_H

#include <json-c/json.h>
#include <stddef.h>
#include <sys/types.h>

/* A field that a reply must have. */
struct ask_field {
    const char *name;
    enum json_type type;
};

/* Fields that a reply must have, for ask_fabric() and ask_check(). */
#define ASK_FIELDS(...) ((const struct ask_field[]){__VA_ARGS__, {NULL, json_type_null}})

/** ask_request - a request of that name, the caller's. */
struct json_object *ask_request(const char *command);

/**
 * ask_fabric - ask fabric @name; @request is put, the reply is the caller's to put.
 * @fields: which the reply has if this returns 0; NULL: none. @owner: the process that listens, or
 * NULL. Errors: one line in @error. -ETIMEDOUT, it does not answer; -EPROTO, it refuses, or its
 * reply lacks a field.
 */
int ask_fabric(const char *name, struct json_object *request, const struct ask_field *fields,
               struct json_object **reply, pid_t *owner, char *error, size_t error_bytes);

/**
 * ask_check - does @object, which fabric @name has sent, have these fields? Errors: -EPROTO with
 * one line in @error.
 */
int ask_check(const char *name, struct json_object *object, const struct ask_field *fields,
              char *error, size_t error_bytes);

#endif
