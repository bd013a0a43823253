#!/usr/bin/env bash
# uv 0.13.9: two extras conflict, and one of them holds `packaging` below 24. Nobody asks for either.
#
# Guessed: without an extra the newest `packaging` is locked, whatever the extras are called.
# Seen:    if the extra that holds it back comes second by name, everybody gets 23.2: without an
#          extra, and with the other extra, which says nothing of `packaging`. If it comes first, both
#          get the newest. The lock keeps what it has, so that only `uv lock --upgrade`, or a lock made
#          anew, shows it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
uv="$folder/tools/bin/uv"
"$uv" --version

locked() { # the extra that holds back, the other one, and options: which `packaging` is installed
  local project="$folder/$1-$2"
  mkdir -p "$project"
  cat >"$project/pyproject.toml" <<PROJECT
[project]
name = "probe"
version = "1"
requires-python = ">=3.11"
dependencies = ["packaging"]

[project.optional-dependencies]
$1 = ["packaging<24"]
$2 = ["idna"]

[tool.uv]
conflicts = [[{ extra = "$1" }, { extra = "$2" }]]
PROJECT
  "$uv" lock --quiet --project "$project"
  "$uv" export --quiet --project "$project" --no-emit-project --no-hashes --no-header \
    --no-annotate "${@:3}" | sed -n 's/^packaging==\([0-9]*\).*/\1/p'
}

first=$(locked a b)
second=$(locked b a)
beside=$(locked b a --extra a)
echo "the extra that holds back is a: without an extra, packaging $first"
echo "the extra that holds back is b: without an extra, packaging $second; with extra a, $beside"
[[ $first -ge 24 && $second -lt 24 && $beside -lt 24 ]] || { echo "this has changed"; exit 1; }
