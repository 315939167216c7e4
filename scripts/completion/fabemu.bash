# bash completion for fabemu(1)                                        -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
# All words come from the output of the command, mostly from --help, so that new options need no
# change here.

# Print the value of an option as --help writes it: raw|real, or [=PORT|wait] if it is optional.
# _fabemu_value COMMAND SUBCOMMAND --OPTION
_fabemu_value() {
    "$1" "$2" --help 2>/dev/null | sed -nE "s/^ +(-h, )?$3( |(\\[=))([^ ]+)( .*)?$/\\3\\4/p" | head -n 1
}

# Print the names of running fabrics.
_fabemu_running() {
    "$1" status --json 2>/dev/null | sed -nE 's/^    "name": ?"([^"]+)",?$/\1/p'
}

# Succeed if a subcommand takes the name of a running fabric: _fabemu_takes_name COMMAND SUBCOMMAND
_fabemu_takes_name() {
    "$1" "$2" --help 2>/dev/null | grep -q '^usage:.*\[NAME\]'
}

# Print the names of bounds and scenarios, from the tables of --help and --list.
_fabemu_bounds() {
    "$1" run --help 2>/dev/null | sed -nE '/^Bounds/,/^$/s/^  ([a-z-]+) .*/\1=/p'
}
_fabemu_scenarios() {
    "$1" fault --list 2>/dev/null | sed -n '/^[Ss]cenarios/,$p' | sed -nE 's/^  ([a-z-]+) .*/\1/p'
}

# Print the kinds of networks, the fields of a profile, the patterns of traffic, the kinds of fault,
# its keys, and the names for --only: from --help, --list, or error messages that list the valid values.
_fabemu_networks() {
    "$1" topo --help 2>/dev/null | sed -nE 's/^  ([a-z]+:)[A-Za-z].*/\1/p' | sort -u
}
_fabemu_fields() {
    "$1" topo kary:2,2 --set '=1' 2>&1 | sed -nE 's/.*the fields are //p' | sed 's/, /=\n/g; s/$/=/'
}
_fabemu_patterns() {
    "$1" traffic --pattern '' 2>&1 | sed -nE 's/.*the patterns are //p' |
        sed -E 's/, /\n/g' | sed -E 's/:[A-Z].*/:/'
}
_fabemu_kinds() {
    "$1" fault --list 2>/dev/null | sed '/^[Ss]cenarios/,$d' | sed -nE 's/^  ([a-z-]+) .*/\1/p'
}
_fabemu_keys() {
    echo "$2 =" | "$1" fault --check /dev/stdin 2>&1 | sed -nE "s/.*; $2 has //p" |
        sed 's/, /=\n/g; s/$/=/'
}
_fabemu_only() {
    "$1" "$2" --list 2>/dev/null | sed -nE 's/^([A-Za-z0-9.]+) .*/\1/p'
}

# Print the values of a field of the profile, if they are words: _fabemu_field COMMAND FIELD
_fabemu_field() {
    "$1" topo kary:2,2 --profile qsnet3 --set "$2=?" 2>&1 |
        sed -nE 's/.*is unknown; it can be ([a-z_, ]+).*/\1/p' | sed 's/, /\n/g'
}

# Print the names of the nodes of a running fabric, if its network is from a file:
# _fabemu_nodes COMMAND FABRIC
_fabemu_nodes() {
    local topo
    topo=$("$1" status --json "$2" 2>/dev/null | sed -nE 's/.*"topo": ?"([^"]+)".*/\1/p' | head -n 1)
    topo=${topo//\\/}
    [ ! -f "$topo" ] || "$1" topo "$topo" --json 2>/dev/null |
        sed -nE '/"node_names"/,/^  \]/s/.*"name": ?"([^" ]+)".*/\1/p'
}

# Offer those of the words that begin with the word under the cursor: _fabemu_words WORD...
_fabemu_words() {
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$*" -- "$cur")
}

_fabemu_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
}

# Offer beginnings of words, after which bash adds no space: _fabemu_begins WORD...
_fabemu_begins() {
    compopt -o nospace 2>/dev/null
    _fabemu_words "$@"
}

