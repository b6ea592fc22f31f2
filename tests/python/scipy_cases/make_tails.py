"""Records tails of distributions by SciPy, so that the tests do not need it: tails.json. Run with SciPy and mpmath,
which has what SciPy rounds to 0 or infinity on its way."""

import json
import pathlib
import warnings

import mpmath
import numpy as np
import scipy
from scipy import stats

FAR = [-1e200, -1e20, -300.0, -40.0, -9.0, -5.5, -1.0, -1e-9, 0.0, 1e-9, 0.5, 1.0, 5.5, 9.0, 40.0, 300.0, 1e20, 1e200]
POSITIVE = [1e-300, 1e-30, 1e-9, 0.01, 0.5, 1.0, 3.0, 40.0, 300.0, 1e9, 1e30, 1e200]
UNIT = [1e-300, 1e-30, 1e-9, 0.01, 0.25, 0.5, 0.75, 0.99, 1 - 1e-9]
CHANCES = [0.0, 1e-300, 1e-20, 1e-10, 1e-3, 0.2, 0.25, 0.5, 0.75, 0.9, 1 - 1e-6, 1 - 1e-10, 1.0]
SCIPYS = {"Normal": lambda m, s: stats.norm(m, s), "LogNormal": lambda m, s: stats.lognorm(s, scale=np.exp(m)),
          "HalfNormal": lambda s: stats.halfnorm(scale=s), "Laplace": stats.laplace, "Cauchy": stats.cauchy,
          "Gumbel": stats.gumbel_r, "Exponential": lambda r: stats.expon(scale=1 / r),
          "Uniform": lambda a, b: stats.uniform(a, b - a), "Gamma": lambda a, r: stats.gamma(a, scale=1 / r),
          "Chi2": stats.chi2, "Beta": stats.beta, "StudentT": stats.t, "Bernoulli": stats.bernoulli,
          "Geometric": lambda p: stats.geom(p, loc=-1), "Binomial": stats.binom, "Poisson": stats.poisson}
# Parameters, where log_prob and cdf are asked, and where icdf is.
KINDS = [
    ("Normal", (0.0, 1.0), FAR, CHANCES), ("Normal", (2.0, 1e-3), FAR, CHANCES), ("Normal", (0.0, 1e30), FAR, CHANCES),
    ("LogNormal", (0.0, 1.0), POSITIVE, CHANCES), ("LogNormal", (1.0, 5.0), POSITIVE, CHANCES),
    ("HalfNormal", (2.0,), POSITIVE, CHANCES), ("Laplace", (0.0, 1.0), FAR, CHANCES),
    ("Laplace", (1.0, 0.1), FAR, CHANCES), ("Cauchy", (0.0, 1.0), FAR, CHANCES), ("Cauchy", (1.0, 1e-6), FAR, CHANCES),
    ("Gumbel", (0.0, 1.0), FAR, CHANCES), ("Exponential", (2.0,), POSITIVE, CHANCES),
    ("Uniform", (-1.0, 3.0), [-0.999, 0.0, 2.5], CHANCES), ("Gamma", (2.5, 3.0), POSITIVE, None),
    ("Gamma", (1e-3, 1.0), POSITIVE, None), ("Gamma", (1e4, 1.0), [9e3, 9.9e3, 1e4, 1.01e4, 1.2e4], None),
    ("Chi2", (3.0,), POSITIVE, None), ("Beta", (1e-3, 1e-3), UNIT, None),
    ("Beta", (3e4, 2e4), [0.55, 0.59, 0.6, 0.61], None), ("Beta", (0.5, 2.0), UNIT, None),
    ("StudentT", (3.0, 0.0, 1.0), FAR, None), ("StudentT", (1e6, 0.0, 1.0), FAR, None),
    ("StudentT", (0.1, 1.0, 2.0), FAR, None), ("Bernoulli", (1e-30,), [0.0, 1.0], None),
    ("Bernoulli", (0.0,), [0.0, 1.0], None), ("Bernoulli", (1.0,), [0.0, 1.0], None),
    ("Geometric", (1e-20,), [0.0, 3.0, 1e9], None), ("Geometric", (1.0,), [0.0, 1.0], None),
    ("Binomial", (5, 0.0), [0.0, 1.0, 5.0], None), ("Binomial", (5, 1.0), [0.0, 4.0, 5.0], None),
    ("Binomial", (10**5, 0.3), [29000.0, 3e4, 31000.0], None), ("Poisson", (0.0,), [0.0, 1.0], None),
    ("Poisson", (1e5,), [99000.0, 1e5, 101000.0], None),
]
DISCRETE = ("Bernoulli", "Geometric", "Binomial", "Poisson")
NO_CDF = ("Beta", "StudentT", *DISCRETE)
NO_ENTROPY = ("Poisson", "Geometric")


