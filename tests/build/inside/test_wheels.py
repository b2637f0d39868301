from __future__ import annotations

from pathlib import Path

import pytest

from tuner.build.inside.wheels import WheelMissing, missing, require

LOCK = """\
# a comment
torch==2.13.0+cpu
Partial-JSON.parser==0.2.1.1.post7
intel-openmp==2024.2.1; platform_machine == "x86_64"
numba==0.65.0
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "lock.txt").write_text(LOCK)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    (wheels / "partial_json_parser-0.2.1.1.post7-py3-none-any.whl").touch()
    return wheels


def test_a_whole_wheelhouse_is_accepted(tmp_path: Path, house: Path) -> None:
    (house / "numba-0.65.0-cp311-cp311-linux_x86_64.whl").touch()
    require(tmp_path, "lock.txt", house)


def test_a_missing_wheel_is_named_with_its_line(tmp_path: Path, house: Path) -> None:
    (house / "numba-0.64.0-cp311-cp311-linux_x86_64.whl").touch()
    with pytest.raises(WheelMissing) as caught:
        require(tmp_path, "lock.txt", house)
    assert str(caught.value) == "lock.txt:5: numba==0.65.0: no wheel in the wheelhouse"
    assert "pip download --no-deps --dest WHEELHOUSE numba==0.65.0" in caught.value.mend


def test_a_source_archive_is_no_wheel(tmp_path: Path, house: Path) -> None:
    (house / "numba-0.65.0.tar.gz").touch()
    with pytest.raises(WheelMissing):
        require(tmp_path, "lock.txt", house)


def test_only_the_first_few_are_listed(tmp_path: Path, house: Path) -> None:
    (tmp_path / "many.txt").write_text("".join(f"p{n}==1\n" for n in range(20)))
    with pytest.raises(WheelMissing, match="and 15 more"):
        require(tmp_path, "many.txt", house)


def test_lines_with_a_marker_count_only_where_asked(tmp_path: Path, house: Path) -> None:
    (house / "numba-0.65.0-cp311-cp311-linux_x86_64.whl").touch()
    assert [number for number, _ in missing(tmp_path / "lock.txt", house)] == [4]
