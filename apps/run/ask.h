/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.h - a command asks a running fabric something (docs/control.md).
 */
#ifndef APPS_RUN_ASK_H
#define APPS_RUN_ASK_H

#include <stddef.h>
#include <sys/types.h>

struct json_object;

/** ask_request - a request of that name, the caller's. */
struct json_object *ask_request(const char *command);

/**
 * ask_fabric - ask fabric @name; @request is put, the reply is the caller's to put.
 * @owner: its supervisor, or NULL. Errors: one line in @error.
 */
int ask_fabric(const char *name, struct json_object *request, struct json_object **reply,
               pid_t *owner, char *error, size_t error_bytes);

#endif
