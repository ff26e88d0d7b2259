#pragma once

#include <span>
#include <string_view>

namespace nibble::model {

/// A well-known model and the settings of its published config.json (without those of training).
struct PublishedConfig {
  std::string_view name;
  std::string_view json;
};

std::span<const PublishedConfig> published_configs();

}  // namespace nibble::model
