"""The board of runs against files and requests that mean ill. WEFT_TEST_FUZZ=100000 makes more of them."""

import contextlib
import html.parser
import http.client
import importlib.util
import json
import os
import pathlib
import random
import socket
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("board", ROOT / "train" / "board.py")
board = importlib.util.module_from_spec(spec)
spec.loader.exec_module(board)

COUNT = int(os.environ.get("WEFT_TEST_FUZZ", 500))
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
PLAIN = {"title": "plain", "folder": "plain", "state": "running", "started": 1e9, "written": 1e9, "every": 5, "first": 0,
         "step": 7, "last": 9, "spent": 1.0, "left": 3.0, "samples": [], "checkpoints": [], "machine": {}, "config": {},
         "figures": [{"name": "loss", "points": [[1, 0.5], [2, "NaN"]]}]}


def add_run(runs, name, run, page="<style>a{}</style>"):
    folder = runs / name
    folder.mkdir()
    (folder / "run.json").write_text(run if isinstance(run, str) else json.dumps(run))
    (folder / "index.html").write_text(page)
    return folder


@pytest.fixture
def server(tmp_path):
    (tmp_path / "secret").write_text("not for everybody")
    runs = tmp_path / "runs"
    runs.mkdir()
    add_run(runs, "plain", PLAIN)
    server = board.Server(("127.0.0.1", 0), lambda *a: board.Handler(*a, directory=str(runs)))
    server.errors = []
    server.handle_error = lambda *a: server.errors.append(board.sys.exception())
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.runs = runs
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    assert [e for e in server.errors if not isinstance(e, OSError)] == []


def get(server, path, method="GET"):
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    connection.putrequest(method, path, skip_host=False)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def raw(server, request, wait=5):
    with socket.create_connection(server.server_address, timeout=wait) as client:
        client.sendall(request)
        with contextlib.suppress(OSError):  # it may have hung up
            client.shutdown(socket.SHUT_WR)
        answer = b""
        while part := client.recv(65536):
            answer += part
        return answer


class Elements(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, *sorted(name for name, _ in attributes)))


def test_texts_of_runs_are_escaped(server):
    before = Elements(board.board(server.runs)).found
    hostile = PLAIN | {"title": MARKUP, "state": MARKUP, "figures": [{"name": MARKUP, "points": [[1, MARKUP]]}]}
    add_run(server.runs, MARKUP.replace("/", ""), hostile, page=f"<style>{MARKUP}</style>")
    status, page = get(server, "/")
    found = Elements(page.decode()).found
    cells = [("tr",), ("td",), ("a", "href"), ("small",), *[("td",)] * 6]
    assert status == 200 and "script" in page.decode()
    assert sorted(found) == sorted([*before, *cells, ("th",), ("td",)])


@pytest.mark.parametrize("field, value", [
    ("step", MARKUP), ("last", "9"), ("title", 3), ("state", None), ("started", "now"), ("written", 1e300), ("written", None),
    ("written", float("nan")), ("left", {}), ("every", []), ("figures", 3), ("figures", [{"name": [], "points": [[1, 2]]}]),
    ("figures", [{"name": "x", "points": []}]), ("figures", [{"name": "x", "points": [[1, {}]]}]),
    ("figures", [{"name": "x", "points": [[1, None]]}]), ("step", 1 << 70), ("step", True)])
def test_folders_without_a_run_are_skipped(server, field, value):
    add_run(server.runs, "odd", PLAIN | {field: value})
    status, page = get(server, "/")
    assert status == 200 and b"1 run in" in page


