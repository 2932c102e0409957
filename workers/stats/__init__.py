"""Distributions, intervals, verdicts and comparisons of what was measured."""
