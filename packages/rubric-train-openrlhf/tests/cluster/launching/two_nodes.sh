#!/bin/bash
# Two nodes on one machine, which share nothing but the paths that are named: each has a network
# address, a name, processes, shared memory and a /tmp of its own. Ray joins both.
#
#   unshare --user --map-root-user --net --uts --mount --pid --fork --mount-proc --kill-child \
#     two_nodes.sh PYTHON PATHS COMMAND...
#
# PATHS are joined by colons. The command runs on the first node; everything ends with it.
set -euo pipefail
python=$1 paths=$2
shift 2
# From 2.60 on a cluster wants a token where one lies in the home folder, and who joins it by its
# address does not look there.
export RAY_AUTH_MODE=disabled
port=6379 first=10.77.0.1 second=10.77.0.2

share_nothing_but() {
  local -a files=() kept=()
  local path fd
  IFS=: read -ra kept <<<"$1"
  for path in "${kept[@]}"; do
    exec {fd}<"$path"
    files+=("$fd")
  done
  mount -t tmpfs tmpfs /tmp
  mount -t tmpfs tmpfs /dev/shm
  for path in "${kept[@]}"; do
    fd=${files[0]}
    files=("${files[@]:1}")
    if [[ $path == /tmp/* ]]; then
      mkdir -p "$path"
      mount --no-canonicalize --rbind "/proc/self/fd/$fd" "$path"
    fi
    exec {fd}<&-
  done
}

joins() {
  # With ports of its agents Ray waits for none of them to say which it has, which may take too long.
  "$python" -m ray.scripts.scripts start "$@" --block --num-gpus 1 --num-cpus 16 \
    --object-store-memory $((2 ** 28)) --disable-usage-stats \
    --dashboard-agent-grpc-port 6380 --dashboard-agent-listen-port 6381 --runtime-env-agent-port 6382
}

if [[ $python == second ]]; then # this script again, on the other node
  python=$1
  hostname second
  ip link set lo up
  until ip addr add $second/24 dev veth1 2>&-; do sleep 0.1; done
  ip link set veth1 up
  share_nothing_but "$paths"
  joins --address $first:$port --node-ip-address $second
  exit
fi

hostname first
ip link set lo up
unshare --net --uts --mount --pid --fork --mount-proc --kill-child \
  "$0" second "$paths" "$python" &
until other=$(pgrep --parent $!); do sleep 0.1; done
ip link add veth0 type veth peer name veth1 netns "$other"
ip addr add $first/24 dev veth0
ip link set veth0 up
share_nothing_but "$paths"
joins --head --port $port --node-ip-address $first --include-dashboard false &
exec "$@"
