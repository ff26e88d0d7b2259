#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/steps.h"

namespace nibble::model {

/// Unicode normalisation forms (UAX #15), by the tables of utf8proc: small, plain C, kept up with Unicode by the Julia
/// project, and in Debian. ICU would do the same from 30 MB of data. utf8proc's own driver sorts marks by insertion,
/// which is quadratic in a long run of them, so only its tables and its composition are used here. What is newer than
/// the tables of Hugging Face's tokenizers stays as it is.
class UnicodeForm {
 public:
  explicit UnicodeForm(UnicodeFormStep::Form form);
  /// Bytes that are not UTF-8 stay as they are, as a text of their own. Cost O(n log n), little for ASCII.
  std::string apply(std::string_view text) const;

 private:
  bool is_inert(char32_t code_point) const;
  void append_normalized(std::string& result, std::string_view text) const;
  void apply_valid(std::string& result, std::string_view text) const;

  bool compose_;
  bool compatible_;
  std::shared_ptr<const std::vector<bool>> inert_;  // by code point: stays, and does nothing to the one before
};

/// Lower case of each character, as Unicode's full mapping without conditions.
std::string lowercase(std::string_view text);

/// The text without combining marks, those of Unicode 9.0 as in Hugging Face's tokenizers.
std::string strip_accents(std::string_view text);

}  // namespace nibble::model
