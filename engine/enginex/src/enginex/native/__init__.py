"""The compiled kernel: C++ sources, the command that builds them, and the library that comes of it."""
