"""Where values meet ATen: conversions between numpy, torch and strings."""
