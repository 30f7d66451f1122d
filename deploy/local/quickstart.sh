#!/usr/bin/env bash
# From nothing to a streamed answer: installs what is missing, builds, fetches a small model,
# starts one prefill and one decode instance, asks one question, prints where the time went.
#
#   bash deploy/local/quickstart.sh [--stay] [--message TEXT]
#
# --stay keeps the cluster running (Ctrl-C ends it). A second run skips what is done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/local/steps.sh
source deploy/local/steps.sh

stay=false
# Longer than one prefill chunk, so that part of the transfer can hide behind the compute.
message="A child looks up on a clear summer day, sees that the sky is blue, and asks her teacher for \
the reason. The teacher knows that sunlight contains all colours, that air is made of tiny \
molecules, and that short waves of light are scattered more strongly than long ones. She wants an \
answer that is true and that uses no formula. Explain in two sentences why the sky is blue."
while (($# > 0)); do
  case $1 in
    --stay) stay=true ;;
    --message)
      (($# > 1)) || die "--message needs a text"
      message=$2
      shift
      ;;
    *) die "unknown option $1; known: --stay, --message TEXT" ;;
  esac
  shift
done

up_pid=
scratch=

# Ends the cluster, however this script ends; waits until it is gone.
stop_cluster() {
  if [[ -n $up_pid ]]; then
    kill -TERM "$up_pid" 2>/dev/null || true
    wait "$up_pid" 2>/dev/null || true
    up_pid=
  fi
  [[ -z $scratch ]] || rm -rf "$scratch"
}

# start_cluster: sets url once every instance serves.
start_cluster() {
  scratch=$(mktemp -d)
  mkfifo "$scratch/ready"
  trap stop_cluster EXIT
  trap 'exit 130' INT TERM
  build/release/bin/tandem up configs/local.yaml --set coordinator.http=127.0.0.1:0 \
    --set coordinator.control=tcp://127.0.0.1:0 >"$scratch/ready" 2>"$scratch/log" &
  up_pid=$!
  local line=
  # The fifo's end means that the command ended.
  read -r line <"$scratch/ready" || true
  if [[ $line != "ready "* ]]; then
    cat "$scratch/log" >&2
    die "the cluster did not start; its log is above"
  fi
  url=${line#ready }
}

install_packages deploy/local/packages.txt
say "building (preset release)"
build_preset release tandem tandem-coordinator tandem-worker
fetch_model || die "the model could not be fetched; is the network up?"
say "starting one prefill and one decode instance"
start_cluster
say "asking at $url: $message"
build/release/bin/tandem chat --url "$url" --message "$message" --max-tokens 128 \
  --temperature 0 --stats || {
  cat "$scratch/log" >&2
  die "no answer; the cluster's log is above"
}
if $stay; then
  say "running at $url; Ctrl-C ends it. Talk to it: build/release/bin/tandem chat --url $url"
  wait "$up_pid"
fi
