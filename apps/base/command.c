/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command.c - the COMMAND of `fabemu run`, and the environment that makes a program use a fabric.
 *
 * The environment uses only documented interfaces: libfabric's provider path, and MCA parameters.
 * Debian's openmpi-mca-params.conf excludes mtl ofi and osc pt2pt, and for Open MPI 5 also btl ofi,
 * so this file allows them.
 *
 * One rule holds for each variable (docs/manual.md states it for users): a value that the user has
 * set is kept. If it prevents programs from using the fabric, a line on stderr says so. An empty
 * value counts as not set.
 *
 * Rejected: to set variables on other hosts by OMPI_MCA_mca_base_env_list. mpirun refuses it
 * together with its option -x, even if -x is in a file (--tune).
 */
#include "apps/base/command.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/base/procs.h"
#include "apps/base/message.h"
#include "apps/base/quantity.h"
#include "emu/util/plugin.h"
#include "nic/provider.h"

#define PROVIDER  "libfabemu-fi.so"
#define COMPONENT "mca_coll_fabemu.so"

/* folders of libfabric's provider and of Open MPI's component, for a fabemu in a build folder */
#define PROVIDER_BUILT  "nic/ofi"
#define COMPONENT_BUILT "apps/ompi"
#define CLOCK_LIBRARY   "libfabemu-clock.so"
#define CLOCK_BUILT     "nic/clock"

/* Open MPI replaces this text by its default folders of components. */
#define COMPONENTS_DEFAULT "SYSTEM_DEFAULT:USER_DEFAULT"

/* Debian's file with the parameters of Open MPI for all users */
#define PARAMETERS_OF_ALL "/etc/openmpi/openmpi-mca-params.conf"

/* The launch agent that set_agent() sets begins with this text. */
#define AGENT_BEGINS "env FABEMU_SOCKET="

/* --- finding the command ---------------------------------------------------------------- */

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int command_find(const char *name, char *file)
{
    const char *path = getenv("PATH");
    int err = ENOENT;

    for (const char *at = path ? path : "/bin:/usr/bin"; at; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ":");
        snprintf(file, PATH_MAX, "%.*s/%s", (int)(length ? length : 1), length ? at : ".", name);
        if (is_file(file)) {
            if (access(file, X_OK) == 0)
                return 0;
            err = EACCES;
        }
        at += length;
        if (!*at)
            break;
    }
    return err;
}

bool command_is_launcher(const char *name)
{
    static const char *const launchers[] = {"mpirun",         "mpiexec",         "orterun",
                                            "mpirun.openmpi", "mpiexec.openmpi", "mpiexec.hydra"};
    const char *slash = strrchr(name, '/');

    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (strcmp(slash ? slash + 1 : name, launchers[i]) == 0)
            return true;
    return false;
}

unsigned long command_processes(char *const *argv)
{
    /* options that may stand before the number, and the number of words that follow each of them */
    static const struct {
        const char *name;
        unsigned words;
    } others[] = {{"--oversubscribe", 0}, {"--allow-run-as-root", 0},
                  {"--mca", 2},           {"-mca", 2},
                  {"--map-by", 1},        {"--bind-to", 1},
                  {"--host", 1},          {"-H", 1},
                  {"--hostfile", 1},      {"-x", 1}};
    static const char *const counts[] = {"-np", "--np", "-n", "--n", "-c"};
    uint64_t ret;
    size_t o;

    if (!command_is_launcher(argv[0]))
        return 0;
    for (argv++; *argv; argv++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            if (strcmp(*argv, counts[i]) == 0) {
                const char *at = argv[1];

                return at && quantity_digits(&at, ULONG_MAX, &ret) && !*at ? ret : 0;
            }
        for (o = 0; o < sizeof others / sizeof others[0]; o++)
            if (strcmp(*argv, others[o].name) == 0)
                break;
        if (o == sizeof others / sizeof others[0])
            return 0; /* the program, or an option that may have a value */
        for (unsigned words = others[o].words; words && argv[1]; words--)
            argv++;
    }
    return 0;
}

static const char *what_to_do(const char *name)
{
    if (command_is_launcher(name) && !strstr(name, "hydra"))
        return "install Open MPI: apt-get install openmpi-bin";
    return "check the spelling and PATH";
}

