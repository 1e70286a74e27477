"""``synib fit`` and ``synib predict``, as a user meets them."""

import csv
import hashlib
import importlib
import json
import re

import numpy as np
import pytest

FAST = ("--quick", "--device", "cpu", "--no-baselines")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """One candidate, few epochs, simple cross-validation: the command is what is tested here."""
    module = importlib.import_module("synib.cli.fit")  # beside it, synib.cli has the function of that name
    monkeypatch.setattr(module, "QUICK", {"budget": 1, "epochs": 12})
    monkeypatch.setattr("synib.own.fit.NESTED", 0)


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (2, n))
    a, b = 0.2 * rng.normal(size=(n, 3)), 0.2 * rng.normal(size=(n, 2))
    a[:, 0] += signs[0]
    b[:, 0] += signs[1]
    return {
        "image": a.astype(np.float32),
        "text": b.astype(np.float32),
        "label": np.where(signs[0] * signs[1] > 0, "same", "other"),
        "speaker": np.array([f"s{i // 4}" for i in range(n)]),
        "part": np.where(np.arange(n) < 96, "train", "test"),
    }


@pytest.fixture
def data(tmp_path):
    np.savez(tmp_path / "data.npz", **rows())
    return tmp_path / "data.npz"


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_model_is_fitted_and_predicts_new_rows(synib_command, data, tmp_path, monkeypatch):
    monkeypatch.setattr("synib.own.fit.NESTED", 1000)
    code, out, err = synib_command("fit", data, "--method", "synib", "--group", "speaker", "--split", "part", *FAST)
    assert (code, err) == (0, "")
    assert "label is treated as 2 classes: other, same." in out
    assert re.search(r"experts was requested\.\nSynIB \(experts\), trained on 96 rows \(lr 0\.003, dropout 0", out)
    shown = r"accuracy \d\.\d{3} \(95 % CI .*\), log-loss \d\.\d{3} \(95 % CI .*\) nats, expected calibration error .*"
    assert re.search(
        rf"Scores by 5-fold cross-validation of training, choice and calibration, with each group in one fold: {shown}\.\n",
        out,
    )
    assert re.search(
        r"The other models by the same evaluation: the class frequencies: accuracy 0\.\d{3}, log-loss 0\.\d{3}\.\n", out
    )
    assert re.search(rf"On 24 test rows: {shown}\.\nModel: model\n$", out)
    about = json.loads((tmp_path / "model" / "model.json").read_text())["about"]
    assert about["scores"].keys() == about["test_scores"].keys() == {"log_loss", "accuracy", "calibration_error"}
    made = about["made"]
    assert made["command"].startswith("synib fit ")
    assert made["data"] == {data.name: {data.name: hashlib.sha256(data.read_bytes()).hexdigest()}}
    new = rows(n=30, seed=1)
    np.savez(tmp_path / "new.npz", image=new["image"], text=new["text"])
    code, out, err = synib_command("predict", "model", "new.npz")
    assert (code, out, err) == (0, "Predictions of 30 rows: predictions.csv\n", "")
    said = table(tmp_path / "predictions.csv")
    assert list(said[0]) == ["row", "answer", "p_other", "p_same", "needs_both", "has_image", "has_text"]
    assert [int(row["row"]) for row in said] == [*range(30)]
    for row in said:
        assert float(row["p_other"]) + float(row["p_same"]) == pytest.approx(1, abs=1e-5)
        assert row["answer"] == ("same" if float(row["p_same"]) > 0.5 else "other")
        assert 0 <= float(row["needs_both"]) <= 1
    assert np.mean([row["answer"] == label for row, label in zip(said, new["label"], strict=True)]) > 0.8


@pytest.fixture
def model(synib_command, data):
    columns = ["--modality", "picture=image", "--modality", "words=text"]
    assert synib_command("fit", data, "--method", "vanilla", *columns, *FAST)[0] == 0


