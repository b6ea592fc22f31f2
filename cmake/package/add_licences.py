"""Adds the licences of all code in a repaired wheel to the wheel.

usage: add_licences.py WHEEL LICENCES FOLDER

LICENCES is a folder with the licences of code that is compiled into the module. Those of the libraries in weft.libs come
from the Debian packages that own them. The new wheel is written into FOLDER."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

wheel, licences, folder = map(pathlib.Path, sys.argv[1:])


def debian_package(library):
    """Returns the Debian package that owns a library, such as libdnnl2 for libdnnl-1a2b3c4d.so.2."""
    name = re.sub(r"-[0-9a-f]{8}(?=[.-])", "", library)
    found = subprocess.run(["dpkg-query", "-S", f"*/{name}"], capture_output=True, text=True).stdout
    packages = {line.split(":")[0] for line in found.splitlines() if re.search(rf" (/usr)?/lib/[^/]*/{name}$", line)}
    packages = {package for package in packages if not package.endswith("-dev")}
    if len(packages) != 1:
        sys.exit(f"{library}: expected one Debian package that owns {name}, got {sorted(packages) or 'none'}")
    return packages.pop()


def run_wheel(*arguments):
    subprocess.run([sys.executable, "-m", "wheel", *map(str, arguments)], check=True)


with tempfile.TemporaryDirectory() as work:
    run_wheel("unpack", "-d", work, wheel)
    (tree,) = pathlib.Path(work).iterdir()
    (info,) = tree.glob("*.dist-info")
    target = info / "licenses"
    target.mkdir(exist_ok=True)
    for file in licences.glob("*.txt"):
        shutil.copy(file, target)
    for library in sorted((tree / "weft.libs").glob("*")):
        package = debian_package(library.name)
        shutil.copy(f"/usr/share/doc/{package}/copyright", target / f"{package}.txt")
        print(f"{library.name} belongs to {package}")
    # Debian's notices refer to the texts of common licences.
    for file in list(target.iterdir()):
        for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", file.read_text()):
            shutil.copy(pathlib.Path("/usr/share/common-licenses") / name, target / f"{name}.txt")
    run_wheel("pack", "-d", folder, tree)
