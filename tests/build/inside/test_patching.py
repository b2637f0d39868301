from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.build.inside.patching import (
    PatchError,
    apply_diff,
    apply_edits,
    replace,
    require,
    verify,
)

_LINES = st.lists(
    st.sampled_from(["a", "b", "c", "", "-- x", "\x0cform feed", "+ plus"]), max_size=30
)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _diff(old: str, new: str, context: int = 3) -> str:
    def split(text: str) -> list[str]:
        return [f"{line}\n" for line in text.split("\n")[:-1]]

    return "".join(difflib.unified_diff(split(old), split(new), "a/x", "b/x", n=context))


@given(old=_LINES, new=_LINES, context=st.integers(0, 3))
def test_a_diff_turns_the_old_text_into_the_new(
    old: list[str], new: list[str], context: int
) -> None:
    before, after = _text(old), _text(new)
    if before == after:
        return
    assert apply_diff(before, _diff(before, after, context), "x", "x.patch") == after


@given(numbers=st.integers(0, 40))
def test_a_hunk_is_found_where_it_moved_to(numbers: int) -> None:
    old = [f"line {n}" for n in range(20)]
    new = [*old[:10], "inserted", *old[10:]]
    diff = _diff(_text(old), _text(new))
    moved = [f"above {n}" for n in range(numbers)]
    assert apply_diff(_text(moved + old), diff, "x", "p") == _text(moved + new)


def test_a_hunk_whose_context_changed_is_refused_with_the_line() -> None:
    old = [f"line {n}" for n in range(20)]
    diff = _diff(_text(old), _text([*old[:10], "inserted", *old[10:]]))
    changed = _text([*old[:9], "something else", *old[10:]])
    with pytest.raises(PatchError) as caught:
        apply_diff(changed, diff, "vllm/x.py", "x.patch")
    message = "x.patch:3: the hunk does not apply to vllm/x.py:10"
    assert str(caught.value).startswith(message)
    assert "expected 'line 9', found 'something else'" in str(caught.value)
    assert caught.value.mend is not None


def test_a_hunk_that_fits_two_places_is_refused() -> None:
    diff = _diff("a\nb\n", "a\nx\nb\n")
    with pytest.raises(PatchError, match="does not apply"):
        apply_diff("z\na\nb\nz\na\nb\n", diff, "x", "p")


def test_a_missing_last_line_end_is_kept() -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n"
    assert apply_diff("old", diff, "x", "p") == "new"


@pytest.mark.parametrize("diff", ["", "not a diff\n", "@@ -1,3 +1,3 @@\n a\n"])
def test_a_malformed_diff_is_refused(diff: str) -> None:
    with pytest.raises(PatchError):
        apply_diff("a\nb\nc\n", diff, "x", "p")


def test_an_edit_must_be_there_as_often_as_it_says() -> None:
    edit = {"old": "eager=True", "new": "eager=False", "count": 2}
    assert apply_edits("eager=True eager=True", [edit], "x") == "eager=False eager=False"
    with pytest.raises(PatchError, match="is there 1 times, not 2"):
        apply_edits("eager=True", [edit], "x")


def test_crlf_is_refused_before_anything_else() -> None:
    with pytest.raises(PatchError, match=r"x\.py:2: CRLF line ends"):
        require("a\nb\r\n", ["b"], "x.py")


def test_lines_before_and_after_are_insisted_on() -> None:
    require("  a = 1\n", ["a = 1"], "x")
    with pytest.raises(PatchError, match="precondition not met: no line 'b'"):
        require("a\n", ["b"], "x")
    verify("  a = 1\n", "a = 1", "x")
    with pytest.raises(PatchError, match="after the change there is no line 'b'"):
        verify("a\n", "b", "x")


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("old")
    path.chmod(0o755)
    replace(path, "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [path]
