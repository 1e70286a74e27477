"""Options that make no experiment are refused in one sentence before anything runs."""

import pytest

from synib.studies import EXPERIMENTS

NAN, INF = float("nan"), float("inf")
MISTAKES = {
    "spurious-xor": [
        ({"seeds": 0}, "seeds must be at least 1; got 0"),
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"beta": ()}, "beta must have at least one value; got none"),
        ({"beta": (1.0, -0.5)}, r"at least 0; got \[1.0, -0.5\]"),
        ({"beta": (1.0, NAN)}, "at least 0; got .*nan"),
        ({"beta": (INF,)}, "finite.*got .*inf"),
        ({"beta": (1.0, 0.0, 1.0)}, "beta must not repeat a value"),
        ({"methods": ("vanilla", "vanilla")}, "methods must not repeat a value"),
        ({"methods": ()}, "methods must have at least one value; got none"),
        ({"methods": ("vanila",)}, "Unknown method 'vanila': did you mean 'vanilla'?"),
        ({"test_shortcut": "gone"}, "'independent' or 'constant'; got 'gone'"),
    ],
    "pid-simplex": [
        ({"step": 0.3}, "step must divide 1.*got 0.3"),
        ({"step": -0.05}, "step must divide 1.*got -0.05"),
        ({"step": NAN}, "step must divide 1.*got nan"),
        ({"width": 0}, "width must be at least 1; got 0"),
        ({"methods": ("synib-amortized",)}, "pid-simplex has no settings for 'synib-amortized'"),
        ({"projections": "mine"}, "projections must be 'own' or 'fixed'; got 'mine'"),
        ({"regime": "wild"}, "regime must be 'tuned' or 'plain'; got 'wild'"),
    ],
    "pid-dynamics": [
        ({"mixture": (0.5, 0.5, 0.5, 0.5)}, r"mixture .* must be non-negative and sum to 1; got"),
        ({"mixture": (1.5, -0.5, 0.0, 0.0)}, r"mixture .* must be non-negative and sum to 1; got"),
        ({"mixture": (0.5, 0.5)}, "four proportions"),
    ],
    "learned-masks": [({"variants": ("never",)}, "variants must be one of 20 steps, .*got 'never'")],
    "irony": [
        ({"weights": "microsoft/resnet-18"}, "weights applies to crema-d only"),
        ({"skip_broken": True}, "skip_broken applies to crema-d only"),
        ({"source": "crema-d", "alpha": (7.0,)}, "alpha must be a number from 0 to 6; got 7"),
        ({"source": "iemocap"}, "source must be 'ravdess' or 'crema-d'; got 'iemocap'"),
        ({"donor": ("papers",)}, "donor must be one of paper, balanced; got 'papers'"),
        ({"fold": (0, 5)}, "fold must be one of 0, 1, 2, 3, 4; got 5"),
        ({"alpha": (0.1, 9.0)}, "alpha must be a number from 0 to 8; got 9"),
        ({"overrides": {"vanilla": {"epochs": 3}}}, "epochs is the same for all methods"),
    ],
    "affect-mosi": [
        ({"form": "pictures"}, "form must be 'auto', 'features' or 'sequences'; got 'pictures'"),
        ({"scheme": ("speaker-independent",)}, "scheme of mosi must be 'official'; got 'speaker-independent'"),
        ({"methods": ("unimodal-video",)}, "no settings for 'unimodal-video'; choose from unimodal-text"),
    ],
    "affect-mustard": [
        ({"scheme": ("other-shows",)}, "'official' or 'speaker-independent'; got 'other-shows'"),
        ({"fold": (5,)}, "fold must be one of 0, 1, 2, 3, 4; got 5"),
        ({"form": "sequences", "fold": (1,)}, r"a single split, MultiBench's; got fold=\(1,\)"),
        ({"form": "sequences", "scheme": ("official",)}, "a single split, MultiBench's; got scheme="),
    ],
    "affect-ur-funny": [({"form": "features"}, "ur-funny is available only as sequences; got form='features'")],
    "forms": [
        ({"task": ("parity",)}, "task must be one of digits, irony, pid-xor; got 'parity'"),
        ({"task": ()}, "task and form must each have at least one value; got none"),
        ({"form": ("gaussian",)}, "form must be one of vanilla, confidence, Gaussian, .*; got 'gaussian'"),
        (
            {"task": ("pid-xor",), "form": ("16 draws, audio only",)},
            "form must be one of .*; got '16 draws, audio only'",
        ),
        ({"seeds": 1}, "seeds must be at least 2; got 1"),
        ({"methods": ("ogm",)}, "forms has no settings for 'ogm'"),
    ],
}


@pytest.mark.parametrize(
    ("name", "options", "message"), [(name, *mistake) for name, mistakes in MISTAKES.items() for mistake in mistakes]
)
def test_an_option_that_makes_no_experiment_is_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        EXPERIMENTS[name](**options)
