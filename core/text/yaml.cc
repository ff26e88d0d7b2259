#include "core/text/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/text/utf8.h"

namespace nibble {
namespace {

constexpr std::size_t kMaxDepth = 16;

void require_utf8(std::string_view text, std::string_view what) {
  std::size_t at = 0, length = 1;
  while (at < text.size() && (length = decode_utf8(text, at).length) != 0) at += length;
  if (length != 0) return;
  const std::string_view before = text.substr(0, at);
  const std::size_t start = before.rfind('\n') + 1;  // 0 on the first line: npos + 1
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  throw InvalidArgument(fmt::format("{}, line {}, column {}: expected UTF-8, got the byte 0x{:02X}", what, line,
                                    at - start + 1, static_cast<unsigned char>(text[at])));
}

// Builds the tree from yaml-cpp's events and refuses what recipes and sweeps have no use for. (yaml-cpp's own tree
// hides duplicate keys and follows aliases.)
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view what) : what_(what) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "?", anchor);
    add({YamlNode::Kind::kNull, "", {}, {}, mark.line + 1});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail(mark, "aliases are not allowed"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    if (!open_.empty() && open_.back().node.kind == YamlNode::Kind::kMapping && !open_.back().key) {
      open_.back().key = value;
      const auto& entries = open_.back().node.entries;
      if (std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.key == value; }))
        fail(mark, fmt::format("duplicate key '{}'", value));
      return;
    }
    add({YamlNode::Kind::kScalar, value, {}, {}, mark.line + 1});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, YamlNode::Kind::kMapping);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    YamlNode node;
    std::optional<std::string> key;  // of a mapping: read, and waiting for its value
  };

  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view reason) const {
    throw InvalidArgument(fmt::format("{}, line {}: {}", what_, mark.line + 1, reason));
  }
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) fail(mark, "anchors are not allowed");
    if (!tag.empty() && tag != "?" && tag != "!") fail(mark, fmt::format("the tag '{}' is not allowed", tag));
  }
  void start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    check(mark, tag, anchor);
    if (open_.size() >= kMaxDepth) fail(mark, fmt::format("nested more than {} deep", kMaxDepth));
    if (!open_.empty() && open_.back().node.kind == YamlNode::Kind::kMapping && !open_.back().key)
      fail(mark, "expected a key that is a single word");
    open_.push_back({{kind, "", {}, {}, mark.line + 1}, std::nullopt});
  }
  void end() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }
  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else {
      if (!parent.key) throw InvalidArgument(fmt::format("{}, line {}: expected a key, got nothing", what_, node.line));
      parent.node.entries.push_back({std::move(*parent.key), std::move(node)});
      parent.key.reset();
    }
  }

  std::string_view what_;
  YamlNode root_{YamlNode::Kind::kNull, "", {}, {}, 1};  // of an empty document
  std::vector<Open> open_;
};

}  // namespace

YamlNode parse_yaml(std::string_view text, std::string_view what) {
  NIBBLE_REQUIRE(text.size() <= kMaxYamlBytes, InvalidArgument, "{}: expected at most {} bytes, got {}", what,
                 kMaxYamlBytes, text.size());
  require_utf8(text, what);
  Builder builder(what);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    YamlNode root = builder.take();
    NIBBLE_REQUIRE(!parser.HandleNextDocument(builder), InvalidArgument, "{}: expected one YAML document, got several",
                   what);
    return root;
  } catch (const YAML::Exception& error) {
    throw InvalidArgument(fmt::format("{}, line {}: not valid YAML: {}", what, error.mark.line + 1, error.msg));
  }
}

}  // namespace nibble
