#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "export/coreml/verify.h"

namespace nibble::coreml {
namespace {

using Integers = std::vector<std::int32_t>;

/// Follows values of a function back to what they were made of.
class SlotVerifier {
 public:
  explicit SlotVerifier(const Function& function) : function_(function) {
    for (const NamedType& input : function.inputs)
      if (input.type.state) states_[input.name].type = input.type.tensor;
    for (const Operation& operation : function.operations)
      for (const NamedType& output : operation.outputs) made_by_[output.name] = &operation;
  }

  void verify() {
    for (const Operation& operation : function_.operations) {
      if (operation.type == "read_state") states_.at(operand(operation, "input")).now = operation.outputs.front().name;
      if (operation.type == "slice_update") pending_ = &operation;
      if (operation.type == "write_state") written(operation);
      if (operation.type == "slice_by_index" && state_read(operand(operation, "x")) != nullptr) check_read(operation);
    }
    for (const auto& [name, state] : states_) {
      const std::size_t parts = state.by_block ? state.type.shape.front() : 1;
      require(state.writes == parts, name, fmt::format("it is written {} times, expected {}", state.writes, parts));
      require(!state.by_block || state.reads == parts, name,
              fmt::format("{} parts of it are read, expected {}", state.reads, parts));
    }
  }

 private:
  struct State {
    TensorType type;
    std::string now;  // the value it was last read as
    bool by_block = false;
    std::size_t writes = 0, reads = 0;
    std::set<std::int32_t> blocks;
    std::optional<std::int32_t> newest;  // the block that was written last
  };

  static void require(bool condition, const std::string& what, const std::string& reason) {
    NIBBLE_REQUIRE(condition, FormatError, "state '{}': {}", what, reason);
  }

  static std::string operand(const Operation& operation, const char* name, std::size_t index = 0) {
    const auto found = operation.inputs.find(name);
    if (found == operation.inputs.end() || found->second.size() <= index) return {};
    const auto* text = std::get_if<std::string>(&found->second[index]);
    return text == nullptr ? std::string() : *text;
  }

  // The operation of `type` that made a value; null where another did.
  const Operation* maker(const std::string& name, const char* type) const {
    const auto found = made_by_.find(name);
    return found == made_by_.end() || found->second->type != type ? nullptr : found->second;
  }

  template <class T>
  const T* constant(const std::string& name) const {
    const Operation* made = maker(name, "const");
    return made == nullptr ? nullptr : std::get_if<T>(&made->attributes.at("val").data);
  }
  bool is(const std::string& name, const Integers& values) const {
    const Integers* found = constant<Integers>(name);
    return found != nullptr && *found == values;
  }
  bool is(const std::string& name, const std::vector<bool>& values) const {
    const auto* found = constant<std::vector<bool>>(name);
    return found != nullptr && *found == values;
  }

  State* state_read(const std::string& value) {
    for (auto& [name, state] : states_)
      if (!state.now.empty() && state.now == value) return &state;
    return nullptr;
  }

  // dimension `axis` of an input.
  bool is_length(const std::string& name, const char* input, std::int32_t axis) const {
    const Operation* gathered = maker(name, "gather");
    const Operation* shape = gathered == nullptr ? nullptr : maker(operand(*gathered, "x"), "shape");
    return shape != nullptr && operand(*shape, "x") == input && is(operand(*gathered, "indices"), Integers{axis});
  }
  bool is_end(const std::string& name) const { return is_length(name, "causalMask", 3); }
  bool is_past(const std::string& name) const {
    const Operation* difference = maker(name, "sub");
    return difference != nullptr && is_end(operand(*difference, "x")) &&
           is_length(operand(*difference, "y"), "inputIds", 1);
  }

  // The block of a corner [block, 0, 0, slot, 0], whose slot is `is_slot` of a scalar; empty where it is none.
  template <class IsSlot>
  std::optional<std::int32_t> corner(const std::string& name, IsSlot&& is_slot) const {
    const Operation* joined = maker(name, "concat");
    if (joined == nullptr || joined->inputs.at("values").size() != 5) return {};
    const Integers* block = constant<Integers>(operand(*joined, "values", 0));
    const Operation* slot = maker(operand(*joined, "values", 3), "expand_dims");
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{4}})
      if (!is(operand(*joined, "values", i), Integers{0})) return {};
    if (block == nullptr || block->size() != 1 || slot == nullptr || !is_slot(operand(*slot, "x"))) return {};
    return block->front();
  }

