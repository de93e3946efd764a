"""What is measured: profiles, models, data sets, the runner, metrics, and the cost of a verification forward."""

from samlib.bench.model import load_model
from samlib.bench.profiles import Profile, load_profile, profile_names
from samlib.bench.static import load_static

__all__ = ["Profile", "load_model", "load_profile", "load_static", "profile_names"]
