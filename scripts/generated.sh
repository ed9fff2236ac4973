#!/bin/sh
# Runs go generate and fails when that changed what is generated, which is then
# current: commit it.
set -eu
sum() { cat docs/TOOLS.md docs/CONFIG.md docs/ERRORS.md docs/CLI.md docs/config.schema.json 2>/dev/null | cksum || true; }
before=$(sum)
go generate ./...
if [ "$before" != "$(sum)" ]; then
  echo "generated documents were stale and are now current; commit them:" >&2
  git --no-pager diff --stat -- docs >&2 || true
  exit 1
fi