def student_logarithm(df, loc, scale, x):
    df, y = mpmath.mpf(df), (mpmath.mpf(x) - loc) / scale
    steps = mpmath.loggamma((df + 1) / 2) - mpmath.loggamma(df / 2)
    return float(steps - mpmath.log(df * mpmath.pi) / 2 - mpmath.log(scale) - (df + 1) / 2 * mpmath.log1p(y * y / df))


def laplace_logarithm(loc, scale, x):
    return float(-abs(mpmath.mpf(x) - loc) / scale - mpmath.log(2 * mpmath.mpf(scale)))


LOGARITHMS = {"StudentT": student_logarithm, "Cauchy": lambda loc, scale, x: student_logarithm(1, loc, scale, x),
              "Laplace": laplace_logarithm}


def half_normal_quantile(scale, p):
    if p in (0, 1):
        return 0.0 if p == 0 else float("inf")
    return float(scale * mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(p)))


def bernoulli_entropy(p):
    p = mpmath.mpf(p)
    return float(-sum(q * mpmath.log(q) for q in (p, 1 - p) if q))


def numbers(values):
    return [float(v) for v in np.atleast_1d(values)]


def case_of(name, parameters, points, chances, dtype):
    """SciPy's values at the parameters and points rounded to the dtype."""
    def held(values):
        with np.errstate(over="ignore", under="ignore"):
            rounded = np.asarray(values, dtype).astype(float)
        keep = np.isfinite(rounded) & ((rounded != 0) | (np.asarray(values) == 0)) & (
            (np.abs(rounded) >= np.finfo(dtype).tiny) | (rounded == 0)) & ((rounded != 1) | (np.asarray(values) == 1))
        return rounded[keep]

    parameters, points = held(parameters), held(points)
    theirs = SCIPYS[name](*parameters)
    log_prob = theirs.logpmf(points) if name in DISCRETE else theirs.logpdf(points)
    if name in LOGARITHMS:
        log_prob = [LOGARITHMS[name](*parameters, x) for x in points]
    case = {"name": name, "dtype": np.dtype(dtype).name, "parameters": numbers(parameters), "points": numbers(points),
            "log_prob": numbers(log_prob)}
    if name not in NO_CDF:
        case["cdf"] = numbers(theirs.cdf(points))
    if chances:
        asked = held(chances)
        quantiles = [half_normal_quantile(*parameters, p) for p in asked] if name == "HalfNormal" else theirs.ppf(asked)
        case |= {"chances": numbers(asked), "icdf": numbers(quantiles)}
    if name not in NO_ENTROPY:
        case["entropy"] = numbers(bernoulli_entropy(*parameters) if name == "Bernoulli" else theirs.entropy())
    return case


def main():
    cases = [case_of(*kind, dtype) for dtype in (np.float64, np.float32) for kind in KINDS]
    with open(pathlib.Path(__file__).parent / "tails.json", "w") as file:
        file.write(json.dumps({"scipy": scipy.__version__, "cases": cases}).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    mpmath.mp.dps = 60
    main()
