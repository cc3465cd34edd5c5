"""The benchmark behind `dynagate bench`: the time of one function of one robot on every device, in one run."""
