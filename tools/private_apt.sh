# To be sourced. apt-get with configuration, package lists and a status of its own: nothing counts as installed, and this
# machine's apt is left alone. Knows no package and no release.

private_apt() {  # private_apt FOLDER ARCHITECTURE "RELEASE COMPONENT"...: exports APT_CONFIG for the commands that follow
  local apt="$1" architecture="$2" suite
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror="${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
  mkdir -p "$apt"/{lists/partial,archives/partial}
  touch "$apt/status"
  for suite in "${@:3}"; do echo "deb [signed-by=$keyring] $mirror $suite"; done >"$apt/sources.list"
  cat >"$apt/conf" <<CONF
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Architecture "$architecture";
APT::Architectures "$architecture";
APT::Sandbox::User "";
CONF
  export APT_CONFIG="$apt/conf"
  apt-get update -qq
}
