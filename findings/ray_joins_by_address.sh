#!/usr/bin/env bash
# ray 2.60.0: who may join the cluster that `ray start --head` has just started?
#
# Guessed: whoever uses the address that the command prints, on the same machine and as the same user.
# Seen:    that hangs on the past. Without a token in the home folder, yes. A `ray.init()` leaves
#          ~/.ray/auth_token there, and every later `ray start --head` wants it; `ray.init(address)` then
#          ends in "Failed to connect to Ray cluster", which names no token. `ray.init("auto")` connects,
#          as does the address with RAY_AUTH_MODE=token: only these look for the file.
set -euo pipefail
folder=$(mktemp -d)
export HOME=$folder RAY_TMPDIR=$folder/r RAY_USAGE_STATS_ENABLED=0 PATH=$folder/env/bin:$PATH
unset RAY_AUTH_MODE RAY_ADDRESS PYTHONDONTWRITEBYTECODE # without bytecode Ray's own processes start too slowly
python3 -m venv "$folder/env"
trap 'rm -rf "$folder"' EXIT
pip install --quiet --disable-pip-version-check ray==2.60.0
python -m compileall -q "$folder/env/lib" >/dev/null || true # the processes, at their first start, too
python -c 'import ray; print("ray", ray.__version__)'

join() {
  python - "$1" 2>/dev/null <<'PYTHON'
import sys

import ray

try:
    ray.init(sys.argv[1], log_to_driver=False)
    print("joined")
except ConnectionError as error:
    print(str(error).split(" at ")[0])
PYTHON
}

on_a_new_cluster() {
  ray start --head --port 6399 --include-dashboard false --num-cpus 1 --block >"$folder/log" 2>&1 &
  for _ in $(seq 120); do
    if grep -q "Next steps" "$folder/log"; then break; fi
    sleep 1
  done
  address=$(python -c 'import ray; print(ray._private.services.canonicalize_bootstrap_address("auto"))' 2>/dev/null)
  "$@"
  kill "$!"
  wait "$!" || true
}

by_address() { join "$address"; }
in_all_ways() {
  join "$address"
  join auto
  RAY_AUTH_MODE=token join "$address"
}

before=$(on_a_new_cluster by_address)
for _ in 1 2 3; do # a busy machine may start Ray's processes too slowly for it
  if python -c 'import ray; ray.init(num_cpus=1, include_dashboard=False)' >/dev/null 2>&1; then break; fi
done
after=$(on_a_new_cluster in_all_ways)
printf 'before any ray.init():\n%s\nafter one, by address, by "auto", by address with RAY_AUTH_MODE=token:\n%s\n' "$before" "$after"
[[ $before == joined && $after == $'Failed to connect to Ray cluster\njoined\njoined' ]]