int command_check(const char *name)
{
    char file[PATH_MAX];
    int err = ENOENT;

    if (!strchr(name, '/'))
        err = command_find(name, file);
    else if (is_file(name))
        err = access(name, X_OK) == 0 ? 0 : EACCES;
    else if (access(name, F_OK) == 0)
        err = EACCES;
    if (err == ENOENT) {
        print_message("%s: not found; %s", name, what_to_do(name));
        return EXIT_NOT_FOUND;
    }
    if (err) {
        print_message("%s: not executable; if it is a program, make it executable: chmod +x", name);
        return EXIT_CANNOT_RUN;
    }
    return 0;
}

/*
 * Return whether @launcher, or mpirun if it is NULL, belongs to Open MPI 5, which has prterun in
 * the same folder. A missing mpirun counts as Open MPI 4.
 */
static bool is_open_mpi_5(const char *launcher)
{
    char found[PATH_MAX], file[PATH_MAX];
    const char *name = launcher ? launcher : "mpirun";

    if (strchr(name, '/'))
        snprintf(found, sizeof found, "%s", name);
    else if (command_find(name, found))
        return false;
    if (!realpath(found, file))
        return false;
    char *base = strrchr(file, '/') + 1;

    return snprintf(base, (size_t)(file + sizeof file - base), "prterun") <
               file + sizeof file - base &&
           is_file(file);
}

/* --- the environment --------------------------------------------------------------------- */

struct setting {
    const char *name;
    /* PROVIDER_NAME stands for the name that the provider has in this environment */
    const char *value; /* NULL: only the user's value is checked */
    const char *needs; /* component that the user's list of components must allow; NULL: no check */
    /* If the user has set one of these, in the environment or in a file, `name` is not set. Open
       MPI refuses to run with both, even if one is empty, and MPICH would ignore the user's
       variable. */
    const char *conflicts[3];
};

#define PROVIDER_INCLUDE "OMPI_MCA_mtl_ofi_provider_include"

static const struct setting settings[] = {
    {"OMPI_MCA_mtl", "ofi", "ofi", {0}},
    {PROVIDER_INCLUDE,
     PROVIDER_NAME,
     PROVIDER_NAME,
     {"OMPI_MCA_opal_common_ofi_provider_include", "OMPI_MCA_mtl_ofi_provider_exclude",
      "OMPI_MCA_opal_common_ofi_provider_exclude"}},
    {"OMPI_MCA_opal_common_ofi_provider_include", NULL, PROVIDER_NAME, {0}},
};

static const struct setting settings_4[] = {
    {"OMPI_MCA_pml", "cm", "cm", {0}},
    {"OMPI_MCA_btl", "self", NULL, {0}},
    {"OMPI_MCA_osc", "^monitoring,portals4,rdma,ucx", NULL, {0}}, /* permits fabemu, sm, pt2pt */
    {"OMPI_MCA_rmaps_base_oversubscribe", "1", NULL, {"OMPI_MCA_rmaps_base_no_oversubscribe"}},
    /* MPICH otherwise sends messages between processes of one host through shared memory */
    {"MPIR_CVAR_NOLOCAL",
     "1",
     NULL,
     {"MPIR_CVAR_NO_LOCAL", "MPIR_CVAR_NUM_CLIQUES", "MPIR_CVAR_ODD_EVEN_CLIQUES"}},
};

/*
 * Open MPI 5 has no osc pt2pt. Its windows use osc rdma over btl ofi. Only pml ob1 initializes btl
 * components, so it must be allowed, too. If a list names pml components to use, Open MPI
 * initializes only the first of them. Therefore the list here names components to exclude. Open MPI
 * chooses cm, because its priority is higher.
 */
static const struct setting settings_5[] = {
    {"OMPI_MCA_pml", "^monitoring,ucx,v", "cm", {0}},
    {"OMPI_MCA_btl", "self,ofi", NULL, {0}},
    {"OMPI_MCA_osc", "^monitoring,portals4,ucx", NULL, {0}},
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", NULL, {0}},
};

struct walk {
    void (*each)(void *context, const char *name, const char *value);
    void *context;
    const char *provider; /* name of the libfabric provider */
};

