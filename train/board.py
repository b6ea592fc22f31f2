"""Serves the runs in a folder: a list that refreshes itself, and the page of each run. Uses only the standard library.

usage: board.py FOLDER [--port PORT] [--host ADDRESS]
"""

import argparse
import functools
import html
import http.server
import json
import os
import pathlib
import re
import stat
import sys
import threading
import time
import urllib.parse

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}
#runs td {{ white-space: nowrap; width: auto; }} #runs td:first-child {{ width: 100%; white-space: normal; }}
#runs th {{ text-align: left; padding: 4px 12px 4px 0; font-weight: 600; white-space: nowrap; }}
#runs small {{ display: block; color: var(--soft); font-size: 12px; overflow-wrap: anywhere; }}
#scroll {{ overflow-x: auto; }}</style></head>
<body><header><div><h1>{title}</h1><p id="about">{about}</p></div></header>
<div id="scroll"><table id="runs"><tr><th>run</th><th>state</th><th>step</th><th>left</th>{heads}<th>written</th></tr>
{rows}</table></div>
<footer>Written by Weft. A run's page compares it with those beside it.</footer>
<script>
setInterval(async () => {{
  try {{
    const page = new DOMParser().parseFromString(await (await fetch('/', {{cache: 'no-store'}})).text(), 'text/html');
    for (const id of ['about', 'runs']) document.getElementById(id).replaceWith(page.getElementById(id));
  }} catch (error) {{ document.getElementById('about').textContent = 'the board does not answer'; }}
}}, 2000);
</script></body></html>
"""


class Run:
    """The listed fields of a run, validated: the files may be malicious."""

    def __init__(self, folder):
        run = json.loads(read_text(folder / "run.json"))
        self.folder = folder
        self.title, self.state = text(run["title"]), text(run["state"])
        self.step, self.last = int(number(run["step"])), int(number(run["last"]))
        self.started, self.written, self.every = (number(run[name]) for name in ("started", "written", "every"))
        self.left = None if run["left"] is None else number(run["left"])
        self.figures = {text(f["name"]): short(f["points"][-1][1]) for f in run["figures"]}

    def row(self, top, names):
        link = "/" + urllib.parse.quote(str(self.folder.relative_to(top)), errors="surrogateescape") + "/index.html"
        silent = self.state == "running" and time.time() - self.written > 60 + 10 * self.every
        step = f"{self.step} of {self.last}" if self.last > 0 else str(self.step)
        cells = ["silent" if silent else self.state, step, "" if silent else span(self.left),
                 *(self.figures.get(name, "") for name in names),
                 time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.written))]
        place = str(self.folder.relative_to(top))
        where = "" if self.title == place else f"<small>{html.escape(place)}</small>"
        return (f'<tr><td><a href="{html.escape(link)}">{html.escape(self.title)}</a>{where}</td>'
                + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")


def read_text(path, most=16 << 20):
    """Text of a regular file of limited size; a pipe would block forever."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8", errors="replace") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > most:
            raise ValueError(f"{path} is no small file")
        return file.read()


def text(value):
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e11:
        raise ValueError("no number of a run")
    return value


def short(value):
    """Formats a number; NaN and infinity are stored as text."""
    return text(value) if isinstance(value, str) else f"{float(value):.4g}"


def span(seconds):
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def runs_below(folder, depth=4):
    """The runs, newest first; invalid files are skipped."""
    found = []
    for above, folders, files in os.walk(folder):
        here = pathlib.Path(above)
        if len(here.relative_to(folder).parts) >= depth:
            folders.clear()
        folders[:] = [f for f in folders if not f.startswith((".", "step-"))]
        if "run.json" not in files or "index.html" not in files:
            continue
        try:
            found.append(Run(here))
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            continue
    return sorted(found, key=lambda run: -run.started)


def board(folder):
    runs = runs_below(folder)
    names = list(dict.fromkeys(name for run in runs for name in run.figures if name not in ("lr", "grad_norm")))[:5]
    about = f"{len(runs)} run{'' if len(runs) == 1 else 's'} in {folder}"
    return PAGE.format(title="Runs", style=style_of(runs), about=html.escape(about),
                       heads="".join(f'<th>{html.escape(n.replace("_per_s", "/s").replace("_", " "))}</th>' for n in names),
                       rows="\n".join(run.row(folder, names) for run in runs))


def style_of(runs):
    """The style sheet of the runs' pages."""
    for run in runs[:1]:
        try:
            found = re.search(r"<style>([^<]*)</style>", read_text(run.folder / "index.html"))
            return found[1] if found else ""
        except (OSError, ValueError):
            pass
    return ""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the list at /, and the files of the folder, but none outside of it."""

    timeout = 20  # seconds per request: an incomplete request must not occupy a thread

    def do_GET(self):
        if urllib.parse.urlsplit(self.path).path not in ("/", "/index.html"):
            return super().do_GET()
        body = board(pathlib.Path(self.directory)).encode("utf-8", "replace")
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def is_inside(self):
        try:
            path = os.path.realpath(self.translate_path(self.path))
        except ValueError:  # a name with a null byte
            return False
        ordinary = os.path.isdir(path) or os.path.isfile(path)
        return ordinary and path.startswith(os.path.join(os.path.realpath(self.directory), ""))

    def send_head(self):
        if self.is_inside():
            return super().send_head()
        self.send_error(404, "File not found")
        return None

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """One thread per connection, up to a maximum."""

    most = request_queue_size = 64

    def __init__(self, *arguments):
        self._free = threading.BoundedSemaphore(self.most)
        super().__init__(*arguments)

    def process_request(self, request, address):
        if self._free.acquire(timeout=1):
            super().process_request(request, address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, address):
        try:
            super().process_request_thread(request, address)
        finally:
            self._free.release()

    def handle_error(self, request, address):
        if not isinstance(sys.exception(), OSError):  # a closed connection is not an error of the server
            super().handle_error(request, address)


def main():
    parser = argparse.ArgumentParser(prog="weft board", description="Serves the pages of the runs below a folder.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=8000, help="8000; 0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1, this machine alone; 0.0.0.0 is everybody")
    asked = parser.parse_args()
    if not asked.folder.is_dir():
        parser.error(f"{asked.folder} is no folder")
    try:
        server = Server(
            (asked.host, asked.port), functools.partial(Handler, directory=str(asked.folder.resolve())))
    except OSError as error:
        parser.error(f"{asked.host}:{asked.port} cannot be served: {error.strerror}")
    print(f"http://{asked.host}:{server.server_address[1]}/ shows the runs in {asked.folder}; Ctrl-C ends it", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
