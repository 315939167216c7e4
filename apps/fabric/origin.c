/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin.c - the origin of a result, as JSON and as text. The manual promises the JSON's fields to
 * users (docs/manual.md): add fields if necessary, but do not change or remove any.
 */
#include "apps/fabric/origin.h"

#include <ctype.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <time.h>

#include "apps/base/fold.h"
#include "apps/fabric/fabric.h"

#define HIDDEN "***"

/*
 * Return whether @name, of @bytes bytes, is the name of an option or a variable whose value is a
 * secret.
 */
static bool names_secret(const char *name, size_t bytes)
{
    static const char *const parts[] = {"key",        "token",      "secret", "passw",
                                        "passphrase", "credential", "auth",   "pwd"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (size_t at = 0; at + strlen(parts[i]) <= bytes; at++)
            if (strncasecmp(name + at, parts[i], strlen(parts[i])) == 0)
                return true;
    return false;
}

/*
 * Return whether a URL begins with http or https. In such a URL, a user without a password is
 * usually a token.
 */
static bool is_http(const char *word, const char *at)
{
    size_t bytes = (size_t)(at - word);

    return (bytes >= 4 && strncasecmp(at - 4, "http", 4) == 0) ||
           (bytes >= 5 && strncasecmp(at - 5, "https", 5) == 0);
}

/* Find the first password in SCHEME://USER:PASSWORD@HOST or https://TOKEN@HOST; NULL: none. */
static const char *password_in(const char *word)
{
    for (const char *at = strstr(word, "://"); at; at = strstr(at, "://")) {
        const char *user = at + 3, *host = strpbrk(user, "@/");
        bool has_user = host && *host == '@';
        const char *colon = has_user ? memchr(user, ':', (size_t)(host - user)) : NULL;

        if (colon)
            return colon + 1;
        if (has_user && is_http(word, at))
            return user;
        at = user;
    }
    return NULL;
}

/* Find where a secret begins in @word, as in "--env=API_KEY=1234"; NULL: there is none. */
static const char *secret_in(const char *word)
{
    for (const char *at = strpbrk(word, "=:"); at; at = strpbrk(at + 1, "=:"))
        if (names_secret(word, (size_t)(at - word)))
            return at + 1;
    return password_in(word);
}

/* Return whether @word is an option whose value is a secret in the next word: "--token" "1234". */
static bool announces_secret(const char *word)
{
    return *word == '-' && !strpbrk(word, "=:") && names_secret(word, strlen(word));
}

/* Return whether a string is UTF-8, which JSON requires. An argument may have any bytes. */
static bool is_utf8(struct json_object *string)
{
    struct json_tokener *tokener = json_tokener_new();
    struct json_object *read = NULL;

    if (!tokener)
        return false;
    json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
    read = json_tokener_parse_ex(tokener, json_object_to_json_string(string), -1);
    json_tokener_free(tokener);
    json_object_put(read);
    return read;
}

/*
 * Return the first @bytes of @word, followed by @end, as JSON. If they are not UTF-8, '?' replaces
 * each byte that is not ASCII.
 */
static struct json_object *word_json(const char *word, size_t bytes, const char *end)
{
    struct json_object *ret = NULL;
    char *copy = malloc(bytes + strlen(end) + 1);

    if (!copy)
        return NULL;
    memcpy(copy, word, bytes);
    strcpy(copy + bytes, end);
    ret = json_object_new_string(copy);
    if (!is_utf8(ret)) {
        for (char *at = copy; *at; at++)
            if (!isascii(*at))
                *at = '?';
        json_object_put(ret);
        ret = json_object_new_string(copy);
    }
    free(copy);
    return ret;
}

/*
 * Add @word to @list with its secret hidden. @secret_next: whether the whole word is a secret
 * because of the word before it; updated for the next word.
 */
static void add_word(struct json_object *list, const char *word, bool *secret_next)
{
    bool hidden = *secret_next && strncmp(word, "--", 2) != 0;
    const char *secret = hidden ? word : secret_in(word);

    json_object_array_add(list, secret ? word_json(word, (size_t)(secret - word), HIDDEN)
                                       : word_json(word, strlen(word), ""));
    *secret_next = !hidden && announces_secret(word);
}

struct json_object *origin_words(char *const *words)
{
    struct json_object *list = json_object_new_array();
    bool secret_next = false;

    for (; *words; words++)
        add_word(list, *words, &secret_next);
    return list;
}

/* Return the words in @text, which newlines separate. */
static struct json_object *words_in(const char *text)
{
    struct json_object *list = json_object_new_array();
    char *copy = strdup(text), *rest = copy;
    bool secret_next = false;

    for (char *word; (word = strsep(&rest, "\n"));)
        add_word(list, word, &secret_next);
    free(copy);
    return list;
}

/*
 * Return the command line as the user wrote it. A script that starts this process puts its own
 * command line into FABEMU_ORIGIN. Otherwise, use the command line of this process; not argv of
 * main(), because getopt has reordered it.
 */
static struct json_object *words_of_user(void)
{
    const char *script = getenv("FABEMU_ORIGIN");
    struct json_object *list;
    bool secret_next = false;
    char *word = NULL;
    size_t capacity = 0;
    FILE *file;

    if (script && *script)
        return words_in(script);
    list = json_object_new_array();
    file = fopen("/proc/self/cmdline", "re");
    while (file && getdelim(&word, &capacity, '\0', file) > 0)
        add_word(list, word, &secret_next);
    free(word);
    if (file)
        fclose(file);
    return list;
}

/* Return {FIELD: VALUE} of all fields of the profile that options have set. */
static struct json_object *settings_of(const struct fabric_config *config)
{
    struct json_object *all = json_object_new_object();

    for (unsigned i = 0; config && i < config->set_count; i++) {
        const char *equals = strchr(config->sets[i], '=');
        char field[64];

        if (!equals)
            continue;
        snprintf(field, sizeof field, "%.*s", (int)(equals - config->sets[i]), config->sets[i]);
        json_object_object_add(all, field, json_object_new_string(equals + 1));
    }
    return all;
}

/* Return the time when the command began or, if that is unknown, the present: UTC, ISO 8601. */
static struct json_object *date_of(const struct fabric_config *config)
{
    time_t at = config && config->began_s ? (time_t)config->began_s : time(NULL);
    char text[32];
    struct tm tm;

    if (!gmtime_r(&at, &tm) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
        return NULL;
    return json_object_new_string(text);
}

struct json_object *origin_json(const struct fabric_config *config)
{
    struct json_object *origin = json_object_new_object();
    struct utsname host;

    json_object_object_add(origin, "version", json_object_new_string(FABEMU_VERSION));
    json_object_object_add(origin, "command", words_of_user());
    json_object_object_add(origin, "settings", settings_of(config));
    json_object_object_add(origin, "seed", config ? json_object_new_uint64(config->seed) : NULL);
    json_object_object_add(origin, "host",
                           uname(&host) ? NULL : json_object_new_string(host.nodename));
    json_object_object_add(origin, "date", date_of(config));
    return origin;
}

static const char *text_of(struct json_object *origin, const char *field)
{
    const char *text = json_object_get_string(json_object_object_get(origin, field));

    return text ? text : "unknown";
}

/* Write a word quoted for a shell. Control characters become '?'. */
static void put_quoted(FILE *out, const char *word)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-";
    bool quoted = !*word || word[strspn(word, plain)];

    if (quoted)
        fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(iscntrl((unsigned char)*word) ? '?' : *word, out);
    if (quoted)
        fputc('\'', out);
}

char *origin_command(struct json_object *origin)
{
    struct json_object *command = json_object_object_get(origin, "command");
    size_t words = json_object_is_type(command, json_type_array) ? json_object_array_length(command)
                                                                 : 0;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    if (!out)
        return NULL;
    for (size_t i = 0; i < words; i++) {
        const char *word = json_object_get_string(json_object_array_get_idx(command, i));

        fputs(i ? " " : "", out);
        put_quoted(out, word ? word : "");
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Print the quoted command line after @next. */
static void print_command(FILE *out, struct json_object *origin, const char *next, int columns)
{
    char *command = origin_command(origin), *line = NULL;

    if (command && asprintf(&line, "%s%s", next, command) > 0)
        fold_print_command(out, line, next, columns);
    free(line);
    free(command);
}

static void print_settings(FILE *out, struct json_object *settings, const char *next, int columns)
{
    const char *before = "settings ";
    struct fold fold;
    FILE *line;

    if (!json_object_is_type(settings, json_type_object) || !json_object_object_length(settings))
        return;
    line = fold_begin(&fold, out, next, columns);
    fputs(next, line);
    json_object_object_foreach(settings, field, value)
    {
        fprintf(line, "%s%s=%s", before, field, json_object_get_string(value));
        before = ", ";
    }
    fputc('\n', line);
    fold_end(&fold);
}

void origin_print(FILE *out, struct json_object *origin, const char *first, const char *next,
                  int columns)
{
    struct json_object *seed = json_object_object_get(origin, "seed");
    struct fold fold;
    FILE *line;

    if (!origin)
        return;
    line = fold_begin(&fold, out, next, columns);
    fprintf(line, "%sfabemu %s, host %s, %s", first, text_of(origin, "version"),
            text_of(origin, "host"), text_of(origin, "date"));
    if (seed)
        fprintf(line, ", seed %s", json_object_get_string(seed));
    fputc('\n', line);
    fold_end(&fold);
    print_command(out, origin, next, columns);
    print_settings(out, json_object_object_get(origin, "settings"), next, columns);
}
