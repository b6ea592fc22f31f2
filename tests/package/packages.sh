#!/usr/bin/env bash
# Builds the packages, and installs and uses each in a bare Debian 12: packages.sh SOURCE WORK [ARGUMENTS of ./weft package]
# WEFT_TEST_PACKAGES=FOLDER tests packages that are built already.
set -Eeuo pipefail
trap 'echo "line $LINENO failed: $BASH_COMMAND"' ERR
[[ ${WEFT_TEST_LARGE:-} ]] || { echo "SKIPPED: builds packages: run it by ./weft test -L large"; exit 77; }
source=$(realpath "$1") work=$(realpath -m "$2")
shift 2
root=$work/root
source "$source/tests/package/bare_root.sh"
skip_unless_bare_root_works
packages=${WEFT_TEST_PACKAGES:-$source/build/packages}
[[ ${WEFT_TEST_PACKAGES:-} ]] || measure "./weft package" "$source/weft" package "$@"
make_bare_root "$work"
mkdir -p "$root/packages" "$root/project" "$root/work"
cp "$packages"/*.deb "$packages"/*.whl "$packages"/*.tar.gz "$root/packages"
tools=(g++ cmake make pkg-config)
measure "apt install ${tools[*]}" install_in_root "${tools[@]}"

# Two files: a program, and what README.md says to write into CMakeLists.txt.
cp "$source/tests/package/outside/main.cpp" "$root/project"
{
  printf 'cmake_minimum_required(VERSION 3.23)\nproject(outside LANGUAGES CXX)\nadd_executable(program main.cpp)\n'
  cat "$source/tests/package/outside/find.cmake"
} >"$root/project/CMakeLists.txt"
mkdir "$root/static"
cp "$root/project/main.cpp" "$root/static"
sed 's/find_package(weft REQUIRED)/find_package(weft REQUIRED COMPONENTS static)/; s/weft::weft/weft::static/' \
  "$root/project/CMakeLists.txt" >"$root/static/CMakeLists.txt"
grep -q 'weft::static' "$root/static/CMakeLists.txt"

# build_project TEXT SOURCE BUILD [OPTION...]
build_project() {
  in_root rm -rf "$3"
  measure "$1: configure" in_root cmake -S "$2" -B "$3" -DCMAKE_BUILD_TYPE=Release "${@:4}" >"$root/work/log" ||
    { cat "$root/work/log"; return 1; }
  tail -1 "$root/work/log"
  measure "$1: build" in_root cmake --build "$3" >"$root/work/log" 2>&1 || { cat "$root/work/log"; return 1; }
  tail -1 "$root/work/log"
  in_root "$3/program"
}

# ---- Debian packages --------------------------------------------------------------------------------------------
cd "$root/packages"
debs=(libweft[0-9]*.deb libweft-dev*.deb python3-weft*.deb)
for deb in "${debs[@]}"; do
  package=${deb%%_*}
  files=$(dpkg-deb -c "$deb" | awk '$1 !~ /^d/ { print $6 }')
  ! grep -v '^\./usr/' <<<"$files" || { echo "$deb has files outside /usr"; exit 1; }
  for document in copyright changelog.Debian.gz; do
    grep -qx "./usr/share/doc/$package/$document" <<<"$files" || { echo "$deb lacks $document"; exit 1; }
  done
  [[ $(dpkg-deb -c "$deb" | awk '$2 != "root/root"') == "" ]] || { echo "$deb has files that are not root's"; exit 1; }
  echo "$package depends on $(dpkg-deb -f "$deb" Depends)"
done
cd /
debs=("${debs[@]/#//packages/}")
measure "apt install ./libweft*.deb" install_in_root "${debs[@]:0:2}"
build_project "debs" /project /work/debs
[[ $(in_root ldd /work/debs/program) == */libweft.so.* ]]
in_root sh -c 'g++ -std=c++20 /project/main.cpp -o /work/by_pkg_config $(pkg-config --cflags --libs weft)'
in_root /work/by_pkg_config
in_root readelf --version-info --wide /work/by_pkg_config | grep -m1 -o 'Name: WEFT_[0-9.]*'
# The static library says which packages it needs, then links.
if in_root cmake -S /static -B /work/static 2>"$root/work/log" >/dev/null; then echo "it links without fmt"; exit 1; fi
grep -q 'apt-get install libfmt-dev' "$root/work/log" || { cat "$root/work/log"; exit 1; }
IFS=', ' read -ra needed <<<"$(dpkg-deb -f "$root/${debs[1]}" Suggests)"
install_in_root "${needed[@]}"
build_project "debs, static library" /static /work/static
[[ $(in_root ldd /work/static/program) != */libweft.so.* ]]

