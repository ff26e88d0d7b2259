// The network in double, and in the complex numbers that check its derivatives: the product's own files once more.

#include <complex>

#define NIBBLE_SCALARS(instantiate) instantiate(double) instantiate(std::complex<double>)
#define NIBBLE_CACHED_SCALARS(instantiate) \
  instantiate(double, double) instantiate(std::complex<double>, std::complex<double>)

// NOLINTBEGIN(bugprone-suspicious-include)
#include "model/transformer/build.cc"
#include "model/transformer/cache/sequence.cc"
#include "model/transformer/cache/state_cache.cc"
#include "model/transformer/cache/window_cache.cc"
#include "model/transformer/decoder.cc"
#include "model/transformer/layers/attention_backward.cc"
#include "model/transformer/layers/attention_forward.cc"
#include "model/transformer/layers/block_backward.cc"
#include "model/transformer/layers/block_forward.cc"
#include "model/transformer/layers/embedding.cc"
#include "model/transformer/layers/experts_backward.cc"
#include "model/transformer/layers/experts_forward.cc"
#include "model/transformer/layers/head.cc"
#include "model/transformer/layers/make_feed_forward.cc"
#include "model/transformer/layers/mlp.cc"
#include "model/transformer/layers/norm.cc"
#include "model/transformer/layers/rope.cc"
#include "model/transformer/layers/routing.cc"
// NOLINTEND(bugprone-suspicious-include)
