"""The paper's numbers: Tab. "Synergy-subset accuracy and whole-test accuracy"."""

# Data set → method → accuracy on the synergy subset, and on all test examples.
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "ur-funny": {
        "ensemble": (0.009, 0.613), "vanilla": (0.192, 0.623), "dnr": (0.152, 0.636), "mmpareto": (0.159, 0.628),
        "reconboost": (0.127, 0.632), "mcr": (0.110, 0.624), "synib-random": (0.154, 0.636), "synib-learned": (0.228, 0.627),
    },
    "mustard": {
        "ensemble": (0.451, 0.580), "vanilla": (0.254, 0.575), "dnr": (0.165, 0.545), "mmpareto": (0.401, 0.588),
        "reconboost": (0.172, 0.575), "mcr": (0.396, 0.603), "synib-random": (0.475, 0.622), "synib-learned": (0.529, 0.641),
    },
    "mosi": {
        "ensemble": (0.0, 0.728), "vanilla": (0.314, 0.728), "dnr": (0.241, 0.730), "mmpareto": (0.251, 0.726),
        "reconboost": (0.302, 0.747), "mcr": (0.290, 0.737), "synib-random": (0.353, 0.750), "synib-learned": (0.372, 0.753),
    },
}  # fmt: skip