def test_columns_are_remembered_and_a_modality_may_be_missing(synib_command, model, tmp_path):
    new = rows(n=12, seed=1)
    assert json.loads((tmp_path / "model" / "model.json").read_text())["about"]["columns"] == {
        "picture": "image",
        "words": "text",
    }
    np.savez(tmp_path / "one.npz", text=new["text"], id=np.arange(100, 112))
    code, out, err = synib_command("predict", "model", "one.npz", "--out", "one.csv")
    assert (code, err) == (0, "")
    assert out == (
        "picture is not in one.npz, so predictions are made without it. If a column has another name there, use --modality "
        "picture=COLUMN.\nPredictions of 12 rows: one.csv\n"
    )
    said = table(tmp_path / "one.csv")
    assert [row["id"] for row in said] == [str(i) for i in range(100, 112)]
    assert {row["has_picture"] for row in said} == {"0"}
    assert {row["needs_both"] for row in said} == {"0"}
    new["image"][3] = np.nan
    np.savez(tmp_path / "some.npz", pixels=new["image"], text=new["text"])
    code, out, _ = synib_command("predict", "model", "some.npz", "--modality", "picture=pixels")
    assert (code, out.splitlines()[0]) == (0, "picture is missing in 1 of 12 rows.")
    assert [row["has_picture"] for row in table(tmp_path / "predictions.csv")] == ["1"] * 3 + ["0"] + ["1"] * 8
    lines = ["text_0,text_1", *(f"{x},{y}" for x, y in new["text"])]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    assert synib_command("predict", "model", "rows.csv", "--out", "again.csv")[0] == 0
    ours, theirs = table(tmp_path / "again.csv"), said
    assert [float(row["p_same"]) for row in ours] == pytest.approx([float(row["p_same"]) for row in theirs], abs=1e-4)


def test_numbers_get_a_mean_and_a_deviation(synib_command, tmp_path):
    made = rows()
    made["label"] = 100 + 7.5 * (made["label"] == "same") + np.random.default_rng(0).normal(size=120)
    np.savez(tmp_path / "numbers.npz", **made)
    code, out, err = synib_command("fit", "numbers.npz", "--method", "synib", "--split", "part", *FAST)
    assert (code, err) == (0, "")
    assert re.search(r"SynIB \(synib-marginal\), trained on", out)
    assert re.search(r"On 24 test rows: root mean square error [\d.]+ \(95 % CI .*\), explained variance", out)
    assert synib_command("predict", "model", "numbers.npz")[0] == 0
    said = table(tmp_path / "predictions.csv")
    assert list(said[0])[:7] == ["row", "label", "speaker", "part", "mean", "deviation", "needs_both"]
    assert all(90 < float(row["mean"]) < 120 and float(row["deviation"]) > 0 for row in said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "none.npz"], r"none\.npz does not exist.*"),
        (["fit", "data.npz", "--target", "labl"], r"data\.npz has no column 'labl' for target; did you mean label\?.*"),
        (["fit", "data.npz", "--modality", "image="], r"--modality must be NAME=COLUMN, for example .*; got 'image='\."),
        (["fit", "data.npz", "--modality", "a=image", "--modality", "a=text"], r"--modality contains 'a' twice\."),
        (["fit", "data.npz", "--method", "sinyb"], r"Unknown method 'sinyb'.*"),
        (["fit", "data.npz", "--device", "gpu"], r".*auto, cpu or cuda; got 'gpu'\."),
        (["fit", "data.npz", "--seeds", "0"], r"seeds must be a whole number of at least 1; got 0\."),
        (
            ["fit", "data.npz", "--budget", "19"],
            r"budget is the number of candidates per method and must be at most 18; got 19\.",
        ),
        (
            ["fit", "data.npz", "--group", "part"],
            r"3 folds need at least 3 groups, since a group stays in one fold; there are 2\.",
        ),
        (["fit", "data.npz", "--out", "."], r"\. holds other files \(data\.npz\); choose an empty folder\."),
        (["predict", "model", "data.npz"], r"A model must be a folder written by synib fit; model does not exist\."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_nothing_is_written(synib_command, untrained, data, tmp_path, arguments, said):
    code, out, err = synib_command(*arguments)
    assert code == 2
    assert re.fullmatch(f"synib: {said}\n", err)
    assert "Model:" not in out
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]


