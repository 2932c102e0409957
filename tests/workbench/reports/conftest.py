"""A finished run, and its report."""

import pytest
import sample_runs

from workbench.reports import services as publishing


@pytest.fixture
def done(organisation, engineer):
    return sample_runs.run(organisation, engineer)


@pytest.fixture
def report(done, engineer):
    return publishing.freeze(done, engineer)
