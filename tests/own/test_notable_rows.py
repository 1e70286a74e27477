"""Rows of an audit to look at (:mod:`synib.explanation.notable`), from the audit that the tests here share."""

from synib.explanation.notable import notable_rows
from synib.report import Page, render_page
from synib.report.audit_rows import listings


def test_an_audit_names_rows_to_look_at(audited):
    found = notable_rows(audited)
    assert found.method in ("vanilla", audited.synib)
    assert len(found.need_both) == 5
    assert all(note.values["synergy"].startswith("+") for note in found.need_both)
    for note in found.only_together:
        said = [text.partition(" ")[0] for name, text in note.values.items() if name.endswith(" says")]
        assert note.values["target"] not in said
        assert note.values["together"].startswith(note.values["target"])
    for note in found.contradict:
        assert len({text.partition(" ")[0] for name, text in note.values.items() if name.endswith(" says")}) == 2
    first, *_ = lists = listings(found, "plain fusion", audited.table)
    titles = [listing.title for listing in lists]
    assert titles[0] == "Rows that need both"
    assert f"--rows {','.join(first.rows)} shows" in first.note
    assert ("Clusters that interact" in titles) == (audited.verdict.synergy == "present")
    if found.kinds is not None:
        (a, b), rows = found.kinds.cells[0].modalities, found.kinds.cells[0].rows
        assert {a, b} == set(audited.table.modalities)
        assert max(rows) < len(audited.table.target)
        directions = next(x for x in lists if x.of == "directions")
        assert [*directions.rows] == [
            f"a, {side} × b, {other}" for side in ("high", "low") for other in ("high", "low")
        ]
        # The XOR of two signs: opposite corners agree.
        effect = [float(texts[0]) for texts in directions.rows.values()]
        assert effect[0] * effect[3] > 0 > effect[0] * effect[1]
        assert min(map(abs, effect)) > 0.3
    assert not any(found.parts.scores.values())
    assert not any(listing.highlights for listing in lists)
    page = render_page(Page("Vectors", listings=lists), interactive=False)
    assert "synib-explanation" not in page.partition("</style>")[2]
    assert "Colours" not in page
    assert listings(None, "", audited.table) == []