def test_mistakes_in_predicting_are_sentences_and_no_other_file_is_overwritten(synib_command, model, data, tmp_path):
    np.savez(tmp_path / "other.npz", sound=np.zeros((4, 3), np.float32))
    np.savez(tmp_path / "wide.npz", image=np.zeros((4, 9), np.float32))
    np.savez(tmp_path / "uneven.npz", image=np.zeros((4, 3), np.float32), text=np.zeros((3, 2), np.float32))
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    for arguments, said in (
        (["other.npz"], r"other.npz has none of the model's modalities \(image, text\): name them with --modality .*"),
        (["wide.npz"], r"'picture' must have the shape \(rows, 3\), as in training; got \(4, 9\)\."),
        (["uneven.npz"], r"All modalities must have the same number of rows; got picture 4, words 3\."),
        (
            ["data.npz", "--modality", "sound=image"],
            "The model has no modality 'sound': its modalities are picture, words.",
        ),
        (["data.npz", "--out", "mine.csv"], r"mine.csv exists and is not a table of predictions: choose .* --out\."),
        (["data.npz", "--out", "model"], r"--out must be a file such as predictions.csv; model is a folder\."),
        (["data.npz", "--out", "no/where.csv"], r"Cannot write no/where.csv: there is no folder no\."),
    ):
        code, out, err = synib_command("predict", "model", *arguments)
        assert (code, out) == (2, ""), arguments
        assert re.fullmatch(f"synib: {said}\n", err), err
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize("columns", ["image", {"picture": ["image"]}, None])
def test_a_model_that_remembers_its_columns_wrongly_is_no_traceback(synib_command, model, data, tmp_path, columns):
    path = tmp_path / "model" / "model.json"
    said = json.loads(path.read_text())
    said["about"]["columns"] = columns
    path.write_text(json.dumps(said))
    code, _, err = synib_command("predict", "model", data)
    assert code == 2
    assert "has none of the model's modalities (picture, words)" in err


def test_the_ending_of_out_says_the_format_and_an_unknown_one_is_refused_before_work(
    synib_command, model, data, tmp_path
):
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("a.parquet", "a.npz", "a.json", "a.csv"):
        for _ in range(2):  # a table of predictions may take the place of another
            code, out, err = synib_command("predict", "model", data, "--out", name)
            assert (code, err) == (0, ""), err
            assert out == f"Predictions of 120 rows: {name}\n"
    by_csv = [row["p_same"] for row in table(tmp_path / "a.csv")]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert arrays["label"].tolist() == rows()["label"].tolist()
        probabilities = arrays["p_same"]
    assert [float(p) for p in by_csv] == pytest.approx(probabilities.tolist(), rel=1e-4)
    assert parquet.read_table(tmp_path / "a.parquet")["p_same"].to_pylist() == pytest.approx(probabilities.tolist())
    assert [row["p_same"] for row in json.loads((tmp_path / "a.json").read_text())] == pytest.approx(
        probabilities.tolist()
    )
    code, out, err = synib_command("predict", "model", "none.npz", "--out", "a.xlsx")
    assert (code, out) == (2, "")
    assert err == "synib: --out must end in .csv, .parquet, .npz or .json, which selects the format; got 'a.xlsx'.\n"
    (tmp_path / "mine.json").write_text("{}")
    assert "is not a table of predictions" in synib_command("predict", "model", data, "--out", "mine.json")[2]


def test_formulas_and_escape_sequences_reach_neither_the_csv_nor_the_terminal_raw(synib_command, tmp_path):
    made = rows()
    names = np.where(made["label"] == "same", "=cmd|calc", "\x1b[31mred")
    np.savez(
        tmp_path / "bad.npz", image=made["image"], text=made["text"], label=names, note=np.array(["@sum", "-1"] * 60)
    )
    code, out, err = synib_command("fit", "bad.npz", "--method", "vanilla", *FAST)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out
    assert synib_command("predict", "model", "bad.npz")[0] == 0
    said = table(tmp_path / "predictions.csv")
    assert {row["note"] for row in said} == {"'@sum", "'-1"}
    assert all("\x1b" not in row["answer"] and not row["answer"].startswith("=") for row in said)


