"""The library geomstats, in both directions: its metrics here, this library's connections there.

geomstats is imported when one of the functions is called.
"""

from connections.interop.geomstats.loading import import_geomstats
from connections.interop.geomstats.reading import from_geomstats
from connections.interop.geomstats.translation import GeomstatsMetric, Parametrization
from connections.interop.geomstats.writing import to_geomstats

__all__ = ["GeomstatsMetric", "Parametrization", "from_geomstats", "import_geomstats", "to_geomstats"]
