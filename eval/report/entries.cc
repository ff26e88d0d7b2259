#include "eval/report/entries.h"

#include <fmt/format.h>

namespace nibble::eval {

std::string Entry::comparable_key() const {
  return fmt::format("{}\n{}", fact(record.configuration, "model"), fact(record.configuration, "evaluation"));
}

}  // namespace nibble::eval