def test_a_fit_follows_an_audit(synib_command, data, tmp_path):
    folder = tmp_path / "audited"
    folder.mkdir()
    options = {"target": "label", "modality": ["picture=image", "words=text"], "group": "speaker", "task": None}
    (folder / "run.json").write_text(json.dumps({"options": options}))
    advice = {"recommendation": {"method": "unimodal-words", "why": "One modality is enough."}}
    (folder / "verdict.json").write_text(json.dumps(advice))
    code, out, err = synib_command("fit", data, "--from-audit", "audited", *FAST)
    assert (code, err) == (0, "")
    assert "The audit recommends unimodal-words. One modality is enough." in out
    assert "Words alone, trained on 120 rows" in out
    code, out, _ = synib_command("fit", data, "--from-audit", "audited", "--method", "vanilla", "--json", *FAST)
    said = json.loads(out)
    assert (code, said["method"], said["model"]) == (0, "vanilla", "model")
    assert said["scores"]["log_loss"].keys() == {"value", "low", "high"}
    assert said["of_methods"].keys() == {"frequencies", "vanilla"}


def test_the_audit_of_another_target_is_refused(synib_command, untrained, data, tmp_path):
    (tmp_path / "audited").mkdir()
    (tmp_path / "audited" / "run.json").write_text(json.dumps({"options": {"target": "label"}}))
    advice = {"recommendation": {"method": "vanilla", "why": "It wins."}}
    (tmp_path / "audited" / "verdict.json").write_text(json.dumps(advice))
    code, _, err = synib_command("fit", data, "--from-audit", "audited", "--target", "speaker")
    assert code == 2
    assert "audited is an audit of the target label; --target is speaker." in err


def test_a_model_that_will_be_replaced_is_named_before_training(synib_command, model, data):
    code, out, _ = synib_command("fit", data, "--method", "vanilla", "--no-baselines", *FAST)
    assert code == 0
    assert "model contains a model: it is replaced when training ends." in out.splitlines()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has no readable run.json"),
        ({"run.json": "{", "verdict.json": "{}"}, "run.json is not valid JSON"),
        ({"run.json": "[]", "verdict.json": "{}"}, "run.json is not a JSON object"),
        ({"run.json": "{}", "verdict.json": "{}"}, "contains an audit without a recommendation: run synib audit again"),
        (
            {"run.json": '{"options": {"target": 3}}', "verdict.json": '{"recommendation": {"method": "vanilla"}}'},
            "has target 3: run synib audit again",
        ),
    ],
)
def test_a_folder_that_is_no_audit_is_a_sentence(synib_command, untrained, data, tmp_path, files, said):
    (tmp_path / "audited").mkdir()
    for name, text in files.items():
        (tmp_path / "audited" / name).write_text(text)
    code, _, err = synib_command("fit", data, "--from-audit", "audited")
    assert code == 2
    assert said in err


def test_what_is_not_installed_is_said_before_work_begins(synib_command, untrained, data, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    for arguments in (("fit", data), ("predict", "model", data)):
        code, out, err = synib_command(*arguments)
        assert (code, out) == (2, "")
        assert "safetensors, which is not installed: pip install 'synib[audit]'" in err


def test_ordered_classes_have_an_expected_rank_and_labels_a_probability_each(synib_command, tmp_path):
    made = rows()
    level = np.array(["low", "high", "middle"])[(made["image"][:, 0] > 0) + (made["text"][:, 0] > 0).astype(int)]
    np.savez(tmp_path / "ordered.npz", image=made["image"], text=made["text"], label=level)
    how = ("--task", "ordinal", "--order", "low,high,middle", "--method", "vanilla")
    code, _, err = synib_command("fit", "ordered.npz", *how, *FAST)
    assert (code, err) == (0, "")
    assert synib_command("predict", "model", "ordered.npz")[0] == 0
    for row in table(tmp_path / "predictions.csv"):
        expected = float(row["p_high"]) + 2 * float(row["p_middle"])
        assert float(row["expected_rank"]) == pytest.approx(expected, abs=1e-4)
    labels = np.stack([made["image"][:, 0] > 0, made["text"][:, 0] > 0], 1).astype(np.int64)
    np.savez(
        tmp_path / "labels.npz", image=made["image"], text=made["text"], label_0=labels[:, 0], label_1=labels[:, 1]
    )
    code, _, err = synib_command("fit", "labels.npz", "--target", "label", "--method", "vanilla", *FAST)
    assert (code, err) == (0, "")
    assert synib_command("predict", "model", "labels.npz")[0] == 0
    said = table(tmp_path / "predictions.csv")
    names = json.loads((tmp_path / "model" / "model.json").read_text())["classes"]
    for row in said:
        assert row["answer"].split(";") == [n for n in names if float(row[f"p_{n}"]) > 0.5] or row["answer"] == ""
