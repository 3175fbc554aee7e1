"""Several clients, one variable: it is on a server, under its name, and outlives the sessions that use it.

    penstock server --cluster 'local=localhost:2222' &
    python examples/simple_client.py grpc://localhost:2222 --init     # 1.0
    python examples/simple_client.py grpc://localhost:2222            # 2.0
    python examples/simple_client.py grpc://localhost:2222            # 3.0

In a cluster, --device pins the variable to a task; then clients of any task share it. Without that, it is on the task that the
client talks to.
"""
import argparse

import penstock.compat.v1 as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--init", action="store_true", help="initialize the variable first")
    parser.add_argument("--device", help="such as /job:ps/task:0/cpu:0")
    args = parser.parse_args()
    with tf.device(args.device):
        x = tf.Variable(0.0, name="x")
        increment = x.assign_add(1.0)
    with tf.Session(args.target) as sess:
        if args.init:
            sess.run(x.initializer)
        sess.run(increment)
        print(sess.run(x))


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
