"""The ledger for commands that change something of one study, whoever holds its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.store.ledger import Ledger


def beside(state: Path) -> Ledger:
    """The ledger, open for writing; beside the tuner that holds its folder, where one does.

    There it takes the lock of the study that it works on, and no other.

    Args:
        state: The state folder.

    Raises:
        StateUnusable: When it cannot be written.
        LedgerCorrupt: When the file is not a ledger that this tuner can read.
    """
    from tuner.errors import StateUnusable
    from tuner.store.ledger import Ledger
    from tuner.store.locks import folder_holder

    try:
        return Ledger(state, write=True)
    except StateUnusable:
        if folder_holder(state) is None:
            raise
        return Ledger(state, write=True, hold=False)
