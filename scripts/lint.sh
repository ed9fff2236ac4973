#!/bin/sh
# Runs the golangci-lint that make deps built. Without one this fails, unless the
# registry it comes from did not answer.
# usage: scripts/lint.sh VERSION
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/async-crud-mcp
exe=$cache/tools/golangci-lint-$1-$(go env GOVERSION)
if [ -x "$exe" ]; then
  exec "$exe" run --allow-parallel-runners ./...
fi
reason=$(sed -n 's/^golangci-lint	//p' "$cache/missing.txt" 2>/dev/null || true)
case $reason in
  "registry unreachable:"*) echo "skipped golangci-lint: $reason" ;;
  *) echo "no golangci-lint $1: ${reason:-run make deps}" >&2; exit 1 ;;
esac
