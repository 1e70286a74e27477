"""The paper's table of CREMA-D-Irony."""

from collections.abc import Mapping

MAX_EPOCHS = 1500
RATES = (0.1, 0.5, 1.0, 2.0)
# Method → metric → a value for each rate. The paper's SynIB has random masks.
PAPER: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "unimodal-video": {"macro_f1": (0.410, 0.399, 0.383, 0.280)},
    "unimodal-audio": {"macro_f1": (0.498, 0.469, 0.457, 0.396)},
    "ensemble": {"irony_f1": (0.030, 0.150, 0.368, 0.543), "macro_f1": (0.597, 0.584, 0.596, 0.383)},
    "vanilla": {"irony_f1": (0.064, 0.183, 0.397, 0.500), "macro_f1": (0.593, 0.574, 0.582, 0.545)},
    "dnr": {"irony_f1": (0.000, 0.090, 0.258, 0.452), "macro_f1": (0.551, 0.557, 0.543, 0.470)},
    "mmpareto": {"irony_f1": (0.037, 0.130, 0.200, 0.415), "macro_f1": (0.589, 0.586, 0.555, 0.502)},
    "reconboost": {"irony_f1": (0.000, 0.116, 0.193, 0.456), "macro_f1": (0.576, 0.570, 0.552, 0.488)},
    "mcr": {"irony_f1": (0.141, 0.176, 0.316, 0.535), "macro_f1": (0.637, 0.608, 0.596, 0.555)},
    "synib-random": {"irony_f1": (0.163, 0.217, 0.353, 0.530), "macro_f1": (0.604, 0.594, 0.574, 0.553)},
}
