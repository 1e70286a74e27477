"""What nobody has to trust: files that would run, swell or lead elsewhere, and words that would become part of a page."""

import ast
import io
import json
import pickle
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import synib
from synib.data.pickles import read_pickle
from synib.own.from_arrays import read_npz
from synib.own.table import read
from synib.studies.hateful_memes import files as hateful_memes
from synib.training import checkpoints

ROOT = Path(synib.__file__).parents[2]
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")])
NEVER = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads", "pickle.Unpickler",
    "dill.load", "joblib.load", "marshal.load", "marshal.loads", "shelve.open", "yaml.load", "yaml.unsafe_load",
    "yaml.full_load", "pandas.read_pickle", "pd.read_pickle", "numpy.fromregex", "cloudpickle.load", "cloudpickle.loads",
}  # fmt: skip
NEEDS = {  # call → what it must be given
    "torch.load": {"weights_only": True},
    "np.load": {"allow_pickle": False},
    "numpy.load": {"allow_pickle": False},
    "np.lib.format.read_array": {"allow_pickle": False},
    "extractall": {"filter": "data"},
    "extract": {"filter": "data"},
    "from_pretrained": {"trust_remote_code": False},
}
FORBIDS = {"shell": True, "allow_pickle": True, "weights_only": False, "trust_remote_code": True, "autoescape": False}
WRITES = {"fuzz_inputs.py": {"allow_pickle": True}}  # it makes the files that must be refused


def mistakes(text, allowed=()):
    """What a source calls that could execute or unpack what a file says, by its name and line."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
        if name in NEVER:
            found.append((name, node.lineno))
        wanted = NEEDS.get(name) or (NEEDS.get(name.rpartition(".")[2], {}) if "." in name else {})
        found += [(name, k) for k, value in wanted.items() if given.get(k, ...) != value]
        found += [(name, k) for k, v in FORBIDS.items() if k in given and given[k] == v and (k, v) not in allowed]
    return found


def test_no_source_executes_or_unpacks_what_a_file_says():
    found = {file: mistakes(file.read_text(), {*WRITES.get(file.name, {}).items()}) for file in SOURCES}
    assert {file: calls for file, calls in found.items() if calls} == {}
    assert len(found) > 100


@pytest.mark.parametrize(
    "line",
    [
        "pickle.load(f)", "torch.load(p)", "torch.load(p, weights_only=False)", "np.load(p)", "np.load(p, allow_pickle=True)",
        "eval(text)", "yaml.load(f)", "tar.extractall(p)", "subprocess.run(c, shell=True)", "os.system(c)",
        "M.from_pretrained(x)",
    ],
)  # fmt: skip
def test_that_is_seen(line):
    assert mistakes(line)
    assert not mistakes("model.eval(); np.load(p, allow_pickle=False); torch.load(p, weights_only=True)")


class Payload:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (Path.write_text, (self.mark, "it ran"))


def test_no_reader_runs_a_payload(tmp_path):
    mark = tmp_path / "mark"
    payload = {"a": [Payload(mark)]}
    plain, archive, folder, state = (tmp_path / n for n in ("some.pkl", "some.npz", "some", "some.pt"))
    plain.write_bytes(pickle.dumps(payload))
    objects = np.empty(1, object)
    objects[0] = payload
    np.savez(archive, image=objects, text=np.ones((12, 2)), label=np.arange(12) % 2)
    folder.mkdir()
    np.save(folder / "image.npy", objects)
    torch.save({"synib": payload}, state)
    for call in (
        lambda: read_pickle(plain),
        lambda: read_npz(archive, ["image"]),
        lambda: read(archive),
        lambda: read(folder),
        lambda: checkpoints.load(state),
    ):
        with pytest.raises(ValueError):
            call()
    assert not mark.exists()
    pickle.loads(plain.read_bytes())
    assert mark.exists()  # it would have


def bomb(path, rows, width):
    """An .npz of zeros that is a thousandth of what it unpacks to, as its head and its list both say."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (rows, width)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("image", "text"):
            archive.writestr(f"{name}.npy", head.getvalue() + b"\0" * (4 * rows * width))
        label = io.BytesIO()
        np.save(label, np.arange(rows) % 2)
        archive.writestr("label.npy", label.getvalue())


