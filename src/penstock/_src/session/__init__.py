"""Sessions: fetches and feeds of the caller, and the cached steps for them."""
