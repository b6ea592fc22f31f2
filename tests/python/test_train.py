"""weft.train: metrics, early stopping, the folder of a run, and the server of its pages."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest

import weft
from weft import train

ROOT = pathlib.Path(__file__).parents[2]


def test_metrics_of_classes():
    scores = weft.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.5, 0.0], [0.0, 0.1, 0.2]])
    truth = weft.tensor([0, 1, 2, 2])
    accuracy, top, matrix = train.Accuracy(), train.TopK(2), train.ConfusionMatrix(3)
    for metric in (accuracy, top, matrix):
        metric.update(scores[:2], truth[:2])
        metric.update(scores[2:], truth[2:])
    assert accuracy.compute() == 0.75 and top.compute() == 0.75 and matrix.compute() == 0.75
    assert matrix.matrix().tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 1]]
    assert "dog" in matrix.text(["cat", "dog", "bird"]) and matrix.svg().startswith("<svg")
    other = train.Accuracy()
    other.load_state_dict(accuracy.state_dict())
    other.merge(accuracy)
    assert other.compute() == 0.75
    accuracy.reset()
    assert math.isnan(accuracy.compute())


def test_class_scores_and_area():
    scores, truth = weft.tensor([0.1, 0.4, 0.35, 0.8]), weft.tensor([0, 0, 1, 1])
    binary, area = train.ClassScores(), train.RocAuc()
    binary.update(scores, truth)
    area.update(preds=scores, target=truth)
    assert area.compute() == 0.75
    assert (binary.precision(), binary.recall(), binary.compute()) == (1, 0.5, 2 / 3)
    assert binary.f_beta(2.0) == pytest.approx(5 / 9)
    assert binary.per_class()[1] == (1.0, 0.5, 2 / 3, 2)
    macro = train.ClassScores(2, average="macro", zero_division=1.0)
    macro.update(scores, truth)
    assert macro.recall() == 0.75


def test_metrics_of_numbers():
    mean = train.MeanStd()
    mean.update(weft.tensor([1.0, 3.0]))
    mean.update(5.0, weight=2.0)
    assert mean.compute() == 3.5 and mean.count() == 4
    mean.update(weft.tensor(3.5), weight=4)
    assert mean.compute() == 3.5 and mean.count() == 8
    perplexity = train.Perplexity()
    perplexity.update(weft.zeros(3, 4), weft.tensor([0, 1, -100]))
    assert perplexity.compute() == pytest.approx(4)
    regression = train.Regression()
    regression.update(weft.tensor([1.0, 2.0]), weft.tensor([1.0, 4.0]))
    assert regression.mean_absolute_error() == 1 and regression.r2() == pytest.approx(1 - 4 / 4.5)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="scores are"):
        train.Accuracy().update(weft.zeros(2, 3), weft.zeros(4, dtype=weft.int64))
    with pytest.raises(ValueError, match="average"):
        train.ClassScores(3, average="mean")
    with pytest.raises(ValueError):
        train.TopK(0)
    wrong = train.Accuracy()
    wrong.update(weft.tensor([[math.nan, 1.0]]), weft.tensor([0]))
    with pytest.raises(RuntimeError, match="NaN"):
        wrong.compute()
    with pytest.raises(TypeError):
        train.Accuracy().update([1.0], [1])


def test_early_stopping():
    stopping = train.EarlyStopping(patience=1)
    assert stopping.best is None
    assert stopping.update(2.0) and not stopping.should_stop
    assert not stopping.update(math.nan) and stopping.should_stop and stopping.best == 2.0


@pytest.fixture
def runs(tmp_path):
    for name in ("one", "two & more"):
        with train.RunFolder(tmp_path / name, config={"lr": 0.1}) as run:
            run.begin(0, 2)
            run.record(1, {"train_loss": 2}, {"lr": 0.1})
            run.record(2, {"train_loss": weft.tensor(1.0)})
            run.sample_text(2, "words", "<b>")
    with pytest.raises(RuntimeError), train.RunFolder(tmp_path / "three") as run:
        run.record(1, {"train_loss": math.nan})
        raise RuntimeError
    return tmp_path


def test_run_folder(runs):
    run = json.loads((runs / "one" / "run.json").read_text())
    assert run["state"] == "done" and run["config"] == {"lr": 0.1}
    assert run["figures"][0]["points"] == [[1, 2], [2, 1]]
    assert (runs / "one" / "metrics.csv").read_text() == "step,train_loss,lr\n1,2,0.1\n2,1,\n"
    assert json.loads((runs / "three" / "run.json").read_text())["state"] == "failed"
    page = (runs / "three" / "index.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert [r["title"] for r in data["runs"]][0] == "three" and len(data["runs"]) == 3
    with pytest.raises(ValueError):
        train.RunFolder(runs / "x", config={"lr": math.nan})


@pytest.fixture
def board(runs):
    (runs / "broken").mkdir()
    for name in ("run.json", "index.html"):
        (runs / "broken" / name).write_text('{"title": 3}')
    secret = runs.parent / "secret"
    secret.write_text("not for everybody")
    (runs / "link").symlink_to(secret)
    process = subprocess.Popen([sys.executable, str(ROOT / "train" / "board.py"), str(runs), "--port", "0"],
                               stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().split()[0]
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def fetch(address):
    with urllib.request.urlopen(address) as answer:
        return answer.read().decode()


def test_the_board_lists_and_serves_runs(board, runs):
    page = fetch(board)
    assert "3 runs" in page and "two &amp; more" in page and "failed" in page and "nan" in page.lower()
    assert "--ground" in page, "it has the look of the runs' pages"
    for name in ("one", "three"):  # its title is that of its folder, which is told once
        assert page.count(f">{name}<") == 1
    (runs / "one" / "run.json").write_text((runs / "one" / "run.json").read_text().replace('"title":"one"', '"title":"three"'))
    page = fetch(board)
    assert page.count(">three</a>") == 2 and "<small>one</small>" in page, "runs of one title are told apart"
    links = re.findall(r'href="(/[^"]*index.html)"', page)
    assert len(links) == 3
    for link in links:
        assert fetch(urllib.parse.urljoin(board, link)) == (runs / urllib.parse.unquote(link)[1:]).read_text()
    for path in ("link", "../secret", "%2e%2e/secret", "none"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(board + path)


def test_the_board_rejects_invalid_requests(tmp_path):
    board = [sys.executable, str(ROOT / "train" / "board.py")]
    done = subprocess.run([*board, str(tmp_path / "none")], capture_output=True, text=True)
    assert done.returncode == 2 and "is no folder" in done.stderr
    done = subprocess.run([*board, str(tmp_path), "--host", "203.0.113.1"], capture_output=True, text=True)
    assert done.returncode == 2 and "cannot be served" in done.stderr
    assert os.listdir(tmp_path) == []
