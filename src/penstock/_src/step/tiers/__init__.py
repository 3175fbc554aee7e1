"""Better versions of steps that run often: traced to one ATen graph, compiled in the background, checked, then swapped in."""
