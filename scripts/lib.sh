# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by all scripts: where things are, how they talk, and how a long step is run.
# To be sourced.

set -euo pipefail

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
CHECKOUT=$(dirname "$SCRIPTS")
CACHE=${XDG_CACHE_HOME:-${HOME:-~}/.cache}/virtio_blk_rs

# A file that is there only inside the sysroot.
INSIDE=/run/virtio_blk_rs

RELEASE=trixie
SERIES=7.3
FLAVOUR=${FLAVOUR:-cloud-amd64}
KVER=${KVER:-}
MIRROR=${MIRROR:-}

say() {
    printf '%s\n' "$*" >&2
}

# die MESSAGE [REMEDY]: What is wrong, and what to do about it.
die() {
    say "error: $1"
    [[ -z ${2:-} ]] || say "remedy: $2"
    exit 1
}

check_settings() {
    [[ $CACHE == /* ]] || die "XDG_CACHE_HOME=${XDG_CACHE_HOME:-} is not an absolute path" \
        "give a path that begins with /"
    # Neither kbuild nor mmdebstrap can be told to quote these.
    [[ $CHECKOUT != *[[:space:]:]* ]] || die "blank or colon in the path '$CHECKOUT'" \
        "move the checkout to a path without them"
    [[ $CACHE != *[[:space:]:]* ]] || die "blank or colon in the path '$CACHE'" \
        "set XDG_CACHE_HOME to a path without them"
    case $FLAVOUR in
    cloud-amd64 | amd64) ;;
    *) die "FLAVOUR=$FLAVOUR is not a known kernel flavour" \
        "use FLAVOUR=cloud-amd64 (default) or FLAVOUR=amd64" ;;
    esac
    [[ -z $KVER || $KVER =~ ^$SERIES\.[A-Za-z0-9.+~-]+$ ]] || die \
        "KVER=$KVER is not a $SERIES kernel, the only series that this driver is written for" \
        "boot a $SERIES kernel of Debian, or leave KVER out to build for the cached one"
}

need_root() {
    ((EUID == 0)) || die "$1 mounts file systems and must be run by root, not by $(id -un)" \
        "use sudo"
}

# The files that decide what a cached thing is, without their comments.
recipe() {
    cat "$@" | grep -v '^[[:space:]]*\(#\|$\)' | cat - <(echo "$RELEASE $SERIES $MIRROR") |
        sha256sum | cut -c1-12
}

sysroot_dir() {
    echo "$CACHE/sysroot-$(recipe "$SCRIPTS/packages" "$SCRIPTS/sysroot")"
}

# prepared_kernel SYSROOT: Release of the kernel to use, or nothing if it has to be made.
prepared_kernel() {
    local recipe tree release found=''
    recipe=$(recipe "$SCRIPTS/kernel-steps")
    for tree in "$1/usr/src/linux-"*; do
        release=${tree##*/linux-}
        [[ -n $KVER || $release =~ ^$SERIES\.[^-]*-$FLAVOUR$ ]] || continue
        [[ -z $KVER || $release == "$KVER" ]] || continue
        [[ $(cat "$tree/.recipe" 2>/dev/null) == "$recipe" ]] && found+=$release$'\n'
    done
    sort -V <<<"$found" | tail -n1
}

# A tree that is being removed must not keep the name under which it would be trusted.
discard() {
    local path
    for path; do
        [[ -e $path ]] || continue
        mv -T "$path" "$CACHE/stage-discard-$$"
        rm -rf "$CACHE/stage-discard-$$"
    done
}

# step NAME REMEDY COMMAND...: Run a command or a function of the calling script, its output to
# a log, its progress to the terminal. It lives in a process namespace that dies with this
# script, so that even a killed set-up leaves nobody behind who writes on.
step() {
    local name=$1 remedy=$2 start=$SECONDS shown=$SECONDS status=0 pid log
    shift 2
    log=${name%% (*}
    log=$CACHE/log/${log//[^A-Za-z0-9.+-]/-}.log
    mkdir -p "$CACHE/log"
    say "* $name"
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
        bash -c "set -euo pipefail; $(declare -f); \"\$@\"" bash "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    # shellcheck disable=SC2064
    trap "{ kill -KILL $pid; wait $pid; } 2>/dev/null || :
        say; say 'interrupted in step: $name'; exit 130" INT TERM HUP
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        progress "$log" "$((SECONDS - start))"
    done
    wait "$pid" || status=$?
    trap - INT TERM HUP
    [[ ! -t 2 ]] || printf '\r\033[K' >&2
    if ((status)); then
        say "error: step '$name' failed with status $status; the end of its log:"
        tail -n 12 "$log" | sed 's/^/    /' >&2
        say "log: $log"
        say "remedy: $remedy"
        exit 1
    fi
    say "  done in $((SECONDS - start)) s"
}

# progress LOG ELAPSED: One line that is kept current on a terminal, else one now and then.
# It reads and sets `shown` of step().
progress() {
    local last
    if [[ -t 2 ]]; then
        last=$(tail -c 300 "$1" | tr '\r' '\n' | tail -n1 | tr -cd '[:print:]' | cut -c1-60)
        printf '\r\033[K  %4d s  %s' "$2" "$last" >&2
    elif ((SECONDS - shown >= 20)); then
        shown=$SECONDS
        last=$(tail -c 300 "$1" | tr '\r' '\n' | tail -n1 | tr -cd '[:print:]' | cut -c1-60)
        say "  $2 s: $last"
    fi
}
