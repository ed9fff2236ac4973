#!/bin/sh
# Runs every fuzz target for a while, one after the other.
# usage: scripts/fuzz.sh DURATION
set -eu
grep -rl --include='*_test.go' '^func Fuzz' cmd internal test | xargs -n1 dirname | sort -u |
while read -r dir; do
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go); do
    echo "== $dir $target"
    go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$1" </dev/null
  done
done
