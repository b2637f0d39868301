"""What the API answers, a module for each kind of thing that it is about."""
