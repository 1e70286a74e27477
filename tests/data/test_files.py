"""What a data set on disk is, and what is said of one that is not whole."""

import hashlib

import pytest

from synib.data.files import File, Source, check, check_disjoint, data_root, inside
from synib.studies.sources import SOURCES


def look(found):
    if found[0].read_text() == "broken":
        raise ValueError("It is broken.")
    return f"{len(found)} files"


def source(*files):
    return Source("toy", "A toy.", "https://example.org/toy", "CC0", files, "toy")


ONE = File(("new.csv", "old.csv"), "the table", look=look)
MANY = File("wav/*.wav", "the sounds", count=2)


@pytest.fixture
def folder(tmp_path):
    own = tmp_path / "data" / "toy"
    (own / "wav").mkdir(parents=True)
    return own


def states(root, *files):
    return [finding.state for finding in check(source(*files), root).findings]


def test_a_data_set_is_found_in_its_own_folder_and_in_the_one_that_holds_it(folder):
    for name in ("old.csv", "new.csv"):  # of alternatives the first that exists is used
        (folder / name).write_text("x")
        for root in (folder, folder.parent, str(folder)):
            assert check(source(ONE), root).folder == folder
            assert source(ONE).file(root) == folder / name


def test_a_file_that_is_not_there_is_named_with_where_to_get_it(folder):
    assert states(folder, ONE) == ["missing"]
    assert not check(source(ONE), folder).complete
    with pytest.raises(
        ValueError, match=r"contains no new\.csv or old\.csv \(the table\): download it from https://example\.org"
    ):
        source(ONE).file(folder)


def test_files_are_counted_and_measured(folder):
    assert states(folder, MANY) == ["missing"]
    for n, state in ((1, "incomplete"), (2, "there"), (3, "incomplete")):
        (folder / "wav" / f"{n}.wav").write_bytes(b"ab")
        finding = check(source(MANY), folder).findings[0]
        assert (finding.state, len(finding.paths), finding.size, finding.sha256) == (state, n, 2 * n, "")
        assert check(source(MANY), folder).complete == (n == 2)


def test_checksums_tell_another_version_and_are_said_where_none_is_known(folder):
    (folder / "new.csv").write_bytes(b"abc")
    digest = hashlib.sha256(b"abc").hexdigest()
    for known, state in ((None, "there"), (digest, "there"), ("0" * 64, "different")):
        finding = check(source(File("new.csv", "", sha256=known)), folder).findings[0]
        assert (finding.state, finding.sha256) == (state, digest)
        assert finding.ok == (state == "there")


def test_a_file_that_cannot_be_read_is_no_obstacle_to_looking_at_the_others(folder):
    (folder / "new.csv").write_text("broken")
    result = check(source(ONE, MANY), folder)
    assert [f.state for f in result.findings] == ["broken", "missing"]
    assert result.findings[0].details == "It is broken."


def test_what_is_optional_may_be_missing_but_not_broken(folder):
    optional = File("new.csv", "", optional=True, look=look)
    assert check(source(optional), folder).complete
    (folder / "new.csv").write_text("broken")
    assert not check(source(optional), folder).complete


def test_nothing_outside_of_the_folder_is_read(folder, tmp_path):
    (tmp_path / "secret.csv").write_text("x")
    (folder / "new.csv").symlink_to(tmp_path / "secret.csv")
    finding = check(source(ONE), folder).findings[0]
    assert finding.state == "broken"
    assert "points outside of" in finding.details
    with pytest.raises(ValueError, match="points outside of"):
        source(ONE).file(folder)
    (folder / "wav" / "1.wav").symlink_to(tmp_path / "secret.csv")
    assert states(folder, MANY) == ["broken"]


@pytest.mark.parametrize("path", ["../secret", "wav/../../secret", "/etc/passwd", "link/x"])
def test_a_path_stays_in_its_folder(folder, path):
    (folder / "link").symlink_to("/")
    with pytest.raises(ValueError, match=r"points outside of .*: only files inside the folder are read\."):
        inside(folder, path)
    assert inside(folder, "wav/../wav") == folder / "wav/../wav"


def test_a_folder_that_is_a_link_to_elsewhere_is_refused(tmp_path, folder):
    other = tmp_path / "other"
    other.mkdir()
    (other / "toy").symlink_to(folder)
    with pytest.raises(ValueError, match="points outside of"):
        check(source(ONE), other)


def test_the_root_is_the_one_given_or_the_environments(tmp_path, monkeypatch):
    monkeypatch.delenv("SYNIB_DATA", raising=False)
    with pytest.raises(ValueError, match=r"give a folder as root, or set SYNIB_DATA"):
        data_root()
    monkeypatch.setenv("SYNIB_DATA", str(tmp_path))
    assert data_root() == tmp_path
    (tmp_path / "other").mkdir()
    assert data_root(tmp_path / "other") == tmp_path / "other"
    monkeypatch.setenv("SYNIB_DATA", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"SYNIB_DATA must be a folder with data; .*none does not exist"):
        data_root()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"root must be a folder with data; .*file is a file"):
        data_root(tmp_path / "file")
    with pytest.raises(ValueError, match="root must be the path of a folder; got 3"):
        data_root(3)


def test_an_actor_in_two_parts_is_refused_by_name():
    check_disjoint("actor", [1, 1, 2], [3], [4, 5])
    check_disjoint("actor", [], [], [])
    with pytest.raises(ValueError, match=r"Every actor must be in one split only; 2 is in both train and test\."):
        check_disjoint("actor", [1, 2], [3], [2, 4])
    with pytest.raises(ValueError, match=r"a, b, c and 1 more are in both validation and test\."):
        check_disjoint("video", [], "abcd", "abcd")


def test_every_source_says_where_to_get_it_and_under_which_licence():
    for name, one in SOURCES.items():
        assert name == one.name
        assert all((one.about, one.where, one.licence, one.folder, one.files))
        assert all(file.what for file in one.files)
        assert not any(path.startswith("/") or ".." in path for file in one.files for path in file.paths)


def test_a_name_that_no_file_can_have_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="is too long for a file name"):
        inside(tmp_path, "9" * 300)
