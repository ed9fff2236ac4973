#!/bin/sh
# Installs async-crud-mcp for the person who runs this: one file, no sudo.
# install.sh --help tells the rest. Made for any POSIX shell.
set -eu

program=async-crud-mcp
releases=https://github.com/async-crud-mcp/async-crud-mcp/releases

usage() {
  cat <<'END'
Usage: install.sh [--version X.Y.Z] [--dir DIR] [--from PLACE]

  --version X.Y.Z  install this version (default: the latest)
  --dir DIR        where the program goes (default: ~/.local/bin)
  --from PLACE     a release folder, or the https address of one, to take it from

The archive must match checksums.txt of the same place. Nothing else is written.
END
}

fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

version='' dir='' from=''
while [ $# -gt 0 ]; do
  case $1 in
  --version | --dir | --from)
    [ -n "${2:-}" ] || fail "$1 wants a value"
    case $1 in
    --version) version=${2#v} ;;
    --dir) dir=$2 ;;
    --from) from=$2 ;;
    esac
    shift 2
    ;;
  -h | --help)
    usage
    exit 0
    ;;
  *) fail "unknown argument $1; --help lists what there is" ;;
  esac
done

if [ -z "$dir" ]; then
  [ -n "${HOME:-}" ] || fail 'HOME is not set; say where with --dir'
  dir=$HOME/.local/bin
fi
if [ -n "$from" ] && [ -n "$version" ]; then
  fail '--from names one release; leave --version out'
fi

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
MINGW* | MSYS* | CYGWIN*) fail 'on Windows use install.ps1' ;;
*) fail "there is no release for $(uname -s); build it with Go: make build" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
arm64 | aarch64) arch=arm64 ;;
*) fail "there is no release for $os on $(uname -m), only for amd64 and arm64; build it with Go: make build" ;;
esac
# A translated shell on Apple silicon says x86_64.
if [ "$os" = darwin ] && [ "$(sysctl -n hw.optional.arm64 2>/dev/null || true)" = 1 ]; then
  arch=arm64
fi
archive=${program}_${os}_$arch.tar.gz

if [ -z "$from" ]; then
  if [ -n "$version" ]; then
    from=$releases/download/v$version
  else
    from=$releases/latest/download
  fi
fi

# fetch NAME FILE: a file of the release.
fetch() {
  case $from in
  https://* | http://127.0.0.1:* | http://localhost:*)
    if have curl; then
      curl -fsSL --retry 3 -o "$2" "$from/$1" || fail "cannot fetch $from/$1"
    elif have wget; then
      wget -q -O "$2" "$from/$1" || fail "cannot fetch $from/$1"
    else
      fail 'curl or wget is needed'
    fi
    ;;
  http://*) fail "$from is not safe; use https" ;;
  *)
    [ -f "$from/$1" ] || fail "$from has no $1"
    cp "$from/$1" "$2"
    ;;
  esac
}

# sum FILE: its SHA-256 in hexadecimal.
sum() {
  if have sha256sum; then
    sha256sum <"$1"
  elif have shasum; then
    shasum -a 256 <"$1"
  elif have openssl; then
    openssl dgst -sha256 -r <"$1"
  else
    fail 'sha256sum, shasum or openssl is needed'
  fi | cut -d ' ' -f 1
}

mkdir -p "$dir"
dir=$(CDPATH='' cd -- "$dir" && pwd)
# Beside its place, so that the last step is a rename and never half a file.
work=$(mktemp -d "$dir/.$program.XXXXXX") || fail "cannot write to $dir; choose another with --dir"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fetch checksums.txt "$work/checksums.txt"
fetch "$archive" "$work/$archive"

want=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1; exit }' "$work/checksums.txt")
[ -n "$want" ] || fail "checksums.txt does not name $archive; nothing was installed"
got=$(sum "$work/$archive")
[ "$got" = "$want" ] || fail "$archive has the checksum $got, not $want; nothing was installed"

tar -xzf "$work/$archive" -C "$work" "$program"
chmod 755 "$work/$program"
says=$("$work/$program" version) || fail "the program does not run on this system; nothing was installed"
mv -f "$work/$program" "$dir/$program"

printf 'installed %s in %s\n' "$says" "$dir"
case :${PATH:-}: in
*:"$dir":*) at=$program ;;
*)
  at=$dir/$program
  # shellcheck disable=SC2016 # the line is for a profile, which knows its own PATH
  printf '\n%s is not in PATH; add this line to your shell profile:\n  export PATH="%s:$PATH"\n' "$dir" "$dir"
  ;;
esac
cat <<END

next:
  $at setup     settings and hosts, after a few questions
  $at doctor    looks at everything, and says what to do
  $at --help    all commands

to remove it:
  $at uninstall
  rm $dir/$program
END
