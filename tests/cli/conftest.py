"""An abandoned engine for the commands that look after one."""

from tests.trial.care.conftest import abandon, ledger

__all__ = ["abandon", "ledger"]
