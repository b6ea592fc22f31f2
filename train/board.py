"""Serves the runs below a folder: a list that refreshes itself, and each run's page. Uses Python's library alone.

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
import sys
import time
import urllib.parse

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}
#runs td {{ white-space: nowrap; width: auto; }} #runs td:first-child {{ width: 100%; white-space: normal; }}
#runs th {{ text-align: left; padding: 4px 12px 4px 0; font-weight: 600; white-space: nowrap; }}
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


def short(value):
    return value if isinstance(value, str) else f"{value:.4g}"


def span(seconds):
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def runs_below(folder, depth=4):
    """(path, run.json) of the runs, the youngest first; what is no run's file is passed over."""
    found = []
    for above, folders, files in os.walk(folder):
        here = pathlib.Path(above)
        if len(here.relative_to(folder).parts) >= depth:
            folders.clear()
        folders[:] = [f for f in folders if not f.startswith((".", "step-"))]
        if "run.json" not in files or "index.html" not in files:
            continue
        try:
            run = json.loads((here / "run.json").read_text())
            row(here, folder, run, [])
            found.append((here, run))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            continue
    return sorted(found, key=lambda r: -r[1]["started"])


def row(path, folder, run, names):
    last = {f["name"]: f["points"][-1][1] for f in run["figures"]}
    link = urllib.parse.quote(str(path.relative_to(folder))) + "/index.html"
    silent = run["state"] == "running" and time.time() - run["written"] > 60 + 10 * run["every"]
    state = "silent" if silent else run["state"]
    step = f'{run["step"]}' + (f' of {run["last"]}' if run["last"] > 0 else "")
    written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run["written"]))
    cells = [f'<a href="/{html.escape(link)}">{html.escape(run["title"])}</a>', html.escape(state), step,
             "" if silent else span(run["left"]), *(html.escape(short(last[n])) if n in last else "" for n in names), written]
    return "<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"


def board(folder):
    runs = runs_below(folder)
    names = []
    for _, run in runs:
        names += [f["name"] for f in run["figures"] if f["name"] not in names and f["name"] not in ("lr", "grad_norm")]
    names = names[:5]
    # The look of the runs' own pages.
    style = ""
    for path, _ in runs[:1]:
        style = (re.search(r"<style>(.*?)</style>", (path / "index.html").read_text(errors="replace"), re.S) or ["", ""])[1]
    about = f"{len(runs)} run{'' if len(runs) == 1 else 's'} in {folder}"
    return PAGE.format(title="Runs", style=style, about=html.escape(about),
                       heads="".join(f'<th>{html.escape(n.replace("_per_s", "/s").replace("_", " "))}</th>' for n in names),
                       rows="\n".join(row(path, folder, run, names) for path, run in runs))


class Handler(http.server.SimpleHTTPRequestHandler):
    """The list at /, and the files of the folder; nothing outside of it."""

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

    def send_head(self):
        inside = os.path.realpath(self.translate_path(self.path)).startswith(os.path.join(os.path.realpath(self.directory), ""))
        if not inside:
            self.send_error(404, "File not found")
            return None
        return super().send_head()

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(prog="weft board", description="Serves the pages of the runs below a folder.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=8000, help="8000; 0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1, this machine alone; 0.0.0.0 is everybody")
    asked = parser.parse_args()
    if not asked.folder.is_dir():
        parser.error(f"{asked.folder} is no folder")
    try:
        server = http.server.ThreadingHTTPServer(
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