measure "apt install ./python3-weft*.deb" install_in_root "${debs[2]}"
cat >"$work/use.py" <<'PYTHON'
import importlib.metadata, sys, time
start = time.perf_counter()
import weft
print(f"{time.perf_counter() - start:8.3f} s  import weft {weft.__version__} from {weft.__file__}")
assert weft.__version__ == importlib.metadata.version("weft")
x = weft.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(x @ x).sum().backward()
assert x.grad.tolist() == [[7, 11], [9, 13]] and x.grad.numpy().sum() == 40
image = weft.rand(1, 3, 8, 8)
assert weft.nn.Conv2d(3, 4, 3)(image).shape == (1, 4, 6, 6)
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "/libdnnl" in line} if len(sys.argv) > 1 else set()
assert all("weft.libs" in library for library in libraries), libraries
PYTHON
cp "$work/use.py" "$root/work"
for _ in 1 2 3; do in_root python3 /work/use.py; done
in_root dpkg -L python3-weft | grep -qx /usr/share/doc/python3-weft/copyright
install_in_root lintian
in_root lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs,maintscript-calls-ldconfig \
  "${debs[@]}"
in_root apt-get -q purge -y python3-weft 'libweft*' >"$root/apt.log" 2>&1
left=$(in_root find /usr -name '*weft*')
[[ ! $left ]] || { echo "left after purge: $left"; exit 1; }

# ---- tarball ----------------------------------------------------------------------------------------------------
mkdir -p "$root/opt/a folder"
measure "tar -xf" tar -C "$root/opt/a folder" -xf "$root"/packages/weft-*.tar.gz
mv "$root/opt/a folder"/weft-* "$root/opt/a folder/moved"
prefix="/opt/a folder/moved"
[[ -e $root/$prefix/share/doc/weft/LICENSE && -e $root/$prefix/share/doc/weft/licences/highway.txt ]]
build_project "tarball" /project /work/tarball "-DCMAKE_PREFIX_PATH=$prefix"
build_project "tarball, static library" /static /work/tarball_static "-DCMAKE_PREFIX_PATH=$prefix"
in_root env "PKG_CONFIG_PATH=$prefix/lib/pkgconfig" sh -c \
  'eval g++ -std=c++20 /project/main.cpp -o /work/by_pkg_config $(pkg-config --cflags --libs weft)'
in_root env "LD_LIBRARY_PATH=$prefix/lib" /work/by_pkg_config

# ---- wheel ------------------------------------------------------------------------------------------------------
# In a second root without what the debs brought. NumPy's wheel comes from outside, so that nothing else can be used.
wheel=$(cd "$packages" && echo weft-*.whl)
rm -rf "$work/wheels"
mkdir -p "$work/wheels"
python=$source/build/venv/bin/python
"$python" -m auditwheel show "$packages/$wheel" | sed -n '2,6p'
"$python" -m pip download -q --disable-pip-version-check --only-binary :all: -d "$work/wheels" numpy
make_bare_root "$work"
mkdir -p "$root/work" "$root/wheels"
cp "$packages/$wheel" "$work"/wheels/numpy*.whl "$root/wheels"
install_in_root python3 python3-venv
in_root python3 -m venv /work/venv
measure "pip install $wheel" in_root /work/venv/bin/pip install -q --no-index --find-links /wheels "/wheels/$wheel"
in_root /work/venv/bin/pip list --format=freeze
cp "$work/use.py" "$root/work"
for _ in 1 2 3; do in_root /work/venv/bin/python /work/use.py wheel; done
info=$(in_root sh -c 'echo /work/venv/lib/python3*/site-packages/weft-*.dist-info')
for licence in LICENSE highway.txt nanobind.txt libdnnl2.txt; do
  [[ -e $root/$info/licenses/$licence ]] || { echo "the wheel lacks the licence $licence"; exit 1; }
done
bundled=$(in_root sh -c 'ls /work/venv/lib/python3*/site-packages/weft.libs')
echo "the wheel contains ${bundled//$'\n'/ }"
leave_bare_root
rm -rf "$root" "$work/wheels"
