"""The classical recursive algorithms of rigid-body dynamics: passes over the links, outwards from the base and back."""
