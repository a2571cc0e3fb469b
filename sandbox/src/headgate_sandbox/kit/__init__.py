"""The parts of an emulated provider: a clock, a meter, faults, tokens and a control path.

A sandbox subclasses `kit.provider.Provider` and picks the other parts that it needs.
"""
