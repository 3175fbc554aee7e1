"""Templates: functions that make their variables once and share them on every call."""
