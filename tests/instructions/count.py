#!/usr/bin/env python3
"""Instructions per call of small ops, against limits.txt: unlike times they are reproducible.

usage: count.py PROGRAM           counts, and fails where a limit is passed
       count.py PROGRAM --update  counts, and writes limits.txt anew: 5 % above what was counted

PROGRAM is build/release/tests/instructions/weft_instructions; valgrind must be there, or the exit status is 77. The
kernels run without SIMD (WEFT_CPU_TARGET=scalar), so that every x86-64 machine counts the same.
"""
import glob, math, os, re, shutil, subprocess, sys, tempfile

limits_file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "limits.txt")
head_room = 1.05


def dumps(program, folder, cpu_target="scalar"):
    """The lines that the program printed, and callgrind's dumps of its cases, as text, by name."""
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder}/dump", program]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    if cpu_target is not None:
        environment["WEFT_CPU_TARGET"] = cpu_target
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    found = {}
    for path in glob.glob(f"{folder}/dump.*"):
        text = open(path).read()
        name = re.search(r"^desc: Trigger: Client Request: (\S+)", text, re.M)
        if name:
            found[name[1]] = text
    return done.stdout.splitlines(), found


def by_function(text):
    """Instructions of each function itself, without its callees."""
    names, own, function, of_callee = {}, {}, None, False
    for line in text.splitlines():
        if match := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            names.setdefault(match[2], match[3])
            if not match[1]:
                function = match[2]
        elif line.startswith("calls="):
            of_callee = True  # the next line is the cost of the call
        elif match := re.match(r"[-+*\d]\S* (\d+)", line):
            if not of_callee:
                own[function] = own.get(function, 0) + int(match[1])
            of_callee = False
    return {names[f]: n for f, n in own.items()}


def total(text):
    return int(re.search(r"^(?:totals|summary): (\d+)", text, re.M)[1])


def read_limits():
    rows = (line.split() for line in open(limits_file) if line.strip() and not line.startswith("#"))
    return {name: int(limit) for name, limit in rows}


def write_limits(counts):
    comment = [line for line in open(limits_file) if line.startswith("#")]
    with open(limits_file, "w") as file:
        file.writelines(comment)
        for name, count in counts.items():
            file.write(f"{name:20} {math.ceil(count * head_room):6}\n")


def main(program, *options):
    if shutil.which("valgrind") is None:
        print("valgrind is missing: no instructions were counted (./weft setup installs it)")
        return 77
    limits = read_limits()
    with tempfile.TemporaryDirectory() as folder:
        lines, found = dumps(program, folder)
    calls = int(lines[0].split()[0])
    counts = {name: total(found[name]) / calls for name in limits if name in found}
    print("instructions per call, kernels without SIMD (WEFT_CPU_TARGET=scalar)")
    for name, count in counts.items():
        print(f"  {name:20} {count:7.0f}  limit {limits[name]:6}  {'TOO MANY' if count > limits[name] else 'ok'}")
    if options == ("--update",):
        write_limits(counts)
        return 0
    missing = [name for name in limits if name not in found]
    grown = [name for name, count in counts.items() if count > limits[name]]
    for name in grown:
        print(f"\n{name} takes {counts[name]:.0f} instructions, {counts[name] - limits[name]:.0f} above its limit. By function:")
        functions = sorted(by_function(found[name]).items(), key=lambda item: -item[1])
        for function, cost in functions[:15]:
            print(f"  {cost / calls:7.0f}  {function[:110]}")
    if grown:
        print(f"\nCompare with the count before the change. Where it is worth its price: {sys.argv[0]} {program} --update")
    if missing:
        print(f"\n{program} has no case of the name: {', '.join(missing)}")
    return 1 if grown or missing else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