  void written(const Operation& write) {
    const std::string name = operand(write, "input"), data = operand(write, "data");
    State& state = states_.at(name);
    ++state.writes;
    if (pending_ != nullptr && pending_->outputs.front().name == data) {
      state.by_block = true;
      check_update(name, state, *pending_);
      pending_ = nullptr;
      return;
    }
    check_slide(name, state, data);
  }

  void check_update(const std::string& name, State& state, const Operation& update) const {
    require(operand(update, "x") == state.now, name, "what is written is not the state as it was last read");
    const auto begin = corner(operand(update, "begin"), [&](const std::string& slot) { return is_past(slot); });
    const auto end = corner(operand(update, "end"), [&](const std::string& slot) { return is_end(slot); });
    require(begin && end && *end == *begin + 1, name,
            "a block's rows must go from [block, 0, 0, S - T, 0] to [block + 1, 0, 0, S, 0]");
    const std::vector<bool> open{false, true, true, false, true}, block{true, false, false, false, false};
    require(is(operand(update, "begin_mask"), open) && is(operand(update, "end_mask"), open) &&
                is(operand(update, "squeeze_mask"), block) && is(operand(update, "stride"), Integers{1, 1, 1, 1, 1}),
            name, "masks or strides of an update are wrong");
    require(*begin >= 0 && static_cast<std::uint64_t>(*begin) < state.type.shape.front() &&
                state.blocks.insert(*begin).second,
            name, fmt::format("block {} is written twice, or is none", *begin));
    state.newest = *begin;
  }

  void check_read(const Operation& read) {
    const auto& [name, state] = *std::find_if(
        states_.begin(), states_.end(), [&](const auto& entry) { return entry.second.now == operand(read, "x"); });
    require(state.newest.has_value(), name, "a block reads it before it wrote its rows");
    const Integers begin{*state.newest, 0, 0, 0, 0};
    const auto end = corner(operand(read, "end"), [&](const std::string& slot) { return is_end(slot); });
    require(is(operand(read, "begin"), begin) && end && *end == *state.newest + 1, name,
            fmt::format("after block {} was written, another part is read", *state.newest));
    require(is(operand(read, "begin_mask"), std::vector<bool>{false, true, true, true, true}) &&
                is(operand(read, "end_mask"), std::vector<bool>{false, true, true, false, true}) &&
                is(operand(read, "squeeze_mask"), std::vector<bool>{true, false, false, false, false}),
            name, "masks of a read are wrong");
    ++states_.at(name).reads;
  }

  // The newest rows of what was kept and the new rows behind it.
  void check_slide(const std::string& name, const State& state, const std::string& data) const {
    const Operation* slice = maker(data, "slice_by_index");
    const Operation* joined = slice == nullptr ? nullptr : maker(operand(*slice, "x"), "concat");
    require(joined != nullptr && joined->inputs.at("values").size() == 2, name,
            "what is written is neither an update of the state nor a slice of it with new rows");
    require(operand(*joined, "values", 0) == state.now, name, "the state as it was read must come first");
    const Integers *axis = constant<Integers>(operand(*joined, "axis")),
                   *begin = constant<Integers>(operand(*slice, "begin"));
    const auto* to_end = constant<std::vector<bool>>(operand(*slice, "end_mask"));
    require(axis != nullptr && axis->size() == 1 && begin != nullptr && to_end != nullptr, name,
            "a slide along no axis");
    const auto along = static_cast<std::size_t>(axis->front());
    require(along < begin->size() && along < to_end->size() && along < state.type.shape.size(), name,
            "a slide along no axis");
    const std::uint64_t all = joined->outputs.front().type.tensor.shape[along];
    require(static_cast<std::uint64_t>((*begin)[along]) == all - state.type.shape[along] && (*to_end)[along], name,
            fmt::format("rows from {} on are kept of {}, expected the newest {}", (*begin)[along], all,
                        state.type.shape[along]));
  }

  const Function& function_;
  std::map<std::string, State> states_;
  std::map<std::string, const Operation*> made_by_;
  const Operation* pending_ = nullptr;
};

}  // namespace

void verify_slots(const Function& function) { SlotVerifier(function).verify(); }

}  // namespace nibble::coreml
