"""Images: files, colors, sizes, boxes."""
