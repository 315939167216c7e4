/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * duration.h - a length of time as people read it. Programs get fixed units.
 */
#ifndef APPS_CLI_DURATION_H
#define APPS_CLI_DURATION_H

struct duration {
    char text[32];
};

/**
 * duration_of_ns - three digits and the unit that suits them: "491 ms", "12.3 us", "2 min 05 s".
 * @ns: what is not above 0 is "0 s". Pure.
 */
struct duration duration_of_ns(double ns);

/** duration_decimals - how many @value, from 0 to 999, has for three digits in all. Pure. */
int duration_decimals(double value);

#endif
