"""tf.contrib.keras: the names of tf.keras, where they were before."""
from penstock._src.compat.contrib import same

same("keras", "contrib.keras")
