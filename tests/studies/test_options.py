"""Options that make no experiment are refused in one sentence before anything runs."""

import pytest

from synib.studies import EXPERIMENTS

NAN, INF = float("nan"), float("inf")
MISTAKES = {
    "spurious-xor": [
        ({"seeds": 0}, "seeds is at least 1; got 0"),
        ({"epochs": 0}, "epochs is at least 1; got 0"),
        ({"beta": ()}, "beta names one value or more; got none"),
        ({"beta": (1.0, -0.5)}, r"at least 0; got \[1.0, -0.5\]"),
        ({"beta": (1.0, NAN)}, "at least 0; got .*nan"),
        ({"beta": (INF,)}, "finite.*got .*inf"),
        ({"beta": (1.0, 0.0, 1.0)}, "beta names each value once"),
        ({"methods": ("vanilla", "vanilla")}, "methods names each value once"),
        ({"methods": ()}, "methods names one value or more; got none"),
        ({"methods": ("vanila",)}, "Unknown method 'vanila': did you mean 'vanilla'?"),
        ({"test_shortcut": "gone"}, "'independent' or 'constant'; got 'gone'"),
    ],
    "pid-simplex": [
        ({"step": 0.3}, "step is a part of 1 that divides it.*got 0.3"),
        ({"step": -0.05}, "step is a part of 1 that divides it.*got -0.05"),
        ({"step": NAN}, "step is a part of 1 that divides it.*got nan"),
        ({"width": 0}, "width is at least 1; got 0"),
        ({"methods": ("synib-amortized",)}, "pid-simplex has no settings for 'synib-amortized'"),
        ({"projections": "mine"}, "projections must be 'own' or 'fixed'; got 'mine'"),
        ({"regime": "wild"}, "regime must be 'tuned' or 'plain'; got 'wild'"),
    ],
    "pid-dynamics": [
        ({"mixture": (0.5, 0.5, 0.5, 0.5)}, r"mixture .* is not negative and sums to 1; got"),
        ({"mixture": (1.5, -0.5, 0.0, 0.0)}, r"mixture .* is not negative and sums to 1; got"),
        ({"mixture": (0.5, 0.5)}, "four proportions"),
    ],
    "learned-masks": [({"variants": ("never",)}, "variants is one of 20 steps, .*got 'never'")],
    "irony": [
        ({"weights": "microsoft/resnet-18"}, "weights is for crema-d only"),
        ({"skip_broken": True}, "skip_broken is for crema-d only"),
        ({"source": "crema-d", "alpha": (7.0,)}, "alpha must be a number from 0 to 6; got 7"),
        ({"source": "iemocap"}, "source must be 'ravdess' or 'crema-d'; got 'iemocap'"),
        ({"donor": ("papers",)}, "donor is one of paper, balanced; got 'papers'"),
        ({"fold": (0, 5)}, "fold is one of 0, 1, 2, 3, 4; got 5"),
        ({"alpha": (0.1, 9.0)}, "alpha must be a number from 0 to 8; got 9"),
        ({"overrides": {"vanilla": {"epochs": 3}}}, "epochs is the same for all methods"),
    ],
    "affect-mosi": [
        ({"form": "pictures"}, "form must be 'auto', 'features' or 'sequences'; got 'pictures'"),
        ({"scheme": ("speaker-independent",)}, "scheme of mosi is 'official'; got 'speaker-independent'"),
        ({"methods": ("unimodal-video",)}, "no settings for 'unimodal-video'; it has unimodal-text"),
    ],
    "affect-mustard": [
        ({"scheme": ("other-shows",)}, "'official' or 'speaker-independent'; got 'other-shows'"),
        ({"fold": (5,)}, "fold is one of 0, 1, 2, 3, 4; got 5"),
        ({"form": "sequences", "fold": (1,)}, r"one split, MultiBench's; got fold=\(1,\)"),
        ({"form": "sequences", "scheme": ("official",)}, "one split, MultiBench's; got scheme="),
    ],
    "affect-ur-funny": [({"form": "features"}, "ur-funny comes as sequences only; got form='features'")],
    "forms": [
        ({"task": ("parity",)}, "task is one of digits, irony, pid-xor; got 'parity'"),
        ({"task": ()}, "task and form name one value or more each; got none"),
        ({"form": ("gaussian",)}, "form is one of vanilla, confidence, Gaussian, .*; got 'gaussian'"),
        ({"task": ("pid-xor",), "form": ("16 draws, audio only",)}, "form is one of .*; got '16 draws, audio only'"),
        ({"seeds": 1}, "seeds is at least 2; got 1"),
        ({"methods": ("ogm",)}, "forms has no settings for 'ogm'"),
    ],
}


@pytest.mark.parametrize(
    ("name", "options", "message"), [(name, *mistake) for name, mistakes in MISTAKES.items() for mistake in mistakes]
)
def test_an_option_that_makes_no_experiment_is_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        EXPERIMENTS[name](**options)
