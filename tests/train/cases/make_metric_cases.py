"""Writes metrics.jsonl: scikit-learn's metrics of random scores. Run with scikit-learn and NumPy installed."""

import json
import math
import pathlib

import numpy as np
from sklearn import metrics

random = np.random.default_rng(5)
cases = []


def number(v):
    return None if v is None or math.isnan(v) else float(v)


def add(kind, scores, targets, **expected):
    cases.append({"kind": kind, "shape": list(scores.shape), "scores": scores.ravel().tolist(),
                  "targets": targets.ravel().tolist(), **expected})


def averages(targets, predicted, labels, names, zero):
    out = {}
    for name in names:
        p, r, f, _ = metrics.precision_recall_fscore_support(
            targets, predicted, labels=labels, average=name, zero_division=zero)
        f2 = metrics.fbeta_score(targets, predicted, beta=2, labels=labels, average=name, zero_division=zero)
        out[name] = [number(v) for v in (p, r, f, f2)]
    p, r, f, s = metrics.precision_recall_fscore_support(targets, predicted, labels=labels, average=None,
                                                          zero_division=zero)
    out["per_class"] = [[number(a), number(b), number(c), int(d)] for a, b, c, d in zip(p, r, f, s)]
    return out


def rounded(scores):
    return np.round(scores, 1).astype(np.float32)  # many are equal


# 2 is absent from the targets of one case, and 4 never predicted in another.
for samples, classes, targets_of in ((40, 5, range(5)), (30, 5, (0, 1, 3, 4)), (7, 4, range(4)), (200, 3, range(3))):
    targets = random.choice(list(targets_of), samples)
    scores = rounded(random.normal(size=(samples, classes)) + 1.2 * np.eye(classes)[targets])
    if classes == 5:
        scores[:, 4] -= 9
    predicted, labels = scores.argmax(1), list(range(classes))
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    each = [metrics.roc_auc_score(targets == c, scores[:, c]) if 0 < (targets == c).sum() < samples else math.nan
            for c in labels]
    weights = np.bincount(targets, minlength=classes)
    there = [c for c in labels if not math.isnan(each[c])]
    for zero in (0.0, 1.0, math.nan):
        add("classes", scores, targets, zero=number(zero), accuracy=metrics.accuracy_score(targets, predicted),
            confusion=metrics.confusion_matrix(targets, predicted, labels=labels).ravel().tolist(),
            auc_each=[number(v) for v in each], auc_macro=float(np.mean([each[c] for c in there])),
            auc_weighted=float(np.average([each[c] for c in there], weights=weights[there])),
            perplexity=float(np.exp(metrics.log_loss(targets, shares, labels=labels))),
            **averages(targets, predicted, labels, ("micro", "macro", "weighted"), zero))

for samples in (50, 9, 500):
    targets = random.integers(0, 2, samples)
    scores = np.clip(rounded(random.normal(size=samples) * 0.3 + 0.3 + 0.4 * targets), 0, 1)
    predicted = (scores > 0.5).astype(int)
    add("binary", scores, targets, zero=0.0, accuracy=metrics.accuracy_score(targets, predicted),
        auc=metrics.roc_auc_score(targets, scores), **averages(targets, predicted, [0, 1], ("micro", "macro"), 0.0),
        binary=[float(metrics.precision_score(targets, predicted)), float(metrics.recall_score(targets, predicted)),
                float(metrics.f1_score(targets, predicted)), float(metrics.fbeta_score(targets, predicted, beta=2))])

for samples, labels in ((30, 4), (8, 3)):
    targets = random.integers(0, 2, (samples, labels))
    targets[:, 0] = 0
    scores = rounded(random.uniform(size=(samples, labels)) * 0.7 + 0.3 * targets)
    predicted = (scores > 0.5).astype(int)
    for zero in (0.0, 1.0):
        add("labels", scores, targets, zero=zero, accuracy=float((predicted == targets).mean()),
            auc_macro=float(metrics.roc_auc_score(targets[:, 1:], scores[:, 1:], average="macro")),
            auc_weighted=float(metrics.roc_auc_score(targets[:, 1:], scores[:, 1:], average="weighted")),
            **averages(targets, predicted, None, ("micro", "macro", "weighted"), zero))

for samples in (3, 100):
    targets = random.normal(size=samples) * 3 + 1000
    scores = (targets + random.normal(size=samples)).astype(np.float32)
    targets = targets.astype(np.float32)
    a, b = targets.astype(float), scores.astype(float)
    add("regression", scores, targets, mae=metrics.mean_absolute_error(a, b), mse=metrics.mean_squared_error(a, b),
        r2=metrics.r2_score(a, b), mean=float(b.mean()), std=float(b.std()), std1=float(b.std(ddof=1)))

path = pathlib.Path(__file__).with_name("metrics.jsonl")
path.write_text("".join(json.dumps(case) + "\n" for case in cases))
