"""The command `explain`: what it prints and writes, and what it refuses."""

from xml.etree import ElementTree

import pytest

from pytest_affine.__main__ import main
from pytest_affine.builders import contiguous_split_map
from pytest_affine.explaining.holdings import explain
from pytest_affine.explaining.text import to_text
from pytest_affine.fixtures.syncs import case

ROWS = case("rows", tuple(contiguous_split_map((4,), rows, 0) for rows in ([2, 2], [3, 1])))


def test_a_case_in_a_line_is_drawn(capsys):
    assert main(["explain", ROWS.to_line()]) == 0
    assert capsys.readouterr().out == to_text(explain(ROWS)) + "\n"


def test_a_case_in_a_file_is_drawn_and_a_page_is_written(tmp_path, capsys):
    (tmp_path / "case.json").write_text(ROWS.to_line())
    written = tmp_path / "page.html"
    assert main(["explain", str(tmp_path / "case.json"), "--html", str(written)]) == 0
    assert capsys.readouterr().out.endswith(f"\n\na page was written to {written}\n")
    assert ElementTree.parse(written).findtext(".//h2") == "weight [4]"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere.json"], "error: no file 'nowhere.json' can be read: No such file"),
        (['{"kind": "builder"}'], "error: a case of the kind 'builder' has no sync to be drawn"),
        (["{"], "error: a case must be one JSON object"),
        ([ROWS.to_line(), "--html", "no/page.html"], "error: no/page.html can not be written: "),
    ],
)
def test_what_can_not_be_drawn_exits_with_2(arguments, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explain", *arguments]) == 2
    assert text in capsys.readouterr().err
