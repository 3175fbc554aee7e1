"""A program for `penstock launch`: workers train until a file `stop` is there, and write how far they are.

    elastic_program.py FOLDER [CHECKPOINTS]

CHECKPOINTS is the folder, or the URL in an object store, of checkpoints every 20 steps.
"""
import json
import os
import sys
import time

import penstock.compat.v1 as tf
from penstock._src.io.paths import write_atomically

tf.disable_v2_behavior()
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
folder, checkpoints = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
server = tf.train.Server(config["cluster"], job, index)
if job == "ps":
    server.join()
with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=config["cluster"])):
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.square(w - [3.0, -1.0]))
    train = tf.train.GradientDescentOptimizer(0.001).minimize(loss, step)
filters = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
saving = {"checkpoint_dir": checkpoints, "save_checkpoint_steps": 20, "save_summaries_steps": None} if checkpoints else {}
with tf.train.MonitoredTrainingSession(server.target, index == 0, config=filters, log_step_count_steps=None, **saving) as sess:
    own = 0
    while not os.path.exists(os.path.join(folder, "stop")):
        _, value, now = sess.run([train, loss, step])
        own += 1
        write_atomically(os.path.join(folder, f"worker{index}.json"),
                         json.dumps({"own": own, "step": int(now), "loss": float(value), "pid": os.getpid()}).encode())
        time.sleep(0.02)