# Offer values for an option whose value --help writes as VALUE:
# _fabemu_values FABEMU SUBCOMMAND --OPTION VALUE
_fabemu_values() {
    local word values=${4#\[=}
    case $3 in
    --bound) _fabemu_begins "$(_fabemu_bounds "$1")" ;;
    --set) _fabemu_begins "$(_fabemu_fields "$1")" ;;
    --topo) _fabemu_begins "$(_fabemu_networks "$1")" ;;
    --pattern) _fabemu_words "$(_fabemu_patterns "$1")" ;;
    --profile) _fabemu_words oq2004 qsnet3 qsnet qsnet2 sharp ;;
    --only) _fabemu_words "$(_fabemu_only "$1" "$2")" ;;
    --faults | --show | --check) _fabemu_words "$(_fabemu_scenarios "$1")" ;;
    --name) _fabemu_words "$(_fabemu_running "$1")" ;;
    esac
    [ "$3" != --bound ] || return
    for word in ${values//|/ }; do
        word=${word%%\[*} word=${word%]}
        case $word in
        FILE* | DIR | PATH | SPEC | LAUNCHER) _fabemu_files ;;
        *[A-Z]* | *:* | *..*) ;; # a name or a number that only the user knows
        *) _fabemu_words "$word" ;;
        esac
    done
}

_fabemu_commands() {
    "$1" --help 2>/dev/null | sed -nE '/^Usage|^usage/,/For example/s/^  ([a-z]+) .*/\1/p' |
        grep -vx fabemu
}

# Complete the command line of a subcommand: _fabemu_subcommand FABEMU SUBCOMMAND
_fabemu_subcommand() {
    local value option=$prev equals=no
    [ "$cur" != = ] || { cur='' equals=yes; }
    [ "$prev" != = ] || { option=${COMP_WORDS[COMP_CWORD - 2]} equals=yes; }
    [ "$2,$option" != capture,-w ] || option=--write
    case $option in
    --*)
        value=$(_fabemu_value "$1" "$2" "$option")
        if [ -n "$value" ] && { [ "$equals" = yes ] || [[ $value != '[='* ]]; }; then
            _fabemu_values "$1" "$2" "$option" "$value"
            return
        fi
        ;;
    esac
    if [ $equals = yes ] && [[ " ${COMP_WORDS[*]} " = *" --set $option = "* ]]; then
        _fabemu_words "$(_fabemu_field "$1" "$option")"
        return
    fi
    case $2,$option,$equals in
    fault,node,yes | fault,nodes,yes | fault,from,yes | fault,to,yes | capture,node,yes | \
        capture,nodes,yes | capture,from,yes | capture,to,yes)
        _fabemu_words "$(_fabemu_nodes "$1" "${COMP_WORDS[2]}")"
        return
        ;;
    *,yes) return ;; # a value that only the user knows
    esac
    case $2,$cur in
    *,-*)
        _fabemu_words "$("$1" "$2" --help 2>/dev/null |
            sed -nE 's/^ +(-h, )?(--[a-z-]+).*/\2/p')"
        ;;
    topo,*)
        _fabemu_begins "$(_fabemu_networks "$1")"
        _fabemu_files
        ;;
    run,*) _fabemu_words -- ;;
    up,*) ;; # the name of a new fabric
    fault,*)
        for option in $(_fabemu_kinds "$1"); do
            [[ " ${COMP_WORDS[*]:2:COMP_CWORD-2} " != *" $option "* ]] || break
            option=''
        done
        if [ -n "$option" ]; then
            _fabemu_begins "$(_fabemu_keys "$1" "$option")"
        else
            _fabemu_words "$(_fabemu_running "$1")" "$(_fabemu_kinds "$1")"
        fi
        ;;
    web,*)
        _fabemu_words "$(_fabemu_running "$1")"
        _fabemu_files
        ;;
    *) ! _fabemu_takes_name "$1" "$2" || _fabemu_words "$(_fabemu_running "$1")" ;;
    esac
}

_fabemu() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        _fabemu_words --help --version "$(_fabemu_commands "$1")"
        return
    elif [ "${COMP_WORDS[1]}" = help ]; then
        _fabemu_words "$(_fabemu_commands "$1")"
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [ "${COMP_WORDS[i]}" = -- ]; then # the command line of another command follows
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            elif [ $((i + 1)) -eq "$COMP_CWORD" ]; then
                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            else
                _fabemu_files
            fi
            return
        fi
    done
    _fabemu_subcommand "$1" "${COMP_WORDS[1]}"
}

complete -F _fabemu fabemu
