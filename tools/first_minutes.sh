#!/usr/bin/env bash
# Measures how long a new machine needs until its first batch, by the README only: makes a bare Debian 12 or Ubuntu 24.04
# in a folder, puts a clone of this checkout there, and runs `make setup`, the README's first program, `make demo` and, with
# TEST=1, `make test`. Before that it runs `pip install .`, which must end with one line that names the missing libraries.
# Writes minutes since the start of `make setup`, and that line, as JSON. Needs root and debootstrap.
#
# usage: [TEST=1] [MIRROR=URL] [CERTIFICATES=FILE] [PIP_CONF=FILE] tools/first_minutes.sh bookworm|noble FOLDER OUT.json
#   MIRROR        packages of the distribution, if not those of debootstrap's default
#   CERTIFICATES  is trusted by pip, for networks that have certificates of their own
#   PIP_CONF      pip's configuration, for a mirror of PyPI
set -euo pipefail
[[ $# == 3 ]] || { sed -n '2,/^# usage/s/^# \{0,1\}//p' "$0"; exit 2; }
release="$1" root="$2" out="$3"
checkout="$(realpath "$(dirname "$0")/..")"
case "$release" in
bookworm) options=() ;;
noble) options=(--components=main,universe --no-check-gpg) ;;  # Debian has no keys of Ubuntu; inside, apt checks all packages
*) echo "$release is not bookworm or noble"; exit 2 ;;
esac

# Debian 12's debootstrap is older than Ubuntu 24.04, which is made like all releases of Ubuntu.
scripts="${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts"
script=()
[[ -e $scripts/$release ]] || script=("$scripts/gutsy")
mkdir -p "$root"
[[ -e $root/etc/os-release ]] ||
  debootstrap --variant=minbase "${options[@]}" "$release" "$root" "${MIRROR:-}" "${script[@]}" >"$root.log"
if [[ $release == noble ]]; then  # the mirror that debootstrap wrote, with universe
  sed -i 's/ main$/ main universe/' "$root/etc/apt/sources.list"
fi

cp /etc/resolv.conf "$root/etc/resolv.conf"
git clone --quiet --no-local "$checkout" "$root/damacy"
[[ -z ${CERTIFICATES:-} ]] || install -D -m 644 "$CERTIFICATES" "$root/etc/ssl/more.pem"
[[ -z ${PIP_CONF:-} ]] || install -D -m 644 "$PIP_CONF" "$root/etc/pip.conf"
awk '/^## First program/ {found = 1} found && /^```$/ {exit} found && inside {print} found && /^```python$/ {inside = 1}' \
  "$checkout/README.md" >"$root/first_program.py"

cat >"$root/measure.sh" <<'MEASURE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
[[ ! -e /etc/ssl/more.pem ]] || export PIP_CERT=/etc/ssl/more.pem SSL_CERT_FILE=/etc/ssl/more.pem
{ apt-get update && apt-get install -y --no-install-recommends ca-certificates git make python3-venv python3-dev g++; } >/apt.log 2>&1
cd /damacy
python3 -m venv /first && /first/bin/pip install . >/refusal.log 2>&1 && { echo "libraries are not missing"; exit 1; }
refusal="$(grep -o 'damacy needs libraries.*' /refusal.log | head -1)"
rm -rf /first build
rows=()
start=$SECONDS
step() { echo "$1 ..." && "${@:2}" >"/${1//[^a-z]/-}.log" 2>&1 && rows+=("\"$1\": $(( (SECONDS - start) * 100 / 60 ))e-2"); }
step "setup" make setup
step "first batch" env -C /tmp /damacy/.venv/bin/python /first_program.py
step "demo" make demo
[[ -z ${TEST:-} ]] || step "test" make test
. /etc/os-release
IFS=,
printf '{"system": "%s", "cores": %s, "refusal": "%s", "minutes": {%s}}\n' "$PRETTY_NAME" "$(nproc)" "$refusal" "${rows[*]}" >/result.json
MEASURE
unshare --mount bash -c 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs shm "$1/dev/shm" &&
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TEST="$2" chroot "$1" bash /measure.sh' - "$root" "${TEST:-}"
cp "$root/result.json" "$out"
cat "$out"
