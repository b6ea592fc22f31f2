# shellcheck shell=bash
# Functions for tests in a bare Debian 12, which packages.sh and bare.sh source. They skip the test by status 77.

# skip_unless_bare_root_works: needs root, debootstrap and Debian's archive.
skip_unless_bare_root_works() {
  ((EUID == 0)) || { echo "SKIPPED: a bare Debian needs root"; exit 77; }
  command -v debootstrap >/dev/null || { echo "SKIPPED: there is no debootstrap; ./weft setup installs it"; exit 77; }
}

# make_bare_root FOLDER: FOLDER/root, a fresh copy of FOLDER/bare, which debootstrap makes once.
make_bare_root() {
  local folder=$1
  root=$folder/root
  leave_bare_root
  if [[ ! -e $folder/bare/done ]]; then
    rm -rf "$folder/bare"
    mkdir -p "$folder"
    if ! debootstrap --variant=minbase bookworm "$folder/bare" http://deb.debian.org/debian >"$folder/debootstrap.log" 2>&1; then
      tail -5 "$folder/debootstrap.log"
      echo "SKIPPED: debootstrap failed; is Debian's archive reached?"
      exit 77
    fi
    touch "$folder/bare/done"
  fi
  rm -rf "$root"
  cp -a "$folder/bare" "$root"
  cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
  # Services are not started.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
  # Without /proc, which a sandbox may refuse, most tools work.
  mount -t proc proc "$root/proc" 2>/dev/null || true
  trap leave_bare_root EXIT
  in_root apt-get -q update >"$folder/apt.log" 2>&1 || { tail -3 "$folder/apt.log"; echo "SKIPPED: Debian's archive is not reached"; exit 77; }
}

leave_bare_root() {
  ! mountpoint -q "$root/proc" || umount "$root/proc"
}

# in_root COMMAND...: runs it in the root with an environment of its own.
in_root() {
  chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${root_environment[@]}" "$@"
}
root_environment=()

# install_in_root PACKAGE...
install_in_root() {
  in_root apt-get -q install -y --no-install-recommends "$@" >"$root/apt.log" 2>&1 || { tail -20 "$root/apt.log"; return 1; }
}

# measure TEXT COMMAND...: runs it and prints the seconds that it took. Times are printed, never checked.
measure() {
  local text=$1 start=${EPOCHREALTIME/./} status=0
  shift
  "$@" || status=$?
  awk -v us=$((${EPOCHREALTIME/./} - start)) -v text="$text" 'BEGIN { printf "%8.2f s  %s\n", us / 1e6, text }'
  return $status
}
