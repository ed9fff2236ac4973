#!/bin/sh
# Starts the program of this machine out of a bundle that holds one for each.
set -eu
case $(uname -s) in
Darwin) os=darwin ;;
Linux) os=linux ;;
*) os=$(uname -s) ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
arm64 | aarch64) arch=arm64 ;;
*) arch=$(uname -m) ;;
esac
program=$(dirname -- "$0")/${os}_$arch/async-crud-mcp
if [ ! -f "$program" ]; then
  echo "async-crud-mcp: this bundle has no program for ${os}_$arch" >&2
  exit 1
fi
# Some hosts unpack without the permissions.
[ -x "$program" ] || chmod +x "$program"
exec "$program" "$@"
