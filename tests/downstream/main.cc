// What a user of the installed libraries writes: find_package(nibble), then the headers as inside the tree.
#include <fmt/format.h>

#include <vector>

#include "core/matrix/gemm.h"
#include "quant/algo/kmeans/palette.h"

int main() {
  const std::vector<float> values{-1.0f, -0.9f, 0.0f, 0.1f, 1.0f, 1.1f};
  const nibble::quant::Palette palette = nibble::quant::fit_palette(values, {}, {.centroids = 3});
  fmt::print("palette of 3 for 6 values: {:.3f} {:.3f} {:.3f}, cost {:.4f} ({})\n", palette.centroids[0],
             palette.centroids[1], palette.centroids[2], palette.cost, nibble::gemm_identity());
  return palette.cost > 0.0 && palette.cost < 0.0151 ? 0 : 1;
}
