"""How sensitive each method is to its step, from a store of the study step_robustness: python FILE DIR."""

import sys

import numpy as np

from tpo.reports.gather import gather
from tpo.stats.sensitivity import sensitivity
from tpo.stats.significance import p_values


def lines(folder: str) -> list[str]:
    """Per task and method: share of settings that learn, worst, median; TPO's share against each rival's."""
    found = []
    (result,) = [one for one in gather([folder]) if one.study.name == "step_robustness"]
    for task in result.study.grid["task"]:
        known = {}
        for method in result.study.methods:
            cells = [c for c in result.cells if c.method == method and c.coords["task"] == task]
            ends = [
                c.series["error"].end for c in cells if c.done and "epochs" not in c.coords["step"]
            ]
            if ends:
                known[method] = sensitivity(np.array(ends))
        for method, one in known.items():
            against = ""
            if method != "tpo" and "tpo" in known and len(one.shares) > 1:
                gap = known["tpo"].shares - one.shares
                against = (
                    f", TPO's share is larger by {gap.mean():.2f} (p = {float(p_values(gap)):.2g})"
                )
            found.append(
                f"{task}, {method}: {one.share:.2f} of the settings learn, "
                f"worst {one.worst:.3f}, median {one.median:.3f}{against}"
            )
    return found


if __name__ == "__main__":
    print("\n".join(lines(sys.argv[1])))
