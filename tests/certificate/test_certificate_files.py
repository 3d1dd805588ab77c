import os
import stat

import pytest

from pytest_affine.certificate.files import read_text, remove_old, write_atomically
from pytest_affine.certificate.shape import DocumentError


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "c.json"
    write_atomically(path, "old\n")

    def fail(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(DocumentError, match=r"c\.json can not be written: No space left on device"):
        write_atomically(path, "new\n")
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["c.json"]


def test_a_file_is_written_as_others_are(tmp_path):
    write_atomically(tmp_path / "c.json", "ö\n")
    (tmp_path / "other").write_text("")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("c.json", "other")}
    assert len(modes) == 1
    assert read_text(tmp_path / "c.json") == "ö\n"


def test_an_old_file_is_removed_and_a_folder_made(tmp_path):
    path = tmp_path / "out" / "c.json"
    remove_old(path)
    path.write_text("old")
    remove_old(path)
    assert os.listdir(tmp_path / "out") == []


def test_a_path_that_no_file_can_be_at_is_refused(tmp_path):
    with pytest.raises(DocumentError, match="can not be written: Is a directory"):
        remove_old(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(DocumentError, match="can not be written: "):
        remove_old(tmp_path / "file" / "c.json")
