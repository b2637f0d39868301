"""The probes, by what they are about. Each asks a server something and raises when it does not do it."""
