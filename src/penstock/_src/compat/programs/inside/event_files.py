"""Of `training.summary_io`: writers of event files under their earlier names."""
from penstock._src.training.summary.file_writer import FileWriter as SummaryWriter  # noqa: F401
from penstock._src.training.summary.file_writer import FileWriterCache as SummaryWriterCache  # noqa: F401
