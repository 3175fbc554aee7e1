"""Neural networks: convolutions, pooling, normalization, losses, optimizer updates."""
