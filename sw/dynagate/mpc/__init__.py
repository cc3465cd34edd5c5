"""Controllers around the accelerator: does a format that is good enough on paper still control a robot?"""
