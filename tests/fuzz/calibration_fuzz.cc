#include "calib/stats/stats_file.h"
#include "tests/fuzz/fuzz.h"

NIBBLE_FUZZ(input) {
  const auto file = nibble::calib::StatsFile::open(nibble::fuzz::file("calib.h5", input));
  for (const nibble::calib::LayerInfo& layer : file->layers()) file->read(layer.module);
}
