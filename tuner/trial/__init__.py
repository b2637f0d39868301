"""The trial: the one state machine that walks a point through all rooms, and the study around it."""
