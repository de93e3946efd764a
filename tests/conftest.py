"""Settings and fixtures that several folders of tests share."""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("explore", settings.get_profile("repeatable"), derandomize=False, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a few seconds; left out by `-m 'not slow'`")
    config.addinivalue_line("markers", "model: needs the default language model in data/cache/models")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tiny models are fastest on one thread, and timings of a shared machine do not matter here."""
    import torch

    torch.set_num_threads(1)
