#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace nibble::test {

/// Runs `action`, which must throw exactly an `ErrorType` (or one derived from it) whose text contains every one of
/// `words`.
template <class ErrorType, class Action, class... Words>
testing::AssertionResult throws_with(Action&& action, Words... words) {
  try {
    action();
  } catch (const ErrorType& error) {
    for (const std::string_view word : {std::string_view(words)...}) {
      if (std::string_view(error.what()).find(word) == std::string_view::npos)
        return testing::AssertionFailure() << "the message lacks '" << word << "': " << error.what();
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw something else: " << error.what();
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace nibble::test
