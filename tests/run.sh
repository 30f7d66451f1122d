#!/usr/bin/env bash
# Builds and runs every test. Ends with "N passed, N failed, N skipped" and status 1 if one failed.
#
#   bash tests/run.sh [--full] [STAGE…]
#
# Stages: unit (ASan and UBSan build), tsan, sim, parity, ranks, e2e (release build); default: all.
# --full: longer versions of some tests (environment TANDEM_FULL=1).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/local/steps.sh
source deploy/local/steps.sh

stages=()
while (($# > 0)); do
  case $1 in
    --full) export TANDEM_FULL=1 ;;
    unit | tsan | sim | parity | ranks | e2e) stages+=("$1") ;;
    *) die "unknown argument $1; known: --full, unit, tsan, sim, parity, ranks, e2e" ;;
  esac
  shift
done
((${#stages[@]} > 0)) || stages=(unit tsan sim parity ranks e2e)

readonly RESULTS=$PWD/build/results
rm -rf "$RESULTS"
mkdir -p "$RESULTS"

# make_venv: the Python packages of the tests, in build/.venv. Redone when the list changes.
make_venv() {
  local stamp=build/.venv/requirements.stamp
  cmp -s tests/requirements.txt "$stamp" && return 0
  say "installing the tests' Python packages into build/.venv"
  python3 -m venv --clear build/.venv || die "python3 -m venv failed"
  build/.venv/bin/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt \
    >&2 || die "pip failed; is the network up?"
  cp tests/requirements.txt "$stamp"
}

preset_of() {
  case $1 in
    unit) echo asan ;;
    tsan) echo tsan ;;
    *) echo release ;;
  esac
}

# Tests that keep both cores busy by themselves, or measure time, run alone.
jobs_of() {
  case $1 in
    unit | tsan) nproc ;;
    *) echo 1 ;;
  esac
}

# has_target PRESET TARGET
has_target() { ninja -C "build/$1" -t query "$2" >/dev/null 2>&1; }

# run_stage LABEL: builds what the stage needs and runs its tests. Results land in $RESULTS/LABEL.
run_stage() {
  local label=$1 preset begin=$SECONDS
  preset=$(preset_of "$label")
  mkdir -p "$RESULTS/$label"
  cmake --preset "$preset" -DTANDEM_PYTHON="$PWD/build/.venv/bin/python" >"$RESULTS/cmake.log" ||
    { cat "$RESULTS/cmake.log" >&2; die "cmake failed"; }
  if ! has_target "$preset" "${label}_tests"; then
    echo "no test has the label $label yet" >"$RESULTS/$label/skipped"
    return 0
  fi
  say "stage $label: building (preset $preset)"
  if ! ninja -C "build/$preset" "${label}_tests" >"$RESULTS/$label/build.log" 2>&1; then
    tail -n 60 "$RESULTS/$label/build.log" >&2
    touch "$RESULTS/$label/build_failed"
    return 0
  fi
  say "stage $label: built in $((SECONDS - begin)) s, running"
  GTEST_OUTPUT="xml:$RESULTS/$label/gtest/" ctest --test-dir "build/$preset" -L "^$label\$" \
    -j "$(jobs_of "$label")" --output-on-failure --output-junit "$RESULTS/$label/ctest.xml" \
    --test-output-size-passed 200000 --test-output-truncation head || true
  say "stage $label: done after $((SECONDS - begin)) s"
}

install_packages deploy/local/packages.txt
make_venv
fetch_model || say "the model could not be fetched: tests that need it will skip or fail"
for stage in "${stages[@]}"; do
  run_stage "$stage"
done
python3 tests/summary.py "$RESULTS" "${stages[@]}"
