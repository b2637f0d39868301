from __future__ import annotations

from pathlib import Path

from tuner.daemon.books import Books


def test_a_secret_is_hidden_for_good_also_when_its_name_gets_another_value(tmp_path: Path) -> None:
    books = Books(tmp_path, write=True)
    try:
        books.give(1, {"KEY": "the-first-one"})
        books.give(2, {"KEY": "of-another-study"})
        books.give(1, {"KEY": "a-newer-one"})
        said = books.redact.text("the-first-one, of-another-study, a-newer-one")
        assert said == "[KEY], [KEY], [KEY]"
        assert books.secrets(1) == {"KEY": "a-newer-one"}
    finally:
        books.close()
