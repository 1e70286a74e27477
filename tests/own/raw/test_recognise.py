"""What a column holds is recognised from its content, and said."""

import pytest

from synib.own.opening import open_source
from synib.own.raw.recognise import content_of, recognise
from synib.own.raw.spec import parse
from synib.own.table import read

N = 30


def contents(path):
    source = open_source(path)
    found = recognise(source, [])
    return {name: (m.kind, m.columns) for name, m in found.modalities.items()}, found.notes


def test_texts_images_sounds_and_tables_are_told_apart(make, tmp_path):
    columns = {
        "": list(range(N)),
        "customer_id": [f"c{i}" for i in range(N)],
        "name": [f"Smith{i}" for i in range(N)],
        "review": make.reviews(N)["review"],
        "photo": [f"p/{i}.JPG" for i in range(N)],
        "link": [f"https://x.org/{i}.png?size=3" for i in range(N)],
        "call": [f"{i}.flac" for i in range(N)],
        "age": [20 + (7 * i) % 31 for i in range(N)],
        "colour": ["red", "dark blue", ""] * (N // 3),
        "vip": ["true", "false"] * (N // 2),
        "nothing": [""] * N,
    }
    found, notes = contents(make.csv(tmp_path / "a.csv", columns))
    assert found == {
        "review": ("text", ("review",)),
        "photo": ("image", ("photo",)),
        "link": ("image", ("link",)),
        "call": ("audio", ("call",)),
        "table": ("table", ("age", "colour", "vip")),
    }
    assert "review is treated as text (review); change this with --modality review=review:text." in notes
    assert "Treated as identifiers: (column 0), customer_id, name." in notes


def test_two_modalities_of_vectors_are_enough_and_nothing_else_is_embedded(make, tmp_path):
    columns = make.reviews(N) | {f"{n}_{k}": [float(i * k) for i in range(N)] for n in ("a", "b") for k in (0, 1)}
    table = read(make.csv(tmp_path / "a.csv", columns))
    assert list(table.modalities) == ["a", "b"]
    assert table.raw is None
    assert "Columns that are not used: review, age, department." in table.notes


def test_a_column_with_mixed_kinds_is_refused(reviews_csv):
    source = open_source(reviews_csv)
    with pytest.raises(ValueError, match=r"age has mixed kinds: texts such as 'a', and numbers such as 3.5"):
        content_of(source, "age", ["a", 3.5])
    with pytest.raises(ValueError, match="holds bytes that are neither images nor sounds"):
        content_of(source, "age", [b"abc", b"def"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("review", (("review",), None)),
        ("review:text", (("review",), "text")),
        ("age, department:table", (("age", "department"), "table")),
        ("age,department", (("age", "department"), "table")),
        ("odd,name:x", (("odd,name:x",), None)),
        ("review:vector", (("review",), "vector")),
    ],
)
def test_a_user_names_columns_and_their_kind(make, tmp_path, text, found):
    path = make.csv(tmp_path / "a.csv", make.reviews(N) | {"odd,name:x": range(N)})
    assert parse(open_source(path), "m", text) == found


@pytest.mark.parametrize(
    ("modalities", "said"),
    [
        (
            {"a": "review:tekst", "b": "age"},
            "the modality a has the kind 'tekst'; expected one of text, image, audio",
        ),
        ({"a": "review,age:text", "b": "age"}, "the modality a of kind text must be one column; got review, age"),
        ({"a": "reviw:text", "b": "age:table"}, "has no column 'reviw' for the modality a; did you mean review"),
        (
            {"a": "age,departmnt", "b": "review"},
            "has no column 'departmnt' for the modality a; did you mean department",
        ),
        ({"a": "review", "b": "label:table"}, "label cannot be both the target and a modality"),
        (
            {"a": "review"},
            r"at least two .*; the only one is a \(review:text\)\. Columns: review, age.* --modality a=review",
        ),
        ({"a": "age:text", "b": "review"}, "a is text"),
    ],
)
def test_what_cannot_be_a_modality_is_a_sentence(reviews_csv, modalities, said):
    if said == "a is text":  # numbers of a .csv are texts, if the user says so
        assert read(reviews_csv, modalities=modalities).raw.modalities["a"].kind == "text"
        return
    with pytest.raises(ValueError, match=said):
        read(reviews_csv, modalities=modalities)


@pytest.mark.parametrize("role", ["target", "group", "split", "weight"])
def test_a_typo_in_a_column_is_named_before_anything_is_recognised(make, tmp_path, role):
    columns = {
        "colour": ["red", "blue"] * (N // 2),
        "age": [(7 * i) % 31 for i in range(N)],
        "churned": [0, 1] * (N // 2),
    }
    path = make.csv(tmp_path / "a.csv", columns)
    with pytest.raises(ValueError, match=rf"has no column 'churn' for {role}; did you mean churned\?"):
        read(path, **{"target": "churned", role: "churn"})


def test_one_table_alone_is_answered_with_an_example_of_two_modalities(make, tmp_path):
    columns = {
        "my text": ["red", "blue"] * (N // 2),
        "age": [(7 * i) % 31 for i in range(N)],
        "label": [0, 1] * (N // 2),
    }
    path = make.csv(tmp_path / "a.csv", columns)
    with pytest.raises(
        ValueError, match=r"only one is table \(my text,age:table\).* --modality a='my text' --modality b=age\."
    ):
        read(path)
    assert set(read(path, modalities={"a": "my text", "b": "age"}).modalities) == {"a", "b"}
