"""Drawings as a page: well-formed, of so many rectangles, and nothing beside it."""

import re
from xml.etree import ElementTree

import pytest

from pytest_affine.builders import contiguous_split_map, replicated_map
from pytest_affine.explaining.holdings import explain
from pytest_affine.explaining.page import to_page
from pytest_affine.fixtures.syncs import case
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap

SVG = "{http://www.w3.org/2000/svg}"
PADDED = ParamAffineMap(
    (2, 2),
    {0: (3, 2)},
    {0: [AffinePiece((2, 2), 0, (2, 1), 0, (2, 1), (0,))]},
    {0: [Padding((2,), 4, (1,))]},
)


def split(shape, extents, dim=0):
    return contiguous_split_map(shape, extents, dim)


def page(*arguments, **options):
    return ElementTree.fromstring(to_page(explain(case("drawn", *arguments, **options))))


def figures(root):
    """Of each figure, the rectangles of the full tensor and those of the shards."""
    return [
        (list(figure.find(f"{SVG}svg").iter(f"{SVG}rect")), list(figure.find("ul").iter(RECT)))
        for figure in root.iter("figure")
    ]


RECT = f"{SVG}rect"


def boxes(rectangles):
    sides = ("x", "y", "width", "height")
    return [tuple(float(each.get(side)) for side in sides) for each in rectangles]


def test_a_replica_is_hatched_and_padding_grey():
    (source, shards), (target, padded) = figures(
        page((replicated_map((2, 2), 2), PADDED), source=[0, 1], target=[2])
    )
    assert [each.get("fill") for each in source] == ["hsl(0, 60%, 75%)", "url(#hatch)"]
    assert boxes(source) == [(0, 0, 72, 72)] * 2
    assert boxes(shards) == [(0, 0, 360, 18)] * 2
    assert boxes(target) == [(0, 0, 72, 72)]
    # Four of six elements are held.
    assert boxes(padded) == [(0, 0, 240, 18), (240, 0, 120, 18)]
    assert padded[1].get("class") == "padding"


def test_boxes_are_labelled_by_their_holders_and_coloured_by_process():
    maps = split((4,), [2, 2]), split((4,), [3, 1])
    root = page(maps, source=[0, 1], target=[1, 0])
    assert [each.text for each in root.iter(f"{SVG}text")] == ["0", "1", "0", "1"]
    (source, shards), (target, _) = figures(root)
    first, second = (each.get("fill") for each in source)
    assert first != second
    assert [each.get("fill") for each in target] == [second, first]
    assert [each.get("fill") for each in shards] == [first, second]
    titles = [each.findtext(f"{SVG}title") for each in source]
    assert titles == ["[0:2] at 0", "[2:4] at 1"]


def test_a_box_of_three_axes_is_drawn_slab_by_slab():
    maps = split((2, 4, 3), [1, 1]), split((2, 4, 3), [1, 3], 1)
    _, (target, _) = figures(page(maps))
    # Eight rows of 30, columns of 36; slab 1 begins at row 4.
    assert boxes(target) == [
        (0, 0, 108, 30),
        (0, 120, 108, 30),
        (0, 30, 108, 90),
        (0, 150, 108, 90),
    ]


def test_a_label_that_does_not_fit_is_left_out():
    root = page((split((100,), [1, 99]), split((100,), [100])))
    assert [each.text for each in root.iter(f"{SVG}text")] == ["1", "0"]


def test_a_scalar_is_one_rectangle():
    one = replicated_map((), 1)
    assert [boxes(full) for full, _ in figures(page((one, one)))] == [[(0, 0, 36, 36)]] * 2


def test_no_elements_are_told():
    none = split((0,), [0])
    assert [each.text for each in page((none, none)).iter("p")][1:] == ["no elements"] * 2


def test_moves_are_a_table_and_so_is_what_stays():
    root = page((split((4,), [2, 2]), split((4,), [3, 1])))
    tables = {
        table.findtext("caption"): [[cell.text for cell in row] for row in table.iter("tr")]
        for table in root.iter("table")
    }
    assert tables == {
        "moves": [["process 1", "process 0", "4 bytes", "1 segment"]],
        "stays": [
            ["process 0", "process 0", "8 bytes", "1 segment"],
            ["process 1", "process 1", "4 bytes", "1 segment"],
        ],
    }


@pytest.mark.parametrize(
    ("name", "shown"), [('<b>&"x', '<b>&"x'), ("a\x00b", r"'a\x00b'"), ("a\nb", r"'a\nb'")]
)
def test_a_name_is_escaped(name, shown):
    one = split((1,), [1])
    root = page({name: (one, one)})
    assert root.find(".//h2").text == f"{shown} [1]"
    assert root.find(".//b") is None


def test_a_refusal_is_told_and_the_valid_side_is_drawn():
    gap = ParamAffineMap((2,), {0: (1,)}, {0: [AffinePiece((1,), 0, (1,), 0, (1,), (0,))]})
    root = page((gap, split((2,), [1, 1])))
    told = {each.get("class"): each.text for each in root.iter("p") if each.get("class")}
    assert "parameter 'weight'" in told["refusal"]
    assert "MAP-COVER" in told["refusal"]
    assert told["trouble"].startswith("the map breaks its rules:\n")
    assert len(list(root.iter(f"{SVG}text"))) == 2


def test_of_very_many_boxes_and_shards_the_first_are_drawn():
    root = page((split((600,), [1] * 600), split((600,), [600])))
    (source, shards), _ = figures(root)
    assert (len(source), len(shards)) == (512, 64)
    told = [each.text for each in root.iter("p")]
    assert told[1:] == ["only the first 512 rectangles are drawn", "and 536 more"]


def test_a_page_needs_nothing_beside_it():
    one = split((1,), [1])
    text = to_page(explain(case("alone", (one, one))))
    assert not re.search(r"<script|<link|<img|src=|href=|@import", text)
    links = set(re.findall(r"(?:url\(|https?://)[^)\"]*", text))
    assert links == {"http://www.w3.org/2000/svg"}