def test_an_archive_that_swells_is_refused_before_it_does(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    bomb(path, 1000, 500)
    assert len(read(path).target) == 1000  # a small one is no harm
    monkeypatch.setattr("synib.own.columns.MOST", 2**20)
    with pytest.raises(
        ValueError, match=r"has [\d,]+ bytes and would unpack to 4,\d+,\d+: files that expand this much are refused"
    ):
        read(path)
    with pytest.raises(ValueError, match="would unpack to"):
        read_npz(path, ["image"])


def test_a_member_that_claims_more_than_it_has_is_refused_without_its_memory(tmp_path):
    path = tmp_path / "lie.npz"
    bomb(path, 12, 2)
    data = path.read_bytes()
    for claimed in (2**31, 2**32 - 1):
        held = bytearray(data)
        at = held.index(b"PK\x01\x02") + 24  # the size in the archive's own list
        held[at : at + 4] = claimed.to_bytes(4, "little")
        path.write_bytes(held)
        with pytest.raises(ValueError, match=r"lie\.npz"):
            read(path)


def test_a_parquet_that_swells_is_refused_before_it_does(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    n = 1000
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(n * 500, np.float32)), 500)
    parquet.write_table(pa.table({"image": zeros, "text": zeros, "label": np.arange(n) % 2}), tmp_path / "b.parquet")
    assert len(read(tmp_path / "b.parquet").target) == n
    monkeypatch.setattr("synib.own.columns.MOST", 2**20)
    with pytest.raises(ValueError, match="files that expand this much are refused"):
        read(tmp_path / "b.parquet")


@pytest.mark.parametrize("img", ["../secret.png", "/etc/passwd", "img/../../secret.png", "img/link.png"])
def test_no_line_of_a_file_leads_out_of_its_folder(tmp_path, img):
    (tmp_path / "secret.png").write_bytes(b"secret")
    home = tmp_path / "memes"
    (home / "img").mkdir(parents=True)
    (home / "img" / "link.png").symlink_to(tmp_path / "secret.png")
    (home / "train.jsonl").write_text(json.dumps({"id": 1, "img": img, "text": "t", "label": 0}))
    with pytest.raises(ValueError, match="only files inside the folder are read"):
        hateful_memes.read_memes(home / "train.jsonl")


class Page(HTMLParser):
    """Tags, attributes that would run, and all text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.handlers, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.handlers += [name for name, value in attributes if name.startswith("on") or "javascript:" in (value or "")]

    def handle_data(self, data):
        self.words += data


def test_an_audit_escapes_the_names_of_columns_classes_groups_and_files(synib_command, monkeypatch, tmp_path):
    pytest.importorskip("sklearn")
    from synib.report import audit as report

    write = report.write

    def write_both(found, folder, command, facts, interactive, refutations, on_progress):
        (tmp_path / "static").mkdir()
        for where, scripts in ((folder, True), (tmp_path / "static", False)):
            write(found, where, command, facts, interactive=scripts, refutations=refutations, on_progress=on_progress)

    monkeypatch.setattr(report, "write", write_both)
    monkeypatch.setattr("synib.own.search_space.STEPS", 5)
    wicked = "</script><img src=x onerror=harm()>\"'&"
    rng = np.random.default_rng(0)
    n = 60
    x = rng.normal(size=(n, 2)).astype(np.float32)
    label = np.array([f"{wicked}no", f"{wicked}yes"])[(x[:, 0] > 0).astype(int)]
    columns = {f"a {wicked}": x, f"b {wicked}": rng.normal(size=(n, 2)).astype(np.float32), f"camera {wicked}": label}
    columns |= {"label": label, "who": np.array([f"{wicked}{i // 6}" for i in range(n)])}
    path = tmp_path / "<b onclick=harm()>.npz"
    np.savez(path, **{name.replace("/", "|"): v for name, v in columns.items()})
    camera = f"camera {wicked}".replace("/", "|")
    options = ["--quick", "--group", "who", "--nuisance", camera, "--out", tmp_path / "out"]
    assert synib_command("audit", path, *options)[::2] == (0, "")
    for folder, scripts in (("out", 4), ("static", 0)):  # the figure, dark colours, plotly and the page's own
        text = (tmp_path / folder / "report.html").read_text()
        page = Page(text)
        assert not {"img", "b", "iframe", "object", "embed"} & set(page.tags)
        assert page.handlers == []
        assert page.tags.count("script") == scripts
        assert "onerror=harm()" in page.words
        for picture in (tmp_path / folder).glob("*.svg"):
            assert "<img" not in picture.read_text()
        assert "Content-Security-Policy" in text
