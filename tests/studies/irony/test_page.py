"""Tables and figures of the irony experiment."""

from dataclasses import replace

from synib.measure import interval


def test_tables_show_scores_leads_and_leaks_of_both_schemes_with_intervals(small, finished):
    summary, _, path = finished
    tables = {t.title: t for t in small.tables(summary)}
    assert list(tables) == [
        *(f"{what}, {d} donors" for d in ("paper", "balanced") for what in ("irony AUC", "irony F1", "macro F1")),
        *(f"F1 with irony's threshold set on validation, {d} donors" for d in ("paper", "balanced")),
        "irony without a model",
    ]
    table = tables["irony AUC, paper donors"]
    assert table.columns == ["α = 0.5", "α = 0.5, above vanilla", "α = 2", "α = 2, above vanilla"]
    assert [cell and cell["n"] for cell in table.rows["vanilla"]] == [3, None, 3, None]
    lead = table.rows["synib-marginal"][1]
    low, high = interval(lead["mean"], lead["se"], 3, test_share=1 / 5)
    assert f"synib-marginal {lead['mean']:+.3f} [{low:+.3f}, {high:+.3f}]" in table.note
    shifted = tables["F1 with irony's threshold set on validation, balanced donors"]
    assert shifted.columns == [f"α = {a}, {what}" for a in ("0.5", "2") for what in ("irony F1", "macro F1")]
    metrics = [f"shifted_{what}" for what in ("irony_f1", "macro_f1")] * 2
    assert [(c["metric"], c["donors"], c["n"]) for c in shifted.rows["vanilla"]] == [
        (m, "balanced", 3) for m in metrics
    ]
    assert {"shifted_irony_f1_over_vanilla", "shifted_macro_f1_over_vanilla"} <= {row["metric"] for row in summary}
    assert len(tables["irony without a model"].rows) == 6
    assert all(cell["n"] == 3 for row in tables["irony without a model"].rows.values() for cell in row)
    page = (path / "report.html").read_text()
    assert "Tested on only 3 of 5 folds." in page


def test_no_line_is_drawn_through_a_single_rate(small, finished):
    summary, _, _ = finished
    experiment = replace(small, alpha=(0.5,))
    assert experiment.charts([row for row in summary if row["alpha"] == 0.5], []) == []


def test_the_figure_has_the_papers_two_panels_and_the_ranking_for_each_scheme(small, finished):
    summary, _, path = finished
    figures = small.charts(summary, [])
    assert [f.file for f in figures] == ["figure", "figure-balanced"]
    for figure in figures:
        assert [p.y for p in figure.panels] == ["irony F1", "macro F1", "irony AUC"]
        assert all(list(s.x) == [0.5, 2.0] for p in figure.panels for s in p.series)
        assert (path / f"{figure.file}.svg").exists()


def test_without_vanilla_there_is_nothing_to_be_above(small, finished):
    _, rows, _ = finished
    experiment = replace(small, methods=("synib-marginal",))
    summary = experiment.summary([r for r in rows if r["method"] == "synib-marginal"])
    table = experiment.tables(summary)[0]
    assert table.columns == ["α = 0.5", "α = 2"]
    assert table.note == "n counts folds."
