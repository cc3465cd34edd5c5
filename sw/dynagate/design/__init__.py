"""A design as files: design.json, its hash and checksums, the hash of the generator's source, the layout of
streams.
"""
