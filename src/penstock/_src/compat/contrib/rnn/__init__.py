"""tf.contrib.rnn: more cells, wrappers and functions for recurrent networks; those of tf.nn under their old names."""
from penstock._src.base.api import export
from penstock._src.compat.contrib import deeper, same
from penstock._src.compat.contrib.rnn import block, cells, convolutional, stacks, wrappers  # noqa: F401
from penstock._src.models.rnn import cell as _cell
from penstock._src.models.rnn import steps as _steps
from penstock.compat import v1 as tf

for _name in ("RNNCell", "BasicRNNCell", "BasicLSTMCell", "GRUCell", "LSTMCell", "LSTMStateTuple", "MultiRNNCell",
              "DropoutWrapper", "ResidualWrapper", "DeviceWrapper"):
    export.value(getattr(tf.nn.rnn_cell, _name), v1=[f"contrib.rnn.{_name}", f"contrib.rnn.rnn_cell.{_name}"])
for _name in ("static_rnn", "static_state_saving_rnn", "static_bidirectional_rnn", "dynamic_rnn", "bidirectional_dynamic_rnn",
              "raw_rnn"):
    export.value(getattr(tf.nn, _name), v1=[f"contrib.rnn.{_name}"])
export.value(_cell.LayerRNNCell, v1=["contrib.rnn.LayerRNNCell"])
export.value(_steps.transpose_batch_time, v1=["contrib.rnn.transpose_batch_time"])
export.value(_steps.batch_size_of, v1=["contrib.rnn.best_effort_input_batch_size"])
same("contrib.rnn", "contrib.rnn.core_rnn_cell", nested=False)

deeper("rnn", "ops.core_rnn_cell", "ops.core_rnn_cell_impl", "ops.core_rnn", "ops.rnn_cell", "ops.rnn", "ops.lstm_ops",
       "ops.gru_ops", "ops.fused_rnn_cell")
