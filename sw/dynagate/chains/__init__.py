"""Forward dynamics of long serial chains: loops over links, compiled once for all robots, over the batch's samples."""
