"""Input: queues, pipelines at run time, and the public dataset classes."""