/* Return the user's value; NULL: it is not set, or empty. */
static const char *user_value(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Return whether a file of parameters of Open MPI has a line "NAME = VALUE" for @name. */
static bool is_in_file(const char *path, const char *name)
{
    FILE *file = is_file(path) ? fopen(path, "re") : NULL;
    size_t length = strlen(name);
    char line[512];
    bool found = false;

    while (file && !found && fgets(line, sizeof line, file)) {
        const char *begin = line + strspn(line, " \t"), *end = begin + length;

        found = strncmp(begin, name, length) == 0 && end[strspn(end, " \t")] == '=';
    }
    if (file)
        fclose(file);
    return found;
}

/* Return whether the user has set a variable, even to "", or has set its parameter in a file. */
static bool is_set(const char *name)
{
    const char *home = getenv("HOME"), *parameter = name + strlen("OMPI_MCA_");
    char path[PATH_MAX];

    if (getenv(name) || strncmp(name, "OMPI_MCA_", strlen("OMPI_MCA_")) != 0)
        return getenv(name);
    snprintf(path, sizeof path, "%s/.openmpi/mca-params.conf", home ? home : "");
    return is_in_file(path, parameter) || is_in_file(PARAMETERS_OF_ALL, parameter);
}

/* Return whether a list allows @component: "a,b" names it, or "^a,b" does not name it. */
static bool list_allows(const char *list, const char *component)
{
    bool excludes = *list == '^', named = false;
    size_t length;

    for (const char *at = list + excludes; *at; at += length + (at[length] == ',')) {
        length = strcspn(at, ",");
        named = named || (length == strlen(component) && memcmp(at, component, length) == 0);
    }
    return named != excludes;
}

static void check_list(const char *name, const char *needs)
{
    const char *value = user_value(name);

    if (value && !list_allows(value, needs))
        print_message(
            "%s=%s, which you have set, keeps programs off the fabric: it has to allow %s; unset "
            "it, or set it to %s",
            name, value, needs, needs);
}

static void set_unless_users(const struct walk *walk, const char *name, const char *value)
{
    if (!user_value(name))
        walk->each(walk->context, name, value);
}

static const char *with_provider(const struct walk *walk, const char *text)
{
    return text && strcmp(text, PROVIDER_NAME) == 0 ? walk->provider : text;
}

static void apply(const struct walk *walk, const struct setting *setting)
{
    bool conflict = false;

    for (size_t i = 0; i < sizeof setting->conflicts / sizeof setting->conflicts[0]; i++)
        conflict = conflict || (setting->conflicts[i] && is_set(setting->conflicts[i]));
    if (setting->needs)
        check_list(setting->name, with_provider(walk, setting->needs));
    if (setting->value && !conflict)
        set_unless_users(walk, setting->name, with_provider(walk, setting->value));
}

static void apply_all(const struct walk *walk, const struct setting *setting, size_t count)
{
    for (size_t i = 0; i < count; i++)
        apply(walk, &setting[i]);
}

/*
 * Write "@dir:LIST" to @ret. LIST is the user's value without @dir or, if there is no value,
 * @otherwise. Returns false if the text does not fit.
 */
static bool prepend(char *ret, size_t ret_bytes, const char *name, const char *dir,
                    const char *otherwise)
{
    const char *had = user_value(name) ? user_value(name) : otherwise;
    size_t bytes = strlen(dir), length;

    if (bytes + strlen(had) + 2 > ret_bytes)
        return false;
    strcpy(ret, dir);
    for (; *had; had += length + (had[length] == ':')) {
        /* skip @dir, which an earlier `fabemu env` may have added */
        length = strcspn(had, ":");
        if (length == strlen(dir) && memcmp(had, dir, length) == 0)
            continue;
        ret[bytes++] = ':';
        memcpy(ret + bytes, had, length);
        bytes += length;
        ret[bytes] = '\0';
    }
    return true;
}

/* Return the capital of i in the locale that the environment names. */
static char capital_i(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    int capital = locale ? toupper_l('i', locale) : 'I';

    if (locale)
        freelocale(locale);
    return (char)capital;
}

/*
 * Set a variable of libfabric under all names that libfabric may use. It makes these names with
 * toupper(), which depends on the program's locale. In Turkish and Azeri the capital of i has a
 * dot. In UTF-8 this letter has more than one byte, so toupper() leaves the i. ISO 8859-9 has a
 * byte for it. A program may choose its locale itself, so the name with i is always set. The name
 * with that byte is set only if the environment selects such a locale: in other locales the byte is
 * not a character, and some programs end when a name contains it.
 */
static void set_in_each_locale(const struct walk *walk, const char *suffix, const char *value)
{
    const char letters[] = {'I', 'i', capital_i()};
    size_t count = letters[2] == 'I' ? 2 : 3;
    char name[32];

    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "FI_PROV%cDER%s", letters[i], suffix);
        walk->each(walk->context, name, value);
    }
}

