"""What every unit test shares: property tests are judged by what they find, not by the clock."""

from hypothesis import settings

# A deadline measures real time, so on a busy machine it fails tests that are right.
settings.register_profile("unit", deadline=None, print_blob=True)
settings.load_profile("unit")
