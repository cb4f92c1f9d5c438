"""Operations of the model, each with a float64 naive twin (`naive`) and, where it pays, a C kernel (`native`).

Sequence operations take T tokens of D documents laid end to end; `core.layout.DocLayout` says where documents begin.
"""