def test_files_that_are_none_are_passed_over(server):
    for name, text in (("deep", "[" * 200000), ("empty", ""), ("list", "[]"), ("bytes", "\udcff".encode("utf-8", "surrogateescape"))):
        folder = add_run(server.runs, name, "x")
        (folder / "run.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    pipe = add_run(server.runs, "pipe", "x")
    (pipe / "run.json").unlink()
    os.mkfifo(pipe / "run.json")
    huge = add_run(server.runs, "huge", "x")
    os.truncate(huge / "run.json", 1 << 40)
    (server.runs / "loop").symlink_to(server.runs)
    status, page = get(server, "/")
    assert status == 200 and b"1 run in" in page
    assert get(server, "/pipe/run.json")[0] == 404


def test_nothing_outside_of_the_folder_is_served(server):
    (server.runs / "link").symlink_to(server.runs.parent)
    (server.runs / "beside").symlink_to(server.runs.parent / "secret")
    os.makedirs(str(server.runs) + "-more")
    pathlib.Path(str(server.runs) + "-more", "secret").write_text("not for everybody")
    for path in ("/../secret", "/%2e%2e/secret", "/%2E%2E%2Fsecret", "/..%2fsecret", "/plain/../../secret", "//../secret",
                 "/link/secret", "/beside", "/plain/..%5c..%5csecret", "/%00", "/plain%00/run.json", "/../runs-more/secret",
                 "/plain/%252e%252e/%252e%252e/secret", "/" + "../" * 500 + "etc/passwd", "/" + "a" * 5000):
        for method in ("GET", "HEAD"):
            status, body = get(server, path, method)
            assert status in (400, 404) and b"everybody" not in body, path
    assert get(server, "/plain/run.json")[0] == 200
    assert raw(server, b"GET http://elsewhere/../secret HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 404")


def test_bad_requests_are_answered_or_dropped(server):
    huge = b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(300)) + b"\r\n"
    long = b"GET / HTTP/1.1\r\nX: " + b"y" * 200000 + b"\r\n\r\n"
    for request in (huge, long, b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n"):
        try:
            assert raw(server, request).split()[1][:1] == b"4"
        except ConnectionError:
            pass
    for request in (b"", b"\r\n", b"GET", b"GET /\r\n", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\x16\x03\x01\x02\x00",
                    b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"\xff" * 1000,
                    b"BREW / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\nRange: bytes=9-1\n\n"):
        raw(server, request)
    assert get(server, "/")[0] == 200


def test_clients_that_hang_up_or_wait_do_no_harm(server):
    (server.runs / "plain" / "large").write_bytes(bytes(20 << 20))
    for _ in range(20):
        with socket.create_connection(server.server_address) as client:
            client.sendall(b"GET /plain/large HTTP/1.1\r\n\r\n")
            client.recv(10)
    waiting = [socket.create_connection(server.server_address) for _ in range(40)]
    for client in waiting:
        client.sendall(b"GET / HT")
    began = time.monotonic()
    assert get(server, "/")[0] == 200 and time.monotonic() - began < 5
    for client in waiting:
        client.close()
    assert get(server, "/")[0] == 200


def test_half_a_request_keeps_no_thread(server, monkeypatch):
    monkeypatch.setattr(board.Handler, "timeout", 0.3)
    clients = [socket.create_connection(server.server_address) for _ in range(board.Server.most + 6)]
    for client in clients:
        client.sendall(b"GET / HT")
    time.sleep(1)
    assert get(server, "/")[0] == 200
    for client in clients:
        client.close()


def damaged(rng, data, pieces):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randrange(1, 20)]
        else:
            data[at:at] = rng.choice(pieces)
    return bytes(data)


def test_damaged_requests(server):
    rng = random.Random(3)
    pieces = [b"..", b"/", b"%2e", b"%00", b"\r\n", b"\0", b"HTTP/1.1", b" ", b"secret", b"Range: bytes=0-", b"\xff", b":", b"%"]
    for _ in range(COUNT):
        request = damaged(rng, b"GET /plain/../plain/run.json HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n", pieces)
        try:
            answer = raw(server, request)
        except ConnectionError:
            continue
        assert b"everybody" not in answer
    assert get(server, "/")[0] == 200


def test_damaged_runs(server):
    rng = random.Random(4)
    pieces = [b"<script>", b"</a>", b"null", b"[", b"]", b"{", b"}", b"\"", b"1e999", b"NaN", b"-", b"\\u0000", b"\\ud800", b",", b":"]
    whole, path = json.dumps(PLAIN).encode(), server.runs / "plain" / "run.json"
    before, seen = sorted(Elements(board.board(server.runs)).found), 0
    for _ in range(COUNT):
        path.write_bytes(damaged(rng, whole, pieces))
        page = board.board(server.runs).encode("utf-8", "replace").decode()
        found = sorted(Elements(page).found)
        seen += "1 run in" in page
        assert set(found) <= {*before, ("small",)}
    assert 0 < seen < COUNT
