"""Between devices and tasks."""
