"""Communication between devices and tasks."""
