"""Input: queues, pipelines at run time, and the datasets that users hold."""
