#include "core/text/strict_json.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"

namespace nibble {
namespace {

using Json = nlohmann::json;

// "line 3, column 5", of text of one line "column 5": where the byte stands at which the parser gave up, the
// `position`-th.
std::string place_of(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, position == 0 ? 0 : position - 1);
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  if (text.find('\n') >= text.size() - 1) return fmt::format("column {}", column);
  return fmt::format("line {}, column {}", std::count(before.begin(), before.end(), '\n') + 1, column);
}

// What other programs write for JSON, and what to do about it.
std::string_view hint_for(std::string_view reason, std::string_view rest) {
  if (rest.starts_with("NaN") || rest.starts_with("Infinity"))
    return "; JSON has no NaN and no Infinity, though Python writes them: say null, or leave the key out";
  if (reason.find("surrogate") != std::string_view::npos)
    return "; this is half of a character, which no text can hold: leave it out";
  return {};
}

// Throws for what strict JSON is not, and keeps nothing. A pass of its own: the parser's callback would do, but looks
// through all members of an object whenever one of them ends, which takes minutes for a mixture's thousands of
// matrices.
class StrictHandler : public nlohmann::json_sax<Json> {
 public:
  StrictHandler(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return deeper();
  }
  bool key(string_t& key) override {
    NIBBLE_REQUIRE(keys_.back().insert(key).second, FormatError, "{}: duplicate key '{}'", what_, key);
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return end_array();
  }
  bool start_array(std::size_t) override { return deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) override {
    const std::string reason = json_error_text(error.what());
    const std::string_view rest = position == 0 || position > text_.size() ? "" : text_.substr(position - 1);
    throw FormatError(fmt::format("{}: not valid JSON at {}: {}{}", what_, place_of(text_, position), reason,
                                  hint_for(reason, rest)));
  }

 private:
  bool deeper() {
    constexpr std::size_t kMaxDepth = 64;
    NIBBLE_REQUIRE(++depth_ <= kMaxDepth, FormatError, "{}: JSON is nested more than {} deep", what_, kMaxDepth);
    return true;
  }

  std::string_view text_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open, outermost first

 protected:
  std::string_view what_;
  std::size_t depth_ = 0;
};

// Keeps one member of the outermost object besides.
class TextHandler final : public StrictHandler {
 public:
  TextHandler(std::string_view text, std::string_view name, std::string_view what)
      : StrictHandler(text, what), name_(name) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("boolean"); }
  bool number_integer(number_integer_t) override { return other("number"); }
  bool number_unsigned(number_unsigned_t) override { return other("number"); }
  bool number_float(number_float_t, const string_t&) override { return other("number"); }
  bool start_array(std::size_t size) override { return other("array") && StrictHandler::start_array(size); }
  bool start_object(std::size_t size) override {
    return (depth_ == 0 || other("object")) && StrictHandler::start_object(size);
  }
  bool string(string_t& text) override {
    const bool wanted = is_wanted();
    other("string");
    if (wanted) {
      found.kind = JsonText::Kind::kText;
      found.text = std::move(text);
    }
    return true;
  }
  bool key(string_t& key) override {
    constexpr std::size_t kMostKeys = 8;
    if (depth_ == 1) {
      is_next_ = key == name_;
      if (++found.key_count <= kMostKeys) found.keys.push_back(excerpt(key, 40));
    }
    return StrictHandler::key(key);
  }

  JsonText found;
  std::string_view outermost = "object";

 private:
  bool is_wanted() const { return depth_ == 1 && is_next_; }
  bool other(std::string_view type) {
    if (depth_ == 0) outermost = type;
    if (is_wanted()) {
      found.kind = JsonText::Kind::kOther;
      is_next_ = false;
    }
    return true;
  }

  std::string_view name_;
  bool is_next_ = false;  // the value of the member comes next
};

void refuse_zero_bytes(std::string_view text, std::string_view what) {
  NIBBLE_REQUIRE(text.find('\0') == std::string_view::npos, FormatError,  // the parser would take it for the end
                 "{}: not valid JSON: it contains a zero byte", what);
}

}  // namespace

std::string json_error_text(std::string_view said) {
  if (const std::size_t end = said.find("] "); said.starts_with('[') && end != std::string_view::npos)
    said.remove_prefix(end + 2);
  if (const std::size_t dash = said.find(" - "); said.starts_with("parse error") && dash != std::string_view::npos)
    said.remove_prefix(dash + 3);
  const std::size_t read = said.find("; last read: '"), expected = said.rfind("'; expected ");
  std::string reason(said.substr(0, read));
  if (expected != std::string_view::npos && read < expected) reason += said.substr(expected + 1);
  return excerpt(reason, 240);
}

nlohmann::json parse_strict_json(std::string_view text, std::string_view what) {
  refuse_zero_bytes(text, what);
  StrictHandler handler(text, what);
  Json::sax_parse(text, &handler);
  return Json::parse(text);
}

JsonText strict_json_text(std::string_view text, std::string_view name, std::string_view what) {
  refuse_zero_bytes(text, what);
  TextHandler handler(text, name, what);
  Json::sax_parse(text, &handler);
  NIBBLE_REQUIRE(handler.outermost == "object", FormatError, "{}: expected a JSON object, got {}", what,
                 handler.outermost);
  return std::move(handler.found);
}

}  // namespace nibble
