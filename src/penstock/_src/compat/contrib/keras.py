"""tf.contrib.keras: the names of tf.keras, where they were before."""
import penstock._src.models.keras  # noqa: F401
from penstock._src.base import api

api.load("keras", "v1")
_table = api.TABLES["v1"]
for _name, _value in list(_table.items()):
    if _name.startswith("keras."):
        _table.setdefault(f"contrib.{_name}", _value)
