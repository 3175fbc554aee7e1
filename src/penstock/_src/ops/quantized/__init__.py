"""Quantized arithmetic."""
