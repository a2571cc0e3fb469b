"""What every emulated provider is made of: a clock, a meter, faults, tokens and a control path.

A provider subclasses `kit.provider.Provider`; the rest of the kit is parts that it picks from.
"""
