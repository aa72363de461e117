"""The share of settings that learn, the worst and the median one."""

import numpy as np

from tpo.stats.sensitivity import sensitivity


def test_by_hand():
    # three settings, two seeds: both learn, one learns, one diverges
    found = sensitivity(np.array([[0.01, 0.05], [0.02, 0.4], [0.9, np.nan]]))
    assert found.shares.tolist() == [2 / 3, 1 / 3]
    assert found.share == 0.5
    np.testing.assert_allclose([found.worst, found.median], [0.95, 0.21])