/* Return the user's launch agent, without the part that an earlier `fabemu env` has added. */
static const char *user_agent(void)
{
    const char *agent = user_value("OMPI_MCA_orte_launch_agent");

    if (!agent)
        return "orted";
    if (strncmp(agent, AGENT_BEGINS, strlen(AGENT_BEGINS)) != 0)
        return agent;
    for (agent += strlen("env "); strchr(agent, ' '); agent = strchr(agent, ' ') + 1)
        if (!memchr(agent, '=', strcspn(agent, " ")))
            break;
    return agent;
}

/*
 * Set the launch agent, the command by which mpirun starts its daemon on other hosts. mpirun itself
 * sets only MCA parameters there, so the launch agent (env NAME=VALUE ... orted) sets the other
 * variables. A shell reads the launch agent, and mpirun splits it at spaces.
 */
static void set_agent(const struct walk *walk, const char *socket_path, const char *provider,
                      const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-:,%+@=";
    const char *values[] = {socket_path, provider, path};
    char agent[16384];

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (!values[i][strspn(values[i], plain)])
            continue;
        print_message(
            "mpirun cannot pass '%s' to the other hosts, since it has characters other than "
            "letters, digits and /._-:,%%+@=; run mpirun -x FABEMU_SOCKET -x FI_PROVIDER "
            "-x FI_PROVIDER_PATH -x " PROVIDER_NAME_VARIABLE,
            values[i]);
        return;
    }
    if ((size_t)snprintf(agent, sizeof agent,
                         AGENT_BEGINS "%s FI_PROVIDER=%s FI_PROViDER=%s FI_PROVIDER_PATH=%s "
                                      "FI_PROViDER_PATH=%s " PROVIDER_NAME_VARIABLE "=%s %s",
                         socket_path, provider, provider, path, path, walk->provider,
                         user_agent()) < sizeof agent)
        walk->each(walk->context, "OMPI_MCA_orte_launch_agent", agent);
}

static void set_provider(const struct walk *walk, const char *socket_path, const char *dir)
{
    const char *provider = user_value("FI_PROVIDER") ? user_value("FI_PROVIDER") : walk->provider;
    char path[4096];

    check_list("FI_PROVIDER", walk->provider);
    if (!prepend(path, sizeof path, "FI_PROVIDER_PATH", dir, "")) {
        print_message(
            "FI_PROVIDER_PATH is longer than %zu bytes, which keeps programs off the fabric: "
            "shorten it",
            sizeof path);
        return;
    }
    if (strcmp(walk->provider, PROVIDER_NAME) != 0 || user_value(PROVIDER_NAME_VARIABLE))
        walk->each(walk->context, PROVIDER_NAME_VARIABLE, walk->provider);
    set_in_each_locale(walk, "", provider);
    set_in_each_locale(walk, "_PATH", path);
    if (strstr(socket_path, "%h")) /* the fabric spans several hosts (hosts_socket_anywhere()) */
        set_agent(walk, socket_path, provider, path);
}

/* Let Open MPI find the collective component, if it was built for version @major of Open MPI. */
static void set_component(const struct walk *walk, int major)
{
    /* Open MPI 5 would pass the short name on to PMIx, which would look for its components there */
    const char *name = major == 5 ? "OMPI_MCA_opal_mca_base_component_path"
                                  : "OMPI_MCA_mca_base_component_path";
    char dir[600], path[4096];

    if (major != OMPI_MAJOR)
        print_message("collectives of Open MPI %d will not run in the switches, but over messages: "
                      "%s is built for Open MPI %d",
                      major, COMPONENT, OMPI_MAJOR);
    else if (!emu_plugin_dir(dir, sizeof dir, COMPONENT, COMPONENT_BUILT))
        print_message("%s is not built: collectives will not run in the switches; build it with "
                      "scripts/build",
                      COMPONENT);
    else if (prepend(path, sizeof path, name, dir, COMPONENTS_DEFAULT))
        walk->each(walk->context, name, path);
}

