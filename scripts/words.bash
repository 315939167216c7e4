# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# words.bash - functions for scripts that check their command line before they build.

# Print "; did you mean 'NAME'?" if a name resembles the word: nearest WORD NAME...
nearest() {
    # python3 may be missing
    python3 "$(dirname "${BASH_SOURCE[0]}")/figures/nearest.py" "$@" 2>/dev/null || :
}

# Exit with 2 at the first word that is neither an option of fabemu run nor the value of an option.
# The options come from the source, because the command may not be built yet.
# check_run_options PROGRAM "OTHER OPTIONS OF PROGRAM" WORD...
check_run_options() {
    local program=$1 others=$2 rows flags valued
    shift 2
    rows=$(sed -nE 's/^    \{"([a-z-]+)",(.*)/--\1 \2/p' apps/cmd/run.c apps/cmd/options*.c)
    flags="--help $(sed -nE 's/ +(NULL|"\[=).*//p' <<<"$rows" | tr '\n' ' ')"
    valued=$(sed -E '/ +(NULL|"\[=)/d; s/ .*//' <<<"$rows" | tr '\n' ' ')
    while [ $# -gt 0 ]; do
        case " $valued ; $flags " in
        *" ${1%%=*} "*" ; "*)
            if [ "$1" = "${1%%=*}" ]; then # its value is the next word
                if [ $# = 1 ]; then
                    printf '%s: %s needs a value\n' "$program" "$1" >&2
                    exit 2
                fi
                shift
            fi
            ;;
        *" ; "*" ${1%%=*} "*) ;;
        *)
            # shellcheck disable=SC2086 # these are words
            printf "%s: there is no option '%s'%s\n" "$program" "$1" \
                "$(nearest "$1" $others $flags $valued)" >&2
            exit 2
            ;;
        esac
        shift
    done
}
