"""Plan a pipelined datapath: the cost of each operation, its start cycle, its unit and its registers."""
