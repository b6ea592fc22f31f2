"""Records answers of PyTorch's distributions: python tests/python/distribution_cases/make_cases.py."""

import json
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent
CORR = "cholesky([[1, .2, .1], [.2, 1, .3], [.1, .3, 1]])"
# A distribution, and a value.
CASES = """
D.Pareto(t([1, 2]), t([2.5, 3])) | t([1.5, 4])
D.Weibull(t([1, 2]), t([1.7, 3])) | t([1.5, 4])
D.Kumaraswamy(t([2, 2]), t([1.5, 3])) | t([.5, .4])
D.InverseGamma(t([3, 4]), t([1, 2])) | t([.5, .4])
D.HalfCauchy(t([1, 2])) | t([.5, 4])
D.FisherSnedecor(t([5, 3]), t([6, 7])) | t([.5, .4])
D.NegativeBinomial(t([5, 3]), probs=t([.3, .55])) | t([2, 4])
D.NegativeBinomial(t([5, 3]), logits=t([.3, -.6])) | t([2, 4])
D.ContinuousBernoulli(probs=t([.3, .5, .9])) | t([.2, .4, .8])
D.ContinuousBernoulli(logits=t([.3, -2])) | t([.2, .4])
D.VonMises(t([.3, 1]), t([2, .5])) | t([.2, .4])
D.RelaxedBernoulli(t(.5), probs=t([.3, .6])) | t([.2, .4])
D.RelaxedOneHotCategorical(t(.5), probs=t([.3, .6, .1])) | t([.2, .4, .4])
D.LogisticNormal(t([.3, .6]), t([1, 2])) | t([.2, .4, .4])
D.LowRankMultivariateNormal(t([.3, .6, 1]), t([[1, .5], [.2, .3], [0, 1]]), t([1, 2, .5])) | t([.2, .4, 1])
D.LKJCholesky(3, t(1.5)) | CORR
D.Wishart(t([4, 5]), covariance_matrix=t([[1, .2], [.2, 1]])) | t([[2, .2], [.2, 1.5]]).expand(2, 2, 2)
D.Independent(D.Weibull(t([1, 2]), t([1.7, 3])), 1) | t([1.5, 4])
D.MixtureSameFamily(D.Categorical(probs=t([.3, .7])), D.Weibull(t([1, 2]), t([.7, 3]))) | t(1.5)
D.TransformedDistribution(D.Normal(t([0, 1]), t([1, 2])), [T.SoftplusTransform(), T.PowerTransform(t([2, .5]))]) | t([1.5, 4])
D.TransformedDistribution(D.Normal(t([0, 1]), t([1, 2])), [T.StickBreakingTransform()]) | t([.2, .3, .5])
D.TransformedDistribution(D.Normal(t([0, 1]), t([1, 2])), [T.TanhTransform(cache_size=1)]) | t([.2, .3])
D.TransformedDistribution(D.Normal(t([0, 1, .5]), t([1, 2, 1])), [T.CorrCholeskyTransform()]) | CORR
D.TransformedDistribution(D.Normal(t([0, 1]), t([1, 2])), [T.AffineTransform(1.0, -2.0), T.SigmoidTransform().inv.inv]) | t([.2, .3])
D.OneHotCategoricalStraightThrough(probs=t([.3, .6, .1])) | t([0, 1, 0])
""".strip().splitlines()
QUESTIONS = ["log_prob(v)", "mean", "variance", "mode", "entropy()", "cdf(v)", "icdf(v * 0 + .3)", "sample((2,)).shape",
             "expand((4, *d.batch_shape)).log_prob(v).shape", "support.check(v)", "support.check(d.sample((50,))).all()"]


def answers(torch, case):
    """The answers of a distribution to all questions: numbers, or None for no answer."""
    D = torch.distributions
    names = {"D": D, "T": D.transforms, "t": lambda x: torch.tensor(x, dtype=torch.float64),
             "cholesky": lambda x: torch.linalg.cholesky(torch.tensor(x, dtype=torch.float64))}
    made, value = case.replace("CORR", CORR).split(" | ")
    names |= {"d": eval(made, names), "v": eval(value, names)}
    found = {}
    for question in QUESTIONS:
        try:
            result = eval(f"d.{question}", names)
        except NotImplementedError:
            result = None
        if isinstance(result, torch.Tensor):
            result = np.asarray(result.detach()).astype(float).tolist()
        found[question] = result if result is None or isinstance(result, (list, float)) else list(result)
    return found


if __name__ == "__main__":
    import torch

    lines = [json.dumps([case, answers(torch, case)]) for case in CASES]
    (FOLDER / "cases.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
