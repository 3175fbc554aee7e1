"""Everything behind the public modules. Nothing here is API: import from `penstock` instead."""