/* Set the variables that Open MPI needs. @launcher: as in is_open_mpi_5(). */
static void set_open_mpi(const struct walk *walk, const char *launcher)
{
    bool is_5 = is_open_mpi_5(launcher);

    apply_all(walk, settings, sizeof settings / sizeof settings[0]);
    if (geteuid() == 0) {
        set_unless_users(walk, "OMPI_ALLOW_RUN_AS_ROOT", "1");
        set_unless_users(walk, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if (is_5)
        apply_all(walk, settings_5, sizeof settings_5 / sizeof settings_5[0]);
    else
        apply_all(walk, settings_4, sizeof settings_4 / sizeof settings_4[0]);
    set_component(walk, is_5 ? 5 : 4);
}

int env_each(const char *socket_path, const char *provider, const char *launcher,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes)
{
    const struct walk walk = {each, context, provider};
    char dir[600];
    int err = procs_check(error, error_bytes); /* /proc is needed to find the plug-ins */

    if (err)
        return err;
    each(context, "FABEMU_SOCKET", socket_path);
    each(context, "OMPI_MCA_coll_fabemu_socket", socket_path); /* mpirun passes it to other hosts */
    set_open_mpi(&walk, launcher);
    if (!emu_plugin_dir(dir, sizeof dir, PROVIDER, PROVIDER_BUILT))
        return fail(-ENOENT, error, error_bytes,
                    "%s is not beside the fabemu command: programs "
                    "that use libfabric or MPI cannot reach the fabric; build it with "
                    "scripts/build",
                    PROVIDER);
    set_provider(&walk, socket_path, dir);
    return 0;
}

/* --- starting the command ---------------------------------------------------------------- */

static void set(void *context, const char *name, const char *value)
{
    (void)context;
    setenv(name, value, 1);
}

/*
 * mpirun refuses --nooversubscribe and --map-by X:NOOVERSUBSCRIBE if a variable allows
 * oversubscribing. If COMMAND has such an option, the variable is set to 0.
 */
static void decide_oversubscribe(char **argv)
{
    for (char **word = argv; *word; word++)
        if (strcasestr(*word, "nooversubscribe"))
            setenv("OMPI_MCA_rmaps_base_oversubscribe", "0", 1);
}

/*
 * Return whether @argv sets a parameter of Open MPI that excludes providers: as the words "--mca
 * NAME", as a word "OMPI_MCA_NAME=...", or in a script.
 */
static bool excludes_providers(char **argv)
{
    for (char **word = argv; *word; word++)
        if (strstr(*word, "_ofi_provider_exclude") &&
            (strcasestr(*word, "mca") || (word > argv && strcasestr(word[-1], "mca"))))
            return true;
    return false;
}

int command_environment(char **argv, const char *socket_path, const char *provider,
                        const char *mark, const char *scratch, char *error, size_t error_bytes)
{
    static const char *const tmpdirs[] = {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"};

    setenv(COMMAND_MARK, mark, 1);
    for (size_t i = 0; i < sizeof tmpdirs / sizeof tmpdirs[0]; i++)
        setenv(tmpdirs[i], scratch, !user_value(tmpdirs[i])); /* unless it is set */
    decide_oversubscribe(argv);
    bool provider_is_users = user_value(PROVIDER_INCLUDE);
    int err = env_each(socket_path, provider, command_is_launcher(argv[0]) ? argv[0] : NULL, set,
                       NULL, error, error_bytes);
    /* Open MPI refuses an option that excludes providers together with this variable. With the
       option, FI_PROVIDER alone selects the provider. */
    if (!provider_is_users && excludes_providers(argv))
        unsetenv(PROVIDER_INCLUDE);
    return err;
}

#define YIELDS "OMPI_MCA_mpi_yield_when_idle"

void command_prepare_virtual(bool tsc)
{
    char dir[600], path[640], list[4096];

    if (tsc)
        setenv("FABEMU_TSC", "1", 1);
    else
        unsetenv("FABEMU_TSC");

    /* A rank without work sleeps in the provider. Open MPI would also yield after each poll, and
       beside busy programs a yield takes milliseconds. */
    setenv(YIELDS, "0", !user_value(YIELDS));
    if (!emu_plugin_dir(dir, sizeof dir, CLOCK_LIBRARY, CLOCK_BUILT)) {
        print_message("%s is not built: programs will see the host's time", CLOCK_LIBRARY);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", dir, CLOCK_LIBRARY);
    if (prepend(list, sizeof list, "LD_PRELOAD", path, ""))
        setenv("LD_PRELOAD", list, 1);
    else
        print_message("LD_PRELOAD is longer than %zu bytes, so programs will see the host's time: "
                      "shorten it",
                      sizeof list);
}

pid_t command_start(char **argv, const struct command_signals *signals)
{
    pid_t supervisor = getpid();
    pid_t pid = fork();

    if (pid != 0)
        return pid < 0 ? -errno : pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != supervisor)
        _exit(EXIT_FAILURE); /* the supervisor died before the prctl() */
    sigaction(SIGPIPE, &signals->pipe, NULL);
    sigaction(SIGXFSZ, &signals->file_size, NULL);
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
    execvp(argv[0], argv);
    print_message("cannot execute %s: %s", argv[0], strerror(errno));
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}
