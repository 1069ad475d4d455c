#!/usr/bin/env bash
# Measures how long a new machine needs until its first batch, by the README only: makes a bare Debian 12 or Ubuntu 24.04 in
# a folder, clones this checkout there, and takes one of the README's two ways to install it.
#   make  `make setup`, the first program, `make demo`; with TEST=1 also `make test`
#   pip   `pip install`, which must end with one line that names the missing libraries and the command that installs them;
#         that command; `pip install` again; the first program
# Prints as JSON, after each step, the minutes since the first command and the minutes of processor time that were used, of
# which the latter do not depend on other work of the machine. Needs root and debootstrap.
#
# usage: [TEST=1] [MIRROR=URL] [CERTIFICATES=FILE] tools/first_minutes.sh bookworm|noble make|pip FOLDER
#   MIRROR        packages of the distribution, if not those of debootstrap's default
#   CERTIFICATES  pip trusts them, for networks that have certificates of their own
set -euo pipefail
[[ $# == 3 && $1 =~ ^(bookworm|noble)$ && $2 =~ ^(make|pip)$ ]] || { sed -n '2,/^# *CERT/s/^# \{0,1\}//p' "$0"; exit 2; }
release="$1" way="$2" root="$3" checkout="$(realpath "$(dirname "$0")/..")"
options=() script=()
if [[ $release == noble ]]; then
  options=(--components=main,universe --no-check-gpg)  # Debian has no keys of Ubuntu; apt checks the packages later
  [[ -e ${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts/noble ]] || script=(gutsy)  # older than noble; made like all Ubuntus
fi
if [[ ! -e $root/etc/os-release ]]; then
  mkdir -p "$root"
  debootstrap --variant=minbase "${options[@]}" "$release" "$root" "${MIRROR:-}" \
    ${script:+"${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts/$script"} >"$root.log"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
git clone --quiet --bare --no-local "$checkout" "$root/damacy.git"
[[ -z ${CERTIFICATES:-} ]] || install -D -m 644 "$CERTIFICATES" "$root/etc/ssl/more.pem"

cat >"$root/measure.sh" <<'MEASURE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
[[ ! -e /etc/ssl/more.pem ]] || export PIP_CERT=/etc/ssl/more.pem SSL_CERT_FILE=/etc/ssl/more.pem
start=$SECONDS rows=() refusal=
mkdir -p /logs
step() {
  echo "$1 ..." >&2
  "${@:2}" >"/logs/$1" 2>&1
  rows+=("\"$1\": [$(( (SECONDS - start) * 10 / 6 ))e-2, $(awk '{printf "%.2f", ($16 + $17) / 6000}' /proc/$$/stat)]")
}
packages() { apt-get update && apt-get install -y --no-install-recommends "$@"; }
first_program() {
  sed -n '/^## First program/,/^## /{/^```python$/,/^```$/p}' /damacy/README.md | grep -v '^```' >/first.py && cd /tmp && "$1" /first.py; }

if [[ $WAY == make ]]; then
  step "packages" packages ca-certificates git make
  step "clone" git clone file:///damacy.git /damacy
  cd /damacy
  step "setup" make setup
  step "first batch" first_program /damacy/.venv/bin/python
  step "demo" make demo
  [[ -z $TEST ]] || step "test" make test
else
  step "packages" packages ca-certificates git g++ python3-dev python3-venv
  step "clone" git clone file:///damacy.git /damacy
  cd /damacy
  python3 -m venv env
  if env/bin/pip install ".[zarr]" >/logs/refusal 2>&1; then echo "no library is missing" && exit 1; fi
  refusal="$(grep -o 'damacy needs libraries.*' /logs/refusal | tail -1)"
  step "refusal" test -n "$refusal"
  step "libraries" packages ${refusal##*apt-get install}
  step "install" env/bin/pip install ".[zarr]"
  step "first batch" first_program /damacy/env/bin/python
fi
. /etc/os-release
IFS=,
printf '{"system": "%s", "way": "%s", "cores": %s, "minutes": {%s}, "refusal": "%s"}\n' \
  "$PRETTY_NAME" "$WAY" "$(nproc)" "${rows[*]}" "$refusal"
MEASURE
exec unshare --mount bash -c 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs shm "$1/dev/shm" &&
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root WAY="$2" TEST="$3" chroot "$1" bash /measure.sh' - "$root" "$way" "${TEST:-}"
