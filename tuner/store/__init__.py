"""The store: the ledger, the artifacts and the fingerprints."""
