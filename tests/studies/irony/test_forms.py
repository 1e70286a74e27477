"""Matched irony with every form: its grid, its settings, what its page concludes and shows."""

from collections import Counter
from dataclasses import replace

import pytest

from synib.files import read_json
from synib.report import build
from synib.studies import IronyForms, IronyFormsSearch, run
from synib.studies.charts import Chart, HeatMaps
from synib.studies.fair.candidates import recipes
from synib.studies.fair.catalogue import CHOSEN, CHOSEN_THIRD
from synib.studies.fair.search import parsed
from synib.studies.irony.forms_experiment import THE_RECIPE, THIRD_ROUND
from synib.studies.irony.matched import STEPS
from synib.studies.irony.matched_search import REFERENCES, TASK
from synib.training import fleet

BEST = "SynIB marginal, swapped"
ANNEALED = "SynIB marginal, swapped, annealed"


def test_every_form_begins_with_18_candidates_and_the_weight_of_the_recipe_is_not_searched():
    search = IronyFormsSearch(seeds=1)
    forms = Counter(cell.factors["form"] for cell in search.cells())
    assert len(forms) == 43
    assert set(forms.values()) == {18}
    of_recipe = {form: recipes(STEPS)[CHOSEN_THIRD if form == THIRD_ROUND else CHOSEN].settings for form in forms}
    for cell in search.cells():
        assert cell.settings.get("noise", "shuffled") == "shuffled"
        own = parsed(cell.factors["candidate"])
        if cell.factors["form"].startswith(THE_RECIPE):
            assert set(own) == {"lr", "dropout", "weight_decay"}
            fixed = of_recipe[cell.factors["form"]]
            assert {name: x for name, x in fixed.items() if name != "reference"}.items() <= cell.settings.items()


def test_each_of_eight_forms_and_the_recipe_has_three_references():
    forms = IronyForms()._forms(TASK)
    ours = [form for form in forms if form.startswith("SynIB") and "reference" not in form and form != THIRD_ROUND]
    assert len(ours) == 9
    for form in ours:
        for words, reference in REFERENCES.items():
            other = forms[f"{form}, {words} reference"]
            assert other.method == forms[form].method
            assert other.settings == {**forms[form].settings, "reference": reference}


def test_every_form_has_settings_of_the_search_and_is_tested_with_them():
    experiment = IronyForms(seeds=1)
    assert experiment._chosen.keys() == experiment._forms(TASK).keys()
    assert "Not searched" not in experiment.caution
    for cell in experiment.cells():
        assert experiment._chosen[cell.factors["form"]]["settings"].items() <= cell.settings.items()


@pytest.mark.parametrize("kind", [IronyFormsSearch, IronyForms])
def test_the_recipe_and_its_references_are_trained_in_the_fleet(takes_root, kind):
    forms = tuple(form for form in kind()._forms(TASK) if form.startswith(THE_RECIPE))
    small = {"hidden": 4, "latent": 4, "epochs": 1, "batch_size": 256}
    experiment = kind(
        root=str(takes_root), form=forms, seeds=1, overrides=dict.fromkeys(kind(form=forms).methods, small)
    )
    for cell in {cell.factors["form"]: cell for cell in experiment.cells()}.values():
        trained = fleet.train(experiment, [cell], "cpu")
        assert not trained.failures
        assert 0 <= trained.metrics[0]["synergy" if kind is IronyFormsSearch else "irony_auc"] <= 1


def test_the_recipe_passes_within_two_hundredths_and_references_are_compared_by_form():
    experiment = IronyForms(form=(BEST, ANNEALED, THE_RECIPE), alpha=(0.1, 2.0), seeds=2)
    auc = {
        (BEST, 0.1): 0.8, (ANNEALED, 0.1): 0.7, (THE_RECIPE, 0.1): 0.79, (f"{BEST}, prior reference", 0.1): 0.6,
        (f"{ANNEALED}, prior reference", 0.1): 0.6, (BEST, 2.0): 0.8, (ANNEALED, 2.0): 0.83, (THE_RECIPE, 2.0): 0.8,
    }  # fmt: skip
    summary = [
        {"form": form, "alpha": alpha, "metric": "irony_auc", "mean": mean} for (form, alpha), mean in auc.items()
    ]
    found = experiment.beside_the_recipe(summary)
    assert [(row["alpha"], row["best_tuned_form"], row["passes"]) for row in found] == [
        (0.1, BEST, True),
        (2.0, ANNEALED, False),
    ]
    (prior,) = experiment.by_reference(summary)
    assert (prior["reference"], prior["alpha"], prior["forms"]) == ("prior", 0.1, 2)
    assert prior["difference"] == pytest.approx(-0.15)
    assert (prior["lowest"], prior["highest"]) == pytest.approx((-0.2, -0.1))


def test_its_page_has_lines_for_the_main_forms_and_heat_maps_of_all(tmp_path, takes_root):
    forms = ("vanilla", "stacked", BEST, *(f"{BEST}, {words} reference" for words in REFERENCES))
    methods = IronyForms(form=forms).methods
    tiny = {method: {"hidden": 4, "latent": 4, "epochs": 1, "batch_size": 256} for method in methods}
    experiment = IronyForms(root=str(takes_root), form=forms, alpha=(0.5, 2.0), seeds=2, overrides=tiny)
    folder = run(experiment, tmp_path / "out", device="cpu")
    figures = {figure.file: figure for figure in experiment.charts(build(folder), [])}
    lines, maps = figures["figure-irony-auc"], figures["figure-synib"]
    assert isinstance(lines, Chart)
    assert {series.label for series in lines.series} == {"vanilla", "stacked", "SynIB marginal"}
    assert isinstance(maps, HeatMaps)
    assert [drawn.title for drawn in maps.maps] == [f"{words} reference" for words in ("uniform", *REFERENCES)]
    assert all(list(drawn.rows) == ["marginal"] and list(drawn.columns) == ["0.5", "2"] for drawn in maps.maps)
    assert list(figures["figure-rivals"].maps[0].rows) == ["vanilla", "stacked"]
    assert [row["forms"] for row in read_json(folder / "references.json")] == [1] * 4
    assert read_json(folder / "recipe.json") == []
    none = replace(experiment, form=("vanilla",))
    assert "figure-synib" not in {figure.file for figure in none.charts(none.summary([]), [])}
