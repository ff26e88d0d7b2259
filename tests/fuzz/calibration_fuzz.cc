#include "calib/stats/stats_file.h"
#include "tests/fuzz/fuzz.h"

// HDF5 1.10 itself leaks where it gives up on a broken file.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

NIBBLE_FUZZ(input) {
  const auto file = nibble::calib::StatsFile::open(nibble::fuzz::file("calib.h5", input));
  for (const nibble::calib::LayerInfo& layer : file->layers()) file->read(layer.module);
}
