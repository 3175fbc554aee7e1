"""Sessions: what a caller fetches and feeds, and the steps that are kept for it."""
