"""Distributions written in Python, with constraints, transforms and divergences; weft.distributions offers them."""
