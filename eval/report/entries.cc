#include "eval/report/entries.h"

#include <fmt/format.h>

namespace nibble::eval {

std::string Entry::comparable_key() const {
  return fmt::format("{}\n{}", fact(record.configuration, "model"), scored_text(record));
}

}  // namespace nibble::eval
