"""The K3 architecture: modules, presets, decode caches, the MTP layer and the draft, checkpoints under the public names."""
